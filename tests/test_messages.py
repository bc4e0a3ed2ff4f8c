"""Messages as people who train models read them: each names its tensor, its operation and its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import autofix
from autofix.cli import main
from autofix.codemods.facts.kinds import OF_CODES
from autofix.codemods.rules.registry import all_codemods
from autofix.report.lines import joined

HEAD = """\
import torch
from torch import nn

net, head = nn.Linear(4, 3), nn.Linear(3, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(8, 4)
"""
TWICE = """\
fake = net(x).tanh()
head(fake).mean().backward()
head(fake).pow(2).mean().backward()
"""


def messages(text: str) -> list[str]:
    return [one.message for one in autofix.check(source=text, isolated=True).findings]


def test_a_freed_graph_names_the_backward() -> None:
    assert messages(HEAD + TWICE) == ["`fake`'s graph was already freed by the backward at line 8"]


@pytest.mark.parametrize(
    ("loss", "operation"),
    [
        ("net(x).argmax(1).float().mean()", "argmax"),
        ("torch.argmax(net(x), 1).float().mean()", "argmax"),
        ("(net(x) > 0.5).float().mean()", "net(x) > 0.5"),
    ],
)
def test_an_operation_without_derivative_is_named(loss: str, operation: str) -> None:
    (found,) = autofix.check(source=f"{HEAD}loss = {loss}\nloss.backward()\n", isolated=True).findings
    assert found.message == f"`loss` has no graph: `{operation}` is not differentiable"


def test_a_doubt_is_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(f"{HEAD}net(x).argmax(1).float().mean().backward()\n")
    main(["check", "-q", "train.py"])
    assert "(likely: the differentiable substitute is a choice)" in capsys.readouterr().out


def test_the_backward_in_another_file_is_named_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("helper.py").write_text("def step(loss):\n    loss.backward()\n")
    text = HEAD + TWICE.replace("head(fake).mean().backward()", "step(head(fake).mean())")
    Path("train.py").write_text(f"from helper import step\n{text}")
    (found,) = autofix.check("train.py").findings
    assert found.message == "`fake`'s graph was already freed by the backward at helper.py:2"


def test_in_a_notebook_the_cell_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in (HEAD, TWICE)]
    Path("nb.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": cells}))
    told = "`fake`'s graph was already freed by the backward at cell 2, line 2"
    main(["check", "nb.ipynb"])
    assert told in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115
    main(["review", "nb.ipynb"])
    assert told in capsys.readouterr().out


def test_a_baseline_outlives_lines_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HEAD + TWICE)
    assert main(["check", "--write-baseline", "known.json"]) == 0
    Path("train.py").write_text(f"# One line more.\n{HEAD}{TWICE}")
    assert main(["check", "--baseline", "known.json"]) == 0


def test_what_one_backward_does_twice_it_does_later() -> None:
    assert joined(["this backward frees the graph", "this backward reaches the freed graph"]) == (
        "this backward frees the graph, and later reaches the freed graph"
    )
    assert joined(["kept here", "kept here", "used here"]) == "kept here, and used here"


VAGUE = re.compile(r"\b(sent back|remed(y|ies)|folk|comes? to|a value\b(?! that))")


def test_no_phrase_is_vague() -> None:
    """Each phrase stands alone, as a note in an editor does, so a pronoun would have nothing to stand for."""
    texts = {phrase for kind in OF_CODES for phrase in kind.phrases.values()}
    texts |= {(codemod.__doc__ or "") for codemod in all_codemods()}
    for text in texts:
        assert not VAGUE.search(text), text
    for kind in OF_CODES:
        for phrase in kind.phrases.values():
            assert not {"it", "its", "them", "they", "those"} & set(phrase.split()), phrase
