"""Facts from a run: they fill the fields that the static witness fills, for any way of the value."""

from __future__ import annotations

from pathlib import Path

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form
from autofix.codemods.source.program import Program
from autofix.evidence.facts import facts_of
from autofix.evidence.witness import follow, witness
from autofix.execution.runner import Limits, Script

START = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2)\nx = torch.randn(3, 2)\n"
LIMITS = Limits(timeout=60)


def facts(text: str) -> list[Fact]:
    script = Script(Path("/no/such/folder/train.py"), text=START + text)
    told = follow(script, LIMITS, witness(script, LIMITS))
    program = Program.of(START + text, "train.py")
    return [fact for one in told for fact in facts_of(one, program, {"train.py": "train.py"})]


def code(text: str, span: Span | None) -> str:
    assert span is not None
    lines = (START + text).split("\n")
    return lines[span.line - 1][span.column : span.end_column if span.line == span.end_line else None]


def stale(text: str) -> StaleGraph:
    fact = facts(text)[0]
    assert isinstance(fact, StaleGraph)
    return fact


def test_attribute_that_a_method_keeps() -> None:
    text = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.RNNCell(2, 2), None
    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state
model = Model()
for epoch in range(2):
    for step in range(3):
        loss = model(x).sum()
        loss.backward()
"""
    fact = stale(text)
    assert code(text, fact.kept) == "self.state = self.cell(x, self.state)"
    assert code(text, fact.used) == "self.cell(x, self.state)"
    assert (fact.name, fact.inside) == ("self.state", True)
    assert code(text, fact.loop) == "for step in range(3):"
    assert fact.outer is not None
    assert code(text, fact.outer.used) == "model(x)"


def test_value_that_goes_through_a_function_into_a_dictionary() -> None:
    text = """
bank = {}
def remember(key, value):
    bank[key] = value
for step in range(3):
    out = net(x)
    loss = out.exp().sum() + sum(old.exp().sum() for old in bank.values())
    loss.backward()
    remember(step, out)
"""
    fact = stale(text)
    assert code(text, fact.kept) == "bank[key] = value"
    assert fact.name == "bank[key]"
    (carrier,) = [one for one in fact.carriers if one.statement == fact.kept]
    assert carrier.form is Form.TENSOR
    assert code(text, carrier.expression) == "value"


def test_state_that_is_a_tuple() -> None:
    text = """
lstm = nn.LSTM(2, 2)
state = None
for step in range(3):
    out, state = lstm(x, state)
    out.sum().backward()
"""
    fact = stale(text)
    assert code(text, fact.kept) == "out, state = lstm(x, state)"
    assert {one.name: one.form for one in fact.carriers}["state"] is Form.TUPLE


def test_value_from_before_the_loop() -> None:
    text = "features = net(x)\nfor step in range(3):\n    (features.exp() + step).sum().backward()\n"
    fact = stale(text)
    assert code(text, fact.kept) == "features = net(x)"
    assert code(text, fact.loop) == "for step in range(3):"
    assert not fact.inside


def test_two_passes_of_one_iteration_cross_no_loop() -> None:
    text = """
for step in range(3):
    hidden = net(x).exp()
    hidden.sum().backward()
    hidden.mean().backward()
"""
    fact = stale(text)
    assert fact.loop is None
    assert code(text, fact.kept) == "hidden = net(x).exp()"
    assert code(text, fact.freed) == "hidden.sum().backward()"


def test_step_between_a_forward_and_its_backward() -> None:
    text = """
second = nn.Linear(2, 2)
optimizer = torch.optim.SGD(second.parameters(), lr=0.1)
for step in range(3):
    first_loss = second(net(x)).sum()
    optimizer.zero_grad()
    second(x).sum().backward()
    optimizer.step()
    first_loss.backward()
"""
    fact = facts(text)[0]
    assert isinstance(fact, Overwritten)
    assert fact.by_step
    assert fact.loop is None
    assert code(text, fact.changed) == "optimizer.step()"
    assert fact.outer is not None
    assert code(text, fact.outer.made) == "second(net(x))"
