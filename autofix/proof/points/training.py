"""Point 4: parameters that trained before the failure train after it, as strongly and as often."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autofix.child.recorded import Step
from autofix.execution.record import Failure, Outcome, RunRecord
from autofix.proof.points.agreement import ROUNDING, close
from autofix.proof.points.base import Point, Verdict, count, listed, matching, point, trains_nothing_by_design

ENOUGH, COMPARABLE = 6, 4
"""Steps from which on a parameter that rests in the second half of them has stopped training: by the patched run
alone, and where the reference trains it in these steps."""
SELDOM = 1.9
"""Most backward passes from one step to the next, as a multiple of the original's."""
TOTAL = 1e-4
"""Relative difference of two sums of losses, added in another order."""
STRENGTH = 1e-2
"""Relative difference of two movements by the same gradient, after some steps of rounding."""

ARRIVED = 1e-3
"""Ratio of a gradient to the strongest one up to which an optimizer has found its minimum."""

STANDS = "does not move"
RESTS = "gets no gradient after step"


def still_trains(
    before: RunRecord,
    after: RunRecord,
    reference: RunRecord,
    further: Callable[[], RunRecord] | None = None,
    frozen: Callable[[], RunRecord] | None = None,
) -> Point:
    """Every parameter that trains in the original or in the reference still gets gradients and moves.

    *further* makes a reference run that is as long as the patched one, and *frozen* one that goes past a pass without
    a graph: its parameters stay as they are.
    """
    failure = before.failure
    assert failure is not None
    if (
        after.outcome is Outcome.FINISHED
        and trains_nothing_by_design(before, after, reference)
        and (after.passes or says_the_same(reference, after))
    ):
        return point(4, Verdict.NOT_APPLICABLE, "the script trains nothing: no optimizer, no loop")
    if not after.passes:
        return point(4, Verdict.NOT_PROVED, "the patched script ran no backward pass")
    on = reference if frozen is None or any(p.error is None for p in reference.passes[failure.passes :]) else frozen()
    done = over(before, failure, on)
    trained = trained_before(before, failure, reference) - done
    if not trained:
        return begins_to_train(after, failure, on)
    indices, there = matching(before, after), matching(before, reference)
    places = passes_at(reference, after, failure) / passes_at(after, reference, failure)
    by_hand, still = moved_for_passes(before), moved_for_passes(after)
    problems: dict[str, list[str]] = {}
    for index in sorted(trained):
        parameter = before.parameters[index]
        if index not in indices:
            problem = "is missing"
        elif parameter.optimizer is None or not any(indices[index] in s.moved for s in after.updates):
            moved = moved_by_hand(before, index) or moved_by_hand(reference, there.get(index, -1))
            problem = why_leaf_not_training(before, after, index, indices[index], moved=moved)
        else:
            mine = steps_of(after, indices[index])
            theirs = steps_of(reference, there.get(index, -1))
            rests = bool(reference.updates[failure.steps :]) and not theirs.later(failure)
            problem = why_not_training(before, after, mine, passes_between(theirs.steps), rests=rests)
            if problem.startswith(STANDS) and (stands(steps_of(before, index)) or stands(theirs)):
                problem = ""
            problem = problem or why_trained_otherwise(theirs, mine, failure, places)
            if problem.startswith(RESTS) and further is not None:
                longer = further()
                if rests_as_meant(steps_of(longer, matching(before, longer).get(index, -1)), mine, failure):
                    problem = ""
            if not problem and index in by_hand and indices[index] not in still:
                problem = "is no longer changed outside of its optimizer"
        if problem:
            problems.setdefault(problem, []).append(parameter.name)
    figures = {"trained": len(trained), "stopped": sorted(name for names in problems.values() for name in names)}
    # A gradient that cancelled out to nothing in the original was a gradient all the same.
    given = {i for step in before.updates[: failure.steps] for i in step.gradients}
    for index in sorted(given - trained - done):
        if index in indices and not any(indices[index] in s.gradients for s in after.updates):
            problems.setdefault("gets no gradient any more", []).append(before.parameters[index].name)
    if not any(step.gradients for step in reference.updates[failure.steps :]):
        # Without a reference: the parameters that the failing pass reaches must at least get a gradient, if only zero.
        reached = before.passes[failure.passes].reached if failure.in_pass else frozenset()
        for index in sorted(reached - trained):
            own = steps_of(after, indices[index]).steps if index in indices else ()
            if own and not any(indices[index] in s.gradients for s in own):
                problems.setdefault("gets no gradient", []).append(before.parameters[index].name)
    if problems:
        detail = "; ".join(f"{listed(names)}: {problem}" for problem, names in problems.items())
        return point(4, Verdict.FAILED, detail, **figures)
    if any(p.cut for p in on.passes) and (names := left_alone(after, failure)):
        detail = f"the original does not show whether these parameters should train: {listed(names)}"
        return point(4, Verdict.NOT_PROVED, detail, **figures)
    if names := [name for number in idle_optimizers(after) for name in members_of(after, number)]:
        detail = f"an optimizer makes steps, and none of its parameters gets a gradient: {listed(names)}"
        return point(4, Verdict.NOT_PROVED, detail, **figures)
    return point(4, Verdict.PASSED, f"{count(len(trained), 'parameter')}: gradients and movement as before", **figures)


