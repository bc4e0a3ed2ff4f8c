"""A statement that a patch moves takes the comments above it along."""

from __future__ import annotations

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
torch.manual_seed(0)
critic, actor = nn.Linear(6, 1), nn.Linear(4, 2)
critic_opt = torch.optim.Adam(critic.parameters())
actor_opt = torch.optim.Adam(actor.parameters())
"""

MOVED = {
    "a loss of two statements, computed after the step": (
        """
for _ in range(5):
    states, actions, returns = torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1)
    # new actions, which the critic judges
    value = critic(torch.cat([states, actor(states)], 1))
    actor_loss = -value.mean()  # the higher the better
    # returns
    critic_loss = (critic(torch.cat([states, actions], 1)) - returns).pow(2).mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
""",
        """
    critic_opt.step()
    # new actions, which the critic judges
    value = critic(torch.cat([states, actor(states)], 1))
    actor_loss = -value.mean()  # the higher the better
    actor_opt.zero_grad()
""",
    ),
    "a loss of a method, under two lines of comment": (
        """
class Agent:
    def judged(self, states):
        return -critic(torch.cat([states, actor(states)], 1)).mean()
    def learn(self, states, actions, returns):
        # The policy's loss
        # does not depend on the actions that were taken.
        loss = self.judged(states)
        td = (critic(torch.cat([states, actions], 1)) - returns).pow(2).mean()
        critic_opt.zero_grad()
        td.backward()
        critic_opt.step()

        # policy
        actor_opt.zero_grad()
        loss.backward()
        actor_opt.step()
agent = Agent()
for _ in range(5):
    agent.learn(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1))
""",
        """
        critic_opt.step()
        # The policy's loss
        # does not depend on the actions that were taken.
        loss = self.judged(states)

        # policy
""",
    ),
    "a step, behind the pass that needs the old parameters": (
        """
heads = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
body = nn.Linear(4, 4)
body_opt = torch.optim.SGD(body.parameters(), lr=0.1)
heads_opt = torch.optim.SGD(heads.parameters(), lr=0.1)
for _ in range(5):
    features = body(torch.randn(8, 4))
    first, second = heads[1](features.detach()).mean(), heads[1](features).pow(2).mean()
    heads_opt.zero_grad()
    body_opt.zero_grad()
    first.backward()
    # the heads learn from both losses
    heads_opt.step()
    second.backward()
    body_opt.step()
""",
        """ for group in body_opt.param_groups for p in group['params']])
    # the heads learn from both losses
    heads_opt.step()
    body_opt.step()
""",
    ),
}


@pytest.mark.parametrize(("text", "after"), MOVED.values(), ids=MOVED)
def test_comments_go_with_what_is_moved(text: str, after: str) -> None:
    found = mend(Program.of(HEADER + text, "main.py"), all_codemods())
    assert found.left == (), found.refused
    patched = found.patched.files[0].text
    assert after in patched
    comments = [line for line in text.splitlines() if line.strip().startswith("#")]
    assert all(patched.count(comment) == 1 for comment in comments)
