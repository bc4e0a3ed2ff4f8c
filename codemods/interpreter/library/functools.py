"""Functions of functions: ``functools``, and what maps over trees of containers."""

from __future__ import annotations

import ast
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


def _mapped(interp: Interpreter, function: Value, tree: Value, node: ast.expr) -> Value:
    """Copy of nested containers with *function* applied to every leaf in them."""
    match tree:
        case Sequence():
            slots = [Binding(_mapped(interp, function, interp.read(slot, tree), node)) for slot in tree.items]
            return Sequence(tree.kind, slots, tree.more, limit=tree.limit, fields=tree.fields)
        case Mapping():
            items = {
                key: Binding(_mapped(interp, function, interp.read(slot, tree), node))
                for key, slot in tree.items.items()
            }
            return Mapping(items, tree.more, default=tree.default)
    return interp.call(function, [tree], {}, node)
