"""Programs in the structure of reports from issue trackers: the lines that a maintainer would write repair them."""

from __future__ import annotations

import difflib
import io
from contextlib import redirect_stdout

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
torch.manual_seed(0)
"""

MEMORY = """
class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self._kept = {}

    def __getattr__(self, name):
        if "_kept" in self.__dict__:
            LOOKUP
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        kept = self.__dict__.get("_kept")
        if kept is not None and name in kept:
            kept[name] = value
        else:
            super().__setattr__(name, value)

class Cell(Stateful):
    def __init__(self):
        super().__init__()
        self._kept["v"] = 0.0
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        self.v = 0.5 * self.v + self.fc(x)
        return self.v

net = Cell()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(2, 3)).pow(2).mean().backward()
    optimizer.step()
"""
LOOKUPS = [
    "return self.__dict__['_kept'][name] if name in self.__dict__['_kept'] else super().__getattr__(name)",
    "kept = self.__dict__['_kept']\n            if name in kept:\n                return kept[name]",
    "kept: dict = self.__dict__['_kept']\n            if name in kept:\n                value = kept[name]\n"
    "                return value",
]

AGENT = """
class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.mem = torch.zeros(1)

    def forward(self, x):
        self.mem = 0.9 * self.mem + x
        return torch.sigmoid(self.mem)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(3, 4), Leaky(), nn.Linear(4, 2), Leaky())

    def forward(self, x):
        return sum(self.parts(x) for _ in range(3))

class Agent:
    def __init__(self):
        self.policy = Net()
        self.optimizer = torch.optim.Adam(self.policy.parameters())

    def update(self, rows):
        for row in rows:
            loss = self.policy(row).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

Agent().update(torch.randn(4, 2, 3))
"""

CRITIC = """
gen, critic = nn.Linear(3, 4), nn.Linear(4, 1)
gen_optimizer, critic_optimizer = (torch.optim.Adam(net.parameters()) for net in (gen, critic))

def penalty(real, fake):
    between = 0.3 * real + 0.7 * fake
    given = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
    return (given.norm(2, 1) - 1).pow(2).mean()

for real in torch.randn(3, 5, 4):
    noise = torch.randn(5, 3)
    FAKE
    for _ in range(2):
        loss = critic(fake).mean() - critic(real).mean() + penalty(real, fake)
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
    loss = -critic(fake).mean()
    gen_optimizer.zero_grad()
    loss.backward()
    gen_optimizer.step()
"""
BLOCK = 'with torch.autocast("cpu", enabled=False):'

WORLD = """
from collections import namedtuple
State = namedtuple("State", "mean deter")

class World(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.mean = nn.GRU(3, 4), nn.Linear(4, 4)

    def forward(self, x):
        deter, _ = self.rnn(x)
        return State(self.mean(deter), deter)

world, decoder, actor = World(), nn.Linear(8, 3), nn.Linear(8, 2)
world_optimizer = torch.optim.Adam([*world.parameters(), *decoder.parameters()])
actor_optimizer = torch.optim.Adam(actor.parameters())

def imagined(state):
    return actor(torch.cat(state, -1))

for _ in range(3):
    x = torch.randn(5, 2, 3)
    state = world(x)
    loss = (decoder(torch.cat(state, -1)) - x).pow(2).mean()
    world_optimizer.zero_grad()
    loss.backward()
    world_optimizer.step()
    actor_loss = imagined(state).pow(2).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
"""

RECURRENT = """
encoder, head = nn.LSTM(3, 4), nn.Linear(4, 3)
policy, value = nn.LSTM(2, 4), nn.Linear(4, 1)
model_optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
policy_optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()])
for _ in range(3):
    x = torch.randn(5, 2, 3)
    out, state = encoder(x)
    loss = (head(out) - x).pow(2).mean()
    model_optimizer.zero_grad()
    loss.backward()
    model_optimizer.step()
    seen, _ = policy(torch.randn(3, 2, 2), state)
    policy_loss = value(seen).pow(2).mean()
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()
"""

SCALED = """
class Shift(nn.Module):
    def __init__(self, size):
        super().__init__()
        MADE
        self.net = nn.Linear(size, size)

    def forward(self, x):
        return self.net(x) + READ

