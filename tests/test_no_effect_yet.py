# ruff: noqa: E501 - the edits are written as their users write them
"""What has no effect in the steps that are watched, or acts beside them, is not left out or put in unseen."""

from __future__ import annotations

import pytest

from tests.by_hand import edited, judged

UNSEEN = "which has no effect in the steps that were watched"

STATE = """\
import torch
from torch import nn
torch.manual_seed(0)
cell, head, aux = nn.GRUCell(4, 6), nn.Linear(6, 3), nn.Linear(6, 2)
params = [*cell.parameters(), *head.parameters(), *aux.parameters()]
opt = torch.optim.SGD(params, lr=1e-2)
h = torch.zeros(5, 6)
for step in range(60):
    x, y = torch.randn(5, 4), torch.randint(3, (5,))
    h = cell(x, h)
    loss = nn.functional.cross_entropy(head(h), y) + 0.1 * aux(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(params, 90.0)
    opt.step()
"""
CUT = ("h = cell(x, h)", "h = cell(x, h.detach())")
BOUNDED = STATE.replace("opt.zero_grad()", "loss = loss.clamp(max=90)\n    opt.zero_grad()")
RATIO = """\
import torch
from torch import nn
torch.manual_seed(0)
policy, value = nn.Linear(4, 3), nn.Linear(4, 1)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-3)
for it in range(20):
    seen = torch.randn(16, 4)
    dist = torch.distributions.Categorical(logits=policy(seen))
    act = dist.sample()
    old = dist.log_prob(act)
    gain = torch.randn(16)
    for epoch in range(4):
        new = torch.distributions.Categorical(logits=policy(seen)).log_prob(act)
        ratio = (new - old).exp()
        bounded = ratio.clamp(0.8, 1.2)
        loss = -torch.min(ratio * gain, bounded * gain).mean() + (value(seen).squeeze(1) - gain).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
OLD = ("old = dist.log_prob(act)", "old = dist.log_prob(act).detach()")
PICTURE = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(12, 5)
content = torch.rand(4, 12)
image = content.clone().requires_grad_(True)
opt = torch.optim.Adam([image], lr=0.05)
goal = net(1 - content)
for i in range(40):
    loss = (net(image) - goal).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        image.clamp_(0, 1)
"""
SLOW = PICTURE.replace("lr=0.05", "lr=0.005")
GOAL = ("goal = net(1 - content)", "goal = net(1 - content).detach()")
BY_HAND = """\
import torch
torch.manual_seed(0)
w, v = torch.randn(6, 5, requires_grad=True), torch.randn(5, 1, requires_grad=True)
for i in range(40):
    h = torch.tanh(torch.randn(8, 6) @ w)
    h += 0.1
    loss = (h @ v).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, v):
            p -= 0.05 * p.grad
            p.grad.zero_()
"""
SUM = ("h += 0.1", "h = h + 0.1")


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        (STATE, (CUT,)),
        (STATE, (CUT, ("    nn.utils.clip_grad_value_(params, 90.0)\n", "    torch.nn.utils.clip_grad_value_(params, clip_value=90.0)\n"))),
        (BOUNDED, (CUT,)),
        (BOUNDED, (CUT, ("loss = loss.clamp(max=90)", "loss = torch.clamp(loss, max=90)"))),
        (RATIO, (OLD,)),
        (RATIO, (("    dist =", "    with torch.no_grad():\n        logits = policy(seen)\n    dist ="), ("logits=policy(seen))\n    act", "logits=logits)\n    act"))),
        (PICTURE, (GOAL,)),
        (SLOW, (GOAL, ("image.clamp_(0, 1)", "torch.clamp(image, 0, 1, out=image)"))),
        (PICTURE, (("for i in", "net.requires_grad_(False)\nfor i in"), GOAL, ("        image.clamp_(0, 1)", "        image.data = image.data.clamp(0, 1)"))),
        (PICTURE, (GOAL, ("loss.backward()\n", "loss.backward()\n    image.grad.mul_(1)\n"))),
        (BY_HAND, (SUM,)),
        (BY_HAND, (SUM, ("p -= 0.05 * p.grad", "p.add_(p.grad, alpha=-0.05)"))),
    ],
    ids=[
        "the state is cut",
        "the clipping is written otherwise",
        "a bounded loss stays bounded",
        "the bound is written otherwise",
        "old probabilities are numbers",
        "and their scores",
        "the goal is a number",
        "the picture is written over",
        "the picture is bounded otherwise",
        "a factor of one",
        "a sum",
        "the update is written otherwise",
    ],
)  # fmt: skip
def test_right(text: str, edits: tuple[tuple[str, str], ...]) -> None:
    certificate = judged(text, edited(text, edits))
    assert certificate.proved, certificate.points


