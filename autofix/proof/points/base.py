"""The verdict on one point, and the words for points in reports."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from autofix.codemods.promises import Keeps
from autofix.execution.record import Outcome, RunRecord


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_PROVED = "not proved"
    NOT_APPLICABLE = "does not apply"
    """The script has nothing that the point is about: a script that trains nothing need not train."""


@dataclass(frozen=True)
class Point:
    """One point of the proof: number and name as in the documentation, verdict, and the figures behind it."""

    number: int
    name: str
    verdict: Verdict
    detail: str
    figures: dict[str, Any] = field(default_factory=dict)
    """Plain numbers, strings and lists, ready for JSON."""
    optional: bool = False
    """Whether the patch may be called proved while this point stays open: the script itself cannot show it."""


NAMES = {
    1: "fails before",
    2: "clean after",
    3: "same until the failure",
    4: "still trains",
    5: "gradient",
    6: "memory flat",
}


def point(number: int, verdict: Verdict, detail: str, **figures: Any) -> Point:
    return Point(number, NAMES[number], verdict, detail, figures)


def trains_nothing_by_design(*runs: RunRecord) -> bool:
    """Whether a script is none that trains: no run of it makes an optimizer, or changes a leaf between two passes.

    A loop may be one that updates its weights by hand, which the runs need not show; so none may run a pass again.
    """
    return not any(run.optimizers or _moves(run) or _loops(run) for run in runs)


def _moves(run: RunRecord) -> bool:
    states: dict[int, set[str]] = {}
    for one in run.passes:
        for index, bits in one.state.items():
            states.setdefault(index, set()).add(bits)
    return any(len(bits) > 1 for bits in states.values())


def _loops(run: RunRecord) -> bool:
    places = [(one.file, one.line) for one in run.passes]
    return len(set(places)) < len(places)


def unproved(reason: str) -> tuple[Point, ...]:
    """Points 2 to 6 of a patch that could not be compared with its original."""
    return tuple(point(number, Verdict.NOT_PROVED, reason) for number in (2, 3, 4, 5, 6))


def comes_to_its_end(after: RunRecord) -> Point:
    """Point 2 where the original raises nothing."""
    if after.failure is not None or not after.complete:
        return point(2, Verdict.FAILED, str(after.failure.error if after.failure is not None else after.outcome.value))
    steps, passes = count(after.steps, "step"), count(len(after.losses), "backward pass")
    ended = "ran on until it was stopped" if after.outcome is Outcome.STOPPED else "ran to its end"
    return point(2, Verdict.PASSED, f"{ended}: {steps}, {passes}")


def not_deterministic(one: Point) -> Point:
    detail = "the original does not repeat itself with the same seed, so that the runs cannot be compared"
    return replace(one, verdict=Verdict.NOT_PROVED, detail=detail)


_NOTHING_ALIKE = {
    Keeps.APART: "the original collects one tensor several times, so that its losses are of other values",
    Keeps.GATHERED: "the original steps by parts of the loss, so that it has no step to compare with",
    Keeps.MEANT: "the original sends another loss backward, so that it has no gradients to compare with",
}
"""Why a patch with one of these promises has no losses and gradients that the original has."""


def nothing_alike(one: Point, promises: Collection[Keeps]) -> Point:
    """Point 3 or 5, which stays open where the original shows nothing that the patched script can be compared with."""
    detail = next((why for promise, why in _NOTHING_ALIKE.items() if promise in promises), "")
    return replace(one, verdict=Verdict.NOT_PROVED, detail=detail) if detail else one


def matching(before: RunRecord, after: RunRecord) -> dict[int, int]:
    """Index in the original's record to index in the patched one's, for every parameter that both have."""
    keys = {p.key: i for i, p in after.parameters.items()}
    return {i: keys[p.key] for i, p in before.parameters.items() if p.key in keys}


def count(number: int, word: str) -> str:
    plural = {"loss": "losses", "backward pass": "backward passes"}.get(word, word + "s")
    return f"{number} {word if number == 1 else plural}"


def listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def short(text: str, most: int = 160) -> str:
    """The first sentences of the first line of *text*, as many as fit, and one at least; none is cut."""
    first, *others = re.split(r"(?<=[.!?]) +(?=[A-Z])", text.strip().partition("\n")[0].strip())
    for sentence in others:
        if len(first) + 1 + len(sentence) > most:
            break
        first = f"{first} {sentence}"
    return first.removesuffix(".") if others else first
