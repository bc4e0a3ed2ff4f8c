"""A computation of several statements before a loop that the loop reads here and there goes into it as a whole."""

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
"""

MOVED = {
    "two values and a table of both, in a function": (
        """
def fit(features, target, steps=30):
    shape, offset = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adam([shape, offset], lr=0.05)
    gain = nn.functional.softplus(shape)
    bias = torch.tanh(offset)
    table = gain[:, None] * features + bias[:, None]
    for step in range(steps):
        loss = (table.sum(0) - target).pow(2).mean() + gain.sum() + bias.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
fit(torch.randn(4, 20), torch.randn(20))
""",
        [
            "gain = nn.functional.softplus(shape)",
            "bias = torch.tanh(offset)",
            "table = gain[:, None] * features + bias[:, None]",
        ],
    ),
    "a tuple, and what is computed of it, in a method": (
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw_a, self.raw_b = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))
        self.head = nn.Linear(3, 1)
class Trainer:
    def __init__(self, model, data):
        self.model, self.data = model, data
        self.opt = torch.optim.SGD(model.parameters(), lr=0.01)
    def run(self):
        a, b = self.model.raw_a.exp(), self.model.raw_b.sigmoid()
        mix = a * b / (a + b)
        for x, y in self.data:
            loss = nn.functional.mse_loss(self.model.head(x * mix), y) + a.mean() + b.mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
Trainer(Model(), [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(10)]).run()
""",
        ["a, b = self.model.raw_a.exp(), self.model.raw_b.sigmoid()", "mix = a * b / (a + b)"],
    ),
    "a covariance, in a while loop": (
        """
xs, ys = torch.randn(50, 2), torch.randn(50, 1)
log_scale, log_noise = torch.zeros(2, requires_grad=True), torch.zeros((), requires_grad=True)
opt = torch.optim.Adam([log_scale, log_noise], lr=0.1)
scale = log_scale.exp()
noise = log_noise.exp()
dist = torch.cdist(xs / scale, xs / scale)
cov = torch.exp(-0.5 * dist ** 2) + noise * torch.eye(50)
chol = torch.linalg.cholesky(cov)
epoch = 0
while epoch < 20:
    opt.zero_grad()
    nll = (ys * torch.cholesky_solve(ys, chol)).sum() + chol.diagonal().log().sum() + scale.sum() + noise
    nll.backward()
    opt.step()
    epoch += 1
""",
        [
            "scale = log_scale.exp()",
            "noise = log_noise.exp()",
            "dist = torch.cdist(xs / scale, xs / scale)",
            "cov = torch.exp(-0.5 * dist ** 2) + noise * torch.eye(50)",
            "chol = torch.linalg.cholesky(cov)",
        ],
    ),
    "a filter bank of a function's, updated by hand": (
        """
raw_low, raw_width = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
def bandpass(low, width, taps):
    return torch.sinc((low + width)[:, None] * taps) - torch.sinc(low[:, None] * taps)
taps = torch.arange(9) - 4.0
low = torch.sigmoid(raw_low)
width = torch.sigmoid(raw_width)
bank = bandpass(low, width, taps)
edges = []
for step in range(30):
    loss = (bank @ torch.randn(9)).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (raw_low, raw_width):
            p -= 0.1 * p.grad
            p.grad.zero_()
    edges.append(low.detach().numpy())
""",
        ["low = torch.sigmoid(raw_low)", "width = torch.sigmoid(raw_width)", "bank = bandpass(low, width, taps)"],
    ),
}
COPIED = """
raw = nn.Parameter(torch.zeros(4))
opt = torch.optim.Adam([raw], lr=0.1)
gain = raw.exp()
table = gain * torch.arange(4.0)
print("at first", gain.sum().item())
for step in range(20):
    loss = (table - 1).pow(2).sum() + gain.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def patched(text: str) -> tuple[list[str], list[str]]:
    """The lines that a patch takes away, and the lines that it adds, without indentation."""
    found = mend(Program.of(HEADER + text, "main.py"), all_codemods())
    assert found.left == (), found.refused
    after = found.patched.files[0].text
    compared = list(difflib.ndiff((HEADER + text).splitlines(), after.splitlines()))
    less, more = ([line[2:].strip() for line in compared if line.startswith(sign)] for sign in ("- ", "+ "))
    return less, more


@pytest.mark.parametrize(("text", "moved"), MOVED.values(), ids=MOVED)
def test_all_of_it_moves_in_its_order(text: str, moved: list[str]) -> None:
    """Nothing of it is detached: a value would belong to parameters that are no more."""
    assert patched(text) == (moved, moved)


def test_what_is_read_before_the_loop_is_computed_there_too() -> None:
    assert patched(COPIED) == ([], ["gain = raw.exp()", "table = gain * torch.arange(4.0)"])
