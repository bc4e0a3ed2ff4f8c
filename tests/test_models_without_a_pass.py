"""Models that no pass of the program trains: what hangs on a switch of the constructor is likely, no more."""

from __future__ import annotations

import pytest

from autofix.codemods.facts import Certainty
from autofix.engine import analyse

MODEL = """\
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self, width, GIVEN):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.adds = adds

    def forward(self, x):
        y = torch.sigmoid(self.layer(x))
        if self.adds:
            y += x
        return y
"""


@pytest.mark.parametrize(
    ("given", "certainty"),
    [
        ("adds", Certainty.CERTAIN),
        ("adds=True", Certainty.CERTAIN),
        ("adds=False", Certainty.LIKELY),
        ("*, adds=False", Certainty.LIKELY),
    ],
)
def test_a_switch_that_is_off_by_default_makes_a_mistake_likely(given: str, certainty: Certainty) -> None:
    [found] = analyse(MODEL.replace("GIVEN", given), "net.py").findings
    assert (found.code, found.cause.line, found.certainty) == ("AF201", 13, certainty)
