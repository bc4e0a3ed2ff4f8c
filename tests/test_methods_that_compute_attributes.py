"""Attributes that a method computes of parameters, which only the constructor calls: who reads them calls it again."""

from __future__ import annotations

import difflib

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

PROGRAM = """\
import torch
from torch import nn
torch.manual_seed(0)

class Model(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.raw, self.scale = nn.Parameter(torch.randn(n, n) * 0.1), nn.Parameter(torch.zeros(()))
        self.METHOD()

    def METHOD(self):
        BODY

    def forward(self, x):
        return USE

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(5, 4)
    loss = (model(x) - x.flip(1)).pow(2).mean() + EXTRA
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SHAPES = {
    "one attribute": ("update", "self.kernel = torch.softmax(self.raw, -1)", "x @ self.kernel", "0", "self.update()"),
    "two of one local value": (
        "precompute",
        "g = self.raw @ self.raw.t()\n        self.kernel = g.softmax(-1)\n        self.size = g.pow(2).mean()",
        "x @ self.kernel",
        "0.1 * model.size",
        "self.precompute()",
    ),
    "one computed of the other, both read": (
        "refresh",
        "self.gram = self.raw @ self.raw.t() + torch.eye(4)\n        self.factor = torch.linalg.cholesky(self.gram)",
        "x @ self.factor + self.gram.diagonal() * self.scale",
        "0",
        "self.refresh()",
    ),
}
SIDE_EFFECT = (
    "update",
    "self.calls = 1\n        print('updated')\n        self.kernel = torch.softmax(self.raw, -1)",
    "x @ self.kernel",
    "0",
    "self.kernel = torch.softmax(self.raw, -1)",
)


@pytest.mark.parametrize("parts", [*SHAPES.values(), SIDE_EFFECT], ids=[*SHAPES, "a method that does something else"])
def test_the_method_is_called_where_its_attributes_are_read(parts: tuple[str, ...]) -> None:
    text = PROGRAM
    for mark, part in zip(("METHOD", "BODY", "USE", "EXTRA"), parts, strict=False):
        text = text.replace(mark, part)
    with pytest.raises(RuntimeError, match="second time"):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    patched = mend(Program.of(text, "train.py"), all_codemods()).patched.files[0].text
    rows = difflib.ndiff(text.splitlines(), patched.splitlines())
    assert [row[2:].strip() for row in rows if row.startswith("+ ")] == [parts[4]]
    exec(compile(patched, "train.py", "exec"), {"__name__": "__main__"})
