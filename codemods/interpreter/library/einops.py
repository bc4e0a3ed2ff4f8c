"""``einops``: the operations of torch that its patterns stand for.

A call brings the tensor's axes apart (a view), puts them in the order of the result (a view), reduces or repeats some,
and joins those in parentheses, which copies where they do not lie one behind the other.

Source: ``_apply_recipe`` of einops/einops.py, ``TorchBackend`` of einops/_backends.py, einops/packing.py, version 0.8.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from autofix.codemods.interpreter import tensor_calls
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Binding, Name, Partial, Sequence, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_GROUP = re.compile(r"\(([^()]*)\)|([^\s()]+)")
_OPERATIONS = {"min": "amin", "max": "amax", "sum": "sum", "mean": "mean", "prod": "prod"}
"""The operation behind the name of a reduction."""


class _Side(NamedTuple):
    """One side of a pattern: the axes of each dimension, ``b (h w) 1`` as ``[["b"], ["h", "w"], []]``."""

    dimensions: list[list[str]]

    @property
    def axes(self) -> list[str]:
        return [axis for dimension in self.dimensions for axis in dimension]

    @property
    def joins(self) -> bool:
        """Whether a dimension is no axis by itself: ``(h w)``, ``1``, ``()``."""
        return any(len(dimension) != 1 for dimension in self.dimensions)

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None behind an ellipsis."""
        return None if "..." in self.axes else len(self.dimensions)


def _side(text: str) -> _Side:
    return _Side(
        [
            [axis for axis in (group or single).split() if axis != "1"]
            for group, single in _GROUP.findall(text.replace("…", "..."))
        ]
    )


def _sides(pattern: Value) -> tuple[_Side, _Side] | None:
    """The two sides of a pattern; None where it is not written out, or is none."""
    if not isinstance(pattern, str) or pattern.count("->") != 1:
        return None
    left, right = map(_side, pattern.split("->"))
    return left, right


@model("einops.rearrange", "einops.einops.rearrange", "einops.repeat", "einops.einops.repeat")
def _rearrange(interp: Interpreter, call: Call, tensor: Value, pattern: Value, **_: Value) -> Value:
    return _applied(interp, tensor, pattern, None, call.node)


@model("einops.reduce", "einops.einops.reduce")
def _reduce(interp: Interpreter, call: Call, tensor: Value, pattern: Value, reduction: Value, **_: Value) -> Value:
    name = _OPERATIONS.get(reduction) if isinstance(reduction, str) else None
    return DECLINED if name is None else _applied(interp, tensor, pattern, name, call.node)


def _applied(interp: Interpreter, tensor: Value, pattern: Value, reduction: str | None, node: ast.expr) -> Value:
    """The result of the operations that a pattern stands for; of a list of tensors, those on their stack."""
    sides = _sides(pattern)
    if sides is None:
        return DECLINED
    if _are_tensors(tensor):
        tensor = tensor_calls.operate(interp, "stack", [tensor], {}, node)
    if not isinstance(tensor, TensorRef):
        return DECLINED
    left, right = sides
    made: Value = tensor
    if left.joins:  # to bring a dimension apart, or to leave out one of a single element, is a view
        made = _resized(interp, "view", made, len(left.axes), node)
    kept = [axis for axis in right.axes if axis in left.axes]
    summed = [axis for axis in left.axes if axis not in right.axes]
    if (ordered := [*kept, *summed]) != left.axes:
        made = tensor_calls.operate(interp, "permute", [made, *map(left.axes.index, ordered)], {}, node)
    if reduction is not None and summed:
        made = _reduced(interp, made, reduction, len(kept), summed, node)
    added = [at for at, axis in enumerate(right.axes) if axis not in left.axes]
    for at in added:
        made = tensor_calls.operate(interp, "unsqueeze", [made, at], {}, node)
    if added:
        made = _resized(interp, "expand", made, len(right.axes), node)
    if right.joins:
        is_view = not (added or reduction) and _joins_dense(left, right, tensor)
        is_view = is_view or all(len(dimension) < 2 for dimension in right.dimensions)
        made = _resized(interp, "view" if is_view else "reshape", made, len(right.dimensions), node)
    if isinstance(made, TensorRef) and made is not tensor:
        made.cell.rank = right.rank
        made.cell.has_ones = made.cell.has_ones or [] in right.dimensions
    return made


