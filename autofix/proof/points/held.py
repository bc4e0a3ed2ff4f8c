"""The points for an original that raises nothing and only keeps graphs: the patch must do the same and let them go."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.execution.record import Outcome, RunRecord
from autofix.proof.points.agreement import compare_until
from autofix.proof.points.base import Point, Verdict, comes_to_its_end, count, point, unproved
from autofix.proof.points.memory import growth, growth_in_stages, series_of

AT_LEAST = 2
"""Least ratio of the graph nodes that the original and the patched run hold between two steps."""


def held(record: RunRecord) -> float:
    """Increase of live graph nodes from one optimizer step to the next, of a run that raised nothing; 0 for none."""
    if record.failure is not None or not record.complete:
        return 0.0
    lives = ([step.live.nodes for step in part] for part in series_of(record.updates))
    return max(map(steady_growth, lives), default=0.0)


def steady_growth(values: list[int]) -> float:
    """The largest mean increase in a stretch, if such stretches are most of all: episodes grow for a while, too."""
    rates = [(growth(rise) or growth_in_stages(rise), len(rise)) for rise in _rises(values)]
    covered = sum(length for rate, length in rates if rate)
    return max((rate for rate, _ in rates), default=0.0) if 2 * covered >= len(values) else 0.0


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
    left = held(after)
    detail = (
        f"live graphs do not grow over {count(after.steps, 'step')}; in the original by {rate:.3g} nodes at every step"
    )
    if left:
        detail = f"{left:.3g} graph nodes more are still kept at every step"
    memory = point(6, Verdict.FAILED if left else Verdict.PASSED, detail, nodes=left)
    return _all_points(before, after, fails, memory)


def points_between(before: RunRecord, after: RunRecord) -> tuple[Point, ...]:
    """The verdicts where the original holds graphs only between two steps, as far as the two runs show that.

    Both were run with live graphs counted there, see ``Bounds.between``.
    """
    freed = [(ours, after.between[at], at) for at, ours in before.between.items() if at in after.between]
    ours, theirs, (_, calls) = max(freed, key=lambda one: one[0] - one[1], default=(0, 0, (0, 0)))
    if ours < AT_LEAST * max(theirs, 1):
        told = point(
            1, Verdict.NOT_PROVED, f"the original raised no error in {count(before.steps, 'step')}, and holds no graphs"
        )
        return (told, *unproved("there is no failure of the original to compare with"))
    where = f"after {calls} calls of modules without a step"
    fails = point(1, Verdict.PASSED, f"no error, but {ours} graph nodes are alive {where}", nodes=ours)
    memory = point(6, Verdict.PASSED, f"{theirs} graph nodes are alive {where}; in the original {ours}", nodes=theirs)
    return _all_points(before, after, fails, memory)


def _all_points(before: RunRecord, after: RunRecord, fails: Point, memory: Point) -> tuple[Point, ...]:
    clean = comes_to_its_end(after)
    if clean.verdict is not Verdict.PASSED:
        return (fails, clean, *unproved("the patched run did not end")[1:])
    same = compare_until(before, after, len(before.passes), before.steps)
    # An original that was stopped where it was healthy would run on.
    goes_on = before.outcome is Outcome.STOPPED and after.steps >= before.steps
    exact = same.verdict is Verdict.PASSED and (goes_on or before.steps == after.steps)
    follows = Verdict.PASSED if exact else Verdict.FAILED
    trains = point(4, follows, f"{count(len(before.parameters), 'parameter')} move as before" if exact else same.detail)
    gradients = point(5, follows, "exact: every step is the original's" if exact else same.detail)
    return fails, clean, same, trains, gradients, memory
