"""Methods of the program's own that are called ``backward``, as those of libraries that send a loss backward are."""

from __future__ import annotations

import pytest
import torch

from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

PROGRAM = """\
import torch
{library}

class Weighted:
    def __init__(self, weights):
        self.weights = weights

    def backward(self, losses):
        (self.weights * losses).sum().backward()

class Squared(Weighted):
    def backward(self, losses):
        losses.pow(2).sum().backward()

net = torch.nn.Linear(3, 2)
weigh = {made}
for _ in range(2):
    out = net(torch.randn(4, 3))
    losses = torch.stack([out[:, 0].pow(2).mean(), out[:, 1].pow(2).mean()])
    net.zero_grad()
    weigh.backward(losses)
"""
OWN = [
    ("from settings import NAME", "{'plain': Weighted, 'squared': Squared}[NAME](torch.ones(2))"),
    ("from settings import NAME", "globals()[NAME](torch.ones(2))"),
    ("from settings import NAME", "eval(NAME)(torch.ones(2))"),
]


@pytest.mark.parametrize(("library", "made"), OWN)
def test_an_object_that_may_be_one_of_the_programs_own_makes_its_pass_itself(library: str, made: str) -> None:
    text = PROGRAM.format(library=library, made=made)
    exec(text.replace(library, "NAME = 'Weighted'").replace("'plain'", "'Weighted'"), {"torch": torch})
    assert not analyze(Program.of(text, "train.py")).facts


@pytest.mark.parametrize(
    ("library", "made"),
    [
        ("from accelerate import Accelerator", "Accelerator()"),
        ("import accelerate", "accelerate.Accelerator()"),
        ("from engines import build", "build(net)"),
    ],
)
def test_an_object_of_a_library_sends_the_loss_backward(library: str, made: str) -> None:
    (fact,) = analyze(Program.of(PROGRAM.format(library=library, made=made), "train.py")).facts
    assert isinstance(fact, NotScalar)
