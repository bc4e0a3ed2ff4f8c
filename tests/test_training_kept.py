"""Patches that must not change the training: targets, statistics, states and stores of several kinds."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
"""
STEP = """
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
CLOSURE = """
def closure():
    opt.zero_grad()
    loss = {loss}
    loss.backward()
    return loss
for _ in range(2):
    opt.step(closure)
"""
NET = """
net, x = nn.Linear(3, 2), torch.randn(4, 3)
opt = torch.optim.LBFGS(net.parameters(), max_iter=3)
"""
WEIGHTS = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), .1)
"""
PPO = """
class PPOTrainer:
    def __init__(self, m):
        self.m = m
        self.opt = torch.optim.Adam(m.parameters(), 1e-2)
    def batched_forward(self, q):
        o = self.m(q)
        return F.log_softmax(o[:, :2], 1), o[:, 2]
    def step(self, q, rew):
        lp, v = self.batched_forward(q)
        for _ in range(2):
            for i in range(0, len(q), 2):
                self.minibatch(q[i:i + 2], lp[i:i + 2, 0], v[i:i + 2], rew[i:i + 2])
    def minibatch(self, q, old_lp, old_v, r):
        lp, v = self.batched_forward(q)
        ratio = (lp[:, 0] - old_lp).exp()
        adv = r - old_v
        loss = -(ratio * adv.detach()).mean() + (v - {goal}).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
net = nn.Linear(3, 3)
PPOTrainer(net).step(torch.randn(4, 3), torch.rand(4))
"""
PPO_CALL = (
    "lp, v = self.batched_forward(q)\n        for",
    "lp, v = (one.detach() for one in self.batched_forward(q))\n        for",
)
MEAN = """
for t, x in enumerate(torch.randn(4, 4, 3), 1):
    loss = net(x).pow(2).mean() + sum((p - mean[n]).pow(2).sum() for n, p in net.named_parameters())
    opt.zero_grad()
    loss.backward()
    opt.step()
    for n, p in net.named_parameters():
        mean[n] = UPDATE
"""
MEANS = WEIGHTS + "mean = {n: torch.zeros_like(p) for n, p in net.named_parameters()}\n" + MEAN

