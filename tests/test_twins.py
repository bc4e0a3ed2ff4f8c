"""Right programs that look like mistakes, and their wrong twins: the installed PyTorch says which of the two fails.

``«right|wrong»`` stands for what the two have in its place.
"""

from __future__ import annotations

import re

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program
from autofix.engine import analyse

torch = pytest.importorskip("torch")

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
"""

TWINS = {
    "a generator empties the buffer": """\
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
buffer = []
def drain(given):
    while given:
        yield given.pop()
for it in range(3):
    for _ in range(3):
        buffer.append(net(torch.randn(3)).sum())
    opt.zero_grad()
    sum(buffer).backward()
    opt.step()
    for _ in «drain(buffer)|range(3)»:
        pass
""",
    "a generator hands out what it takes out": """\
class Buffer:
    def __init__(self):
        self.losses = []
    def take(self):
        while len(self.losses) > 0:
            yield self.losses«.pop()|[-1]»
            «pass|break»
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
buffer = Buffer()
for it in range(3):
    for _ in range(3):
        buffer.losses.append(net(torch.randn(3)).sum())
    total = 0
    for loss in buffer.take():
        total = total + loss
    opt.zero_grad()
    «total|(total + buffer.losses[0])».backward()
    opt.step()
""",
    "parameters are counted": """\
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
head = nn.Linear(4, 1)
opt = torch.optim.SGD(head.parameters(), 0.1)
if len(list(net.parameters())) == «4|2»:
    net.requires_grad_(False)
f = net(torch.randn(5, 3))
for _ in range(3):
    opt.zero_grad()
    head(f).pow(2).mean().backward()
    opt.step()
""",
    "a parameter under another type": """\
from typing import cast
cell = nn.Linear(3, 4)
opt = torch.optim.SGD(cell.parameters(), 0.1)
weight = cast(torch.Tensor, torch.jit.annotate(torch.Tensor, torch.asarray(cell.weight)))
weight = weight«| * 1»
for x in torch.randn(3, 5, 3):
    opt.zero_grad()
    F.linear(x, weight).pow(2).mean().backward()
    opt.step()
""",
    "places are counted on": """\
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
for x in torch.randn(2, 5, 3):
    values, places = net(x).topk(2, dim=1)
    short = places.to(torch.int32)
    short += 1
    places «= places +|+=» torch.arange(5)[:, None]
    opt.zero_grad()
    values.sum().backward()
    opt.step()
    places += 1
""",
    "a buffer that is written by out": """\
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
buffer = torch.zeros(5, 4)
for x in torch.randn(3, 5, 3):
    h = net(x)
    total = h.sum()
    torch.add(torch.ones(5, 4), 1, out=«buffer|h»)
    opt.zero_grad()
    (total + buffer.mean()).backward()
    opt.step()
""",
}

HANGS_ON_CONSTANTS = {
    "a counter that is a tensor": ("n = torch.zeros(())", "n += 1", "n > 0"),
    "its number": ("n = torch.tensor(0)", "n = n + 1", "n.item() > 0"),
    "flags": ("flags = torch.ones(3)", "pass", "flags.sum().item() == 3"),
    "an element": ("flags = torch.tensor([1, 0])", "pass", "flags[0]"),
    "dimensions of parameters": ("", "pass", "all(p.ndim >= 1 for p in cell.parameters())"),
}
HANGS_ON_DATA = {
    "the data": ("", "pass", "x.sum() > -1e9"),
    "a total of data": ("n = torch.zeros(())", "n += x.abs().sum()", "n > 0"),
    "written from data": ("n = torch.zeros(2)", "n[0] = x.abs().sum()", "n.max() > 0"),
}


def twins(program: str) -> tuple[str, str]:
    """The right program and the wrong one."""
    right, wrong = (re.sub(r"«([^|»]*)\|([^»]*)»", rf"\{side}", program) for side in (1, 2))
    return HEADER + right, HEADER + wrong


def fails(program: str) -> bool:
    try:
        exec(program, {"__name__": "__main__"})
    except RuntimeError:
        return True
    return False


def certain(program: str) -> bool:
    facts = analyze(Program.of(program, "program.py")).facts
    return any(fact.certainty is Certainty.CERTAIN for fact in facts)


@pytest.mark.parametrize("case", TWINS)
def test_of_two_twins_the_wrong_one_is_told(case: str) -> None:
    right, wrong = twins(TWINS[case])
    assert not fails(right)
    assert not certain(right)
    assert fails(wrong)
    assert certain(wrong)


STATE = """\
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), 0.1)
h = torch.zeros(2, 4)
{begin}
for x in torch.randn(4, 2, 3):
    {counts}
    h = cell(x, h)
    opt.zero_grad()
    h.pow(2).mean().backward()
    opt.step()
    if {condition}:
        h = h.detach()
