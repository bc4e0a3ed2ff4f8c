"""Iterators of ``itertools``, and those that show a bar of progress."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, constants
from autofix.codemods.interpreter.generators import Exhausted, Generator
from autofix.codemods.interpreter.library.iterators import range_
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.state.environment import Frame
from autofix.codemods.interpreter.streams import LazyStream, Stream, counter_from, stream
from autofix.codemods.interpreter.values import Binding, Instance, Sequence, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("itertools.accumulate")
def _accumulate(
    interp: Interpreter, call: Call, iterable: Value, function: Value = None, *, initial: Value = None
) -> Value:
    """The intermediate results, each computed when it is asked for: the code that asks may have made a step before."""
    if function is None:
        return DECLINED
    items, before = stream(interp, iterable, call.node), int(initial is not None)
    known: dict[int, Value] = {0: initial} if before else {}

    def at(number: int, exact: bool) -> Value:
        if number not in known:
            item = items.at(number - before, exact)
            known[number] = interp.call(function, [known[max(known)], item], {}, call.node) if known else item
        return known[number]

    count, limit = (None if one is None else one + before for one in (items.count, items.limit))
    return LazyStream(replace(items, count=count, at=at, limit=limit))


@model("itertools.count")
def _count(interp: Interpreter, call: Call, start: Value = 0, *_: Value, **__: Value) -> Value:
    first = start if isinstance(start, int) else 0
    return LazyStream(Stream(None, lambda at, exact: at + first if exact else counter_from(interp, at + first)))


@model("itertools.cycle")
def _cycle(interp: Interpreter, call: Call, iterable: Value, /) -> Value:
    """The items of a container again and again."""
    items = stream(interp, iterable, call.node)
    if not items.count or items.cut:
        return iterable
    count = items.count
    return LazyStream(Stream(None, lambda at, exact: items.at(at % count, True)))


@model("itertools.islice")
def _islice(interp: Interpreter, call: Call, iterable: Value, /, *bounds: Value) -> Value:
    if isinstance(iterable, Sequence) and not iterable.more and all(type(one) in (int, NoneType) for one in bounds):
        return Sequence("list", list(itertools.islice(iterable.items, *bounds)))
    return iterable


@model("itertools.takewhile")
def _take_while(interp: Interpreter, call: Call, wanted: Value, iterable: Value, /) -> Value:
    """The items up to the first that is not wanted, each asked for when its turn has come."""
    items = stream(interp, iterable, call.node)

    def at(number: int, exact: bool) -> Value:
        item = items.at(number, exact)
        if interp.call(wanted, [item], {}, call.node) is False:
            raise Exhausted
        return item

    return LazyStream(replace(items, at=at, lazy=True))


@model("itertools.pairwise")
def _pairwise(interp: Interpreter, call: Call, iterable: Value, /) -> Value:
    known = _by_place(interp, call, iterable)
    if known is not DECLINED or not isinstance(iterable, Sequence) or iterable.more:
        return known
    slots = iterable.items
    return Sequence("list", [Binding(Sequence("tuple", [one, two])) for one, two in itertools.pairwise(slots)])


@model("itertools.chain")
def _chain(interp: Interpreter, call: Call, *iterables: Value) -> Value:
    return _chained(interp, Sequence("list", [Binding(one) for one in iterables]), call.node)


@model("itertools.chain.from_iterable")
def _chain_from(interp: Interpreter, call: Call, iterables: Value, /) -> Value:
    return _chained(interp, iterables, call.node)


def _chained(interp: Interpreter, parts: Value, node: ast.expr) -> Value:
    """The items of the containers in *parts*, one after the other; what is not known to be a container is an item."""
    if isinstance(parts, Sequence) and not any(isinstance(slot.value, Generator) for slot in parts.items):
        whole = Sequence("list", [], more=parts.more)
        for slot in parts.items:
            inner = slot.value
            if isinstance(inner, Sequence):
                whole.items += _items_of(interp, inner)
            else:
                whole.items += _modules_in(interp, inner, node) or [slot]
            whole.more = whole.more or (isinstance(inner, Sequence) and inner.more)
        return whole
    if not isinstance(parts, (Sequence, Generator)):
        return parts

    def hand_out() -> None:
        for part in _items_of(interp, parts):
            several = isinstance(part.value, (Sequence, Generator))
            for slot in _items_of(interp, part.value) if several else (part,):
                chained.give(slot)

    frame = Frame(interp.frames[-1].function, interp.scope)
    chained = Generator(interp, hand_out, frame, interp.site(node))
    return chained


def _modules_in(interp: Interpreter, value: Value, node: ast.expr) -> list[Binding]:
    """The modules of an ``nn.Sequential`` or an ``nn.ModuleList``, if all are known; empty for other values."""
    items = stream(interp, value, node) if isinstance(value, (Instance, TorchModule)) else None
    if items is None or items.count is None or items.cut or items.lazy:
        return []
    return [Binding(items.at(number, True)) for number in range(items.count)]


def _items_of(interp: Interpreter, value: Sequence | Generator) -> Iterator[Binding]:
    """The items of a container, or, one by one, those that a generator hands out."""
    if isinstance(value, Sequence):
        yield from (Binding(interp.read(slot, value)) for slot in value.items)
        return
    with suppress(Exhausted):
        while True:
            yield value.resume()


@model("itertools.*")
def _by_place(interp: Interpreter, call: Call, first: Value, /, *others: Value, **keywords: Value) -> Value:
    """``product``, ``permutations`` and their like, of containers that are known."""
    with suppress(constants.NotWritten):
        return constants.by_place(call.last, [class_lookup.opened(arg) for arg in (first, *others)], keywords)
    return DECLINED


@model("*.tqdm")
def _tqdm(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return args[0] if args else keywords.get("iterable", interp.fresh_symbol("tqdm"))


@model("*.trange")
def _trange(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    return range_(interp, call, *(class_lookup.opened(arg) for arg in args))
