"""Reads of a store, or of a number of items, by which the training may use it: the rest of point 5 rests on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofix.execution.runner import Script
from autofix.proof.points.together import Readings

LOOP = """\
for step in range(4):
    outs.append(net(x))
    {}
    loss.backward()
{}
"""
USED = {
    "side by side": ("aims", "loss = sum((a - b).pow(2).mean() for a, b in zip(outs, aims))"),
    "by its number": ("self.aims", "loss = sum(loss_of(outs[i], self.aims[i]) for i in range(len(outs)))"),
    "handed to a function": ("aims", "update(outs, aims)"),
    "by a key": ("log['aim']", "loss = loss_of(log['out'], log['aim'])"),
    "by a key that is not known": ("log['aim']", "loss = sum(loss_of(log[key]) for key in log)"),
    "no source names it": ("elsewhere.aims", "loss = sum(outs)"),
    "for the loss alone, and filled": ("aims", "aims.append(sum(aims)); loss = sum(outs)"),
}
UNUSED = {
    "filled": ("aims", "aims.append(y); loss = sum(outs)"),
    "filled by a key": ("kept['a']", "kept.setdefault('a', []).append(y); loss = sum(outs)"),
    "another key": ("log['aim']", "log['aim'].append(y); loss = sum(log['out'])"),
    "printed": ("aims", "loss = sum(outs); print(sum(aims) / len(aims))"),
    "in a text": ("aims", "loss = sum(outs); bar.text = f'{sum(aims)}'"),
    "the last one": ("aims", "loss = sum(outs) + aims[-1]"),
    "the last ones": ("aims", "loss = sum(outs) + sum(aims[-4:])"),
    "drawn at random": ("aims", "loss = sum(outs) + sum(random.sample(aims, 4))"),
    "their number is compared": ("aims", "loss = sum(outs) if len(aims) < 4 else out"),
}


def uses(path: str, line: str, behind: str = "", *, counter: bool = False) -> bool:
    return Readings(Script(Path("train.py"), text=LOOP.format(line, behind))).uses(path, counter=counter)


@pytest.mark.parametrize(("path", "line"), USED.values(), ids=USED.keys())
def test_what_the_training_may_use(path: str, line: str) -> None:
    assert uses(path, line)


@pytest.mark.parametrize(("path", "line"), UNUSED.values(), ids=UNUSED.keys())
def test_what_the_training_does_not_use(path: str, line: str) -> None:
    assert not uses(path, line)


def test_what_is_read_behind_the_training() -> None:
    assert not uses("history", "history.append(loss.item()); loss = sum(outs)", "plot = torch.tensor(history)")


@pytest.mark.parametrize(
    "line", ["loss = sum(outs) / count", "loss = (1 / count) * sum(outs)", "loss = sum(outs).div(count)"]
)
def test_a_number_that_something_is_divided_by(line: str) -> None:
    assert uses("count", line, counter=True)


@pytest.mark.parametrize(
    "line", ["count += 1", "loss = data[count * 2]", "print(sum(outs) / count)", "if count > 2: pass"]
)
def test_a_number_that_scales_nothing(line: str) -> None:
    assert not uses("count", line, counter=True)


def test_a_source_that_cannot_be_read_may_use_all() -> None:
    assert Readings(Script(Path("no_such_folder/train.py"))).uses("aims", counter=False)
