"""A moved step uses the gradients that it used before, also where another step uses those that a pass leaves behind."""

from __future__ import annotations

import pytest
import torch

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

PROGRAM = """\
import torch
from torch import nn
maker = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
critic = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
makers, critics = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
loss_of = nn.BCEWithLogitsLoss()

def epoch(batches):
    {first}
    for z, real in batches:
        fake = maker(z)
        makers.zero_grad()
        scores = critic(fake)
        loss_g = loss_of(scores, torch.ones(3, 1)) + (fake - real).pow(2).mean()
        loss_d = loss_of(scores, torch.zeros(3, 1)) + loss_of(critic(real), torch.ones(3, 1))
        loss_g.backward({kept})
        makers.step()
        critics.zero_grad(){anew}
        loss_d.backward()
        critics.step()

for _ in range(2):
    epoch([(torch.randn(3, 4), torch.randn(3, 4)) for _ in range(3)])
"""
ANEW = """
        fake = maker(z)
        scores = critic(fake)
        loss_d = loss_of(scores, torch.zeros(3, 1)) + loss_of(critic(real), torch.ones(3, 1))"""


@pytest.mark.parametrize("first", ["makers.step()", "critics.step()", "print(len(batches))"])
def test_the_generator_is_not_updated_with_the_gradient_of_the_discriminators_loss(first: str) -> None:
    """Whatever the step at the beginning of an epoch uses of the last batch: the others keep to their own losses."""
    broken = PROGRAM.format(first=first, kept="retain_graph=True", anew="")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(broken, {"torch": torch})
    done = mend(Program.of(broken, "train.py"), all_codemods())
    assert done.patched.files[0].text == PROGRAM.format(first=first, kept="", anew=ANEW)
    exec(done.patched.files[0].text, {"torch": torch})


HELPED = """\
import torch
from torch import nn

class Agent:
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
        self.shares = SHARES
        self.head = nn.Linear(8, 3)
        self.first = torch.optim.RMSprop(self.shares.parameters())
        self.second = torch.optim.Adam([*self.body.parameters(), *self.head.parameters()])

    def divide(self, states):
        parts = torch.log_softmax(self.shares(states), dim=1)
        return parts.exp(), -(parts * parts.exp()).sum(1)

    def learn(self, x, y):
        states = self.body(x)
        parts, spread = self.divide(states)
        loss = (self.head(states) - y).pow(2).mean()
        own = (self.head(states).detach() * parts).mean()
        wide = -0.1 * spread.mean()
        update(self.first, own + wide, retain_graph=True)
        update(self.second, loss + wide)

def update(optimizer, loss, retain_graph=False):
    optimizer.zero_grad()
    loss.backward(retain_graph=retain_graph)
    optimizer.step()

agent = Agent()
for _ in range(3):
    agent.learn(torch.randn(5, 4), torch.randn(5, 3))
"""


LAYERS = ["nn.Linear(8, 3)", "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))"]


@pytest.mark.parametrize("shares", LAYERS)
def test_what_is_computed_again_is_read_again(shares: str) -> None:
    """A single layer saves no weight for a detached input: its loss could be sent back as it is, but not for the body.

    What the helper keeps is its callers' choice.
    """
    broken = HELPED.replace("SHARES", shares)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(broken, {"torch": torch})
    done = mend(Program.of(broken, "train.py"), all_codemods())
    right = broken.replace("spread = self.divide(states)", "spread = self.divide(states.detach())")
    again = "        parts, spread = self.divide(states)\n        wide = -0.1 * spread.mean()\n"
    right = right.replace("        update(self.second", again + "        update(self.second")
    assert done.patched.files[0].text == right
    exec(right, {"torch": torch})