@pytest.mark.parametrize(
    ("text", "edits", "number", "reason"),
    [
        (STATE, (CUT, ("    opt.zero_grad()", "    loss = loss.clamp(max=50)\n    opt.zero_grad()")), 5, f"Clamp(max=50), {UNSEEN}"),
        (STATE, (CUT, ("aux(h).pow(2)", "aux(h).pow(2).clip(0, 70)")), 5, f"Clamp(min=0, max=70), {UNSEEN}"),
        (STATE, (CUT, ("    opt.zero_grad()", "    loss = torch.where(loss > 40, 0 * loss, loss)\n    opt.zero_grad()")), 5, f"Where, {UNSEEN}"),
        (STATE, (CUT, ("    opt.zero_grad()", "    loss = torch.minimum(loss, torch.tensor(40.0))\n    opt.zero_grad()")), 5, f"Minimum, {UNSEEN}"),
        (STATE, (CUT, ("    opt.zero_grad()", "    loss = torch.nan_to_num(loss)\n    opt.zero_grad()")), 5, f"NanToNum, {UNSEEN}"),
        (STATE, (CUT, ("    opt.zero_grad()", "    loss = loss.relu()\n    opt.zero_grad()")), 5, f"Relu, {UNSEEN}"),
        (BOUNDED, (CUT, ("    loss = loss.clamp(max=90)\n", "")), 5, f"Clamp(max=90), is left out, {UNSEEN}"),
        (BOUNDED, (CUT, ("max=90", "max=40")), 5, f"Clamp(max=40), {UNSEEN}"),
        (STATE, (CUT, ("    nn.utils.clip_grad_value_(params, 90.0)\n", "")), 4, "no longer clipped to a value of 90"),
        (STATE, (CUT, ("90.0", "9000.0")), 4, "no longer clipped to a value of 90"),
        (RATIO, (OLD, ("bounded = ratio.clamp(0.8, 1.2)", "bounded = ratio")), 5, f"Clamp(min=0.8, max=1.2), is left out, {UNSEEN}"),
        (RATIO, (OLD, ("(0.8, 1.2)", "(0.5, 1.5)")), 5, f"Clamp(min=0.5, max=1.5), {UNSEEN}"),
        (RATIO, (("(new - old)", "(new - new.detach())"),), 5, "with the parameters moved alike in both runs"),
        (RATIO, (OLD, ("lr=3e-3", "lr=1e-3")), 3, ""),
        (SLOW, (GOAL, ("image.clamp_(0, 1)", "pass")), 4, "image is changed beside its optimizer before 0 of 9 steps"),
        (SLOW, (GOAL, ("image.clamp_(0, 1)", "image.clamp_(0.0001, 0.9999)")), 4, "image is changed by clamp_(0.0001, 0.9999) instead of clamp_(0, 1)"),
        (PICTURE, (GOAL, ("image.clamp_(0, 1)", "image.clamp_(0.0001, 0.9999)")), 4, "image is changed otherwise behind step"),
        (BY_HAND, (SUM, ("p -= 0.05 * p.grad", "p -= 0.05 * p.grad.sign()")), 4, "no longer moves along its gradient"),
        (BY_HAND, (SUM, ("p -= 0.05 * p.grad", "p -= 0.05 * p.grad.clamp(-0.1, 0.1)")), 4, "no longer moves along its gradient"),
    ],
    ids=[
        "a bound of the loss",
        "a bound of a term",
        "a choice",
        "the smaller one",
        "numbers for infinities",
        "the positive part",
        "no bound any more",
        "another bound",
        "no clipping",
        "another clipping",
        "no bound of the ratio",
        "another bound of the ratio",
        "a ratio of one",
        "another rate",
        "a picture out of bounds",
        "a picture in other bounds that it has not come to",
        "a picture in other bounds",
        "by the sign of the gradient",
        "by a bounded gradient",
    ],
)  # fmt: skip
def test_wrong(text: str, edits: tuple[tuple[str, str], ...], number: int, reason: str) -> None:
    certificate = judged(text, edited(text, edits))
    assert not certificate.proved
    assert reason in certificate.points[number - 1].detail, certificate.points
