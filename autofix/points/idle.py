"""The points for an original that raises nothing and trains nothing: the patch must compute the same and train."""

from __future__ import annotations

from autofix.points.agreement import compare_until, same_losses
from autofix.points.base import Point, Verdict, comes_to_its_end, count, point, unproved
from autofix.points.held import held
from autofix.points.training import begins_to_train
from autofix.record import RunRecord


def idle(record: RunRecord) -> int:
    """How many parameters the optimizers of a run hold that raised nothing and gave none of them a gradient."""
    members = [index for index, one in record.parameters.items() if one.optimizer is not None]
    if record.failure is not None or not record.complete or not record.passes or not record.updates:
        return 0
    return 0 if any(norm for step in record.updates for norm in step.gradients.values()) else len(members)


def points(before: RunRecord, after: RunRecord) -> tuple[Point, ...]:
    """The verdicts, once :func:`idle` of the original is known not to be zero."""
    members = count(idle(before), "parameter")
    fails = point(1, Verdict.PASSED, f"no error, but none of {members} of the optimizers ever gets a gradient")
    clean = comes_to_its_end(after)
    if clean.verdict is not Verdict.PASSED:
        return (fails, clean, *unproved("the patched run did not come to its end")[1:])
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
    left = held(after)
    memory = point(6, Verdict.PASSED, f"live graphs do not grow over {steps}", nodes=0)
    if left:
        memory = point(6, Verdict.FAILED, f"{left:.3g} graph nodes more are kept at every step", nodes=left)
    return fails, clean, same, begins_to_train(after), point(5, Verdict.PASSED, "the original had none"), memory
