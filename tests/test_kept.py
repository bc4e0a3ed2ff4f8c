"""What a script keeps beside its parameters stays the original's: an average of weights, a batch norm's statistics."""

from __future__ import annotations

import pytest

from autofix.proof.prove import HELD
from tests.by_hand import judged

TRAIN = """\
import copy
import time
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 6), nn.Linear(6, 2))
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
START
for step in range(60):
    x = torch.randn(8, 3)
    h = torch.sigmoid(net[0](x))
    h += 0.1
    loss = net[1](h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    UPDATE
"""
UPDATES = {
    "a list that is changed in place": (
        "mean = [p.detach().clone() for p in net.parameters()]",
        "with torch.no_grad():\n"
        "        for a, p in zip(mean, net.parameters()):\n"
        "            a.mul_(0.9).add_(p, alpha=0.1)",
    ),
    "a dictionary of new tensors": (
        "shadow = {name: p.data.clone() for name, p in net.named_parameters()}",
        "for name, p in net.named_parameters():\n        shadow[name] = 0.9 * shadow[name] + 0.1 * p.data",
    ),
    "a list that is made anew": (
        "mean = [p.detach().clone() for p in net.parameters()]",
        "mean = [0.9 * a + 0.1 * p.detach() for a, p in zip(mean, net.parameters())]",
    ),
    "an object": (
        "class Average:\n"
        "    def __init__(self):\n"
        "        self.shadow = {name: p.data.clone() for name, p in net.named_parameters()}\n"
        "    def update(self, rate):\n"
        "        for name, p in net.named_parameters():\n"
        "            new = (1 - rate) * p.data + rate * self.shadow[name]\n"
        "            self.shadow[name] = new.clone()\n"
        "average = Average()",
        "average.update(0.9)",
    ),
    "another network": (
        "target = copy.deepcopy(net).requires_grad_(False)",
        "for t, p in zip(target.parameters(), net.parameters()):\n        t.lerp_(p.data, 0.1)",
    ),
    "data of another network": (
        "target = copy.deepcopy(net)",
        "for t, p in zip(target.parameters(), net.parameters()):\n        t.data = 0.9 * t.data + 0.1 * p.data",
    ),
    "one vector": (
        "flat = torch.cat([p.detach().flatten() for p in net.parameters()])",
        "flat = 0.9 * flat + 0.1 * torch.cat([p.detach().flatten() for p in net.parameters()])",
    ),
    "arrays of NumPy": (
        "mean = {name: p.detach().numpy().copy() for name, p in net.named_parameters()}",
        "for name, p in net.named_parameters():\n        mean[name] = 0.9 * mean[name] + 0.1 * p.detach().numpy()",
    ),
    "arrays that are changed in place": (
        "mean = [p.detach().numpy().copy() for p in net.parameters()]",
        "for a, p in zip(mean, net.parameters()):\n        a += 0.1 * (p.data.numpy() - a)",
    ),
    "an array in an object": (
        "class Average:\n"
        "    def __init__(self):\n"
        "        self.flat = self.now()\n"
        "    def now(self):\n"
        "        return np.concatenate([p.data.numpy().ravel() for p in net.parameters()])\n"
        "    def update(self, rate):\n"
        "        self.flat = rate * self.flat + (1 - rate) * self.now()\n"
        "average = Average()",
        "average.update(0.9)",
    ),
    "a tuple of arrays that is made anew": (
        "mean = tuple(p.detach().cpu().numpy().copy() for p in net.parameters())",
        "mean = tuple(0.9 * a + 0.1 * p.detach().cpu().numpy() for a, p in zip(mean, net.parameters()))",
    ),
    "features in an array": (
        "center = np.zeros(2)",
        "center = 0.9 * center + 0.1 * net(x).detach().numpy().mean(0)",
    ),
    "a queue of outputs": (
        "queue = torch.zeros(24, 2)",
        "queue = torch.cat([net(x).detach(), queue])[:16]",
    ),
    "rows of a memory": (
        "rows = torch.zeros(16, 2)",
        "with torch.no_grad():\n        rows[step % 2 * 8 : step % 2 * 8 + 8] = 0.1 * rows[:8] + net(x)",
    ),
}


def script(name: str) -> str:
    start, update = UPDATES[name]
    return TRAIN.replace("START", start).replace("UPDATE", update)


def fix(text: str) -> str:
    return text.replace("h += 0.1", "h = h + 0.1")


