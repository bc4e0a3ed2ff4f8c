"""Python's built-in functions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import (
    attributes,
    cuts,
    elements,
    extents,
    mapping_keys,
    streams,
    written,
)
from autofix.codemods.interpreter.generators import Exhausted
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.library.iterators import is_empty
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unpacking import copy_of, unpacked
from autofix.codemods.interpreter.values import (
    Binding,
    Mapping,
    Name,
    Sequence,
    Symbol,
    TensorRef,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("builtins.compile", "builtins.*")
def _unread(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return interp.opaque(call.name.removeprefix("builtins."), [*args, *keywords.values()], call.node)


# Containers


@model("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")
def _container(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    kind = "set" if call.last == "frozenset" else call.last
    return copy_of(interp, args[0], kind, call.node) if args else Sequence(kind)


@model("builtins.dict")
def dictionary(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Mapping:
    """``dict(pairs, name=value)``."""
    node = call.node
    mapping = Mapping({name: interp.slot(value, name, written.keyword(node, name)) for name, value in keywords.items()})
    if args:
        if isinstance(args[0], Mapping):
            mapping.items = {**args[0].items, **mapping.items}
            mapping.more = args[0].more
        else:
            items = streams.stream(interp, args[0], node)
            mapping.more = items.cut
            for at in range(min(items.limit or items.count or 0, 16)):
                try:
                    pair = items.at(at, True)
                except Exhausted:
                    break
                if isinstance(pair, Sequence) and len(pair.items) == 2:
                    key = mapping_keys.mapping_key(interp, interp.read(pair.items[0], pair))
                    mapping.items[key] = Binding(interp.read(pair.items[1], pair))
    mapping.more = mapping.more or node in interp.spread
    mapping.cls = call.name if call.name in ("builtins.dict", "collections.OrderedDict") else ""
    return mapping


@model("builtins.slice")
def _slice(interp: Interpreter, call: Call, *args: Value) -> Value:
    return slice(*args) if args and all(arg is None or isinstance(arg, int) for arg in args) else DECLINED


@model("builtins.len")
def _len(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return kind_of(value).length(interp, value, call.node)


# Numbers


@model("builtins.sum")
def _sum(interp: Interpreter, call: Call, iterable: Value, *start: Value, **keywords: Value) -> Value:
    node, args = call.node, [iterable, *start, *keywords.values()]
    values = unpacked(interp, iterable, None, node) if not isinstance(iterable, TensorRef) else [iterable]
    if any(isinstance(value, TensorRef) for value in values):
        total = interp.operation("sum_of", values, node, scalar=_all_scalar(values), opaque=False)
        if isinstance(iterable, TensorRef):  # over its rows
            total.cell.extent = extents.of_item(extents.extent_of(iterable), 0)
        else:
            total.cell.extent = extents.of_operation("sum_of", values, {}, total.cell.scalar)
        return total
    if values and all(isinstance(value, (int, float)) for value in values) and not isinstance(iterable, Symbol):
        with suppress(OverflowError):  # whole numbers that no float can hold
            return sum(values)
    joined = [*start, *keywords.values(), *values]
    if isinstance(iterable, Sequence) and len(joined) > 1 and all(isinstance(one, Sequence) for one in joined):
        join = interp.call(Name("operator.add"), joined[:2], {}, node)  # `sum(lists, [])`
        for one in joined[2:]:
            join = interp.call(Name("operator.add"), [join, one], {}, node)
        if isinstance(join, Sequence):
            join.more = join.more or iterable.more
        return join
    return cuts.carry(interp, interp.opaque("sum", args, node), args, node)


def _all_scalar(values: list[Value]) -> bool | None:
    return True if all(not isinstance(value, TensorRef) or value.cell.scalar for value in values) else None


@model("builtins.all", "builtins.any")
def _holds_for(interp: Interpreter, call: Call, items: Value, /) -> Value:
    """``all`` and ``any`` of items that are known: of one, what that one is."""
    every = call.last == "all"
    if not isinstance(items, Sequence) or items.more or len(items.items) > streams.ITEMS:
        return interp.fresh_symbol(call.last)
    values = [interp.read(slot) for slot in items.items]
    if any(isinstance(value, TensorRef) for value in values):
        return interp.fresh_symbol(call.last)
    likely = call.node not in interp.unrolling.doubted
    decided = (interp.truth(value, likely=likely) is every for value in values)
    return every if all(decided) else not every


@model("builtins.int", "builtins.float")
def _number(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    kind: Callable[..., Any] = int if call.last == "int" else float
    if not args:
        return kind()
    value = args[0]
    if isinstance(value, (int, float, str)):
        try:
            return kind(value)
        except (OverflowError, ValueError):  # `int(float("inf"))`, `int("a")`
            return interp.fresh_symbol("number")
    if isinstance(value, Symbol):
        if isinstance(value.usual, str):
            return _usual_number(interp, kind, value, value.usual)
        opaque = isinstance(value.key, tuple) and value.key[:1] == ("~",)
        # An unknown value may be a tensor, and then has a `detach()` that its number has not.
        return replace(value, key=("float", value.key)) if opaque and kind is float else value
    return cuts.carry(interp, interp.fresh_symbol("number"), args, call.node, "number")


def _usual_number(interp: Interpreter, kind: Callable[..., Any], text: Symbol, usual: str) -> Symbol:
    """The number in an unknown text with a default: ``int(os.getenv("WORKERS", "4"))``."""
    number = interp.symbol((kind.__name__, text.key))
    with suppress(ValueError):
        number.usual = kind(usual)
    return number


@model("builtins.bool")
def _bool(interp: Interpreter, call: Call, value: Value = False, /) -> Value:
    return value if isinstance(value, (bool, Symbol)) else interp.truth(value)


@model("builtins.round")
def _round(interp: Interpreter, call: Call, value: Value, *digits: Value, **_: Value) -> Value:
    if is_constant(value):
        return value
    return cuts.carry(interp, interp.fresh_symbol("round"), [value, *digits], call.node)


@model("builtins.abs")
def _abs(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return abs(value) if isinstance(value, (int, float)) else interp.opaque("abs", [value], call.node)


@model("builtins.max", "builtins.min")
def _extreme(interp: Interpreter, call: Call, first: Value, *others: Value, **keywords: Value) -> Value:
    args, node = [first, *others], call.node
    if "default" in keywords and not others and is_empty(first):
        return keywords["default"]
    if others and all(isinstance(arg, (int, float)) for arg in args):
        return max(args) if call.last == "max" else min(args)
    if not others and "key" in keywords and isinstance(first, Sequence) and first.items:
        return _chosen(interp, call, first, keywords["key"])
    keys = [interp.key(arg) for arg in args]
    if others and all(map(cuts.plain_number, keys)):
        return cuts.carry(interp, interp.symbol((call.last, *keys)), args, node)
    return cuts.carry(interp, interp.opaque("extreme", args, node), args, node)


def _chosen(interp: Interpreter, call: Call, items: Sequence, key: Value) -> Value:
    """``max(items, key=key)``: one of the items, the one that the keys say where they are known."""
    if not items.more and len(items.items) <= streams.ITEMS:
        keys = [interp.call(key, [interp.read(slot, items)], {}, call.node) for slot in items.items]
        if all(isinstance(one, (int, float)) for one in keys):
            at = keys.index(max(keys) if call.last == "max" else min(keys))
            return interp.read(items.items[at], items)
    return elements.item(interp, items, interp.fresh_symbol("choice"), call.node)


# Text and input


@model("builtins.print")
def _print(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    attributes.shown(interp, args, call.node)


@model("builtins.str")
def _str(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    if not args:
        return ""
    if is_constant(args[0]):
        return str(args[0])
    if isinstance(args[0], Symbol):
        attributes.shown(interp, args, call.node)
        return interp.symbol(("text", args[0].key))
    return _text(interp, call, *args)


@model("builtins.repr", "builtins.format")
def _text(interp: Interpreter, call: Call, *args: Value) -> Value:
    attributes.shown(interp, args, call.node)
    return interp.fresh_symbol(call.last)


@model("builtins.input", "builtins.open", "builtins.hash", "builtins.dir", "builtins.locals")
def _unknown(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return interp.fresh_symbol(call.last)


@model("builtins.breakpoint")
def _nothing(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return None


@model("builtins.exit", "builtins.quit")
def _exit(interp: Interpreter, call: Call, *_: Value) -> Value:
    interp.exceptions.exited = True


# The program


@model("builtins.globals")
def _globals(interp: Interpreter, call: Call) -> Value:
    names: dict[Any, Binding] = (interp.scope.globals or interp.scope).names
    return Mapping(names)  # the very names: `globals()["state"] = h` binds one of them


@model("builtins.__import__")
def _import(interp: Interpreter, call: Call, name: Value, *_: Value, **__: Value) -> Value:
    path = interp.usual(name) if isinstance(name, Symbol) else name
    return imported(interp, path.partition(".")[0]) if isinstance(path, str) else DECLINED


def imported(interp: Interpreter, name: str) -> Value:
    """The module that a call imports by *name*: ``importlib.import_module("functools")``."""
    source = interp.sources.module(name, 0, interp.source)
    return interp.module(source) if source is not None else Name(name)