def says_the_same(reference: RunRecord, after: RunRecord) -> bool:
    """Whether the patched script, which makes no passes to compare, prints the output of the reference."""
    return reference.outcome is Outcome.FINISHED and reference.output.split() == after.output.split() != []


def asks_for_inputs_alone(failure: Failure, on: RunRecord, after: RunRecord) -> bool:
    """Whether both runs end without another step, with as many calls of ``grad`` for tensors that no step changes.

    An example is a script that trains first, and then looks for the inputs that excite the network most.  *on* is a
    run of the original past its failure.
    """
    runs = (on, after)
    passes = [one.passes[failure.passes :] for one in runs]
    ends = all(one.outcome is Outcome.FINISHED and not one.updates[failure.steps :] for one in runs)
    asks = not any(one.trains for some in passes for one in some)
    return ends and asks and len(passes[0]) == len(passes[1]) > 0


def idle_optimizers(after: RunRecord) -> list[int]:
    """The optimizers that make steps without a gradient, although forward passes come to their members."""
    given = {i for step in after.updates for i, norm in step.gradients.items() if norm}
    active = {after.parameters[i].optimizer for i in given}
    taking_part = {after.parameters[i].optimizer for i in after.called(0) - last_frozen(after)}
    return sorted({step.optimizer for step in after.updates} & {n for n in taking_part if n is not None} - active)


def members_of(record: RunRecord, optimizer: int) -> list[str]:
    return [one.name for one in record.parameters.values() if one.optimizer == optimizer]


def begins_to_train(after: RunRecord, failure: Failure | None = None, on: RunRecord | None = None) -> Point:
    """Point 4 for an original that trained nothing, because its loss had no graph: the patched script must train.

    The original may have trained others before the *failure*; *on* is a run of it past the failure.
    """
    if failure is not None and on is not None and asks_for_inputs_alone(failure, on, after):
        return point(
            4, Verdict.NOT_APPLICABLE, "training is over at the failure: only gradients of inputs are computed"
        )
    updates = after.updates[failure.steps if failure is not None else 0 :]
    members = {i: p for i, p in after.parameters.items() if p.optimizer is not None}
    if not members:
        return _begins_by_hand(after)
    moving = {i for step in updates for i, distance in step.moved.items() if distance and step.gradients.get(i)}
    still = [p.name for i, p in members.items() if i not in moving]
    figures = {"trained": len(moving), "stopped": sorted(still)}
    if not moving and all(i in step.gradients for step in updates for i in step.moved) and updates:
        # Whether these are the gradients that are meant, nobody can see: any others would vanish as well.
        return point(4, Verdict.NOT_PROVED, "every gradient is zero in these steps: nothing is trained", **figures)
    if not updates and after.failure is not None:
        return point(4, Verdict.NOT_PROVED, "the patched script fails before its next step", **figures)
    if not moving:
        return point(4, Verdict.FAILED, "no parameter of any optimizer gets a gradient", **figures)
    rest = f", not {listed(still)}" if still else ""
    detail = f"the original trained nothing; now {count(len(moving), 'parameter')} of {len(members)} train{rest}"
    verdict = Verdict.NOT_PROVED if left_alone(after, failure) else Verdict.PASSED
    return point(4, verdict, detail, **figures)


