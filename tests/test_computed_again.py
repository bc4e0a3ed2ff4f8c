"""What a step spoils is computed again behind it, and nothing else."""

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

def improve_maker(scores):
    loss = loss_of(scores, torch.ones(3, 1))
    loss.backward({kept})
    makers.step()

def improve_critic(real_scores, fake_scores):
    loss = loss_of(real_scores, torch.ones(3, 1)) + loss_of(fake_scores, torch.zeros(3, 1))
    loss.backward()
    critics.step()

for step in range(3):
    z, real = torch.randn(3, 4), torch.randn(3, 4)
    makers.zero_grad()
    critics.zero_grad()
    fake = maker(z)
    fake_scores = critic(fake)
    real_scores = critic(real)
    improve_maker(fake_scores){anew}
    improve_critic(real_scores, fake_scores)
"""


def test_scores_of_the_other_network_stay_as_they_are() -> None:
    broken = PROGRAM.format(kept="retain_graph=True", anew="")
    right = PROGRAM.format(kept="", anew="\n    fake_scores = critic(fake.detach())")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(broken, {"torch": torch})
    exec(right, {"torch": torch})
    done = mend(Program.of(broken, "train.py"), all_codemods())
    assert done.patched.files[0].text == right
    assert not done.left
