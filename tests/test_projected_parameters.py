"""Parameters that get a new value behind the optimizer's step are changed in place, and nothing else with them."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

PROGRAM = """
import torch
low = torch.zeros(3)
x = torch.rand(3, requires_grad=True)
opt = torch.optim.SGD([x], 0.1)
for target in torch.randn(5, 3):
    loss = (x - target).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

BOUNDS = {
    "a clamp": ("    x = x.clamp(0, 1)", "    with torch.no_grad():\n        x.copy_(x.clamp(0, 1))"),
    "two in a row, with a comment": (
        "    x = torch.maximum(x, low)  # not below\n    x = x / x.norm()",
        "    with torch.no_grad():\n        x.copy_(torch.maximum(x, low))  # not below\n        x.copy_(x / x.norm())",
    ),
    "under a condition": (
        "    if loss > 0:\n        x = x.clamp(0, 1)",
        "    if loss > 0:\n        with torch.no_grad():\n            x.copy_(x.clamp(0, 1))",
    ),
}


@pytest.mark.parametrize(("old", "new"), BOUNDS.values(), ids=BOUNDS)
def test_the_parameter_itself_is_changed(old: str, new: str) -> None:
    analysis = analyse(f"{PROGRAM}{old}\n", "train.py")
    assert [finding.code for finding in analysis.findings if not finding.fixed] == []
    assert analysis.patched == f"{PROGRAM}{new}\n"
