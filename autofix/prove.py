"""Proves a patch by execution: runs the original and the patched script, and judges what the two runs recorded."""

from __future__ import annotations

from dataclasses import dataclass

from autofix import judge
from autofix.judge import Point, Verdict
from autofix.record import Outcome, RunRecord
from autofix.runner import Bounds, Limits, Script, run

__all__ = ["Certificate", "Limits", "Outcome", "Point", "RunRecord", "Script", "Verdict", "prove", "run_original"]


@dataclass(frozen=True)
class Certificate:
    """What the two runs showed, point by point."""

    points: tuple[Point, ...]
    before: RunRecord
    after: RunRecord

    @property
    def verdict(self) -> Verdict:
        """Failed if a point failed; else not proved if one is open; else passed."""
        verdicts = {point.verdict for point in self.points}
        for worst in (Verdict.FAILED, Verdict.NOT_PROVED):
            if worst in verdicts:
                return worst
        return Verdict.PASSED

    @property
    def proved(self) -> bool:
        return self.verdict is Verdict.PASSED


def run_original(original: Script, limits: Limits) -> RunRecord:
    """Run the script as it is, so that several patches can be judged against one run."""
    return run(original, limits)


def prove(
    original: Script, patched: Script, limits: Limits, *, expected_error: str = "", before: RunRecord | None = None
) -> Certificate:
    """Run both scripts and judge the patch.

    ``expected_error`` is a piece of the message that the original must raise; ``before`` is an earlier
    :func:`run_original` with the same limits.  Never raises for what the scripts do: a run that did not happen is
    *not proved*.
    """
    before = before or run_original(original, limits)
    fails = judge.fails_before(before, expected_error)
    if fails.verdict is not Verdict.PASSED:
        # Without the failure to compare with, the patched run would show nothing.
        return Certificate(
            (fails, *judge.unproved("the original's failure is not there to compare with")),
            before,
            RunRecord(Outcome.NOT_STARTED),
        )
    failure = before.failure
    assert failure is not None
    after = run(patched, limits, Bounds(failure.steps, failure.passes + failure.in_pass))
    same = judge.same_until_failure(before, after)
    if same.verdict is not Verdict.PASSED and not repeats(before, run_original(original, limits)):
        same = judge.not_deterministic(same)
    points = (
        fails,
        judge.clean_after(before, after),
        same,
        judge.still_trains(before, after),
        judge.memory_flat(before, after),
    )
    return Certificate(points, before, after)


def repeats(first: RunRecord, second: RunRecord) -> bool:
    """Whether two runs of one script did the same: if not, comparing it with a patched one shows nothing."""
    return first.losses == second.losses and [u.state for u in first.updates] == [u.state for u in second.updates]
