"""Memory layout: whether the elements of a tensor certainly lie one after the other (``Tensor.is_contiguous``).

``contiguous()``, ``reshape`` and ``flatten`` give the very tensor, or a view of it, where they do.  Where they do not,
or where that is not known, the result may be a copy, which can be modified in place without harm.

Every claim is checked against the installed PyTorch (``tests/test_catalogue.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from autofix.codemods.autograd import catalogue

MAY_COPY = frozenset("contiguous reshape reshape_as flatten ravel".split())
"""Operations that copy a tensor which is not contiguous."""
_TRANSPOSED = frozenset("numpy_T matrix_H mT mH T H".split())
"""Attributes, and operations behind them, that give all elements of a tensor in another order."""

_PRESERVING = frozenset(
    (
        *(catalogue.POINTWISE, catalogue.REDUCTION, catalogue.SHAPED, catalogue.JOIN),
        *(catalogue.LOSS, catalogue.INDEX, catalogue.NUMBER, catalogue.CAST),
    )
)
"""Kinds of operations that make contiguous results of contiguous tensors."""


@cache
def shows_all(name: str) -> bool:
    """Whether a view has all the elements of what it is a view of."""
    return catalogue.operation(name).layout in ("shown", "reordered") or name in _TRANSPOSED


@cache
def is_dense(name: str, *, of_dense: bool, is_view: bool) -> bool:
    """Whether an operation's result certainly is contiguous, *of_dense*: where its arguments are."""
    row = catalogue.operation(catalogue.form(name))
    if is_view:
        return of_dense and row.layout == "shown"
    return row.layout == "always" or (of_dense and (row.kind in _PRESERVING or row.layout == "kept"))


@cache
def keeps_order(name: str) -> bool:
    """Whether an operation's result, which is no view, may lie in memory in the order of its arguments."""
    row = catalogue.operation(catalogue.form(name))
    return name not in MAY_COPY and (row.kind in _PRESERVING or row.layout == "kept")


def takes_dense_part(name: str, args: Sequence[object], keywords: Mapping[str, object]) -> bool:
    """Whether a view takes a part of a contiguous tensor along its first dimension, which is contiguous."""
    row = catalogue.operation(name)
    if row.layout != "part":
        return False
    return bool(catalogue.given(row, "dim", args, keywords, 0) == 0)


_KEEPING_DIMENSIONS = frozenset("chunk split split_with_sizes tensor_split narrow".split())
"""Operations that take a part along a dimension, and leave the number of the dimensions as it is."""


def dense_part_from(name: str, args: Sequence[object], keywords: Mapping[str, object], of: int | None) -> int | None:
    """The first dimension from which on a part of a tensor lies densely, which itself does from dimension *of* on.

    Of a dense tensor of 2 x 6 x 4 elements, ``chunk(3, dim=1)`` makes parts with 2 x 4 elements side by side each.
    """
    if of is None or name not in _KEEPING_DIMENSIONS:
        return None
    dim = catalogue.given(catalogue.operation(name), "dim", args, keywords, 0)
    return max(dim, of) if isinstance(dim, int) and dim >= 0 else None


def joins_dense(name: str, args: Sequence[object], keywords: Mapping[str, object], dense_from: int | None) -> bool:
    """Whether ``flatten`` joins only dimensions that lie densely."""
    if name != "flatten" or dense_from is None:
        return False
    start = catalogue.given(catalogue.operation(name), "start_dim", args, keywords, 0)
    return isinstance(start, int) and start >= dense_from


def dense_index_from(index: tuple[object, ...]) -> int | None:
    """The first dimension from which on what slices take of a dense tensor lies densely: 1 for ``x[:, 2:4]``."""
    if not all(isinstance(part, slice) and part.step is None for part in index):
        return None
    return max((at for at, part in enumerate(index) if part != slice(None)), default=0)


def is_dense_index(index: tuple[object, ...]) -> bool:
    """Whether an index of a contiguous tensor takes a contiguous part: ``x[3]``, ``x[2:4]``, ``x[0, 2:4, :]``."""
    parts = [part for part in index if part is not None]
    while parts and parts[-1] in (slice(None), Ellipsis):
        parts.pop()
    if not parts:
        return True
    *leading, last = parts
    return all(isinstance(part, int) for part in leading) and (
        isinstance(last, int) or (isinstance(last, slice) and last.step is None)
    )
