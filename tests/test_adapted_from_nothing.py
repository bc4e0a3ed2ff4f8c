"""Fast weights that begin as None, for which a network takes its own, begin so in each iteration."""

from __future__ import annotations

import difflib

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
torch.manual_seed(0)
data = lambda: (torch.randn(8, 1), torch.randn(8, 1))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 6), nn.Linear(6, 1)

    def forward(self, x, weights=None):
        w = list(self.parameters()) if weights is None else weights
        return torch.tanh(x @ w[0].t() + w[1]) @ w[2].t() + w[3]

def adapt(net, loss, weights, lr=0.1):
    weights = list(net.parameters()) if weights is None else weights
    grads = torch.autograd.grad(loss, weights, create_graph=True)
    return [w - lr * g for w, g in zip(weights, grads)]

net = Net()
meta = torch.optim.Adam(net.parameters(), lr=1e-2)
"""
SHAPES = {
    "a name": (
        """
fast = None
for step in range(4):
    for _ in range(2):
        x, y = data()
        fast = adapt(net, (net(x, fast) - y).pow(2).mean(), fast)
    x, y = data()
    loss = (net(x, fast) - y).pow(2).mean()
    meta.zero_grad()
    loss.backward()
    meta.step()
""",
        ["    fast = None"],
    ),
    "a name in a function, one of two that begin so": (
        """
def train(steps):
    fast, best = None, None
    step = 0
    while step < steps:
        x, y = data()
        inner = (net(x, weights=fast) - y).pow(2).mean()
        fast = adapt(net, inner, fast)
        x, y = data()
        outer = (net(x, weights=fast) - y).pow(2).mean()
        meta.zero_grad()
        outer.backward()
        meta.step()
        best = outer.item() if best is None else min(best, outer.item())
        step += 1
    return best

train(4)
""",
        ["        fast = None"],
    ),
}
STATE = """
cell, head = nn.GRU(1, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
state = None
for step in range(4):
    x, y = data()
    out, state = cell(x.unsqueeze(1), state)
    loss = (head(out[-1]) - y[-1]).pow(2).mean()
    grads = torch.autograd.grad(loss, head.weight, retain_graph=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _patched(text: str) -> tuple[str, list[str]]:
    patched = mend(Program.of(text, "train.py"), all_codemods()).patched.files[0].text
    rows = difflib.ndiff(text.splitlines(), patched.splitlines())
    return patched, [row[2:] for row in rows if row.startswith("+ ")]


def _run(text: str) -> None:
    exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("text", "added"), SHAPES.values(), ids=SHAPES)
def test_each_iteration_begins_with_the_own_weights(text: str, added: list[str]) -> None:
    with pytest.raises(RuntimeError, match="second time"):
        _run(HEADER + text)
    patched, lines = _patched(HEADER + text)
    assert lines == added
    _run(patched)


def test_a_state_that_begins_as_none_is_carried_on() -> None:
    patched, lines = _patched(HEADER + STATE)
    assert "state = None" not in [line.strip() for line in lines]
    _run(patched)
