# ruff: noqa: E501 - the scripts are written as their users write them
"""Patches that repair the failure and train on something else besides; and right ones that look like them."""

from __future__ import annotations

from tests.proof_cases import Case, Patch

HISTORY = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(60)]
history = [torch.zeros(8, 1)]
for step, (inputs, target) in enumerate(data):
    output = net(inputs)
    average = torch.stack(history).mean(0)
    loss = (output - target).pow(2).mean() + 0.1 * (output - average).pow(2).mean()
    history.append(output)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DETACHED = ("history.append(output)", "history.append(output.detach())")
BACKWARD = "    loss.backward()\n"
BY_GRAD = (
    "    for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters()))):\n        p.grad = g\n"
)


OLD_POLICY = """\
import torch
from torch import nn
from torch.nn.functional import log_softmax

torch.manual_seed(0)
policy = nn.Linear(3, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
states = torch.randn(4, 3)

def update(old):
    new = log_softmax(policy(states), 1)
    loss = 2 * (new - old).pow(2).mean() + new[:, 0].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

old = log_softmax(policy(states), 1)
for _ in range(3):
    update(old)
"""
"""The distance from the old policy begins at zero: a thousandth of the gradient at the second update."""
OLD = ("\nold = log_softmax(policy(states), 1)", "\nold = log_softmax(policy(states), 1).detach()")


def after_backward(lines: str) -> tuple[str, str]:
    return BACKWARD, f"{BACKWARD}{lines}"


CLIPPED = HISTORY.replace(BACKWARD, f"{BACKWARD}    nn.utils.clip_grad_norm_(net.parameters(), 0.5)\n")
NOISY = HISTORY.replace(
    BACKWARD, f"{BACKWARD}    for p in net.parameters():\n        p.grad += 0.01 * torch.randn_like(p)\n"
)

BY_HAND = """\
import torch

torch.manual_seed(0)
w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
history = [torch.zeros(8, 1)]
for step in range(40):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    output = x @ w + b
    average = torch.stack(history).mean(0)
    loss = (output - y).pow(2).mean() + 0.1 * (output - average).pow(2).mean()
    history.append(output)
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.05 * p.grad
            p.grad.zero_()
"""
SPARSE = HISTORY.replace("nn.Tanh()", "nn.Tanh(), nn.Dropout(0.2)")
PLANNED = HISTORY.replace("data = [", "plan = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)\ndata = [").replace(
    "    optimizer.step()\n", "    optimizer.step()\n    plan.step()\n"
)

NO_GRAPH = """\
import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(40):
    prediction = second(torch.tanh(first(x)))
    loss = torch.tensor((prediction - y).pow(2).mean().item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WITH_GRAPH = ("torch.tensor((prediction - y).pow(2).mean().item())", "(prediction - y).pow(2).mean()")
APART_STEPS = (
    NO_GRAPH.replace(
        "SGD([*first.parameters(), *second.parameters()], lr=0.1)",
        "SGD(first.parameters(), lr=0.1)\nother = torch.optim.Adam(second.parameters())",
    )
    .replace("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    other.zero_grad()\n")
    .replace("    optimizer.step()\n", "    optimizer.step()\n    other.step()\n")
)

ADVERSARIAL = """\
import torch
from torch import nn

torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
disc = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
g_opt = torch.optim.Adam(gen.parameters(), lr=1e-2)
d_opt = torch.optim.Adam(disc.parameters(), lr=1e-2)
bce = nn.BCEWithLogitsLoss()
for step in range(60):
    real = torch.randn(16, 3) + 1
    fake = gen(torch.randn(16, 4))
    d_loss = bce(disc(real), torch.ones(16, 1)) + bce(disc(fake), torch.zeros(16, 1))
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = bce(disc(fake), torch.ones(16, 1))
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
APART = ("bce(disc(fake), torch.zeros(16, 1))", "bce(disc(fake.detach()), torch.zeros(16, 1))")

