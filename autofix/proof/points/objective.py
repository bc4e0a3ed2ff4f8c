"""Point 5, second part: the patched script trains on the original's formula, at every step.

Two runs with every parameter update left out (``child/frozen.py``) are compared: the reference, and the patched script.
While nothing moves, nothing is stale: a value that a patch computes anew must equal the replaced value bit for bit, and
a value that it detaches does so anyhow.  So all losses must be the original's under any patch, and all gradients but
for the parts that a detach cuts by design.  Where the two runs draw other random numbers, or a parameter differs from
the original, nothing is said.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from autofix.child.recorded import Pass
from autofix.execution.record import RunRecord
from autofix.proof.points.base import listed, matching
from autofix.proof.points.gradient import (
    EXACT,
    NOISE,
    ROUGH,
    Kind,
    Meant,
    Moment,
    classify,
    loses_prediction,
    moments,
    runs_once,
    same_state,
    size,
)

LOSS = 1e-4
"""Relative difference up to which two losses count as equal: sums in another order, numpy's precision and torch's."""
DRIVEN = "with the parameters moved alike in both runs"
STILL = "with every parameter update left out"


def otherwise(
    reference: RunRecord, after: RunRecord, start: int, own: Collection[str] = (), *, cancels: bool = False
) -> str:
    """Difference of the formula of the patched run from the original's; empty where the runs agree or say nothing.

    *own* are the parameters that one of two passes need no longer train.  A patch may take the part of earlier
    iterations out of the loss, values and all, such as a patch that empties a store: then the losses differ from the
    first pass on that the original sent into the past, and nothing is said.  With *cancels*, gradients have cancelled
    out in the original, and are not compared.
    """
    if says_nothing(reference, after):
        return ""
    other = first_other_loss(reference, after)
    if other is None:
        return "" if cancels else other_gradients(reference, after, start, own)
    mine, there = other
    if drops_the_past(reference, mine, start):
        return ""
    here, now = sum(mine.losses), sum(there.losses)
    return f"another formula: {STILL}, the loss of backward pass {mine.number} is {now:.6g}, not {here:.6g}"


def otherwise_where_driven(reference: RunRecord, after: RunRecord, start: float) -> str:
    """Difference of losses while each step moves its parameters alike in both runs; empty where nothing is said.

    Such runs show an average that is no longer updated, and a term that is zero where training starts.  A patch that
    takes passes or steps in another order computes its losses at other values, and is not compared.
    """
    if says_nothing(reference, after) or any(a != b for a, b in zip(order(reference), order(after), strict=False)):
        return ""
    other = first_other_loss(reference, after)
    if other is None or drops_the_past(reference, other[0], start):
        return ""
    if _is_made_anew(*other):
        return otherwise_beside_what_is_stale(reference, after)
    return _other_formula(*other)


def _is_made_anew(mine: Pass, other: Pass) -> bool:
    """Whether a pass that comes to stale graphs comes to as many nodes of its own in the patched script."""
    stale = mine.past > 0 or (mine.used is not None and mine.used.faulty)
    return stale and not other.past and other.walked >= mine.walked


def otherwise_beside_what_is_stale(reference: RunRecord, after: RunRecord) -> str:
    """Difference, in such runs, of losses that need nothing of what the patched script computes anew; or empty.

    A value that is computed anew behind a step is another one there, and so is all that the same iteration goes on to
    compute of it.  The losses before the first stale one of an iteration are not.
    """
    if says_nothing(reference, after) or any(a != b for a, b in zip(order(reference), order(after), strict=False)):
        return ""
    indices = matching(reference, after)
    ours, theirs = compared(reference, after)
    apart = False
    for mine, other in zip(ours, theirs, strict=False):
        alike = mine.random == other.random and same_state(mine.state, other.state, indices)
        if mine.used is None or not alike:
            return ""
        begins = (mine.file, mine.line) == (ours[0].file, ours[0].line)
        apart = mine.used.faulty or (apart and not begins)
        if not apart and not close_all(mine.losses, other.losses):
            return _other_formula(mine, other)
    return ""


def _other_formula(mine: Pass, other: Pass) -> str:
    here, now = sum(mine.losses), sum(other.losses)
    return f"another formula: {DRIVEN}, the loss of backward pass {mine.number} is {now:.6g}, not {here:.6g}"


def order(run: RunRecord) -> list[tuple[int, ...]]:
    """The passes by the steps before them, and the steps by their optimizer and the passes before them."""
    passes = [(p.number, p.step) for p in run.passes]
    steps = [(s.passes, s.number, s.optimizer) for s in run.updates]
    return sorted([*passes, *steps])


def drops_the_past(reference: RunRecord, other: Pass, start: float) -> bool:
    """Whether the first pass with another loss, *other*, is the first that came to graphs of earlier iterations."""
    if not reference.optimizers:
        into_past = [p for p in reference.passes if p.present]
        return bool(into_past) and into_past[0].number >= other.number
    steps = [s for s in reference.updates if s.present and s.number > start]
    first = steps[0].number - 1 if steps else math.inf
    return other.step == first or (other.step < first and other.past > 0 and steps != [])


def says_nothing(reference: RunRecord, after: RunRecord) -> bool:
    """Whether the runs did not get far enough to be compared."""
    return not reference.complete or not after.complete or not reference.passes or not after.passes


def parts_by_draws(reference: RunRecord, after: RunRecord) -> bool:
    """Whether the two runs draw other random numbers, so that they cannot be compared from there on."""
    return any(mine.random != other.random for mine, other in zip(*compared(reference, after), strict=False))


def draws_apart(reference: RunRecord, after: RunRecord) -> bool:
    """Whether the two runs draw other random numbers in a step, for passes that may be merged, split or reordered."""
    if not reference.updates or not after.updates:
        return parts_by_draws(reference, after)
    ours, theirs = (defaultdict[int, set[str]](set), defaultdict[int, set[str]](set))
    for passes, drawn in zip(compared(reference, after), (ours, theirs), strict=True):
        for one in passes:
            drawn[one.step].add(one.random)
    return any(not drawn & theirs[step] for step, drawn in ours.items() if step in theirs)


# Losses --------------------------------------------------------------------------------------------------------------


def first_other_loss(reference: RunRecord, after: RunRecord) -> tuple[Pass, Pass] | None:
    """The first pass of the reference that the patched run sends back from another loss; None where there is none."""
    ours, theirs = compared(reference, after)
    if alike(ours, theirs):
        return None
    indices = matching(reference, after)
    for mine, other in zip(ours, theirs, strict=False):
        if mine.random != other.random or not same_state(mine.state, other.state, indices):
            return None
        if not close_all(mine.losses, other.losses):
            return mine, other
    return None


def compared(reference: RunRecord, after: RunRecord) -> tuple[list[Pass], list[Pass]]:
    """The passes of the steps that both runs made; without optimizers, as many passes as both made."""
    ours, theirs = ([p for p in run.passes if p.error is None and p.trains] for run in (reference, after))
    if not any(p.handed for p in ours):
        theirs = [p for p in theirs if not p.handed]  # the second part of a pass of the original's
    if reference.updates and after.updates:
        steps = min(reference.steps, after.steps)
        return [p for p in ours if p.step < steps], [p for p in theirs if p.step < steps]
    both = min(len(ours), len(theirs))
    return ours[:both], theirs[:both]


def alike(ours: Sequence[Pass], theirs: Sequence[Pass]) -> bool:
    """Whether two runs send back the same losses: one by one, in sum for each step, or in another order."""
    if len(ours) == len(theirs) and all(close_all(a.losses, b.losses) for a, b in zip(ours, theirs, strict=True)):
        return True
    steps = sorted({p.step for p in ours} | {p.step for p in theirs})
    pairs = [(losses_at(ours, step), losses_at(theirs, step)) for step in steps]
    if all(close(sum(mine), sum(other)) for mine, other in pairs):
        return True
    if all(has_all(mine, other) and has_all(other, mine) for mine, other in pairs):
        return True  # a pass that ran twice over one loss runs once
    last = ours[-1].step if ours else 0
    rest = [sum(p.losses) for p in theirs]
    for loss in (sum(p.losses) for p in ours if p.step < last):
        found = next((at for at, value in enumerate(rest) if close(loss, value)), None)
        if found is None:
            return False
        del rest[found]
    return len(rest) <= len(steps) or len(theirs) <= len(ours)


def losses_at(passes: Sequence[Pass], step: int) -> list[float]:
    return [sum(p.losses) for p in passes if p.step == step]


def has_all(some: Sequence[float], others: Sequence[float]) -> bool:
    return all(any(close(value, other) for other in others) for value in some)


def close(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=LOSS, abs_tol=1e-7)


def close_all(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return close(sum(ours), sum(theirs)) and len(ours) == len(theirs)


# Gradients -----------------------------------------------------------------------------------------------------------


def other_gradients(reference: RunRecord, after: RunRecord, start: int, own: Collection[str]) -> str:
    """Gradients of the patched run that differ from the reference's and must not; empty for none."""
    if any(p.cut for p in reference.passes):
        return ""  # the stand-ins for its gradients are no gradients
    indices = matching(reference, after)
    rounding = ROUGH if any(p.low for p in reference.passes) else EXACT
    found: dict[tuple[Kind, int], list[str]] = {}
    for number, here, there in pairs_of(moments(reference, start), moments(after, start)):
        if here.random != there.random or not same_state(here.states[1], there.states[1], indices):
            return ""
        noise = NOISE * max(map(size, here.whole.values()), default=0.0)
        for index, whole in sorted(here.whole.items()):
            one = reference.parameters[index]
            seen = there.whole.get(indices.get(index, -1), ())
            if one.optimizer is None or one.name in own or max(size(whole), size(seen)) <= noise:
                continue
            present = here.present.get(index, whole)
            if here.replaced and loses_prediction(whole, present, seen):
                found.setdefault((Kind.DROPPED, number), []).append(one.name)
                continue
            kind, _ = classify(meant(here, index, rounding), seen, redrawn=False, fewer=True)
            if kind is Kind.LOST and size(present) <= rounding * size(whole):
                continue
            if kind is Kind.DROPPED and runs_once(reference, after, index, indices):
                continue
            if len(seen) == len(present) and math.dist(seen, present) <= max(rounding * size(present), 10 * noise):
                continue  # the present part, also where the past cancels it out; a bias in front of a softmax
            if kind not in (Kind.EXACT, Kind.TRUNCATED):
                found.setdefault((kind, number), []).append(one.name)
        if found:
            break
    for (kind, number), names in found.items():
        return f"{kind.value} at compared step {number}, {STILL}: {listed(names)}"
    return ""


