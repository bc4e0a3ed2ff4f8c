"""Errors of autograd explained where they happen: a process, a kernel, a test, a trainer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.kinds import OF_CODES
from autofix.codemods.facts.legacy import OldKeyword
from autofix.codemods.facts.untrained import NoGradient
from autofix.live.death import MESSAGE
from autofix.live.ipython import above, book

ROOT = Path(__file__).parents[1]
SCRIPT = """\
import sys
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
history = [torch.zeros(8, 1)]
print(sys.argv, __name__, __file__)
for step in range(3):
    output = net(torch.randn(8, 4))
    loss = output.pow(2).mean() + torch.stack(history).mean()
    history.append(output)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEADLINE = "train.py:12:5: AF101 `history` carries the graph of an earlier iteration into a later backward\n"
PATCH = "\n-    history.append(output)\n+    history.append(output.detach())\n"
LAST_OF_TRACEBACK = "RuntimeError: Trying to backward through the graph a second time"


def python(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_script_that_dies_is_explained_below_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = python("-m", "autofix", "train.py", "--epochs", "3", folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == f"['train.py', '--epochs', '3'] __main__ {tmp_path / 'train.py'}\n"
    traceback, told = done.stderr.split("\n\nautofix: the cause of this error\n")
    assert traceback.startswith(f'Traceback (most recent call last):\n  File "{tmp_path / "train.py"}", line 14, in ')
    assert traceback.splitlines()[-1].startswith(LAST_OF_TRACEBACK)
    assert told.startswith(HEADLINE) and PATCH in told
    assert "freed, failed  train.py:14:5" in told
    assert told.endswith("To prove the repair by running it: autofix run train.py\n")


def test_the_patch_is_that_of_the_cause_alone(tmp_path: Path) -> None:
    later = "w = torch.ones(3, requires_grad=True)\nw += 1\nw.sum().backward()\n"
    (tmp_path / "train.py").write_text(SCRIPT + later)
    done = python("-m", "autofix", "train.py", folder=tmp_path)
    assert PATCH in done.stderr and "no_grad" not in done.stderr


def test_other_ends_of_a_script_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(7)\n")
    (tmp_path / "fails.py").write_text("raise RuntimeError('mine')\n")
    assert python("-m", "autofix", "exits.py", folder=tmp_path).returncode == 7
    done, plain = (python(*words, folder=tmp_path) for words in (["-m", "autofix", "fails.py"], ["fails.py"]))
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
    assert python("-m", "autofix", "rule", "AF101", folder=tmp_path).stdout.startswith("AF101 ")


HOOKED = """\
import sys
import autofix
before = sys.excepthook
with autofix.explain():
    assert sys.excepthook is not before
assert sys.excepthook is before
assert "torch" not in sys.modules and "libcst" not in sys.modules and "autofix.live.death" not in sys.modules
def train():
{body}
try:
    with autofix.explain():
        train()
except RuntimeError as error:
    (note,) = error.__notes__
    print(note)
autofix.explain()
autofix.explain()
train()
"""


def test_a_hook_and_a_block_explain_what_leaves_them(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in SCRIPT.splitlines())
    (tmp_path / "train.py").write_text(HOOKED.replace("{body}", body))
    done = python("train.py", folder=tmp_path)
    headline = HEADLINE.replace("train.py:12:5", "train.py:20:9")
    assert headline in done.stdout and headline in done.stderr
    assert done.stderr.count("autofix: the cause") == 1


FAILS = "raise RuntimeError('Trying to backward through the graph a second time')\n"


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILS)
    done = python("-m", "autofix", "train.py", folder=tmp_path)
    assert "\n\nautofix: no mistake that explains this error was found" in done.stderr
    assert done.stderr.endswith("; to watch it run: autofix run train.py\n")
    (tmp_path / "train.py").write_text(
        f"open('train.py', 'a').close()\nimport os\nos.utime('train.py', (2**32, 2**32))\n{FAILS}"
    )
    done = python("-m", "autofix", "train.py", folder=tmp_path)
    assert done.stderr.endswith("\n\nautofix: train.py was changed after it was started, and was not read\n")
    done = python("-c", FAILS, folder=tmp_path)
    assert "autofix" not in done.stderr


TESTS = f"""\
def test_training():
{"".join(f"    {line}" + chr(10) for line in SCRIPT.splitlines())}
def test_other():
    assert not "mine"
"""


def test_a_test_that_dies_has_a_section(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = python("-m", "pytest", "-p", "autofix.live.pytest_plugin", "--autofix", folder=tmp_path)
    assert done.returncode == 1
    assert "- autofix -" in done.stdout and done.stdout.count("autofix: the cause of this error") == 1
    assert HEADLINE.replace("train.py:12:5", "test_it.py:13:9") in done.stdout
    assert "autofix run -- pytest test_it.py::test_training\n" in done.stdout


OFF = """\
import sys
def test_nothing_is_loaded():
    loaded = [name for name in sys.modules if name.startswith(("autofix.", "torch", "libcst"))]
    assert loaded == ["autofix.live", "autofix.live.pytest_plugin"]
"""


def test_the_plugin_loads_nothing_when_it_is_off(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(OFF)
    done = python("-m", "pytest", "-p", "autofix.live.pytest_plugin", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"autofix": "autofix.live.pytest_plugin"}


FIT = """\
import torch
from lightning.pytorch import LightningModule, Trainer
from autofix.lightning import AutofixCallback

class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.last = torch.zeros(1)

    def training_step(self, batch, index):
        output = self.layer(batch)
        loss = (output - self.last).pow(2).mean()
        self.last = output.mean()
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2)
options = dict(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = Trainer(max_epochs=1, callbacks=[AutofixCallback()], enable_model_summary=False, **options)
trainer.fit(Net(), data)
"""


def test_a_fit_that_dies_is_explained(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    (tmp_path / "fit.py").write_text(FIT)
    done = python("fit.py", folder=tmp_path)
    assert done.returncode == 1
    after = done.stderr.rpartition(LAST_OF_TRACEBACK)[2]
    assert "\nautofix: the cause of this error\nfit.py:14:9: AF101 `self.last` carries the graph" in after


def test_a_cell_that_dies_in_a_kernel_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, v4 = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    set_up, loop = SCRIPT.split("print(")[0], "for" + SCRIPT.partition("for")[2]
    sources = ["%load_ext autofix", set_up, "%%time\n1 / 0", f"%%time\n{loop}", "2 + 3"]
    made = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    nbclient.NotebookClient(made, timeout=120, allow_errors=True, kernel_name="python3").execute()
    outputs = [
        "".join(one.get("text", "") for one in cell.outputs if one.output_type == "stream") for cell in made.cells
    ]
    assert "autofix" not in outputs[2] and outputs[4] == ""
    assert "In [4]:5:5: AF101 `history` carries the graph" in plain(outputs[3])
    patched = f"%%time\n{loop}".replace("append(output)", "append(output.detach())")
    assert f"In [4], patched:\n{patched}" in plain(outputs[3])


def test_what_a_failed_cell_has_made_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, v4 = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    sources = [
        "h = (",
        "1 / 0\nimport nowhere",
        "%load_ext autofix",
        "import torch\n%precision 3\nw = torch.ones(3, requires_grad=True)\nloss = w.pow(2).sum()\nw += 1",
        "loss.backward()\nloss.backward()",
        "%unload_ext autofix",
        "w += 1",
        "%load_ext autofix",
        "w += 1",
    ]
    made = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    nbclient.NotebookClient(made, timeout=120, allow_errors=True, kernel_name="python3").execute()
    outputs = [plain("".join(one.get("text", "") for one in cell.outputs)) for cell in made.cells]
    assert "In [4]:5:1: AF301" in outputs[3] and "In [5]:2:1: AF107" in outputs[4]
    assert "autofix" not in outputs[5] + outputs[6] + outputs[7]
    assert "In [9]:1:1: AF301" in outputs[8] and outputs[8].count("patched:") == 1


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (0, ""),
        (1, ""),
        (2, "x = 1\n"),
        (4, "x = 1\n%ls\n"),
        (5, "x = 1\n%ls\n"),
        (6, "x = 1\n%ls\n@f\ndef g():\n    y\n"),
    ],
)
def test_of_a_failed_cell_the_lines_above_the_failure_are_left(line: int, kept: str) -> None:
    assert above("x = 1\n%ls\n@f\ndef g():\n    y\ng()\n", line) == kept
    assert above("x = (", line) == ""


def plain(text: str) -> str:
    """*text* without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_cells_keep_their_numbers() -> None:
    from autofix.project import notebook

    read = notebook.read(book({2: "x = 1", 5: "y"}))
    assert {cell.number: cell.source for cell in read.cells} == {2: "x = 1", 5: "y"}


@pytest.mark.parametrize("kind", [kind for kind in OF_CODES if kind.error], ids=lambda kind: kind.__name__)
def test_every_error_that_can_be_explained_is_known(kind: type[Fact]) -> None:
    # The one is no error of a program that runs, and the other's message is that of any None.
    assert MESSAGE.search(kind.error) or kind in (OldKeyword, NoGradient)
