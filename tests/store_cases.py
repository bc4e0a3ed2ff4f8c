# ruff: noqa: E501 - the scripts are written as their users write them
"""Stores that are never emptied, caches, closures, stages and weights that are moved by hand: patches right and wrong."""

from __future__ import annotations

from tests.proof_cases import Case, Patch

ACCUMULATED = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
losses = []
for i in range(80):
    x, y = torch.randn(8, 6), torch.randint(2, (8,))
    losses.append(nn.functional.cross_entropy(net(x), y))
    if i % 4 == 3:
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
EMPTIED = ("        optimizer.step()\n", "        optimizer.step()\n        losses.clear()\n")

EPISODES = """\
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(1)
policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
log_probs, rewards = [], []
for episode in range(30):
    for _ in range(int(torch.randint(4, 9, ()))):
        choice = Categorical(logits=policy(torch.randn(4)))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        rewards.append(float(action) - 0.3)
    loss = torch.stack([-lp * r for lp, r in zip(log_probs, rewards)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rewards.clear()
"""

ADAPTED = """\
import torch
from torch import nn

torch.manual_seed(2)
meta = [(0.3 * torch.randn(s)).requires_grad_() for s in ((1, 8), (8,), (8, 1), (1,))]
optimizer = torch.optim.Adam(meta, lr=3e-3)

def forward(x, p):
    return torch.tanh(x @ p[0] + p[1]) @ p[2] + p[3]

fast = meta
for it in range(40):
    x = torch.randn(10, 1)
    y = torch.sin(x + torch.rand(1))
    loss = (forward(x, fast) - y).pow(2).mean()
    grads = torch.autograd.grad(loss, fast, create_graph=True)
    fast = [p - 0.05 * g for p, g in zip(fast, grads)]
    optimizer.zero_grad()
    (forward(x, fast) - y).pow(2).mean().backward()
    optimizer.step()
"""

CACHED = """\
import torch
from torch import nn

class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.freqs, self.cached = nn.Parameter(torch.linspace(0.1, 1, 4)), None
    def forward(self, n):
        if self.cached is None or len(self.cached) < n:
            self.cached = (torch.arange(n).float()[:, None] * self.freqs).cos()
        return self.cached[:n]

torch.manual_seed(3)
table, net = Table(), nn.Linear(4, 4)
optimizer = torch.optim.AdamW([*table.parameters(), *net.parameters()], lr=1e-2)
for step in range(40):
    x = torch.randn(16, 5, 4)
    q, k = net(x) * table(5), x * table(5)
    loss = (q - k).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

CLOSURE = """\
import torch
from torch import nn

torch.manual_seed(4)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.linspace(-1, 1, 20).view(-1, 1).requires_grad_()
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=8)
for outer in range(5):
    du = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
    inner = (du - torch.cos(x)).pow(2).mean()
    edge = net(torch.zeros(1, 1)).pow(2).mean()

    def closure():
        optimizer.zero_grad()
        loss = inner + edge
        loss.backward()
        return loss

    optimizer.step(closure)
"""
DU = "    du = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]\n"
INNER = "    inner = (du - torch.cos(x)).pow(2).mean()\n"
EDGE = "    edge = net(torch.zeros(1, 1)).pow(2).mean()\n"
IN_CLOSURE = "        optimizer.zero_grad()\n"

STAGES = """\
import torch
from torch import nn

torch.manual_seed(5)
body, scale = nn.Linear(6, 3), nn.Parameter(torch.zeros(()))
optimizers = [torch.optim.Adam(body.parameters(), lr=1e-2), torch.optim.SGD([scale], lr=0.1)]
for stage in range(2):
    body.requires_grad_(stage == 0)
    for step in range(12):
        x, y = torch.randn(16, 6), torch.randint(3, (16,))
        loss = nn.functional.cross_entropy(body(x) / scale.exp(), y)
        if stage:
            loss = torch.tensor(loss.item())
        optimizers[stage].zero_grad()
        loss.backward()
        optimizers[stage].step()
"""

PENALTY = """\
import torch
from torch import nn

