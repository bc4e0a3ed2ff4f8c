"""Point 5, third part: a step is made of its gradients, and with its settings, as the original makes it.

A step uses its gradients as a script left them: clipped, scaled back, averaged.  What is done to them must be what the
original does to its own.  Parameters without an optimizer must move by their gradients as they do in the original.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from autofix.child.recorded import Pass, Step
from autofix.execution.record import Outcome, RunRecord
from autofix.proof.points.base import count, matching
from autofix.proof.points.gradient import EXACT, MULTIPLE, ROUGH, Values, factor_of, size
from autofix.proof.points.objective import close, compared

FEWEST = 4
"""Backward passes from which on it is told how many steps they make."""
USED = 1e-3
"""Relative difference up to which two gradients of which a step is made count as equal."""
BY_HAND = 0.05
"""The same for two movements by the same gradient: they are differences of numbers in single precision."""
TURNED = 0.2
"""How far the cosine between a gradient and what is made of it may differ in two runs."""


def set_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Which setting of an optimizer, its learning rate say, is another than in the reference; empty for none."""
    for optimizer in range(len(reference.optimizers)):
        mine, others = ([s for s in run.updates if s.optimizer == optimizer] for run in (reference, after))
        for step, other in zip(mine, others, strict=False):
            for group, groups_now in zip(step.settings, other.settings, strict=False):
                for name, value in group.items():
                    if not close(value, now := groups_now.get(name, value)):
                        return f"{name} is {now:g} instead of {value:g} from step {other.number} on"
    return ""


def forgets(reference: RunRecord, after: RunRecord) -> str:
    """Whether an optimizer has lost its state by a step at which the reference's still has it; empty if not."""
    for optimizer in range(len(reference.optimizers)):
        mine, others = ([s for s in run.updates if s.optimizer == optimizer] for run in (reference, after))
        for step, other in zip(mine, others, strict=False):
            if step.remembers and not other.remembers:
                return f"its optimizer has forgotten its state, such as its momentum, by step {other.number}"
    return ""


def steps_again(reference: RunRecord, after: RunRecord) -> str:
    """Whether an optimizer steps twice by one gradient, which it never does in the reference; empty if not."""
    for optimizer in range(len(reference.optimizers)):
        mine, others = ([s for s in run.updates if s.optimizer == optimizer] for run in (reference, after))
        again = [[b.number for a, b in itertools.pairwise(steps) if a.passes == b.passes] for steps in (mine, others)]
        if again[1] and not again[0]:
            return f"its optimizer steps twice by the same gradient at step {again[1][0]}"
    return ""


def steps_apart(reference: RunRecord, after: RunRecord) -> str:
    """Whether the same passes make more steps, or fewer: gradients are accumulated over another number; empty if not.

    With several optimizers, a patch may have moved a step behind the pass of another.
    """
    ours, theirs = ([p for p in run.passes if p.error is None and p.trains] for run in (reference, after))
    both = min(len(ours), len(theirs))
    spare = len(reference.optimizers) if len(reference.optimizers) > 1 else 0
    if both < FEWEST or not all(close(sum(a.losses), sum(b.losses)) for a, b in zip(ours, theirs, strict=False)):
        return ""
    mine, now = ours[both - 1].step, theirs[both - 1].step
    if abs(mine - now) <= spare:
        return ""
    return f"{both} backward passes make {count(now, 'step')} instead of {mine}"


def ends_early(reference: RunRecord, after: RunRecord) -> str:
    """Whether the patched script is through before the reference is, and by how many steps; empty if not."""
    if after.outcome is not Outcome.FINISHED or not after.updates or after.steps >= reference.steps:
        return ""
    return f"training ends after {count(after.steps, 'step')}, and the original's goes on to step {reference.steps}"


def ends_late(reference: RunRecord, after: RunRecord) -> str:
    """Whether the patched script goes on where the reference is through; empty if not."""
    if reference.outcome is not Outcome.FINISHED or not reference.updates or after.steps <= reference.steps:
        return ""
    return f"training goes on to step {after.steps}, and the original's ends after {count(reference.steps, 'step')}"


def ends_elsewhere(reference: RunRecord, after: RunRecord) -> str:
    """Whether training ends at another step than in the reference, as far as the two runs show it; empty if not."""
    return ends_early(reference, after) or ends_late(reference, after)


def updated_beside(reference: RunRecord, after: RunRecord) -> str:
    """Which parameter that no optimizer has the patched script moves at fewer steps, or at more; or empty.

    With several optimizers, a patch may have moved a step across the update.
    """
    steps = list(zip(reference.updates, after.updates, strict=False))
    spare = max(1, len(reference.optimizers))
    for name in sorted({name for step, _ in steps for name in step.beside}):
        both = [
            (step.beside[name], other.beside[name])
            for step, other in steps
            if name in step.beside and name in other.beside
        ]
        mine, now = sum(moved for moved, _ in both), sum(moved for _, moved in both)
        if abs(mine - now) > spare:
            return f"{name} is updated before {now} of {count(len(both), 'step')}, and before {mine} in the original"
    return ""


