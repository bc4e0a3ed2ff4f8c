"""The points for an original that raises nothing and only keeps graphs: the patch must do the same and let them go."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.points.agreement import compare_until
from autofix.points.base import Point, Verdict, comes_to_its_end, count, point, unproved
from autofix.points.memory import growth, growth_in_stages, series_of
from autofix.record import RunRecord


def held(record: RunRecord) -> float:
    """How many graph nodes more are alive after every optimizer step of a run that raised nothing; 0 for none."""
    if record.failure is not None or not record.complete:
        return 0.0
    lives = ([step.live.nodes for step in part] for part in series_of(record.updates))
    rises = [rise for values in lives for rise in _rises(values)]
    return max((growth(rise) or growth_in_stages(rise) for rise in rises), default=0.0)


def _rises(values: list[int]) -> Iterator[list[int]]:
    """The stretches between which the graphs of an epoch were let go."""
    start = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] < values[at - 1]:
            yield values[start:at]
            start = at


def points(before: RunRecord, after: RunRecord) -> tuple[Point, ...]:
    """The verdicts, once :func:`held` of the original is known not to be zero."""
    rate = held(before)
    fails = point(1, Verdict.PASSED, f"no error, but {rate:.3g} graph nodes more are kept at every step", nodes=rate)
    clean = comes_to_its_end(after)
    if clean.verdict is not Verdict.PASSED:
        return (fails, clean, *unproved("the patched run did not come to its end")[1:])
    steps = count(after.steps, "step")
    same = compare_until(before, after, len(before.passes), before.steps)
    exact = same.verdict is Verdict.PASSED and before.steps == after.steps
    follows = Verdict.PASSED if exact else Verdict.FAILED
    trains = point(4, follows, f"{count(len(before.parameters), 'parameter')} move as before" if exact else same.detail)
    gradients = point(5, follows, "exact: every step is the original's" if exact else same.detail)
    left = held(after)
    if left:
        memory = point(6, Verdict.FAILED, f"{left:.3g} graph nodes more are still kept at every step", nodes=left)
    else:
        detail = f"live graphs do not grow over {steps}; in the original by {rate:.3g} nodes at every step"
        memory = point(6, Verdict.PASSED, detail, nodes=0)
    return fails, clean, same, trains, gradients, memory
