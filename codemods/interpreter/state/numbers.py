"""Numbers that tell the objects and the events of a run apart."""

from __future__ import annotations


class Numbers:
    """Whole numbers from 0 on, each of them once; they can be pickled, which ``itertools.count`` cannot everywhere."""

    __slots__ = ("_following",)

    def __init__(self) -> None:
        self._following = 0

    def __next__(self) -> int:
        number = self._following
        self._following = number + 1
        return number
