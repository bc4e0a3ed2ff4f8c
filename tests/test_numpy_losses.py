"""Losses that are computed from the result of a function of NumPy for tensors with graphs."""

from __future__ import annotations

import textwrap

import pytest

from autofix import engine
from autofix.codemods.facts.cut import LossEscapes
from autofix.codemods.facts.kept import GraphEscapes

PROGRAM = """\
import numpy as np
import torch
import torch.nn.functional as F

torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(4, 3))
a = torch.rand(5, 5)
gamma = 2
opt = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    h = torch.rand(5, 4) @ w
{}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

REPAIRED = {
    "a sum over a list": (
        """
        outputs = [h, a @ h]
        loss = torch.cat([torch.zeros(1, 3), np.sum(outputs, 0)]).pow(2).mean()
        """,
        "torch.stack(outputs).sum(0)",
    ),
    "a mean along an axis that is kept": (
        """
        pair = (h, a @ h)
        out = np.mean(pair, axis=0, keepdims=True)
        loss = F.mse_loss(out, torch.zeros_like(out))
        """,
        "torch.stack(pair).mean(dim=0, keepdim=True)",
    ),
    "losses that are appended": (
        """
        losses = []
        for row in h:
            losses.append(row.abs().mean())
        loss = np.mean(losses) + np.std(losses)
        """,
        "torch.stack(losses).mean() + torch.stack(losses).std(correction=0)",
    ),
    "numbers in a list": (
        "loss = np.mean([h.mean().item(), h.std().item()])",
        "torch.stack([h.mean(), h.std()]).mean()",
    ),
    "a list in a function of one array": (
        "loss = np.exp([h.mean(), h.std()]).sum()",
        "torch.exp(torch.stack([h.mean(), h.std()]))",
    ),
    "a row of arrays": (
        "loss = np.array([h.mean(), h.abs().mean()]).sum()",
        "torch.stack([h.mean(), h.abs().mean()]).sum()",
    ),
    "several functions": (
        """
        p = np.clip(torch.sigmoid(h), a_min=1e-6, a_max=1 - 1e-6)
        loss = -np.log(p).mean()
        """,
        "torch.clamp(torch.sigmoid(h), min=1e-6, max=1 - 1e-6)",
    ),
    "a maximum with a number": ("loss = np.maximum(0.0, h).sum()", "torch.clamp(h, min=0.0)"),
    "a maximum with a named number": ("loss = np.maximum(h, gamma).sum()", "torch.clamp(h, min=gamma)"),
    "a power": ("loss = np.power(h, gamma).mean()", "torch.pow(h, gamma)"),
    "a product of matrices": ("loss = np.dot(a, h).mean()", "torch.matmul(a, h)"),
    "a norm": ("loss = np.linalg.norm(h)", "torch.linalg.norm(h)"),
    "a part beside another": (
        "loss = h.pow(2).mean() - np.log(torch.sigmoid(h)).mean()",
        "torch.log(torch.sigmoid(h))",
    ),
    "parts that are joined": (
        """
        out = np.vstack([row.unsqueeze(0) for row in h])
        loss = torch.norm(out)
        """,
        "torch.vstack([row.unsqueeze(0) for row in h])",
    ),
    "an array that torch takes back": (
        """
        out = np.concatenate([h, a @ h])
        loss = torch.from_numpy(out).mean()
        """,
        "torch.cat([h, a @ h])",
    ),
    "its own array": (
        """
        z = np.exp(h.numpy())
        loss = torch.from_numpy(z).mean()
        """,
        "torch.exp(h)",
    ),
}

LEFT = {
    "numbers among the tensors": "loss = np.sum([0.0, h.mean()])",
    "a function that torch has not": "loss = np.median([h.mean(), h.std(), h.abs().mean()])",
    "an array among the arguments": "loss = np.multiply(h, np.ones((5, 3))).mean()",
}


def _analysed(text: str) -> engine.Analysis:
    return engine.analyse(PROGRAM.format(textwrap.indent(textwrap.dedent(text).strip("\n"), "    ")), "train.py")


@pytest.mark.parametrize("name", REPAIRED)
def test_the_function_of_torch_takes_the_place_of_numpys(name: str) -> None:
    text, expected = REPAIRED[name]
    analysis = _analysed(text)
    (finding,) = analysis.findings
    assert finding.code == "AF401"
    repaired = analysis.repaired.files[0].text
    assert expected in repaired
    scope: dict[str, object] = {}
    exec(compile(repaired, "train.py", "exec"), scope)
    assert scope["w"].grad.abs().sum() > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", LEFT)
def test_what_has_no_twin_is_told_and_left(name: str) -> None:
    analysis = _analysed(LEFT[name])
    assert not analysis.changes
    assert {type(finding.fact) for finding in analysis.findings} <= {GraphEscapes, LossEscapes}
    assert analysis.findings


def test_a_weight_of_the_loss_may_be_meant_as_a_constant() -> None:
    analysis = _analysed("loss = (np.exp(-h) * h).mean()")
    (finding,) = analysis.findings
    assert isinstance(finding.fact, LossEscapes)
    assert not finding.safe
    assert "constant" in finding.fact.doubt


def test_what_is_only_shown_is_detached() -> None:
    analysis = _analysed("print(np.exp(h))\nloss = h.mean()")
    (finding,) = analysis.findings
    assert finding.code == "AF501"
    assert "np.exp(h.detach())" in analysis.repaired.files[0].text
