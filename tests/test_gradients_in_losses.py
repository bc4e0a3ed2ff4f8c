"""Losses that are made of gradients: physics-informed networks, gradient penalties, and terms without a derivative."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.engine import analyse

HEAD = """\
import torch
from torch import nn
from torch.autograd import grad

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
points = torch.rand(16, 2, requires_grad=True)
"""
STEP = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
RESIDUALS = {
    "at once": """
for step in range(3):
    u = net(points)
    slope, = grad(u, points, torch.ones_like(u))
    loss = (slope.sum(1, keepdim=True) + u).pow(2).mean()
""",
    "of the second order": """
def derivative(y, x, order=1):
    for _ in range(order):
        y, = torch.autograd.grad(y, x, torch.ones_like(y))
    return y

for step in range(3):
    u = net(points)
    first, second = derivative(u, points), derivative(u, points, 2)
    loss = (second.sum(1) + u.squeeze(1) * first.sum(1)).pow(2).mean()
""",
    "by another name": """
from torch.autograd import grad as slope_of
class Problem:
    def residual(self):
        u = net(points)
        slope = slope_of(u.sum(), points)[0]
        return slope[:, :1] - u
problem = Problem()
for step in range(3):
    loss = problem.residual().pow(2).mean()
""",
}


@pytest.mark.parametrize("residual", RESIDUALS.values(), ids=RESIDUALS)
def test_a_derivative_in_a_loss_gets_a_graph(residual: str) -> None:
    text = HEAD + residual + STEP
    with pytest.raises(RuntimeError):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    analysis = analyse(text, "train.py")
    assert analysis.findings[0].fixed
    assert "create_graph=True" in analysis.patched
    exec(compile(analysis.patched, "train.py", "exec"), {"__name__": "__main__"})
    assert analyse(analysis.patched, "train.py").findings == ()


TERMS = {
    "gradient penalty": (
        """
for step in range(3):
    mixed = torch.rand(16, 2).requires_grad_(True)
    slope, = grad(net(mixed).sum(), mixed, retain_graph=True)
    penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
    loss = net(points).mean() + 10 * penalty
""",
        True,
    ),
    "gradient penalty on a graph that is not kept": (
        """
for step in range(3):
    mixed = torch.rand(16, 2).requires_grad_(True)
    slope = grad(net(mixed).sum(), mixed)[0]
    loss = net(points).mean() + 10 * (slope.norm(2, dim=1) - 1).pow(2).mean()
""",
        True,
    ),
    "gradient penalty in a method": (
        """
class Trainer:
    def penalty(self, x):
        x = x.detach().requires_grad_()
        total = net(x).sum()
        return torch.autograd.grad(outputs=total, inputs=[x])[0].flatten(1).pow(2).sum(1).mean()
    def losses(self):
        return {"fit": net(points).pow(2).mean(), "penalty": 0.5 * self.penalty(torch.rand(16, 2))}
trainer = Trainer()
for step in range(3):
    losses = trainer.losses()
    loss = sum(losses.values())
""",
        True,
    ),
    "gradient penalties of several batches": (
        """
for step in range(3):
    penalties = []
    for _ in range(2):
        mixed = torch.rand(16, 2).requires_grad_(True)
        penalties.append(grad(net(mixed).sum(), mixed)[0].norm())
    loss = net(points).mean() + torch.stack(penalties).mean()
""",
        True,
    ),
    "gradient of the last iteration": (
        """
before = torch.zeros(())
for step in range(3):
    loss = net(points).mean() + before
    mixed = torch.rand(16, 2).requires_grad_(True)
    before = grad(net(mixed).sum(), mixed)[0].norm()
""",
        False,
    ),
    "direction of an attack": (
        """
for step in range(3):
    mixed = torch.rand(16, 2).requires_grad_(True)
    slope = grad(net(mixed).sum(), mixed)[0]
    loss = net(points).mean() + net(mixed.detach() + 0.1 * slope.sign()).pow(2).mean()
""",
        False,
    ),
    "gradient that is matched": (
        """
other = nn.Linear(2, 1)
for step in range(3):
    mixed = torch.rand(16, 2).requires_grad_(True)
    slope = grad(other(mixed).sum(), mixed)[0]
    loss = net(points).mean() + (net(mixed.detach()) - slope).pow(2).mean()
""",
        False,
    ),
    "step of adapted weights": (
        """
for step in range(3):
    first = net[0](points).pow(2).mean()
    slope = grad(first, net[0].weight)[0]
    adapted = net[0].weight - 0.1 * slope
    loss = net[2](torch.tanh(nn.functional.linear(points, adapted, net[0].bias))).pow(2).mean()
""",
        False,
    ),
    "places of largest values": (
        """
for step in range(3):
    out = net(points)
    classes = torch.cat([out, -out], 1).argmax(1).float()
    loss = out.pow(2).mean() + 0.1 * classes.std()
""",
        True,
    ),
    "gradient penalty with a graph": (
        """
for step in range(3):
    mixed = torch.rand(16, 2).requires_grad_(True)
    slope, = grad(net(mixed).sum(), mixed, create_graph=True)
    loss = net(points).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
""",
        False,
    ),
    "weight of a term": (
        """
for step in range(3):
    out = net(points)
    first, second = out.pow(2).mean(), out.abs().mean()
    ratio = grad(first, net[2].weight, retain_graph=True)[0].norm()
    loss = first + ratio * second
""",
        False,
    ),
    "target": (
        """
for step in range(3):
    out = net(points)
    scores = torch.cat([out, -out], 1)
    loss = nn.functional.cross_entropy(scores, scores.argmax(1)) + out.pow(2).mean()
""",
        False,
    ),
    "straight through": (
        """
for step in range(3):
    scores = torch.cat([net(points), -net(points)], 1)
    soft = scores.softmax(1)
    hard = nn.functional.one_hot(scores.argmax(1), 2).float()
    loss = ((hard - soft.detach() + soft) @ torch.rand(2, 1)).mean()
""",
        False,
    ),
    "mask": (
        """
for step in range(3):
    out = net(points)
    loss = out.pow(2).mean() + points.detach().masked_fill(out > 0, 0.0).mean()
""",
        False,
    ),
    "only shown": (
        """
for step in range(3):
    out = net(points)
    right = torch.cat([out, -out], 1).argmax(1).float().mean()
    loss = out.pow(2).mean()
    print((loss + right).item())
""",
        False,
    ),
}


@pytest.mark.parametrize(("text", "told"), TERMS.values(), ids=TERMS)
def test_a_term_without_a_derivative_trains_nothing(text: str, *, told: bool) -> None:
    analysis = analyse(HEAD + text + STEP, "train.py")
    assert [finding.fact.certainty for finding in analysis.findings] == [Certainty.LIKELY] * told
    if told:
        assert "a term of `loss` has no graph" in analysis.findings[0].message
