"""Numbers that Python refuses to turn into others, in the text of a program: what they make is not known."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

PROGRAM = """\
import itertools
import torch
from torch import nn

net = nn.Linear(4, 1)
number = NUMBER
for step in range(3):
    loss = net(torch.randn(2, 4)).sum()
    loss.backward()
    loss.backward()
"""


@pytest.mark.parametrize(
    "number",
    [
        'int(float("inf"))',
        "abs(10**400)",
        "sum([1e300, 10**400])",
        "len(range(2**70))",
        "list(itertools.repeat(1, 10**400))",
        "[one for one in range(10**400)]",
    ],
)
def test_a_program_is_read_whatever_its_numbers_are(number: str) -> None:
    assert [one.cause.line for one in analyse(PROGRAM.replace("NUMBER", number), "train.py").findings] == [10]


@pytest.mark.parametrize("head", ["for step in range(10**30):", "while step < 10**30:"])
def test_a_loop_that_is_ended_by_a_break_may_have_any_count(head: str) -> None:
    text = PROGRAM.replace("NUMBER", "step = 0").replace("for step in range(3):", head)
    text = text.replace("    loss = ", "    step += 1\n    if step > 5:\n        break\n    loss = ")
    assert [one.cause.line for one in analyse(text, "train.py").findings] == [13]
