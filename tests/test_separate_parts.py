"""A slice that is changed in place becomes a new tensor only where no other name shows the change."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

SCRIPT = """\
import torch
from torch import nn

net = nn.Linear(4, 6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def parts(x):
    {body}

for step in range(9):
    first, second = parts(torch.randn(8, 4))
    loss = first.pow(2).mean() + second.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SEPARATE = {
    "ends where the other begins": ["h = net(x).tanh().view(-1, 6)", "a, b = h[:, :2], h[:, 2:]", "b.mul_(3)"],
    "items": ["h = net(x).tanh().view(-1, 6)", "a = h[:, 0]", "b = h[:, 1]", "b *= 3"],
    "only asked for its size": [
        "h = net(x).tanh().view(-1, 6)",
        "a, b = x.new_ones(h.shape[0]), h[:, 3:]",
        "b.mul_(3)",
    ],
}
SHOWN = {
    "the whole is read later": ["h = net(x).tanh().view(-1, 6)", "a = h[:, :2]", "a.mul_(3)", "b = h.sum(1)"],
    "slices overlap": ["h = net(x).tanh().view(-1, 6)", "a, b = h[:, :3], h[:, 2:]", "b.mul_(3)"],
    "from either end": ["h = net(x).tanh().view(-1, 6)", "a, b = h[:, 0], h[:, -6]", "b.mul_(3)"],
    "given by the caller": ["h = x", "a, b = h[:, :2], h[:, 2:]", "b.mul_(3)"],
    "known by another name": ["g = net(x).tanh()", "h = g.view(-1, 6)", "a = h[:, :2]", "a.mul_(3)", "b = g.sum(1)"],
    "another name later": ["h = net(x).tanh().view(-1, 6)", "b = h", "a = h[:, :2]", "a.mul_(3)"],
}


def script(body: list[str]) -> str:
    return SCRIPT.format(body="\n    ".join([*body, "return a, b"]))


@pytest.mark.parametrize("body", SEPARATE.values(), ids=list(SEPARATE))
def test_a_slice_that_nothing_else_shows_becomes_a_new_tensor(body: list[str]) -> None:
    analysis = analyse(script(body), "train.py")
    assert [finding.code for finding in analysis.findings] == ["AF201"]
    assert "    b = b" in analysis.patched


@pytest.mark.parametrize("body", SHOWN.values(), ids=list(SHOWN))
def test_a_change_that_another_name_shows_stays_where_it_is_seen(body: list[str]) -> None:
    changed = next(line for line in body if "mul_" in line)
    assert f"    {changed}\n" in analyse(script(body), "train.py").patched