"""


@pytest.mark.parametrize("case", HANGS_ON_CONSTANTS)
def test_what_hangs_on_numbers_that_are_written_out_is_not_certain(case: str) -> None:
    begin, counts, condition = HANGS_ON_CONSTANTS[case]
    program = HEADER + STATE.format(begin=begin, counts=counts, condition=condition)
    assert not fails(program)
    assert not certain(program)


@pytest.mark.parametrize("case", HANGS_ON_DATA)
def test_what_hangs_on_data_is(case: str) -> None:
    begin, counts, condition = HANGS_ON_DATA[case]
    assert certain(HEADER + STATE.format(begin=begin, counts=counts, condition=condition))


@pytest.mark.parametrize("asked", ["p.ndim >= 1", "p.shape[0] == 4", "p.numel() < 1000", "p.size(0) > 2"])
def test_parameters_are_frozen_by_their_shapes_alike(asked: str) -> None:
    program = f"""{HEADER}
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
head = nn.Linear(4, 1)
opt = torch.optim.SGD(head.parameters(), 0.1)
for p in net.parameters():
    if {asked}:
        p.requires_grad = False
f = net(torch.randn(5, 3))
for _ in range(3):
    opt.zero_grad()
    head(f).pow(2).mean().backward()
    opt.step()
"""
    assert not fails(program)
    assert not certain(program)


TOWERS = """\
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(4))
        self.out = nn.Linear(4, 2)
    def forward(self, z):
        {kept}
        {change}
        return self.out(z) * kept.sum()
enc, left, right = nn.Linear(3, 4), Tower(), Tower()
opt = torch.optim.SGD([*enc.parameters(), *left.parameters(), *right.parameters()], 0.1)
for x in torch.randn(2, 5, 3):
    z = enc(x).relu()
    a = left(z)
    b = {other}(z)
    opt.zero_grad()
    (a + b).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("change", "other", "expected"),
    [
        ("z -= self.shift", "right", "        z = z - self.shift\n"),
        ("z.sub_(self.shift)", "right", "        z = z.sub(self.shift)\n"),
        ("z[:, 0] = 0.0", "right", "        z = z.clone()\n        z[:, 0] = 0.0\n"),
        ("z -= self.shift", "left", "        z -= self.shift\n"),
    ],
)
def test_what_several_models_are_given_none_of_them_changes(change: str, other: str, expected: str) -> None:
    """One model that is given the same tensor twice may carry on in it what it changes."""
    program = HEADER + TOWERS.format(kept="kept = z * z", change=change, other=other)
    assert fails(program)
    result = analyse(program, "train.py")
    assert expected in result.patched
    assert not fails(result.patched)


SPIKING = """\
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = 0.0
    def forward(self, x):
        self.v = self.v * 0.5 + x
        return torch.sigmoid(4 * (self.v - 1))
    {method}
{function}
net = nn.Sequential(nn.Linear(3, 4), Cell(), nn.Linear(4, 2), Cell())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for x in torch.randn(3, 4, 3):
    opt.zero_grad()
    rate = 0.0
    for t in range({steps}):
        rate = rate + net(x)
    {sent}
    opt.step()
"""
RESET = "def reset(self):\n        self.v = 0.0"
UNCALLED = {
    "a function": ("", "def begin(net):\n    for m in net.modules():\n        m.v = 0.0", "    begin(net)\n"),
    "a method": (RESET, "", "        if isinstance(module, Cell):\n            module.reset()\n"),
    "a method that sets something else": (RESET.replace("0.0", "1.0"), "", ".detach()\n"),
    "a method with an argument": (RESET.replace("self", "self, size", 1), "", ".detach()\n"),
    "one that is found by its name": (RESET, "TOLD = 'reset'", ".detach()\n"),
}


@pytest.mark.parametrize("case", UNCALLED)
def test_a_reset_that_nothing_calls_is_called(case: str) -> None:
    method, function, expected = UNCALLED[case]
    text = HEADER + SPIKING.format(method=method, function=function, steps=3, sent="rate.mean().backward()")
    assert fails(text)
    patched = analyse(text, "train.py").patched
    assert expected in patched
    assert not fails(patched)


def test_a_state_of_single_steps_is_not_reset_at_each_of_them() -> None:
    sent = "rate.mean().backward()"
    text = HEADER + SPIKING.format(method=RESET, function="", steps=1, sent=sent)
    text = text.replace("    for t in range(1):\n        rate = rate + net(x)\n", "    rate = net(x)\n")
    assert "reset()" not in analyse(text, "train.py").patched


@pytest.mark.parametrize("made", ["h.aminmax()", "torch.linalg.qr(h)", "torch.std_mean(h)"])
def test_a_tuple_of_results_is_not_cloned(made: str) -> None:
    change = "out[0].mul_(2)\nout[1].sum().backward()\n"
    text = f"{HEADER}net = nn.Linear(3, 3)\nh = net(torch.randn(3, 3))\nout = {made}\n{change}"
    patched = analyse(text, "train.py").patched
    assert ").clone()" not in patched
    assert patched == text or not fails(patched)