def pairs_of(ours: Sequence[Moment], theirs: Sequence[Moment]) -> Iterator[tuple[int, Moment, Moment]]:
    """The steps of each optimizer, one by one: steps of two optimizers may have changed places."""
    for optimizer in dict.fromkeys(moment.optimizer for moment in ours):
        mine, others = ([m for m in run if m.optimizer == optimizer] for run in (ours, theirs))
        for number, (here, there) in enumerate(zip(mine, others, strict=False), 1):
            yield number, here, there


def meant(moment: Moment, index: int, rounding: float) -> Meant:
    whole = moment.whole[index]
    return Meant(
        whole,
        moment.sound.get(index, whole),
        moment.present.get(index, whole),
        moment.ways.get(index) if index in moment.sound else (),
        moment.parts.get(index) if index in moment.present else (),
        rounding,
    )


# Operations without effect --------------------------------------------------------------------------------------------

WITHOUT_EFFECT = "has no effect in the steps that were watched, and may have one later"


def gates_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Message on an operation without effect that only one of two runs with equal losses has: a clamp, say; or empty.

    A part of the original's graph may be gone, with all its operations: one at the root must stay, and one that would
    be gone alone.
    """
    ours, theirs = compared(reference, after)
    if len(ours) != len(theirs) or parts_by_draws(reference, after) or not alike(ours, theirs):
        return ""
    pairs = [
        (a, b, a.open, b.open) for a, b in zip(ours, theirs, strict=True) if a.open is not None and b.open is not None
    ]
    if not pairs:
        return ""
    for kind in sorted(pairs[0][3]):
        if all(now.get(kind, 0) > mine.get(kind, 0) for _, _, mine, now in pairs):
            return f"the patched script has another operation, {kind}, which {WITHOUT_EFFECT}"
    for kind in sorted(pairs[0][2]):
        fewer = all(now.get(kind, 0) < mine.get(kind, 0) for _, _, mine, now in pairs)
        at_root = all(_at_root(kind, a) > _at_root(kind, b) for a, b, _, _ in pairs)
        alone = any(
            a.own and a.own - b.own == mine[kind] - now.get(kind, 0) for a, b, mine, now in pairs if kind in mine
        )
        if fewer and (at_root or alone):
            return f"an operation of the original, {kind}, is left out, which {WITHOUT_EFFECT}"
    return ""


def _at_root(kind: str, one: Pass) -> int:
    name = kind.partition("(")[0]
    return sum(node.startswith(f"{name}Backward") for node in one.trunk)


# Without such runs ---------------------------------------------------------------------------------------------------


def alike_throughout(reference: RunRecord, after: RunRecord, start: int) -> bool:
    """Whether the patched script computes as the reference, step by step, so that no further runs are needed."""
    ours, theirs = compared(reference, after)
    steps = list(zip(moments(reference, start), moments(after, start), strict=False))
    indices = matching(reference, after)
    return (
        bool(ours)
        and len(ours) == len(theirs)
        and all(close_all(a.losses, b.losses) for a, b in zip(ours, theirs, strict=True))
        and bool(steps)
        and all(
            here.optimizer == there.optimizer
            and len(there.whole.get(indices.get(i, -1), ())) == len(whole)
            and math.dist(whole, there.whole[indices[i]]) <= EXACT * size(whole)
            for here, there in steps
            for i, whole in here.whole.items()
        )
    )
