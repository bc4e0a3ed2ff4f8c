"""Rows of a log keep graphs in any of its lists; a function that reads them counts if somebody can call it."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
LEDGER = """
class Ledger:
    def __init__(self, phases):
        self.rows = {phase: [] for phase in phases}
    def note(self, phase, **entry):
        self.rows[phase].append(entry)
    def column(self, phase, key):
        return [row[key] for row in self.rows[phase]]
"""
LOOP = """
ledger = Ledger(["warmup", "full"])
for i in range(100):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ledger.note("full" if i > 50 else "warmup", loss=loss, rate=0.1)
print(len(ledger.rows["full"]))
"""


def held(text: str) -> list[int]:
    """The lines at which a script keeps graphs for nothing."""
    mended = mend(Program.of(text, "train.py"), all_codemods())
    return [fact.cause.line for fact in mended.observation.facts if isinstance(fact, GraphHeld)]


def test_rows_that_go_to_one_of_several_lists_are_found() -> None:
    text = HEADER + LEDGER + LOOP
    assert held(text) == [
        text.split("\n").index('    ledger.note("full" if i > 50 else "warmup", loss=loss, rate=0.1)') + 1
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "print(len",
            "if __name__ == 'elsewhere':\n    print(ledger.column('full', 'loss'))\nprint(len",
            id="it is called on a way that was not followed",
        ),
        pytest.param("print(len", "wanted = 'column row'\nprint(len", id="it may be asked for by its name"),
        pytest.param("class Ledger:", "class Ledger(torch.nn.Module):", id="a library may call it"),
    ],
)
def test_a_reader_that_somebody_can_call_may_use_the_graphs(old: str, new: str) -> None:
    assert held((HEADER + LEDGER + LOOP).replace(old, new)) == []


def test_numbers_are_no_graphs() -> None:
    assert held(HEADER + LEDGER + LOOP.replace("loss=loss", "loss=loss.item()")) == []


def test_a_number_that_goes_to_the_same_rows_is_not_detached() -> None:
    text = (
        HEADER
        + """
class Log:
    def __init__(self):
        self.points = []
    def record(self, value, weight=1):
        self.points.append((value, weight))
log = Log()
for i in range(100):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    log.record(loss)
    log.record(float(norm))
    log.record((net(torch.randn(4, 3)) > 0).float().mean() + loss)
print(len(log.points))
"""
    )
    mended = mend(Program.of(text, "train.py"), all_codemods())
    assert held(text)
    assert "(value.detach(), weight)" not in mended.patched.files[0].text


RECORD = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Linear(3, 1)
    def forward(self, x):
        return self.body(self.head(x))

def train(body, data):
    net = Net(body)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    kept = []
    for x in data:
        out = net(x)
        kept.append(out)
        LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return len(kept)
"""


def appended(loss: str) -> str:
    """The argument that the patch gives to ``append``, where the loss is taken from the model's result so."""
    program = Program.of(RECORD.replace("LOSS", loss), "train.py")
    patched = mend(program, all_codemods()).patched.files[0].text
    return patched.partition("kept.append(")[2].partition(")\n")[0]


@pytest.mark.parametrize(
    "loss",
    ["loss = out['loss']", "loss = out.loss", "loss = out.get('loss')", "loss = sum(one for _, one in out.items())"],
)
def test_a_record_of_tensors_has_no_detach(loss: str) -> None:
    assert appended(loss) == "out"


@pytest.mark.parametrize("loss", ["loss = out[0]", "loss, scores = out"])
def test_a_result_that_is_taken_apart_may_be_several(loss: str) -> None:
    assert appended(loss) == "out.detach() if isinstance(out, torch.Tensor) else tuple(item.detach() for item in out)"


@pytest.mark.parametrize("loss", ["loss = out.mean()", "loss = out[:, 0].sum()", "loss = (out - x).pow(2).mean()"])
def test_a_result_that_is_computed_with_is_a_tensor(loss: str) -> None:
    assert appended(loss) == "out.detach()"
