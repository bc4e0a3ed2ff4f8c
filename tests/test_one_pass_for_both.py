"""One loss that is sent back for each of two optimizers, with a step in between: once is enough."""

from __future__ import annotations

from typing import Any

import pytest

from autofix.engine import analyse

HEADER = """\
import torch
from torch import nn
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_opt, critic_opt = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
def losses(states, returns):
    values = critic(states)
    chosen = actor(states).log_softmax(1)[:, :1]
    return -(chosen * (returns - values).detach()).mean(), (values - returns).pow(2).mean()
"""
ONCE = {
    "in a loop": (
        """
for step in range(10):
    policy, value = losses(torch.randn(8, 4), torch.randn(8, 1))
    loss = policy + 0.5 * value
    critic_opt.zero_grad()
    loss.backward(retain_graph=True)
    critic_opt.step()

    # and the actor
    actor_opt.zero_grad()
    loss.backward()
    actor_opt.step()
""",
        """
    critic_opt.zero_grad()
    # and the actor
    actor_opt.zero_grad()
    loss.backward()
    critic_opt.step()
    actor_opt.step()
""",
    ),
    "in a method, the total in an attribute": (
        """
class Agent:
    def __init__(self):
        self.first, self.second = critic_opt, actor_opt
    def update(self, states, returns):
        self.total = sum(losses(states, returns))
        self.first.zero_grad()
        self.total.backward(retain_graph=True)
        self.first.step()
        self.second.zero_grad()
        self.total.backward()
        self.second.step()
agent = Agent()
for _ in range(10):
    agent.update(torch.randn(8, 4), torch.randn(8, 1))
""",
        """
        self.first.zero_grad()
        self.second.zero_grad()
        self.total.backward()
        self.first.step()
        self.second.step()
""",
    ),
}
TWICE = {
    "gradients that are not cleared in between": """
for step in range(10):
    loss = sum(losses(torch.randn(8, 4), torch.randn(8, 1)))
    critic_opt.zero_grad()
    actor_opt.zero_grad()
    loss.backward(retain_graph=True)
    critic_opt.step()
    loss.backward()
    actor_opt.step()
""",
    "two losses": """
for step in range(10):
    policy, value = losses(torch.randn(8, 4), torch.randn(8, 1))
    policy = policy + 0.1 * critic(torch.randn(8, 4)).mean()
    critic_opt.zero_grad()
    value.backward(retain_graph=True)
    critic_opt.step()
    actor_opt.zero_grad()
    policy.backward()
    actor_opt.step()
""",
}


@pytest.mark.parametrize(("text", "after"), ONCE.values(), ids=ONCE)
def test_the_loss_is_sent_back_once(text: str, after: str) -> None:
    analysis = analyse(HEADER + text, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF202", True)]
    assert after in analysis.patched
    names: dict[str, Any] = {}
    exec(compile(analysis.patched, "train.py", "exec"), names)
    assert all(one in names["actor_opt"].state for one in names["actor"].parameters())


@pytest.mark.parametrize("text", TWICE.values(), ids=TWICE)
def test_both_passes_stay(text: str) -> None:
    """Each pass adds a gradient of its own."""
    assert analyse(HEADER + text, "train.py").patched.count("backward(") == 2