torch.manual_seed(6)
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(40):
    x = torch.randn(16, 3, requires_grad=True)
    score = critic(x)
    slope, = torch.autograd.grad(score, x, create_graph=True)
    loss = score.mean() + (slope.norm(dim=1) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

ASCENT = """\
import torch
from torch import nn

torch.manual_seed(7)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(40):
    x = torch.randn(16, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        moves = [0.05 * p.grad for p in net.parameters()]
        for p, move in zip(net.parameters(), moves):
            p.add_(move)
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p, move in zip(net.parameters(), moves):
            p.sub_(move)
    optimizer.step()
"""
LOSS = "    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()\n"
SECOND = "    optimizer.zero_grad()\n    loss.backward()\n    with torch.no_grad():\n        for p, move in zip(net.parameters(), moves):\n            p.sub_(move)\n"

NORMALISED = """\
import torch
from torch import nn

class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5))
    def renorm(self):
        with torch.no_grad():
            self.weight.copy_(nn.functional.normalize(self.weight, dim=1))
    def forward(self, z):
        self.renorm()
        return z @ self.weight.t()

torch.manual_seed(8)
net, prototypes = nn.Linear(7, 5), Prototypes()
optimizer = torch.optim.SGD([*net.parameters(), *prototypes.parameters()], lr=0.1)
for step in range(40):
    x = torch.randn(16, 7)
    first, second = prototypes(net(x)), prototypes(net(x + 0.1))
    loss = -(first.log_softmax(1) * second.softmax(1)).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

CASES = (
    Case(
        "losses that are collected and never let go",
        ACCUMULATED,
        (
            Patch("the store is emptied after the step", True, (EMPTIED,), (5, "afresh")),
            Patch("emptied, and a third of the loss", False, (EMPTIED, ("        loss = torch.stack(losses).mean()\n", "        loss = torch.stack(losses).mean() / (1 if i == 3 else 3)\n")), (5, "times the reference")),
            Patch("the losses are detached", False, (("net(x), y))", "net(x), y).detach())"),), (2, "does not require grad")),
            Patch("only the newest loss is kept", False, (("        loss = torch", "        losses = losses if i == 3 else losses[-1:]\n        loss = torch"),)),
        ),
    ),
    Case(
        "losses that are added one by one, each further down than before",
        ACCUMULATED.replace("torch.stack(losses).mean()", "sum(losses) / len(losses)"),
        (
            Patch("the store is emptied after the step", True, (EMPTIED,), (5, "afresh")),
            Patch("the store is emptied, the losses detached but one", False, (EMPTIED, ("sum(losses)", "sum(losses[:-1]).detach() + losses[-1]"))),
        ),
    ),
    Case(
        "episodes whose log-probabilities are not thrown away",
        EPISODES,
        (Patch("they are, with the rewards", True, (("    rewards.clear()\n", "    rewards.clear()\n    log_probs.clear()\n"),), (5, "afresh")),),
    ),
    Case(
        "adapted weights that are carried on",
        ADAPTED,
        (
            Patch("every iteration adapts the weights that are trained", True, (("    x = torch.randn(10, 1)\n", "    x = torch.randn(10, 1)\n    fast = meta\n"),)),
            Patch("the adapted weights are detached", False, (("    x = torch.randn(10, 1)\n", "    x = torch.randn(10, 1)\n    fast = [p.detach().requires_grad_() for p in fast] if it else fast\n"),), (4, "gets no gradient")),
        ),
    ),
    Case(
        "a table of a parameter that is computed once",
        CACHED,
        (
            Patch("it is computed anew", True, (("if self.cached is None or len(self.cached) < n", "if True"),), (5, "recomputed")),
            Patch("it is detached after the step", False, (("    optimizer.step()\n", "    optimizer.step()\n    table.cached = table.cached.detach()\n"),), (4, "gets no gradient any more")),
        ),
    ),
    Case(
        "a closure that computes nothing",
        CLOSURE,
        (
            Patch("it computes all of the loss", True, ((DU, ""), (INNER, ""), (EDGE, ""), (IN_CLOSURE, IN_CLOSURE + "    " + DU + "    " + INNER + "    " + EDGE)), (5, "exact")),
            Patch("a part of the loss stays behind, detached", False, ((EDGE, ""), ("loss = inner + edge", EDGE.strip() + "\n        loss = inner.detach() + edge"))),
        ),
    ),
    Case(
        "a second stage in which the first one's network is frozen",
        STAGES,
        (
            Patch("the loss keeps its graph", True, (("            loss = torch.tensor(loss.item())\n", "            pass\n"),)),
            Patch("it gets a graph of its own", False, (("torch.tensor(loss.item())", "torch.tensor(loss.item(), requires_grad=True)"),)),
        ),
    ),
    Case(
        "the slopes of a vector",
        PENALTY,
        (
            Patch("each element's own", True, (("grad(score, x", "grad(score.sum(), x"),), (5, "exact")),
            Patch("of the mean", False, (("grad(score, x", "grad(score.mean(), x"),), (5, "changed")),
        ),
    ),
    Case(
        "weights that are moved before a second pass",
        ASCENT,
        (
            Patch("the loss is computed anew", True, ((SECOND, SECOND.replace("    loss.backward()\n", LOSS + "    loss.backward()\n")),)),
            Patch("they are not moved any more", False, (("            p.add_(move)\n", "            p = p.add(move)\n"), (SECOND, SECOND.replace("            p.sub_(move)\n", "            p = p.sub(move)\n")), ("    loss.backward()\n    with torch.no_grad():\n        moves", "    loss.backward(retain_graph=True)\n    with torch.no_grad():\n        moves")), (4, "is no longer changed outside of its optimizer")),
        ),
    ),
    Case(
        "weights that are moved, and moved back by a method of their own",
        ASCENT,
        (Patch("they are only moved back", False, (("            p.add_(move)\n", "            p = p.add(move)\n"), ("    loss.backward()\n    with torch.no_grad():\n        moves", "    loss.backward(retain_graph=True)\n    with torch.no_grad():\n        moves")), (4, "is no longer changed outside of its optimizer")),),
    ),
    Case(
        "weights that are normalised before every use",
        NORMALISED,
        (Patch("once for each step", True, (("        self.renorm()\n", ""), ("    first, second", "    prototypes.renorm()\n    first, second")), (3, "equal up to rounding")),),
    ),
)  # fmt: skip
