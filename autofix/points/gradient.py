"""Point 5: the gradients against the reference, parameter by parameter.

The reference is the broken script itself, run on with every graph kept and every saved tensor as it was
(``child/reference.py``): what the author's formulas mean.  Compared is the gradient at the first step of each
optimizer after the failure, when both runs still have the same parameters.  For each parameter it is

- *exact*: equal up to rounding;
- *truncated*: the part is missing, or a piece of it, that comes through what failed: graphs of earlier iterations.  A
detach between iterations means just that; - *recomputed*: that part is there with other values, because a second
forward pass took the place of a stale one and saw the weights after a step (``D(g)`` asked anew after the
discriminator's step); - *lost*: there is none any more; - *scaled*: a multiple of the reference, with one factor for
all parameters of an optimizer: a loss counted twice or halved; - *changed*: it differs although nothing that failed
concerns it, or by more than what came through what failed.

The last three refuse a patch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from autofix.points.base import Point, Verdict, count, listed, matching, point
from autofix.record import RunRecord, Sketches

EXACT = 1e-4
"""Relative difference up to which two gradients count as equal: single precision, sums in another order."""
IN_STEP = 1e-2
"""The same for the steps after, to which rounding has been carried on."""
SPREAD = 3.0
"""How many times the faulty part a recomputed gradient may differ from the sound one."""


class Kind(StrEnum):
    EXACT = "exact"
    TRUNCATED = "truncated"
    RECOMPUTED = "recomputed"
    LOST = "lost"
    SCALED = "scaled"
    CHANGED = "changed"


REFUSED = (Kind.LOST, Kind.SCALED, Kind.CHANGED)


def gradient(before: RunRecord, reference: RunRecord, after: RunRecord, start: int) -> Point:
    """Compare from optimizer step *start* on (from pass *start*, where there is no optimizer)."""
    ours, theirs = moments(reference, start), moments(after, start)
    wanted = trained(reference, ours)
    if not wanted:
        return point(5, Verdict.NOT_PROVED, why_no_reference(before, reference))
    indices = matching(reference, after)
    kinds: dict[int, Kind] = {}
    differences: dict[int, float] = {}
    for index in wanted:
        whole, sound = ours[index][0]
        seen = [s for s, _ in theirs.get(indices.get(index, -1), [])]
        kinds[index], differences[index] = classify(whole, sound, seen)
    fewer = walks_less(reference, after, start)
    kinds = {i: Kind.TRUNCATED if k is Kind.RECOMPUTED and fewer else k for i, k in kinds.items()}
    factor = common_factor(reference, kinds, ours, theirs, indices)
    if factor is not None:
        kinds = {i: k if k is Kind.EXACT else Kind.SCALED for i, k in kinds.items()}
    elif set(kinds.values()) == {Kind.EXACT} and (drifting := drifts(ours, theirs, indices)) is not None:
        kinds[drifting] = Kind.CHANGED
    return told(reference, kinds, differences, factor)


def told(
    reference: RunRecord, kinds: Mapping[int, Kind], differences: Mapping[int, float], factor: float | None
) -> Point:
    """The verdict in words and figures."""
    names: dict[Kind, list[str]] = {}
    for index, kind in sorted(kinds.items()):
        names.setdefault(kind, []).append(reference.parameters[index].name)
    figures: dict[str, Any] = {
        "parameters": {
            reference.parameters[i].name: {"kind": kind.value, "difference": differences[i]}
            for i, kind in sorted(kinds.items())
        },
        "counts": {kind.value: len(these) for kind, these in names.items()},
    }
    if factor is not None:
        figures["factor"] = factor
    if set(names) == {Kind.EXACT}:
        return point(5, Verdict.PASSED, f"exact for {count(len(kinds), 'parameter')}", **figures)
    parts = []
    for kind in sorted(names, key=list(Kind).index):
        largest = max(differences[i] for i, k in kinds.items() if k is kind)
        size = f" (by up to {100 * largest:.3g} %)" if kind in (Kind.TRUNCATED, Kind.RECOMPUTED, Kind.CHANGED) else ""
        times = f" ({factor:.3g} times the reference)" if kind is Kind.SCALED and factor is not None else ""
        parts.append(f"{kind.value}{size}{times}: {listed(names[kind])}")
    verdict = Verdict.FAILED if any(kind in names for kind in REFUSED) else Verdict.PASSED
    return point(5, verdict, "; ".join(parts), **figures)


Moments = dict[int, list[tuple[tuple[float, ...], tuple[float, ...]]]]
"""For each parameter its gradients, moment by moment, as sketches of the whole and of its sound part."""


def moments(record: RunRecord, start: int) -> Moments:
    """The recorded gradients of each parameter after *start*, an empty sketch where there is none."""
    found: Moments = {}
    if record.optimizers:
        for step in record.updates:
            if step.number > start and step.sketches is not None:
                members = [i for i, p in record.parameters.items() if p.optimizer == step.optimizer]
                _collect(found, members, step.sketches, step.sound)
    else:
        for one in record.passes:
            if one.number > start and one.error is None and one.sketches is not None:
                _collect(found, sorted(one.reached), one.sketches, one.sound)
    return found


def _collect(found: Moments, members: Sequence[int], sketches: Sketches, sound: Sketches) -> None:
    for index in members:
        whole = sketches.get(index, ())
        found.setdefault(index, []).append((whole, sound.get(index, whole)))


def trained(reference: RunRecord, ours: Moments) -> list[int]:
    """What the reference run trains: parameters with a gradient; of leaves outside of optimizers, those that move."""
    has = sorted(i for i, seen in ours.items() if size(seen[0][0]))
    if reference.optimizers:
        return has
    moved = [i for i in has if len({p.state[i] for p in reference.passes if i in p.state}) > 1]
    return moved or has


def classify(
    whole: tuple[float, ...], sound: tuple[float, ...], seen: Sequence[tuple[float, ...]]
) -> tuple[Kind, float]:
    """The kind of one parameter's gradient, and its distance from the reference relative to the reference's norm."""
    norm = size(whole)
    if not any(size(one) for one in seen):
        return Kind.LOST, 1.0
    first = seen[0] or tuple(0.0 for _ in whole)
    if len(first) != len(whole):
        return Kind.CHANGED, 1.0
    off = distance(first, whole)
    if off <= EXACT * norm:
        return Kind.EXACT, off / norm
    faulty = distance(whole, sound)
    from_sound = distance(first, sound)
    if faulty <= EXACT * norm or from_sound > SPREAD * faulty:
        return Kind.CHANGED, off / norm
    if from_sound <= EXACT * norm or not size(first):
        return Kind.TRUNCATED, off / norm
    return Kind.RECOMPUTED, off / norm


def walks_less(reference: RunRecord, after: RunRecord, start: int) -> bool:
    """Whether the patched run's passes of the first compared step visit fewer nodes than the reference's."""
    by_step = bool(reference.optimizers)
    ours = sum(p.walked for p in reference.passes if (p.step if by_step else p.number - 1) == start)
    theirs = sum(p.walked for p in after.passes if (p.step if by_step else p.number - 1) == start)
    return theirs < ours


def common_factor(
    reference: RunRecord, kinds: Mapping[int, Kind], ours: Moments, theirs: Moments, indices: Mapping[int, int]
) -> float | None:
    """The factor by which all gradients of some optimizer are scaled, if there is one; None otherwise.

    One number alone is always a multiple of another, so it takes at least two.
    """
    for optimizer in {p.optimizer for p in reference.parameters.values()}:
        members = [i for i in kinds if reference.parameters[i].optimizer == optimizer]
        if any(kinds[i] in (Kind.EXACT, Kind.LOST) for i in members):
            continue
        pairs = [(ours[i][0][0], theirs[indices[i]][0][0]) for i in members]
        if any(len(a) != len(b) for a, b in pairs):
            continue
        a = [value for pair in pairs for value in pair[0]]
        b = [value for pair in pairs for value in pair[1]]
        if len(a) < 2 or not size(a) or not size(b):
            continue
        factor = sum(x * y for x, y in zip(a, b, strict=True)) / size(a) ** 2
        if math.dist([factor * x for x in a], b) <= 1e-3 * size(b):
            return factor
    return None


def drifts(ours: Moments, theirs: Moments, indices: Mapping[int, int]) -> int | None:
    """The first parameter whose later gradients leave the reference although its first was exact, if there is one."""
    for index, seen in ours.items():
        others = theirs.get(indices.get(index, -1), [])
        for (whole, _), (other, _) in zip(seen[1:], others[1:], strict=False):
            if len(whole) == len(other) and distance(whole, other) > IN_STEP * max(size(whole), size(other)):
                return index
            if len(whole) != len(other) and max(size(whole), size(other)) > 0:
                return index
    return None


def why_no_reference(before: RunRecord, reference: RunRecord) -> str:
    failure = reference.failure
    if failure is not None:
        where = f" in line {failure.error.line}" if failure.error.line else ""
        return f"there is no reference: with all graphs kept, too, the original fails{where}"
    if before.failure is not None and reference.steps <= before.failure.steps:
        return f"there is no reference: its run {reference.outcome.value} before the step that failed"
    return "there is no reference: its run computed no gradient"


def size(values: Sequence[float]) -> float:
    return math.hypot(*values)


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    return math.dist(a, b)
