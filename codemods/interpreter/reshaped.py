"""Operands that operations reshape: of those that do not lie in the order of their dimensions, they save copies.

``matmul`` makes one batch dimension of several, ``einsum`` and ``tensordot`` bring the dimensions that they sum over
together: a view does where the elements lie in that order, and a copy where not, which no change of the operand
reaches.  ``bmm`` and ``mm`` take any layout as it is.

Source: ``matmul``, ``should_fold`` and ``tensordot`` of aten/src/ATen/native/LinearAlgebra.cpp and Linear.cpp, with
``einsum`` and ``sumproduct_pair``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autofix.codemods.autograd import catalogue, layout
from autofix.codemods.interpreter import values
from autofix.codemods.interpreter.values import TensorRef, Value

IN_ORDER, LAST_TWO, ANY_ORDER = range(3)
"""Whether dimensions were reordered since the elements were laid out: not, the last two of them, or others."""

_SWAPS = frozenset("transpose swapaxes swapdims".split())
_OF_MATRICES = frozenset("t adjoint".split())
_REORDERING = frozenset(
    "permute movedim moveaxis expand expand_as broadcast_to unfold as_strided diagonal linalg_diagonal".split()
)
_PRODUCTS = frozenset(
    "matmul linear Linear inner tensordot einsum bilinear Bilinear MultiheadAttention multi_head_attention".split()
)
_SUMMING_OUT = frozenset("inner tensordot einsum".split())
"""Products that sum over a dimension of one operand first where the other's has a single element, or only multiply."""
_MAKING_CONTIGUOUS = frozenset(
    """group_norm GroupNorm instance_norm InstanceNorm1d InstanceNorm2d InstanceNorm3d nll_loss NLLLoss
    lstm gru rnn_tanh rnn_relu LSTM GRU RNN""".split()
)
"""Operations and layers that call ``contiguous()`` on their inputs."""
_RANKS = {"mm": 2, "addmm": 2, "outer": 2, "ger": 2, "mv": 1, "bmm": 3, "baddbmm": 3}
_KEEPING_RANK = frozenset(("permute", "contiguous", *_SWAPS, *_OF_MATRICES))
_RESHAPING = frozenset("view reshape unflatten expand narrow split chunk".split())
_ELEMENTWISE = frozenset((catalogue.POINTWISE, catalogue.CAST))


# Layout of results


def order(name: str, args: Sequence[Value], tensors: Sequence[TensorRef], view: TensorRef | None) -> int:
    """The order in which the elements of an operation's result may lie."""
    if view is not None:
        return max(view.cell.order, _order_of_view(name, args, view.cell.rank))
    if name == "einsum":
        return _order_of_einsum(args)
    return max((one.cell.order for one in tensors), default=IN_ORDER) if layout.keeps_order(name) else IN_ORDER


def _order_of_view(name: str, args: Sequence[Value], rank: int | None) -> int:
    if name in _REORDERING or name in _SWAPS:
        dims = {one for one in args[1:] if isinstance(one, int)}
        last = {-1, -2} if rank is None else {-1, -2, rank - 1, rank - 2}
        return LAST_TWO if rank == 2 or (name in _SWAPS and dims <= last) else ANY_ORDER
    return LAST_TWO if name in _OF_MATRICES else IN_ORDER


def rank(name: str, args: Sequence[Value], tensors: Sequence[TensorRef]) -> int | None:
    """The number of dimensions of an operation's result; None where it is not known."""
    if name in _RANKS:
        return _RANKS[name]
    if name == "t":
        return 2
    known = [one.cell.rank for one in tensors if one.cell.rank is not None]
    if not known or len(known) < len(tensors):
        return None
    if name == "matmul":
        return max(known) if 1 not in known else None
    if name in ("linear", "Linear"):
        return known[0]
    keeps = catalogue.kind(name) in _ELEMENTWISE or name in _KEEPING_RANK
    return max(known) if keeps else None


def has_ones(name: str, args: Sequence[Value], tensors: Sequence[TensorRef]) -> bool:
    """Whether an operation's result has, or keeps, a dimension with a single element that is written."""
    if any(one.cell.has_ones for one in tensors) or name == "unsqueeze":
        return True
    options = args[1:]
    if name in _RESHAPING:
        return any(type(size) is int and size == 1 for one in options for size in _opened(one))
    return catalogue.reduces(name) and any(one is True for one in options)  # `keepdim`


def _opened(size: Value) -> list[Value]:
    return [slot.value for slot in size.items] if isinstance(size, values.Sequence) else [size]


def is_single(index: Value) -> bool:
    """Whether an index leaves, or makes, a dimension with a single element: ``None``, ``:1``, ``2:3``."""
    if isinstance(index, slice):
        start, stop = index.start or 0, index.stop
        return (start, stop) == (-1, None) or (isinstance(start, int) and isinstance(stop, int) and stop - start == 1)
    return index is None


# What products save