def left_alone(after: RunRecord, failure: Failure | None) -> list[str]:
    """The parameters that forward passes come to past the failure and to which no pass gives a gradient."""
    steps, passes = (failure.steps, failure.passes) if failure is not None else (0, 0)
    given = {i for step in after.updates[steps:] for i in step.gradients}
    stepped = {step.optimizer for step in after.updates[steps:]}
    return [
        after.parameters[i].name
        for i in sorted(after.called(passes) - given - last_frozen(after))
        if after.parameters[i].optimizer in stepped
    ]


def _begins_by_hand(after: RunRecord) -> Point:
    """Point 4 for such an original that updates parameters itself: members with gradients move from pass to pass."""
    given = {i for one in after.passes for i, norm in one.gradients.items() if norm}
    moving = {i for i in given if moved_by_hand(after, i)}
    if not moving:
        return point(4, Verdict.NOT_PROVED, "no parameter got a gradient in the original: nothing to compare with")
    detail = f"the original trained nothing; now {count(len(moving), 'parameter')} of {len(given)} train"
    return point(4, Verdict.PASSED, detail, trained=len(moving))


def wakes_up(before: RunRecord, after: RunRecord, asleep: frozenset[int]) -> Point:
    """Point 4 for an original that left the parameters *asleep* alone: they must train, and all others go on."""
    indices = matching(before, after)
    moving = {i for step in after.updates for i, distance in step.moved.items() if distance and step.gradients.get(i)}
    awake = [i for i in asleep if indices.get(i) in moving]
    before_that = {i for i, one in before.parameters.items() if one.optimizer is not None} - asleep
    stopped = [before.parameters[i].name for i in sorted(before_that) if indices.get(i) not in moving]
    figures = {"trained": len(moving), "stopped": stopped}
    if stopped:
        return point(4, Verdict.FAILED, f"no longer trained: {listed(stopped)}", **figures)
    if not awake:
        return point(4, Verdict.FAILED, f"none of {count(len(asleep), 'parameter')} gets a gradient now", **figures)
    detail = (
        f"{len(awake)} of {count(len(asleep), 'parameter')} that had no gradient train now, and all others as before"
    )
    return point(4, Verdict.PASSED, detail, **figures)


def trained_before(before: RunRecord, failure: Failure, reference: RunRecord) -> set[int]:
    """Parameters that the original trains, as far as it came, or that the reference trains.

    A member of an optimizer counts if it had a gradient at a step of its own, or, before the first such step, after a
    pass.  Leaves outside of optimizers count if they were updated by hand; if nothing else is trained, all that got a
    gradient.  (A leaf beside these, such as a network that no optimizer holds, gets gradients that nobody uses.)
    """
    stepped = {step.optimizer for step in before.updates}
    at_steps = {i for step in before.updates for i, norm in step.gradients.items() if norm}
    after_passes = {i for one in before.passes[: failure.passes] for i, norm in one.gradients.items() if norm}
    members = {i for i in at_steps | after_passes if before.parameters[i].optimizer is not None}
    rounds = Counter(step.optimizer for step in reference.updates)
    if rounds and min(rounds.values()) > 1:  # no step in several rounds means none at all: a target network's own
        stepped |= {one.optimizer for one in before.parameters.values() if one.optimizer is not None} - rounds.keys()
    members = {i for i in members if i in at_steps or before.parameters[i].optimizer not in stepped}
    there = matching(reference, before)
    later = reference.updates[failure.steps :]
    members |= {there[i] for step in later for i, norm in step.gradients.items() if norm and i in there}
    by_hand = {i for i in after_passes if before.parameters[i].optimizer is None and moved_by_hand(before, i)}
    if len(reference.updates) > 1:  # an average of the weights gets gradients that nobody uses
        read = frozenset[int]().union(*(step.read for step in reference.updates))
        by_hand &= {there[i] for i in read if i in there}
    if not reference.optimizers:
        passes = [one for one in reference.passes[failure.passes :] if one.error is None]
        given = {i for one in passes for i, norm in one.gradients.items() if norm}
        by_hand |= {there[i] for i in given if i in there and moved_by_hand(reference, i)}
    return members | by_hand or at_steps | after_passes


