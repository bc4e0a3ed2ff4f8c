"""Point 6: memory does not grow from step to step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from autofix.child.recorded import Step
from autofix.execution.record import Outcome, RunRecord
from autofix.proof.points.base import Point, Verdict, count, point, trains_nothing_by_design

LEAST = 4
"""Values that can show steady growth."""


def memory_flat(before: RunRecord, reference: RunRecord, after: RunRecord) -> Point:
    """Neither the graphs that are alive nor the part of the past that a pass walks grow from step to step.

    Tensor bytes are reported and not judged: a list of results that the script itself keeps grows in a right patch,
    too.  Graphs that are already used and that the script holds by values of its own (``losses.append(loss)``) are
    named; they fail only where the original did not hold them.
    """
    failure = before.failure
    assert failure is not None
    if after.outcome is Outcome.FINISHED and trains_nothing_by_design(before, after):
        return point(6, Verdict.NOT_APPLICABLE, "nothing is repeated: no optimizer, no loop")
    if not after.passes:
        return point(6, Verdict.NOT_PROVED, "the patched script ran no backward pass")
    later = [s for s in after.updates if s.number > failure.steps]
    lives = [[s.live for s in part] for part in series_of(later)]
    lives = lives or [[p.live for p in after.passes[failure.passes :] if p.live is not None]]
    longest = max((len(part) for part in lives), default=0)
    figures: dict[str, Any] = {
        "nodes": [live.nodes for part in lives for live in part],
        "armed": [live.armed for part in lives for live in part],
        "bytes": [live.bytes for part in lives for live in part],
        "walked": [p.walked for p in after.passes[failure.passes :]],
    }
    # A graph that waits for its backward pass is none of an optimizer's state: here the first steps count, too.
    waiting = [[s.live.armed for s in part] for part in series_of(after.updates, 0)]
    for values in waiting or [[live.armed for live in part] for part in lives]:
        if rate := growth(values):
            detail = f"{rate:.3g} graph nodes more at every step keep tensors saved for a backward pass"
            return point(6, Verdict.FAILED, detail, **figures)
    for line in {p.line for p in after.passes}:
        if rate := growth([p.walked for p in after.passes[failure.passes :] if p.line == line]):
            more = f"the backward pass in line {line} walks {rate:.3g} nodes more every time"
            detail = f"{more}: graphs of earlier steps are never released"
            return point(6, Verdict.FAILED, detail, **figures)
    rates = [rate for part in lives if (rate := growth([live.nodes for live in part]))]
    if rates and (steady_in(before) or steady_in(reference)):
        return point(6, Verdict.FAILED, f"{max(rates):.3g} graph nodes more at every step", **figures)
    if rates:
        detail = (
            f"the script itself keeps {max(rates):.3g} used graph nodes more at every step, by values that it stores"
        )
        return point(6, Verdict.PASSED, detail, **figures)
    if longest < LEAST:
        many = f"too few steps to tell: {count(longest + 1, 'step')} past the failure"
        open_point = point(6, Verdict.NOT_PROVED, many, **figures)
        # Where the script ends by itself, it can hold no more than that; where it was stopped, it would run on.
        return replace(open_point, optional=after.outcome is Outcome.FINISHED)
    return point(6, Verdict.PASSED, f"live graphs do not grow over {count(longest, 'step')}", **figures)


def series_of(steps: Sequence[Step], left_out: int = 1) -> Iterator[list[Step]]:
    """The steps of each optimizer apart, because an iteration's graph is alive at one and gone at another.

    The first step of each is left out: state is created there.
    """
    for optimizer in sorted({s.optimizer for s in steps}):
        yield [s for s in steps if s.optimizer == optimizer][left_out:]


def growth(values: Sequence[int]) -> float:
    """Mean increase of values that grow steadily (they never fall, and rise at half of the places), else 0."""
    if len(values) < LEAST:
        return 0.0
    differences = [b - a for a, b in itertools.pairwise(values)]
    if min(differences) < 0 or 2 * sum(1 for d in differences if d > 0) < len(differences):
        return 0.0
    return sum(differences) / len(differences)


def growth_in_stages(values: Sequence[int]) -> float:
    """Mean increase of values that rise by as much every time, after stretches without change (epochs), else 0."""
    levels = [value for at, value in enumerate(values) if not at or value != values[at - 1]]
    rises = {later - earlier for earlier, later in itertools.pairwise(levels)}
    steady = len(levels) >= LEAST and len(rises) == 1 and min(rises) > 0
    return (values[-1] - values[0]) / (len(values) - 1) if steady else 0.0


def steady_in(run: RunRecord) -> bool:
    """Whether a run of the original is known to have held no graphs: enough steps, and the nodes did not grow.

    A reference run keeps the saved tensors of graphs, but no graph that the script lets go.
    """
    parts = [[s.live.nodes for s in part] for part in series_of(run.updates)]
    return any(len(part) >= 4 for part in parts) and not any(growth(part) for part in parts)
