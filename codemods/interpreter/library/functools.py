"""Functions of functions: ``functools``, and what maps over trees of containers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.comprehensions import accumulated
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Binding, Function, Mapping, Name, Partial, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("functools.partial")
def _partial(interp: Interpreter, call: Call, function: Value, /, *args: Value, **keywords: Value) -> Value:
    return Partial(function, list(args), keywords)


@model("functools.partialmethod")
def _partial_method(interp: Interpreter, call: Call, function: Value, /, *args: Value, **keywords: Value) -> Value:
    if not isinstance(function, Function):
        return DECLINED
    return Partial(function, list(args), keywords, method=True)


@model("functools.reduce")
def _reduce(interp: Interpreter, call: Call, function: Value, iterable: Value, /, *initial: Value) -> Value:
    steps = accumulated(interp, function, iterable, list(initial[:1]), call.node)
    return steps.items[-1].value if steps.items else interp.fresh_symbol("reduced")


@model("functools.cache", "functools.lru_cache")
def _cached(interp: Interpreter, call: Call, function: Value = None, *_: Value, **__: Value) -> Value:
    """``lru_cache(function)``: the function, which keeps what it returns; ``lru_cache(8)`` is what makes it so."""
    if function is None or isinstance(function, int):
        return Name("functools.cache")
    if isinstance(function, Function):
        return replace(function, cache={}, cached_by=interp.site(call.node))
    return interp.fresh_symbol("cached")


@model("*.tree_map", "*.map_structure")
def _tree_map(interp: Interpreter, call: Call, function: Value, tree: Value, /, **_: Value) -> Value:
    return _mapped(interp, function, tree, call.node)


_UNFLATTEN = Name("torch.utils._pytree.tree_unflatten")


@model("*.tree_flatten")
def _tree_flatten(interp: Interpreter, call: Call, tree: Value, /, **_: Value) -> Value:
    """The leaves of nested containers, and their structure, which is what makes such containers of other leaves."""
    leaves: list[Value] = []

    def noted(leaf: Value) -> Value:
        leaves.append(leaf)
        return leaf

    like = _copied(interp, noted, tree)
    slots = [Binding(leaf) for leaf in leaves]
    return Sequence("tuple", [Binding(Sequence("list", slots)), Binding(Partial(_UNFLATTEN, [like], {}))])


@model("*.tree_unflatten")
def _tree_unflatten(interp: Interpreter, call: Call, leaves: Value, structure: Value, /) -> Value:
    known = isinstance(structure, Partial) and structure.function is _UNFLATTEN
    if not known or not isinstance(leaves, Sequence) or leaves.more:
        return DECLINED
    rest = iter(leaves.items)
    made = _copied(interp, lambda _: interp.read(next(rest, Binding(None))), structure.args[0])
    return made if next(rest, None) is None else DECLINED


@model("*.tree_leaves")
def _tree_leaves(interp: Interpreter, call: Call, tree: Value, /, **_: Value) -> Value:
    return interp.read(_tree_flatten(interp, call, tree).items[0])


def _mapped(interp: Interpreter, function: Value, tree: Value, node: ast.expr) -> Value:
    """Copy of nested containers with *function* of the program applied to every leaf in them."""
    return _copied(interp, lambda leaf: interp.call(function, [leaf], {}, node), tree)


def _copied(interp: Interpreter, change: Callable[[Value], Value], tree: Value) -> Value:
    """Copy of nested containers with every leaf in them changed."""
    match tree:
        case Sequence():
            slots = [Binding(_copied(interp, change, interp.read(slot, tree))) for slot in tree.items]
            return Sequence(tree.kind, slots, tree.more, limit=tree.limit, fields=tree.fields, cls=tree.cls)
        case Mapping():
            items = {key: Binding(_copied(interp, change, interp.read(slot, tree))) for key, slot in tree.items.items()}
            return Mapping(items, tree.more, default=tree.default, cls=tree.cls)
    return change(tree)
