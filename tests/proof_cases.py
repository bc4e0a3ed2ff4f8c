# ruff: noqa: E501 - the scripts are written as their users write them
"""Training scripts as users write them, each with patches that are right and patches that are tempting and wrong."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """``edits`` replace pieces of the script; ``right`` says whether the proof must pass.

    ``reason`` is a piece of the text that the certificate must have, with the number of its point.
    """

    what: str
    right: bool
    edits: tuple[tuple[str, str], ...]
    reason: tuple[int, str] = (0, "")


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    patches: tuple[Patch, ...]
    own: tuple[int, ...] = ()
    """The lines of passes that train parameters by the way for which there are other passes."""


GATED = """\
import torch
torch.manual_seed(0)
raw, head = torch.zeros(5, requires_grad=True), torch.ones(5, requires_grad=True)
for t in range(30):
    gate = torch.sigmoid(raw)
    gate += 0.1
    loss = (torch.randn(8, 5) * gate * head).pow(2).mean()
"""
BEFORE_THE_STEP = """\
import torch
from torch import nn
torch.manual_seed(0)
cell, head = nn.Linear(3, 6), nn.Linear(6, 1)
params = [*cell.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
h = torch.zeros(4, 6)
for t in range(30):
    x = torch.randn(4, 3)
    h = 0.9 * h + torch.tanh(cell(x))
    loss = (head(h) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
STEP
"""
STEPS = {
    "clipped by the norm of all of them": """\
loss.backward()
nn.utils.clip_grad_norm_(params, 0.1)
opt.step()
""",
    "clamped by hand": """\
loss.backward()
for p in params:
    if p.grad is not None:
        p.grad.data.clamp_(-0.01, 0.01)
opt.step()
""",
    "scaled back by a scaler": """\
scaler.scale(loss).backward()
scaler.unscale_(opt)
scaler.step(opt)
scaler.update()
""",
    "divided by the size of the batch": """\
(loss * 4).backward()
for group in opt.param_groups:
    for p in group["params"]:
        if p.grad is not None:
            p.grad = p.grad / 4
opt.step()
""",
}
"""Ways in which a script changes its gradients before the step."""

CASES = (
    Case(
        "a target network with an optimizer that makes no step",
        """\
import torch
from torch import nn
torch.manual_seed(0)
class Value(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 6), nn.Linear(6, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
value, target, scale = Value(), Value(), nn.Linear(3, 1)
other = torch.optim.SGD(scale.parameters(), lr=1e-2)
for t in range(12):
    x = torch.randn(8, 3)
    goal = target.last(torch.tanh(target.first(x))) + scale(x)
    h = torch.tanh(value.first(x))
    if t > 2:
        h += 0.1
    loss = (value.last(h) - goal).pow(2).mean()
    value.optimizer.zero_grad()
    other.zero_grad()
    loss.backward()
    value.optimizer.step()
    other.step()
""",
        (
            Patch(
                "the goal is a constant for the target network",
                True,
                (("h += 0.1", "h = h + 0.1"), ("target.first(x)))", "target.first(x))).detach()")),
            ),
            Patch(
                "and for what a step trains, too",
                False,
                (("h += 0.1", "h = h + 0.1"), ("scale(x)\n", "scale(x).detach()\n")),
            ),
        ),
    ),
    Case(
        "inputs that are looked for after training",
        """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 4), nn.SiLU(), nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(16, 2)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
@torch.no_grad()
def attack(x, steps=3):
    for _ in range(steps):
        x = x.detach().requires_grad_()
        slope = torch.autograd.grad(net(x).sum(), x)[0]
        x = x + 0.1 * slope.sign()
    return x
print(net(attack(torch.randn(8, 2))).mean().item())
""",
        (
            Patch("the search is recorded", True, (("@torch.no_grad()\n", ""),)),
            Patch("nothing is searched", False, (("torch.autograd.grad(net(x).sum(), x)[0]", "torch.zeros_like(x)"),)),
        ),
    ),
    Case(
        "adversarial network",
        """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=50)
parser.add_argument("--latent", type=int, default=8)
opt = parser.parse_args()

class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(opt.latent, 32), nn.BatchNorm1d(32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 16), nn.Tanh())
    def forward(self, z):
        return self.net(z)

class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.3), nn.Linear(32, 1), nn.Sigmoid())
    def forward(self, x):
        return self.net(x)

