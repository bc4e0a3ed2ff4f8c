"""A copied line that sends the loss of another network backward once more, beside a loss that nothing uses."""

from __future__ import annotations

import difflib

import pytest

from autofix.engine import analyse

HEADER = """\
import torch
import torch.nn.functional as F
from torch import nn
speaker = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
mood = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
speakers, moods = torch.optim.Adam(speaker.parameters(), 0.1), torch.optim.Adam(mood.parameters(), 0.1)
"""
STEPS = """\
y = torch.zeros(4).long()
for x in torch.randn(5, 4, 3):
    speakers.zero_grad()
    speaker_loss = F.cross_entropy(speaker(x), y)
    speaker_loss.backward()
    speakers.step()
    moods.zero_grad()
    mood_loss = F.cross_entropy(mood(x), y)
    speaker_loss.backward()
    moods.step()
"""
METHOD = """\
class Trainer:
    def loss_of(self, net, x, y):
        return F.cross_entropy(net(x), y)

    def step(self, x, y):
        self.loss_s = self.loss_of(speaker, x, y)
        self.loss_s.backward()
        self.loss_m = self.loss_of(mood, x, y)
        print("mood", self.loss_m.item())
        self.loss_s.backward()
        speakers.step()
        moods.step()

trainer = Trainer()
for x in torch.randn(5, 4, 3):
    trainer.step(x, torch.zeros(4).long())
"""


def changes(text: str) -> list[str]:
    patched = analyse(HEADER + text, "train.py").patched.splitlines()
    return [line[2:].strip() for line in difflib.ndiff((HEADER + text).splitlines(), patched) if line[0] in "+-"]


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        (STEPS, "speaker_loss.backward()", "mood_loss.backward()"),
        (STEPS.replace("    ", "\t"), "speaker_loss.backward()", "mood_loss.backward()"),
        (STEPS.replace("    speakers.step()\n", ""), "speaker_loss.backward()", "mood_loss.backward()"),
        (
            "def told(mood_loss):\n    return mood_loss.item()\n" + STEPS,
            "speaker_loss.backward()",
            "mood_loss.backward()",
        ),
        (METHOD, "self.loss_s.backward()", "self.loss_m.backward()"),
        (
            STEPS.replace(
                "    moods.step()\n", "    moods.step()\n    print(float(speaker_loss), mood_loss.detach())\n"
            ),
            "speaker_loss.backward()",
            "mood_loss.backward()",
        ),
    ],
)
def test_the_loss_that_nothing_uses_is_sent_backward(text: str, wrong: str, right: str) -> None:
    if "speakers.step()" not in text:
        text = text.replace("    moods.step()", "    speakers.step()\n    moods.step()")
    assert changes(text) == [wrong, right]


def test_nothing_is_computed_again_where_the_gradient_of_the_other_loss_would_be_lost() -> None:
    """The step was copied, too: which of the two lines is wrong is not known."""
    assert changes(STEPS.replace("    moods.step()", "    speakers.step()")) == []


@pytest.mark.parametrize(
    "lines",
    [
        "    mood_loss.backward()\n    speaker_loss.backward()\n",
        "    moods.zero_grad()\n    speaker_loss.backward()\n    show(mood_loss)\n",
        "    speaker_loss.backward()\n    print(locals())\n",
    ],
)
def test_a_loss_that_is_used_is_not_meant(lines: str) -> None:
    text = STEPS.replace(
        "    speaker_loss.backward()\n    moods.step()", f"{lines}    moods.step()\n    speakers.step()"
    )
    assert "mood_loss.backward()" not in changes(text.replace("y = torch", "show = print\ny = torch"))