POLICY = """
net, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(6, 3)
opt = torch.optim.SGD(net.parameters(), .1)
def policy(s):
    h = net(s)
    return F.log_softmax(h, 1), h.pow(2)
"""
UPDATES = "inputs, w, b = torch.randn(6, 3), nn.Parameter(torch.randn(3)), nn.Parameter(torch.zeros(1))\n"
RIGHT = {
    "an update that replaces the parameters": (
        UPDATES
        + """for _ in range(3):
    (inputs @ w + b - 1).pow(2).mean().backward()
    w = w - .1 * w.grad
    b = b - .1 * b.grad
""",
        ("w = w - .1 * w.grad", "w.data = w.data - .1 * w.grad; w.grad = None"),
        ("b = b - .1 * b.grad", "b.data = b.data - .1 * b.grad; b.grad = None"),
    ),
    "an update of each parameter of a list, which changes none": (
        UPDATES
        + """for _ in range(3):
    (inputs @ w + b - 1).pow(2).mean().backward()
    for p in [w, b]:
        p = p - .1 * p.grad
""",
        ("p = p - .1 * p.grad", "p.data = p.data - .1 * p.grad; p.grad = None"),
    ),
    "a total that requires grad": (
        POLICY
        + """for s in x.split(2):
    total = torch.zeros(1, requires_grad=True)
    for row in s:
        total += net(row).pow(2).mean()
    loss = total"""
        + STEP,
        ("total += net(row)", "total = total + net(row)"),
    ),
    "a total that requires grad and is added to by a method": (
        POLICY
        + """for s in x.split(2):
    loss = torch.tensor(0.0, requires_grad=True)
    loss.add_(net(s).pow(2).mean())"""
        + STEP,
        ("loss.add_(net(s).pow(2).mean())", "loss = loss + net(s).pow(2).mean()"),
    ),
    "a buffer that requires grad": (
        POLICY
        + """for s in x.split(2):
    out = torch.zeros(2, 2, requires_grad=True)
    for i, row in enumerate(s):
        out[i] = net(row)
    loss = out.pow(2).mean()"""
        + STEP,
        (", requires_grad=True", ""),
    ),
    "a bank that requires grad": (
        POLICY
        + """bank = torch.zeros(6, 2, requires_grad=True)
for i in range(3):
    new = net(x[2 * i : 2 * i + 2])
    loss = new.pow(2).mean() + (new @ bank.T).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    bank[2 * i : 2 * i + 2] = new
""",
        (", requires_grad=True", ""),
        ("] = new\n", "] = new.detach()\n"),
    ),
    "rows of a prompt are written": (
        POLICY
        + """prompt = nn.Parameter(torch.randn(3, 2))
opt = torch.optim.SGD([prompt, *net.parameters()], 0.1)
for s in x.split(2):
    rows = prompt
    rows[:2] = net(s)
    loss = rows.pow(2).mean()"""
        + STEP,
        ("rows = prompt", "rows = prompt.clone()"),
    ),
    "an old policy beside something else": (
        POLICY
        + """old, _ = policy(x)
for _ in range(3):
    new, penalty = policy(x)
    loss = F.kl_div(new, old, log_target=True) + penalty.mean()"""
        + STEP,
        ("old, _ = policy(x)", "old = policy(x)[0].detach()"),
    ),
    "an old policy in a dict": (
        POLICY
        + """def act(s):
    return dict(zip(("log", "size"), policy(s)))
old = act(x)
for _ in range(3):
    new = act(x)
    loss = F.mse_loss(new["log"], old["log"]) + new["size"].mean()"""
        + STEP,
        ("    loss = F.mse_loss(new", '    old["log"] = old["log"].detach()\n    loss = F.mse_loss(new'),
    ),
    "a target for each batch": (
        POLICY
        + """targets = [net(s).tanh() * 1.5 for s in x.split(2)]
for _ in range(2):
    for s, target in zip(x.split(2), targets):
        loss = F.mse_loss(net(s), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ("net(s).tanh() * 1.5", "(net(s).tanh() * 1.5).detach()"),
    ),
    "a target that is handed over": (
        POLICY
        + """def fit(s, target):
    for _ in range(3):
        opt.zero_grad()
        F.mse_loss(net(s), target).backward()
        opt.step()
fit(x, target=net(x).tanh() * 1.5)
""",
        ("net(x).tanh() * 1.5", "(net(x).tanh() * 1.5).detach()"),
    ),
    "old values that a rollout gathers beside its states": (
        POLICY
        + """states, values = [], []
for s in x:
    states.append(s)
    values.append(net(s))
for _ in range(3):
    new = net(torch.stack(states))
    loss = (new - torch.stack(values)).pow(2).mean() + new.mean()"""
        + STEP,
        ("values.append(net(s))", "values.append(net(s).detach())"),
    ),
    "a target that a closure's parameter follows": (
        "w = nn.Parameter(torch.randn(3))\nopt = torch.optim.LBFGS([w], max_iter=3)\ntarget = w.exp() * .5\n"
        + CLOSURE.format(loss="(w.exp() - target).pow(2).sum()"),
        ("w.exp() * .5", "(w.exp() * .5).detach()"),
    ),
    "a target of a closure that one step calls": (
        (NET + "goal = .5 * net(x)\n" + CLOSURE.format(loss="F.mse_loss(net(x), goal)")).replace(
            "for _ in range(2):\n    ", ""
        ),
        (".5 * net(x)", "(.5 * net(x)).detach()"),
    ),
    "targets of a closure in a dict": (
        NET
        + 'goals = {"a": net(x).softmax(1), "b": net(x + 1).softmax(1)}\n'
        + CLOSURE.format(
            loss='(net(x).softmax(1) - goals["a"]).pow(2).sum() + (net(x + 1).softmax(1) - goals["b"]).pow(2).sum()'
        ),
        (".softmax(1),", ".softmax(1).detach(),"),
        (".softmax(1)}", ".softmax(1).detach()}"),
    ),
    "the old output that a closure compares with the new one": (
        NET + "old = net(x)\n" + CLOSURE.format(loss="(net(x) - old).pow(2).sum() + net(x).pow(2).mean()"),
        ("old = net(x)", "old = net(x).detach()"),
    ),
    "features that a closure trains": (
        "net, head, x = nn.Linear(3, 4), nn.Linear(4, 1), torch.randn(4, 3)\n"
        "opt = torch.optim.LBFGS([*net.parameters(), *head.parameters()], max_iter=3)\nf = torch.tanh(net(x))\n"
        + CLOSURE.format(loss="head(f).sub(1).pow(2).sum()"),
        ("f = torch.tanh(net(x))\n", ""),
        ("    loss = head(f)", "    loss = head(torch.tanh(net(x)))"),
    ),
    "reference weights in a dict": (
        WEIGHTS
        + """old = {n: p.tanh() for n, p in net.named_parameters()}
for x in torch.randn(4, 4, 3):
    loss = net(x).pow(2).mean()
    for n, p in net.named_parameters():
        loss = loss + (p - old[n]).pow(2).sum()"""
        + STEP,
        ("p.tanh()", "p.tanh().detach()"),
    ),
    "reference weights in a tuple, as targets of a loss": (
        WEIGHTS
        + """old = tuple(p.tanh() for p in net.parameters())
for x in torch.randn(4, 4, 3):
    loss = net(x).pow(2).mean() + F.mse_loss(net.weight, old[0]) + F.mse_loss(net.bias, old[1])"""
        + STEP,
        ("p.tanh()", "p.tanh().detach()"),
    ),
    "a target of the same inputs without the noise, by their angle": (
        """net, x = nn.Linear(3, 2), torch.randn(4, 3)
opt = torch.optim.SGD(net.parameters(), .1)
target = net(x).tanh()
for _ in range(4):
    loss = 1 - F.cosine_similarity(net(x + .1 * torch.randn(4, 3)), target).mean()"""
        + STEP,
        (".tanh()", ".tanh().detach()"),
    ),
    "an anchor of other inputs is trained, too": (
        """net, a = nn.Linear(3, 2), torch.randn(4, 3)
opt = torch.optim.SGD(net.parameters(), .1)
anchor = net(a).tanh()
for b in torch.randn(4, 4, 3):
    loss = F.cosine_similarity(net(b), anchor).mean()"""
        + STEP,
        ("anchor = net(a).tanh()\n", ""),
        ("anchor)", "net(a).tanh())"),
    ),
    "stacked targets": (
        """net, data = nn.Linear(3, 2), torch.randn(3, 4, 3)
opt = torch.optim.SGD(net.parameters(), .1)
targets = torch.stack([net(X).tanh() * 1.5 for X in data])
for i in range(3):
    x, target = data[i], targets[i]
    loss = (net(x) - target).pow(2).mean()"""
        + STEP,
        ("* 1.5 for X in data])", "* 1.5 for X in data]).detach()"),
    ),
    "effective weights, with which the loop computes": (
        WEIGHTS
        + """eff = {n: p.tanh() for n, p in net.named_parameters()}
for x in torch.randn(4, 4, 3):
    loss = F.linear(x, eff["weight"], eff["bias"]).sub(1.).pow(2).mean()"""
        + STEP,
        ("eff = {n: p.tanh() for n, p in net.named_parameters()}\n", ""),
        ("    loss", "    eff = {n: p.tanh() for n, p in net.named_parameters()}\n    loss"),
    ),
    "a difference of two forms of one parameter is trained through both": (
        """mu, logvar = nn.Parameter(torch.randn(3)), nn.Parameter(torch.zeros(3))
opt = torch.optim.SGD([mu, logvar], .1)
var = logvar.exp()
for x in torch.randn(4, 4, 3):
    loss = (var - logvar - 1).sum() + (mu - x).pow(2).sum()"""
        + STEP,
        ("var = logvar.exp()\n", ""),
        ("(var -", "(logvar.exp() -"),
    ),
    "old log-probabilities out of the forward that the loss uses, too": (PPO.format(goal="r"), PPO_CALL),
    "old values beside them, used with their graph": (PPO.format(goal="(adv + old_v)"), PPO_CALL),
    "a mean over a count in a dict": (
        MEANS.replace("UPDATE", "(mean[n] * (t - 1) + p) / t"),
        ("(mean[n] * (t - 1) + p) / t", "((mean[n] * (t - 1) + p) / t).detach()"),
    ),
    "a mean by a step towards the new value": (
        MEANS.replace("UPDATE", "mean[n] + (p - mean[n]) / t"),
        ("+ (p - mean[n]) / t", "+ (p.detach() - mean[n]) / t"),
    ),
    "a mean in a method": (
        WEIGHTS
        + """
class Swag:
    def __init__(self, net):
        self.net, self.n = net, 0
        self.mean = {k: torch.zeros_like(p) for k, p in net.named_parameters()}
    def update(self):
        self.n += 1
        for k, p in self.net.named_parameters():
            self.mean[k] = self.mean[k] + (p - self.mean[k]) / self.n
    def penalty(self):
        return sum((p - self.mean[k]).pow(2).sum() for k, p in self.net.named_parameters())
swag = Swag(net)
for x in torch.randn(4, 4, 3):
    loss = net(x).pow(2).mean() + swag.penalty()"""
        + STEP
        + "    swag.update()\n",
        ("(p - self.mean[k]) / self.n", "(p.detach() - self.mean[k]) / self.n"),
    ),
    "the importance of each weight": (
        WEIGHTS
        + """
W, prev = {}, {}
for n, p in net.named_parameters():
    W[n] = torch.zeros_like(p)
    prev[n] = p.detach().clone()
for x in torch.randn(4, 4, 3):
    loss = net(x).pow(2).mean() + sum((W[n] * (p - prev[n]) ** 2).sum() for n, p in net.named_parameters())"""
        + STEP
        + """    for n, p in net.named_parameters():
        W[n] = W[n] + p.grad.abs() * (p - prev[n]).abs()
        prev[n] = p.detach().clone()
""",
        ("(p - prev[n]).abs()", "(p - prev[n]).abs().detach()"),
    ),
    "states by name": (
        """net = nn.ModuleDict({"a": nn.GRUCell(3, 4), "b": nn.GRUCell(3, 4)})
opt = torch.optim.SGD(net.parameters(), .1)
h = {k: torch.zeros(2, 4) for k in net}
for x in torch.randn(4, 2, 3):
    for k in net:
        h[k] = net[k](x, h[k])
    loss = sum(v.pow(2).mean() for v in h.values())"""
        + STEP,
        ("(x, h[k])", "(x, h[k].detach())"),
    ),
    "a memory with a method that nobody calls": (
        """
class Memory:
    def __init__(self):
        self.logprobs, self.rewards = [], []
    def clear_memory(self):
        del self.logprobs[:]
        del self.rewards[:]
class Agent:
    def __init__(self):
        self.pi = nn.Linear(3, 2)
        self.opt = torch.optim.SGD(self.pi.parameters(), 0.05)
    def act(self, s, mem):
        d = torch.distributions.Categorical(logits=self.pi(s))
        a = d.sample()
        mem.logprobs.append(d.log_prob(a))
        return a.item()
    def update(self, mem):
        loss = -(torch.stack(mem.logprobs) * torch.tensor(mem.rewards)).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
ag, mem = Agent(), Memory()
net = ag.pi
for ep in range(3):
    for t in range(3):
        a = ag.act(torch.randn(3), mem)
        mem.rewards.append(1.0 if a else -1.0)
    ag.update(mem)
""",
        ("ag.update(mem)", "ag.update(mem)\n    mem.clear_memory()"),
    ),
    "two lists of one dict": (
        """
from collections import defaultdict
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.05)
buf = defaultdict(list)
for ep in range(3):
    for t in range(3):
        d = torch.distributions.Categorical(logits=net(torch.randn(3)))
        buf["lp"].append(d.log_prob(d.sample()))
        buf["r"].append(torch.rand(()))
    loss = -(torch.stack(buf["lp"]) * (torch.stack(buf["r"]) - 0.5)).sum()"""
        + STEP
        + '    buf["returns"].append(loss.item())\nassert len(buf["returns"]) == 3\n',
        ('    buf["returns"]', '    buf["lp"], buf["r"] = [], []\n    buf["returns"]'),
    ),
    "lists that a loop goes through": (
        """
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), .1)
class Memory:
    def __init__(self):
        self.lp, self.r = [], []
