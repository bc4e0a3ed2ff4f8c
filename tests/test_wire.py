"""Data that the two sides of a run send to each other arrives unchanged."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from autofix.child.job import Bounds, Job, Request
from autofix.child.recorded import End, Live, Pass, RunError, Step, read, written
from autofix.child.wire import decode, encode

JOB = Job(
    "train.py",
    "/copy",
    "/record",
    bounds=Bounds(failed_steps=3, healthy=2.5, follow=((1, 2, "MulBackward0"), (3, 4, "")), trace=True),
    args=("--lr", "0.1"),
    writable=("/scratch",),
    memory=10,
)


def test_a_job_comes_over_as_it_was() -> None:
    request = Request(JOB, "/copy", "/scratch", {"HOME": "/root"})
    assert decode(Request, encode(request)) == request


def test_what_is_as_it_is_by_default_is_left_out() -> None:
    sent = json.loads(encode(JOB))
    assert sent.keys() < {field.name for field in fields(Job)}
    assert sent["bounds"] == {
        "failed_steps": 3,
        "healthy": 2.5,
        "follow": [[1, 2, "MulBackward0"], [3, 4, ""]],
        "trace": True,
    }


def test_the_steps_of_a_job_are_those_of_its_bounds_where_they_say() -> None:
    assert Job("a", "b", "c", steps=7).more_steps == 7
    assert Job("a", "b", "c", bounds=Bounds(more_steps=0), steps=7).more_steps == 0


@pytest.mark.parametrize("text", ['{"target": "a", "tarqet": "b"}', '{"target": "a"', '{"bounds": {"frozn": true}}'])
def test_what_is_no_job_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown keys|Expecting|delimiter"):
        decode(Job, text)


@pytest.mark.parametrize(
    "event",
    [
        Pass(number=3, over={4: 1}, types=frozenset({"MulBackward0", "AddBackward0"}), sketches={}, live=Live(1, 0, 8)),
        Step(number=1, settings=({"lr": 0.1},), sketches={0: (1.5, -2.0)}, ways={0: ((1.0,), (2.0,))}, clips=(1.0,)),
        End("raised", RunError("RuntimeError", "twice", 7, "a.py", (("a.py", 7, "<module>"),)), steps=3),
    ],
    ids=["pass", "step", "end"],
)
def test_an_event_comes_over_as_it_was(event: Pass | Step | End) -> None:
    assert read(written(event, 1.25)) == event


def test_gradients_that_are_not_compared_are_told_from_none_that_are_there() -> None:
    assert read(written(Pass(number=1), 0.0)) != read(written(Pass(number=1, sketches={}), 0.0))
