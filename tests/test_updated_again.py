"""Values computed again after a step: not where that updates once more what an object goes on from."""

from __future__ import annotations

import itertools

import pytest

from autofix.engine import analyse

SCRIPT = """\
import itertools
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(4)
        self.shift = torch.ones(4)
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def losses(self, found, features):
        {body}

    def move(self, features):
        self.mean = 0.9 * self.mean + 0.1 * features.mean(0).detach()

net = Net()
first = torch.optim.SGD(net.head.parameters(), lr=0.1)
{second}
for step in range(9):
    features = net.body(torch.randn(8, 6))
    found = net.head(features)
    one, other = net.losses(found, features)
    first.zero_grad()
    one.backward(retain_graph=True)
    first.step()
    second.zero_grad()
    other.backward()
    second.step()
"""
OTHER = "loss = found.pow(2).mean()"
UPDATING = {
    "an attribute by itself": ["self.mean = 0.9 * self.mean + 0.1 * features.mean(0).detach()"],
    "through a name": ["mean = 0.9 * self.mean + 0.1 * features.mean(0)", "self.mean = mean.detach()"],
    "two at once": [
        "mean, shift = 0.9 * self.mean + 0.1 * features.mean(0), self.shift + 1",
        "self.mean, self.shift = mean.detach(), shift",
    ],
    "in a method that it calls": ["self.move(features)"],
}
STEADY = {
    "what it has set before": ["self.mean = features.mean(0).detach()", "near = self.mean + 1"],
    "another attribute": ["self.mean = 2 * self.shift"],
    "nothing": ["near = self.mean - features.mean(0)"],
}
SECOND = "second = torch.optim.SGD(net.body.parameters(), lr=0.1)"
AGAIN = "one, other = net.losses(found, features)"


def script(body: list[str], second: str = SECOND) -> str:
    lines = [OTHER, *body, "return loss, (features - self.mean).pow(2).mean() - loss"]
    return SCRIPT.format(body="\n        ".join(lines), second=second)


@pytest.mark.parametrize("body", UPDATING.values(), ids=UPDATING)
def test_update_is_not_made_twice(body: list[str]) -> None:
    text = script(body)
    patched = analyse(text, "train.py").patched
    assert patched.count(AGAIN) == 1
    assert "other.backward(inputs=[p for group in second.param_groups for p in group['params']])" in patched


@pytest.mark.parametrize("body", STEADY.values(), ids=STEADY)
def test_what_updates_nothing_is_computed_again(body: list[str]) -> None:
    assert analyse(script(body), "train.py").patched.count(AGAIN) == 2


CHAINS = ("chain(net.body)", "chain([], net.body)", "chain.from_iterable([net.body])")
CONDITIONS = ("isinstance(part, nn.Linear)", "type(part) == nn.Conv2d or type(part) == nn.Linear")
PASSES = """\
    second.zero_grad()
    other.backward(retain_graph=True)
    second.step()
    first.zero_grad()
    one.backward()
    first.step()
"""


@pytest.mark.parametrize(("chain", "condition"), list(itertools.product(CHAINS, CONDITIONS)))
def test_layers_of_a_chain_are_known_one_by_one(chain: str, condition: str) -> None:
    """The step that comes first spoils the layers, one of which the other pass goes through."""
    weights = f"[part.weight for part in itertools.{chain} if {condition}]"
    text = script(["near = self.shift"], f"second = torch.optim.SGD({weights}, lr=0.1)")
    swapped = text[: text.index("    first.zero_grad()")] + PASSES
    assert [finding.code for finding in analyse(swapped, "train.py").findings] == ["AF202"]


TWO_PHASES = """\
import torch
from torch import nn

class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)
    def forward(self, x):
        low = self.first(x).tanh()
        return self.last(low), low

coder, painter = Coder(), nn.Linear(12, 6)
optimizer = torch.optim.Adam([*coder.parameters(), *painter.parameters()])
for step in range(9):
    batch = torch.randn(16, 6)
    code, low = coder(batch)
    near = painter(torch.cat([code + 0.1 * torch.randn(16, 4), low], 1))
    loss = (near - batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    drawn = code + torch.randn(16, 4)
    far = painter(torch.cat([drawn, low], 1))
    loss = far.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_the_step_spoils_is_computed_again_before_its_first_reader() -> None:
    patched = analyse(TWO_PHASES, "train.py").patched
    assert patched.count("    code, low = coder(batch)\n") == 2
    assert "    code, low = coder(batch)\n    drawn = code" in patched
