"""NumPy, Matplotlib and ``math``: what they compute has no graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autofix.codemods.facts.parts import ARRAY_OF_SEVERAL
from autofix.codemods.interpreter import cuts, escapes
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.library.unread import unread
from autofix.codemods.interpreter.values import Sequence, TensorRef, Value, is_constant

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("numpy.*")
def _numpy(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    refused = escapes.handed(interp, call.last, list(args), call.node)
    how = ARRAY_OF_SEVERAL if _is_row(args) else "numpy"
    if (refused or _follows_a_refusal(interp, args)) and all(map(_is_for_torch, args)):
        # Nothing is computed. Who goes on with the result as with a tensor takes the function for one of torch's.
        meant = interp.data()
        meant.cell.detachment = cuts.dropped(interp, args, call.node, how)
        return meant
    return _number(interp, call, *args, how=how, **keywords)


def _follows_a_refusal(interp: Interpreter, args: Iterable[Value]) -> bool:
    """Whether a tensor among *args* stands for what a function of NumPy, which refused its tensors, was to compute."""
    lost = [cuts.lost_by(value) for value in args if isinstance(value, TensorRef)]
    return any(cut.site in interp.incidents.escapes for one in lost if one is not None for cut in one.cuts)


def _is_row(args: tuple[Value, ...]) -> bool:
    """Whether the first of *args* is a list of tensors, or of numbers each of which was a tensor's."""
    row = args[0] if args else None
    if not isinstance(row, Sequence):
        return False
    return all(isinstance(slot.value, TensorRef) or cuts.lost_by(slot.value) is not None for slot in row.items)


def _is_for_torch(value: Value) -> bool:
    """Whether a function of torch takes the value where NumPy's does: a tensor, several in a list, a plain number."""
    if isinstance(value, Sequence):
        return all(isinstance(slot.value, TensorRef) for slot in value.items)
    return isinstance(value, TensorRef) or is_constant(value)


@model("matplotlib.*")
def _drawn(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    escapes.handed(interp, call.last, list(args), call.node)
    return unread(interp, call.name, list(args), keywords, call.node)


@model("math.*")
def _of_math(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return _number(interp, call, *args, **keywords)


def _number(interp: Interpreter, call: Call, *args: Value, how: str = "numpy", **keywords: Value) -> Value:
    made = unread(interp, call.name, list(args), keywords, call.node)
    return cuts.carry(interp, made, [*args, *keywords.values()], call.node, how)
