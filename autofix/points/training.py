"""Point 4: what trained before the failure trains after it."""

from __future__ import annotations

from autofix.points.base import Point, Verdict, count, listed, matching, point
from autofix.record import Failure, RunRecord


def still_trains(before: RunRecord, after: RunRecord, reference: RunRecord) -> Point:
    """Every parameter that trains in the original or in the reference still gets gradients and moves."""
    failure = before.failure
    assert failure is not None
    if not after.passes:
        return point(4, Verdict.NOT_PROVED, "the patched script ran no backward pass")
    trained = trained_before(before, failure, reference)
    if not trained:
        return begins_to_train(after)
    indices = matching(before, after)
    problems: dict[str, list[str]] = {}
    for index in sorted(trained):
        parameter = before.parameters[index]
        if index not in indices:
            problem = "is no longer there"
        elif parameter.optimizer is not None:
            problem = why_not_training(before, after, indices[index], parameter.optimizer)
        else:
            problem = why_leaf_not_training(before, after, index, indices[index])
        if problem:
            problems.setdefault(problem, []).append(parameter.name)
    figures = {"trained": len(trained), "stopped": sorted(name for names in problems.values() for name in names)}
    if not any(step.gradients for step in reference.updates[failure.steps :]):
        # Without a reference: what the failing pass reaches must at least be given a gradient, if only zero.
        reached = before.passes[failure.passes].reached if failure.in_pass else frozenset()
        for index in sorted(reached - trained):
            own = [s for s in after.updates if s.optimizer == before.parameters[index].optimizer]
            if own and index in indices and not any(indices[index] in s.gradients for s in own):
                problems.setdefault("gets no gradient", []).append(before.parameters[index].name)
    if problems:
        detail = "; ".join(f"{listed(names)}: {problem}" for problem, names in problems.items())
        return point(4, Verdict.FAILED, detail, **figures)
    return point(4, Verdict.PASSED, f"{count(len(trained), 'parameter')}: gradients and movement as before", **figures)


def begins_to_train(after: RunRecord) -> Point:
    """The same for an original that trained nothing, because its loss had no graph: the patched script must train."""
    members = {i: p for i, p in after.parameters.items() if p.optimizer is not None}
    if not members:
        return point(4, Verdict.NOT_PROVED, "no parameter got a gradient in the original: nothing to compare with")
    moving = {i for step in after.updates for i, distance in step.moved.items() if distance and step.gradients.get(i)}
    still = [p.name for i, p in members.items() if i not in moving]
    figures = {"trained": len(moving), "stopped": sorted(still)}
    if not moving:
        return point(4, Verdict.FAILED, "no parameter of any optimizer gets a gradient", **figures)
    rest = f", not {listed(still)}" if still else ""
    detail = f"the original trained nothing; now {count(len(moving), 'parameter')} of {len(members)} train{rest}"
    return point(4, Verdict.PASSED, detail, **figures)


def trained_before(before: RunRecord, failure: Failure, reference: RunRecord) -> set[int]:
    """What the original trains, as far as it came, and what the reference does.

    A member of an optimizer counts if it had a gradient at a step of its own, or, before the first such step, after a
    pass.  Leaves outside of optimizers count if they were updated by hand; if nothing else is trained, all that got a
    gradient.  (A leaf beside these, such as a network that no optimizer holds, gets gradients that nobody uses.)
    """
    stepped = {step.optimizer for step in before.updates}
    at_steps = {i for step in before.updates for i, norm in step.gradients.items() if norm}
    after_passes = {i for one in before.passes[: failure.passes] for i, norm in one.gradients.items() if norm}
    members = {i for i in at_steps | after_passes if before.parameters[i].optimizer is not None}
    members = {i for i in members if i in at_steps or before.parameters[i].optimizer not in stepped}
    there = matching(reference, before)
    later = reference.updates[failure.steps :]
    members |= {there[i] for step in later for i, norm in step.gradients.items() if norm and i in there}
    by_hand = {i for i in after_passes if before.parameters[i].optimizer is None and moved_by_hand(before, i)}
    return members | by_hand or at_steps | after_passes


def moved_by_hand(record: RunRecord, index: int) -> bool:
    """Whether a leaf outside of all optimizers changed from one pass to another."""
    return len({p.state[index] for p in record.passes if index in p.state}) > 1


def why_not_training(before: RunRecord, after: RunRecord, index: int, optimizer: int) -> str:
    """Why the parameter of an optimizer does not train in the patched run; empty if it does."""
    failure = before.failure
    assert failure is not None
    own = [s for s in after.updates if s.optimizer == optimizer]
    if not own:
        return "never moves, because its optimizer makes no step"
    later = [s for s in own if s.number > failure.steps]
    steps_before = sum(1 for s in before.updates if s.optimizer == optimizer)
    passes_later = len(after.passes) - failure.passes
    if steps_before and 4 * (len(later) + 1) * max(1, failure.passes // steps_before) < passes_later:
        return f"its optimizer makes {count(len(later), 'step')} in {count(passes_later, 'backward pass')}"
    own = later or own
    if not any(s.gradients.get(index) for s in own):
        return "gets no gradient any more" if index not in own[-1].gradients else "gets only zero gradients"
    if not any(s.moved.get(index) for s in own):
        return "does not move"
    half = own[len(own) // 2 :]
    others = any(norm for s in half for norm in s.gradients.values())
    if len(own) >= 6 and others and not any(s.gradients.get(index) for s in half):
        return f"gets no gradient after step {max(s.number for s in own if s.gradients.get(index))}"
    return ""


def why_leaf_not_training(before: RunRecord, after: RunRecord, index: int, there: int) -> str:
    """The same for a leaf outside of every optimizer: it must move only if the original moved it."""
    failure = before.failure
    assert failure is not None
    later = after.passes[failure.passes :]
    if later and not any(p.gradients.get(there) for p in later):
        return "gets no gradient any more"
    if moved_by_hand(before, index) and not moved_by_hand(after, there):
        return "does not move"
    return ""
