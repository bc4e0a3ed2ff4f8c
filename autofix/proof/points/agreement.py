"""Point 3: up to the failure, the patched run is the original one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autofix.child.recorded import Pass, Sketches
from autofix.codemods.promises import Keeps
from autofix.execution.record import Outcome, RunRecord
from autofix.proof.points.base import Point, Verdict, count, listed, matching, point
from autofix.proof.points.gradient import EXACT, NOISE, ROUGH, size
from autofix.proof.promises import NOTHING, Promises

START = "at the start"
NEW_TENSORS = "new_tensors"
"""Key of the number of losses that show that a patch updates in place what the original makes anew."""
UPDATED = 3
"""Passes behind the failure whose losses must be equal for that."""
ROUNDING = 1e-5
"""Relative difference up to which two losses or norms count as equal although their bits differ."""


def same_until_failure(before: RunRecord, after: RunRecord) -> Point:
    """Point 3: up to the failing backward, losses and parameters equal the original's, bit for bit.

    A patch may run one pass over the sum of several losses, or arrange the passes within the step that failed in
    another order.  Then the parameters after every completed optimizer step are compared.  Where the original kept its
    graphs and so reached back into an earlier pass's graph *before* the pass that failed, a right patch differs from
    there on: then the runs are compared up to the first pass that reached back.
    """
    failure = before.failure
    assert failure is not None
    if not after.passes and after.outcome is Outcome.NOT_STARTED:
        return point(3, Verdict.NOT_PROVED, "the patched script did not run")
    whole = compare_until(before, after, failure.passes, failure.steps)
    if whole.verdict is Verdict.PASSED:
        return whole
    onset = next((p for p in before.passes[: failure.passes] if p.past), None)
    if onset is None:
        return whole
    part = compare_until(before, after, onset.number - 1, onset.step)
    if part.verdict is not Verdict.PASSED:
        return whole
    until = f"until backward pass {onset.number}, the first to walk into an earlier step's graph"
    return replace(part, detail=f"{part.detail}, {until}", figures={**part.figures, "until_pass": onset.number})


def by_gradients_of_last_step(reference: RunRecord, after: RunRecord, start: int, same: Point) -> Point:
    """*same*, refused where it is so up to rounding, and the last step before *start* has other gradients.

    Adam's first step is the same for many gradients.
    """
    if same.verdict is not Verdict.PASSED or same.figures.get("bit_equal", True):
        return same
    indices = matching(reference, after)
    rounding = ROUGH if any(p.low for p in reference.passes) else EXACT
    for step, other in zip(reference.updates, after.updates, strict=False):
        if step.number != start or not step.sketches or not other.sketches:
            continue
        noise = NOISE * max(map(size, step.sketches.values()), default=0.0)
        names = [
            reference.parameters[i].name
            for i, value in step.sketches.items()
            if len(now := other.sketches.get(indices.get(i, -1), ())) == len(value)
            and math.dist(value, now) > max(rounding * size(value), noise)
        ]
        if names:
            detail = f"step {step.number} is made of other gradients than the original's: {listed(names)}"
            return replace(same, verdict=Verdict.FAILED, detail=detail)
    return same


def without_what_failed(
    before: RunRecord,
    reference: RunRecord,
    after: RunRecord,
    same: Point,
    gradients: Point,
    promises: Promises = NOTHING,
) -> Point:
    """*same*, or another verdict where the runs part, with equal losses, at a pass through the nodes that failed later.

    In PPO's first epoch, ``exp(new - old)`` goes through the old log-probabilities, and a patch that takes these as
    numbers gives that pass another gradient.  If it is the reference's gradient without the failed nodes, the patch
    does just what it says.  Else the point is left open: the original cannot show whether that gradient is intended.
    The source shows it where it has such a ratio (``RATIO`` of the *promises*); else the later passes must be like the
    passes that succeeded, as the *gradients* tell, or the gradients of the original have cancelled out to nothing.
    """
    failure = before.failure
    kinds = set(gradients.figures.get("counts", {}))
    if same.verdict is not Verdict.FAILED or failure is None or not failure.passes:
        return same
    likely = kinds <= {"afresh", "exact"} and ("afresh" in kinds or cancelled(before, after, failure.steps))
    if gradients.verdict is not Verdict.PASSED or not (Keeps.RATIO in promises or likely):
        return same
    number, meant = reference.without or (failure.passes, {})
    last = before.passes[min(number, failure.passes) - 1]
    ours, theirs = before.passes[: failure.passes], after.passes[: failure.passes]
    part = compare_until(before, after, last.number - 1, last.step)
    if part.verdict is not Verdict.PASSED or first_difference(ours, theirs) is not None:
        return same
    detail = f"backward pass {last.number} has the same loss and another gradient, without what failed; {part.detail}"
    shown = same_gradients(reference, after, meant, last.step)
    figures = {**same.figures, "cancelled_pass": last.number}
    return replace(same, verdict=Verdict.PASSED if shown else Verdict.NOT_PROVED, detail=detail, figures=figures)


def until_computed_anew(before: RunRecord, after: RunRecord, same: Point, gradients: Point) -> Point:
    """*same*, or the verdict on the runs up to the first step after which the patched script computes anew.

    Where a step of another optimizer has changed a value that the failing pass needs, a right patch computes the value
    after the step, and the passes between the two use it.  The *gradients* tell whether the patch does so.
    """
    failure = before.failure
    kinds = set(gradients.figures.get("counts", {}))
    if same.verdict is not Verdict.FAILED or gradients.verdict is not Verdict.PASSED or failure is None:
        return same
    if not {"recomputed"} <= kinds <= {"recomputed", "exact", "later"} or len(after.updates) <= failure.steps:
        return same
    own = after.updates[failure.steps].optimizer
    done = max((step.number for step in before.updates if step.optimizer == own), default=0)
    other = next((step for step in before.updates if step.number > done), None)
    if other is None:
        return same
    part = compare_until(before, after, other.passes, other.number)
    detail = f"{part.detail}; what comes after step {other.number} is computed anew"
    return replace(part, detail=detail) if part.verdict is Verdict.PASSED else same


def but_for_what_is_reached(before: RunRecord, after: RunRecord, same: Point) -> Point:
    """*same*, or the verdict without the parameters that the original stepped without a gradient: they train now.

    The losses up to the failing pass must not show the change: they belong to one step of the script.
    """
    failure = before.failure
    if same.verdict is not Verdict.FAILED or failure is None:
        return same
    indices = matching(before, after)
    freed: set[int] = set()
    for ours, theirs in zip(before.updates[: failure.steps], after.updates, strict=False):
        changed = {i for i, bits in ours.state.items() if i in indices and theirs.state.get(indices[i], bits) != bits}
        if any(ours.gradients.get(i) for i in changed):
            return same
        freed |= changed
    if not freed or first_difference(before.passes[: failure.passes], after.passes) is not None:
        return same
    rest = count(len(before.parameters) - len(freed), "parameter")
    now = f"{count(len(freed), 'parameter')} that had no gradient have one now"
    return replace(same, verdict=Verdict.PASSED, detail=f"{rest} bit-equal over {count(failure.steps, 'step')}; {now}")


def but_for_what_is_replaced(before: RunRecord, after: RunRecord, same: Point) -> Point:
    """*same*, or the verdict on the losses alone: the parameters of the original stay, and its loss is of new tensors.

    What the patched script changes in place, the original has computed as new tensors.
    """
    failure = before.failure
    if same.verdict is not Verdict.FAILED or failure is None or not failure.passes:
        return same
    ours = before.passes[: failure.passes]
    if first_difference(ours, after.passes) is not None:
        return same
    return replace(same, verdict=Verdict.PASSED, detail=f"{count(len(ours), 'loss')} equal, of updated parameters")


def by_losses_of_new_tensors(
    before: RunRecord, reference: RunRecord, after: RunRecord, same: Point, gradients: Point
) -> tuple[Point, Point]:
    """*same* and *gradients*, or the verdict on the losses, where the reference goes on with new tensors.

    An update by hand that makes a new tensor of its parameter finds no gradient in the next iteration.  The reference
    computes it, and sends back the losses that the author meant, also those behind the failure; its leaves stay.
    """
    failure = before.failure
    if failure is None or "NoneType" not in failure.error.message or reference.optimizers or after.optimizers:
        return same, gradients
    ours, theirs = ([p for p in run.passes if p.error is None and p.kind == "backward"] for run in (reference, after))
    both = min(len(ours), len(theirs))
    if both < failure.passes + UPDATED or first_difference(ours[:both], theirs[:both]) is not None:
        return same, gradients
    alike = f"{both} losses equal, of updated parameters"
    if same.verdict is not Verdict.PASSED:
        same = replace(same, verdict=Verdict.PASSED, detail=alike)
    if gradients.verdict is not Verdict.PASSED:
        detail = f"{alike}: the reference goes on with new tensors, as the original did"
        gradients = replace(gradients, verdict=Verdict.PASSED, detail=detail, figures={NEW_TENSORS: both})
    return same, gradients


def until_changed_later(
    before: RunRecord, reference: RunRecord, after: RunRecord, same: Point, gradients: Point
) -> Point:
    """*same*, or the verdict on the first step, where the first pass fails because parameters were changed before it.

    A right patch changes them after the pass, which then finds other values; the next step leaves both runs alike.
    """
    failure = before.failure
    kinds = set(gradients.figures.get("counts", {}))
    if same.verdict is not Verdict.FAILED or gradients.verdict is not Verdict.PASSED or kinds != {"exact"}:
        return same
    if failure is None or failure.passes or not reference.updates or not after.updates:
        return same
    indices = matching(reference, after)
    ours, theirs = reference.updates[0].state, after.updates[0].state
    if not indices or any(theirs.get(indices[i]) != bits for i, bits in ours.items() if i in indices):
        return same
    detail = f"{count(len(indices), 'parameter')} bit-equal after the first step, changed behind the failing pass"
    return replace(same, verdict=Verdict.PASSED, detail=detail)


def in_another_order(before: RunRecord, after: RunRecord, same: Point, gradients: Point) -> Point:
    """*same*, or the verdict on each optimizer alone, where whole updates of the failed step have changed places.

    The pass that failed comes before another optimizer's update then.  All losses of the original must be there, in
    their order, perhaps with others between them, and each step must leave its parameters as the original's step did.
    """
    failure = before.failure
    if same.verdict is not Verdict.FAILED or gradients.verdict is not Verdict.PASSED or failure is None:
        return same
    wanted = [p for p in before.passes[: failure.passes] if p.error is None and p.trains]
    seen = iter([p for p in after.passes if p.error is None and p.trains])
    if not wanted or not all(any(same_losses(one, other) for other in seen) for one in wanted):
        return same
    indices = matching(before, after)
    theirs = defaultdict(list)
    for step in after.updates:
        theirs[frozenset(step.moved)].append(step.state)
    done: Counter[frozenset[int]] = Counter()
    for step in before.updates[: failure.steps]:
        members = frozenset(indices.get(index, -1) for index in step.moved)
        states, number = theirs[members], done[members]
        if number >= len(states):
            return same
        if any(bits != states[number].get(indices[i]) for i, bits in step.state.items() if i in step.moved):
            return same
        done[members] += 1
    if not done:
        return same
    what = f"{count(len(wanted), 'loss')} and {count(len(before.parameters), 'parameter')}"
    detail = f"{what} bit-equal over {count(failure.steps, 'step')}, which come in another order"
    return replace(same, verdict=Verdict.PASSED, detail=detail)


def same_gradients(reference: RunRecord, after: RunRecord, meant: Sketches, steps: int) -> bool:
    """Whether the patched run makes the step after *steps* by the gradients *meant*, of one pass."""
    step = next((one for one in after.updates if one.number == steps + 1), None)
    if step is None or not step.sketches or sum(one.step == steps for one in after.passes) != 1:
        return False
    indices = matching(reference, after)
    pairs = [(sketch, step.sketches.get(indices.get(index, -1), ())) for index, sketch in meant.items()]
    largest = max((math.hypot(*sketch) for sketch, _ in pairs), default=0.0)
    return largest > 0 and all(
        len(a) == len(b) and math.dist(a, b) <= max(EXACT * math.hypot(*a), NOISE * largest) for a, b in pairs
    )


def cancelled(before: RunRecord, after: RunRecord, steps: int) -> bool:
    """Whether all gradients of the first *steps* that differ in the patched run were next to zero in the original."""
    indices = matching(before, after)
    other = [
        (norm, theirs.gradients.get(indices[index], 0.0))
        for ours, theirs in zip(before.updates[:steps], after.updates, strict=False)
        for index, norm in ours.gradients.items()
        if index in indices
    ]
    other = [(ours, theirs) for ours, theirs in other if not close(ours, theirs, 1e-3)]
    return bool(other) and all(ours <= ROUNDING * theirs for ours, theirs in other)


def compare_until(before: RunRecord, after: RunRecord, passes: int, steps: int) -> Point:
    """Compare the two runs over the first *passes* and *steps* of the original.

    A patch may ask ``torch.autograd.grad`` for the gradients that ``backward`` accumulates, or the other way round.
    """
    by_backward = _compare_until(before, after, passes, steps, lambda p: p.kind == "backward")
    if by_backward.verdict is Verdict.PASSED or not any(p.asked for p in (*before.passes, *after.passes)):
        return by_backward
    by_either = _compare_until(before, after, passes, steps, lambda p: p.trains)
    return by_either if by_either.verdict is Verdict.PASSED else by_backward


def _compare_until(
    before: RunRecord, after: RunRecord, passes: int, steps: int, counts: Callable[[Pass], bool]
) -> Point:
    wanted = [p for p in before.passes[:passes] if p.error is None and counts(p)]
    seen = [p for p in after.passes if p.error is None and counts(p)]
    figures: dict[str, Any] = {"steps": steps, "passes": len(wanted)}
    completed = [p for p in wanted if p.step < steps]
    how = ""
    worst = first_difference(wanted, seen)
    if worst is not None and worst >= len(completed):
        worst, how = None, "; the passes of the step that failed are arranged differently"
    if worst is not None and is_subsequence(completed, seen):
        worst, how = None, "; other passes run between them"
    if worst is not None and same_sums(completed, seen, steps):
        worst, how = None, "; the same losses, in another number of backward passes"
    if worst is not None:
        here, there = wanted[worst], seen[worst] if worst < len(seen) else None
        if there is None:
            return point(3, Verdict.FAILED, f"backward pass {worst + 1} of the original is missing", **figures)
        figures |= {"pass": worst + 1, "original": sum(here.losses), "patched": sum(there.losses)}
        if here.random != there.random:
            detail = f"the patched script draws random numbers in another order before backward pass {worst + 1}"
            return point(3, Verdict.NOT_PROVED, f"{detail}, so that the runs cannot be compared", **figures)
        detail = f"the loss of backward pass {worst + 1} is {sum(there.losses):.6g} instead of {sum(here.losses):.6g}"
        return point(3, Verdict.FAILED, detail, **figures)
    exact, where = compare_parameters(before, after, passes, steps)
    if where:
        return point(3, Verdict.FAILED, where, **figures)
    bits = exact and {p.losses for p in completed} <= {p.losses for p in seen}
    figures["bit_equal"] = bits
    what = f"{count(len(wanted), 'loss')} and {count(len(before.parameters), 'parameter')}"
    until = f"over {count(steps, 'step')}" if steps else "before the first step"
    equal = "bit-equal" if bits else "equal up to rounding"
    return point(3, Verdict.PASSED, f"{what} {equal} {until}{how}", **figures)


def close(a: float, b: float, tolerance: float = ROUNDING) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-12)


def first_difference(wanted: Sequence[Pass], seen: Sequence[Pass]) -> int | None:
    """The index of the first pass that is missing, or whose losses differ by more than rounding; None for none."""
    for index, one in enumerate(wanted):
        if index >= len(seen) or not same_losses(one, seen[index]):
            return index
    return None


def is_subsequence(completed: Sequence[Pass], seen: Sequence[Pass]) -> bool:
    """Whether every pass of the completed steps is there, in its order and its step, perhaps with others between."""
    rest = iter(seen)
    return bool(completed) and all(
        any(one.step == other.step and same_losses(one, other) for other in rest) for one in completed
    )


def same_losses(one: Pass, other: Pass) -> bool:
    pairs = zip(one.losses, other.losses, strict=False)
    return len(one.losses) == len(other.losses) and all(close(a, b) for a, b in pairs)


def same_sums(completed: Sequence[Pass], seen: Sequence[Pass], steps: int) -> bool:
    """Whether in every completed step the sums of the losses sent back are equal, for any number of passes."""
    for step in range(steps):
        ours = [sum(p.losses) for p in completed if p.step == step]
        theirs = [sum(p.losses) for p in seen if p.step == step]
        if not theirs or not close(sum(ours), sum(theirs), 1e-4):
            return False
    return True


def compare_parameters(before: RunRecord, after: RunRecord, passes: int, steps: int) -> tuple[bool, str]:
    """Whether all parameters are bit-equal at the start and after each of the first *steps*, and where they are not."""
    indices = matching(before, after)
    if missing := [p.name for i, p in before.parameters.items() if i not in indices and p.optimizer is not None]:
        return False, f"no longer among the parameters: {listed(missing)}"
    moments = [(START, p.state, q.state) for p, q in zip(before.passes[:1], after.passes[:1], strict=False)]
    moments += [
        (f"after step {s.number}", s.state, t.state)
        for s, t in zip(before.updates[:steps], after.updates, strict=False)
    ]
    if not before.optimizers:  # weights updated by hand: compare from pass to pass
        pairs = zip(before.passes[: passes + 1], after.passes, strict=False)
        moments += [(f"before backward pass {p.number}", p.state, q.state) for p, q in pairs]
    exact = True
    for number, (when, ours, theirs) in enumerate(moments):
        names = [
            before.parameters[i].name
            for i, bits in ours.items()
            if i in indices and theirs.get(indices[i], bits) != bits
        ]
        alike = _moved_alike(before, after, indices, number) or (when == START and _begin_alike(before, after, indices))
        if names and not alike:
            return False, f"{when}, {listed(names)} differ{'s' if len(names) == 1 else ''} from the original"
        exact = exact and not names
    return exact, ""


def _begin_alike(before: RunRecord, after: RunRecord, indices: dict[int, int]) -> bool:
    """Whether all parameters are equal up to rounding at the first pass."""
    ours, theirs = before.passes[0].values, after.passes[0].values
    pairs = [(value, theirs.get(indices[i], ())) for i, value in ours.items() if i in indices]
    return bool(pairs) and all(len(a) == len(b) and math.dist(a, b) <= ROUNDING * math.hypot(*a) for a, b in pairs)


def _moved_alike(before: RunRecord, after: RunRecord, indices: dict[int, int], step: int) -> bool:
    """Whether step number *step* (from 1) moved every parameter by the same distance, up to rounding."""
    if not 1 <= step <= min(before.steps, after.steps):
        return False
    ours, theirs = before.updates[step - 1], after.updates[step - 1]
    # Adam's first step is as long for any gradient, so that the distance alone would say little.
    return all(
        close(value, there.get(indices[i], -1.0), 1e-3)
        for here, there in ((ours.moved, theirs.moved), (ours.gradients, theirs.gradients))
        for i, value in here.items()
        if i in indices
    )
