"""Values of earlier iterations that a loss uses: memories must not be emptied, predictions must not be cut off."""

from __future__ import annotations

import pytest

from tests.by_hand import edited, judged

HEAD = """\
import torch
from collections import deque
from torch import nn
torch.manual_seed(0)
enc, head = nn.Linear(3, 6), nn.Linear(6, 1)
opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], lr=1e-2)
"""
STEP = """\
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
LIST = (
    HEAD
    + """\
memory = []
for t in range(30):
    x = torch.randn(8, 3)
    h = torch.tanh(enc(x))
    memory.append(h)
    loss = (head(h + torch.stack(memory[-4:]).mean(0)) - x.sum(1, keepdim=True)).pow(2).mean()
"""
    + STEP
)
QUEUE = (
    HEAD
    + """\
past = {"states": deque(maxlen=6)}
for t in range(30):
    xs = torch.randn(3, 8, 3)
    for x in xs:
        past["states"].append(torch.tanh(enc(x)))
    loss = (head(torch.stack(tuple(past["states"])).mean(0)) - xs.mean(0)).pow(2).mean()
"""
    + STEP
)
SLOTS = (
    HEAD
    + """\
class Memory:
    def __init__(self, size):
        self.slots, self.size = (), size
    def write(self, h):
        self.slots = (*self.slots, h)[-self.size:]
    def read(self, q):
        keys = torch.stack(self.slots, 1)
        weights = torch.softmax(torch.einsum("bd,bnd->bn", q, keys), 1)
        return torch.einsum("bn,bnd->bd", weights, keys)
memory = Memory(5)
def forward(x):
    h = torch.tanh(enc(x))
    memory.write(h)
    return head(h + memory.read(h))
for t in range(30):
    x = torch.randn(8, 3)
    loss = (forward(x) - x.sum(1, keepdim=True)).pow(2).mean()
"""
    + STEP
)
BASELINE = (
    HEAD
    + """\
history = {"loss": []}
for t in range(30):
    x = torch.randn(8, 3)
    error = (head(torch.tanh(enc(x))) - x.sum(1, keepdim=True)).pow(2).mean()
    history["loss"].append(error)
    mean = sum(history["loss"]) / len(history["loss"])
    loss = error + 0.5 * (error - mean).pow(2)
"""
    + STEP
)
FRAMES = (
    HEAD
    + """\
frames = []
for t in range(30):
    xs = torch.randn(4, 8, 3)
    for x in xs:
        frames.append(torch.relu(enc(x)))
    loss = (head(torch.stack(frames).mean(0)) - xs.sum((0, 2))[:, None]).pow(2).mean()
"""
    + STEP
)
ROOT = (
    HEAD
    + """\
total = 0
for t in range(30):
    x = torch.randn(8, 3)
    total += (head(torch.tanh(enc(x))) - x.sum(1, keepdim=True)).pow(2).mean()
    loss = total.sqrt()
"""
    + STEP
)
VALUE = (
    HEAD
    + """\
def critic(s):
    return head(torch.tanh(enc(s))).squeeze(-1)
s = torch.randn(8, 3)
value = critic(s)
for t in range(30):
    following = torch.tanh(s + 0.1 * torch.randn(8, 3))
    next_value = critic(following)
    loss = (following.sum(1) + 0.9 * next_value - value).pow(2).mean()
"""
    + STEP
    + "    s, value = following, next_value\n"
)
FITTED = VALUE.replace(
    "(following.sum(1) + 0.9 * next_value - value).pow(2).mean()",
    "nn.functional.smooth_l1_loss(value, following.sum(1) + 0.9 * next_value)",
)
AGENT = (
    HEAD
    + """\
class Agent:
    def __init__(self):
        self.state = torch.randn(8, 3)
        self.value, self.other = self.judge(self.state), None
    def judge(self, state):
        return head(torch.relu(enc(state)))
    def error(self):
        state = torch.randn(8, 3)
        value = self.judge(state)
        error = 0.5 * value - self.value + state.sum(1, keepdim=True)
        self.state, self.value = state, value
        return error.square().sum()
agent = Agent()
for t in range(30):
    loss = agent.error()
"""
    + STEP
)
SMOOTH = (
    HEAD
    + """\
