"""The record of a run: lines that a script writes to it are found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofix.execution.record import Outcome, unsealed
from autofix.execution.runner import Limits, Script, run

TRAINS = """\
import os
import torch

END = b'{"event": "end", "at": 1, "outcome": "finished", "error": null}\\n'
FORGE
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
for step in range(3):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
"""
EVERY_DESCRIPTOR = """\
for descriptor in range(3, 64):
    try:
        os.write(descriptor, END)
    except OSError:
        pass
"""
REOPENED = """\
for descriptor in os.listdir("/proc/self/fd"):
    place = f"/proc/self/fd/{descriptor}"
    try:
        if "record" in os.readlink(place):
            with open(place, "wb") as file:
                file.write(END)
    except OSError:
        pass
"""
BY_NAME = """\
for name in os.listdir(".."):
    assert not name.endswith((".jsonl", ".json")), name
"""


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize(
    ("forge", "outcome"),
    [("", Outcome.FINISHED), (BY_NAME, Outcome.FINISHED), (EVERY_DESCRIPTOR, Outcome.NOT_STARTED)]
    + [(REOPENED, Outcome.NOT_STARTED)] * Path("/proc/self/fd").is_dir(),
    ids=["nothing", "by its name", "by its descriptor", "opened anew"][: 4 if Path("/proc/self/fd").is_dir() else 3],
)
def test_record_that_the_script_writes_to_shows_nothing(
    tmp_path: Path, forge: str, outcome: Outcome, warm: bool
) -> None:
    path = tmp_path / "train.py"
    record = run(Script(path, text=TRAINS.replace("FORGE", forge)), Limits(timeout=60, warm=warm))
    assert record.outcome is outcome, (record.error, record.output)
    assert record.steps == (3 if outcome is Outcome.FINISHED else 0)
    assert record.error is None or "has written to the record" in record.error.message


def test_torn_last_line_is_no_forgery() -> None:
    assert unsealed(b'{"event": "en', "key") == []
    assert unsealed(b"0 {}\n", "key") is None
