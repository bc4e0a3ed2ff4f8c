"""Tensors that are joined side by side: the rows of the result may be one, however many columns it has."""

from __future__ import annotations

import pytest
import torch

from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

HEADER = """\
import torch
net = torch.nn.Linear(3, 1)
columns = [net(torch.ones(1, 3)) for _ in range(5)]
"""


def facts(line: str) -> list[type]:
    return [type(fact) for fact in analyze(Program.of(f"{HEADER}({line}).backward()\n", "train.py")).facts]


@pytest.mark.parametrize(
    "loss",
    [
        "net(torch.ones(1, 3)) / torch.split(torch.cat(columns, dim=1), 1, dim=1)[2]",
        "net(torch.ones(1, 3)) / torch.cat(columns, 1).chunk(5, 1)[2]",
        "torch.cat(columns, dim=1).mean(1)",
        "torch.cat(columns, axis=1).max(1)[0]",
        "torch.cat(columns, -1).sum(-1, keepdim=True)",
        "torch.hstack(columns).mean(1)",
        "torch.stack(columns, 2).sum(dim=2)",
        "(0.5 * torch.cat(columns, 1)).amax(1)",
    ],
)
def test_columns_that_are_put_together_or_taken_apart_leave_one_row(loss: str) -> None:
    exec(f"{HEADER}({loss}).backward()", {})
    assert not facts(loss)


@pytest.mark.parametrize(
    "loss",
    [
        "torch.cat(columns, dim=1)",
        "torch.stack(columns, 1)",
        "2 * torch.hstack(columns)",
        "torch.cat(columns).mean(1)",
        "torch.stack(columns).sum(dim=1)",
        "torch.vstack(columns).mean(dim=1)",
    ],
)
def test_several_columns_or_rows_are_no_scalar(loss: str) -> None:
    with pytest.raises(RuntimeError, match="scalar outputs"):
        exec(f"{HEADER}({loss}).backward()", {"torch": torch})
    assert facts(loss) == [NotScalar]
