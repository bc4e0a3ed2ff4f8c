"""The points for an original that raises nothing and trains nothing: the patch must compute the same and train."""

from __future__ import annotations

from autofix.execution.record import RunRecord
from autofix.proof.points.agreement import compare_until, same_losses
from autofix.proof.points.base import Point, Verdict, comes_to_its_end, count, matching, point, unproved
from autofix.proof.points.held import held
from autofix.proof.points.training import begins_to_train, wakes_up


def idle(record: RunRecord) -> frozenset[int]:
    """The optimizers' members that never got a gradient, in a run that raised nothing; empty for any other run."""
    members = {index for index, one in record.parameters.items() if one.optimizer is not None}
    if record.failure is not None or not record.complete or not record.passes or not record.updates:
        return frozenset()
    return frozenset(members - {i for step in record.updates for i, norm in step.gradients.items() if norm})


def trains_nothing(record: RunRecord) -> bool:
    """Whether no member of any optimizer ever got a gradient."""
    asleep = idle(record)
    return bool(asleep) and len(asleep) == sum(one.optimizer is not None for one in record.parameters.values())


def changes_what_is_idle(before: RunRecord, after: RunRecord) -> bool:
    """Whether other parameters are idle in the patched run than in the original."""
    indices = matching(before, after)
    return {indices.get(i) for i in idle(before)} != idle(after)


def points(before: RunRecord, after: RunRecord) -> tuple[Point, ...]:
    """The verdicts, once :func:`idle` of the original is known not to be empty."""
    asleep = idle(before)
    everything = sum(one.optimizer is not None for one in before.parameters.values())
    nothing_trains = trains_nothing(before)
    which = (
        f"none of {count(everything, 'parameter')}" if nothing_trains else f"{len(asleep)} of {everything} parameters"
    )
    verb = "ever gets" if nothing_trains else "never get"
    fails = point(1, Verdict.PASSED, f"no error, but {which} of the optimizers {verb} a gradient")
    clean = comes_to_its_end(after)
    if clean.verdict is not Verdict.PASSED:
        return (fails, clean, *unproved("the patched run did not end")[1:])
    steps = count(after.steps, "step")
    same = compare_until(before, after, 0, 0)
    if same.verdict is Verdict.PASSED:
        alike = bool(after.passes) and same_losses(before.passes[0], after.passes[0])
        verdict = Verdict.PASSED if alike else Verdict.FAILED
        ours, theirs = (sum(one.passes[0].losses) if one.passes else float("nan") for one in (before, after))
        detail = (
            f"{same.detail}, and the same first loss" if alike else f"the first loss is {theirs:.6g}, not {ours:.6g}"
        )
        same = point(3, verdict, detail)
    left = 0.0 if held(before) else held(after)  # episodes of many lengths look like growth
    memory = point(6, Verdict.PASSED, f"live graphs do not grow over {steps}", nodes=0)
    if left:
        memory = point(6, Verdict.FAILED, f"{left:.3g} graph nodes more are kept at every step", nodes=left)
    trains = begins_to_train(after) if nothing_trains else wakes_up(before, after, asleep)
    gradients = point(
        5, Verdict.PASSED, "the original had none" if nothing_trains else "the original had none of these"
    )
    return fails, clean, same, trains, gradients, memory
