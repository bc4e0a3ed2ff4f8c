"""Windows of several iterations, and the conditions for their ends: counts, shapes, versions, keys."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

START = """\
import argparse
from collections import deque
from typing import NamedTuple
import torch
from torch import nn
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
"""
WINDOW = """\
chunks = {chunks}
h, total, n = torch.zeros(2, 4), 0, 0
for x in chunks:
    h = cell(x, h)
    total = total + h.pow(2).mean()
    n += 1
    if n % 2 == 0:
        opt.zero_grad()
        total.backward()
        opt.step()
        total = 0
        {cut}
"""
CHUNKS = (
    "torch.randn(12, 2, 3)",
    "list(torch.randn(12, 2, 3))",
    "[torch.randn(2, 3) for _ in range(12)]",
    "torch.utils.data.DataLoader(torch.randn(24, 3), batch_size=2)",
)
RING = """\
ring = deque([torch.zeros(2, 4)], maxlen={length})
for step, x in zip(range(1, 100), torch.randn(100, 2, 3)):
    h = cell(x, ring[-1])
    ring.append(h)
    if step % {length} == 0:
        opt.zero_grad()
        torch.stack(tuple(ring)).mean().backward()
        opt.step()
        {turned}
"""
CARRIED = """\
class Carry(NamedTuple):
    h: torch.Tensor
    steps: int = 0
carry = Carry(torch.zeros(2, 4))
for x in torch.randn(9, 2, 3):
    carry = Carry(cell(x, carry.h), carry.steps + 1)
    opt.zero_grad()
    carry.h.mean().backward()
    opt.step()
    carry = carry._replace(**{{k: v{cut} for k, v in carry._asdict().items() if isinstance(v, torch.Tensor)}})
