"""``MessagePassing`` of PyTorch Geometric: what its ``propagate`` calls of the layer that is derived from it.

Source: "Creating Message Passing Networks" in PyTorch Geometric's documentation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.library.modules import of_module
from autofix.codemods.interpreter.library.registry import DECLINED, Call
from autofix.codemods.interpreter.values import Function, Instance, Name, Sequence, TensorRef, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_ENDS = {"_j": 0, "_i": 1}
"""What a parameter's name ends with for the features of an edge's source and of its target, and their place in a pair
of features."""


@of_module("propagate")
def _propagate(
    interp: Interpreter, call: Call, layer: TorchModule | Instance, edges: Value, /, *_: Value, **features: Value
) -> Value:
    """``self.propagate(edge_index, x=x)``: ``message`` for each edge, ``aggregate`` for each node, ``update``."""
    if not isinstance(layer, Instance) or not is_message_passing(layer):
        return DECLINED
    given = {**features, "edge_index": edges}
    messages = _called(interp, layer, "message", [], given, call.node)
    if messages is None:
        messages = _of_edges(interp, features.get("x"), 0, call.node)
    gathered = _called(interp, layer, "aggregate", [messages], given, call.node)
    if gathered is None:
        gathered = _computed(interp, "scatter_add", messages, call.node)
    updated = _called(interp, layer, "update", [gathered], given, call.node)
    return gathered if updated is None else updated


def is_message_passing(layer: Instance) -> bool:
    """Whether a class is derived from PyTorch Geometric's ``MessagePassing``."""
    bases = class_lookup.lineage(layer.cls)
    return any(isinstance(one, Name) and one.path.startswith("torch_geometric.") for one in bases)


def _called(
    interp: Interpreter, layer: Instance, name: str, first: list[Value], given: Mapping[str, Value], node: ast.expr
) -> Value:
    """The result of a method of the program's own, each of its parameters by its name; None where there is none."""
    method = class_lookup.find(layer, name)
    if not isinstance(method, Function) or not isinstance(method.node, (ast.FunctionDef, ast.Lambda)):
        return None
    own = [*method.node.args.posonlyargs, *method.node.args.args][1 + len(first) :]
    defaults = len(method.node.args.defaults)
    needed = own[: len(own) - defaults] if defaults else own
    named = {
        one.arg: value
        for one in (*own, *method.node.args.kwonlyargs)
        for value in _features(interp, one.arg, given, node)
    }
    for one in needed:
        named.setdefault(one.arg, interp.fresh_symbol("edges", one.arg))
    return interp.call(class_lookup.bind(method, layer), first, named, node)


def _features(interp: Interpreter, name: str, given: Mapping[str, Value], node: ast.expr) -> Iterator[Value]:
    """The argument for one parameter, if the call of ``propagate`` gives it: ``x`` for ``x``, ``x_i`` and ``x_j``."""
    base, end = name[:-2], name[-2:]
    if name in given:
        yield given[name]
    elif end in _ENDS and base in given:
        yield _of_edges(interp, given[base], _ENDS[end], node)


def _of_edges(interp: Interpreter, features: Value, at: int, node: ast.expr) -> Value:
    """The features of the nodes at one end of all edges; of a pair of features those for this end."""
    if isinstance(features, Sequence) and len(features.items) == 2:
        features = features.items[at].value
    return _computed(interp, "index_select", features, node)


def _computed(interp: Interpreter, name: str, value: Value, node: ast.expr) -> Value:
    if isinstance(value, TensorRef):
        return interp.operation(name, [value], node)
    return interp.opaque(name, [value], node, differentiable=True)
