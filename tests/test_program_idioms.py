"""Idioms of larger programs: registries, configurations, warm-ups, helpers that make whole updates, others' layers."""

from __future__ import annotations

import ast
import difflib
import textwrap

import pytest

from autofix.codemods.interpreter import analysis
from autofix.codemods.repair import Mended, mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
x, y = torch.randn(4, 3), torch.randn(4, 3)
"""

REGISTRY = """
REGISTRY = {}
def register(name):
    def add(cls):
        REGISTRY[name] = cls
        return cls
    return add
"""
TRAIN = """
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
UPDATES = """
critic, actor = nn.Linear(6, 1), nn.Linear(3, 3)
critics = torch.optim.SGD(critic.parameters(), lr=0.1)
actors = torch.optim.SGD(actor.parameters(), lr=0.1)
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
def losses():
    error = F.mse_loss(critic(torch.cat([x, y], 1)), torch.ones(4, 1))
    return error, -critic(torch.cat([x, actor(x)], 1)).pow(2).mean()
"""

RECORDER = """
from collections import defaultdict
class Recorder:
    def __init__(self, net, names):
        self.seen = defaultdict(list)
        for name in names:
            net.get_submodule(name).register_forward_hook(self.tap(name, self.seen))
    @staticmethod
    def tap(name, seen):
        def hook(module, inputs, output):
            seen[name].append(output)
        return hook
    def reset(self):
        RESET
"""
RECORDED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = nn.Linear(3, 3), nn.Linear(3, 3)
    def forward(self, values):
        return self.high(torch.tanh(self.low(values)))
net = Net()
recorder = Recorder(net, ["low", "high"])
held = recorder.seen
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    recorder.reset()
    loss = F.mse_loss(net(x), y)
    for name, outputs in recorder.seen.items():
        loss = loss + sum(one.abs().mean() for one in outputs)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

CHECKED = """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
h = torch.zeros(4, 3)
for _ in range(10):
    h = torch.tanh(net(h))
    loss = F.mse_loss(h, y)
    if {check}:
        opt.zero_grad()
        loss.backward()
        opt.step()
"""

