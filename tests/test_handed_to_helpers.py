"""Scores of a network that go to two helpers, which send them back and step: computed anew between the two."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

SCRIPT = """\
import torch
from torch import nn
import torch.nn.functional as F

painter = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
judge = nn.Linear(6, 1)
opt_g = torch.optim.Adam(painter.parameters())
opt_d = torch.optim.Adam(judge.parameters())

def update_painter(output, found, content):
    loss = F.softplus(-found).mean() + (output - content).pow(2).mean()
    opt_g.zero_grad()
    loss.backward({keeps})
    opt_g.step()
    return loss.item()

def update_judge(real, found):
    loss = F.softplus(-real).mean() + F.softplus(found).mean()
    opt_d.zero_grad()
    loss.backward({keeps})
    opt_d.step()
    return loss.item()

def update(noise, art, turn):
    output = painter(noise)
    found = judge(output)
    {body}

for step in range(9):
    update(torch.randn(8, 4), torch.randn(8, 6), step % 2 == 0)
"""
PAINTER = "score = update_painter(output, found, art)"
JUDGE = "update_judge(judge(art), found)"
ANEW = "found = judge(output{})"
ORDERS = {
    "the painter first": ([PAINTER, JUDGE], [PAINTER, ANEW.format(".detach()"), JUDGE]),
    "the judge first": ([JUDGE, PAINTER], [ANEW.format(".detach()"), JUDGE, ANEW.format(""), PAINTER]),
    "every other time": (
        ["if turn:", f"    {PAINTER}", f"return {JUDGE}"],
        ["if turn:", f"    {PAINTER}", ANEW.format(".detach()"), f"return {JUDGE}"],
    ),
}


def script(body: list[str], keeps: str) -> str:
    return SCRIPT.format(body="\n    ".join(body), keeps=keeps)


@pytest.mark.parametrize("keeps", ["", "retain_graph=True"])
@pytest.mark.parametrize(("broken", "fixed"), ORDERS.values(), ids=ORDERS)
def test_scores_are_computed_anew_before_the_second_helper(broken: list[str], fixed: list[str], keeps: str) -> None:
    patched = analyse(script(broken, keeps), "train.py").patched
    assert "\n    ".join(fixed) in patched, patched
    assert analyse(patched, "train.py").findings == ()


@pytest.mark.parametrize("fixed", [fixed for _, fixed in ORDERS.values()], ids=ORDERS)
def test_scores_of_one_helper_each(fixed: list[str]) -> None:
    assert analyse(script(fixed, ""), "train.py").findings == ()
