"""An obstacle that keeps a script from training is named, with the option that removes it; it is no mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofix.cli import main

SCRIPTS = {
    "write": ("import os\nos.makedirs('{outside}/out')\n", "the sandbox refused to write {outside}/out; --allow-write"),
    "checkpoint": (
        "import torch\ntorch.save({{}}, '{outside}/m.pt')\n",
        "refused to write {outside}/m.pt; --allow-write",
    ),
    "network": (
        "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/x', timeout=3)\n",
        "the sandbox refused a connection to the outside; --allow-network permits it.",
    ),
    "gpu": ("import torch\ntorch.ones(2).cuda()\n", "there is no GPU; --device cpu runs the script on the CPU."),
    "device": ("import torch\ntorch.cuda.set_device(0)\n", "there is no GPU; --device cpu runs the script on the CPU."),
    "arguments": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n",
        "the script needs other arguments.\nusage: train.py [-h] --data DATA",
    ),
    "module": ("import nowhere_to_be_found\n", "a module is missing.\nModuleNotFoundError: No module named"),
    "input": ("input()\n", "the script waits for input."),
}


@pytest.mark.parametrize(("text", "said"), SCRIPTS.values(), ids=SCRIPTS)
def test_an_obstacle_is_named_and_is_no_mistake(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    outside = tmp_path / "outside"
    outside.mkdir()
    Path("train.py").write_text(text.format(outside=outside))
    assert main(["run", "train.py"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("The script stops before it trains")
    assert said.format(outside=outside) in out
    assert "no repair is known" not in out and "fails before" not in out


def test_the_named_option_takes_the_obstacle_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    Path("train.py").write_text(SCRIPTS["write"][0].format(outside=tmp_path))
    assert main(["run", "--allow-write", str(tmp_path), "train.py"]) == 0
    assert (tmp_path / "out").is_dir()


def test_a_script_that_does_not_fail_is_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autofix.repair.HEALTHY", 0.5)
    Path("train.py").write_text(
        "import torch\nnet = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "while True:\n    optimizer.zero_grad()\n    net(torch.ones(3, 2)).sum().backward()\n    optimizer.step()\n"
    )
    assert main(["run", "train.py"]) == 0
    assert capsys.readouterr().out.startswith("No error in ")
    assert main(["run", "--budget", "0.000001", "train.py"]) == 1
    assert "the budget is spent" in capsys.readouterr().out.lower()
