"""Target networks that are moved under grad mode: the average is no step by hand, whichever loss goes through them."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

SCRIPT = """\
import copy
import torch
from torch import nn

net = nn.Linear(3, 1)
target = copy.deepcopy(net)
optimizer = torch.optim.Adam(net.parameters())

for step in range(9):
    goal = torch.randn(8, 1) + 0.9 * {goal}
    loss = (net(torch.randn(8, 3)) - goal).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {update}
"""
LOOP = "for p, t in zip(net.parameters(), target.parameters()):"
UPDATES = (
    "t.copy_(0.99 * t + 0.01 * p)",
    "t.copy_(t * (1 - 0.01) + p * 0.01)",
    "t.mul_(0.99).add_(0.01 * p)",
    "t += 0.01 * (p - t)",
)


@pytest.mark.parametrize("goal", ["target(torch.randn(8, 3))", "target(torch.randn(8, 3)).detach()"])
@pytest.mark.parametrize("update", UPDATES)
def test_average_is_made_under_no_grad(update: str, goal: str) -> None:
    analysis = analyse(SCRIPT.format(goal=goal, update=f"{LOOP}\n        {update}"), "train.py")
    assert [finding.code for finding in analysis.findings] == ["AF301"]
    guarded = f"with torch.no_grad():\n        {LOOP}\n            {update}"
    assert analysis.patched == SCRIPT.format(goal=goal, update=guarded)
