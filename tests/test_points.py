"""The pure parts of the judgement, on records and numbers made up for the purpose."""

from __future__ import annotations

import pytest

from autofix.child.recorded import End, Event, Live, OptimizerMade, Pass, RunError, Step, written
from autofix.execution.record import Outcome, RunRecord, parse
from autofix.proof.points.base import Verdict
from autofix.proof.points.failure import fails_before
from autofix.proof.points.gradient import Kind, Meant, Values, classify
from autofix.proof.points.held import steady_growth
from autofix.proof.points.memory import growth, growth_in_stages, memory_flat
from autofix.proof.prove import Certificate


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


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ([5] * 4 + [7] * 4 + [9] * 4 + [11], 0.5),
        ([5] * 4 + [7] * 4 + [9] * 4, 0.0),  # too few to tell
        ([5] * 4 + [7] * 4 + [8] * 4 + [9], 0.0),
        ([9] * 4 + [7] * 4 + [5] * 4 + [3], 0.0),
        ([], 0.0),
    ],
)
def test_growth_in_stages_is_by_as_much_each_time(values: list[int], rate: float) -> None:
    assert growth_in_stages(values) == rate


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ([5, 6, 7, 8, 9], 1.0),
        ([5, 6, 7, 8, 2, 3, 4, 5], 1.0),  # let go after every epoch
        ([9, 3, 8, 2, 3, 4, 5, 1, 7, 2, 9, 4], 0.0),  # episodes of many lengths
    ],
)
def test_growth_in_most_of_the_run_is_held(values: list[int], rate: float) -> None:
    assert steady_growth(values) == rate


def meant(whole: Values, sound: Values, *ways: Values, present: Values | None = None) -> Meant:
    """A gradient in the reference: the faulty part belongs to the past, unless *present* is given."""
    if present is None:
        return Meant(whole, sound, sound, ways or None, ways or None)
    return Meant(whole, sound, present, ways, ())


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
def test_kind_of_a_gradient(seen: Values, fewer: bool, redrawn: bool, kind: Kind) -> None:
    assert classify(meant(WHOLE, SOUND), seen, redrawn=redrawn, fewer=fewer)[0] is kind


def test_truncation_keeps_or_drops_whole_ways_into_the_past() -> None:
    reference = meant((3.0, 4.0), (1.0, 0.0), (2.0, 0.0), (0.0, 4.0))

    def kind(*seen: float) -> Kind:
        return classify(reference, seen, redrawn=False, fewer=True)[0]

    assert [kind(3, 4), kind(1, 0), kind(3, 0), kind(1, 4)] == [Kind.EXACT] + 3 * [Kind.TRUNCATED]
    assert [kind(2, 4), kind(0.5, 0), kind(3, 2)] == 3 * [Kind.CHANGED]


def test_what_comes_through_the_same_iteration_may_be_renewed_and_not_dropped() -> None:
    reference = meant((3.0, 4.0), (1.0, 0.0), (2.0, 0.0), (0.0, 4.0), present=(3.0, 4.0))

    def kind(*seen: float, fewer: bool = True) -> Kind:
        return classify(reference, seen, redrawn=False, fewer=fewer)[0]

    assert [kind(1, 0), kind(3, 0), kind(1, 4)] == 3 * [Kind.DROPPED]
    assert kind(2.5, 4.1, fewer=False) is Kind.RECOMPUTED


def test_gradient_that_nothing_faulty_concerns_must_be_exact() -> None:
    assert classify(meant(WHOLE, WHOLE), (3.0, 4.1), redrawn=False, fewer=True)[0] is Kind.CHANGED


def test_gradient_that_is_all_of_the_past_may_be_dropped_at_one_step() -> None:
    assert classify(meant(WHOLE, (0.0, 0.0)), (0.0, 0.0), redrawn=False, fewer=True)[0] is Kind.TRUNCATED


def test_torn_last_line_is_dropped() -> None:
    whole = written(OptimizerMade(0, "Adam"), 0.1)
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


def trained(steps: int, outcome: Outcome) -> RunRecord:
    """A run of one optimizer that holds nothing."""
    events: list[Event] = [OptimizerMade(0, "SGD")]
    for number in range(1, steps + 1):
        events.append(
            Pass(number=number, step=number - 1, losses=(1.0,), line=3, file="a.py", walked=2, live=Live(1, 0, 8))
        )
        events.append(Step(number=number, passes=number, live=Live(1, 0, 8)))
    events.append(End(outcome.value))
    return parse(written(event, 0.1) for event in events)


@pytest.mark.parametrize(
    ("steps", "outcome", "verdict", "optional"),
    [
        (9, Outcome.STOPPED, Verdict.PASSED, False),
        (3, Outcome.FINISHED, Verdict.NOT_PROVED, True),  # the script itself is that short
        (3, Outcome.STOPPED, Verdict.NOT_PROVED, False),  # it would run on
    ],
)
def test_memory_of_a_few_steps_is_not_called_flat(
    steps: int, outcome: Outcome, verdict: Verdict, optional: bool
) -> None:
    before = RunRecord(Outcome.RAISED, RunError("RuntimeError", "a second time"))
    judged = memory_flat(before, before, trained(steps, outcome))
    assert (judged.verdict, judged.optional) == (verdict, optional), judged
    certificate = Certificate((judged,), before, before)
    assert certificate.proved == (verdict is Verdict.PASSED or optional)
