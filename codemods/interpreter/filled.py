"""Tensors that hold one number throughout, as flags in buffers do: ``torch.tensor(0)``, ``zeros(1)``, ``x.fill_(1)``.

A layer that computes its first parameters from data asks such a flag (``if not self.initialized:``) and sets it.  What
is counted up in a tensor is no number that is known: the second iteration of a loop stands for later ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from struct import pack, unpack
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Storage
from autofix.codemods.interpreter.state.recording import Filled
from autofix.codemods.interpreter.values import Sequence as Items
from autofix.codemods.interpreter.values import TensorImpl, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

Number = bool | int | float
LARGEST = 2**24
"""Whole numbers below it are all held by single precision."""

_MADE: dict[str, Number] = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1}
_COMPUTED: dict[str, Callable[..., Number]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "logical_not": operator.not_,
    "all": bool,
    "any": bool,
    "bool": bool,
    **dict.fromkeys(("byte", "char", "short", "int", "long"), int),
}
"""Operations by the number that their result holds throughout, of those that their operands do."""


def note(interp: Interpreter, tensor: Value, number: Value) -> None:
    """Every element of a tensor holds *number* from now on; forget what it held where that is no known number."""
    if not isinstance(tensor, TensorRef):
        return
    storage = _memory(interp, tensor)
    if isinstance(number, (bool, int, float)) and _is_whole(tensor.cell) and _is_held_exactly(number, tensor.cell):
        interp.filled[storage] = Filled(number, storage.version)
    else:
        forget(interp, tensor)


def _is_held_exactly(number: Number, cell: TensorImpl) -> bool:
    """Whether a tensor holds a number as it is: single precision rounds 0.1, and whole numbers cut off 0.5."""
    if not abs(number) < LARGEST:  # nor any that is none
        return False
    return unpack("f", pack("f", number))[0] == number and not (cell.whole and int(number) != number)


def forget(interp: Interpreter, tensor: TensorRef) -> None:
    """Other numbers are written into a tensor, or may be."""
    if interp.filled:
        interp.filled.pop(_memory(interp, tensor), None)


def _memory(interp: Interpreter, tensor: TensorRef) -> Storage:
    """The storage of a tensor; for ``x.data``, which counts its changes for itself, that of ``x``."""
    return interp.data_of.get(tensor.cell.storage, tensor.cell.storage)


def _is_whole(cell: TensorImpl) -> bool:
    """Whether a tensor is no part of another one."""
    return cell.base is None or cell.covers


def _is_trained(cell: TensorImpl) -> bool:
    """Whether a tensor has a graph, or is a parameter that may be trained: its number is a part of the training."""
    return cell.node is not None and not (cell.node.leaf is not None and cell.node.leaf.frozen)


def number_in(interp: Interpreter, value: Value) -> Number | None:
    """The number that every element of a tensor holds; None where that is not known."""
    if not interp.filled or not isinstance(value, TensorRef) or value.guessed or _is_trained(value.cell):
        return None
    memory = _memory(interp, value)
    found = interp.filled.get(memory)
    return found.number if found is not None and found.version == memory.version else None


def of_created(last: str, args: Sequence[Value]) -> Value:
    """The number that a new tensor holds throughout, by the function that makes it; None where it holds others."""
    if last in _MADE:
        return _MADE[last]
    if last in ("full", "full_like"):
        return args[1] if len(args) > 1 else None
    given = args[0] if args else None
    if isinstance(given, Items) and not given.more and len(given.items) == 1:
        return given.items[0].value if last.endswith(("tensor", "Tensor")) else None
    return given if last in ("tensor", "as_tensor") else None  # `torch.Tensor(1)` is empty of numbers


def computed(interp: Interpreter, name: str, operands: Iterable[Value], result: Value) -> None:
    """Note what the result of an operation holds, where its operands are numbers or hold one each."""
    compute = _COMPUTED.get(name) if interp.filled else None
    if compute is None:
        return
    numbers = [one if isinstance(one, (bool, int, float)) else number_in(interp, one) for one in operands]
    if numbers and None not in numbers:
        try:
            note(interp, result, compute(*numbers))
        except TypeError:  # an operand too many: a dimension, or another tensor for the result
            return


def copied(interp: Interpreter, tensor: TensorRef, result: Value) -> None:
    """Note what a copy of a tensor holds, maybe in another precision or at another place."""
    number = number_in(interp, tensor)
    if number is not None and isinstance(result, TensorRef) and result.cell.storage is not tensor.cell.storage:
        note(interp, result, number)
