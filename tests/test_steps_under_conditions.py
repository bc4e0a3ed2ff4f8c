"""A step and the pass that it spoils under one condition, asked twice: the step moves into the second block."""

from __future__ import annotations

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6))
left, right = nn.Linear(6, 1), nn.Linear(6, 1)
left_opt = torch.optim.Adam([*body.parameters(), *left.parameters()])
right_opt = torch.optim.Adam(right.parameters())
"""
OWN = "inputs=[p for group in {}.param_groups for p in group['params']]"

MOVED = {
    "in a loop": (
        """
for step in range(20):
    features = body(torch.randn(8, 4))
    left_loss, right_loss = left(features).mean(), right(features).pow(2).mean()
    left_opt.zero_grad()
    right_opt.zero_grad()
    if step % 5 == 0:
        left_loss.backward(retain_graph=True)
        left_opt.step()
    if step % 5 == 0:
        right_loss.backward()
        right_opt.step()
""",
        f"""
    if step % 5 == 0:
        left_loss.backward(retain_graph=True)
    if step % 5 == 0:
        right_loss.backward({OWN.format("right_opt")})
        left_opt.step()
        right_opt.step()
""",
    ),
    "a value network, which the generator's loss goes through": (
        """
gen, value = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6)), nn.Linear(6, 1)
gen_opt, value_opt = torch.optim.Adam(gen.parameters()), torch.optim.Adam(value.parameters())
for step in range(20):
    made = gen(torch.randn(8, 4))
    worth = value(made)
    gen_loss, value_loss = left(made).mean() - worth.mean(), (worth - torch.rand(8, 1)).abs().mean()
    gen_opt.zero_grad()
    value_opt.zero_grad()
    if step % 5 == 0:
        gen_loss.backward(retain_graph=True)
        gen_opt.step()
    if step % 5 == 0:
        value_loss.backward()
        value_opt.step()
""",
        f"""
    if step % 5 == 0:
        value_loss.backward({OWN.format("value_opt")})
        gen_opt.step()
        value_opt.step()
""",
    ),
    "in a method, with the optimizers as attributes": (
        """
class Trainer:
    def __init__(self, every):
        self.every, self.left_opt, self.right_opt = every, left_opt, right_opt
    def update(self, count, batch):
        features = body(batch)
        first, second = left(features).mean(), right(features).pow(2).mean()
        self.left_opt.zero_grad()
        self.right_opt.zero_grad()
        if count > self.every:
            first.backward(retain_graph=True)
            self.left_opt.step()
        # the other head
        if count > self.every:
            second.backward()
            self.right_opt.step()
trainer = Trainer(2)
for count in range(10):
    trainer.update(count, torch.randn(8, 4))
""",
        f"""
        if count > self.every:
            first.backward(retain_graph=True)
        # the other head
        if count > self.every:
            second.backward({OWN.format("self.right_opt")})
            self.left_opt.step()
            self.right_opt.step()
""",
    ),
}

LEFT_ALONE = {
    "conditions that differ": """
for step in range(20):
    features = body(torch.randn(8, 4))
    left_loss, right_loss = left(features).mean(), right(features).pow(2).mean()
    left_opt.zero_grad()
    right_opt.zero_grad()
    if step % 5 == 0:
        left_loss.backward(retain_graph=True)
        left_opt.step()
    if step % 3 == 0:
        right_loss.backward()
        right_opt.step()
""",
    "a condition whose name has another value the second time": """
for step in range(20):
    features = body(torch.randn(8, 4))
    left_loss, right_loss = left(features).mean(), right(features).pow(2).mean()
    left_opt.zero_grad()
    right_opt.zero_grad()
    due = step % 2 == 0
    if due:
        left_loss.backward(retain_graph=True)
        left_opt.step()
    due = step % 4 == 0
    if due:
        right_loss.backward()
        right_opt.step()
""",
}


def patched(text: str) -> str:
    return mend(Program.of(HEADER + text, "main.py"), all_codemods()).patched.files[0].text


@pytest.mark.parametrize(("text", "after"), MOVED.values(), ids=MOVED)
def test_the_step_moves_into_the_later_block(text: str, after: str) -> None:
    found = mend(Program.of(HEADER + text, "main.py"), all_codemods())
    assert found.left == (), found.refused
    assert after in found.patched.files[0].text


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_the_step_stays_where_the_blocks_may_run_apart(text: str) -> None:
    assert "        right_opt.step()\n" in patched(text)
    second = patched(text).rpartition("if ")[2]
    assert "left_opt.step()" not in second
