"""Outputs that are computed ahead of the loop that steps for each are computed in their turn, however they are kept."""

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
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
data = [(torch.randn(5, 3), torch.randn(5, 1)) for _ in range(4)]
xs, ys = [x for x, _ in data], [y for _, y in data]
"""
STEP = """
        opt.zero_grad()
        loss.backward()
        opt.step()"""

SHAPES = {
    "a list that another loop fills": (
        f"""
def epoch():
    losses = []
    for x, y in data:
        out = net(x)
        losses.append((out - y).pow(2).mean())
    for loss in losses:{STEP}
for _ in range(3):
    epoch()
""",
        ["        loss = (out - y).pow(2).mean()"],
    ),
    "an attribute that is read by its index": (
        f"""
class Fit:
    def epoch(self):
        self.outs = []
        for features in xs:
            self.outs.append(net(features))
        for i in range(len(self.outs)):
            loss = (self.outs[i] - ys[i]).pow(2).mean(){STEP.replace("        ", "            ")}
fit = Fit()
for _ in range(3):
    fit.epoch()
""",
        [
            "        for i in range(len(xs)):",
            "            features = xs[i]",
            "            value = net(features)",
            "            loss = (value - ys[i]).pow(2).mean()",
        ],
    ),
    "an annotated list with its positions": (
        f"""
def epoch(net, xs, ys):
    outs: list = [net(x) for x in xs]
    for k, out in enumerate(outs):
        loss = (out - ys[k]).pow(2).mean(){STEP}
epoch(net, xs, ys)
""",
        ["    for k, x in enumerate(xs):", "        out = net(x)"],
    ),
    "a zip with what they are computed from": (
        f"""
def epoch():
    outs = [net(x) for x in xs]
    for x, out, y in zip(xs, outs, ys):
        loss = (out - y).pow(2).mean() + 0.1 * x.pow(2).sum(){STEP}
epoch()
""",
        ["    for x, y in zip(xs, ys):", "        out = net(x)"],
    ),
    "a zip with the very pairs that they are computed from": (
        f"""
def epoch():
    losses = []
    for x, y in data:
        losses.append((net(x) - y).pow(2).mean())
    for (x, y), loss in zip(data, losses):{STEP}
        print(x.shape)
epoch()
""",
        ["        loss = (net(x) - y).pow(2).mean()"],
    ),
    "a dictionary that another loop fills": (
        """
def epoch():
    losses = {}
    for i, (x, y) in enumerate(data):
        losses[i] = (net(x) - y).pow(2).mean()
    for i in losses:
        opt.zero_grad()
        losses[i].backward()
        opt.step()
epoch()
""",
        ["        value = (net(x) - y).pow(2).mean()", "        value.backward()"],
    ),
    "a dictionary with keys of other names": (
        f"""
def epoch():
    losses = {{str(i): (net(x) - ys[i]).pow(2).mean() for i, x in enumerate(xs)}}
    for name, loss in losses.items():{STEP}
        print(name)
epoch()
""",
        [
            "    for i, x in enumerate(xs):",
            "        name = str(i)",
            "        loss = (net(x) - ys[i]).pow(2).mean()",
        ],
    ),
    "a function that returns the list": (
        f"""
def ahead():
    return [(net(x) - y).pow(2).mean() for x, y in data]
def epoch():
    for loss in ahead():{STEP}
for _ in range(3):
    epoch()
""",
        ["    return ((net(x) - y).pow(2).mean() for x, y in data)"],
    ),
    "a step in a function of its own": (
        """
def update(loss):
    opt.zero_grad()
    loss.backward()
    opt.step()
def epoch():
    losses = [(net(x) - y).pow(2).mean() for x, y in data]
    for loss in losses:
        update(loss)
epoch()
""",
        ["    for x, y in data:", "        loss = (net(x) - y).pow(2).mean()"],
    ),
}


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_outputs_are_computed_in_their_turn(case: str) -> None:
    body, expected = SHAPES[case]
    text = HEADER + body
    mended = mend(Program.of(text, "train.py"), all_codemods())
    assert mended.left == (), mended.refused
    patched = mended.patched.files[0].text
    delta = difflib.ndiff(text.splitlines(), patched.splitlines())
    assert [line[2:] for line in delta if line.startswith("+ ")] == expected
    assert {repair.codemod.code for repair in mended.repairs} == {"AF111"}


KEPT = {
    "a state goes from item to item": f"""
cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
def epoch():
    h, outs = torch.zeros(5, 4), []
    for x in xs:
        h = cell(x, h)
        outs.append(head(h))
    for out, y in zip(outs, ys):
        loss = (out - y).pow(2).mean(){STEP}
epoch()
""",
    "a state that the network keeps goes from item to item": f"""
class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head, self.h = nn.GRUCell(3, 4), nn.Linear(4, 1), torch.zeros(5, 4)
    def forward(self, x):
        self.h = self.cell(x, self.h)
        return self.head(self.h)
def epoch():
    net = Keeper()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    outs = [net(x) for x in xs]
    for out, y in zip(outs, ys):
        loss = (out - y).pow(2).mean(){STEP}
epoch()
""",
    "a name of the computation means something else in the loop": f"""
def epoch():
    losses = [(net(x) - y).pow(2).mean() for x, y in data]
    x = torch.ones(())
    for loss in losses:
        x = x * loss.detach(){STEP}
    return x
epoch()
""",
}


@pytest.mark.parametrize("case", KEPT, ids=str)
def test_what_cannot_be_computed_in_turn_is_left(case: str) -> None:
    mended = mend(Program.of(HEADER + KEPT[case], "train.py"), all_codemods())
    assert mended.repairs == ()


def test_where_the_loop_reads_several_outputs_all_are_computed_again() -> None:
    body = f"""
def epoch():
    losses = [(net(x) - y).pow(2).mean() for x, y in data]
    for i in range(len(losses)):
        loss = losses[i] + losses[-1]{STEP}
epoch()
"""
    mended = mend(Program.of(HEADER + body, "train.py"), all_codemods())
    assert [repair.codemod.code for repair in mended.repairs] == ["AF103"]


def test_a_list_that_is_read_again_stays() -> None:
    body = f"""
def epoch():
    losses = [(net(x) - y).pow(2).mean() for x, y in data]
    for loss in losses:{STEP}
    print(len(losses))
epoch()
"""
    mended = mend(Program.of(HEADER + body, "train.py"), all_codemods())
    patched = mended.patched.files[0].text
    assert "    losses = [(net(x) - y).pow(2).mean() for x, y in data]\n" in patched
    assert "    for x, y in data:\n        loss = (net(x) - y).pow(2).mean()\n" in patched