mem = Memory()
for ep in range(3):
    for t in range(3):
        d = torch.distributions.Categorical(logits=net(torch.randn(3)))
        mem.lp.append(d.log_prob(d.sample()))
        mem.r.append(1.)
    opt.zero_grad()
    for lp, r in zip(mem.lp, mem.r):
        (-lp * r).backward()
    opt.step()
""",
        ("    opt.step()", "    opt.step()\n    mem.lp, mem.r = [], []"),
    ),
}

NONE = {
    "a replay that drops entries at random": """
import random
class Storage:
    def __init__(self):
        self.data = []
    def save(self, states, rewards):
        self.data.append([states, rewards])
    def refresh(self):
        for i in reversed(range(len(self.data))):
            if random.random() < .2:
                self.data.pop(i)
    def optimize(self, qnet, opt):
        for s, reward in self.data:
            loss = (qnet(s) - reward).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
enc, qnet = nn.Linear(4, 8), nn.Linear(8, 3)
opt = torch.optim.Adam([*enc.parameters(), *qnet.parameters()])
store = Storage()
for batch in range(5):
    store.save(torch.relu(enc(torch.randn(6, 4))), torch.rand(6, 1))
    store.optimize(qnet, opt)
    store.refresh()
""",
    "a state that the loop carries on": """
