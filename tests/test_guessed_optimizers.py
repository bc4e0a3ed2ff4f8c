"""Optimizers made by calls that were not read: what they were given says what they are, and findings are likely."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

TRAINER = """\
import torch
from torch import nn
from elsewhere import Lion, anything, build, clip, get_optimizer, stepped

class Trainer:
    def __init__(self, config, make, groups):
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.side = nn.Linear(3, 2)
        self.all = MAKE(self.net)
        self.few = MAKE(self.side)

    def train(self, loader):
        for rows, labels, sides in loader:
            out = self.net(rows)
            loss = nn.functional.cross_entropy(out, labels)
            side = nn.functional.cross_entropy(self.side(out), sides)
            self.few.zero_grad()
            side.backward(retain_graph=True)
            EARLY
            self.all.zero_grad()
            (loss - 0.1 * side).backward()
            self.all.step()
            LATE
"""
MAKES = {
    "entry-of-a-configuration": "config['optimizer'](params={0}.parameters(), lr=config['lr'])",
    "method-of-a-configuration": "config.build({0}.parameters(), lr=0.1)",
    "argument": "make({0}.parameters(), lr=0.1)",
    "class-of-a-library": "Lion({0}.parameters(), lr=1e-4)",
    "function-that-says-so": "get_optimizer({0}.parameters(), config)",
    "some-parameters": "make([one for one in {0}.parameters() if one.requires_grad], learning_rate=0.1)",
    "group": "make([{{'params': {0}.parameters()}}], lr=0.1)",
}
OTHERS = {
    "no-rate": "make({0}.parameters(), 0.1)",
    "no-parameters": "make({0}, lr=0.1)",
    "known-to-be-none": "torch.nn.utils.parameters_to_vector({0}.parameters())",
}


def found(make: str, early: str, late: str) -> tuple[Fact, ...]:
    text = TRAINER.replace("EARLY", early).replace("LATE", late)
    for network in ("self.net", "self.side"):
        text = text.replace(f"MAKE({network})", make.format(network))
    return analyze(Program.of(text, "trainer.py")).facts


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_the_step_of_a_guessed_optimizer_is_likely_to_modify_parameters(make: str) -> None:
    (fact,) = found(make, "self.few.step()", "pass")
    assert isinstance(fact, Overwritten)
    assert fact.by_step
    assert fact.certainty is Certainty.LIKELY


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_a_guessed_optimizer_may_step_behind_the_passes(make: str) -> None:
    assert found(make, "pass", "self.few.step()") == ()


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_what_is_given_no_parameters_or_rate_is_no_optimizer(make: str) -> None:
    assert found(make, "self.few.step()", "pass") == ()


def test_what_takes_no_steps_is_no_optimizer() -> None:
    text = """\
import torch
from torch import nn
from elsewhere import adapted
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(4, 5, 3):
    opt.zero_grad()
    fast = adapted(net.parameters(), lr=0.1)
    loss = nn.functional.linear(x, *fast).pow(2).mean()
    loss.backward()
    opt.step()
"""
    assert analyze(Program.of(text, "train.py")).facts == ()


SCALED = """\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), 0.1)
scaler = {}
for x in torch.randn(3, 5, 3):
    with torch.autocast("cuda"):
        y = net(x)
    scaler.scale(y.mean()).backward(retain_graph=True)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    scaler.scale(y.pow(2).mean()).backward()
    scaler.step(opt)
    scaler.update()
"""


@pytest.mark.parametrize(
    "made", ["torch.cuda.amp.GradScaler()", "torch.amp.GradScaler('cuda')", "torch.amp.grad_scaler.GradScaler('cpu')"]
)
def test_a_scaler_steps_the_optimizer_that_it_is_given(made: str) -> None:
    found = analyze(Program.of(SCALED.format(made), "train.py")).facts
    assert any(isinstance(fact, Overwritten) and fact.by_step for fact in found)