"""
SHAPES = """\
class Layer(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names, self.lin = names, nn.Linear(3, 3)
        for name in names:
            self.register_buffer(name, torch.zeros(0))
    def forward(self, x):
        drive = self.lin(x)
        for name in self.names:
            if getattr(self, name).shape != drive.shape:
                setattr(self, name, torch.zeros_like(drive.detach()))
        for name in self.names:
            setattr(self, name, 0.9 * getattr(self, name) + drive)
        return sum(getattr(self, name) for name in self.names)
net = nn.Sequential(Layer(["u"]), Layer(["u", "v", "w"]))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(9, 2, 3):
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
{cut}
"""
CUT_ALL = """\
    for module in net.modules():
        for name in ("u", "v", "w"):
            if hasattr(module, name):
                setattr(module, name, getattr(module, name).detach())
"""
CUT_ONE = CUT_ALL.replace('"u", "v", "w"', '"u", "v"')
VERSIONS = """\
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Parameter(torch.randn(4, 4))
        self.stamp = self.kept = None
    def dense(self):
        stamp = ({stamp}, torch.is_grad_enabled())
        if stamp != self.stamp:
            self.kept, self.stamp = self.u @ self.u, stamp
        return self.kept
table = Table()
opt = torch.optim.SGD(table.parameters(), lr=0.1)
for x in torch.randn(9, 2, 4):
    opt.zero_grad()
    (x @ table.dense()).mean().backward()
    opt.step()
"""
METERS = """\
class Meter:
    kinds = {{}}
    def __init_subclass__(cls, kind, **kwargs):
        super().__init_subclass__(**kwargs)
        Meter.kinds[kind] = cls
    def __init__(self):
        self.total = 0.0
class Sum(Meter, kind="sum"):
    def __iadd__(self, x):
        self.total += {taken}
        return self
meter = Meter.kinds["sum"]()
for x in torch.randn(9, 2, 3):
    loss = cell(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter += loss
print(meter.total)
"""
SITES = """\
def stream(sites):
    seen = set()
    for site in [one for one in sites for _ in range(10)]:
        yield site, torch.randn(2, 3), site not in seen
        seen.add(site)
states = {{}}
for epoch in range(3):
    for site, x, first in stream(("a", "b")):
        if first:
            states.pop(site, None)
        h = cell(x, states.get(site, torch.zeros(2, 4)))
        opt.zero_grad()
        h.mean().backward()
        opt.step()
        states[site] = h{cut}
"""
PAIRS = [
    *((WINDOW, {"chunks": chunks}, {"cut": "pass"}, {"cut": "h = h.detach()"}) for chunks in CHUNKS),
    *(
        (
            RING,
            {"length": length},
            {"turned": "for _ in range(len(ring)): ring.append(ring.popleft())"},
            {"turned": "for _ in range(len(ring)): ring.append(ring.popleft().detach())"},
        )
        for length in (2, 6)
    ),
    (
        RING,
        {"length": 5},
        {"turned": "pass"},
        {"turned": "while len(ring): ring.pop()\n        ring.append(h.detach())"},
    ),
    (CARRIED, {}, {"cut": ""}, {"cut": ".detach()"}),
    (SHAPES, {}, {"cut": ""}, {"cut": CUT_ALL}),
    (SHAPES, {}, {"cut": CUT_ONE}, {"cut": CUT_ALL}),
    (VERSIONS, {}, {"stamp": "self.u.dtype"}, {"stamp": "self.u._version"}),
    (METERS, {}, {"taken": "x"}, {"taken": "float(x)"}),
    (SITES, {}, {"cut": ""}, {"cut": ".detach()"}),
]


def told(text: str) -> list[str]:
    return [type(fact).__name__ for fact in analyze(Program.of(START + text, "train.py")).facts]


@pytest.mark.parametrize(("script", "given", "wrong", "right"), PAIRS)
def test_only_what_goes_on_with_a_graph_is_told(
    script: str, given: dict[str, str], wrong: dict[str, str], right: dict[str, str]
) -> None:
    assert told(script.format(**given, **wrong))
    assert told(script.format(**given, **right)) == []


@pytest.mark.parametrize("chunks", CHUNKS)
def test_a_window_is_cut_where_it_ends(chunks: str) -> None:
    program = Program.of(START + WINDOW.format(chunks=chunks, cut="pass"), "train.py")
    patched = mend(program, all_codemods()).patched.files[0].text
    behind = patched.partition("if n % 2 == 0:")[2]
    assert "h = h.detach()" in behind and not told(patched.removeprefix(START))


LOGGED = """\
class Meter:
    def __init__(self):
        self.total = 0.0
    def update(self, value):
        self.total += value
meters = {}
def log(**values):
    for name, v in values.items():
        meters.setdefault(name, Meter()).update(v)
for x in torch.randn(9, 2, 3):
    loss = cell(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    log(loss=loss, lr=opt.param_groups[0]["lr"])
"""


def test_numbers_beside_tensors_are_not_detached() -> None:
    program = Program.of(START + LOGGED, "train.py")
    assert any(isinstance(fact, GraphHeld) for fact in analyze(program).facts)
    patched = mend(program, all_codemods()).patched.files[0].text
    assert "if isinstance(v, torch.Tensor)" in patched


ROLLOUT = """\
net, value = nn.Linear(3, 2), nn.Linear(3, 1)
opt = torch.optim.Adam([*net.parameters(), *value.parameters()])
for it in range(4):
    obs = torch.randn(16, 3)
    with torch.no_grad():
        dist = torch.distributions.Categorical(logits=net(obs))
        act = dist.sample()
        old = dist.log_prob(act)
    v = value(obs).squeeze(-1)
    gain, found = torch.zeros(()), []
    for t in reversed(range(15)):
        gain = 1.0 + 0.9 * v[t + 1] - v[t] + 0.9 * gain
        found.append(gain)
    adv = torch.stack(found[::-1])
    ret = adv + v[:-1]
    for _ in range(3):
        new = torch.distributions.Categorical(logits=net(obs[:-1])).log_prob(act[:-1])
        ratio = (new - old[:-1]).exp()
        loss = -(ratio * adv).mean() + (ret - value(obs[:-1]).squeeze(-1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


def test_what_all_of_a_rollout_is_computed_of_is_detached_at_once() -> None:
    program = Program.of(textwrap.dedent(START + ROLLOUT), "train.py")
    patched = mend(program, all_codemods()).patched.files[0].text
    assert patched == (START + ROLLOUT).replace("value(obs).squeeze(-1)\n", "value(obs).squeeze(-1).detach()\n")
