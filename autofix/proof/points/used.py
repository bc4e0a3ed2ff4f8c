"""Point 5, third part: a step is made of its gradients, and with its settings, as the original makes it.

A step uses its gradients as a script left them: clipped, scaled back, averaged.  The patched script must change them as
the original changes its own.  Parameters without an optimizer must move by their gradients as they do in the original.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from autofix.child.recorded import STEPS, Pass, Step
from autofix.execution.record import Outcome, RunRecord
from autofix.proof.points.base import count, matching
from autofix.proof.points.gradient import EXACT, MULTIPLE, ROUGH, Values, factor_of, size
from autofix.proof.points.objective import close, compared

FEWEST = 4
"""Backward passes from which on their steps are counted."""
RESTS = 2
"""Passes behind which a parameter must not rest that the original moves: a patch may have merged some."""
USED = 1e-3
"""Relative difference up to which two gradients of which a step is made count as equal."""
ROUNDING = 1e-4
"""Relative difference up to which the values of two parameters count as equal."""
BY_HAND = 0.05
"""Relative difference up to which two movements by one gradient count as equal: they are differences of floats."""
TURNED = 0.2
"""Most that the cosine between a gradient as it was left and as it is used may fall from one run to the other."""


def set_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Setting of an optimizer, such as its learning rate, that differs from the reference's; empty for none."""
    for step, other in _in_turn(reference, after):
        for group, groups_now in zip(step.settings, other.settings, strict=False):
            for name, value in group.items():
                if not close(value, now := groups_now.get(name, value)):
                    return f"{name} is {now:g} instead of {value:g} from step {other.number} on"
    return ""


def _in_turn(reference: RunRecord, after: RunRecord) -> Iterator[tuple[Step, Step]]:
    """The steps of each optimizer in both runs, the first with the first."""
    for mine, others in _by_optimizer(reference, after):
        yield from zip(mine, others, strict=False)


def _by_optimizer(reference: RunRecord, after: RunRecord) -> Iterator[tuple[list[Step], list[Step]]]:
    """The steps of each optimizer in both runs."""
    for optimizer in range(len(reference.optimizers)):
        mine, others = ([s for s in run.updates if s.optimizer == optimizer] for run in (reference, after))
        yield mine, others


def scheduled_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Scheduler of a learning rate that is gone, has another setting, or makes fewer or more steps; or empty.

    The rates themselves are alike until the first change.  A patch may have moved a step of one across the other's.
    """
    spare = max(1, len(reference.optimizers))
    for step, other in _in_turn(reference, after):
        for schedule, now in zip(step.schedules, other.schedules, strict=False):
            for name in schedule.keys() & now.keys():
                one, another = schedule[name], now[name]
                if abs(one - another) > spare if name == STEPS else not close(one, another):
                    at = f"{name} of its scheduler: {another:g} instead of {one:g}"
                    return f"{at}, at step {other.number}"
        moving = sum(one.get(STEPS, 0) > spare for one in step.schedules)
        if len(other.schedules) < moving:
            return f"the learning rate has no scheduler at step {other.number}"
    return ""


def clipped_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Norm, or value, to which gradients are clipped in the reference only, and which none of them came to; or empty.

    Where one came to it, the gradients that the step uses tell.  Clipped as often they must be in any case: after each
    of several passes, the gradients so far are cut short.
    """
    if len(reference.updates) < FEWEST or len(after.updates) < FEWEST:
        return ""
    pairs = [(one, other) for one, other in _in_turn(reference, after) if not one.closure and not other.closure]
    for name in ("clips", "clamps"):
        times = [(len(getattr(one, name)), len(getattr(other, name))) for one, other in pairs]
        if len(times) >= FEWEST and all(0 < once < now for once, now in times):
            return f"gradients are clipped {times[0][1]} times before a step, and not {times[0][0]}"
    if any((step.clips or step.clamps) and step.used for run in (reference, after) for step in run.updates):
        return ""
    for bound, name in (("norm", "clips"), ("value", "clamps")):
        mine, others = ({one for step in run.updates for one in getattr(step, name)} for run in (reference, after))
        if mine - others:
            return f"gradients are no longer clipped to a {bound} of {min(mine - others):g}"
    return ""


def thrown_away(reference: RunRecord, after: RunRecord) -> str:
    """Message on gradients that passes leave, and that are set to zero before a step uses them; or empty.

    In the original, they are added up.
    """
    if not reference.updates or not after.updates:
        return ""  # without optimizers, nobody sees what uses them
    ours, theirs = ([p for p in run.passes if p.error is None and p.discards] for run in (reference, after))
    if ours or len(theirs) < FEWEST or not any(p.error is None for p in reference.passes[FEWEST:]):
        return ""
    return f"gradients of earlier passes are set to zero before a step uses them, at backward pass {theirs[0].number}"