def _joins_dense(left: _Side, right: _Side, tensor: TensorRef) -> bool:
    """Whether the axes that a pattern joins lie one behind the other in *tensor*: to join them is a view."""
    dense_from = 0 if tensor.cell.dense else tensor.cell.dense_from
    if dense_from is None or "..." in left.axes:
        return False
    dimension_of = {axis: at for at, axes in enumerate(left.dimensions) for axis in axes}
    for joined in right.dimensions:
        places = [left.axes.index(axis) for axis in joined]
        if len(joined) > 1 and (
            places != list(range(places[0], places[0] + len(places))) or dimension_of[joined[0]] < dense_from
        ):
            return False
    return True


def _are_tensors(value: Value) -> bool:
    return (
        isinstance(value, Sequence)
        and bool(value.items)
        and all(isinstance(slot.value, TensorRef) for slot in value.items)
    )


def _resized(interp: Interpreter, name: str, tensor: Value, rank: int, node: ast.expr) -> Value:
    """*tensor* with other sizes, which the source need not say."""
    return tensor_calls.operate(interp, name, [tensor, *(interp.fresh_symbol("size") for _ in range(rank))], {}, node)


def _reduced(interp: Interpreter, tensor: Value, name: str, kept: int, summed: list[str], node: ast.expr) -> Value:
    """*tensor* without its last dimensions; ``prod`` takes one at a time."""
    if not kept and name != "prod" and "..." not in summed:
        return tensor_calls.operate(interp, name, [tensor], {}, node)
    last = [-1 - at for at in range(len(summed))]
    for dims in [[one] for one in last] if name == "prod" else [last]:
        where: Value = Sequence("tuple", [Binding(one) for one in dims]) if name != "prod" else -1
        tensor = tensor_calls.operate(interp, name, [tensor], {"dim": where}, node)
    return tensor


@model("einops.einsum", "einops.einops.einsum")
def _einsum(interp: Interpreter, call: Call, *operands: Value) -> Value:
    """``einsum(x, y, "b key, key value -> b value")``: ``torch.einsum`` with a letter for each axis."""
    *tensors, pattern = operands
    if not isinstance(pattern, str) or "(" in pattern or not all(isinstance(one, TensorRef) for one in tensors):
        return DECLINED
    words = dict.fromkeys(re.findall(r"\w+", pattern))
    letters = dict(zip(words, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", strict=False))
    if len(letters) < len(words):
        return DECLINED
    equation = re.sub(r"\w+", lambda word: letters[word.group()], pattern).replace(" ", "")
    return tensor_calls.operate(interp, "einsum", [equation, *tensors], {}, call.node)


@model("einops.pack", "einops.packing.pack")
def _pack(interp: Interpreter, call: Call, tensors: Value, pattern: Value) -> Value:
    """The tensors joined, and the shapes that ``unpack`` needs, one for each."""
    if not isinstance(tensors, Sequence) or not _are_tensors(tensors):
        return DECLINED
    joined = tensor_calls.operate(interp, "cat", [tensors], {"dim": interp.fresh_symbol("dim")}, call.node)
    shapes = [Binding(interp.fresh_symbol("shape")) for _ in tensors.items]
    return Sequence("tuple", [Binding(joined), Binding(Sequence("list", list(shapes), tensors.more))])


@model("einops.unpack", "einops.packing.unpack")
def _unpack(interp: Interpreter, call: Call, tensor: Value, shapes: Value, pattern: Value) -> Value:
    """A part of the tensor for each shape, a view where its elements lie one behind the other."""
    if not isinstance(tensor, TensorRef) or not isinstance(shapes, Sequence):
        return DECLINED
    first = isinstance(pattern, str) and pattern.split()[:1] == ["*"]
    parts = []
    for _ in shapes.items:
        place: Value = 0 if first else interp.fresh_symbol("dim")
        start, length = interp.fresh_symbol("start"), interp.fresh_symbol("length")
        part = tensor_calls.operate(interp, "narrow", [tensor, place, start, length], {}, call.node)
        parts.append(Binding(_resized(interp, "reshape", part, 1, call.node)))
    return Sequence("list", parts, shapes.more)


# Layers

_REARRANGE, _REDUCE = Name("einops.rearrange"), Name("einops.reduce")


@model("einops.layers.torch.Rearrange")
def _rearranging(interp: Interpreter, call: Call, pattern: Value, **_: Value) -> Value:
    return Partial(_REARRANGE, [], {"pattern": pattern})


@model("einops.layers.torch.Reduce")
def _reducing(interp: Interpreter, call: Call, pattern: Value, reduction: Value, **_: Value) -> Value:
    return Partial(_REDUCE, [], {"pattern": pattern, "reduction": reduction})
