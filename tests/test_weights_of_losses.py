"""A value of a critic by which another network's loss is weighed: there it is a number (AF104)."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

ACTOR_CRITIC = """\
import torch
from torch import nn

class Actor:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)

    def learn(self, s, td):
        policy = torch.distributions.Normal(self.net(s).squeeze(), 1.0)
        gain = policy.log_prob(policy.sample()) * WEIGHT
        gain += 0.01 * policy.entropy()
        loss = -gain.mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

class Critic:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)

    def learn(self, s, reward, following):
        v, v_ = self.net(s), self.net(following)
        td = (reward + 0.9 * v_ - v).mean()
        loss = td ** 2
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()
        return td

actor, critic = Actor(), Critic()
for step in range(5):
    s, following = torch.randn(1, 3), torch.randn(1, 3)
    td = critic.learn(s, 1.0, following)
    actor.learn(s, td)
"""


@pytest.mark.parametrize("weight", ["td", "td.float()", "td.double().float()", "td.view(())"])
def test_a_weight_is_detached_where_it_weighs_in_whatever_type(weight: str) -> None:
    patched = analyse(ACTOR_CRITIC.replace("WEIGHT", weight), "train.py").patched
    assert f"* {weight}.detach()\n" in patched
    assert "retain_graph" not in patched and "return td\n" in patched