SHAPES = {
    "a loss that is looked at before it is sent backward": (
        """
import math
def is_valid(number):
    return not (math.isnan(number) or math.isinf(number) or number > 1e4)
"""
        + CHECKED.format(check="is_valid(loss.item())"),
        ["h = h.detach()"],
    ),
    "a loss that is looked at from all sides": (
        """
def is_odd(number):
    return number != number or number > 1e4 or number < -1e4
"""
        + CHECKED.format(check="not is_odd(loss.item())"),
        ["h = h.detach()"],
    ),
    "a class that a decorator puts into a dictionary": (
        REGISTRY
        + """
@register("gate")
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
    def forward(self, values):
        gate = torch.sigmoid(self.inner(values))
        gate += 0.1
        return gate * values
net = REGISTRY["gate"]()
"""
        + TRAIN,
        ["gate = gate + 0.1"],
    ),
    "a store by keys, and a learned start for those it does not have": (
        """
class Store:
    def __init__(self, blank):
        self._blank, self._rows = blank, {}
    def fetch(self, keys):
        return torch.stack([self._rows.get(k, self._blank()) for k in keys])
    def commit(self, keys, values):
        for at, k in enumerate(keys):
            self._rows[k] = values[at]
class Tracer(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.cell = nn.Parameter(torch.zeros(3)), nn.GRUCell(3, 3)
        self.store = Store(lambda: self.start)
    def forward(self, keys, values):
        state = self.cell(values, self.store.fetch(keys))
        self.store.commit(keys, state)
        return state
net = Tracer()
opt = torch.optim.Adam(net.parameters())
for _ in range(30):
    keys = torch.randperm(20)[:4].tolist()
    loss = F.mse_loss(net(keys, x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["self._rows[k] = values[at].detach()"],
    ),
    "rows of tensors and numbers for a log": (
        """
class Journal:
    def __init__(self):
        self.board, self.rows = {}, []
    def close(self, step):
        row = dict(self.board.items())
        row["step"] = step
        self.rows.append(row)
journal = Journal()
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    loss = F.mse_loss(net(x), y)
    journal.board["loss"], journal.board["rate"] = loss, 0.1
    opt.zero_grad()
    loss.backward()
    opt.step()
    journal.close(step)
print(sum(float(row["loss"]) for row in journal.rows))
""",
        [
            "self.rows.append({key: value.detach() if isinstance(value, torch.Tensor) else value "
            "for key, value in row.items()})"
        ],
    ),
    **{
        f"a row with a name of its own in a log: {made}": (
            f"""
from typing import NamedTuple
class Row(NamedTuple):
    step: int
    loss: torch.Tensor
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
rows = []
for step in range(100):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    row = {made}
    rows.append(row)
print(len(rows))
""",
            [f"row = {made.replace('loss' + end, 'loss.detach()' + end)}"],
        )
        for made, end in {
            "(step, loss)": ")",
            "[step, loss]": "]",
            '{"step": step, "loss": loss}': "}",
            "dict(step=step, loss=loss)": ")",
            "Row(step, loss)": ")",
        }.items()
    },
    "a teacher that is the student, and is frozen": (
        """
student = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
teacher = student
for p in teacher.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(20):
    with torch.no_grad():
        goal = teacher(x)
    loss = F.mse_loss(student(x + 0.1 * torch.randn(4, 3)), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["import copy", "teacher = copy.deepcopy(student)"],
    ),
    "a target network that is an attribute's other name": (
        """
from copy import deepcopy
class Agent:
    def __init__(self):
        self.net = nn.Linear(3, 3)
        self.target = self.net
        self.target.requires_grad_(False)
        self.opt = torch.optim.Adam(self.net.parameters())
    def update(self):
        with torch.no_grad():
            goal = self.target(y)
        loss = F.mse_loss(self.net(x), goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
agent = Agent()
for _ in range(10):
    agent.update()
""",
        ["self.target = deepcopy(self.net)"],
    ),
    "a store of the loop's own name, which the agent was given": (
        """
class Tape:
    def __init__(self):
        self.terms, self.costs = [], []
class Agent(nn.Module):
    def __init__(self, tape, size=3):
        super().__init__()
        self.net, self.book = nn.Linear(size, 2), tape
    def act(self, values):
        choice = torch.distributions.Categorical(logits=self.net(values))
        action = choice.sample()
        self.book.terms.append(choice.log_prob(action))
        return action
    def objective(self):
        return -torch.stack(self.book.terms).sum()
tape = Tape()
agent = Agent(tape)
opt = torch.optim.Adam(agent.parameters())
for _ in range(10):
    for _ in range(5):
        agent.act(torch.randn(3))
    loss = agent.objective()
    opt.zero_grad()
    loss.backward()
    opt.step()
    tape = Tape()
""",
        ["tape = agent.book = Tape()"],
    ),
    "parameters by their names": (
        """
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
named = dict(net.named_parameters())
kept = [named[name] for name in ("0.weight", "2.bias")]
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    for weight in kept:
        weight.mul_(0.9)
""",
        ["with torch.no_grad():", "for weight in kept:", "weight.mul_(0.9)"],
    ),
    "a method of a registry as a decorator": (
        """
class Registry:
    def __init__(self):
        self.known = {}
    def add(self, made):
        self.known[made.__name__] = made
        return made
MODELS = Registry()
@MODELS.add
def objective(values):
    values = torch.exp(values)
    values *= 2.0
    return values
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    objective(net(x)).sum().backward()
    opt.step()
""",
        ["values = values * 2.0"],
    ),
    "what begins behind a warm-up, and happens at intervals": (
        UPDATES
        + """
for tick in range(200):
    if (tick + 1) % 25 == 0:
        x = torch.randn(4, 3)
    if tick >= 64 and tick % 4 == 0:
        error, cost = losses()
        update(critics, error)
        cost = cost * 1.0
        update(actors, cost)
""",
        ["update(critics, error)"],
    ),
    "updates by a helper, in an order that spoils the second": (
        UPDATES
        + """
for _ in range(20):
    error, cost = losses()
    update(critics, error)
    update(actors, cost)
""",
        ["update(actors, cost)"],
    ),
    "matrices of tensors and numbers, multiplied": (
        """
angles = nn.Parameter(torch.zeros(2))
opt = torch.optim.SGD([angles], lr=0.1)
scale = 2.0
def turned(points):
    a, b = angles
    first = torch.tensor([[torch.cos(a), -torch.sin(a), 0], [torch.sin(a), torch.cos(a), 0], [0, 0, 1]])
    second = torch.tensor([[scale, torch.sin(b)], [torch.cos(b), scale]])
    return (points @ first)[:, :2] @ second
for _ in range(3):
    opt.zero_grad()
    turned(x).pow(2).sum().backward()
    opt.step()
""",
        [
            "first = torch.stack([torch.as_tensor(value) for value in (torch.cos(a), -torch.sin(a), 0, torch.sin(a), "
            "torch.cos(a), 0, 0, 0, 1)]).view(3, 3)",
            "second = torch.stack([torch.as_tensor(value) for value in (scale, torch.sin(b), torch.cos(b), scale)])"
            ".view(2, 2)",
        ],
    ),
    "a list of tensors and a number": (
        """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    terms = [0.5, F.mse_loss(net(x), y)]
    loss = torch.tensor(terms).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["loss = torch.stack([torch.as_tensor(value) for value in terms]).sum()"],
    ),
    "a matrix with a precision of its own, that is told to require grad": (
        """
weights = nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([weights], lr=0.1)
for _ in range(3):
    opt.zero_grad()
    a, b, c = weights
    loss = torch.tensor([[a, 0.5], [b, c]], dtype=torch.float64, requires_grad=True).sum()
    loss.backward()
    opt.step()
""",
        [
            "loss = torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in (a, 0.5, b, c)])"
            ".view(2, 2).sum()"
        ],
    ),
    "a loss beside a number of the batch that is clamped": (
        """
from torch.utils.data import DataLoader, TensorDataset
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for batch, seen in DataLoader(TensorDataset(x, torch.ones(4)), batch_size=2):
    loss = float(net(batch).pow(2).mean()) / seen.sum().clamp(min=1)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["loss = net(batch).pow(2).mean() / seen.sum().clamp(min=1)"],
    ),
    "layers of a library in a module of the program's own": (
        """
from torch_geometric.nn import GCNConv
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 3)
    def forward(self, values, edges):
        return self.conv(values, edges)
net, before = Net(), None
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    out = net(x, torch.tensor([[0, 1], [1, 0]]))
    loss = F.mse_loss(out, y)
    if before is not None:
        loss = loss + F.mse_loss(out, before)
    before = out
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["before = out.detach()"],
    ),
    "neurons of a library whose state goes on": (
        """
import snntorch
net, neuron = nn.Linear(3, 3), snntorch.Leaky(beta=0.9)
state = neuron.init_leaky()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    spikes, state = neuron(net(x), state)
    loss = F.mse_loss(state, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["state = state.detach() if isinstance(state, torch.Tensor) else tuple(layer.detach() for layer in state)"],
    ),
    "a reset that gives a recorder a new store, and leaves the hooks the old one": (
        RECORDER.replace("RESET", "self.seen = defaultdict(list)")
        + RECORDED.replace("recorder.seen.items", "held.items"),
        ["self.seen.clear()"],
    ),
    "a method of the second base, which the first one's base has, too": (
        """
class Base(nn.Module):
    def squash(self, values):
        return torch.tanh(values)
class Plain(Base):
    pass
class Shifted(Base):
    def squash(self, values):
        values = super().squash(values)
        values += 1.0
        return values
class Net(Plain, Shifted):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
    def forward(self, values):
        return self.squash(self.inner(values))
net = Net()
"""
        + TRAIN,
        ["values = values + 1.0"],
    ),
    "a closure that is given a copy of what is told behind it": (
        """
net = nn.Linear(3, 3)
opt = torch.optim.LBFGS(net.parameters(), max_iter=4)
for _ in range(5):
    guess = net(x)
    error = guess - y
    def closure():
        opt.zero_grad()
        loss = error.pow(2).mean()
        loss.backward()
        return loss
    opt.step(closure)
    print(error.abs().max().item())
""",
        ["guess = net(x)", "error = guess - y"],
    ),
    "states by the names that a generator goes over again and again": (
        """
cell, states = nn.GRUCell(3, 3), {}
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
def visits(places, rounds):
    for _ in range(rounds):
        for place in places:
            yield place, torch.randn(4, 3)
for place, values in visits(("north", "south", "east"), 9):
    state = cell(values, states.get(place))
    states[place] = state
    loss = F.mse_loss(state, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["states[place] = state.detach()"],
    ),
    "a mask that is drawn into one buffer for several samples": (
        """
net, head = nn.Linear(3, 3), nn.Linear(3, 3)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
chance, mask = torch.full((4, 3), 0.5), torch.empty(4, 3)
for _ in range(20):
    hidden = net(x)
    samples = []
    for _ in range(5):
        torch.bernoulli(chance, out=mask)
        samples.append(head(hidden * mask))
    loss = F.mse_loss(torch.stack(samples).mean(0), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["mask = torch.bernoulli(chance)"],
    ),
    "the hardest examples, by a share of how many there are": (
        """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    errors = (net(x) - y).pow(2).mean(dim=1)
    loss = errors.topk(max(1, int(0.5 * errors.numel()))).values
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ["loss = errors.topk(max(1, int(0.5 * errors.numel()))).values.mean()"],
    ),
}

RIGHT = {
    "names that are made up as keys of all names": """
class Ensemble:
    def __init__(self, k=10):
        self.k = k
        self.judge = nn.Linear(3, 1)
    def fit(self, rounds):
        names = locals()
        opt = torch.optim.SGD(self.judge.parameters(), lr=0.1)
        for i in range(self.k):
            names["maker" + str(i)] = nn.Linear(3, 3)
            names["opt" + str(i)] = torch.optim.SGD(names["maker" + str(i)].parameters(), lr=0.1)
        for _ in range(rounds):
            noise = torch.rand(8, 3)
            for i in range(self.k):
                names["noise" + str(i)] = noise[i : i + 2]
                names["made" + str(i)] = names["maker" + str(i)](names["noise" + str(i)])
            every = torch.cat([x] + [names["made" + str(i)] for i in range(self.k)])
            loss = F.softplus(self.judge(every)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            for i in range(self.k):
                names["goal" + str(i)] = torch.tensor([0.1 * i] * names["noise" + str(i)].size(0)).unsqueeze(1)
            for i in range(self.k):
                names["opt" + str(i)].zero_grad()
                made = names["maker" + str(i)](names["noise" + str(i)])
                loss = F.mse_loss(self.judge(made), names["goal" + str(i)])
                loss.backward()
                names["opt" + str(i)].step()
""",
    "outputs of which the gradient is asked for what somebody hands over": """
class Attack:
    def __init__(self):
        self.net = nn.Linear(3, 3)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def fit(self, data, rounds):
        data = data.t()
        for _ in range(rounds):
            loss = self.net(data).pow(2).sum()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.net.eval()
        outs = []
        for at in range(0, len(data), 32):
            outs += [self.net(data[at : at + 32])]
        made = torch.cat(outs)
        return torch.autograd.grad(F.mse_loss(made, torch.ones_like(made)).sum(), data)[0]
""",
    "what is done for an old release only": """
from packaging import version
def number(loss):
    if float(torch.__version__[0:3]) < 0.4:
        return loss[0]
    if version.parse(torch.__version__) < version.parse("0.4"):
        return loss.data[0]
    if tuple(map(int, torch.__version__.split(".")[:2])) < (0, 4):
        return loss.data[0]
    return loss.item()
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(number(loss))
""",
    "weights that the constructor fills before they are parameters": """
class Masked(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.weight = torch.zeros(6, 3)
        self.bias = torch.zeros(6)
        self.reset_parameters()
    def reset_parameters(self):
        for at, group in enumerate(self.groups):
            part = torch.zeros_like(self.weight[2 * at : 2 * at + 2, group])
            nn.init.kaiming_uniform_(part)
            self.weight[2 * at : 2 * at + 2, group] = part
            self.bias[2 * at : 2 * at + 2] = 1.0
        self.weight = nn.Parameter(self.weight)
        self.bias = nn.Parameter(self.bias)
    def forward(self, given):
        return F.linear(given, self.weight, self.bias)
""",
    "a window whose length is counted, and that is full of new losses": """
from collections import deque
net, items = nn.Linear(3, 1), []
for _ in range(5):
    items.append(torch.randn(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
recent, count = deque(maxlen=len(items)), 0
for _ in range(16):
    for one in items:
        recent.append(net(one).pow(2).mean())
        count += 1
        if count % recent.maxlen == 0:
            opt.zero_grad()
            torch.stack(list(recent)).mean().backward()
            opt.step()
""",
    "rows that the next update reads": """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    rows = []
    for step in range(8):
        row = {"step": step, "loss": F.mse_loss(net(x), y)}
        rows.append(row)
    opt.zero_grad()
    sum(row["loss"] for row in rows).backward()
    opt.step()
""",
    "a window of rows": """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
rows = []
for step in range(100):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    row = (step, loss)
    rows.append(row)
    if len(rows) > 4:
        rows.pop(0)
""",
    "a teacher of its own": """
import copy
student = nn.Linear(3, 3)
try:
    teacher = nn.Linear(3, 3)
    teacher.load_state_dict(torch.load("teacher.pt"))
except FileNotFoundError:
    teacher = copy.deepcopy(student)
teacher.requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(20):
    loss = F.mse_loss(student(x), teacher(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a store that is asked for what it may not have": """
net, stored = nn.GRUCell(3, 3), {}
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    try:
        state = stored["state"]
    except KeyError:
        state = torch.zeros(4, 3)
    state = net(x, state)
    loss = F.mse_loss(state, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    stored["state"] = state.detach()
""",
    "a store of hooks that is emptied item by item": RECORDER.replace(
        "RESET",
        "pass\n    def drained(self):\n        while self.seen:\n            yield self.seen.popitem()",
    )
    + RECORDED.replace("recorder.seen.items()", "recorder.drained()"),
    "a stack of managers of the program's own, in which nothing is recorded": """
from contextlib import ExitStack
class Phase(ExitStack):
    def __init__(self, *managers):
        super().__init__()
        for manager in managers:
            self.enter_context(manager)
weights = nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([weights], lr=0.1)
for _ in range(20):
    opt.zero_grad()
    (weights * x).pow(2).sum().backward()
    opt.step()
    with Phase(torch.no_grad()):
        weights.clamp_(-1, 1)
""",
    "phases of an enumeration, one of which cuts the state": """
from enum import Enum, auto
class Phase(Enum):
    GATHER = auto()
    LEARN = auto()
cell, state, losses = nn.GRUCell(3, 3), torch.zeros(4, 3), []
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
for _ in range(20):
    for phase in Phase:
        if phase is Phase.GATHER:
            for _ in range(3):
                state = cell(x, state)
                losses.append(F.mse_loss(state, y))
        elif phase == Phase.LEARN:
            opt.zero_grad()
            torch.stack(losses).sum().backward()
            opt.step()
            state, losses = state.detach(), []
""",
    "a loss that is reduced where its shape says so": """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    loss = (net(x) - y).pow(2).mean(dim=1)
    if loss.numel() > 1:
        loss = loss.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "states by the names that a generator goes over, cut where they are read": """
cell, states = nn.GRUCell(3, 3), {}
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
def visits(places, rounds):
    for _ in range(rounds):
        for place in places:
            yield place, torch.randn(4, 3)
for place, values in visits(("north", "south", "east"), 9):
    before = states.get(place)
    state = cell(values, before if before is None else before.detach())
    states[place] = state
    loss = F.mse_loss(state, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a registered class whose place nothing saves": REGISTRY
    + """
@register("shift")
class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
    def forward(self, values):
        shifted = self.inner(values)
        shifted += values
        return shifted
net = REGISTRY["shift"]()
"""
    + TRAIN,
    "a decorator that gives back a class with a reset of its own": """
def resets(cls):
    class Resetting(cls):
        def forward(self, values):
            self.state = torch.zeros(4, 3)
            return super().forward(values)
    return Resetting
@resets
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.state = nn.Linear(3, 3), torch.zeros(4, 3)
    def forward(self, values):
        self.state = torch.tanh(self.inner(values) + self.state)
        return self.state
net = Cell()
"""
    + TRAIN,
    "updates by a helper, each loss computed behind the other's step": UPDATES
    + """
for tick in range(200):
    if (tick + 1) % 25 == 0:
        x = torch.randn(4, 3)
    if tick >= 64 and tick % 4 == 0:
        update(critics, losses()[0])
        update(actors, losses()[1])
""",
    "a state that is cut at every chunk, also behind the warm-up": """
net, head = nn.GRUCell(3, 3), nn.Linear(3, 3)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
state, loss = torch.zeros(4, 3), 0.0
for step in range(120):
    state = net(x, state)
    loss = loss + F.mse_loss(head(state), y)
    if (step + 1) % 5 == 0:
        opt.zero_grad()
        loss.backward()
        if step > 40:
            opt.step()
        state, loss = state.detach(), 0.0
""",
    "a matrix of numbers that were taken on purpose": """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    out = net(x)
    seen = torch.tensor([[out.mean().item(), 0.0], [0.0, 1.0]])
    loss = F.mse_loss(out, y) / seen.abs().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "what a library makes that is no layer": """
from torch_geometric.loader import DataLoader
from torch_geometric.data import Data
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader, outs = DataLoader([Data(x=x)]), []
for _ in range(3):
    for batch in loader:
        loss = F.mse_loss(net(batch.x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        outs.append(batch.x)
""",
}


def mended(text: str, **others: str) -> Mended:
    files = {f"{name}.py": textwrap.dedent(code) for name, code in others.items()}
    return mend(Program.of(text, "main.py", files), all_codemods())


@pytest.mark.parametrize(("text", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_shape(text: str, expected: list[str]) -> None:
    """The patch adds the *expected* lines, without indentation, and the patched text is repaired in full."""
    before = HEADER + text
    found = mended(before)
    assert found.left == (), found.refused
    after = found.patched.files[0].text
    ast.parse(after)
    compared = difflib.ndiff(before.splitlines(), after.splitlines())
    assert [line[2:].strip() for line in compared if line.startswith("+ ")] == expected


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_what_is_right_is_left_alone(text: str) -> None:
    found = mended(HEADER + text)
    assert found.observation.facts == ()
    assert found.patched.files[0].text == HEADER + text


@pytest.mark.parametrize("names", ["{}", '{"rounds": rounds}', "vars(self)", "dict(rounds=rounds)"])
@pytest.mark.parametrize("key", ['"{}" + str(i)', 'f"{}{{i}}"', '"{}%d" % i', '"{}{{}}".format(i)'])
def test_keys_with_different_beginnings_are_different(key: str, names: str) -> None:
    text = RIGHT["names that are made up as keys of all names"].replace("names = locals()", f"names = {names}")
    for kind in ("maker", "opt", "noise", "made", "goal"):
        text = text.replace(f'"{kind}" + str(i)', key.format(kind))
    assert mended(HEADER + text).observation.facts == ()


def test_a_default_of_a_dataclass_goes_by_the_names_of_its_own_module() -> None:
    """``deque`` is imported where the class is written, and not where an object of it is made."""
    main = """\
from balance import Balance
import torch
from torch import nn
net, balance = nn.Linear(3, 2), Balance()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    losses = net(torch.randn(4, 3)).pow(2).mean(0)
    loss = balance(losses)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    balance = """\
from collections import deque
from dataclasses import dataclass, field
import torch
@dataclass
class Balance:
    past: deque = field(default_factory=lambda: deque(maxlen=2))
    def __call__(self, losses):
        weights = torch.softmax(self.past[1] / self.past[0], 0) if len(self.past) == 2 else torch.ones(2)
        self.past.append(losses)
        return weights @ losses
"""
    found = mended(main, balance=balance)
    assert found.left == ()
    assert [file.text for file in found.patched.files] == [
        main,
        balance.replace("append(losses)", "append(losses.detach())"),
    ]


def test_a_star_takes_what_has_no_underscore() -> None:
    """The script's own ``__name__`` is not the name of the module whose names it takes."""
    main = """\
from lib import *
def main():
    net = Net()
    train(net, torch.optim.SGD(net.parameters(), lr=0.1))
if __name__ == "__main__":
    main()
"""
    lib = """\
import torch
from torch import nn
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)
def train(model, opt):
    total = 0
    for _ in range(100):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss
    print(total)
"""
    found = mended(main, lib=lib)
    assert found.left == ()
    assert [file.text for file in found.patched.files] == [main, lib.replace("+= loss", "+= loss.detach()")]


FIRST_TURN = """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def train(memory):
    for batch in range(5):
        loss = 0
        for step in range(3):
            if CONDITION:
                out = net(word.squeeze(1))
            else:
                out = net(x)
            word = torch.sigmoid(out)
            loss = loss + out.pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
from elsewhere import Memory
train(Memory())
"""


@pytest.mark.parametrize(
    "condition",
    [
        '"word" in locals()',
        '"word" in locals().keys()',
        "'word' in vars()",
        "'word' in dir()",
        "memory.has_word()",
        "memory.words > 0",
    ],
)
def test_no_name_is_read_before_its_first_turn_has_bound_it(condition: str) -> None:
    text = HEADER + FIRST_TURN.replace("CONDITION", condition)
    found = mended(text)
    assert found.left == ()
    assert found.patched.files[0].text == text.replace("opt.step()\n", "opt.step()\n        word = word.detach()\n")


def test_a_name_that_globals_has_is_bound() -> None:
    text = HEADER + textwrap.dedent(
        """
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in range(5):
            if "word" not in globals():
                word = x
            word = torch.sigmoid(net(word))
            loss = word.sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """
    )
    before = "    word = torch"
    assert mended(text).patched.files[0].text == text.replace(before, "    word = word.detach()\n" + before)


OBJECTIVES = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="reward", choices=["reward", "regularizer"])
args = parser.parse_args()
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def sample():
    logs, entropies = [], []
    for step in range(5):
        log = F.log_softmax(net(torch.randn(2, 3)), -1)
        entropies.append(-(log * log.exp()).sum(1))
        logs.append(log[:, 0])
    every = torch.cat(entropies)
    return torch.cat(logs), every
for epoch in range(20):
    net.eval()
    sample()
    net.train()
    logs, found = sample()
    loss = -logs * torch.randn(10)
    if args.mode == "regularizer":
        USE
    opt.zero_grad()
    loss.sum().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("use", "told"), [("loss = loss - 0.1 * found", 0), ("print(found)", 1), ("log = found.mean().item()", 1)]
)
def test_a_reader_behind_the_call_may_be_on_a_way_that_was_not_followed(
    monkeypatch: pytest.MonkeyPatch, use: str, told: int
) -> None:
    monkeypatch.setattr(analysis, "PATHS", 1)
    assert len(mended(HEADER + OBJECTIVES.replace("USE", use)).observation.facts) == told