model = Shift(4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HELD = "self.raw = nn.Parameter(torch.zeros(size))\n        self.value = self.raw.exp()"
NEVER_HELD = {
    "a parameter that is divided": (
        "self.value = nn.Parameter(torch.randn(size)) / 1000.0",
        "self.value.exp()",
        "self.value = nn.Parameter(torch.randn(size) / 1000.0)",
    ),
    "a parameter in a formula": (
        "self.value = nn.Parameter(0.01 * torch.randn(size)).abs() + 1e-3",
        "self.value.log()",
        "self.value = nn.Parameter((0.01 * torch.randn(size)).abs() + 1e-3)",
    ),
    "a parameter that a function is given": (
        "self.value = torch.sigmoid(nn.Parameter(torch.randn(size)))",
        "self.value",
        "self.value = nn.Parameter(torch.sigmoid(torch.randn(size)))",
    ),
    "a flagged tensor": (
        "self.value = torch.ones(size, requires_grad=True) * 0.1",
        "self.value.exp()",
        "self.value = (torch.ones(size) * 0.1).requires_grad_()",
    ),
    "parameters in a list": (
        "self.values = [nn.Parameter(torch.rand(size)) * 0.5 for _ in range(2)]",
        "sum(value.sigmoid() for value in self.values)",
        "self.values = [nn.Parameter(torch.rand(size) * 0.5) for _ in range(2)]",
    ),
}

REPORTS = {
    **{
        name: (SCALED.replace("MADE", made).replace("READ", read), [added])
        for name, (made, read, added) in NEVER_HELD.items()
    },
    "a parameter that its module holds": (
        SCALED.replace("MADE", HELD).replace("READ", "self.value"),
        ["self.value = self.raw.exp()"],
    ),
    **{
        f"a spiking cell's states, looked up in way {at}": (
            MEMORY.replace("LOOKUP", way),
            ["for key in net._kept:", "net._kept[key] = net._kept[key].detach()"],
        )
        for at, way in enumerate(LOOKUPS)
    },
    "a spiking cell among the parts of a network": (
        MEMORY.replace("LOOKUP", LOOKUPS[1]).replace("= Cell()", "= nn.Sequential(nn.Linear(3, 3), Cell(), nn.Tanh())"),
        [
            "for module in net.modules():",
            "if isinstance(module, Cell):",
            "for key in module._kept:",
            "module._kept[key] = module._kept[key].detach()",
        ],
    ),
    "cells below the module of an agent that is none": (
        AGENT,
        [
            "for module in self.policy.modules():",
            "if isinstance(module, Leaky):",
            "module.mem = module.mem.detach()",
        ],
    ),
    "a fake batch made of noise, which a detach would not cut": (
        CRITIC.replace("FAKE", "fake = gen(noise)"),
        ["fake = gen(noise)", "fake = gen(noise)"],
    ),
    "a fake batch in a block of its own": (
        CRITIC.replace("FAKE", f"{BLOCK}\n        fake = gen(noise)"),
        [BLOCK, "fake = gen(noise)", "fake = gen(noise)"],
    ),
    "a record of states in another network's loss": (
        WORLD,
        ["state = type(state)(*(item.detach() for item in state))"],
    ),
    "the pair that an LSTM gives in another network's loss": (
        RECURRENT,
        ["state = tuple(item.detach() for item in state)"],
    ),
}


@pytest.mark.parametrize(("text", "added"), REPORTS.values(), ids=REPORTS)
def test_a_report_is_repaired_as_a_maintainer_would(text: str, added: list[str]) -> None:
    mended = mend(Program.of(HEADER + text, "train.py"), all_codemods())
    patched = mended.patched.files[0].text
    rows = list(difflib.ndiff((HEADER + text).splitlines(), patched.splitlines()))
    assert [row[2:].strip() for row in rows if row.startswith("+ ")] == added
    assert not mended.left
    with pytest.raises(RuntimeError, match="second time"):
        exec(compile(HEADER + text, "train.py", "exec"), {"__name__": "__main__"})
    with redirect_stdout(io.StringIO()):
        exec(compile(patched, "train.py", "exec"), {"__name__": "__main__"})


TARGETS = """
import copy

class Agent:
    def __init__(self):
        self.critics = [nn.Linear(3, 1) for _ in range(2)]
        self.targets = copy.deepcopy(self.critics)
        self.optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in self.critics]
        self.tau = 0.1

    def update(self, state, reward):
        y = reward + 0.9 * torch.min(*[one(state).square() for one in self.targets])
        for critic, optimizer in zip(self.critics, self.optimizers):
            loss = (critic(state) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for critic, target in zip(self.critics, self.targets):
            for p, t in zip(critic.parameters(), target.parameters()):
                FOLLOW

agent = Agent()
for _ in range(3):
    agent.update(torch.randn(4, 3), torch.randn(4, 1))
"""
FOLLOWING = {
    "scaled, and added to": "t.data.mul_(1 - self.tau).add_(self.tau * p.data)",
    "copied": "t.data.copy_(self.tau * p.data + (1 - self.tau) * t.data)",
    "assigned": "t.data = self.tau * p.data + (1 - self.tau) * t.data",
    "without a graph": "with torch.no_grad(): t.mul_(0.9).add_(p, alpha=0.1)",
    "between both": "with torch.no_grad(): t.lerp_(p, self.tau)",
    "the same": "t.data.copy_(p.data)",
}
BY_HAND = {
    "its gradient": "t.data.sub_(0.01 * t.grad)",
    "its gradient, beside another": "t.data.sub_(0.01 * (t.grad + 0.1 * (t.data - p.data)))",
    "a new value": "t.data = t.data - 0.01 * t.grad",
}


@pytest.mark.parametrize("follow", FOLLOWING.values(), ids=FOLLOWING)
def test_a_network_that_follows_another_one_is_not_trained(follow: str) -> None:
    patched = _repaired(TARGETS.replace("FOLLOW", follow))
    assert "with torch.no_grad():\n            y = reward + 0.9" in patched


@pytest.mark.parametrize("step", BY_HAND.values(), ids=BY_HAND)
def test_a_network_that_is_changed_by_its_gradient_is_trained(step: str) -> None:
    assert "with torch.no_grad():\n            y = reward + 0.9" not in _repaired(TARGETS.replace("FOLLOW", step))


def _repaired(text: str) -> str:
    """The program as it is patched, which runs; the original fails."""
    with pytest.raises(RuntimeError, match="second time"):
        exec(compile(HEADER + text, "train.py", "exec"), {"__name__": "__main__"})
    patched = mend(Program.of(HEADER + text, "train.py"), all_codemods()).patched.files[0].text
    exec(compile(patched, "train.py", "exec"), {"__name__": "__main__"})
    return patched