previous = None
for t in range(30):
    x = torch.randn(8, 3)
    out = head(torch.tanh(enc(x)))
    loss = (out - x.sum(1, keepdim=True)).pow(2).mean()
    if previous is not None:
        loss = loss + 0.3 * (out - previous).pow(2).mean()
    previous = out
"""
    + STEP
)
RATIO = """\
import torch
from torch.distributions import Normal
torch.manual_seed(0)
actor, critic, log_std = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1), torch.zeros(1, requires_grad=True)
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=1e-2)
for rollout in range(6):
    s = torch.randn(16, 3)
    policy = Normal(actor(s), log_std.exp())
    a = policy.sample()
    old = policy.log_prob(a).sum(1)
    gain = -(a[:, 0] - s[:, 0]).pow(2)
    for epoch in range(4):
        now = Normal(actor(s), log_std.exp())
        ratio = (now.log_prob(a).sum(1) - old).exp()
        better = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        loss = (critic(s)[:, 0] - gain).pow(2).mean() - better - 0.01 * now.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
BEHIND = "    opt.step()\n"
RIGHT = {
    "items of a list as numbers": (LIST, (BEHIND, f"{BEHIND}    memory[-1] = h.detach()\n")),
    "items of a queue as numbers": (
        QUEUE,
        (BEHIND, f"{BEHIND}    past['states'] = deque((one.detach() for one in past['states']), maxlen=6)\n"),
    ),
    "slots as numbers": (SLOTS, (BEHIND, f"{BEHIND}    memory.slots = tuple(one.detach() for one in memory.slots)\n")),
    "losses as numbers": (BASELINE, (BEHIND, f"{BEHIND}    history['loss'][-1] = error.detach()\n")),
    "frames of one step": (FRAMES, ("    for x in xs", "    frames = []\n    for x in xs")),
    "frames that are cleared": (FRAMES, (BEHIND, f"{BEHIND}    frames.clear()\n")),
    "a total as a number": (ROOT, (BEHIND, f"{BEHIND}    total = total.detach()\n")),
    "a value computed anew": (VALUE, ("    next_value =", "    value = critic(s)\n    next_value =")),
    "a fitted value computed anew": (FITTED, ("    next_value =", "    value = critic(s)\n    next_value =")),
    "an attribute computed anew": (
        AGENT,
        ("        error =", "        self.value = self.judge(self.state)\n        error ="),
    ),
    "old probabilities as numbers": (RATIO, ("log_prob(a).sum(1)\n    gain", "log_prob(a).sum(1).detach()\n    gain")),
    "an output of the step before": (SMOOTH, ("previous = out", "previous = out.detach()")),
}
WRONG = {
    "a list made anew": (LIST, ("    memory.append", "    memory = []\n    memory.append")),
    "a list cleared": (LIST, (BEHIND, f"{BEHIND}    memory.clear()\n")),
    "a queue cleared": (QUEUE, (BEHIND, f"{BEHIND}    past['states'].clear()\n")),
    "a queue made anew": (QUEUE, ("    for x in xs", "    past = {'states': deque(maxlen=6)}\n    for x in xs")),
    "slots emptied": (SLOTS, ("    memory.write", "    memory.slots = ()\n    memory.write")),
    "a memory made anew": (SLOTS, (BEHIND, f"{BEHIND}    memory = Memory(5)\n")),
    "losses cleared": (BASELINE, (BEHIND, f"{BEHIND}    history['loss'].clear()\n")),
    "a value cut off": (VALUE, ("= following, next_value", "= following, next_value.detach()")),
    "a fitted value cut off": (FITTED, ("= following, next_value", "= following, next_value.data")),
    "a value cut off where it is read": (FITTED, ("loss(value,", "loss(value.detach() if t else value,")),
    "an attribute cut off": (AGENT, ("= state, value\n", "= state, value.detach()\n")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_keeps_the_values_or_computes_them_anew_is_proved(name: str) -> None:
    script, edit = RIGHT[name]
    certificate = judged(script, edited(script, (edit,)))
    assert certificate.proved, certificate.points


@pytest.mark.parametrize("name", WRONG)
def test_what_takes_the_values_or_the_prediction_away_is_refused(name: str) -> None:
    script, edit = WRONG[name]
    certificate = judged(script, edited(script, (edit,)))
    assert not certificate.proved
    detail = certificate.points[4].detail
    assert any(word in detail for word in ("are gone", "scaled", "dropped", "changed")), certificate.points
