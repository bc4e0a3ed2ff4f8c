"""What is added in place to a result adds to its graph, be it a number: the change goes under ``no_grad``."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

PROGRAM = """
import torch
from torch import nn
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
{begun}
for x in torch.randn(6, 5, 3):
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
{change}
"""

CHANGES = {
    "a total that begins as a loss": (
        "total = net(torch.ones(3)).sum()",
        "    total += loss",
        "    with torch.no_grad():\n        total += loss",
    ),
    "a total that begins as a number": ("total = torch.zeros(())", "    total += loss", "    total += loss.detach()"),
    "averages that begin as copies": (
        "shadow = [p.clone() for p in net.parameters()]",
        "    for s, p in zip(shadow, net.parameters()):\n        s *= 0.9\n        s += 0.1 * p",
        "    with torch.no_grad():\n        for s, p in zip(shadow, net.parameters()):\n"
        "            s *= 0.9\n            s += 0.1 * p",
    ),
}


@pytest.mark.parametrize(("begun", "change", "new"), CHANGES.values(), ids=CHANGES)
def test_the_change_goes_where_the_graph_does_not_grow(begun: str, change: str, new: str) -> None:
    patched = analyse(PROGRAM.format(begun=begun, change=change), "train.py").patched
    assert patched == PROGRAM.format(begun=begun, change=new)
