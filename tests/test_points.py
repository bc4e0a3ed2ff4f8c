"""The pure parts of the judgement, on records and numbers made up for the purpose."""

from __future__ import annotations

import json

import pytest

from autofix.points.base import Verdict
from autofix.points.failure import fails_before
from autofix.points.gradient import Kind, classify
from autofix.points.memory import growth
from autofix.record import Outcome, RunError, RunRecord, parse


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ([5, 5, 5, 5, 5], 0.0),
        ([5, 6, 7, 8], 1.0),
        ([5, 5, 9, 9, 13, 13, 17], 2.0),
        ([5, 6, 7, 1, 2, 3], 0.0),  # let go at the end of an epoch
        ([5, 6, 7], 0.0),  # too few to tell
        ([5, 5, 5, 5, 5, 9], 0.0),  # once is not from step to step
        ([], 0.0),
    ],
)
def test_growth_is_steady_growth(values: list[int], rate: float) -> None:
    assert growth(values) == rate


WHOLE, SOUND = (3.0, 4.0), (3.0, 0.0)


@pytest.mark.parametrize(
    ("seen", "fewer", "redrawn", "kind"),
    [
        ((3.0, 4.0), False, False, Kind.EXACT),
        ((3.00001, 4.0), False, False, Kind.EXACT),
        ((3.0, 0.0), True, False, Kind.TRUNCATED),
        ((3.0, 0.0), False, False, Kind.TRUNCATED),
        ((3.0, 2.0), True, False, Kind.TRUNCATED),
        ((3.0, 5.0), False, False, Kind.RECOMPUTED),
        ((3.0, 40.0), False, False, Kind.CHANGED),
        ((2.0, 3.0), False, True, Kind.RECOMPUTED),
        ((), False, False, Kind.LOST),
        ((0.0, 0.0), True, False, Kind.LOST),
        ((3.0, 4.0, 0.0), False, False, Kind.CHANGED),
    ],
)
def test_kind_of_a_gradient(seen: tuple[float, ...], fewer: bool, redrawn: bool, kind: Kind) -> None:
    assert classify(WHOLE, SOUND, seen, redrawn=redrawn, fewer=fewer)[0] is kind


def test_truncation_keeps_or_drops_whole_ways_into_the_past() -> None:
    whole, sound, ways = (3.0, 4.0), (1.0, 0.0), [(2.0, 0.0), (0.0, 4.0)]

    def kind(seen: tuple[float, ...]) -> Kind:
        return classify(whole, sound, seen, ways, redrawn=False, fewer=True)[0]

    assert [kind(seen) for seen in ((3.0, 4.0), (1.0, 0.0), (3.0, 0.0), (1.0, 4.0))] == [Kind.EXACT] + 3 * [
        Kind.TRUNCATED
    ]
    assert [kind(seen) for seen in ((2.0, 4.0), (0.5, 0.0), (3.0, 2.0))] == 3 * [Kind.CHANGED]


def test_gradient_that_nothing_faulty_concerns_must_be_exact() -> None:
    assert classify(WHOLE, WHOLE, (3.0, 4.1), redrawn=False, fewer=True)[0] is Kind.CHANGED


def test_gradient_that_is_all_faulty_may_be_dropped_at_one_step() -> None:
    assert classify(WHOLE, (0.0, 0.0), (0.0, 0.0), redrawn=False, fewer=True)[0] is Kind.TRUNCATED


def test_torn_last_line_is_dropped() -> None:
    whole = json.dumps({"event": "optimizer", "number": 0, "type": "Adam"})
    record = parse([whole, '{"event": "end", "outc'], timed_out=True)
    assert record.optimizers == ("Adam",)
    assert record.outcome is Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("error", "verdict", "words"),
    [
        (RunError("RuntimeError", "Found no NVIDIA driver on your system"), Verdict.NOT_PROVED, "there is no GPU"),
        (RunError("FileNotFoundError", "data.csv"), Verdict.NOT_PROVED, "a file is missing"),
        (RunError("RuntimeError", "modified by an inplace operation", 7), Verdict.PASSED, "line 7"),
        (RunError("ValueError", "something else", 3), Verdict.FAILED, "another error"),
    ],
)
def test_only_the_error_to_be_repaired_is_a_failure_to_prove(error: RunError, verdict: Verdict, words: str) -> None:
    point = fails_before(RunRecord(Outcome.RAISED, error), "inplace operation")
    assert point.verdict is verdict
    assert words in point.detail