RELATIVE = """\
import torch
from torch import nn

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.DROPOUT, NORM(nn.Linear(8, 1)))
    def forward(self, x, y=None):
        a = self.net(x)
        return torch.sigmoid(a) if y is None else torch.sigmoid(a - self.net(y).mean())

torch.manual_seed(0)
g, d = nn.Linear(2, 4), Critic()
og, od = torch.optim.SGD(g.parameters(), lr=0.1), torch.optim.SGD(d.parameters(), lr=0.1)
relative = True
for step in range(40):
    real = torch.randn(8, 4)
    fake = g(torch.randn(8, 2))
    if relative:
        rt, ft = d(real, fake), d(fake, real)
    else:
        rt, ft = d(real), d(fake)
    d.zero_grad()
    (ft.mean() - rt.mean()).backward(retain_graph=True)
    od.step()
    g.zero_grad()
    gl = -ft.mean() + 0.1 * fake.pow(2).mean()
    gl.backward()
    og.step()
"""
PLAIN = RELATIVE.replace("nn.DROPOUT", "nn.ReLU()").replace("NORM", "")
DROPS = RELATIVE.replace("nn.DROPOUT", "nn.Dropout(0.3)").replace("NORM", "")
SPECTRAL = RELATIVE.replace("nn.DROPOUT", "nn.ReLU()").replace("NORM", "nn.utils.parametrizations.spectral_norm")
RIGHT = Patch(
    "asked anew as it was asked", True, (("    gl =", "    ft = d(fake, real)\n    gl ="),), (5, "recomputed")
)
WRONG = Patch(
    "asked anew by another formula", False, (("    gl =", "    ft = d(fake)\n    gl ="),), (5, "another formula")
)

