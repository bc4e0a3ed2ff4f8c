"""The reach of reading is reported: backward passes that were followed, and the reason why others were not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autofix.cli import main
from autofix.engine import analyse

HEAD = """\
import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def missed(text: str) -> dict[int, str]:
    analysis = analyse(HEAD + text, "train.py")
    return {line - HEAD.count("\n"): reason for (_, line), reason in analysis.missed.items()}


def test_a_pass_that_paths_come_to_is_reached() -> None:
    assert missed("loss = net(torch.ones(3, 2)).sum()\nloss.backward()\n") == {}
    assert missed("def step(x):\n    net(x).sum().backward()\n    optimizer.step()\n") == {}
    assert missed("torch.tensor(1.0).backward()\n") == {}


def test_a_loss_from_code_that_was_not_read_is_said() -> None:
    text = "from somewhere import criterion\nloss = criterion.compute('x')\nloss.backward()\n"
    assert missed(text) == {3: "its loss comes from code that was not read"}


def test_a_pass_that_no_path_comes_to_is_said() -> None:
    text = "if False:\n    net(torch.ones(3, 2)).sum().backward()\nnet(torch.ones(1, 2)).sum().backward()\n"
    assert missed(text) == {2: "no path that was followed comes here"}


ASKS = """\
import argparse
import sys
parser = argparse.ArgumentParser()
parser.add_argument("--config", default="")
args = parser.parse_args()
if {unless}:
    print("usage: train.py --config FILE")
    {leave}
net(torch.ones(3, 2)).sum().backward()
"""


@pytest.mark.parametrize("leave", ["exit(1)", "quit()", "sys.exit('no configuration')", "os._exit(2)"])
@pytest.mark.parametrize("unless", ["args.config == ''", "not args.config", "len(sys.argv) < 2"])
def test_a_script_that_asks_for_an_argument_is_given_one(leave: str, unless: str) -> None:
    assert missed("import os\n" + ASKS.format(unless=unless, leave=leave)) == {}


def test_methods_of_the_programs_own_are_no_passes() -> None:
    text = "class T:\n    def backward(self):\n        net(torch.ones(3, 2)).sum().backward()\n"
    assert missed(text + "    def step(self):\n        self.backward()\n") == {}


def test_the_summary_counts_and_verbose_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        f"{HEAD}from other import make\nmake().backward()\nnet(torch.ones(3, 2)).sum().backward()\n"
    )
    assert main(["check", "-v", "train.py"]) == 0
    said = capsys.readouterr()
    assert said.out == ("No mistakes found in 1 file; 1 of 2 backward passes were followed (-v names the others).\n")
    assert "train.py:5: this backward pass was not followed: its loss comes from code that was not read" in said.err


@pytest.mark.parametrize("name", ["book.ipynb", "config.json", "list"])
def test_what_is_no_python_is_no_clean_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(json.dumps({"cells": []}) if name != "list" else "[1, 2]")
    assert main(["check", name]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"{name}:1:1: ") and len(said.err.splitlines()) == 1
    assert "1 file could not be checked" in said.out


def test_no_fix_is_written_through_a_link_out_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project, elsewhere):
        folder.mkdir()
        (folder / "setup.py").touch()
    loop = "for _ in range(3):\n    net(torch.ones(3, 2)).sum().backward()\n    optimizer.step()\n    net.weight += 1\n"
    text = HEAD + loop
    for place in (project / "own.py", elsewhere / "train.py"):
        place.write_text(text)
    (project / "train.py").symlink_to(elsewhere / "train.py")
    (project / "inside.py").symlink_to(project / "own.py")
    monkeypatch.chdir(project)
    assert main(["check", "--fix", "train.py"]) == 1
    assert "not written: it is a link to" in capsys.readouterr().err
    assert (elsewhere / "train.py").read_text() == text
    assert main(["check", "--fix", "inside.py"]) == 0
    assert (project / "own.py").read_text() != text and (project / "inside.py").is_symlink()


SAMPLER = """\
import torch
{importing}
net = torch.nn.Linear(4, 3)
z = torch.randn(16, 4).requires_grad_()
total = torch.zeros(16)
for temperature in range(100):
    score = net(z).sum(1) * temperature
    total += score
    z = (z + {gradient}(score.sum(), z)[0]).detach().requires_grad_()
print(total.mean().item())
"""


@pytest.mark.parametrize(
    ("importing", "gradient"),
    [
        ("from torch.autograd import grad", "grad"),
        ("from torch.autograd import grad as derivative", "derivative"),
        ("from torch.autograd import (\n    Variable,\n    grad as derivative,\n)", "derivative"),
        ("from torch import autograd as ag", "ag.grad"),
        ("import torch.autograd as ag", "ag.grad"),
    ],
)
def test_torchs_function_is_a_pass_by_any_name(importing: str, gradient: str) -> None:
    analysis = analyse(SAMPLER.format(importing=importing, gradient=gradient), "sample.py")
    assert [finding.code for finding in analysis.findings] == ["AF601"]
    assert len(analysis.passes) == 1
    assert not analysis.missed