def called_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Which module is called in another mode, or with another setting, than in the reference; empty for none.

    Nothing else shows an evaluation that is made in training mode, or a batch norm with another momentum.
    """
    ours, theirs = (passes[-1].number if passes else 0 for passes in compared(reference, after))
    known = _modes(reference, ours), _modes(after, theirs)
    every = _modes(reference, math.inf), _modes(after, math.inf)
    for mode in sorted(known[1] - every[0]):
        return f"a module is called as {mode}, which the original does not do"
    for mode in sorted(known[0] - every[1]):
        return f"a module is no longer called as {mode}"
    return ""


def _modes(record: RunRecord, passes: float) -> set[str]:
    """How modules were set that forward passes came to before this many backward passes."""
    return {mode for one in record.passes if one.number <= passes for mode in one.modes}


def used_otherwise(reference: RunRecord, after: RunRecord, start: int) -> str:
    """How the patched script changes gradients between a pass and a step that the original leaves, or changes less."""
    indices = matching(reference, after)
    changes = any(step.used for step in reference.updates)
    for optimizer in range(len(reference.optimizers)):
        mine, others = (
            [s for s in run.updates if s.optimizer == optimizer and s.number > start and s.sketches]
            for run in (reference, after)
        )
        for step, other in zip(mine, others, strict=False):
            if reason := _used_otherwise(step, other, indices, changes=changes):
                return f"{reason} at step {other.number}"
    return ""


def _used_otherwise(step: Step, other: Step, indices: Mapping[int, int], *, changes: bool) -> str:
    both = [(i, j) for i, j in indices.items() if i in (step.sketches or {}) and j in (other.sketches or {})]
    if not both or step.closure or other.closure:
        return ""
    left, used = joined(step, [i for i, _ in both])
    left_now, used_now = joined(other, [j for _, j in both])
    if not size(left) or not size(left_now) or len(left) != len(left_now):
        return ""
    if math.dist(left, left_now) <= EXACT * size(left):
        off = math.dist(used, used_now) / (size(used) or 1.0)
        return "" if off <= USED else f"made of other gradients than the backward pass left, by {100 * off:.3g} %,"
    factor, factor_now = times(left, used), times(left_now, used_now)
    if step.clips:
        clipped = size(list(other.gradients.values())) <= max(step.clips) * (1 + USED)
        if factor_now is not None and 0 < factor_now <= 1 + USED and (clipped or close_factor(factor, factor_now)):
            return ""
    if not changes or (factor is not None and factor_now is not None):
        if close_factor(1.0 if factor is None else factor, factor_now):
            return ""
        if (
            changes
            and factor_now is not None
            and 0 < factor_now <= 1
            and math.isclose(size(used), size(used_now), rel_tol=ROUGH)
        ):
            return ""  # clipped by hand to the same norm
        how_many = "others" if factor_now is None else f"{factor_now:.3g} times those"
        return f"made of {how_many} that the backward pass left, not {1.0 if factor is None else factor:.3g} times,"
    turned = cosine(left, used) - cosine(left_now, used_now)
    if turned > TURNED:
        return "made of gradients that point elsewhere than those that the backward pass left"
    return ""


def moved_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """How the patched script updates a parameter by hand otherwise than the reference, by its gradient; or empty."""
    if reference.optimizers or after.optimizers:
        return ""
    indices = matching(reference, after)
    runs = zip(itertools.pairwise(reference.passes), itertools.pairwise(after.passes), strict=False)
    for (mine, mine_next), (other, other_next) in runs:
        for i, j in indices.items():
            factor, now = moved_by(mine, mine_next, i), moved_by(other, other_next, j)
            if factor is not None and now is not None and abs(factor - now) > BY_HAND * max(abs(factor), abs(now)):
                name = reference.parameters[i].name
                return (
                    f"{name} moves by {now:.3g} times its gradient after backward pass {other.number}, not {factor:.3g}"
                )
    return ""


def moved_by(one: Pass, following: Pass, index: int) -> float | None:
    """How many times its gradient a parameter moves from one pass to the next, if that is all that moves it."""
    left = (one.sketches or {}).get(index)
    begun, ended = one.values.get(index), following.values.get(index)
    if not left or not begun or not ended or not len(left) == len(begun) == len(ended) or not size(left):
        return None
    return times(left, tuple(b - a for a, b in zip(begun, ended, strict=True)))


def joined(step: Step, indices: Sequence[int]) -> tuple[Values, Values]:
    """The gradients of these parameters as the passes left them, and as the step used them, end to end."""
    sketches = step.sketches or {}
    left = tuple(itertools.chain.from_iterable(sketches[i] for i in indices))
    return left, tuple(itertools.chain.from_iterable(step.used.get(i, sketches[i]) for i in indices))


def times(left: Values, used: Values) -> float | None:
    """The number by which *used* is a multiple of *left*; None if it is none."""
    if left == used:
        return 1.0
    return used[0] / left[0] if len(left) == 1 else factor_of(left, used)


def close_factor(factor: float | None, now: float | None) -> bool:
    return factor is not None and now is not None and math.isclose(factor, now, rel_tol=10 * MULTIPLE)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    both = size(one) * size(other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / both if both else 0.0