def over(before: RunRecord, failure: Failure, reference: RunRecord) -> set[int]:
    """Parameters that the original trained only in an earlier phase: pretraining, a backbone that is frozen later.

    The *reference* does not come to them any more, although it goes to its end or makes at least twice as many steps
    as there ever were from one gradient to the next before the failure.
    """
    there = matching(before, reference)
    passes = [p for p in reference.passes[failure.passes :] if p.error is None]
    if not passes:
        return set()
    later = len(reference.updates[failure.steps :])
    reached = frozenset[int]().union(*(p.reached for p in passes))
    if any(p.cut for p in passes):  # nobody knows the parameters that they were to reach
        reached |= reference.called(failure.passes) - passes[0].frozen
    found = set()
    for index, one in before.parameters.items():
        given = [s.number for s in before.updates[: failure.steps] if s.gradients.get(index)]
        gap = max((b - a for a, b in itertools.pairwise([0, *given])), default=0)
        enough = reference.outcome is Outcome.FINISHED or later >= 2 * gap
        if one.optimizer is not None and given and there.get(index) not in reached and enough:
            found.add(index)
    return found


def moved_by_hand(record: RunRecord, index: int) -> bool:
    """Whether a leaf outside of all optimizers changed from one pass to another."""
    return len({p.state[index] for p in record.passes if index in p.state}) > 1


def moved_for_passes(record: RunRecord) -> set[int]:
    """The members of optimizers that change between two passes of one step: weights that are moved for the second."""
    found: set[int] = set()
    for one, other in itertools.pairwise(record.passes):
        if one.step == other.step:
            found |= {i for i, bits in other.state.items() if one.state.get(i, bits) != bits}
    return {i for i in found if record.parameters[i].optimizer is not None}


@dataclass(frozen=True)
class Own:
    """The steps of one run, for one parameter."""

    index: int
    steps: tuple[Step, ...]
    """Steps of the optimizers that have the parameter."""

    def later(self, failure: Failure) -> tuple[Step, ...]:
        return tuple(s for s in self.steps if s.number > failure.steps)

    def gradient(self, step: Step) -> float:
        return step.gradients.get(self.index, 0.0)

    def moved(self, step: Step) -> float:
        return step.moved.get(self.index, 0.0)


def stands(own: Own) -> bool:
    """Whether steps by a gradient left a parameter where it was: a bias before a softmax, whose gradient is noise."""
    return any(map(own.gradient, own.steps)) and not any(map(own.moved, own.steps))


def steps_of(record: RunRecord, index: int) -> Own:
    return Own(index, tuple(s for s in record.updates if index in s.moved))


def passes_at(record: RunRecord, other: RunRecord, failure: Failure) -> int:
    """Number of backward passes that the script makes of one loss, to compare it with another version of it.

    Where the losses that are sent back for the failed step have equal sums in both, it is the number of passes for that
    step, because a patch may send a sum of losses back in several passes; else the number of places where the script
    calls backward.
    """
    mine, theirs = ([p for p in one.passes if p.step == failure.steps] for one in (record, other))
    if mine and theirs and close(sum(sum(p.losses) for p in mine), sum(sum(p.losses) for p in theirs), TOTAL):
        return len(mine)
    return len({(p.file, p.line) for p in record.passes}) or 1


