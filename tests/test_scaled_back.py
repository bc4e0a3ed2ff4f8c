"""Losses that ``GradScaler`` scales are compared without their scale, which the step takes back."""

from __future__ import annotations

import pytest

from tests.by_hand import edited, judged

TRAIN = """\
import torch
from torch import nn
torch.manual_seed(0)
net, head = nn.Linear(3, 6), nn.Linear(6, 1)
params = [*net.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
h = torch.zeros(8, 6)
for t in range(30):
    x = torch.randn(8, 3)
    h = torch.tanh(net(x) + 0.5 * h)
    loss = (head(h) - x.sum(1, keepdim=True)).pow(2).mean()
    size = h.pow(2).mean()
    opt.zero_grad()
"""
DETACHED = ("0.5 * h)", "0.5 * h.detach())")
PLAIN = (('scaler = torch.amp.GradScaler("cpu")\n', ""), ("scaler.step(opt)\n    scaler.update()", "opt.step()"))
STEP = """\
    scaler.step(opt)
    scaler.update()
"""
WAYS = {
    "one loss": ("    scaler.scale(loss).backward()\n" + STEP, (("scaler.scale(loss)", "loss"),)),
    "a sum of losses": (
        "    (scaler.scale(loss) + scaler.scale(size) / 3).backward()\n" + STEP,
        (("scaler.scale(loss) + scaler.scale(size)", "loss + size"),),
    ),
    "two passes": (
        "    scaler.scale(loss).backward(retain_graph=True)\n    scaler.scale(size).backward()\n" + STEP,
        (("scaler.scale(loss)", "loss"), ("scaler.scale(size)", "size")),
    ),
    "a list of losses": (
        "    torch.autograd.backward(scaler.scale([loss, size]))\n" + STEP,
        (("scaler.scale([loss, size])", "[loss, size]"),),
    ),
    "clipped gradients": (
        "    scaler.scale(loss).backward()\n    scaler.unscale_(opt)\n"
        "    nn.utils.clip_grad_norm_(params, 0.01)\n" + STEP,
        (("scaler.scale(loss)", "loss"), ("    scaler.unscale_(opt)\n", "")),
    ),
    "scaled back twice": (
        "    scaler.scale(loss).backward()\n    scaler.unscale_(opt)\n"
        "    if t > 1:\n        scaler.unscale_(opt)\n" + STEP,
        (
            ("scaler.scale(loss)", "loss"),
            ("    scaler.unscale_(opt)\n    if t > 1:\n        scaler.unscale_(opt)\n", ""),
        ),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_scaler_may_be_taken_out(way: str) -> None:
    script = TRAIN + WAYS[way][0]
    certificate = judged(script, edited(script, (DETACHED, *PLAIN, *WAYS[way][1])))
    assert certificate.proved, certificate.points


@pytest.mark.parametrize("way", [way for way in WAYS if way != "scaled back twice"])
def test_a_scaler_may_stay(way: str) -> None:
    script = TRAIN + WAYS[way][0]
    assert judged(script, edited(script, (DETACHED,))).proved
    other = ('GradScaler("cpu")', 'GradScaler("cpu", init_scale=1024.0)')
    assert judged(script, edited(script, (DETACHED, other))).proved


@pytest.mark.parametrize(
    ("way", "edits"),
    [
        ("one loss", (("scaler.step(opt)\n    scaler.update()", "opt.step()"),)),
        ("one loss", (("scaler.scale(loss)", "loss"),)),
        ("a sum of losses", (("scaler.scale(size)", "size"),)),
        ("two passes", (("scaler.scale(size)", "size"),)),
        ("two passes", (*PLAIN, ("scaler.scale(loss)", "loss"), ("scaler.scale(size)", "(2 * size)"))),
        ("clipped gradients", (("    scaler.unscale_(opt)\n", ""),)),
        ("clipped gradients", (*PLAIN, *WAYS["clipped gradients"][1], ("params, 0.01", "params, 100"))),
    ],
    ids=[
        "never scaled back",
        "scaled back only",
        "one of a sum",
        "one of two passes",
        "another factor",
        "clipped before",
        "not clipped",
    ],
)
def test_other_gradients_are_told(way: str, edits: tuple[tuple[str, str], ...]) -> None:
    script = TRAIN + WAYS[way][0]
    assert not judged(script, edited(script, (DETACHED, *edits))).proved
