"""Queues, heaps and context variables of the standard library: ``queue``, ``heapq``, ``contextvars``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter import elements, holding, written
from autofix.codemods.interpreter.library.containers import of_sequence
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import QUEUE, STACK, VARIABLE, Binding, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("queue.Queue", "queue.SimpleQueue", "queue.LifoQueue")
def _queue(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return Sequence(STACK if call.last == "LifoQueue" else QUEUE)


@of_sequence("put", "put_nowait")
def _put(interp: Interpreter, call: Call, receiver: Sequence, item: Value, *_: Value, **__: Value) -> Value:
    if receiver.kind not in (QUEUE, STACK):
        return DECLINED
    elements.append(interp, receiver, item, written.receiver(interp, call.node), written.argument(call.node, 0))
    return None


@of_sequence("get", "get_nowait")
def _get(interp: Interpreter, call: Call, receiver: Sequence, *default: Value, **_: Value) -> Value:
    if receiver.kind == VARIABLE:
        slots = receiver.items
        return interp.read(slots[-1], receiver) if slots else default[0] if default else DECLINED
    if receiver.kind not in (QUEUE, STACK):
        return DECLINED
    holding.emptied(interp, receiver)
    if not receiver.items:
        return interp.fresh_symbol("item")
    return interp.read(receiver.items.pop(0 if receiver.kind == QUEUE else -1), receiver)


@of_sequence("empty", "qsize")
def _size(interp: Interpreter, call: Call, receiver: Sequence, /) -> Value:
    if receiver.kind not in (QUEUE, STACK) or receiver.more:
        return DECLINED
    return len(receiver.items) if call.name == "qsize" else not receiver.items


@of_sequence("task_done", "join")
def _nothing(interp: Interpreter, call: Call, receiver: Sequence, /) -> Value:
    return None if receiver.kind in (QUEUE, STACK) else DECLINED


@model("contextvars.ContextVar")
def _variable(interp: Interpreter, call: Call, name: Value = None, /, **default: Value) -> Value:
    return Sequence(VARIABLE, [Binding(value) for value in default.values()])


@of_sequence("set")
def _set(interp: Interpreter, call: Call, receiver: Sequence, value: Value, /) -> Value:
    if receiver.kind != VARIABLE:
        return DECLINED
    name, expression = written.receiver(interp, call.node), written.argument(call.node, 0)
    former, receiver.items = receiver.items, [interp.slot(value, name, expression)]
    return Sequence("tuple", former)


@of_sequence("reset")
def _reset(interp: Interpreter, call: Call, receiver: Sequence, token: Value, /) -> Value:
    if receiver.kind != VARIABLE or not isinstance(token, Sequence):
        return DECLINED
    receiver.items = list(token.items)
    return None


@model("heapq.heappush")
def _heappush(interp: Interpreter, call: Call, heap: Value, item: Value, /) -> Value:
    if not isinstance(heap, Sequence):
        return DECLINED
    _push(interp, call, heap, item)
    return None


def _push(interp: Interpreter, call: Call, heap: Sequence, item: Value) -> None:
    place = written.argument(call.node, 0)
    name = interp.source.text_of(place) if place is not None else ""
    elements.append(interp, heap, item, name, written.argument(call.node, 1))


@model("heapq.heapify")
def _heapify(interp: Interpreter, call: Call, heap: Value, /) -> Value:
    return None if isinstance(heap, Sequence) else DECLINED


@model("heapq.heappop")
def _heappop(interp: Interpreter, call: Call, heap: Value, /) -> Value:
    return _pop(interp, heap) if isinstance(heap, Sequence) and heap.items else DECLINED


@model("heapq.heappushpop")
def _heappushpop(interp: Interpreter, call: Call, heap: Value, item: Value, /) -> Value:
    if not isinstance(heap, Sequence):
        return DECLINED
    _push(interp, call, heap, item)
    return _pop(interp, heap)


@model("heapq.heapreplace")
def _heapreplace(interp: Interpreter, call: Call, heap: Value, item: Value, /) -> Value:
    if not isinstance(heap, Sequence) or not heap.items:
        return DECLINED
    taken = _pop(interp, heap)
    _push(interp, call, heap, item)
    return taken


def _pop(interp: Interpreter, heap: Sequence) -> Value:
    """The least item; the one that has been there for longest where it is not known which is the least."""
    holding.emptied(interp, heap)
    ranks = [_rank(slot.value) for slot in heap.items]
    known = all(isinstance(rank, (int, float)) for rank in ranks)
    return interp.read(heap.items.pop(ranks.index(min(ranks)) if known else 0), heap)


def _rank(item: Value) -> Value:
    """The number by which an item of a heap is sorted: its own, or the first of a tuple."""
    first = item.items[0].value if isinstance(item, Sequence) and item.kind == "tuple" and item.items else item
    return first if isinstance(first, (int, float)) else None
