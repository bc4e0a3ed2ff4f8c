"""Loops that do something every k-th time, and only once a container holds enough."""

from __future__ import annotations

import pytest
import torch

from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

CARRIED = """\
from collections import deque
import torch
cell = torch.nn.RNNCell(2, 2)
h = torch.zeros(1, 2)
memory = {container}
{loop}
    memory.append(torch.zeros(1, 2))
    if {turn}:
        if len(memory) > 20:
            {state}
            h.sum().backward()
"""
FOR = "for step in range(60):"
WHILE = "step = 0\nwhile step < 60:\n    step += 1"


@pytest.mark.parametrize("container", ["[]", "deque(maxlen=30)"])
@pytest.mark.parametrize("loop", [FOR, WHILE])
@pytest.mark.parametrize("turn", ["step % 4 == 0", "step % 3 in [0, 1]", "not step % 2", "step not in (1, 3)"])
def test_a_pass_that_waits_for_items_is_followed(container: str, loop: str, turn: str) -> None:
    given = {"container": container, "loop": loop, "turn": turn}
    broken = CARRIED.format(state="h = cell(memory[-1], h)", **given)
    right = CARRIED.format(state="h = cell(memory[-1], h.detach())", **given)
    with pytest.raises(RuntimeError, match="second time"):
        exec(broken, {"torch": torch})
    exec(right, {"torch": torch})
    assert [type(fact) for fact in analyze(Program.of(broken, "train.py")).facts] == [StaleGraph]
    assert not analyze(Program.of(right, "train.py")).facts


def test_a_condition_of_other_numbers_puts_nothing_off() -> None:
    text = """\
import torch
w = torch.ones(2, requires_grad=True)
memory, place = [], 0
for episode in range(1000):
    status = 1
    while status == 1:
        if place in [0, 2]:
            place -= 1
        memory.append(episode)
        if len(memory) > 200:
            w.sum().backward()
        if place == 7:
            status = 0
"""
    assert analyze(Program.of(text, "train.py")).passes
