"""Networks whose source is not read: what shows that a value is one, and what its calls save."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf, Saved
from autofix.codemods.interpreter.values import (
    Class,
    Instance,
    Mapping,
    Method,
    Sequence,
    Symbol,
    TorchModule,
    Value,
    slots_of,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_LIBRARIES = frozenset("torch numpy builtins math random os sys re json copy functools itertools collections".split())
"""Packages whose functions make no network that is not known as one."""


def trained(interp: Interpreter, params: Value, node: ast.expr) -> list[Leaf]:
    """The parameters of an optimizer that is given those of a module in which none is known.

    PyTorch refuses an empty list, so there are some: those of the parts that were not read, and are called.
    """
    module = interp.without_known_parameters.get(interp.identity(params))
    if module is None and isinstance(params, Sequence):  # groups, or several models' parameters
        return [leaf for slot in params.items for leaf in trained(interp, slot.value, node)]
    if module is None and isinstance(params, Mapping) and "params" in params.items:
        return trained(interp, params.items["params"].value, node)
    found = list(_parts(module, set()))
    for part in found:
        part.leaf = part.leaf or interp.leaf("model", node)
    return [part.leaf for part in found if part.leaf is not None]


def _parts(value: Value, seen: set[int]) -> Iterator[Symbol]:
    """The parts of a module that were made elsewhere and that the module's own code calls."""
    if id(value) in seen:
        return
    seen.add(id(value))
    match value:
        case Instance():
            for name, slot in value.names.items():
                if isinstance(slot.value, Symbol):
                    if _is_made_elsewhere(slot.value) and _is_called(value.cls, name):
                        yield slot.value
                else:
                    yield from _parts(slot.value, seen)
        case TorchModule():
            for slot in value.children.values():
                yield from _parts(slot.value, seen)
        case Sequence() | Mapping():
            for slot in slots_of(value):
                yield from _parts(slot.value, seen)


def _is_made_elsewhere(value: Symbol) -> bool:
    """Whether a value is the result of a function, or an object of a class, that was not read, or was handed in."""
    match value.key:
        case ("new" | "~", "call", str(path), *_):
            return "." in path and path.partition(".")[0] not in _LIBRARIES
        case ("new" | "~", "call", ("method", *_), *_) | ("parameter", *_):
            return True  # `HEADS.get(config.kind)(**config)`
    return False


def _is_called(cls: Class, name: str) -> bool:
    """Whether a class calls its attribute *name*, as ``forward`` does with a layer."""
    return name in cls.source.remembered(cls.node, _called)


def _called(cls: ast.ClassDef) -> frozenset[str]:
    """The attributes of ``self`` that a class calls."""
    functions = (node.func for node in ast.walk(cls) if isinstance(node, ast.Call))
    return frozenset(
        function.attr
        for function in functions
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self"
    )


def set_flag(interp: Interpreter, parameter: Symbol, wanted: Value) -> None:
    """``requires_grad`` of a parameter of an unread model is set: without it, its results may have no graph any more.

    In a loop over all of them, of which no optimizer has been given any.  Some may be set again, be it by a part of the
    model: nobody knows from then on whether a result has a graph.
    """
    listed = interp.identified(_whole(parameter.key))
    model = listed.receiver if isinstance(listed, Method) else None
    if wanted is True or not isinstance(model, Symbol) or model.leaf is None or model.leaf in interp.tape.owned:
        return
    if any(interp.statement.node in loop.body for loop in interp.statement.source.nodes.of(ast.For)):
        model.leaf = None


def _whole(key: Hashable) -> Hashable:
    """The identity of what an item is of, or an item of an item: ``for name, p in model.named_parameters()``."""
    while isinstance(key, tuple) and key[:1] == ("item",):
        key = key[1]
    return key[1] if isinstance(key, tuple) and key[:1] == ("object",) else None


def saved(leaf: Leaf | None) -> list[Saved]:
    """Tensors that a call of an unread network saves: the weights of *leaf*; none without one, or if it is frozen.

    Too many for a network of a single layer, which saves no weight for an input without a graph.
    """
    if leaf is None or leaf.frozen:
        return []
    return [leaf.storage.as_saved()]
