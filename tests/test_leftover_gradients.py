"""Gradients that another network's loss leaves behind serve no step: GANs that clear gradients after each step."""

from __future__ import annotations

from typing import Any

import pytest

from autofix.engine import analyse

HEAD = """\
import torch
from torch import nn
from torch.nn.functional import softplus

G, D = nn.Linear(4, 2), nn.Linear(2, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
"""
GENERATOR_FIRST = """\
for real in torch.randn(24, 2).split(8):
    generated = G(torch.randn(8, 4))
    g_loss = softplus(-D(generated)).mean()
    g_loss.backward()
    opt_g.step()
    opt_g.zero_grad()
    d_loss = softplus(-D(real)).mean() + softplus(D(generated)).mean()
    d_loss.backward()
    opt_d.step()
    opt_d.zero_grad()
"""
DISCRIMINATOR_FIRST = """\
for real in torch.randn(24, 2).split(8):
    generated = G(torch.randn(8, 4))
    d_loss = softplus(-D(real)).mean() + softplus(D(generated)).mean()
    d_loss.backward()
    opt_d.step()
    opt_d.zero_grad()
    g_loss = softplus(-D(generated)).mean()
    g_loss.backward()
    opt_g.step()
    opt_g.zero_grad()
"""
TURNS = """\
def allow(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)

for real in torch.randn(24, 2).split(8):
    allow(D, False)
    allow(G, True)
    generated = G(torch.randn(8, 4))
    g_loss = softplus(-D(generated)).mean()
    g_loss.backward()
    opt_g.step()
    opt_g.zero_grad()
    allow(D, True)
    allow(G, False)
    d_loss = softplus(-D(real)).mean() + softplus(D(generated)).mean()
    d_loss.backward()
    opt_d.step()
    opt_d.zero_grad()
"""
CLASS = """\
class Trainer:
    def __init__(self):
        self.nets = {"g": nn.Linear(4, 2), "d": nn.Linear(2, 1)}
        self.opts = {name: torch.optim.Adam(net.parameters()) for name, net in self.nets.items()}

    def update(self, name, loss):
        loss.backward()
        self.opts[name].step()
        self.opts[name].zero_grad()

    def fit(self, real):
        fake = self.nets["g"](torch.randn(8, 4))
        self.update("d", softplus(-self.nets["d"](real)).mean() + softplus(self.nets["d"](fake)).mean())
        self.update("g", softplus(-self.nets["d"](fake)).mean())

trainer = Trainer()
for real in torch.randn(24, 2).split(8):
    trainer.fit(real)
"""


@pytest.mark.parametrize(
    ("body", "patched"),
    [
        (GENERATOR_FIRST, "softplus(D(generated.detach()))"),
        (DISCRIMINATOR_FIRST, "softplus(D(generated.detach()))"),
        (TURNS, "softplus(D(generated.detach()))"),
        (CLASS, 'softplus(self.nets["d"](fake.detach()))'),
    ],
)
def test_the_discriminator_takes_the_fake_detached(body: str, patched: str) -> None:
    analysis = analyse(HEAD + body, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF104", True)]
    assert patched in analysis.patched
    assert analysis.patched.count("detach()") == 1


SHARED = """\
encoder, first, second = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
opt_first = torch.optim.Adam([*encoder.parameters(), *first.parameters()])
opt_second = torch.optim.Adam(second.parameters())
for x in torch.randn(24, 4).split(8):
    code = encoder(x)
    loss = second(code).pow(2).mean()
    loss.backward(RETAINED)
    opt_second.step()
    opt_second.zero_grad()
    loss = (first(code) - 1).pow(2).mean()
    loss.backward()
    opt_first.step()
    opt_first.zero_grad()
"""


def test_an_encoder_learns_from_both_heads() -> None:
    """Neither loss goes through the other's head: the gradient that the first one leaves is meant."""
    analysis = analyse(HEAD + SHARED.replace("RETAINED", ""), "train.py")
    assert [finding.code for finding in analysis.findings] == ["AF104"]
    assert "    code = encoder(x)\n    loss = (first(code)" in analysis.patched
    assert analyse(HEAD + SHARED.replace("RETAINED", "retain_graph=True"), "train.py").findings == ()


EARLY = """\
for real in torch.randn(24, 2).split(8):
    fake = G(torch.randn(8, 4))
    d_loss = softplus(-D(real)).mean() + softplus(D(fake.detach())).mean()
    g_loss = softplus(-D(fake)).mean()
    print(d_loss.item(), g_loss.item())
    d_loss.backward()
    opt_d.step()
    opt_d.zero_grad()
    g_loss.backward()
    opt_g.step()
    opt_g.zero_grad()
"""


def test_gradients_are_cleared_with_the_step_that_used_them() -> None:
    analysis = analyse(
        HEAD.replace("nn.Linear(2, 1)", "nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))") + EARLY, "a.py"
    )
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    moved = [line.strip() for line in analysis.patched.splitlines()][-6:]
    assert moved[1].startswith("g_loss.backward(inputs=")
    assert moved[2:] == ["opt_d.step()", "opt_d.zero_grad()", "opt_g.step()", "opt_g.zero_grad()"]


TWO_OWNERS = """\
encoder = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
first, second = nn.Linear(4, 1), nn.Linear(4, 1)
one = torch.optim.SGD([*encoder.parameters(), *first.parameters()], 0.1)
other = torch.optim.Adam([*encoder.parameters(), *second.parameters()])
for x in torch.randn(24, 4).split(8):
    code = encoder(x)
    loss, more = first(code).pow(2).mean(), second(code).abs().mean()
    loss.backward(retain_graph=True)
    one.step()
    one.zero_grad()
    more.backward()
    other.step()
    other.zero_grad()
"""


def test_both_optimizers_of_a_shared_encoder_go_on_training_it() -> None:
    analysis = analyse(HEAD + TWO_OWNERS, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    names: dict[str, Any] = {}
    exec(compile(analysis.patched, "train.py", "exec"), names)
    assert all(parameter in names["other"].state for parameter in names["encoder"].parameters())


PARTITION = """\
D = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt_d = torch.optim.Adam(D.parameters())
for real in torch.randn(24, 2).split(8):
    opt_g.zero_grad()
    opt_d.zero_grad()
    generated = G(torch.randn(8, 4))
    energy = D(real)
    made = D(generated)
    both = torch.log(torch.exp(-energy).sum() + torch.exp(-made).sum())
    d_loss = energy.mean() + both
    d_loss.backward(retain_graph=True)
    opt_d.step()
    g_loss = energy.mean() + made.mean() + both
    g_loss.backward()
    opt_g.step()
"""


def test_a_term_of_both_losses_leaves_the_generator_the_gradient_that_it_left() -> None:
    """The generator's step uses the gradients of both losses, now as before; the discriminator's those of its own."""
    analysis = analyse(HEAD + PARTITION, "train.py")
    assert {(finding.code, finding.fixed) for finding in analysis.findings} == {("AF202", True)}
    own = "inputs=[p for group in opt_g.param_groups for p in group['params']]"
    assert f"    g_loss.backward({own})\n    opt_d.step()\n    opt_g.step()\n" in analysis.patched
    exec(compile(analysis.patched, "train.py", "exec"), {})
