"""Point 5: the gradients against the reference, parameter by parameter.

The reference is the broken script itself, run on with every graph kept and every saved tensor as it was
(``child/reference.py``): what the author's formulas mean.  Compared is the gradient at the first step of each optimizer
after the failure, as long as both runs still have the same parameters.  For each parameter it is

- *exact*: equal up to rounding;
- *truncated*: the part is missing, or a piece of it, that comes through what failed: graphs of earlier iterations.  A
  detach between iterations means just that;
- *recomputed*: that part is there with other values, because a second forward pass took the place of a stale one and
  saw the weights after a step (``D(g)`` asked anew after the discriminator's step), or drew other random numbers;
- *later*: it gets gradients, but first at a step at which the runs have parted already, so that they say nothing;
- *lost*: there is none any more;
- *scaled*: a multiple of the reference, with one factor for all parameters of an optimizer: a loss counted twice or
  halved;
- *changed*: it differs although nothing that failed concerns it, or by more than what came through what failed.

The last three refuse a patch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autofix.points.base import Point, Verdict, count, listed, matching, point, short
from autofix.record import Parts, RunRecord, Sketches

EXACT = 1e-4
"""Relative difference up to which two gradients count as equal: single precision, sums in another order."""
IN_STEP = 1e-2
"""The same for the steps after, to which rounding has been carried on."""
ONCE = 0.05
"""How far a factor may be from one without speaking of a loss that is counted more or less than once."""
SPREAD = 3.0
"""How many times the faulty part a recomputed gradient may differ from the sound one."""


class Kind(StrEnum):
    EXACT = "exact"
    TRUNCATED = "truncated"
    RECOMPUTED = "recomputed"
    LATER = "later"
    LOST = "lost"
    SCALED = "scaled"
    CHANGED = "changed"


REFUSED = (Kind.LOST, Kind.SCALED, Kind.CHANGED)


@dataclass(frozen=True)
class Moment:
    """The gradients at one step (at one pass, where there is no optimizer)."""

    optimizer: int | None
    whole: Sketches
    sound: Sketches
    parts: Parts
    random: str
    """Fingerprint of the random generator before the last pass."""
    losses: tuple[float, ...] = ()
    """What the last pass was sent back from."""


@dataclass
class Comparison:
    """What is known of each parameter, while the runs are followed step by step."""

    kinds: dict[int, Kind] = field(default_factory=dict)
    differences: dict[int, float] = field(default_factory=dict)
    pairs: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    """The reference's and the patched run's gradient where they were compared."""


def gradient(before: RunRecord, reference: RunRecord, after: RunRecord, start: int) -> Point:
    """Compare from optimizer step *start* on (from pass *start*, where there is no optimizer)."""
    ours, theirs = moments(reference, start), moments(after, start)
    wanted = trained(reference, ours)
    if not wanted:
        return point(5, Verdict.NOT_PROVED, why_no_reference(before, reference))
    indices = matching(reference, after)
    found = compare(wanted, ours, theirs, indices, fewer=walks_less(reference, after, start))
    for index in wanted - set(found.kinds):
        alive = gets_gradient(after, indices.get(index, -1), start)
        found.kinds[index], found.differences[index] = (Kind.LATER, 0.0) if alive else (Kind.LOST, 1.0)
    factor = common_factor(reference, found)
    if factor is not None:
        found.kinds.update({i: Kind.SCALED for i, k in found.kinds.items() if k not in (Kind.EXACT, Kind.LATER)})
    return told(reference, found.kinds, found.differences, factor)


def compare(
    wanted: set[int], ours: Sequence[Moment], theirs: Sequence[Moment], indices: Mapping[int, int], *, fewer: bool
) -> Comparison:
    """Follow both runs until they part, and classify each parameter where it first gets a gradient."""
    found = Comparison()
    for here, there in zip(ours, theirs, strict=False):
        if here.optimizer != there.optimizer:
            break
        # Another loss from the same parameters, over no fewer nodes: a second forward pass saw other values.
        anew = not fewer and not same_losses(here.losses, there.losses)
        redrawn = parted = here.random != there.random or anew
        for index in sorted(wanted & set(here.whole)):
            whole, sound = here.whole[index], here.sound.get(index, here.whole[index])
            seen = there.whole.get(indices.get(index, -1), ())
            first = index not in found.kinds
            if not size(whole) and first:
                continue
            parts = here.parts.get(index)
            kind, difference = classify(whole, sound, seen, parts, redrawn=redrawn, fewer=fewer)
            if first:
                found.kinds[index], found.differences[index] = kind, difference
                found.pairs[index] = whole, seen
            elif difference > IN_STEP and not redrawn:
                # Behind a failure of another kind the graphs of earlier iterations may come into play only here.
                explained = kind in (Kind.TRUNCATED, Kind.RECOMPUTED)
                found.kinds[index] = kind if explained else Kind.CHANGED
                found.differences[index] = difference
            parted = parted or kind is not Kind.EXACT
        if parted:
            break
    return found


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
    if set(names) <= {Kind.EXACT}:
        return point(5, Verdict.PASSED, f"exact for {count(len(kinds), 'parameter')}", **figures)
    parts = []
    for kind in sorted(names, key=list(Kind).index):
        largest = max(differences[i] for i, k in kinds.items() if k is kind)
        size = f" (by up to {100 * largest:.3g} %)" if kind in (Kind.TRUNCATED, Kind.RECOMPUTED, Kind.CHANGED) else ""
        times = f" ({factor:.3g} times the reference)" if kind is Kind.SCALED and factor is not None else ""
        parts.append(f"{kind.value}{size}{times}: {listed(names[kind])}")
    verdict = Verdict.FAILED if any(kind in names for kind in REFUSED) else Verdict.PASSED
    return point(5, verdict, "; ".join(parts), **figures)


def moments(record: RunRecord, start: int) -> list[Moment]:
    """The recorded gradients after *start*, in their order."""
    if not record.optimizers:
        passes = [p for p in record.passes if p.number > start and p.error is None and p.sketches is not None]
        return [Moment(None, p.sketches or {}, p.sound, p.parts, p.random, p.losses) for p in passes]
    last = {p.number: (p.random, p.losses) for p in record.passes}
    return [
        Moment(step.optimizer, step.sketches, step.sound, step.parts, *last.get(step.passes, ("", ())))
        for step in record.updates
        if step.number > start and step.sketches is not None
    ]


def trained(reference: RunRecord, ours: Sequence[Moment]) -> set[int]:
    """What the reference run trains: parameters with a gradient; of leaves outside of optimizers, those that move."""
    has = {i for moment in ours for i, sketch in moment.whole.items() if size(sketch)}
    if reference.optimizers:
        return {i for i in has if reference.parameters[i].optimizer is not None}
    moved = {i for i in has if len({p.state[i] for p in reference.passes if i in p.state}) > 1}
    return moved or has


def gets_gradient(after: RunRecord, index: int, start: int) -> bool:
    """Whether the patched run gives the parameter a gradient anywhere after *start*."""
    if after.optimizers:
        return any(step.gradients.get(index) for step in after.updates if step.number > start)
    return any(one.gradients.get(index) for one in after.passes if one.number > start)


def classify(
    whole: tuple[float, ...],
    sound: tuple[float, ...],
    seen: tuple[float, ...],
    parts: Sequence[tuple[float, ...]] | None = None,
    *,
    redrawn: bool,
    fewer: bool,
) -> tuple[Kind, float]:
    """The kind of one parameter's gradient, and its distance from the reference relative to the reference's norm.

    ``parts`` are the pieces of *whole* beside *sound*, if they are known; ``redrawn`` says that the patched run has
    drawn other random numbers, ``fewer`` that its passes visit fewer nodes.
    """
    norm = size(whole)
    if not norm:
        return (Kind.CHANGED, 1.0) if size(seen) else (Kind.EXACT, 0.0)
    if not size(seen):
        # Nothing at this step; whether at all is for the later ones to say.
        only_faulty = size(sound) <= EXACT * norm
        return (Kind.TRUNCATED if only_faulty and seen else Kind.LOST), 1.0
    if len(seen) != len(whole):
        return Kind.CHANGED, 1.0
    off, faulty, from_sound = math.dist(seen, whole), math.dist(whole, sound), math.dist(seen, sound)
    if off <= EXACT * norm:
        return Kind.EXACT, off / norm
    if redrawn and size(seen) <= SPREAD * norm:
        return Kind.RECOMPUTED, off / norm
    if faulty <= EXACT * norm or from_sound > SPREAD * faulty:
        return Kind.CHANGED, off / norm
    if from_sound <= EXACT * norm:
        return Kind.TRUNCATED, off / norm
    if fewer:
        # Some of the ways into the past may be kept, by a graph that is retained; but nothing else may be missing.
        whole_ways = parts is None or is_sum_of_some(parts, seen, sound, 10 * EXACT * norm)
        return (Kind.TRUNCATED if whole_ways else Kind.CHANGED), off / norm
    return Kind.RECOMPUTED, off / norm


def same_losses(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether two passes were sent back from the same values, up to rounding."""
    return len(ours) == len(theirs) and all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(ours, theirs, strict=True))


