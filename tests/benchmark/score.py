"""The score of every contender and case, and their totals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Repaired(StrEnum):
    """Result for a broken script."""

    EXACTLY = "exactly"
    """Byte by byte the reference's repair."""
    DIFFERENTLY = "differently"
    """Another repair, which stands the proof by execution."""
    WRONGLY = "wrong"
    """A patch that does not stand it."""
    OPEN = "open"
    """A patch of which no run could show whether it is right."""
    NOT = "not repaired"


class Alarm(StrEnum):
    """Result for a script that is right."""

    NONE = "left alone"
    REPORTED = "reported"
    CHANGED = "changed"


@dataclass(frozen=True)
class Score:
    """Result of a contender in one case."""

    found: bool = False
    cause: bool = False
    """Whether it named a line that the reference's repair changes."""
    repaired: Repaired = Repaired.NOT
    alarm: Alarm = Alarm.NONE
    detail: str = ""

    def but(self, **changes: Any) -> Score:
        """This score with *changes*."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Row:
    """The sums over some cases, in the order of the table's columns."""

    broken: int
    found: int
    cause: int
    exactly: int
    differently: int
    open: int
    wrong: int
    clean: int
    alarms: int
    harmed: int


def total(scores: Iterable[Score], *, broken: int, clean: int) -> Row:
    """Add up *scores*; *broken* and *clean* are the numbers of their cases with such a script."""
    known = list(scores)
    how = [score.repaired for score in known]
    return Row(
        broken=broken,
        found=sum(score.found for score in known),
        cause=sum(score.cause for score in known),
        exactly=how.count(Repaired.EXACTLY),
        differently=how.count(Repaired.DIFFERENTLY),
        open=how.count(Repaired.OPEN),
        wrong=how.count(Repaired.WRONGLY),
        clean=clean,
        alarms=sum(score.alarm is not Alarm.NONE for score in known),
        harmed=sum(score.alarm is Alarm.CHANGED for score in known),
    )
