"""Bounds that the answers of one path set for a number or a name that is compared with constants.

``size <= 256`` and ``size == 512`` are two conditions, but they are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import inf
from typing import NamedTuple

_TURNED = {"Gt": "Lt", "Lt": "Gt", "Eq": "Eq"}
_OPPOSITE = {"Gt": "LtE", "GtE": "Lt", "Lt": "GtE", "LtE": "Gt", "Eq": "NotEq", "NotEq": "Eq"}

_Constant = int | float | str


class Comparison(NamedTuple):
    """A comparison of something unknown with a constant."""

    of: Hashable
    operator: str
    """The name of its class in :mod:`ast`."""
    constant: _Constant


def comparison(key: Hashable) -> Comparison | None:
    """The comparison that a condition's *key* stands for; None for any other condition."""
    if not isinstance(key, tuple) or len(key) != 3 or key[0] not in _TURNED:
        return None
    name, left, right = key
    for of, other, operator in ((left, right, name), (right, left, _TURNED[name])):
        value = _constant(other)
        if value is not None and _constant(of) is None:
            return Comparison(of, operator, value)
    return None


def _constant(key: Hashable) -> _Constant | None:
    match key:
        case ("int" | "float", (int() | float()) as value) if value == value:
            return value
        case ("str", str() as value):
            return value
    return None


class Bounds:
    """The comparisons of one thing that were answered on a path, each as one that holds."""

    def __init__(self) -> None:
        self._holding: list[tuple[Comparison, int]] = []

    def add(self, asked: Comparison, holds: bool, position: int) -> None:
        """Take in the answer to the question at *position* of the path."""
        operator = asked.operator if holds else _OPPOSITE[asked.operator]
        self._holding.append((asked._replace(operator=operator), position))

    def implied(self, asked: Comparison) -> tuple[bool, list[int]] | None:
        """The only answer to a further comparison that agrees with the others, and the positions of those; or None."""
        for holds in (True, False):
            operator = asked.operator if holds else _OPPOSITE[asked.operator]
            at = list(self._contradicting(asked._replace(operator=operator)))
            if at:
                return not holds, at
        return None

    def _contradicting(self, other: Comparison) -> Iterator[int]:
        for one, position in self._holding:
            if type(one.constant) is str or type(other.constant) is str:
                equal = one.operator == other.operator == "Eq" and one.constant != other.constant
                opposed = {one.operator, other.operator} == {"Eq", "NotEq"} and one.constant == other.constant
                if equal or opposed:
                    yield position
            elif _disjoint(one, other):
                yield position


def _disjoint(one: Comparison, other: Comparison) -> bool:
    """Whether no number satisfies both comparisons."""
    if "NotEq" in (one.operator, other.operator):
        return {one.operator, other.operator} == {"Eq", "NotEq"} and one.constant == other.constant
    low, open_below = max(_lower(one), _lower(other))
    high, closed_above = min(_upper(one), _upper(other))
    return low > high or (low == high and (open_below or not closed_above))


def _lower(one: Comparison) -> tuple[float, bool]:
    """The number above which a comparison holds, and whether it fails for that number itself."""
    if one.operator in ("Gt", "GtE", "Eq") and not isinstance(one.constant, str):
        return one.constant, one.operator == "Gt"
    return -inf, True


def _upper(one: Comparison) -> tuple[float, bool]:
    """The number below which a comparison holds, and whether it holds for that number itself."""
    if one.operator in ("Lt", "LtE", "Eq") and not isinstance(one.constant, str):
        return one.constant, one.operator != "Lt"
    return inf, False