@pytest.mark.parametrize("name", UPDATES)
def test_what_is_kept_as_before_is_proved(name: str) -> None:
    certificate = judged(script(name), fix(script(name)))
    assert certificate.proved, certificate.points


@pytest.mark.parametrize("name", UPDATES)
def test_what_is_kept_otherwise_is_not(name: str) -> None:
    _, update = UPDATES[name]
    wrong = fix(script(name)).replace(update, update.replace("0.9", "0.8").replace("0.1", "0.2"))
    if "0.1" not in update and "0.9" not in update:
        wrong = fix(script(name)).replace("net(x).detach()", "net(x).detach().tanh()")
    certificate = judged(script(name), wrong.replace("update(0.9)", "update(0.8)"))
    assert not certificate.proved
    assert "is updated otherwise than in the original" in certificate.points[3].detail


@pytest.mark.parametrize("name", [name for name in UPDATES if "network" not in name])
def test_what_is_no_longer_updated_is_told(name: str) -> None:
    certificate = judged(script(name), fix(script(name)).replace(UPDATES[name][1], "pass"))
    assert not certificate.proved
    assert "is updated otherwise than in the original" in certificate.points[3].detail


RENAMED = """\
def update(averages):
    with torch.no_grad():
        for kept, p in zip(averages, net.parameters()):
            kept.copy_(torch.lerp(p, kept, 0.9))
"""


def test_the_average_may_have_another_name() -> None:
    text = script("a list that is changed in place")
    start, update = UPDATES["a list that is changed in place"]
    fixed = fix(text).replace(start, f"{RENAMED}{start.replace('mean', 'smooth')}").replace(update, "update(smooth)")
    certificate = judged(text, fixed)
    assert certificate.proved, certificate.points


NOISY = TRAIN.replace("h += 0.1", "x += 0.1\n    h = h + 0").replace("torch.randn(8, 3)\n", "data[step]\n")


def test_data_that_a_right_patch_leaves_alone_are_not_kept() -> None:
    text = (
        NOISY.replace("START", "data = torch.randn(60, 8, 3)").replace("UPDATE", "pass").replace("+ 0\n", "+ x.sum()\n")
    )
    certificate = judged(text, text.replace("x += 0.1", "x = x + 0.1"))
    assert certificate.proved, certificate.points


@pytest.mark.parametrize(
    ("start", "update", "other"),
    [
        ("times = np.zeros(60)", "times[step] = time.perf_counter()", "times[step] = time.perf_counter()"),
        ("pass", "seen = net(x).detach().numpy()", "seen = net(x).detach().numpy() * 100"),
        ("pass", "seen = net[0].weight.detach().numpy() * 2", "pass"),
        ("pass", "first, *_ = [p.detach().numpy().copy() for p in net.parameters()]", "pass"),
        (
            "flat = torch.zeros(2)",
            "flat = 0.9 * flat + 0.1 * net[1].bias.detach()",
            "flat = flat.lerp(net[1].bias.data, 0.1)",
        ),
        (
            "flat = np.zeros(2)",
            "flat = 0.9 * flat + 0.1 * net[1].bias.detach().numpy()",
            "flat = flat + (net[1].bias.data.numpy() - flat) * 0.1",
        ),
        (
            "flat = np.zeros(2)",
            "flat = 0.9 * flat + 0.1 * net[1].bias.detach().numpy()",
            "flat = torch.as_tensor(flat).lerp(net[1].bias.double().data, 0.1)",
        ),
    ],
    ids=[
        "times",
        "outputs",
        "copies that are gone",
        "a copy in a list",
        "one operation",
        "other operations",
        "a tensor",
    ],
)
def test_what_nothing_depends_on_may_be_computed_otherwise(start: str, update: str, other: str) -> None:
    text = TRAIN.replace("START", start).replace("UPDATE", update)
    certificate = judged(text, fix(text).replace(update, other))
    assert certificate.proved, certificate.points


