"""``torch._foreach_add_(parameters, gradients)`` and its kin: one operation on each of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter.library.registry import Call
from autofix.codemods.interpreter.values import Binding, Method, Sequence, Symbol, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

PREFIX = "_foreach_"


def applied(interp: Interpreter, call: Call, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    """The results of ``torch._foreach_<operation>(tensors, ...)``: in place, the tensors themselves.

    A list beside the tensors has one item for each of them; any other argument is the same for all.
    Source: ``aten/src/ATen/native/ForeachOpsKernels.cpp``.
    """
    tensors = args[0] if args else keywords.pop("self", None)
    if not isinstance(tensors, Sequence):
        return interp.opaque(call.name, [*args, *keywords.values()], call.node)
    name = call.last.removeprefix(PREFIX)
    made: list[Binding] = []
    for at, slot in enumerate(tensors.items):
        own = [_nth(interp, value, at) for value in args[1:]]
        options = {key: _nth(interp, value, at) for key, value in keywords.items()}
        one = interp.read(slot, tensors)
        if isinstance(one, (TensorRef, Symbol)):
            one = interp.call(Method(one, name, call.node), own, options, call.node)
        made.append(Binding(one))
    return Sequence("tuple", made, more=tensors.more)


def _nth(interp: Interpreter, value: Value, at: int) -> Value:
    """The argument for the tensor at this position."""
    if not isinstance(value, Sequence):
        return value
    return interp.read(value.items[at], value) if at < len(value.items) else interp.fresh_symbol("item")