enc, dec, out = nn.GRU(4, 8), nn.GRUCell(4, 8), nn.Linear(8, 4)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *out.parameters()])
def train(x, y):
    states = torch.zeros(1, x.shape[1], 8)
    encoded, states = enc(x, states)
    states = states[0]
    for start in range(0, 12, 3):
        loss = 0
        for t in range(start, start + 3):
            states = dec(y[t], states) + encoded[-1]
            loss = loss + (out(states) - y[t]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
train(torch.randn(7, 5, 4), torch.randn(12, 5, 4))
""",
}

AGENT = """
class Agent:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), .1)
        self.kept = []
    def step(self, x):
        y = self.net(x)
        loss = y.pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.kept.append(y.mean())
{method}
agent = Agent()
for ep in range(30):
    agent.step(torch.randn(4, 3))
"""
LEARN = """
    def learn(self):
        loss = torch.stack(self.kept).sum()
        loss.backward()
"""
LEARN_APART = """
    def _loss(self):
        return torch.stack(self.kept).sum()
    def learn(self):
        self._loss().backward()
"""
REPORT = """
    def report(self):
        return sum(one.item() for one in self.kept)
"""


def trained(text: str) -> list[torch.Tensor]:
    """The parameters, by name, that a program ends with."""
    names: dict[str, Any] = {"__name__": "program"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "program.py", "exec"), names)
    found = []
    for _, value in sorted(
        (name, one) for name, one in names.items() if isinstance(one, torch.nn.Module | torch.Tensor)
    ):
        if isinstance(value, torch.nn.Module):
            found += [parameter.detach() for parameter in value.parameters()]
        elif isinstance(value, torch.nn.Parameter):
            found.append(value.detach())
    return found


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_the_patched_program_trains_as_the_right_one(case: tuple[Any, ...]) -> None:
    """The right program is the text with the author's own replacements."""
    text, *replacements = case
    right = HEADER + text
    for old, new in replacements:
        assert old in right
        right = right.replace(old, new)
    found = mend(Program.of(HEADER + text, "train.py"), all_codemods())
    assert not found.left
    ours, wanted = trained(found.patched.files[0].text), trained(right)
    assert len(ours) == len(wanted) > 0
    for mine, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_no_patch_where_none_is_right(text: str) -> None:
    """The mistake is reported all the same."""
    found = mend(Program.of(HEADER + text, "train.py"), all_codemods())
    assert found.observation.facts
    assert not found.repairs


@pytest.mark.parametrize(
    ("method", "reported"),
    [(LEARN, False), (LEARN_APART, False), (REPORT, True), ("", True)],
    ids=["learn", "a loss that learn sends back", "a report", "nothing else"],
)
def test_what_a_method_for_other_scripts_sends_back_is_not_kept_for_nothing(method: str, *, reported: bool) -> None:
    found = mend(Program.of(HEADER + AGENT.format(method=method), "train.py"), all_codemods())
    assert bool(found.observation.facts) is reported
