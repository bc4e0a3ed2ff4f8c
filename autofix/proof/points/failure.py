"""Points 1 and 2: the original fails with the error that is to be repaired, and the patched script is clean."""

from __future__ import annotations

import math

from autofix.child.recorded import GRAPHLESS
from autofix.execution.obstacles import obstacle, obstacle_of
from autofix.execution.record import Outcome, RunRecord
from autofix.proof.points.base import Point, Verdict, count, point, short


def fails_before(before: RunRecord, expected_error: str) -> Point:
    """The original raised the error that is to be repaired."""
    failure = before.failure
    seconds = round(before.seconds, 2)
    if failure is None:
        reason = {
            Outcome.FINISHED: f"the original raised no error in {count(before.steps, 'step')}",
            Outcome.STOPPED: f"the original raised no error in {count(before.steps, 'step')}",
            Outcome.TIMED_OUT: f"the original raised no error within {told(before.seconds)} s",
            Outcome.DIED: obstacle(before) or "the original's process died without an error message",
            Outcome.NOT_STARTED: f"the original could not be run: {before.error.message if before.error else ''}",
        }.get(before.outcome, before.outcome.value)
        return point(1, Verdict.NOT_PROVED, reason, seconds=seconds)
    error = failure.error
    where = f"line {error.line}: " if error.line else ""
    figures = {
        "type": error.type,
        "message": error.message,
        "line": error.line,
        "steps": failure.steps,
        "passes": failure.passes,
        "in_backward": failure.in_pass,
        "seconds": seconds,
    }
    if reason := obstacle_of(failure, before):
        return point(1, Verdict.NOT_PROVED, f"{reason}: {where}{error}", **figures)
    if expected_error and expected_error not in error.message:
        return point(1, Verdict.FAILED, f"another error than the one to be repaired: {where}{error}", **figures)
    return point(1, Verdict.PASSED, f"{where}{short(str(error))}", **figures)


UNREDUCED = "grad can be implicitly created only for scalar outputs"
BASE_CHANGED = "another view of its base has been modified inplace"
CHANGED = "modified by an inplace operation"
LEAF_CHANGED = "leaf Variable that requires grad"
TAPE = (
    "backward through the graph a second time",
    CHANGED,
    GRAPHLESS,
    LEAF_CHANGED,
    "is a view and is being modified inplace",
    BASE_CHANGED,
    "A view was created in no_grad mode",
    "Inplace update to inference tensor",
    "One of the differentiated Tensors does not require grad",
    "Can't detach views in-place",
    UNREDUCED,
    "change requires_grad flags of leaf variables",
    "Tensors of floating point",
    "on a tensor that doesn't require gradient",
    "on Tensor that has requires_grad=False",
    "on Tensor that requires grad",
    "Only Tensors created explicitly by the user",
    "Cowardly refusing to serialize non-leaf tensor",
    "don't support automatic differentiation",
    "invalid index of a 0-dim tensor",
    "Legacy autograd function",
)
"""Pieces of the messages by which autograd's mistakes show."""


def what_remains(before: RunRecord, after: RunRecord) -> str:
    """The error, none of autograd's, to which a patched script comes past the original's failure; else empty."""
    first, second = before.failure, after.failure
    if first is None or second is None or any(piece in second.error.message for piece in TAPE):
        return ""
    if (second.steps, second.passes) <= (first.steps, first.passes) and first.in_pass:
        return ""
    if not first.in_pass and (second.error.file, second.error.line) == (first.error.file, first.error.line):
        return ""
    where = f"line {second.error.line}: " if second.error.line else ""
    return f"{where}{short(str(second.error))}"


def clean_after(before: RunRecord, after: RunRecord) -> Point:
    """The patched script raises no error, not even one that it catches; its losses are finite; it gets further."""
    failure = before.failure
    assert failure is not None
    losses = after.losses
    figures = {
        "outcome": after.outcome.value,
        "steps": after.steps,
        "passes": len(losses),
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "seconds": round(after.seconds, 2),
    }
    if again := after.failure:
        where = f"line {again.error.line}: " if again.error.line else ""
        if reason := obstacle_of(again, after):
            return point(2, Verdict.NOT_PROVED, f"{reason}: {where}{short(str(again.error))}", **figures)
        caught = "" if after.error else " (caught by the script)"
        when = f" after {count(again.steps, 'step')}"
        return point(2, Verdict.FAILED, f"{where}{short(str(again.error))}{caught}{when}", **figures)
    for number, loss in enumerate(losses, 1):
        if not math.isfinite(loss):
            return point(2, Verdict.FAILED, f"the loss of backward pass {number} is {loss}", **figures)
    if not after.complete:
        reason = {
            Outcome.TIMED_OUT: f"timed out after {told(after.seconds)} s and {count(after.steps, 'step')}",
            Outcome.DIED: f"the process died after {count(after.steps, 'step')}",
            Outcome.NOT_STARTED: f"could not be run: {after.error.message if after.error else ''}",
        }[after.outcome]
        return point(2, Verdict.NOT_PROVED, reason, **figures)
    further = len(after.passes) - failure.passes
    if failure.in_pass and further <= 0 and after.steps <= failure.steps:
        return point(
            2,
            Verdict.FAILED,
            "the patched script ends without the backward pass that failed in the original",
            **figures,
        )
    if after.steps < failure.steps or (not failure.in_pass and further < 0):
        return point(2, Verdict.FAILED, "the patched script ends before the place where the original failed", **figures)
    ended = "ran to its end" if after.outcome is Outcome.FINISHED else "ran on until it was stopped"
    return point(
        2, Verdict.PASSED, f"{ended}: {count(after.steps, 'step')}, {count(len(losses), 'backward pass')}", **figures
    )


def told(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"
