# ruff: noqa: E501 - the edits are written as their users write them
"""Patches that repair the mistake, and change the training besides, or only seem to: judged by runs of whole scripts."""

from __future__ import annotations

import pytest

from autofix.proof.changed import watched
from autofix.proof.promises import Promises
from autofix.proof.prove import Certificate, Original, Script, prove
from tests.by_hand import LIMITS, PATH, edited

HEAD = """\
import copy
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
"""
ACCUMULATED = (
    HEAD
    + """\
net = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 3))
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
loss = 0
for i in range(80):
    x, y = torch.randn(8, 4), torch.randint(3, (8,))
    loss = loss + F.cross_entropy(net(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        loss = 0
"""
)
ALONE = ("loss = loss + F", "loss = F")
CLIP = "        nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
BEFORE = (
    HEAD
    + """\
w, v = nn.Parameter(torch.randn(3, 8) * 0.3), nn.Parameter(torch.randn(8, 1) * 0.3)
opt = torch.optim.Adam([w, v], lr=1e-2)
fixed = torch.randn(6, 3)
feats = torch.tanh(fixed @ w)
for t in range(25):
    x = torch.randn(6, 3)
    loss = (torch.tanh(x @ w) @ v - x.sum(1, keepdim=True)).pow(2).mean() + 0.02 * feats.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)
ACTOR = (
    HEAD
    + """\
actor, critic = nn.Linear(5, 2), nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 1))
actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
opt_a, opt_c = torch.optim.Adam(actor.parameters(), lr=1e-2), torch.optim.Adam(critic.parameters(), lr=1e-2)
for t in range(30):
    s, s2, r = torch.randn(8, 5), torch.randn(8, 5), torch.randn(8, 1)
    a = actor(s)
    q = critic(torch.cat([s, a], 1))
    with torch.no_grad():
        y = r + 0.9 * critic_t(torch.cat([s2, actor_t(s2)], 1))
    loss_c = (q - y).pow(2).mean()
    opt_c.zero_grad()
    loss_c.backward(retain_graph=True)
    opt_c.step()
    loss_a = -q.mean()
    opt_a.zero_grad()
    loss_a.backward()
    opt_a.step()
"""
)
ANEW = (
    ("torch.cat([s, a], 1)", "torch.cat([s, a.detach()], 1)"),
    ("loss_a = -q.mean()", "loss_a = -critic(torch.cat([s, a], 1)).mean()"),
    ("backward(retain_graph=True)", "backward()"),
)
BY_HAND = (
    HEAD
    + """\
W1, W2 = (torch.randn(3, 6) * 0.5).requires_grad_(), (torch.randn(6, 1) * 0.5).requires_grad_()
h = torch.zeros(5, 6)
for t in range(40):
    x = torch.randn(5, 3)
    h = torch.tanh(x @ W1 + 0.5 * h)
    loss = (h @ W2 - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for W in (W1, W2):
            W -= 0.05 * W.grad
            W.grad.zero_()
"""
)
CUT = ("0.5 * h)", "0.5 * h.detach())")
KEYS = (
    HEAD
    + """\
queries, keys = nn.Linear(5, 4), nn.Linear(5, 4)
opt = torch.optim.SGD(queries.parameters(), lr=0.1)
queue, at = torch.randn(16, 4), 0
for t in range(40):
    x = torch.randn(4, 5)
    q, k = queries(x), keys(x)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.t()], 1)
    loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    for a, b in zip(keys.parameters(), queries.parameters()):
        a.data = 0.95 * a.data + 0.05 * b.data
    queue[at:at + 4] = k
    at = (at + 4) % 16
