"""A gradient in an inner step that is differentiated in its turn: it needs a graph of its own."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y, xv, yv = torch.randn(16, 4), torch.randint(2, (16,)), torch.randn(8, 4), torch.randint(2, (8,))
"""
WEIGHTS = """\
for step in range(9):
    weights = torch.zeros(16, requires_grad=True)
    cost = (F.cross_entropy(net(x), y, reduction="none") * weights).sum()
    {call}
    {fast}
    value = F.cross_entropy(F.linear(xv, *fast), yv)
    chosen = torch.autograd.grad(value, weights)[0].neg().clamp(min=0)
    loss = (F.cross_entropy(net(x), y, reduction="none") * chosen).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FAST = "fast = [p - 0.1 * g for p, g in zip(net.parameters(), grads)]"
CALLS = {
    "of the parameters": ("grads = torch.autograd.grad(cost, list(net.parameters()){})", FAST),
    "kept graph": ("grads = torch.autograd.grad(cost, net.parameters(), retain_graph=True{})", FAST),
    "one by one": (
        "dw, db = torch.autograd.grad(cost, (net.weight, net.bias){})",
        "fast = net.weight - 0.1 * dw, net.bias - 0.1 * db",
    ),
}
PENALTY = """\
decay = torch.zeros(2, 4, requires_grad=True)
for step in range(9):
    inner = F.cross_entropy(net(x), y) + (decay.exp() * net.weight.pow(2)).sum()
    (grad,) = torch.autograd.grad(inner, [net.weight]{})
    outer = F.cross_entropy(F.linear(xv, net.weight - 0.1 * grad, net.bias), yv)
    (change,) = torch.autograd.grad(outer, [decay])
    decay.data -= 0.1 * change
"""
GRAPH = ", create_graph=True"


@pytest.mark.parametrize(("call", "fast"), CALLS.values(), ids=CALLS)
def test_weights_of_an_inner_step(call: str, fast: str) -> None:
    analysis = analyse(HEAD + WEIGHTS.format(call=call.format(""), fast=fast), "train.py")
    assert [finding.code for finding in analysis.findings] == ["AF421"]
    assert analysis.patched == HEAD + WEIGHTS.format(call=call.format(GRAPH), fast=fast)


def test_penalty_of_an_inner_step() -> None:
    assert analyse(HEAD + PENALTY.format(""), "train.py").patched == HEAD + PENALTY.format(GRAPH)


@pytest.mark.parametrize(
    "text", [WEIGHTS.format(call=CALLS["one by one"][0].format(GRAPH), fast=CALLS["one by one"][1])]
)
def test_with_a_graph(text: str) -> None:
    assert analyse(HEAD + text, "train.py").findings == ()
