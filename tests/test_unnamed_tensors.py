"""Tensors without a name that are modified in place, and their names in messages."""

from __future__ import annotations

import pytest
import torch

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
import torch.nn.functional as F
from torch import nn
w = torch.randn(3, 3, requires_grad=True)
body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
def gate(t):
    return torch.sigmoid(t)
class Block:
    def scores(self, t):
        return [torch.tanh(t)]
block = Block()
state = {}
"""


def mended(lines: str) -> tuple[str, int]:
    """The lines after the header once mended, and how many mistakes are left."""
    done = mend(Program.of(HEADER + lines, "train.py"), all_codemods())
    return done.patched.files[0].text.removeprefix(HEADER), len(done.left)


@pytest.mark.parametrize(
    ("broken", "right"),
    [
        ("body(w).unsqueeze_(1)", "body(w).unsqueeze(1)"),
        ("body(w).add_(1)", "body(w).add(1)"),
        ("(w * 2).relu().mul_(2).add_(1)", "(w * 2).relu().mul(2).add(1)"),
        ("gate(w).mul_(2).view(-1)", "gate(w).mul(2).view(-1)"),
        ("F.relu_(torch.exp(w))", "F.relu(torch.exp(w))"),
        ("torch.exp_(gate(w))", "torch.exp(gate(w))"),
        ("{'k': gate(w).clamp_(0, 1)}['k']", "{'k': gate(w).clamp(0, 1)}['k']"),
        ("[body(w).sigmoid_() for _ in range(2)][-1]", "[body(w).sigmoid() for _ in range(2)][-1]"),
    ],
)
def test_the_operation_returns_a_new_tensor(broken: str, right: str) -> None:
    after = "y = {}\nloss = y.sum()\nloss.backward()\n"
    assert mended(after.format(broken)) == (after.format(right), 0)


@pytest.mark.parametrize(
    ("broken", "right"),
    [
        ("x.sub_(1).norm(dim=-1).div_(2).asin_()", "x.sub_(1).norm(dim=-1).div(2).asin()"),
        ("x.add_(1).exp().view(-1).mul_(2)", "x.add_(1).exp().view(-1).mul(2)"),
        ("x.sub_(1).abs_().sum(1).sqrt().mul_(2).add_(1)", "x.sub_(1).abs_().sum(1).sqrt().mul(2).add(1)"),
    ],
)
def test_what_a_chain_computes_on_the_way_is_changed_and_not_its_name(broken: str, right: str) -> None:
    program = "x = w + 1\ny = {}\n(y.sum() + x.sum()).backward()\n"
    assert mended(program.format(broken)) == (program.format(right), 0)
    given = {"w": torch.rand(3, 3, requires_grad=True)}
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(program.format(broken), dict(given))
    exec(program.format(right), dict(given))


@pytest.mark.parametrize(
    ("made", "broken", "right"),
    [
        ("x, h = w.chunk(2, dim=1)", "h.mul_(2).tanh_().mul(3)", "h.mul(2).tanh().mul(3)"),
        ("x, h = torch.split(w, 2, 1)", "h.add_(1).exp()", "h.add(1).exp()"),
        ("h = torch.exp(w)", "(1 + h.mul_(2).add_(1).log())", "(1 + h.mul(2).add(1).log())"),
    ],
)
def test_a_name_that_is_read_for_the_last_time_is_left_as_it_is(made: str, broken: str, right: str) -> None:
    program = f"{made}\ny = {{}}\ny.sum().backward()\nh = 0\n"
    assert mended(program.format(broken)) == (program.format(right), 0)
    given = {"w": torch.rand(3, 4, requires_grad=True), "torch": torch}
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation|being modified inplace"):
        exec(program.format(broken), dict(given))
    exec(program.format(right), dict(given))


@pytest.mark.parametrize("later", ["z = h", "def show():\n    print(h)"])
def test_a_name_that_is_read_once_more_has_been_changed(later: str) -> None:
    text, left = mended(f"h = torch.exp(w)\ny = h.mul_(2).log()\n{later}\ny.sum().backward()\n")
    assert left == 0
    assert "h.mul_(2).log()" in text


def test_what_a_function_writes_is_assigned() -> None:
    broken = 'state["h"] = gate(w)\nF.leaky_relu_(state["h"], 0.2)\nstate["h"].sum().backward()\n'
    right = broken.replace("F.leaky_relu_(", 'state["h"] = F.leaky_relu(')
    assert mended(broken) == (right, 0)


@pytest.mark.parametrize(
    "given", ["z = y.view(-1).mul_(2)", "z = block.scores(w)[0].mul_(y)", "z = (lambda t: t)(y).mul_(2)"]
)
def test_a_change_that_others_see_stays(given: str) -> None:
    broken = f"y = gate(w)\n{given}\n(z.sum() + y.sum()).backward()\n"
    text, left = mended(broken)
    assert left == 0
    assert "mul_(" in text
    assert ".clone()" in text


def test_a_module_is_no_tensor() -> None:
    text, _ = mended("def head(t):\n    return torch.sigmoid(t)\ntorch.exp_(head(w)).mean().backward()\n")
    assert "torch.clone()" not in text


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("torch.sigmoid(w)", "`torch.sigmoid(w)`"),
        ("torch.sigmoid(w + torch.randn(3, 3) * 0.1 + torch.eye(3))", "`torch.sigmoid(...)`"),
    ],
)
def test_a_message_names_the_expression(value: str, told: str) -> None:
    (found,) = analyze(Program.of(f"{HEADER}{value}.add_(1).sum().backward()\n", "train.py")).facts
    assert isinstance(found, Overwritten)
    assert (
        found.message
        == f"a tensor that {told} saved is modified in place, but a later backward needs its original value"
    )


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("queue[:, 0] = 1.0", "queue"),
        ("queue[:, 0] += 1.0", "queue"),
        ("queue.fill_(0)", "queue"),
        ("queue[0].zero_()", "queue"),
        ("F.relu_(queue)", "queue"),
        ("state['q'] = queue\nstate['q'].mul_(2)", "state['q']"),
    ],
)
def test_the_message_names_the_tensor_that_is_modified(change: str, name: str) -> None:
    text = f"queue = torch.rand(3, 3)\nlogits = w @ queue\n{change}\nlogits.sum().backward()\n"
    facts = analyze(Program.of(HEADER + text, "train.py")).facts
    assert [type(fact) for fact in facts] == [Overwritten]
    assert facts[0].message.startswith(f"`{name}` is modified in place")
