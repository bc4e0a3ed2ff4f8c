"""Paths that begin in functions start from a copy of the state after the module's own code, with equal results."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter import checkpoint
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.interpreter.interpreter import ProgramInterpreter
from autofix.codemods.interpreter.policy import BranchPolicy, Path
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Sources

PACKAGE = """\
import torch
from torch import nn
from elsewhere import config, tools

SIZES = [4, 4, 1]
TABLE = {name: nn.Linear(4, 4) for name in ("one", "two")}
seen = []
if tools.fast:
    SIZES.append(1)

def registered(function):
    seen.append(function)
    return function

class Net(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        self.state = None

    def forward(self, x):
        self.state = x if self.state is None else self.state + x
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        return x + self.state

class Trainer:
    def __init__(self, batches):
        self.net, self.batches = Net(), batches
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self):
        for batch in self.batches:
            loss = self.net(batch).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def carry(self):
        total = torch.zeros(())
        for batch in self.batches:
            total = total + self.net(batch).mean()
            total.backward()
            self.optimizer.step()

@registered
def overwrite(batch):
    out = torch.sigmoid(TABLE["one"](batch))
    out *= 2
    seen.append(out)
    if config.flag(batch):
        out.sum().backward()

@registered
def again(batch, flag=False):
    SIZES.append(2)
    loss = TABLE["two"](batch).sum()
    for _ in range(len(SIZES)):
        if flag or tools.ready():
            loss.backward()
"""
FILLER = "".join(f"class Extra{number}:\n    size = [number for number in range(4)]\n\n" for number in range(120))
GENERATED = "numbers = (number for number in config.all())\nnext(numbers)\n"


def shown(text: str) -> AnalysisResult:
    return analyze(Program.of(text, "package.py"))


def copies(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[AnalysisResult, int]:
    """Return the result of the analysis, and the number of paths that began with a copy."""
    begun: list[bool] = []
    begin = checkpoint.Prelude.begin

    def noted(self: checkpoint.Prelude, policy: object) -> object:
        found = begin(self, policy)  # type: ignore[arg-type]
        begun.append(found is not None)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint.Prelude, "begin", noted)
        seen = shown(text)
    return seen, sum(begun)


def alone(text: str, monkeypatch: pytest.MonkeyPatch) -> AnalysisResult:
    """Return the result of the analysis where every path imports the module itself."""
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint.Prelude, "begin", lambda self, policy: None)
        return shown(text)


def test_paths_that_begin_with_a_copy_show_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILLER + PACKAGE
    seen, begun = copies(text, monkeypatch)
    expected = alone(text, monkeypatch)
    assert begun > 3
    assert any(isinstance(fact, StaleGraph) for fact in seen.facts)
    assert any(isinstance(fact, Overwritten) for fact in seen.facts)
    assert seen.facts == expected.facts
    assert (seen.edges, seen.trained, seen.ways) == (expected.edges, expected.trained, expected.ways)
    assert (seen.passes, seen.rootless, seen.crashes) == (expected.passes, expected.rootless, expected.crashes)


def test_what_one_path_changes_no_other_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each path appends to a list of the module, whose length decides how often a pass is run."""
    head, _, tail = (FILLER + PACKAGE).partition("@registered\ndef again")
    more = "".join(f"@registered\ndef again{number}{tail}\n" for number in range(3))
    seen, begun = copies(head + more, monkeypatch)
    assert begun > 3
    assert seen.facts == alone(head + more, monkeypatch).facts


def test_little_code_is_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copies(PACKAGE, monkeypatch)[1] == 0


def test_what_cannot_be_copied_is_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{FILLER}from elsewhere import config\n{GENERATED}{PACKAGE}"
    seen, begun = copies(text, monkeypatch)
    assert begun == 0
    assert seen.facts == alone(text, monkeypatch).facts


def test_an_identity_is_kept_by_a_copy() -> None:
    interp = ProgramInterpreter(Sources(Program.of("import torch\n", "package.py")), BranchPolicy(Path()))
    thing = interp.fresh_symbol("thing")
    number = interp.identity(thing)
    assert interp.identity(thing) == number and interp.identified(number) is thing
    assert interp.identified(3) is None and interp.identified(True) is None
    other = interp.fresh_symbol("other")
    assert interp.identity(other) != number
    interp.identify_again()
    assert interp.identity(other) == number + 1


BUFFERS = """
import torch
from torch import nn

class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, batch):
        for _, buffer in self.named_buffers():
            batch = batch - buffer
        out = self.body(batch)
        self.mean = 0.9 * self.mean + 0.1 * out.mean(0)
        return out

net = Centred()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
FITTED = """
def fit{number}(batches):
    for batch in batches:
        loss = net(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_the_buffers_of_a_network_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILLER + BUFFERS + "".join(FITTED.format(number=number) for number in range(3))
    seen, begun = copies(text, monkeypatch)
    assert begun >= 2
    assert {type(fact) for fact in seen.facts} == {StaleGraph}
    assert seen.facts == alone(text, monkeypatch).facts
