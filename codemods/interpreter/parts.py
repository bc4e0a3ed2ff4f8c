"""Parts of tensors that indices take, and which of them a change in place leaves as they were."""

from __future__ import annotations

from autofix.codemods.autograd.graph import Node
from autofix.codemods.interpreter.values import TensorImpl


def untouched(cell: TensorImpl, place: tuple[object, ...]) -> Node | None:
    """The graph of a tensor before other parts of it than this were changed."""
    node = cell.node
    for written in reversed(cell.writes):
        if node is not written.after or not apart(written.place, place):
            break
        node = written.before
    return node


def apart(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two indices certainly take different parts of a tensor: ``x[:, :2]`` and ``x[:, 2:]``."""
    for mine, theirs in zip(one, other, strict=False):
        if mine is Ellipsis or theirs is Ellipsis:
            if mine is not theirs:
                return False
            continue
        first, second = _range(mine), _range(theirs)
        if first is None or second is None:
            return False
        if _ends_before(first, second) or _ends_before(second, first):
            return True
    return False


def _range(index: object) -> tuple[int | None, int | None] | None:
    """From where and to where an index goes; None for what adds a dimension, has a step, or is not known."""
    if isinstance(index, int):
        return index, None if index == -1 else index + 1
    if isinstance(index, slice) and index.step is None:
        bounds = index.start, index.stop
        return bounds if all(bound is None or isinstance(bound, int) for bound in bounds) else None
    return None


def _ends_before(one: tuple[int | None, int | None], other: tuple[int | None, int | None]) -> bool:
    end, start = one[1], other[0]
    return end is not None and start is not None and (end < 0) == (start < 0) and end <= start
