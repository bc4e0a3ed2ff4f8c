"""The places at which two chains of calls part; a chain is the calls that lead to a moment, the outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def parting(freed: Sequence[T], failed: Sequence[T]) -> tuple[T, T] | None:
    """The innermost calls that led to the one pass and not to the other, where the passes are one statement."""
    first, second = list(freed), list(failed)
    while first and second and first[-1] == second[-1]:
        first.pop()
        second.pop()
    return (first[-1], second[-1]) if first and second and freed[-1] == failed[-1] else None


def apart(change: Sequence[T], failed: Sequence[T]) -> tuple[T, T] | None:
    """The calls of one function that led to a change and to the pass, where they stand in other functions."""
    common = 0
    while common < min(len(change), len(failed)) - 1 and change[common] == failed[common]:
        common += 1
    if common == len(change) - 1 and common == len(failed) - 1:
        return None
    return change[common], failed[common]