def copied(name: str, operands: Mapping[str, Value]) -> set[str]:
    """The arguments of an operation, or a layer, of which it may save copies instead of the tensors themselves."""
    given = {key: one for key, one in operands.items() if isinstance(one, TensorRef)}
    if name in _MAKING_CONTIGUOUS:
        return {key for key, one in given.items() if not _may_be_contiguous(one)}
    if operands.get("padding") == "same":
        return set(given)  # with a kernel of an even size, the input is padded first
    if name not in _PRODUCTS:
        return set()
    if name in _SUMMING_OUT and any(one.cell.has_ones for one in given.values()):
        return set(given)
    match name:
        case "einsum":
            return _copied_by_einsum(operands.get("equation"), given)
        case "matmul":
            return _copied_by_matmul(given)
        case "linear" | "Linear":
            return {key for key, one in given.items() if key == "input" and one.cell.order and one.cell.rank != 2}
        case "tensordot" if not _sums_ends(operands, given):
            return set(given)
    return {key for key, one in given.items() if one.cell.order and (one.cell.rank or 3) > 2}


def _may_be_contiguous(tensor: TensorRef) -> bool:
    """Whether a tensor lies as results do, and is no part of another that leaves some of it out."""
    return tensor.cell.dense or (tensor.cell.order == IN_ORDER and tensor.cell.base is None)


def _copied_by_matmul(given: Mapping[str, TensorRef]) -> set[str]:
    if len(given) != 2:
        return set()
    (first, one), (second, other) = ((key, value.cell) for key, value in given.items())
    ranks = {one.rank or 0, other.rank or 0}
    if ranks in ({2}, {3}, {1}, {1, 2}):
        return set()  # `mm`, `bmm`, `mv` and `dot`
    if one.rank == 1 and (other.rank or 0) > 2:
        return {second}  # its last two dimensions change places, and the others become one
    made = {key for key, cell in ((first, one), (second, other)) if cell.order == ANY_ORDER and cell.rank != 2}
    for key, cell, beside in ((first, one, other), (second, other, one)):
        batches = beside.rank or 3
        if (cell.has_ones and batches > 2) or (cell.rank == 3 and batches > 3):
            made.add(key)  # repeated for the other's batches
    if one.order == LAST_TWO and other.rank in (1, 2) and one.rank != 2:
        made.add(first)  # its leading dimensions become one
    return made


def _sums_ends(operands: Mapping[str, Value], given: Mapping[str, TensorRef]) -> bool:
    """Whether ``tensordot`` sums over the last dimensions of one operand and the first of the other, or single ends."""
    dims = operands.get("dims", operands.get("dims_self", 2))
    if isinstance(dims, int):
        return True
    match dims:
        case values.Sequence(items=[one, other], more=False):
            pairs = zip((one.value, other.value), given.values(), strict=False)
            return all(_is_end(place, tensor.cell.rank) for place, tensor in pairs)
    return False


def _is_end(dims: Value, rank: int | None) -> bool:
    match dims:
        case values.Sequence(items=[single], more=False):
            return single.value in (0, -1) or (rank is not None and single.value == rank - 1)
    return dims in (0, -1)


class _Pair(NamedTuple):
    """The letters of a product of two operands: those of each, those of the result, and those that are summed over."""

    first: str
    second: str
    result: str

    @property
    def summed(self) -> list[str]:
        return sorted((set(self.first) & set(self.second)) - set(self.result))

    def groups(self, term: str, other: str) -> tuple[list[str], list[str], list[str]]:
        """The letters of *term* that become one dimension each: those of both, its own, and those that are summed."""
        both = [one for one in self.result if one in term and one in other]
        own = [one for one in self.result if one in term and one not in other]
        return both, own, self.summed


def _pair(equation: Value) -> _Pair | None:
    """The letters of ``"bij,bjk->bik"``; None for more operands, an ellipsis, or a letter that an operand has twice."""
    if not isinstance(equation, str):
        return None
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or not all(one.isalpha() and len(set(one)) == len(one) for one in terms):
        return None
    if not arrow:
        result = "".join(sorted(set(terms[0]) ^ set(terms[1])))
    return _Pair(terms[0], terms[1], result) if not result or result.isalpha() else None


def _copied_by_einsum(equation: Value, given: Mapping[str, TensorRef]) -> set[str]:
    pair = _pair(equation)
    if pair is None:
        return set(given)
    made = set()
    for term, other, key in ((pair.first, pair.second, "first"), (pair.second, pair.first, "second")):
        if key not in given:
            continue
        if set(term) - set(other) - set(pair.result):
            made.add(key)  # summed over what it alone has, first
        elif pair.summed:
            in_order = given[key].cell.order == IN_ORDER
            joined = ["".join(group) for group in pair.groups(term, other)]
            if not all(len(group) < 2 or (in_order and group in term) for group in joined):
                made.add(key)
    return made


def _order_of_einsum(args: Sequence[Value]) -> int:
    pair = _pair(args[0]) if args else None
    if pair is None:
        return ANY_ORDER
    both, own, _ = pair.groups(pair.first, pair.second)
    _, others, _ = pair.groups(pair.second, pair.first)
    natural = bool(pair.summed) and "".join((*both, *own, *others)) == pair.result
    return IN_ORDER if natural or len(pair.result) < 2 else ANY_ORDER
