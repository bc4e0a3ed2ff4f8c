"""Built-in functions that go through containers: ``range``, ``zip``, ``sorted`` and their like."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import attributes, constants, errors, mapping_keys, module_lists, streams
from autofix.codemods.interpreter.generators import Exhausted, Generator
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.streams import LazyStream, Stream
from autofix.codemods.interpreter.unpacking import copy_of
from autofix.codemods.interpreter.values import Binding, Mapping, Sequence, Symbol, TorchModule, Value, is_constant

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("builtins.dict.fromkeys")
def _from_keys(interp: Interpreter, call: Call, iterable: Value, value: Value = None, /) -> Value:
    keys = streams.stream(interp, iterable, call.node)
    items = streams.first_of(keys, min(keys.limit or keys.count or 2, 16))
    return Mapping({mapping_keys.mapping_key(interp, key): Binding(value) for key in items}, more=keys.cut)


@model("builtins.sorted")
def _sorted(interp: Interpreter, call: Call, iterable: Value, /, **keywords: Value) -> Value:
    return in_order(interp, copy_of(interp, iterable, "list", call.node), keywords, call.node)


def in_order(interp: Interpreter, items: Sequence, keywords: dict[str, Value], node: ast.expr) -> Sequence:
    """A list sorted by what is known of its items, or of their keys; as it is where that does not decide."""
    by = keywords.get("key")
    backwards = keywords.get("reverse", False)
    if items.more or len(items.items) > constants.ITEMS or not isinstance(backwards, bool):
        return items
    try:
        keys = [
            constants.as_python(slot.value if by is None else interp.call(by, [interp.read(slot, items)], {}, node))
            for slot in items.items
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=backwards)
    except (constants.NotWritten, TypeError):
        return items
    return replace(items, items=[items.items[at] for at in order])


def is_empty(value: Value) -> bool:
    """Whether a container is known to have no items."""
    return isinstance(value, (Sequence, Mapping)) and not value.items and not value.more


@model("builtins.range")
def range_(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    """``range(start, stop, step)``."""
    if args and all(isinstance(arg, int) for arg in args):
        try:
            made = range(*args)
            len(made)  # which may be too large to be told: `range(10**20)`, for a loop that a `break` ends
            return made
        except (OverflowError, TypeError, ValueError):
            pass
    return interp.symbol(("range", *(interp.key(arg) for arg in args), interp.new_instance()))


@model("builtins.enumerate")
def _enumerate(interp: Interpreter, call: Call, iterable: Value, start: Value = 0) -> Value:
    inner = streams.stream(interp, iterable, call.node)
    first = start if isinstance(start, int) else 0
    serial = interp.new_instance()

    def at(position: int, exact: bool) -> Value:
        high = None if inner.count is None else inner.count - 1 + first
        number: Value = position + first if exact else Symbol(("index", serial, position), position + first, high)
        return Sequence("tuple", [Binding(number), Binding(inner.at(position, exact))])

    return LazyStream(replace(inner, at=at, counts=False))


@model("builtins.zip")
def _zip(interp: Interpreter, call: Call, first: Value, *others: Value, **_: Value) -> Value:
    inner = [streams.stream(interp, arg, call.node) for arg in (first, *others)]
    counts = [part.count for part in inner if part.count is not None]

    def at(position: int, exact: bool) -> Value:
        return Sequence("tuple", [Binding(part.at(position, exact)) for part in inner])

    # `for p, flag in zip(params, flags): p.requires_grad = flag` must reach them all.
    whole = max((part.whole for part in inner if part.whole == streams.PARTS), default=0)
    whole = whole or min((part.whole for part in inner), default=streams.ITEMS)
    limits = [part.limit for part in inner if part.limit is not None]
    made = Stream(min(counts) if counts else None, at, whole, min(limits) if limits else None)
    ends, empties = any(part.lazy for part in inner), any(part.empties for part in inner)
    return LazyStream(replace(made, lazy=ends, empties=empties, turn=lambda: max(part.turn() for part in inner)))


@model("builtins.reversed")
def _reversed(interp: Interpreter, call: Call, value: Value, /) -> Value:
    if isinstance(value, range):
        return value[::-1]
    if isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("range",):
        numbers = value.key[1:-1]
        if len(numbers) == 1:  # `reversed(range(count))` is `range(count - 1, -1, -1)`
            ends = (numbers[0], *map(interp.key, (-1, -1)))
            return interp.symbol(("range", *ends, interp.new_instance()))
    if isinstance(value, Mapping) or module_lists.holder(value) is not None:
        value = copy_of(interp, value, "list", call.node)
    if isinstance(value, Sequence):
        return Sequence("list", list(reversed(copy_of(interp, value, "list", call.node).items)), more=value.more)
    return value


@model("builtins.next")
def _next(interp: Interpreter, call: Call, value: Value, *default: Value) -> Value:
    if isinstance(value, Generator) or (
        isinstance(value, LazyStream) and (value.stream.count is not None or not value.stream.lazy)
    ):
        try:
            if isinstance(value, Generator):
                return interp.read(value.resume())
            interp.unrolling.streams.append(value)
            return value.following()
        except Exhausted:
            if default:
                return default[0]
            errors.happen(interp, "StopIteration")
            return interp.fresh_symbol("exhausted")
    if isinstance(value, Sequence) and value.items and not value.more:
        return interp.read(value.items[0], value)
    if default and is_empty(value):
        return default[0]
    stream = streams.stream(interp, value, call.node)
    if isinstance(value, Sequence):
        return interp.fresh_symbol("next")
    return next(iter(streams.first_of(stream, 1)), interp.fresh_symbol("exhausted"))


@model("builtins.iter")
def _iter(interp: Interpreter, call: Call, value: Value, *_: Value) -> Value:
    """An iterator over a container whose items are known; any other value itself."""
    listed = isinstance(value, Sequence) and not value.more and not value.fields
    listed = listed or (isinstance(value, Mapping) and not value.more)
    if listed or isinstance(value, range) or (isinstance(value, TorchModule) and value.kind in attributes.CONTAINERS):
        return LazyStream(streams.stream(interp, value, call.node))
    return value


@model("builtins.map")
def _map(interp: Interpreter, call: Call, function: Value, /, *iterables: Value) -> Value:
    inner = [streams.stream(interp, arg, call.node) for arg in iterables]
    if not inner:
        return interp.fresh_symbol("map")
    counts = [part.count for part in inner if part.count is not None]

    def at(position: int, exact: bool) -> Value:
        return interp.call(function, [part.at(position, exact) for part in inner], {}, call.node)

    limits = [part.limit for part in inner if part.limit is not None]
    lazy, whole = any(part.lazy for part in inner), max(part.whole for part in inner)
    limit = min(limits) if limits else None
    return LazyStream(Stream(min(counts) if counts else None, at, whole, limit, lazy))


@model("builtins.filter")
def _filter(interp: Interpreter, call: Call, wanted: Value, items: Value, /) -> Value:
    """``filter(wanted, items)``, where of each item it is known whether it is; else any of them may be."""
    if isinstance(items, Mapping) and not items.more:
        items = copy_of(interp, items, "list", call.node)
    if not isinstance(items, Sequence) or items.more or len(items.items) > streams.ITEMS:
        return items
    kept = []
    for slot in items.items:
        value = interp.read(slot, items)
        answer = value if wanted is None else interp.call(wanted, [value], {}, call.node)
        if not is_constant(answer):
            return items
        if answer:
            kept.append(Binding(value))
    return Sequence("list", kept)
