"""Projects as they lie on the disk: the copy of the project is run, however the user starts it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import pytest

from autofix.cli import main
from autofix.execution import launch
from autofix.execution.runner import Limits, Script, run

CELL = """\
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(3, 5)
        self.memory = torch.zeros(2, 5)

    def forward(self, x):
        self.memory = self.gru(x, self.memory)
        return self.memory
"""
LOOP = """\
import torch

from {package}cell import Cell


def fit(steps=20):
    net = Cell()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        loss = net(torch.randn(2, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    fit()
"""
LAYOUTS = {
    "src": {
        "pyproject.toml": "[project]\nname = 'nets'\n",
        "src/nets/__init__.py": "",
        "src/nets/cell.py": CELL,
        "src/nets/loop.py": LOOP.format(package="nets."),
        "scripts/go.py": "from nets.loop import fit\n\nfit()\n",
        "tests/test_loop.py": "from nets.loop import fit\n\n\ndef test_fit():\n    fit()\n",
    },
    "setup.cfg": {
        "setup.cfg": "[options]\npackage_dir =\n    = lib\n",
        "lib/nets/__init__.py": "",
        "lib/nets/cell.py": CELL,
        "lib/nets/loop.py": LOOP.format(package="."),
        "scripts/go.py": "from nets.loop import fit\n\nfit()\n",
    },
    "path": {
        "tools/go.py": "import os, sys\nHERE = os.path.dirname(os.path.abspath(__file__))\n"
        "sys.path.append(os.path.join(HERE, os.pardir, 'code'))\n"
        "open('data/rows.csv').close()\nfrom loop import fit\n\nfit()\n",
        "code/cell.py": CELL,
        "code/loop.py": LOOP.format(package=""),
        "data/rows.csv": "",
    },
    "pathlib": {
        "tools/deep/go.py": "import sys\nfrom pathlib import Path\nROOT = Path(__file__).resolve().parents[2]\n"
        "sys.path.insert(0, str(ROOT / 'code'))\nfrom loop import fit\n\nfit()\n",
        "code/cell.py": CELL,
        "code/loop.py": LOOP.format(package=""),
    },
}


def lay(name: str, root: Path) -> Path:
    for path, text in LAYOUTS[name].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path / "project"


def cell_of(root: Path) -> str:
    (cell,) = root.rglob("cell.py")
    return cell.relative_to(root).as_posix()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_script_leads_to_the_mistake_in_its_project(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = lay(name, project).rglob("go.py")
    assert main(["check", str(script.relative_to(project))]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{cell_of(project)}:12:9: AF102")
    assert out.endswith("Found 1 mistake (1 fixable with --fix); the backward pass was followed.\n")


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_repair_is_proved_in_a_copy_of_the_project(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = lay(name, project).rglob("go.py")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert main(["run", str(script.relative_to(project))]) == 0
    out = capsys.readouterr().out
    assert f"--- a/{cell_of(project)}" in out and "Proved: the patched script trains." in out
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


COMMANDS = {
    "module": ["-m", "nets.loop"],
    "interpreter": ["--", sys.executable, "-u", "-m", "nets.loop"],
    "launcher": ["--", sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=1", "scripts/go.py"],
    "shell": ["--", "sh", "go.sh"],
    "test": ["--", sys.executable, "-m", "pytest", "-q", "tests/test_loop.py::test_fit"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_every_way_to_start_a_program_leads_to_a_proof(
    words: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay("src", project)
    (project / "go.sh").write_text(f"#!/bin/sh\n'{sys.executable}' scripts/go.py\n")
    assert main(["run", *words]) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "--- a/src/nets/" in out and "Proved: the patched script trains." in out


def test_the_run_starts_where_the_caller_stands(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lay("path", project)
    monkeypatch.chdir(project.parent)  # relative to here, there is no data
    assert main(["run", "project/tools/go.py"]) == 1
    assert "a file is missing" in capsys.readouterr().out
    assert main(["run", "--cwd", "project", "project/tools/go.py"]) == 0


FIX = """\
--- a/src/nets/cell.py
+++ b/src/nets/cell.py
@@ -11,3 +11,3 @@
     def forward(self, x):
-        self.memory = self.gru(x, self.memory)
+        self.memory = self.gru(x, self.memory.detach())
         return self.memory
"""


def test_a_diff_is_proved_before_and_after_it_is_applied(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay("src", project)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    (project / "fix.diff").write_text(FIX)
    assert main(["prove", "--patch", "fix.diff", "-m", "nets.loop"]) == 0
    git(project, "apply", "fix.diff")
    assert main(["prove", "--patch", "fix.diff", "-m", "nets.loop"]) == 0
    assert main(["prove", "--against", "HEAD", "-m", "nets.loop"]) == 0
    assert capsys.readouterr().out.count("Proved: the patched script trains.") == 3
    for wrong in ("nowhere", "--output=written"):
        assert main(["prove", f"--against={wrong}", "-m", "nets.loop"]) == 2
        assert not Path("written").exists()
        assert capsys.readouterr().err.startswith(f"Error: --against {wrong}: bad revision ")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_a_patch_of_a_file_that_is_not_run_is_not_proved(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another copy of the package stands before the project's on the path: the patch says nothing of that one."""
    lay("src", project)
    other = tmp_path / "installed" / "nets"
    other.mkdir(parents=True)
    for name, text in (("__init__", ""), ("cell", CELL), ("loop", LOOP.format(package="nets."))):
        (other / f"{name}.py").write_text(text.replace("self.memory)\n", "self.memory.detach())\n"))
    (project / "scripts" / "go.py").write_text(
        f"import sys\nsys.path.insert(0, {str(other.parent)!r})\n"
        "import torch\na = torch.ones(2, requires_grad=True)\nfrom nets.loop import fit\n\n"
        "if '--leaf' in sys.argv:\n    a += 1\nfit()\n"
    )
    fix = textwrap.dedent(
        """\
        --- a/scripts/go.py
        +++ b/scripts/go.py
        @@ -7,2 +7,2 @@
         if '--leaf' in sys.argv:
        -    a += 1
        +    a = a + 1
        """
    )
    (project / "fix.diff").write_text(fix + FIX)
    assert main(["prove", "--patch", "fix.diff", "scripts/go.py", "--leaf"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"src/nets/cell.py was loaded from {other}/cell.py" in out


def test_an_editable_finder_does_not_lead_out_of_the_copy(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As setuptools writes one: it stands in ``sys.meta_path`` and knows the package's folder."""
    lay("src", project)
    finder = f"""\
import importlib.util, sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "nets":
            place = {str(project / "src" / "nets")!r}
            return importlib.util.spec_from_file_location(
                name, place + "/__init__.py", submodule_search_locations=[place]
            )


sys.meta_path.append(Finder)
"""
    (project / "scripts" / "go.py").write_text(finder + "from nets.loop import fit\n\nfit()\n")
    assert main(["run", "scripts/go.py"]) == 0
    assert "Proved: the patched script trains." in capsys.readouterr().out


def test_runs_in_one_warm_process_find_their_own_copies(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search path of the first run must not stay in the process that serves the second."""
    lay("src", project)
    (project / "scripts" / "go.py").write_text("import nets.loop\nprint(nets.loop.__file__)\nnets.loop.fit()\n")
    monkeypatch.setenv("PYTHONPATH", str(project / "src"))
    launch.close_servers()
    script = Script(Path("scripts/go.py"), root=project, cwd=project)
    places = [run(script, Limits()).output.splitlines()[0] for _ in range(2)]
    launch.close_servers()
    assert len(set(places)) == 2
    assert all(place.endswith("/tree/project/src/nets/loop.py") for place in places)


def test_a_patch_from_below_the_root_is_named_from_the_root_and_applies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A script is started in its own folder, and the mistake lies in a module beside that folder."""
    (tmp_path / "nets").mkdir()
    (tmp_path / "scripts").mkdir()
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    git(["git", "init", "-q"])
    (tmp_path / "nets" / "__init__.py").touch()
    loop = tmp_path / "nets" / "loop.py"
    loop.write_text(
        "import torch\n\n\ndef fit(net, optimizer):\n    kept = []\n    for step in range(9):\n"
        "        out = net(torch.randn(4, 3)).mean()\n        kept.append(out)\n"
        "        loss = torch.stack(kept).mean()\n        optimizer.zero_grad()\n        loss.backward()\n"
        "        optimizer.step()\n"
    )
    (tmp_path / "scripts" / "go.py").write_text(
        "import sys\nsys.path.insert(0, '..')\nimport torch\nfrom nets.loop import fit\n\nnet = torch.nn.Linear(3, 1)\n"
        "fit(net, torch.optim.SGD(net.parameters(), lr=0.1))\n"
    )
    monkeypatch.chdir(tmp_path / "scripts")
    main(["check", "--diff", "go.py"])
    diff = capfdbinary.readouterr().out
    assert diff.startswith(b"--- a/nets/loop.py\n+++ b/nets/loop.py\n")
    git(["git", "apply", "-"], input=diff)
    assert "kept[-1] = kept[-1].detach()" in loop.read_text()