def main():
    loader = DataLoader(TensorDataset(torch.randn(256, 16)), batch_size=32, shuffle=True)
    G, D = Generator(), Discriminator()
    criterion = nn.BCELoss()
    optG = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for epoch in range(opt.epochs):
        for i, (real,) in enumerate(loader):
            valid = torch.ones(real.size(0), 1)
            fake = torch.zeros(real.size(0), 1)
            z = torch.randn(real.size(0), opt.latent)
            gen = G(z)
            optD.zero_grad()
            real_loss = criterion(D(real), valid)
            d_fake = D(gen)
            fake_loss = criterion(d_fake, fake)
            d_loss = (real_loss + fake_loss) / 2
            d_loss.backward()
            optD.step()
            optG.zero_grad()
            g_loss = criterion(d_fake, valid)
            g_loss.backward()
            optG.step()
        print(epoch, d_loss.item(), g_loss.item())
main()
""",
        (
            Patch(
                "the discriminator's output is asked anew",
                True,
                (
                    ("D(gen)", "D(gen.detach())"),
                    ("g_loss = criterion(d_fake, valid)", "g_loss = criterion(D(gen), valid)"),
                ),
            ),
            Patch(
                "retain_graph dies at the next pass",
                False,
                (("d_loss.backward()", "d_loss.backward(retain_graph=True)"),),
            ),
            Patch(
                "the generator's loss is detached",
                False,
                (("g_loss = criterion(d_fake, valid)", "g_loss = criterion(d_fake.detach(), valid)"),),
            ),
            Patch(
                "a detached loss that claims to require grad",
                False,
                (
                    ("d_loss.backward()", "d_loss.backward(retain_graph=True)"),
                    ("criterion(d_fake, valid)", "criterion(d_fake.detach().requires_grad_(), valid)"),
                ),
            ),
            Patch(
                "the generator's pass pollutes the discriminator's gradients",
                False,
                (
                    ("            g_loss = criterion(d_fake, valid)\n", ""),
                    (
                        "            d_loss.backward()\n",
                        "            g_loss = criterion(d_fake, valid)\n            d_loss.backward(retain_graph=True)\n            optG.zero_grad()\n            g_loss.backward()\n",
                    ),
                    (
                        "            optG.zero_grad()\n            g_loss.backward()\n            optG.step()",
                        "            optG.step()",
                    ),
                ),
            ),
        ),
    ),
    Case(
        "actor-critic with an advantage",
        """\
import torch
from torch import nn
from torch.distributions import Categorical
import numpy as np

class Env:
    def __init__(self): self.rng = np.random.default_rng(0)
    def reset(self): self.t = 0; return self.rng.standard_normal(4).astype(np.float32)
    def step(self, a):
        self.t += 1
        return self.rng.standard_normal(4).astype(np.float32), float(a) * 0.1, self.t >= 10, {}

actor = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=-1))
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
env = Env()
for episode in range(100):
    state = torch.from_numpy(env.reset())
    done = False
    while not done:
        dist = Categorical(actor(state))
        action = dist.sample()
        nxt, reward, done, _ = env.step(action.item())
        nxt = torch.from_numpy(nxt)
        target = reward + 0.99 * critic(nxt) * (1 - done)
        advantage = target - critic(state)
        critic_loss = advantage.pow(2).mean()
        opt_c.zero_grad()
        critic_loss.backward()
        opt_c.step()
        actor_loss = -(dist.log_prob(action) * advantage).mean()
        opt_a.zero_grad()
        actor_loss.backward()
        opt_a.step()
        state = nxt
""",
        (
            Patch(
                "the advantage is detached for the actor",
                True,
                (("log_prob(action) * advantage)", "log_prob(action) * advantage.detach())"),),
            ),
            Patch(
                "retain_graph dies at the next pass",
                False,
                (("critic_loss.backward()", "critic_loss.backward(retain_graph=True)"),),
            ),
            Patch(
                "the actor's loss is detached",
                False,
                (
                    (
                        "dist.log_prob(action) * advantage)",
                        "(dist.log_prob(action) * advantage).detach().requires_grad_())",
                    ),
                ),
            ),
        ),
    ),
    Case(
        "language model by chunks",
        """\
