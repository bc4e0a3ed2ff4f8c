"""A script with several modes, of which each run has one: a patch repairs all of them."""

from __future__ import annotations

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

ACTOR_CRITIC = """\
import argparse
import torch
from torch import nn

torch.manual_seed(0)
parser = argparse.ArgumentParser()
parser.add_argument("--curiosity", default="forward")
args = parser.parse_args(["--curiosity", "{mode}"])
actor, critic, forward = nn.Linear(3, 2), nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)), nn.Linear(5, 3)
actor_optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
forward_optimizer = torch.optim.SGD(forward.parameters(), lr=0.1)


def losses(state, action, goal):
    wrong = (critic(torch.cat([state, action], 1)) - goal).pow(2).mean()
    return wrong, -critic(torch.cat([state, actor(state)], 1)).mean()


def learn(state, action, goal):
    critic_loss, actor_loss = losses(state, action, goal)
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    actor_optimizer.zero_grad()
    if args.curiosity == "forward":
        forward_optimizer.zero_grad()
        loss = (forward(torch.cat([state, action], 1)) - state).pow(2).mean() + actor_loss
        loss.backward()
        forward_optimizer.step()
        actor_optimizer.step()
    if args.curiosity == "state":
        forward_optimizer.zero_grad()
        loss = forward(torch.cat([state, action], 1)).abs().mean() + actor_loss
        loss.backward()
        forward_optimizer.step()
        actor_optimizer.step()
    if args.curiosity == "none":
        actor_loss.backward()
        actor_optimizer.step()


for step in range(5):
    learn(torch.randn(4, 3), torch.randn(4, 2), torch.randn(4, 1))
"""
MODES = ("forward", "state", "none")


def test_the_critic_steps_behind_the_passes_of_all_modes() -> None:
    script = ACTOR_CRITIC.replace('parse_args(["--curiosity", "{mode}"])', "parse_args()")
    found = mend(Program.of(script, "main.py"), all_codemods())
    assert found.left == (), found.refused
    text = found.patched.files[0].text.replace("parse_args()", 'parse_args(["--curiosity", MODE])')
    for mode in MODES:
        exec(compile(text, "main.py", "exec"), {"__name__": "__main__", "MODE": mode})


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_fails_as_it_is(mode: str) -> None:
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(compile(ACTOR_CRITIC.replace("{mode}", mode), "main.py", "exec"), {"__name__": "__main__"})
