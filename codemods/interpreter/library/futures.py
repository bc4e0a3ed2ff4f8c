"""Pools of threads: ``concurrent.futures``.

A call that is submitted runs at once, which is one of the orders that the threads may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter.library.containers import of_sequence
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unpacking import copy_of
from autofix.codemods.interpreter.values import FUTURE, POOL, Binding, Name, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("concurrent.futures.ThreadPoolExecutor", "concurrent.futures.thread.ThreadPoolExecutor")
def _pool(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return Sequence(POOL)


@of_sequence("submit")
def _submit(
    interp: Interpreter, call: Call, receiver: Sequence, function: Value, /, *args: Value, **keywords: Value
) -> Value:
    if receiver.kind != POOL:
        return DECLINED
    with interp.grad_mode(True, interp.site(call.node)):  # each thread has a grad mode of its own
        result = interp.call(function, list(args), keywords, call.node)
    return Sequence(FUTURE, [Binding(result)])


@of_sequence("map")
def _map(interp: Interpreter, call: Call, receiver: Sequence, function: Value, /, *items: Value, **_: Value) -> Value:
    """Unlike the built-in ``map``, it calls the function for all items at once."""
    if receiver.kind != POOL:
        return DECLINED
    with interp.grad_mode(True, interp.site(call.node)):
        results = copy_of(
            interp, interp.call(Name("builtins.map"), [function, *items], {}, call.node), "list", call.node
        )
    return interp.call(Name("builtins.iter"), [results], {}, call.node)


@of_sequence("result")
def _result(interp: Interpreter, call: Call, receiver: Sequence, /, *_: Value, **__: Value) -> Value:
    return interp.read(receiver.items[0], receiver) if receiver.kind == FUTURE else DECLINED


@of_sequence("shutdown", "exception")
def _nothing(interp: Interpreter, call: Call, receiver: Sequence, /, *_: Value, **__: Value) -> Value:
    return None if receiver.kind in (POOL, FUTURE) else DECLINED


@of_sequence("done")
def _done(interp: Interpreter, call: Call, receiver: Sequence, /) -> Value:
    return True if receiver.kind == FUTURE else DECLINED


@model("concurrent.futures.as_completed")
def _as_completed(interp: Interpreter, call: Call, futures: Value, /, *_: Value, **__: Value) -> Value:
    return futures if isinstance(futures, Sequence) else DECLINED


@model("concurrent.futures.wait")
def _wait(interp: Interpreter, call: Call, futures: Value, /, *_: Value, **__: Value) -> Value:
    if not isinstance(futures, Sequence):
        return DECLINED
    return Sequence("tuple", [Binding(futures), Binding(Sequence("set"))], fields=("done", "not_done"))