import torch
from torch import nn
torch.manual_seed(11)
class LM(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.drop = nn.Dropout(0.2)
        self.rnn = nn.LSTM(dim, dim, 2, dropout=0.1)
        self.out = nn.Linear(dim, vocab)
    def forward(self, x, hidden):
        e = self.drop(self.emb(x))
        o, hidden = self.rnn(e, hidden)
        return self.out(self.drop(o)), hidden
    def init_hidden(self, b):
        w = next(self.parameters())
        return w.new_zeros(2, b, 16), w.new_zeros(2, b, 16)
data = torch.randint(0, 20, (350, 4))
model = LM()
opt = torch.optim.SGD(model.parameters(), lr=1.0)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.9)
crit = nn.CrossEntropyLoss()
for epoch in range(4):
    hidden = model.init_hidden(4)
    total = 0.
    for i in range(0, 349, 35):
        x, y = data[i:i + 34], data[i + 1:i + 35]
        model.train()
        opt.zero_grad()
        out, hidden = model(x, hidden)
        loss = crit(out.view(-1, 20), y.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        total += loss.item()
    sched.step()
""",
        (
            Patch(
                "the hidden state is detached at the start of a chunk",
                True,
                (
                    (
                        "        opt.zero_grad()",
                        "        hidden = tuple(h.detach() for h in hidden)\n        opt.zero_grad()",
                    ),
                ),
            ),
            Patch(
                "retain_graph dies after the step",
                False,
                (("        loss.backward()", "        loss.backward(retain_graph=True)"),),
            ),
            Patch(
                "the hidden state is not carried any more",
                False,
                (("out, hidden = model(x, hidden)", "out, _ = model(x, hidden)"),),
            ),
        ),
    ),
    Case(
        "policy gradient",
        """\
import torch
from torch import nn
from torch.distributions import Categorical
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 32)
        self.dropout = nn.Dropout(p=0.6)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs = []
        self.rewards = []
    def forward(self, x):
        return torch.softmax(self.affine2(torch.relu(self.dropout(self.affine1(x)))), dim=1)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
def select_action(state):
    probs = policy(state.unsqueeze(0))
    m = Categorical(probs)
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()
def finish_episode():
    R, returns, loss = 0, [], []
    for r in policy.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    for lp, R in zip(policy.saved_log_probs, returns):
        loss.append(-lp * R)
    optimizer.zero_grad()
    loss = torch.cat(loss).sum()
    loss.backward()
    optimizer.step()
    del policy.rewards[:]
for episode in range(60):
    for t in range(8):
        a = select_action(torch.randn(4))
        policy.rewards.append(float(a) + t)
    finish_episode()
""",
        (
            Patch(
                "the log-probabilities are cleared after the episode",
                True,
                (("    del policy.rewards[:]", "    del policy.rewards[:]\n    del policy.saved_log_probs[:]"),),
            ),
            Patch(
                "the log-probabilities are stored without graph",
                False,
                (
                    (
                        "policy.saved_log_probs.append(m.log_prob(action))",
                        "policy.saved_log_probs.append(m.log_prob(action).detach())",
                    ),
                ),
            ),
        ),
    ),
    Case(
        "graph embeddings",
        """\
