"""Passes to which a program's own way is lost: warm-ups, helpers elsewhere, networks of packages, models alone."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from autofix.codemods.facts import Certainty, Overwritten
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.source.program import Program

HELPER = """
def improve(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

AGENT = """
import torch
from torch import nn
from somewhere.builder import dense
from helper import improve

class Judge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = {judge}
        self.width = width

    def forward(self, x):
        return self.body(x)

class Agent:
    def __init__(self, width):
        self.actor, self.judge = nn.Linear(width, width), Judge(width)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters())
        self.seen = 0

    def observe(self, batch):
        self.seen = min(self.seen + 1, 1000)
        if self.seen > 500:
            self.learn(batch)

    def learn(self, batch):
        {early}
        improve(self.judge_optimizer, self.judge(torch.cat([batch, batch])).pow(2).mean())
        {late}
        improve(self.actor_optimizer, actor_loss)
"""

LOSS = "actor_loss = -self.judge(self.actor(torch.cat([batch, batch]))).mean()"


def see(program: str, others: Mapping[str, str] | None = None) -> AnalysisResult:
    return analyze(Program.of(textwrap.dedent(program), "program.py", others))


def agent(*, judge: str = "dense(width, 1)", early: str = "pass", late: str = "pass") -> AnalysisResult:
    return see(AGENT.format(judge=judge, early=early, late=late), {"helper.py": HELPER})


def test_a_method_that_leads_to_a_pass_in_another_file_is_entered() -> None:
    (fact,) = agent(judge="nn.Sequential(nn.Linear(width, 8), nn.Linear(8, 1))", early=LOSS).facts[:1]
    assert isinstance(fact, Overwritten) and fact.by_step
    assert fact.certainty is Certainty.CERTAIN
    assert "actor_loss = " in _line(fact, LOSS)


def _line(fact: Overwritten, early: str) -> str:
    text = AGENT.format(judge="nn.Sequential(nn.Linear(width, 8), nn.Linear(8, 1))", early=early, late="pass")
    return text.split("\n")[fact.cause.line - 1]


def test_a_network_of_a_package_saves_its_parameters_and_what_is_found_is_likely() -> None:
    facts = agent(early=LOSS).facts
    assert facts
    assert all(isinstance(fact, Overwritten) and fact.certainty is Certainty.LIKELY for fact in facts)


def test_a_network_of_a_package_is_right_where_the_loss_is_computed_after_the_step() -> None:
    assert agent(late=LOSS).facts == ()


WAITING = """
import torch
from torch import nn

class Memory:
    def __init__(self):
        self.rows, self.size = torch.zeros(100, 3), 0

    def add(self, row):
        self.rows[self.size % 100] = row
        self.size = min(self.size + 1, 100)

class Learner:
    def __init__(self):
        self.memory = Memory()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 1)
        self.one = torch.optim.SGD(self.first.parameters(), lr=0.1)
        self.two = torch.optim.SGD(self.second.parameters(), lr=0.1)

    def train(self):
        rounds = 0 if self.memory.size <= 90 else 2
        for _ in range(rounds):
            loss = self.second(self.first(self.memory.rows)).mean()
            other = self.second(self.memory.rows).pow(2).mean()
            self.two.zero_grad()
            other.backward()
            {before}self.two.step()
            self.one.zero_grad()
            loss.backward()
            self.one.step()
            {after}
"""

MAIN = """
if __name__ == "__main__":
    learner = Learner()
    for step in range(300):
        learner.memory.add(torch.randn(3))
        learner.train()
"""


@pytest.mark.parametrize("main", ["", MAIN], ids=["entered by its method", "followed from the script"])
def test_what_waits_for_a_memory_to_fill_is_reached(main: str) -> None:
    (fact,) = see(WAITING.format(before="", after="pass") + main).facts
    assert isinstance(fact, Overwritten) and fact.by_step


@pytest.mark.parametrize("main", ["", MAIN], ids=["entered by its method", "followed from the script"])
def test_what_waits_is_right_where_the_step_comes_last(main: str) -> None:
    seen = see(WAITING.format(before="pass  # ", after="self.two.step()") + main)
    assert seen.facts == ()
    assert seen.passes


MODEL = """
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        {body}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.part = nn.Conv2d(3, 4, 1), Gate()

    def forward(self, x):
        return self.part(self.head(x))
"""

OVERWRITES = {
    "the input that a convolution saved": ["y = self.body(x)", "x[:, :, 0] = 0", "return y * self.gate(x)"],
    "what a sigmoid saved": ["y = torch.sigmoid(self.gate(x))", "y *= 2", "return self.body(x) * y"],
    "by a method": ["y = self.body(x)", "x.mul_(0.5)", "return y + self.gate(x)"],
}

LEAVES_ALONE = {
    "a copy": ["y = self.body(x)", "x = x.clone()", "x[:, :, 0] = 0", "return y * self.gate(x)"],
    "what a convolution made": ["y = self.body(x)", "y += x", "return y"],
    "before it is saved": ["x[:, :, 0] = 0", "return self.body(x)"],
    "only in evaluation": ["y = torch.sigmoid(self.gate(x))", "if not self.training:", "    y *= 2", "return y"],
    "under no_grad": [
        "with torch.no_grad():",
        "    y = torch.sigmoid(self.gate(x))",
        "    y *= 2",
        "return self.body(x) * y",
    ],
    "a mask, before it is saved": ["m = x > 0", "m[:, :, 0] = False", "return torch.where(m, self.body(x), 0.0)"],
}


@pytest.mark.parametrize("body", OVERWRITES.values(), ids=OVERWRITES)
def test_a_model_that_nobody_is_seen_to_train_overwrites_what_its_layers_saved(body: list[str]) -> None:
    (fact,) = see(MODEL.format(body="\n        ".join(body))).facts
    assert isinstance(fact, Overwritten) and not fact.by_step


@pytest.mark.parametrize("body", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_a_model_that_nobody_is_seen_to_train_may_write_elsewhere(body: list[str]) -> None:
    assert see(MODEL.format(body="\n        ".join(body))).facts == ()