def why_not_training(before: RunRecord, after: RunRecord, mine: Own, gap: float, *, rests: bool) -> str:
    """Why a parameter of an optimizer does not train in the patched run; empty if it does.

    ``gap`` is the number of backward passes that the reference makes from one step of its optimizer to the next; 0 if
    unknown.  ``rests`` says that the reference trains others by then.
    """
    failure = before.failure
    assert failure is not None
    later = mine.later(failure)
    own = later or mine.steps
    theirs = [s for s in before.updates if s.optimizer == own[0].optimizer]
    if before.passes[failure.passes :] and mine.index in last_frozen(after) and not later:
        frozen = before.passes[failure.passes].frozen
        if any(before.parameters[i].key == after.parameters[mine.index].key for i in frozen):
            return ""  # the script itself had frozen it by then
    steps_before = len(theirs)
    passes_later = sum(p.trains for p in after.passes[failure.passes :])
    if theirs and not later and rests:
        return ""
    if theirs and not later and failure.passes - theirs[-1].passes > SELDOM * max(1.0, passes_between(theirs)):
        return ""  # done with before the failure: a teacher that was trained first
    if (
        steps_before
        and not any(s.closure for s in own)
        and not is_followed(after, later[-1].number if later else failure.steps)
        and 4 * (len(later) + 1) * (gap or max(1, failure.passes // steps_before)) < passes_later
    ):
        return f"its optimizer makes {count(len(later), 'step')} in {count(passes_later, 'backward pass')}"
    if not any(map(mine.gradient, own)):
        return "gets no gradient any more" if mine.index not in own[-1].gradients else "gets only zero gradients"
    if not any(map(mine.moved, own)):
        return STANDS
    half = own[len(own) // 2 :]
    if len(own) >= ENOUGH and any(norm for s in half for norm in s.gradients.values()):
        if not any(map(mine.gradient, half)):
            return f"{RESTS} {max(s.number for s in own if mine.gradient(s))}"
        rates = any(group.get("lr", 1.0) for s in half for group in s.settings)
        if rates and not any(map(mine.moved, half)) and not converged(mine, half):
            return f"{STANDS} after step {max(s.number for s in own if mine.moved(s))}"
    return ""


def rests_as_meant(theirs: Own, mine: Own, failure: Failure) -> bool:
    """Whether a parameter gets a gradient at just those steps at which the present iteration uses it.

    An example is the stand-in for an item that a store does not have yet.  *theirs* is the reference, in which the
    graphs of earlier iterations train it at the other steps as well.
    """
    pairs = list(zip(theirs.later(failure), mine.later(failure), strict=False))
    wholes = [(step.sketches or {}).get(theirs.index, ()) for step, _ in pairs]
    fresh = [
        bool(whole) and math.hypot(*step.present.get(theirs.index, whole)) > ROUNDING * math.hypot(*whole)
        for (step, _), whole in zip(pairs, wholes, strict=True)
    ]
    return len(pairs) >= len(mine.later(failure)) and any(fresh) and fresh == [bool(mine.gradient(o)) for _, o in pairs]


def converged(mine: Own, half: Sequence[Step]) -> bool:
    """Whether an optimizer with a closure, as L-BFGS is, rests in *half* of its steps because it has arrived."""
    most = max(map(mine.gradient, mine.steps))
    return all(s.closure and mine.gradient(s) <= ARRIVED * most for s in half)


def is_followed(record: RunRecord, step: int) -> bool:
    """Whether an optimizer makes its first step after this one: a model that is fitted anew in each iteration."""
    known = {s.optimizer for s in record.updates if s.number <= step}
    return any(s.optimizer not in known for s in record.updates)


def why_trained_otherwise(theirs: Own, mine: Own, failure: Failure, places: float) -> str:
    """Difference from the reference in how the patched run trains a parameter, apart from its gradients; or empty.

    ``places`` is the number of passes that the reference makes of one loss, relative to the patched script.
    """
    pairs = list(zip(theirs.later(failure), mine.later(failure), strict=False))
    if not pairs:
        return ""
    closes = any(step.closure for step, _ in pairs)
    if (
        not closes
        and (gap := passes_between(theirs.later(failure)) or passes_between(theirs.steps))
        and (now := passes_between(mine.later(failure))) * places > SELDOM * gap
    ):
        return f"its optimizer steps after every {now:g} backward passes instead of {gap:g}"
    varies = any(step.settings != pairs[0][0].settings for step, _ in pairs)
    for step, other in pairs[:1] if varies else pairs:
        for group, groups_now in zip(step.settings, other.settings, strict=False):
            for name, value in group.items():
                if not close(value, groups_now.get(name, value)):
                    return f"{name} is {groups_now[name]:g} instead of {value:g} from step {other.number} on"
    if not any(step.elsewhere for step in theirs.steps):
        if moved := [step.number for _, step in pairs if mine.index in step.elsewhere]:
            return f"is changed by other means than its optimizer before step {moved[0]}"
    half = pairs[len(pairs) // 2 :]
    if len(pairs) >= COMPARABLE and any(theirs.gradient(step) for step, _ in half):
        # Also past the end of the reference: experts of a mixture rest while nothing is routed to them.
        if not any(map(mine.gradient, mine.later(failure)[len(pairs) // 2 :])):
            return f"{RESTS} {max(s.number for s in mine.steps if mine.gradient(s))}"
    for step, other in () if closes else pairs:
        if not same_gradient(step, theirs.index, other, mine.index) or clipped_otherwise(theirs, step, mine, other):
            break
        if not close(theirs.moved(step), mine.moved(other), STRENGTH):
            ratio = mine.moved(other) / (theirs.moved(step) or 1.0)
            return f"moves {ratio:.3g} times as far at step {other.number}, with the same gradient"
    return ""


def last_frozen(record: RunRecord) -> frozenset[int]:
    """The members of optimizers that do not require grad at the last pass."""
    return record.passes[-1].frozen if record.passes else frozenset()


def passes_between(steps: Sequence[Step]) -> float:
    """Number of backward passes from one step to the next, in the median; 0 if it is not known."""
    gaps = [later.passes - earlier.passes for earlier, later in itertools.pairwise(steps)]
    return statistics.median(gaps) if gaps else 0.0


def same_gradient(step: Step, index: int, other: Step, there: int) -> bool:
    ours, theirs = (step.sketches or {}).get(index), (other.sketches or {}).get(there)
    if not ours or not theirs or len(ours) != len(theirs):
        return False
    return math.dist(ours, theirs) <= ROUNDING * math.hypot(*ours)


def clipped_otherwise(theirs: Own, step: Step, mine: Own, other: Step) -> bool:
    """Whether a gradient is scaled by the norm of all of them, of which the patch has cut some short."""
    if close(theirs.gradient(step), mine.gradient(other)):
        return False
    return not close(*(math.hypot(*itertools.chain(*(one.sketches or {}).values())) for one in (step, other)))


def why_leaf_not_training(before: RunRecord, after: RunRecord, index: int, there: int, *, moved: bool) -> str:
    """Why a leaf that no step moves does not train, or empty; it must move only if it *moved* without the patch."""
    failure = before.failure
    assert failure is not None
    if before.parameters[index].optimizer is not None and not moved_by_hand(after, there):
        return "never moves, because its optimizer makes no step"
    later = after.passes[failure.passes :]
    if later and not any(p.gradients.get(there) for p in later):
        return "gets no gradient any more"
    if moved and not moved_by_hand(after, there):
        return "does not move"
    return ""
