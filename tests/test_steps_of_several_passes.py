# ruff: noqa: E501 - the edits are written as their users write them
"""Steps of several passes: what they share keeps all their gradients, and each loss counts as in the original."""

from __future__ import annotations

import pytest

from tests.by_hand import edited, judged

HEADS = """\
import torch
from torch import nn
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
heads = nn.ModuleList([nn.Linear(8, 1) for _ in range(3)])
opt = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=1e-2)
for n in range(40):
    x, y = torch.randn(6, 4), torch.randn(6, 3)
    features = body(x)
    opt.zero_grad()
    for k, head in enumerate(heads):
        loss = (head(features)[:, 0] - y[:, k]).pow(2).mean()
        loss.backward()
    opt.step()
"""
ACCUMULATED = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
total = 0
for i in range(160):
    total = total + nn.functional.cross_entropy(net(torch.randn(6, 4)), torch.randint(3, (6,))) / 4
    total.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
        total = 0
"""
DECODED = """\
import torch
from torch import nn
torch.manual_seed(0)
encoder, cell, out = nn.Linear(4, 6), nn.GRUCell(3, 6), nn.Linear(6, 3)
opt = torch.optim.SGD([*encoder.parameters(), *cell.parameters(), *out.parameters()], lr=1e-2)
for n in range(40):
    code = torch.tanh(encoder(torch.randn(5, 4)))
    words = torch.randn(4, 5, 3)
    state = torch.zeros(5, 6)
    opt.zero_grad()
    for word in words:
        state = cell(word, state)
        loss = (out(state * code) - word).pow(2).mean()
        loss.backward()
    opt.step()
"""
STATE = """\
import torch
from torch import nn
torch.manual_seed(0)
cell, out = nn.GRUCell(3, 6), nn.Linear(6, 3)
opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=1e-2)
for n in range(40):
    state = torch.zeros(5, 6)
    opt.zero_grad()
    for word in torch.randn(4, 5, 3):
        before = state
        state = cell(word, state)
        loss = (out(state) - word).pow(2).mean() + (state - before).pow(2).mean()
        loss.backward()
    opt.step()
"""
CRITIC = """\
import torch
from torch import nn
torch.manual_seed(0)
G, D = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
og, od = torch.optim.Adam(G.parameters(), lr=1e-2), torch.optim.Adam(D.parameters(), lr=1e-2)
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
"""
RIGHT = (("score = D(fake)", "score = D(fake.detach())"), ("loss_g = score", "loss_g = D(fake)"))
THAWED = ("og.step()", "og.step()\n    for p in D.parameters():\n        p.requires_grad_(True)")
LOSS = "        loss = (head(features)[:, 0] - y[:, k]).pow(2).mean()\n        loss.backward()\n"


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        (HEADS, (("loss.backward()", "loss.backward(retain_graph=k < 2)"),)),
        (HEADS, (("head(features)", "head(body(x))"),)),
        (HEADS, (("    for k", "    cut = features.detach().requires_grad_()\n    for k"),
                 ("head(features)", "head(cut)"), ("    opt.step()", "    features.backward(cut.grad)\n    opt.step()"))),
        (HEADS, (("    for k", "    parts = []\n    for k"), ("loss.backward()", "parts.append(loss)"),
                 ("    opt.step()", "    torch.autograd.backward(parts)\n    opt.step()"))),
        (ACCUMULATED, (("total = total + nn", "total = nn"),)),
        (ACCUMULATED, (("    total.backward()\n    if (i + 1) % 4 == 0:\n", "    if (i + 1) % 4 == 0:\n        total.backward()\n"),)),
        (DECODED, (("    for word", "    losses = 0\n    for word"), ("loss.backward()", "losses = losses + loss"),
                   ("    opt.step()", "    losses.backward()\n    opt.step()"))),
        (STATE, (("before = state", "before = state = state.detach()"),)),
        (STATE, (("        loss.backward()", "        loss.backward()\n        state = state.detach()"),)),
        (CRITIC, RIGHT),
        (CRITIC, (*RIGHT, ("loss_g =", "D.requires_grad_(False)\n    loss_g ="), ("og.step()", "og.step()\n    D.requires_grad_(True)"))),
        (CRITIC, (*RIGHT, ("    loss_g =", "    for p in D.parameters():\n        p.requires_grad = False\n    loss_g ="), THAWED)),
        (CRITIC, (("fake = G(torch.randn(8, 2))\n    score = D(fake)", "D.requires_grad_(True)\n    fake = G(torch.randn(8, 2))\n    score = D(fake.detach())"),
                  ("loss_g = score", "D.requires_grad_(False)\n    loss_g = D(fake)"))),
    ],
    ids=[
        "the graph is kept for the heads that follow",
        "the features are computed for each head",
        "the gradient of the features is handed on",
        "one pass for all losses",
        "each loss by itself",
        "one pass for the sum",
        "one pass for all words",
        "the state is cut before it is used",
        "the state is cut behind the pass",
        "the critic is asked again",
        "and frozen meanwhile",
        "parameter by parameter",
        "thawed at the beginning",
    ],
)  # fmt: skip
def test_right(text: str, edits: tuple[tuple[str, str], ...]) -> None:
    certificate = judged(text, edited(text, edits))
    assert certificate.proved, certificate.points


@pytest.mark.parametrize(
    ("text", "edits", "reason"),
    [
        (HEADS, (("head(features)", "head(features if k == 0 else features.detach())"),), "dropped"),
        (HEADS, (("loss.backward()", "loss.backward()\n        features = features.detach()"),), "dropped"),
        (HEADS, ((LOSS, f"        with torch.set_grad_enabled(k == 0):\n            own = features * 1\n{LOSS.replace('features', 'own')}"),), "dropped"),
        (DECODED, (("loss.backward()", "loss.backward()\n        code, state = code.detach(), state.detach()"),), "dropped"),
        (DECODED, (("word in words:", "word in words:\n        state = state.detach()"), ("state * code", "state * (code if word is words[0] else code.data)")), ""),
        (ACCUMULATED, (("    total.backward()\n    if (i + 1) % 4 == 0:\n", "    if (i + 1) % 4 == 0:\n        total.backward()\n"), (" / 4", "")), "scaled"),
        (ACCUMULATED, (("    total.backward()\n    if (i + 1) % 4 == 0:\n", "    if (i + 1) % 4 == 0:\n        total.backward()\n"), ("total + nn", "nn")), "changed"),
        (ACCUMULATED, (("total + nn", "nn"), ("(i + 1) % 4 == 0", "i > -1")), "draws random numbers"),
        (CRITIC, (*RIGHT, ("D(fake).pow", "D(fake.detach()).pow"), ("loss_g =", "D.requires_grad_(False)\n    loss_g = 0.01 * fake.sum() +"), ("og.step()", "og.step()\n    D.requires_grad_(True)")), ""),
    ],
    ids=[
        "the features are cut for all heads but the first",
        "the features are cut behind the first pass",
        "the features have no graph",
        "the code is cut behind the first pass",
        "the code is cut for all words but the first",
        "the losses are no longer divided",
        "the last loss alone",
        "a step for each loss",
        "the critic is frozen, and the generator cut",
    ],
)  # fmt: skip
def test_wrong(text: str, edits: tuple[tuple[str, str], ...], reason: str) -> None:
    certificate = judged(text, edited(text, edits))
    assert not certificate.proved
    assert reason in certificate.points[4].detail, certificate.points