def forgets(reference: RunRecord, after: RunRecord) -> str:
    """Message on an optimizer that has lost its state by a step at which the reference's still has it; or empty."""
    for step, other in _in_turn(reference, after):
        if step.remembers and not other.remembers:
            return f"its optimizer has forgotten its state, such as its momentum, by step {other.number}"
    return ""


def steps_again(reference: RunRecord, after: RunRecord) -> str:
    """Message on an optimizer that steps twice by one gradient, but never in the reference; or empty."""
    for mine, others in _by_optimizer(reference, after):
        again = [[b.number for a, b in itertools.pairwise(steps) if a.passes == b.passes] for steps in (mine, others)]
        if again[1] and not again[0]:
            return f"its optimizer steps twice by the same gradient at step {again[1][0]}"
    return ""


def steps_apart(reference: RunRecord, after: RunRecord) -> str:
    """Message on equal passes that make more steps, or fewer: gradients are accumulated over another number; or empty.

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
    """Message on a patched script that ends with fewer steps than the reference; or empty."""
    if after.outcome is not Outcome.FINISHED or not after.updates or after.steps >= reference.steps:
        return ""
    return f"training ends after {count(after.steps, 'step')}, and the original's goes on to step {reference.steps}"


def ends_late(reference: RunRecord, after: RunRecord) -> str:
    """Message on a patched script that makes more steps than the finished reference; or empty."""
    if reference.outcome is not Outcome.FINISHED or not reference.updates or after.steps <= reference.steps:
        return ""
    return f"training goes on to step {after.steps}, and the original's ends after {count(reference.steps, 'step')}"


def ends_elsewhere(reference: RunRecord, after: RunRecord) -> str:
    """Message on a training that ends at another step than in the reference, as far as the runs show it; or empty."""
    return ends_early(reference, after) or ends_late(reference, after)


def updated_beside(reference: RunRecord, after: RunRecord) -> str:
    """Parameter outside of all optimizers that the patched script moves at fewer steps, or at more; or empty.

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


def changed_beside(reference: RunRecord, after: RunRecord) -> str:
    """Member of an optimizer that is changed beside its steps otherwise than in the reference; or empty."""
    indices, spare = matching(reference, after), max(1, len(reference.optimizers))
    ours, theirs = _behind_steps(reference), _behind_steps(after)
    for (step, i), one in sorted(ours.items()):
        other = theirs.get((step, indices.get(i, -1)))
        if other is None or reference.parameters[i].optimizer is None:
            continue  # what holds copies of an optimizer's members takes over their rounding
        if one.bits[0] == other.bits[0] and _moves_otherwise(one, other):
            return f"{reference.parameters[i].name} is changed otherwise behind step {step} than in the original"
    for mine, others in _by_optimizer(reference, after):
        pairs = list(zip(mine, others, strict=False))
        for i, j in indices.items():
            known = [(i in a.elsewhere, j in b.elsewhere) for a, b in pairs if i in a.state and j in b.state]
            once, now = sum(a for a, _ in known), sum(b for _, b in known)
            if abs(once - now) > spare:
                at = f"{now} of {count(len(known), 'step')}, and before {once} in the original"
                return f"{reference.parameters[i].name} is changed beside its optimizer before {at}"
    return ""