def is_sum_of_some(
    parts: Sequence[tuple[float, ...]], seen: tuple[float, ...], sound: tuple[float, ...], tolerance: float
) -> bool:
    """Whether *seen* is *sound* and some of *parts*, up to *tolerance*."""
    for chosen in range(2 ** len(parts)):
        some = [part for bit, part in enumerate(parts) if chosen >> bit & 1]
        if math.dist(seen, [sum(values) for values in zip(sound, *some, strict=True)]) <= tolerance:
            return True
    return False


def walks_less(reference: RunRecord, after: RunRecord, start: int) -> bool:
    """Whether the patched run's passes of the first compared step visit fewer nodes than the reference's."""
    by_step = bool(reference.optimizers)
    ours = sum(p.walked for p in reference.passes if (p.step if by_step else p.number - 1) == start)
    theirs = sum(p.walked for p in after.passes if (p.step if by_step else p.number - 1) == start)
    return theirs < ours


def common_factor(reference: RunRecord, found: Comparison) -> float | None:
    """The factor by which all gradients of some optimizer are scaled, if there is one; None otherwise.

    One number alone is always a multiple of another, so it takes at least two.
    """
    for optimizer in {p.optimizer for p in reference.parameters.values()}:
        members = [i for i in found.pairs if reference.parameters[i].optimizer == optimizer]
        pairs = [found.pairs[i] for i in members]
        if any(found.kinds[i] in (Kind.EXACT, Kind.LOST) for i in members) or any(len(a) != len(b) for a, b in pairs):
            continue
        a = [value for pair in pairs for value in pair[0]]
        b = [value for pair in pairs for value in pair[1]]
        if len(a) < 2 or not size(a) or not size(b):
            continue
        factor = sum(x * y for x, y in zip(a, b, strict=True)) / size(a) ** 2
        if abs(factor - 1) <= ONCE:
            continue
        if math.dist([factor * x for x in a], b) <= 1e-3 * size(b):
            return factor
    return None


def why_no_reference(before: RunRecord, reference: RunRecord) -> str:
    failure = reference.failure
    if failure is not None:
        where = f" in line {failure.error.line}" if failure.error.line else ""
        return (
            f"there is no reference: with all graphs kept, too, the original fails{where}: {short(str(failure.error))}"
        )
    if before.failure is not None and reference.steps <= before.failure.steps:
        return f"there is no reference: its run {reference.outcome.value} before the step that failed"
    return "there is no reference: its run computed no gradient"


def size(values: Sequence[float]) -> float:
    return math.hypot(*values)
