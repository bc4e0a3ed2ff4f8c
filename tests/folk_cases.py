# ruff: noqa: E501 - the scripts are written as their users write them
"""Folk repairs, each of which silences the error: scripts on which they look right, and what the certificate says."""

from __future__ import annotations

from tests.proof_cases import Case, Patch

PIX2PIX = """\
import torch
from torch import nn

torch.manual_seed(1)
G, D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4)), nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optG, optD = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce, l1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
one, zero = torch.ones(8, 1), torch.zeros(8, 1)
for step in range(60):
    a, b = torch.randn(8, 4), torch.randn(8, 4)
    fake = G(a)
    score = D(torch.cat([a, fake], 1))
    lossD = bce(score, zero) + bce(D(torch.cat([a, b], 1)), one)
    optD.zero_grad()
    lossD.backward()
    optD.step()
    lossG = bce(score, one) + 10 * l1(fake, b)
    optG.zero_grad()
    lossG.backward()
    optG.step()
"""
KEPT = ("lossD.backward()", "lossD.backward(retain_graph=True)")
ANEW = ("    lossG = bce(score, one)", "    score = D(torch.cat([a, fake], 1))\n    lossG = bce(score, one)")

CRITIC_STEPS = """\
import torch
from torch import nn

torch.manual_seed(2)
G, D = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)), nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optG, optD = torch.optim.RMSprop(G.parameters(), 1e-3), torch.optim.RMSprop(D.parameters(), 1e-3)

def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for step in range(60):
    z, real = torch.randn(8, 3), torch.randn(8, 3) + 1
    fake = G(z)
    for _ in range(3):
        update(optD, D(fake).mean() - D(real).mean())
    update(optG, -D(fake).mean() + (fake - real).pow(2).mean())
"""

CHUNKS = """\
import torch
from torch import nn

torch.manual_seed(3)
cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
h = torch.zeros(4, 5)
for t in range(80):
    x = torch.randn(4, 3)
    h = cell(x, h)
    loss = (head(h) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    if t % 4 == 3:
        opt.step()
        opt.zero_grad()
"""

STATE = """\
import torch
from torch import nn

torch.manual_seed(5)
cell, head = nn.RNNCell(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
h = torch.zeros(4, 6)
for step in range(STEPS):
    x = torch.randn(4, 3)
    h = cell(x, h)
    loss = (head(h) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LONG, SHORT = STATE.replace("STEPS", "1000"), STATE.replace("STEPS", "3")
CUT = ("    h = cell(x, h)", "    h = cell(x, h.detach())")
STEP = "    optimizer.step()\n"

STORED = """\
import torch
from torch import nn