PRETRAINED = """\
import torch
from torch import nn

torch.manual_seed(0)
body, aux, head = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(8, 1)
opt = torch.optim.Adam([*body.parameters(), *aux.parameters(), *head.parameters()], lr=1e-2)
for step in range(10):
    x = torch.randn(16, 4)
    loss = (aux(torch.relu(body(x))) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
average = torch.zeros(1)
for step in range(30):
    x = torch.randn(16, 4)
    out = head(torch.relu(body(x)))
    LINE
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
AVERAGED = PRETRAINED.replace(
    "LINE",
    "average = 0.9 * average + 0.1 * out.mean(0)\n    loss = (out - x.sum(1, keepdim=True)).pow(2).mean() + average.pow(2).mean()",
)
CUT_LATER = PRETRAINED.replace("LINE", "loss = torch.tensor((out - 1).pow(2).mean().item())")
RECORDED = ("torch.tensor((out - 1).pow(2).mean().item())", "(out - 1).pow(2).mean()")
FROM_EPOCH = """\
import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8), nn.Linear(8, 1)
opt = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=1e-2)
state = torch.zeros(16, 8)
for epoch in range(4):
    if epoch == 2:
        backbone.requires_grad_(False)
    for step in range(5):
        x = torch.randn(16, 4)
        h = torch.relu(backbone(x))
        out = head(h + 0.1 * state)
        if epoch >= 2:
            state = torch.tanh(out.mean() + h + state)
        loss = (out - x.sum(1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""

LEAF = """\
import torch
a = torch.ones(2, requires_grad=True)
a += 1
a.pow(2).sum().backward()
print(a.grad)
"""
PRINTED = """\
import torch
from torch import nn
torch.manual_seed(0)
out = nn.Linear(3, 1)(torch.ones(3))
print(out.numpy())
"""
NO_LOOP = (4, "the script trains nothing")

CASES = (
    Case(
        "a distance from the old policy",
        OLD_POLICY,
        (
            Patch("detached", True, (OLD,), (5, "truncated")),
            Patch("the distance detached, too", False, (OLD, (".mean() + new", ".mean().detach() + new")), (5, "dropped")),
            Patch("the new policy detached there", False, (OLD, ("(new - old)", "(new.detach() - old)"))),
        ),
    ),
    Case(
        "a leaf that is changed, and no training",
        LEAF,
        (
            Patch("without recording", True, (("a += 1", "with torch.no_grad():\n    a += 1"),), NO_LOOP),
            Patch("behind autograd's back", True, (("a += 1", "a.data += 1"),), NO_LOOP),
            Patch("and the loss doubled", False, (("a += 1", "a.data += 1"), ("a.pow(2)", "(2 * a.pow(2))"))),
            Patch("left out", False, (("a += 1\n", ""),)),
        ),
    ),
    Case(
        "values for numpy, and no pass",
        PRINTED,
        (
            Patch("detached", True, (("out.numpy()", "out.detach().numpy()"),), NO_LOOP),
            Patch("of something else", False, (("out.numpy()", "(2 * out).detach().numpy()"),)),
            Patch("left out", False, (("print(out.numpy())\n", ""),)),
        ),
    ),
    Case(
        "gradients between the pass and the step",
        HISTORY,
        (
            Patch("detached", True, (DETACHED,), (5, "truncated")),
            Patch("by torch.autograd.grad", True, (DETACHED, (BACKWARD, BY_GRAD)), (5, "truncated")),
            Patch("by torch.autograd.grad, negated", False, (DETACHED, (BACKWARD, BY_GRAD.replace("= g\n", "= g if step < 1 else -g\n")))),
            Patch("negated", False, (DETACHED, after_backward("    for p in net.parameters():\n        p.grad *= 1.0 if step < 1 else -1.0\n")), (5, "made of -1 times")),
            Patch("clipped", False, (DETACHED, after_backward("    if step:\n        nn.utils.clip_grad_norm_(net.parameters(), 0.5)\n")), (5, "a step is made of")),
            Patch("set to zero for one layer", False, (DETACHED, after_backward("    if step:\n        net[0].weight.grad.zero_()\n"))),
            Patch("changed by a hook of the optimizer", False, (DETACHED, ("data = [", "seen = []\ndef half(*_):\n    seen.append(1)\n    for p in net.parameters():\n        p.grad *= 1.0 if len(seen) < 2 else 0.5\noptimizer.register_step_pre_hook(half)\ndata = [")), (5, "made of 0.5 times")),
            Patch("in two passes", True, (DETACHED, (BACKWARD, "    (output - target).pow(2).mean().backward(retain_graph=True)\n    (0.1 * (output - average).pow(2).mean()).backward()\n"))),
            Patch("half the gradient from the third step on", False, (DETACHED, ("loss.backward()", "loss.backward(torch.tensor(1.0 if step < 2 else 0.5))")), (5, "changed at compared step 2")),
            Patch("added up from the third step on", False, (DETACHED, ("optimizer.zero_grad()", "optimizer.zero_grad() if step < 2 else None")), (5, "changed at compared step 2")),
            Patch("two steps for a pass", False, (DETACHED, ("    optimizer.step()\n", "    optimizer.step()\n    if step: optimizer.step()\n"))),
            Patch("other targets from the third step on", False, (DETACHED, ("    output =", "    target = target if step < 2 else target.roll(1, 0)\n    output =")), (5, "another formula")),
            Patch("half the loss from the third step on", False, (DETACHED, ("loss.backward()", "(loss if step < 2 else 0.5 * loss).backward()")), (5, "another formula")),
            Patch("another weight from the third step on", False, (DETACHED, ("+ 0.1 *", "+ (0.1 if step < 2 else 0.2) *")), (5, "another formula")),
            Patch("a term detached from the third step on", False, (DETACHED, ("loss.backward()", "(loss if step < 2 else (output - target).pow(2).mean().detach() + 0.1 * (output - average).pow(2).mean()).backward()"))),
        ),
    ),
    Case(
        "weights that are updated by hand",
        BY_HAND,
        (
            Patch("detached", True, (DETACHED,), (5, "truncated")),
            Patch("the other way", False, (DETACHED, ("p -= 0.05 *", "p -= (0.05 if step < 1 else -0.05) *")), (4, "moves by 0.05 times its gradient")),
            Patch("half as far", False, (DETACHED, ("p -= 0.05 *", "p -= (0.05 if step < 1 else 0.025) *")), (4, "moves by -0.025 times its gradient")),
        ),
    ),
    Case(
        "a network with dropout",
        SPARSE,
        (
            Patch("detached", True, (DETACHED,), (5, "truncated")),
            Patch("without dropout from the third step on", False, (DETACHED, ("    output", "    net.train(step < 2)\n    output")), (5, "another formula")),
        ),
    ),
    Case(
        "what steers the training",
        """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
mean = torch.zeros(())
for t in range(10):
    x = torch.randn(8, 3)
    y = net(x)
    mean = 0.9 * mean + 0.1 * y.mean()
    loss = (y - x.sum(1, keepdim=True)).pow(2).mean() + 0.1 * (y - mean).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 2:
        net.eval()
        with torch.no_grad():
            net(x)
        net.train()
""",
        (
            Patch("the mean is detached", True, (("0.9 * mean", "0.9 * mean.detach()"),)),
            Patch(
                "and the evaluation trains its statistics",
                False,
                (("0.9 * mean", "0.9 * mean.detach()"), ("        net.eval()\n", "")),
                (4, "no longer called as BatchNorm1d"),
            ),
            Patch(
                "and statistics move otherwise",
                False,
                (("0.9 * mean", "0.9 * mean.detach()"), ("BatchNorm1d(4)", "BatchNorm1d(4, momentum=0.9)")),
                (4, "is called as BatchNorm1d(momentum=0.9"),
            ),
            Patch(
                "and the optimizer forgets its momentum",
                False,
                (("0.9 * mean", "0.9 * mean.detach()"), ("    opt.step()", "    opt.step()\n    if t > 3: opt.state.clear()")),
                (4, "at step"),
            ),
            Patch(
                "and it steps twice",
                False,
                (("0.9 * mean", "0.9 * mean.detach()"), ("    opt.step()", "    opt.step()\n    if t > 1: opt.step()")),
                (4, "twice"),
            ),
            Patch(
                "and training ends early",
                False,
                (("0.9 * mean", "0.9 * mean.detach()"), ("range(10)", "range(5)")),
                (4, "training ends after 5 steps"),
            ),
        ),
    ),
    Case(
        "random numbers that the original does not draw",
        """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
mean = torch.zeros(())
for t in range(12):
    x = torch.randn(8, 3)
    y = net(x)
    mean = 0.9 * mean + 0.1 * y.mean()
    loss = (y - x.sum(1, keepdim=True)).pow(2).mean() + 0.1 * (y - mean).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            Patch("the mean is detached", True, (("0.9 * mean", "0.9 * mean.detach()"),)),
            Patch(
                "behind a draw, another target",
                False,
                (
                    ("0.9 * mean", "0.9 * mean.detach()"),
                    ("    y = net(x)", "    if t > 1: torch.rand(1)\n    y = net(x)"),
                    ("x.sum(1, keepdim=True)", "x.sum(1, keepdim=True) * (1 + (t > 1))"),
                ),
            ),
        ),
    ),
    Case(
        "a learning rate that falls",
        PLANNED,
        (
            Patch("detached", True, (DETACHED,), (5, "truncated")),
            Patch("and stays", False, (DETACHED, ("    plan.step()\n", "    if step < 1: plan.step()\n")), (4, "lr is 0.1 instead of 0.05")),
        ),
    ),
    Case(
        "gradients that the script clips itself",
        CLIPPED,
        (
            Patch("detached", True, (DETACHED,), (5, "truncated")),
            Patch("no longer clipped", False, (DETACHED, ("clip_grad_norm_(net.parameters(), 0.5)", "clip_grad_norm_(net.parameters(), 0.5 if step < 1 else 50)")), (5, "a step is made of")),
        ),
    ),
    Case(
        "gradients with noise",
        NOISY,
        (
            Patch("detached", True, (DETACHED,), (5, "truncated")),
            Patch("negated", False, (DETACHED, ("p.grad += 0.01 *", "p.grad *= 1 if step < 1 else -1\n        p.grad += 0.01 *"))),
        ),
    ),
    Case(
        "a loss without a graph",
        NO_GRAPH,
        (
            Patch("with its graph", True, (WITH_GRAPH,), (5, "exact for 4 parameters")),
            Patch("of another target", False, (WITH_GRAPH, ("- y)", "- y.roll(1, 0))")), (5, "changed")),
            Patch("by another formula", False, (WITH_GRAPH, (".pow(2)", ".abs()")), (5, "changed")),
            Patch("a hundredth of the learning rate", False, (WITH_GRAPH, ("lr=0.1", "lr=0.001")), (4, "lr is 0.001 instead of 0.1")),
            Patch("with momentum", False, (WITH_GRAPH, ("lr=0.1", "lr=0.1, momentum=0.9")), (4, "momentum is 0.9 instead of 0")),
            Patch("for one layer", False, (WITH_GRAPH, ("torch.tanh(first(x))", "torch.tanh(first(x)).detach()")), (4, "first.weight, first.bias: gets no gradient")),
            Patch("a leaf in its place", False, (WITH_GRAPH, ("optimizer.zero_grad()", "loss = loss.detach().requires_grad_()\n    optimizer.zero_grad()"))),
            Patch("gradients negated", False, (WITH_GRAPH, after_backward("    for p in first.parameters():\n        p.grad *= -1\n"))),
            Patch("gradients clipped", False, (WITH_GRAPH, after_backward("    nn.utils.clip_grad_norm_(first.parameters(), 1e-3)\n"))),
        ),
    ),
    Case(
        "a loss without a graph, and two optimizers",
        APART_STEPS,
        (
            Patch("with its graph", True, (WITH_GRAPH,), (5, "exact for 4 parameters")),
            Patch("for one of them", False, (WITH_GRAPH, ("torch.tanh(first(x))", "torch.tanh(first(x)).detach()")), (4, "first.weight, first.bias: gets no gradient")),
            Patch("with other betas", False, (WITH_GRAPH, ("Adam(second.parameters())", "Adam(second.parameters(), eps=1e-3)")), (4, "eps is 0.001")),
        ),
    ),
    Case(
        "two networks",
        ADVERSARIAL,
        (
            Patch("the samples detached", True, (APART,), (5, "exact")),
            Patch("another label from the second step on", False, (APART, ("g_loss = bce(disc(fake), torch.ones(16, 1))", "g_loss = bce(disc(fake), torch.ones(16, 1) * (step == 0))")), (5, "another formula")),
        ),
    ),
    Case("a critic that is asked in two ways", PLAIN, (RIGHT, WRONG, Patch("asked anew, a term detached", False, (("    gl =", "    ft = d(fake, real)\n    gl ="), ("* fake.pow", "* fake.detach().pow"))))),
    Case("the same with dropout", DROPS, (Patch(RIGHT.what, True, RIGHT.edits), WRONG)),
    Case("the same with a spectral norm", SPECTRAL, (Patch(RIGHT.what, True, RIGHT.edits), WRONG)),
    Case(
        "a network that was pretrained",
        AVERAGED,
        (
            Patch("the average detached", True, (("0.9 * average +", "0.9 * average.detach() +"),), (5, "truncated")),
            Patch("and the body", False, (("0.9 * average +", "0.9 * average.detach() +"), ("head(torch.relu(body(x)))", "head(torch.relu(body(x)).detach())"))),
        ),
    ),
    Case(
        "a loss without a graph after pretraining",
        CUT_LATER,
        (
            Patch("with its graph", True, (RECORDED,)),
            Patch("for one layer", False, (RECORDED, ("head(torch.relu(body(x)))", "head(torch.relu(body(x)).detach())")), (4, "body.weight, body.bias: gets no gradient any more")),
            Patch("for the other layer", False, (("loss = torch.tensor((out - 1).pow(2).mean().item())", "loss = (nn.functional.linear(torch.relu(body(x)), head.weight.detach(), head.bias.detach()) - 1).pow(2).mean()"),), (4, "head.weight, head.bias")),
        ),
    ),
    Case(
        "a backbone that is frozen from an epoch on",
        FROM_EPOCH,
        (
            Patch("the state detached", True, (("+ h + state)", "+ h + state).detach()"),)),
            Patch("and the head", False, (("+ h + state)", "+ h + state).detach()"), ("        loss = (out", "        if epoch >= 2 and step > 1: out = out.detach() + 0 * head.bias\n        loss = (out"))),
        ),
    ),
)  # fmt: skip