GAN = """\
import torch
from torch import nn
torch.manual_seed(0)
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
og, od = torch.optim.Adam(G.parameters(), lr=1e-2), torch.optim.Adam(D.parameters(), lr=1e-2)
mean = [p.detach().clone() for p in G.parameters()]
for step in range(60):
    fake = G(torch.randn(8, 2))
    score = D(fake)
    loss_d = (score - 1).pow(2).mean() + D(torch.randn(8, 3)).pow(2).mean()
    od.zero_grad()
    loss_d.backward()
    od.step()
    loss_g = score.pow(2).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
    for a, p in zip(mean, G.parameters()):
        a.copy_(0.9 * a + 0.1 * p.data)
"""
RIGHT = GAN.replace("D(fake)", "D(fake.detach())").replace("score.pow", "D(fake).pow")


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [
        ("a.copy_(", "a.copy_(", True),
        ("0.9 * a + 0.1 * p.data", "0.5 * a + 0.5 * p.data", False),
        ("a.copy_(", "a + (", False),
    ],
    ids=["as before", "another rate", "not updated"],
)
def test_an_average_beside_losses_that_are_computed_anew(old: str, new: str, right: bool) -> None:
    certificate = judged(GAN, RIGHT.replace(old, new))
    assert certificate.proved is right, certificate.points


NORMED = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6))
out = nn.Linear(6, 1)
opt = torch.optim.SGD([*net.parameters(), *out.parameters()], lr=1e-2)
data = torch.randn(30, 8, 3)
for step in range(30):
    net.train()
    h = torch.sigmoid(net(data[step]))
    h += 0.1 * h.mean()
    loss = out(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 8:
        net.eval()
        with torch.no_grad():
            print(out(net(data[0])).mean().item())
"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    loss =", "    with torch.no_grad():\n        net(data[step] * 3)\n    loss =", "is given inputs that"),
        ("    loss =", "    net(data[0])\n    loss =", "is given inputs that"),
        ("    loss =", "    with torch.no_grad():\n        net(data[step])\n    loss =", ""),
        ("    net.train()\n", "", "a module is called as BatchNorm1d"),
        ("h = h + 0.1 * h.mean()", "h = h.add(h.mean(), alpha=0.1)", ""),
        ("h = h + 0.1 * h.mean()", "h = torch.add(h, 0.1 * torch.mean(h))", ""),
    ],
    ids=[
        "other inputs",
        "inputs of another step",
        "inputs once more",
        "mode left on",
        "one operation",
        "two functions",
    ],
)
def test_statistics_of_a_batch_norm(old: str, new: str, reason: str) -> None:
    fixed = NORMED.replace("h += 0.1 * h.mean()", "h = h + 0.1 * h.mean()")
    assert old in fixed
    certificate = judged(NORMED, fixed.replace(old, new))
    assert certificate.proved is not bool(reason), certificate.points
    assert reason in certificate.points[3].detail


LEAK = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
plan = torch.optim.lr_scheduler.StepLR(opt, 500)
shadow = {k: p.detach().clone() for k, p in net.named_parameters()}
for step in range(60):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 900.0)
    opt.step()
    plan.step()
    for k, p in net.named_parameters():
        shadow[k] = 0.9 * shadow[k] + 0.1 * p
"""
STORED = "        shadow[k] = 0.9 * shadow[k] + 0.1 * p\n"


@pytest.mark.parametrize(
    ("new", "other", "reason"),
    [
        ("        shadow[k] = 0.9 * shadow[k] + 0.1 * p.detach()\n", "", ""),
        ("        shadow[k] = shadow[k].detach().lerp(p.detach(), 0.1)\n", "", ""),
        ("        shadow[k] = p.detach()\n", "", "is updated otherwise than in the original"),
        ("        shadow[k] = 0.8 * shadow[k] + 0.2 * p.detach()\n", "", "is updated otherwise than in the original"),
        ("        pass\n", "", "is updated otherwise than in the original"),
        ("        shadow[k] = 0.9 * shadow[k] + 0.1 * p.detach()\n", "    plan.step()\n", "steps of its scheduler"),
        (
            "        shadow[k] = 0.9 * shadow[k] + 0.1 * p.detach()\n",
            "    nn.utils.clip_grad_norm_(net.parameters(), 900.0)\n",
            "no longer clipped",
        ),
    ],
    ids=["detached", "one operation", "copied", "another rate", "dropped", "no scheduler", "no clipping"],
)
def test_a_leak_is_repaired_and_all_else_goes_on(new: str, other: str, reason: str) -> None:
    fixed = LEAK.replace(STORED, new)
    certificate = judged(LEAK, fixed.replace(other, "") if other else fixed, HELD)
    assert certificate.proved is not bool(reason), certificate.points
    assert reason in certificate.points[3].detail