torch.manual_seed(10)
first, second = nn.Linear(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0])
store = []
for step in range(STEPS):
    h = first(x)
    out = second(h) + sum(store, torch.zeros(5)).mean()
    store.append(h)
    loss = nn.functional.mse_loss(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FOUR, ENDLESS = STORED.replace("STEPS", "4"), STORED.replace("STEPS", "100000")
RETAINED = ("loss.backward()", "loss.backward(retain_graph=True)")
WAITING = "graph nodes more at every step keep tensors saved for a backward pass"

ONE_WAY = """\
import torch

weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
x, total = torch.tensor([1.0, 2.0, 3.0, 4.0]), 0
for step in range(60):
    total = 0.5 * total + (weight * x).sum()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""

SUMMED = "    sum(losses).backward()\n"
EACH = "    for loss in losses:\n        loss.backward(retain_graph=loss is losses[0])\n"
TWO_LOSSES = f"""\
import torch
from torch import nn

torch.manual_seed(12)
cell, head = nn.RNNCell(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
h = torch.zeros(4, 6)
for step in range(60):
    x = torch.randn(4, 3)
    h = cell(x, h)
    losses = [(head(h) - 1).pow(2).mean(), h.abs().mean()]
    optimizer.zero_grad()
{SUMMED}    optimizer.step()
"""

IN_BACKWARD = """\
import torch
from torch import nn

torch.manual_seed(11)
net = nn.Linear(3, 2)
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

def step_now(p):
    optimizers[p].step()
    optimizers[p].zero_grad()

for p in net.parameters():
    p.register_post_accumulate_grad_hook(step_now)
centre = torch.zeros(2)
for step in range(60):
    out = net(torch.randn(8, 3))
    centre = 0.9 * centre + 0.1 * out.mean(0)
    ((out - 1).pow(2).mean() + (out - centre).pow(2).mean()).backward()
"""

TWICE = """\
import torch
from torch import nn

torch.manual_seed(6)
net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(1000):
    x = torch.randn(4, 3)
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    print(step, loss.item())
    loss.backward()
    optimizer.step()
"""

SAM = """\
import torch
from torch import nn

class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.norm(torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * group["rho"] / (norm + 1e-12))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()

torch.manual_seed(8)
net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
centre = torch.zeros(2)
for step in range(1000):
    x, y = torch.randn(8, 3), torch.randint(2, (8,))
    out = net(x)
    centre = 0.9 * centre + 0.1 * out.mean(0)
    loss = nn.functional.cross_entropy(out, y) + (out - centre).pow(2).mean()
    loss.backward()
    optimizer.first_step()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.second_step()
"""

BY_HAND = """\
import torch
from torch import nn

torch.manual_seed(9)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
centre = torch.zeros(2)
for step in range(60):
    out = net(torch.randn(8, 3))
    centre = 0.9 * centre + 0.1 * out.mean(0)
    loss = (out - 1).pow(2).mean() + (out - centre).pow(2).mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
"""
CENTRE = ("0.9 * centre +", "0.9 * centre.detach() +")

LEAF = """\
import torch
from torch import nn

torch.manual_seed(7)
net = nn.Linear(3, 2)
optimizer = torch.optim.Adam(net.parameters())
for step in range(1000):
    h = torch.sigmoid(net(torch.randn(4, 3)))
    h *= 2
    loss = h.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

TASKS = """\
import torch
from torch import nn

torch.manual_seed(3)
heads = nn.ModuleDict({"near": nn.Linear(3, 2), "far": nn.Linear(3, 2)})
optimizer = torch.optim.SGD(heads.parameters(), lr=0.1)
for step in range(12):
    x, goal = torch.randn(6, 3), torch.randn(6, 2)
    optimizer.zero_grad()
    total = 0
    for name in heads:
        part = (heads[name](x) - goal).pow(2).mean()
        part.backward()
        total += part
    total.backward()
    optimizer.step()
"""

CASES = (
    Case(
        "the losses of a loop, and their sum behind it",
        TASKS,
        (
            Patch("the sum alone", True, (("        part.backward()\n", ""),), (5, "exact")),
            Patch("each loss alone", True, (("    total.backward()\n", ""),), (5, "exact")),
            Patch("both, by a kept graph", False, (("part.backward()", "part.backward(retain_graph=True)"),), (5, "scaled")),
            Patch("the last loss alone", False, (("        part.backward()\n", ""), ("total.backward()", "part.backward()")), (5, "")),
        ),
    ),
    Case(
        "the losses of a loop, and the total of their stack",
        TASKS.replace("total = 0", "parts = []").replace("total += part", "parts.append(part)").replace(
            "total.backward()", "torch.stack(parts).sum().backward()"
        ),
        (
            Patch("the stack alone", True, (("        part.backward()\n", ""),), (5, "exact")),
            Patch("both, by a kept graph", False, (("part.backward()", "part.backward(retain_graph=True)"),), (5, "scaled")),
        ),
    ),
    Case(
        "two terms for the generator",
        PIX2PIX,
        (
            Patch("the score is asked anew", True, (("score = D(torch.cat([a, fake], 1))", "score = D(torch.cat([a, fake.detach()], 1))"), ANEW), (5, "recomputed")),
            Patch("asked anew, and the loss counts twice", False, (("score = D(torch.cat([a, fake], 1))", "score = D(torch.cat([a, fake.detach()], 1))"), ANEW, ("lossG.backward()", "(2 * lossG).backward()")), (5, "scaled")),
            Patch("the adversarial term is detached", False, (KEPT, ("bce(score, one)", "bce(score.detach(), one)")), (5, "dropped")),
            Patch("the other term is detached, too", False, (KEPT, ("bce(score, one)", "bce(score.detach(), one)"), ("l1(fake, b)", "l1(fake.detach(), b)")), (2, "does not require grad")),
        ),
    ),
    Case(
        "critic steps in a loop within",
        CRITIC_STEPS,
        (
            Patch("the critic sees samples without graph", True, (("update(optD, D(fake)", "update(optD, D(fake.detach())"),), (5, "exact")),
            Patch(
                "the generator's score is detached, too",
                False,
                (("update(optD, D(fake)", "update(optD, D(fake.detach())"), ("-D(fake).mean()", "-D(fake.detach()).mean()")),
                (5, "dropped"),
            ),
        ),
    ),
    Case(
        "accumulated gradients with a state",
        CHUNKS,
        (Patch("the state is detached after each pass", True, (("    loss.backward()\n", "    loss.backward()\n    h = h.detach()\n"),), (5, "truncated")),),
    ),
    Case(
        "a state that is carried",
        LONG,
        (
            Patch("the state is detached", True, (CUT,), (5, "truncated")),
            Patch("retain_graph=True, as the message says", False, (("backward()", "backward(retain_graph=True)"),), (2, "modified by an inplace operation")),
            Patch("the output is detached", False, (("cell(x, h)", "cell(x, h).detach()"),), (4, "cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh: gets no gradient any more")),
            Patch("the output's .data", False, (("cell(x, h)", "cell(x, h).data"),), (4, "gets no gradient any more")),
            Patch("half the loss", False, (CUT, ("loss.backward()", "(loss if step < 1 else loss / 2).backward()")), (5, "0.5 times the reference")),
            Patch("the loss counts twice", False, (CUT, ("loss.backward()", "(loss if step < 1 else 2 * loss).backward()")), (5, "2 times the reference")),
            Patch("the pass runs twice", False, (CUT, ("    loss.backward()", "    loss.backward(retain_graph=True)\n    loss.backward()")), (3, "differ")),
            Patch("half the learning rate", False, (CUT, (STEP, "    if step: optimizer.param_groups[0]['lr'] = 0.025\n" + STEP)), (4, "lr is 0.025 instead of 0.05 from step 2 on")),
            Patch("a step in every second iteration", False, (CUT, (STEP, "    if step < 1 or step % 2:\n    " + STEP)), (4, "its optimizer steps after every 2 backward passes instead of 1")),
            Patch("a part is frozen after two steps", False, (CUT, ("    loss =", "    cell.requires_grad_(step < 3)\n    loss =")), (4, "gets no gradient after step 3")),
            Patch("a part is put back after every step", False, (CUT, ("h = torch.zeros", "first = head.weight.detach().clone()\nh = torch.zeros"), (STEP, STEP + "    if step: head.weight.data.copy_(first)\n")), (4, "head.weight: is changed by other means than its optimizer before step 3")),
        ),
    ),
    Case(
        "a state that is carried for three steps",
        SHORT,
        (
            Patch("the state is detached", True, (CUT,), (6, "too few steps to tell")),
            Patch("retain_graph=True, as the message says", False, (("backward()", "backward(retain_graph=True)"),)),
        ),
    ),
    Case(
        "outputs that are stored",
        ENDLESS,
        (
            Patch("they are detached", True, (("append(h)", "append(h.detach())"),), (6, "do not grow")),
            Patch("retain_graph=True, as the message says", False, (RETAINED,), (6, WAITING)),
            Patch("the network is frozen", False, (("h = first(x)", "h = first(x).detach()"),), (4, "first.weight, first.bias: gets no gradient any more")),
            Patch("their .data", False, (("h = first(x)", "h = first(x).data"),), (4, "first.weight, first.bias: gets no gradient any more")),
        ),
    ),
    Case(
        "outputs that are stored for four steps",
        FOUR,
        (
            Patch("they are detached", True, (("append(h)", "append(h.detach())"),), (6, "too few steps to tell")),
            Patch("retain_graph=True, as the message says", False, (RETAINED,), (6, WAITING)),
        ),
    ),
    Case(
        "gradients that all point one way",
        ONE_WAY,
        (
            Patch("the total is detached", True, (("0.5 * total", "0.5 * (total.detach() if step else total)"),), (5, "truncated")),
            Patch("and counts by half", False, (("0.5 * total", "0.5 * (total.detach() if step else total)"), ("total.backward()", "(total / (2 if step else 1)).backward()")), (5, "0.5 times the reference")),
        ),
    ),
    Case(
        "losses of one iteration",
        TWO_LOSSES,
        (
            Patch("one pass for each, and the state is detached", True, ((SUMMED, EACH), ("h = cell(x, h)", "h = cell(x, h.detach())")), (5, "truncated")),
            Patch("each twice", False, ((SUMMED, EACH + EACH.replace("retain_graph=loss is losses[0]", "retain_graph=True")), ("h = cell(x, h)", "h = cell(x, h.detach())"), ("retain_graph=loss is losses[0]", "retain_graph=True"))),
        ),
    ),
    Case(
        "optimizers that step within the pass",
        IN_BACKWARD,
        (
            Patch("the average is detached", True, (CENTRE,), (4, "gradients and movement as before")),
            Patch("the network is cut off", False, (CENTRE, ("out = net(torch.randn(8, 3))", "out = net(torch.randn(8, 3))\n    if step > 3: net.requires_grad_(False); out = out.requires_grad_()"))),
        ),
    ),
    Case(
        "a pass that runs twice",
        TWICE,
        (
            Patch("once", True, (("    print(step, loss.item())\n    loss.backward()\n", ""),), (5, "exact")),
            Patch("retain_graph=True, as the message says", False, (("backward()\n    print", "backward(retain_graph=True)\n    print"),), (5, "2 times the reference")),
        ),
    ),
    Case(
        "an optimizer that wraps another",
        SAM,
        (
            Patch("the average is detached", True, (CENTRE,), (4, "gradients and movement as before")),
            Patch("the network is cut off", False, (CENTRE, ("out = net(x)", "out = net(x).detach().requires_grad_()"), ("cross_entropy(net(x), y)", "cross_entropy(net(x).detach().requires_grad_(), y)"))),
            Patch("no second step", False, (CENTRE, ("        self.base_optimizer.step()\n", "")), (5, "lost")),
        ),
    ),
    Case(
        "weights that are updated by hand beside an optimizer",
        BY_HAND,
        (
            Patch("the average is detached", True, (CENTRE,), (4, "gradients and movement as before")),
            Patch("no update", False, (CENTRE, ("p -= 0.1 * p.grad", "p.grad")), (4, "never moves")),
        ),
    ),
    Case(
        "a value that is overwritten",
        LEAF,
        (
            Patch("out of place", True, (("h *= 2", "h = h * 2"),), (5, "exact")),
            Patch("behind autograd's back", False, (("h *= 2", "h.data *= 2"),), (5, "changed")),
        ),
    ),
)  # fmt: skip