import torch
from torch import nn
torch.manual_seed(0)
users, items = nn.Embedding(30, 8), nn.Embedding(40, 8)
gcn = nn.Linear(8, 8)
opt = torch.optim.AdamW([*users.parameters(), *items.parameters(), *gcn.parameters()], lr=0.01)
adj = torch.softmax(torch.randn(70, 70), 1)
allemb = gcn(adj @ torch.cat([users.weight, items.weight]))
for step in range(100):
    u, i, j = torch.randint(30, (16,)), torch.randint(40, (16,)) + 30, torch.randint(40, (16,)) + 30
    pos = (allemb[u] * allemb[i]).sum(1)
    neg = (allemb[u] * allemb[j]).sum(1)
    loss = -nn.functional.logsigmoid(pos - neg).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            Patch(
                "the embeddings are computed in the loop",
                True,
                (
                    ("allemb = gcn(adj @ torch.cat([users.weight, items.weight]))\n", ""),
                    ("    u, i, j", "    allemb = gcn(adj @ torch.cat([users.weight, items.weight]))\n    u, i, j"),
                ),
            ),
            Patch(
                "the embeddings lose their graph",
                False,
                (
                    (
                        "allemb = gcn(adj @ torch.cat([users.weight, items.weight]))\n",
                        "with torch.no_grad():\n    allemb = gcn(adj @ torch.cat([users.weight, items.weight]))\n",
                    ),
                ),
            ),
            Patch(
                "retain_graph dies after the step",
                False,
                (("    loss.backward()", "    loss.backward(retain_graph=True)"),),
            ),
        ),
    ),
    Case(
        "memory bank",
        """\
import torch
from collections import deque
from torch import nn
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
bank = deque(maxlen=5)
losses = []
for it in range(200):
    x = torch.randn(8, 6)
    q = nn.functional.normalize(net(x), dim=1)
    k = nn.functional.normalize(net(x + 0.01 * torch.randn_like(x)), dim=1)
    pos = (q * k).sum(1, keepdim=True)
    if bank:
        neg = q @ torch.cat(list(bank)).t()
        logits = torch.cat([pos, neg], 1) / 0.1
    else:
        logits = torch.cat([pos, -pos], 1) / 0.1
    loss = nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    opt.zero_grad(); loss.backward(); opt.step()
    bank.append(k)
    losses.append(loss)
""",
        (
            Patch(
                "the keys are stored without graph",
                True,
                (("bank.append(k)", "bank.append(k.detach())"),),
            ),
            Patch(
                "the keys train no more",
                False,
                (
                    (
                        "k = nn.functional.normalize(net(x + 0.01 * torch.randn_like(x)), dim=1)",
                        "with torch.no_grad():\n        k = nn.functional.normalize(net(x + 0.01 * torch.randn_like(x)), dim=1)",
                    ),
                ),
            ),
        ),
    ),
    Case(
        "Wasserstein critic with a gradient penalty",
        """\
import torch
from torch import nn
torch.manual_seed(5)
G, D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
oG, oD = torch.optim.RMSprop(G.parameters(), 1e-3), torch.optim.RMSprop(D.parameters(), 1e-3)
def penalty(real, fake):
    a = torch.rand(real.size(0), 1)
    x = (a * real + (1 - a) * fake).requires_grad_(True)
    g, = torch.autograd.grad(D(x).sum(), x, create_graph=True)
    return ((g.norm(2, dim=1) - 1) ** 2).mean()
for it in range(100):
    real = torch.randn(16, 3) + 2
    fake = G(torch.randn(16, 4))
    for _ in range(3):
        oD.zero_grad()
        loss = D(fake).mean() - D(real).mean() + 10 * penalty(real, fake.detach())
        loss.backward()
        oD.step()
    oG.zero_grad()
    (-D(fake).mean()).backward()
    oG.step()
""",
        (
            Patch(
                "the critic takes the samples without graph",
                True,
                (("D(fake).mean() - D(real)", "D(fake.detach()).mean() - D(real)"),),
            ),
        ),
    ),
    Case(
        "loss without graph",
        """\
import torch
from torch import nn
net = nn.Linear(4, 3)
opt = torch.optim.Adam(net.parameters())
for it in range(40):
    x, y = torch.randn(8, 4), torch.randint(3, (8,))
    out = net(x).detach()
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            Patch(
                "the output keeps its graph",
                True,
                (("net(x).detach()", "net(x)"),),
            ),
            Patch(
                "the detached output claims to require grad",
                False,
                (("net(x).detach()", "net(x).detach().requires_grad_()"),),
            ),
        ),
    ),
    Case(
        "target network",
        """\
import torch
from torch import nn
net, target = nn.Linear(4, 3), nn.Linear(4, 3)
opt = torch.optim.Adam(net.parameters())
for it in range(40):
    x = torch.randn(8, 4)
    with torch.no_grad():
        y = target(x) + 1
    loss = (net(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for p, t in zip(net.parameters(), target.parameters()):
        t.mul_(0.99).add_(0.01 * p)
""",
        (
            Patch(
                "the target network moves under no_grad",
                True,
                (("    for p, t", "    with torch.no_grad():\n      for p, t"),),
            ),
        ),
    ),
    Case(
        "running total",
        """\
import torch
from torch import nn
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
total = 0
for it in range(40):
    x = torch.randn(8, 4)
    loss = net(x).pow(2).mean()
    total += loss
    opt.zero_grad()
    total.backward()
    opt.step()
print(total.item())
""",
        (
            Patch(
                "the sum is a number",
                True,
                (
                    ("total += loss", "total += loss.item()"),
                    ("total.backward()", "loss.backward()"),
                    ("total.item()", "total"),
                ),
            ),
            Patch(
                "the sum is detached",
                True,
                (("total += loss", "total = total.detach() + loss if it else loss"),),
            ),
        ),
    ),
    Case(
        "two losses",
        """\
import torch
from torch import nn
net = nn.Linear(4, 1)
aux = nn.Linear(4, 4)
opt = torch.optim.SGD([*net.parameters(), *aux.parameters()], lr=0.01)
for it in range(40):
    opt.zero_grad()
    x = torch.randn(8, 4)
    h = torch.tanh(aux(x))
    l1 = net(h).pow(2).mean()
    l1.backward()
    l2 = (net(h) - 1).abs().mean()
    l2.backward()
    opt.step()
""",
        (
            Patch(
                "one pass over the sum",
                True,
                (
                    ("    l1.backward()\n", ""),
                    ("l2.backward()", "(l1 + l2).backward()"),
                ),
            ),
            Patch(
                "the first pass keeps the graph that the second shares",
                True,
                (("l1.backward()", "l1.backward(retain_graph=True)"),),
            ),
            Patch(
                "the second loss is cut off from the shared part",
                False,
                (("l2 = (net(h)", "l2 = (net(h.detach())"),),
            ),
            Patch(
                "the second loss is dropped",
                False,
                (("    l2.backward()\n", ""),),
            ),
        ),
    ),
    Case(
        "in-place arithmetic in forward",
        """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 8)
        self.act = nn.ReLU(inplace=True)
        self.out = nn.Linear(8, 2)
    def forward(self, x):
        h = torch.sigmoid(self.a(x))
        r = self.act(h - 0.5) * h
        h -= self.b(r)
        return self.out(h)
net = Net()
opt = torch.optim.Adam(net.parameters())
for it in range(30):
    x, y = torch.randn(16, 4), torch.randint(2, (16,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            Patch(
                "the value is no longer overwritten",
                True,
                (("h -= self.b(r)", "h = h - self.b(r)"),),
            ),
            Patch(
                "a copy comes too early",
                False,
                (("h = torch.sigmoid(self.a(x))", "h = torch.sigmoid(self.a(x)).clone()"),),
            ),
        ),
    ),
    Case(
        "trainer class",
        """\
import torch
from torch import nn
class Module(nn.Module):
    def training_step(self, batch, i): raise NotImplementedError
    def configure_optimizers(self): raise NotImplementedError
class Trainer:
    def __init__(self, max_epochs=5): self.max_epochs = max_epochs; self.callbacks = []
    def fit(self, module, loader):
        opt = module.configure_optimizers()
        for e in range(self.max_epochs):
            for i, batch in enumerate(loader):
                loss = module.training_step(batch, i)
                opt.zero_grad(set_to_none=False)
                loss.backward()
                opt.step()
class Model(Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.GRUCell(5, 7)
        self.head = nn.Linear(7, 1)
        self.cache = {}
    def training_step(self, batch, i):
        x, y = batch
        h = self.cache.get("h")
        h = self.enc(x, h)
        self.cache["h"] = h
        return nn.functional.mse_loss(self.head(h), y)
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)
Trainer(10).fit(Model(), [(torch.randn(3, 5), torch.randn(3, 1)) for _ in range(10)])
""",
        (
            Patch(
                "the cached state is detached",
                True,
                (('self.cache["h"] = h\n', 'self.cache["h"] = h.detach()\n'),),
            ),
            Patch(
                "the cache is not read any more",
                False,
                (('h = self.cache.get("h")', "h = None"),),
            ),
            Patch(
                "the encoder is cut off",
                False,
                (
                    ("self.head(h)", "self.head(h.detach())"),
                    ('self.cache["h"] = h\n', 'self.cache["h"] = h.detach()\n'),
                ),
            ),
        ),
    ),
    Case(
        "recurrence trained in chunks",
        """\
import torch
from torch import nn
torch.manual_seed(0)
cell, head = nn.GRUCell(3, 6), nn.Linear(6, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
h = torch.zeros(4, 6)
loss = 0
for t in range(200):
    x = torch.randn(4, 3)
    h = cell(x, h)
    loss = loss + (head(h) - x.sum(1, keepdim=True)).pow(2).mean()
    if (t + 1) % 5 == 0:
        opt.zero_grad()
        loss.backward()
        opt.step()
        loss = 0
""",
        (
            Patch(
                "the state is detached between the chunks",
                True,
                (("        loss = 0\n", "        loss = 0\n        h = h.detach()\n"),),
            ),
            Patch(
                "the state is detached within the chunks",
                False,
                (("h = cell(x, h)", "h = cell(x, h.detach())"),),
            ),
        ),
    ),
    Case(
        "an advantage that weighs the likelihoods of a policy, in two passes for one step of both",
        """\
import torch
from torch import nn
torch.manual_seed(1)
policy, critic = nn.Linear(3, 2), nn.Linear(3, 1)
opts = [torch.optim.SGD(one.parameters(), lr=1e-2) for one in (policy, critic)]
for t in range(6):
    s, goal = torch.randn(8, 3), torch.randn(8)
    dist = torch.distributions.Categorical(logits=policy(s))
    gap = goal - critic(s).squeeze(1)
    first = -(dist.log_prob(dist.sample()) * gap).mean()
    second = gap.pow(2).mean()
    for opt in opts:
        opt.zero_grad()
    first.backward()
    second.backward()
    for opt in opts:
        opt.step()
""",
        (
            Patch("it weighs them as a number", True, (("* gap)", "* gap.detach())"),)),
            Patch("the graph is kept", True, (("first.backward()", "first.backward(retain_graph=True)"),)),
            Patch(
                "the critic has half of its loss",
                False,
                (("* gap)", "* gap.detach())"), ("second = gap", "second = 0.5 * gap")),
                (5, "changed"),
            ),
            Patch(
                "the policy learns, and the critic no longer",
                False,
                (
                    ("second = gap", "second = gap.detach()"),
                    ("second.backward()", "second.requires_grad_().backward()"),
                ),
                (5, "changed"),
            ),
        ),
        own=(14,),
    ),
    Case(
        "experts of a mixture that take turns, while a stale term trains them all",
        """\
import torch
from torch import nn
torch.manual_seed(1)
stem, experts = nn.Linear(3, 3), nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
opt = torch.optim.Adam([*stem.parameters(), *experts.parameters()], lr=1e-2)
charges = []
for t in range(60):
    x = torch.randn(8, 3)
    out = experts[t // 6 % 2](stem(x))
    charges.append(out.pow(2).mean())
    due = charges.copy()
    loss = (out - x.flip(1)).pow(2).mean() + 0.1 * torch.stack(due).sum()
    due.clear()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            Patch("the store is emptied", True, (("due.clear", "charges.clear"),)),
            Patch(
                "and one expert is left out after its first turn",
                False,
                (("due.clear", "charges.clear"), ("(stem(x))", "(stem(x)) if t % 12 > 5 or t < 6 else stem(x)")),
                (4, "gets no gradient after step"),
            ),
        ),
    ),
    Case(
        "L-BFGS arrives before it is stopped",
        """\
import torch
torch.manual_seed(0)
points = torch.linspace(0.5, 8.0, 24)
seen = 6 * points / (2 + points)
guess = torch.zeros(2, requires_grad=True)
opt = torch.optim.LBFGS([guess], lr=0.5, max_iter=8)
for round in range(16):
    top, half = guess.exp()
    loss = (top * points / (half + points) - seen).pow(2).mean()
    def closure():
        opt.zero_grad()
        loss.backward()
        return loss
    opt.step(closure)
""",
        (
            Patch(
                "the closure computes the loss",
                True,
                (
                    ("    top, half = guess.exp()\n", ""),
                    ("    loss = (top * points / (half + points) - seen).pow(2).mean()\n", ""),
                    (
                        "        loss.backward()\n",
                        "        top, half = guess.exp()\n"
                        "        loss = (top * points / (half + points) - seen).pow(2).mean()\n"
                        "        loss.backward()\n",
                    ),
                ),
            ),
            Patch(
                "one round is all that it gets",
                False,
                (
                    ("    top, half = guess.exp()\n", "    if round > 0: guess.requires_grad_(False)\n"),
                    ("    loss = (top * points / (half + points) - seen).pow(2).mean()\n", ""),
                    (
                        "        loss.backward()\n",
                        "        top, half = guess.exp()\n"
                        "        loss = (top * points / (half + points) - seen).pow(2).mean()\n"
                        "        if round < 1: loss.backward()\n",
                    ),
                ),
            ),
        ),
    ),
    Case(
        "heads on a trunk that computes in half precision",
        """\
import torch
from torch import nn
torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 32), nn.ELU(), nn.Linear(32, 32), nn.ELU())
heads = nn.ModuleList(nn.Linear(32, 1) for _ in range(3))
opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=1e-2)
for t in range(30):
    x = torch.randn(16, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shared = trunk(x)
        losses = [(head(shared).float() - x[:, i : i + 1]).pow(2).mean() for i, head in enumerate(heads)]
    opt.zero_grad()
    for loss in losses:
        loss.backward()
    opt.step()
""",
        (
            Patch("one pass for the sum", True, (("    for loss in losses:\n        loss", "    sum(losses)"),)),
            Patch(
                "and one of the losses is left out",
                False,
                (("    for loss in losses:\n        loss", "    sum(losses[1:])"),),
            ),
            Patch(
                "one pass for the mean",
                False,
                (("    for loss in losses:\n        loss", "    (sum(losses) / 3)"),),
                (5, "0.333 times the reference"),
            ),
        ),
    ),
    Case(
        "whole updates by a helper, the first of which spoils the second",
        """\
import torch
from torch import nn
torch.manual_seed(0)
critic, actor = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(3, 2)
critics = torch.optim.SGD(critic.parameters(), lr=1e-2)
actors = torch.optim.SGD(actor.parameters(), lr=1e-2)
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for t in range(30):
    x, done = torch.randn(8, 3), torch.randn(8, 2)
    error = (critic(torch.cat([x, done], 1)) - x.sum(1, keepdim=True)).pow(2).mean()
    cost = -critic(torch.cat([x, actor(x)], 1)).mean()
    update(critics, error)
    update(actors, cost)
""",
        (
            Patch(
                "the second comes first",
                True,
                (
                    ("    update(critics, error)\n", ""),
                    ("    update(actors, cost)\n", "    update(actors, cost)\n    update(critics, error)\n"),
                ),
                (3, "which come in another order"),
            ),
            Patch(
                "the second comes first, and the first is made twice as large",
                False,
                (
                    ("    update(critics, error)\n", ""),
                    ("    update(actors, cost)\n", "    update(actors, cost)\n    update(critics, 2 * error)\n"),
                ),
            ),
            Patch(
                "the second comes first, and the first only now and then",
                False,
                (
                    ("    update(critics, error)\n", ""),
                    ("    update(actors, cost)\n", "    update(actors, cost)\n    t % 3 or update(critics, error)\n"),
                ),
            ),
        ),
    ),
    Case(
        "weights updated by hand, of which a filter is computed before the loop",
        """\
import torch
torch.manual_seed(0)
raw, head = torch.zeros(5, requires_grad=True), torch.ones(5, requires_grad=True)
taps = torch.sigmoid(raw)
for t in range(30):
    loss = (torch.randn(8, 5) * taps * head).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (raw, head):
            p -= 0.1 * p.grad
            p.grad.zero_()
""",
        (
            Patch(
                "it is computed in the loop",
                True,
                (
                    ("taps = torch.sigmoid(raw)\n", ""),
                    ("range(30):\n", "range(30):\n    taps = torch.sigmoid(raw)\n"),
                ),
            ),
            Patch(
                "its graph is kept: the gradient is that of weights that are no more",
                False,
                (("backward()", "backward(retain_graph=True)"),),
                (5, "backward is called again on a kept graph after its parameters have changed"),
            ),
        ),
    ),
    Case(
        "weights updated by hand, of which the first pass fails",
        GATED
        + """\
    loss.backward()
    with torch.no_grad():
        for p in (raw, head):
            p -= 0.1 * p.grad
            p.grad.zero_()
""",
        (
            Patch("a new tensor", True, (("gate += 0.1", "gate = gate + 0.1"),)),
            Patch("without the gate's graph", False, (("gate += 0.1", "gate = gate.detach() + 0.1"),)),
            Patch(
                "and one of them is no longer updated",
                False,
                (
                    ("gate += 0.1", "gate = gate + 0.1"),
                    ("(raw, head):\n            p -=", "(raw, head)[:1]:\n            p -="),
                ),
                (4, "does not move"),
            ),
        ),
    ),
    Case(
        "gradients that are asked for, and by which weights are updated by hand",
        GATED
        + """\
    grads = torch.autograd.grad(loss, [raw, head], allow_unused=True)
    with torch.no_grad():
        for p, g in zip([raw, head], grads):
            if g is not None:
                p -= 0.1 * g
""",
        (
            Patch("a new tensor", True, (("gate += 0.1", "gate = gate + 0.1"),)),
            Patch("without the gate's graph", False, (("gate += 0.1", "gate = gate.detach() + 0.1"),)),
            Patch(
                "twice as large",
                False,
                (("gate += 0.1", "gate = gate + 0.1"), ("grad(loss", "grad(2 * loss")),
                (5, "scaled"),
            ),
        ),
    ),
    Case(
        "a state that is carried on beside gradients that are asked for",
        """\
import torch
torch.manual_seed(0)
cell, head = torch.randn(4, 4, requires_grad=True), torch.ones(4, requires_grad=True)
h = torch.zeros(8, 4)
for t in range(30):
    h = torch.tanh(h @ cell + torch.randn(8, 4))
    loss = (h * head).pow(2).mean()
    first, second = torch.autograd.grad(loss, (cell, head))
    with torch.no_grad():
        cell -= 0.1 * first
        head -= 0.1 * second
""",
        (
            Patch("it is cut loose before it is used", True, (("tanh(h @ cell", "tanh(h.detach() @ cell"),)),
            Patch(
                "the cell is cut off as well",
                False,
                (
                    ("tanh(h @ cell", "tanh(h.detach() @ cell.detach()"),
                    ("(cell, head))", "(cell, head), allow_unused=True)"),
                    ("cell -= 0.1 * first", "first is None or cell.sub_(0.1 * first)"),
                ),
            ),
        ),
    ),
    Case(
        "a network with dropout that is called before batches are drawn",
        """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.3), nn.Linear(6, 3))
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
x, y = torch.randn(40, 3), torch.randn(40, 3)
for epoch in range(8):
    out = net(x)
    for rows in torch.randperm(40).split(10):
        loss = (out[rows] - y[rows]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        (
            Patch(
                "it is called for each batch",
                True,
                (
                    ("    out = net(x)\n    for", "    for"),
                    ("split(10):\n", "split(10):\n        out = net(x)\n"),
                ),
                (3, "where each network draws its own random numbers"),
            ),
            Patch(
                "and half of the loss is left out",
                False,
                (
                    ("    out = net(x)\n    for", "    for"),
                    ("split(10):\n", "split(10):\n        out = net(x)\n"),
                    ("loss = (", "loss = 0.5 * ("),
                ),
            ),
        ),
    ),
    Case(
        "an old function, and weights that are updated by hand",
        """\
import torch
torch.manual_seed(0)
class Sign(torch.autograd.Function):
    def forward(self, x):
        return x.sign()
    def backward(self, g):
        return g
w = torch.randn(3, 2, requires_grad=True)
for t in range(20):
    loss = (Sign()(torch.randn(8, 3) @ w) - 1).pow(2).mean()
    loss.backward()
    w.data.sub_(0.1 * w.grad)
    w.grad.zero_()
""",
        (
            Patch(
                "a new one",
                True,
                (
                    ("    def forward(self", "    @staticmethod\n    def forward(ctx"),
                    ("    def backward(self", "    @staticmethod\n    def backward(ctx"),
                    ("Sign()(", "Sign.apply("),
                ),
                (4, "now 1 parameter of 1 train"),
            ),
        ),
    ),
    Case(
        "a critic whose features both losses read",
        """\
import torch
from torch import nn
torch.manual_seed(0)
body, policy, value = nn.Linear(3, 6), nn.Linear(6, 2), nn.Linear(6, 1)
opt = torch.optim.SGD([*body.parameters(), *policy.parameters(), *value.parameters()], lr=1e-2)
for t in range(30):
    h = torch.tanh(body(torch.randn(8, 3)))
    opt.zero_grad()
    policy(h).pow(2).mean().backward()
    (value(h) - 1).pow(2).mean().backward()
    opt.step()
""",
        (
            Patch(
                "the first pass keeps the graph: nothing changes between the two",
                True,
                (("policy(h).pow(2).mean().backward()", "policy(h).pow(2).mean().backward(retain_graph=True)"),),
            ),
        ),
    ),
    Case(
        "a store whose missing items are learned",
        """\
import random
import torch
from torch import nn
torch.manual_seed(0)
random.seed(0)
start, cell = nn.Parameter(torch.zeros(4)), nn.GRUCell(3, 4)
opt = torch.optim.SGD([start, *cell.parameters()], lr=1e-1)
rows = {}
for t in range(30):
    keys = random.sample(range(12), 3)
    new = cell(torch.randn(3, 3), torch.stack([rows.get(k, start) for k in keys]))
    loss = (new - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for k, row in zip(keys, new):
        rows[k] = row
""",
        (
            Patch("the rows are stored as values", True, (("rows[k] = row", "rows[k] = row.detach()"),)),
            Patch("what is missing is no longer learned", False, (("(k, start)", "(k, start).detach()"),)),
        ),
    ),
    Case(
        "a loss that is added up over a sequence is sent back at each of its steps",
        """\
import torch
from torch import nn
torch.manual_seed(0)
cell, out = nn.GRUCell(3, 6), nn.Linear(6, 4)
opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.05)
for epoch in range(8):
    opt.zero_grad()
    h, loss, rows, wanted = torch.zeros(2, 6), 0, torch.randn(5, 2, 3), torch.randint(0, 4, (5, 2))
    for x, y in zip(rows, wanted):
        h = cell(x, h)
        loss = loss + nn.functional.cross_entropy(out(h), y)
        loss.backward()
    opt.step()
""",
        (
            Patch("the pass comes after the loop", True, (("        loss.backward()", "    loss.backward()"),)),
            Patch(
                "the sum comes after it as well, with its last part alone",
                False,
                (("        loss = loss", "    loss = loss"), ("        loss.backward()", "    loss.backward()")),
                (5, "changed"),
            ),
        ),
    ),
    *(
        Case(
            f"gradients that are {what} before the step",
            BEFORE_THE_STEP.replace("STEP", textwrap.indent(step, "    ")),
            (
                Patch("the state is detached", True, (("0.9 * h", "0.9 * h.detach()"),)),
                Patch(
                    "and a parameter's gradient is thrown away",
                    False,
                    (
                        ("0.9 * h", "0.9 * h.detach()"),
                        ("backward()\n", "backward()\n    head.bias.grad = None\n"),
                    ),
                ),
            ),
        )
        for what, step in STEPS.items()
    ),
)
