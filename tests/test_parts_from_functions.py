"""Parts of one tensor that a function or a method returns: of those that are not changed, a clone is computed with."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

SCRIPT = """\
import torch
from torch import nn

def halves(tensor):
    c = tensor.size(1) // 2
    return tensor[:, :c], tensor[:, c:]

class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, 4))
        self.net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
        self.gate = nn.Linear(2, 2)
    def parts(self, tensor):
        return tensor[:, :2], tensor[:, 2:]
    def forward(self, x):
        z = x * self.scale
        {body}

flow = Coupling()
optimizer = torch.optim.SGD(flow.parameters(), lr=0.1)
for step in range(9):
    loss = flow(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
REPAIRED = {
    "added to, in one statement": (
        ["keep, move = halves(z)", "move += self.net(keep)", "return torch.cat([keep, move], 1)"],
        ["move += self.net(keep.clone())"],
    ),
    "what was computed of the other part before": (
        ["a, b = halves(z)", "h = self.net(a)", "b *= 2", "b += h", "return torch.cat([a, b], 1)"],
        ["h = self.net(a.clone())"],
    ),
    "by a method, under a condition": (
        [
            "first, second = self.parts(z)",
            "if x.size(0) > 1:",
            "    shift = self.net(first)",
            "    second.add_(shift)",
            "return torch.cat((first, second), 1)",
        ],
        ["    shift = self.net(first.clone())"],
    ),
    "two layers that save it": (
        [
            "low, high = halves(z)",
            "shift, gate = self.net(low), self.gate(low).sigmoid()",
            "high.mul_(gate)",
            "high += shift",
            "return torch.cat([low, high], 1)",
        ],
        ["shift, gate = self.net(low.clone()), self.gate(low.clone()).sigmoid()"],
    ),
    "the whole is read later": (
        ["keep, move = halves(z)", "move += self.net(keep)", "return z"],
        ["move += self.net(keep.clone())"],
    ),
}
RIGHT = {
    "parts of two tensors": ["keep, move = halves(z)[0].clone(), z[:, 2:]", "move += self.net(keep)", "return z"],
    "clones": ["keep, move = (one.clone() for one in halves(z))", "move += self.net(keep)", "return move"],
    "changed before it is computed with": ["keep, move = halves(z)", "move += 1", "return self.net(keep) + move"],
}


def script(body: list[str]) -> str:
    return SCRIPT.format(body="\n        ".join(body))


@pytest.mark.parametrize(("body", "lines"), REPAIRED.values(), ids=list(REPAIRED))
def test_the_other_part_is_cloned(body: list[str], lines: list[str]) -> None:
    analysis = analyse(script(body), "train.py")
    assert {finding.code for finding in analysis.findings} == {"AF201"}
    assert all(f"        {line}\n" in analysis.patched for line in lines), analysis.patched


@pytest.mark.parametrize("body", RIGHT.values(), ids=list(RIGHT))
def test_parts_that_no_change_reaches(body: list[str]) -> None:
    analysis = analyse(script(body), "train.py")
    assert analysis.findings == ()