def left_out_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Member of an optimizer that one of two runs that leave updates out changes by hand at more steps; or empty.

    Those of the other one may have no effect yet: a clamp to bounds that no element has come to.
    """
    indices, spare = matching(reference, after), max(1, len(reference.optimizers))
    pairs = list(zip(reference.updates, after.updates, strict=False))
    at_rest, at_rest_now = (frozenset[int]().union(*(p.frozen for p in run.passes)) for run in (reference, after))
    for i, j in indices.items():
        if (i in at_rest) is not (j in at_rest_now):
            continue  # one that the original forgets to let require grad: its changes are those of data
        both = [(a.left_out.get(i, frozenset()), b.left_out.get(j, frozenset())) for a, b in pairs]
        mine, now = sum(bool(a) for a, _ in both), sum(bool(b) for _, b in both)
        if abs(mine - now) > spare:
            at = f"{now} of {count(len(both), 'step')}, and before {mine} in the original"
            return f"{reference.parameters[i].name} is changed beside its optimizer before {at}"
        other = [(a, b) for a, b in both if a != b and _functions(a) == _functions(b)]
        if len(other) > spare:
            ours, theirs = (", ".join(sorted(calls)) for calls in other[0])
            return f"{reference.parameters[i].name} is changed by {theirs} instead of {ours}"
    return ""


def _functions(calls: frozenset[str]) -> set[str]:
    return {call.partition("(")[0] for call in calls}


class _Behind(NamedTuple):
    """A parameter behind a step and before the pass that follows it."""

    bits: tuple[str, str]
    """Its fingerprints there."""
    values: tuple[float, ...]
    """Its values before the pass."""


def _moves_otherwise(mine: _Behind, now: _Behind) -> bool:
    """Whether two parameters that were alike behind a step are no longer, by more than rounding, before the pass."""
    if not mine.bits[0] != mine.bits[1] != now.bits[1] != now.bits[0]:
        return False
    if not mine.values or len(mine.values) != len(now.values):
        return True
    return math.dist(mine.values, now.values) > ROUNDING * size(mine.values)


def _behind_steps(record: RunRecord) -> dict[tuple[int, int], _Behind]:
    """Each parameter behind a step, by the number of the step and its index."""
    before: dict[int, Pass] = {}
    for one in record.passes:
        before.setdefault(one.step, one)
    return {
        (step.number, index): _Behind((bits, following.state[index]), following.values.get(index, ()))
        for step in record.updates
        if (following := before.get(step.number)) is not None
        for index, bits in step.state.items()
        if index in following.state
    }


def called_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Mode or setting with which a module is called only in one of the two runs; empty for none.

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
    """Settings of the modules that forward passes came to, up to backward pass number *passes*."""
    return {mode for one in record.passes if one.number <= passes for mode in one.modes}


def called_in_other_mode(reference: RunRecord, after: RunRecord) -> str:
    """Setting with which modules are called in steps in which the original calls them with other ones; or empty.

    An evaluation that leaves its mode on changes the training behind it.  With several optimizers, a patch may have
    moved a call across a step.
    """
    ours, theirs = (_modes_of_steps(run) for run in (reference, after))
    other = [theirs[step] - mine for step, mine in sorted(ours.items()) if step in theirs]
    kept = [not mine - theirs[step] for step, mine in sorted(ours.items()) if step in theirs]
    found = [modes for modes, all_there in zip(other, kept, strict=True) if modes and not all_there]
    if len(found) <= max(1, len(reference.optimizers)):
        return ""
    steps = count(len(other), "step")
    return f"a module is called as {min(found[-1])}, in {len(found)} of {steps} in which the original does otherwise"


def _modes_of_steps(record: RunRecord) -> dict[int, set[str]]:
    """The settings with which modules were called before the passes of each step."""
    found: dict[int, set[str]] = {}
    for one in record.passes:
        if one.modes:
            found.setdefault(one.step, set()).update(one.modes)
    return found


def used_otherwise(reference: RunRecord, after: RunRecord, start: int) -> str:
    """Change of gradients between a pass and a step that the original does not make, or makes otherwise; or empty."""
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
        how_many = "other gradients" if factor_now is None else f"{factor_now:.3g} times the gradients"
        return f"made of {how_many} that the backward pass left, not {1.0 if factor is None else factor:.3g} times,"
    turned = cosine(left, used) - cosine(left_now, used_now)
    if turned > TURNED:
        return "made of gradients of another direction than the backward pass left"
    return ""


def moved_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Difference from the reference in an update of a parameter by hand, relative to its gradient; or empty."""
    if reference.optimizers or after.optimizers:
        return ""
    indices = matching(reference, after)
    runs = list(zip(itertools.pairwise(reference.passes), itertools.pairwise(after.passes), strict=False))
    for (mine, mine_next), (other, other_next) in runs:
        for i, j in indices.items():
            factor, now = moved_by(mine, mine_next, i), moved_by(other, other_next, j)
            if factor is not None and now is not None and abs(factor - now) > BY_HAND * max(abs(factor), abs(now)):
                name = reference.parameters[i].name
                return (
                    f"{name} moves by {now:.3g} times its gradient after backward pass {other.number}, not {factor:.3g}"
                )
    for i, j in indices.items():
        rests = [moved_by(*ours, i) is not None and rests_at(*theirs, j) for ours, theirs in runs]
        if sum(rests) >= RESTS:
            number = after.passes[rests.index(True)].number
            return f"{reference.parameters[i].name} does not move after backward pass {number}"
        both = [
            (moved_by(*ours, i), moved_by(*theirs, j)) for ours, theirs in runs if moves(*ours, i) and moves(*theirs, j)
        ]
        if len(both) >= FEWEST and all(factor is not None and now is None for factor, now in both):
            return f"{reference.parameters[i].name} no longer moves along its gradient"
    return ""


def moves(one: Pass, following: Pass, index: int) -> bool:
    """Whether it is known that a parameter with a gradient moves from one pass to the next."""
    begun, ended = one.values.get(index, ()), following.values.get(index, ())
    left = (one.sketches or {}).get(index, ())
    return len(left) == len(begun) == len(ended) > 1 and size(left) > 0 and begun != ended


def rests_at(one: Pass, following: Pass, index: int) -> bool:
    """Whether it is known that a parameter with a gradient does not move from one pass to the next."""
    begun, ended = one.values.get(index, ()), following.values.get(index, ())
    left = (one.sketches or {}).get(index, ())
    return len(left) == len(begun) == len(ended) > 0 and size(left) > 0 and begun == ended


def moved_by(one: Pass, following: Pass, index: int) -> float | None:
    """Factor by which a parameter moves along its gradient from one pass to the next; None if it moves otherwise."""
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