"""
)
WRITTEN = ("= k\n    at", "= k.detach()\n    at")
AVERAGED = (
    HEAD
    + """\
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
mean = copy.deepcopy(net)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for t in range(40):
    h = torch.sigmoid(net[0](torch.randn(8, 4)))
    h *= 0.9
    loss = net[1](h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, p in zip(mean.parameters(), net.parameters()):
            a.lerp_(p, 0.1)
"""
)
SCALED = ("h *= 0.9", "h = h * 0.9")
BRANCHES = (
    HEAD
    + """\
class Branch(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.act, self.fc = nn.ReLU(inplace=inplace), nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(self.act(x))
inner, scale = nn.ModuleList([nn.Linear(4, 4), Branch(True), Branch(True)]), nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([*inner.parameters(), scale], lr=1e-2)
for t in range(40):
    x = inner[0](torch.randn(8, 4))
    y = scale[0] * x + scale[1] * inner[1](x) + scale[2] * inner[2](x)
    loss = (y - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)
MANY = (
    HEAD
    + """\
from collections import deque
cell, out = nn.GRUCell(2, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=1e-2)
memory = deque(maxlen=200)
for t in range(16):
    state = torch.zeros(1, 4)
    for _ in range(20):
        following = cell(torch.randn(1, 2), state)
        memory.append({"before": state, "after": following, "noise": torch.randn(2)})
        state = following
    seen = torch.cat([memory[i]["before"] for i in torch.randperm(len(memory))[:8]]).detach()
    loss = out(cell(torch.randn(8, 2), seen)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)
RIGHT = {
    "each loss alone": (ACCUMULATED, (ALONE,)),
    "features computed in the loop": (
        BEFORE,
        (("feats = torch.tanh(fixed @ w)\n", ""), ("    loss =", "    feats = torch.tanh(fixed @ w)\n    loss =")),
    ),
    "the score computed anew": (ACTOR, ANEW),
    "a state as a number": (BY_HAND, (CUT,)),
    "keys without gradients that nobody uses": (
        KEYS,
        (("q, k = queries(x), keys(x)", "q = queries(x)\n    with torch.no_grad():\n        k = keys(x)"),),
    ),
    "keys as numbers in the queue": (KEYS, (WRITTEN,)),
    "a test with two branches": (
        AVERAGED,
        (("h *= 0.9", "if t < 1000:\n        h = h * 0.9\n    else:\n        h = 0.9 * h"), ("t < 1000", "t % 2 < 1")),
    ),
    "modules that leave their inputs": (BRANCHES, (("ReLU(inplace=inplace)", "ReLU()"),)),
    "more tensors than are looked at": (
        MANY,
        (('state, "after": following', 'state.detach(), "after": following.detach()'),),
    ),
}
WRONG = {
    "clipped after each pass": (ACCUMULATED, (ALONE, (CLIP, ""), ("    if (i", f"{CLIP[4:]}    if (i")), 4, "are clipped 4 times"),
    "only the last pass": (ACCUMULATED, (ALONE, ("    loss.backward()", "    opt.zero_grad()\n    loss.backward()")), 4, "set to zero before"),
    "features cut off before the first step": (BEFORE, (("tanh(fixed @ w)", "tanh(fixed @ w).detach()"),), 3, "is made of other gradients"),
    "another network in the target": (ACTOR, (*ANEW, ("actor_t(s2)", "actor(s2)")), 5, "another formula"),
    "one of two weights rests later": (BY_HAND, (CUT, ("            W -=", "            if W is W2 or t < 20:\n                W -=")), 4, "does not move after"),
    "an average that ends later": (AVERAGED, (SCALED, ("            a.lerp_", "            if t < 1000:\n                a.lerp_")), 2, "a number decides"),
    "an average of some weights that ends later": (AVERAGED, (SCALED, ("zip(mean.parameters(), net.parameters())", "[pair for pair in zip(mean.parameters(), net.parameters()) if t < 1000]")), 2, "a number decides"),
    "keys that stay": (KEYS, (WRITTEN, ("0.95 * a.data + 0.05 * b.data", "a.data")), 4, ""),
    "some modules leave their inputs": (BRANCHES, (("Branch(True), Branch(True)", "Branch(False), Branch(False)"), ("scale[0] * x", "scale[0] * F.relu(x)")), 5, ""),
}  # fmt: skip


def judged(text: str, edits: tuple[tuple[str, str], ...]) -> Certificate:
    before, after = watched(Script(PATH, text=text), Script(PATH, text=edited(text, edits)))
    return prove(Original(before, LIMITS), after, Promises(by_hand=True))


@pytest.mark.parametrize("name", RIGHT)
def test_right_patch_is_proved(name: str) -> None:
    certificate = judged(*RIGHT[name])
    assert certificate.proved, certificate.points


@pytest.mark.parametrize("name", WRONG)
def test_other_training_is_refused(name: str) -> None:
    script, edits, number, reason = WRONG[name]
    certificate = judged(script, edits)
    assert not certificate.proved
    assert reason in certificate.points[number - 1].detail, certificate.points
