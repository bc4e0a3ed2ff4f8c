"""Other names of a tensor that is changed in place, which are given the new one where they still stand for it."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

LOOP = """\
import torch
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x, y):
        return self.first(x + y), self.second(x - y)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pairs = nn.ModuleList(Pair() for _ in range(3))

    def forward(self, x, y):
BODY

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(2, 4), torch.randn(2, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ANOTHER_EACH_TIME = """\
        for i, pair in enumerate(self.pairs):
            x, y = pair(x, y)
            if i == 0:
                total = x
                other = y
            else:
                total += x
                other += y
        x = total * 2
        return x + other
"""
BEFORE_THE_LOOP = """\
        x, y = self.pairs[0](x, y)
        total = x
        for pair in self.pairs[1:]:
            x, y = pair(x, y)
            total += x
        x = total + y
        return x
"""
GIVEN_BETWEEN = """\
        x, y = self.pairs[0](x, y)
        total = x
        x = x.exp()
        total += y
        return total + x
"""
STILL_THE_TENSOR = """\
        x, y = self.pairs[0](x, y)
        total = x
        total += y
        return total * x
"""
PERHAPS_ANOTHER = """\
        x, y = self.pairs[0](x, y)
        total = x
        if self.training:
            x = x.exp()
        total += y
        return total + x
"""


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (ANOTHER_EACH_TIME, ["total = total + x", "other = other + y"]),
        (BEFORE_THE_LOOP, ["total = total + x"]),
        (GIVEN_BETWEEN, ["total = total + y"]),
        (STILL_THE_TENSOR, ["total = x = total + y"]),
    ],
)
def test_a_name_that_stands_for_another_tensor_by_now_is_left_alone(body: str, written: list[str]) -> None:
    text = LOOP.replace("BODY\n", body)
    before, after = text.splitlines(), analyse(text, "train.py").patched.splitlines()
    assert [line.strip() for line in after if line not in before] == written


def test_a_name_that_may_stand_for_another_tensor_is_not_guessed() -> None:
    patched = analyse(LOOP.replace("BODY\n", PERHAPS_ANOTHER), "train.py").patched
    assert "x = total" not in patched


SHARED = LOOP.replace("self.first(x + y), self.second(x - y)", "self.layer(x + y), self.layer(x - y)").replace(
    "self.first = nn.Sequential(nn.Linear(4, 4), nn.ReLU())", "self.layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())"
)


def test_each_change_is_written_anew_before_what_all_of_them_change_is_cloned() -> None:
    patched = analyse(SHARED.replace("BODY\n", ANOTHER_EACH_TIME), "train.py").patched
    assert "total = total + x" in patched and "other = other + y" in patched
    assert "clone" not in patched
