"""Notebooks in a real kernel: Jupyter's surroundings, the places of the cells, and its end in every case."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from autofix.child.cells import Origin, origins
from autofix.cli import main
from autofix.commands.launch import tell_of_kernel
from autofix.execution.invocation import InvocationError, invocation
from autofix.execution.record import Outcome, RunRecord
from autofix.execution.runner import Limits, Way, run
from tests.test_killing import processes, until

ROOT = Path(__file__).parents[1]
TRAINING = """\
import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []"""


def book(*sources: str, tags: dict[int, list[str]] | None = None) -> str:
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {"tags": (tags or {}).get(number, [])},
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources, 1)
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells})


def execute(folder: Path, text: str, limits: Limits | None = None) -> RunRecord:
    """Run the notebook *text* as ``autofix run`` runs it once."""
    path = folder / "nb.ipynb"
    path.write_text(text)
    record = run(invocation([str(path)]).script, limits or Limits())
    assert not record.mistakes
    assert path.read_text() == text
    return record


JUPYTER = """\
%%capture told
import asyncio, os, random, sys
print("not to be seen")"""
NAMES = """\
async def later(): return 3
%time first = 0
first += await later()
files = !echo one two
print(told.stdout, files, first, os.path.basename(os.getcwd()), sys.argv[1])
print(random.random(), get_ipython().kernel.implementation, "IPKernelApp" in get_ipython().config)
display({"x": 1})
7"""
FILES = """\
%%writefile beside.py
value = 5"""
LAST = """\
%load_ext autoreload
from beside import value
!echo $value and {value + 1}; exit 3
print(_, Out[2], In[3].split()[0], _exit_code, len(open("nb.ipynb").read()) > 500)
exit()"""


def test_cells_have_what_jupyter_gives_them(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    record = execute(folder, book(JUPYTER, NAMES, FILES, LAST, "raise KeyError('never')"))
    assert record.outcome is Outcome.FINISHED, record.output
    lines = [line for line in record.output.splitlines() if not line.startswith(("CPU times", "Wall time"))]
    assert lines == [
        "not to be seen",
        " ['one two'] 3 books -f",
        "0.8444218515250481 ipython True",
        "{'x': 1}",
        "7",
        "Writing beside.py",
        "5 and 6",
        "7 7 get_ipython().run_cell_magic('writefile', 3 True",
    ]


def test_a_kernel_computes_what_a_script_computes(tmp_path: Path) -> None:
    loop = "for step in range(4):\n    loss = net(torch.randn(3, 2)).sum()\n    loss.backward()\n    optimizer.step()"
    (tmp_path / "train.py").write_text(f"{TRAINING}\n{loop}\n")
    script = run(invocation([str(tmp_path / "train.py")]).script, Limits())
    of_cells = execute(tmp_path, book(TRAINING, f"%%time\n{loop}"))
    assert of_cells.losses == script.losses and len(script.losses) == 4
    assert [step.state for step in of_cells.updates] == [step.state for step in script.updates]


FAILS = (
    "  \n"
    + """\
  %env A=\\
  1
  if kept == []:
      %time kept.append(torch.ones(2)); raise RuntimeError("«é» in " + __name__)"""
)


def test_an_error_is_told_in_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nb.ipynb").write_text(book("1 / 0", TRAINING, FAILS, tags={1: ["raises-exception"]}))
    assert main(["run", "-v", "nb.ipynb"]) == 1
    told = capsys.readouterr()
    assert "The script fails at nb.ipynb:cell 3:5:41 and no repair is known: «é» in __main__" in told.out


def test_a_notebook_with_a_cell_that_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvocationError, match=r"nb\.ipynb:cell 2:4:1: 'return' outside function"):
        execute(tmp_path, book("x = 1", "\ndef f():\n    return 1\nreturn f()"))


def test_an_error_of_syntax_that_only_the_kernel_meets_is_told(tmp_path: Path) -> None:
    record = execute(tmp_path, book("x = 1", "\ndef f():\n    return compile('x = = 1', 'text', 'exec')\nf()"))
    assert record.error is not None
    assert (record.error.type, record.error.line, record.error.file) == ("SyntaxError", 6, "nb.ipynb")


@pytest.mark.parametrize(
    ("text", "cell", "found"),
    [
        ("x = 1\ny = 2", "x = 1\ny = 2", [(0, 0), (1, 0)]),
        ("y = 2\nz = 3", "%%time\ny = 2\nz = 3", [(1, 0), (2, 0)]),
        ("y()", "%time y()", [(0, 6)]),
        ("if x:\n    y()\n", "\n\n  if x:\n      y()", [(2, 2), (3, 2), (3, None)]),
        ("magic(1)\ny = 2", "%magic \\\n1\ny = 2", [(0, None), (2, 0)]),
        ("a\nmagic()\n\na", "a\n%magic\n\na", [(0, 0), (1, None), (2, None), (3, 0)]),
    ],
    ids=["plain", "below-a-magic", "behind-a-magic", "dedented", "magic-of-two-lines", "magic-between"],
)
def test_the_lines_of_a_cell_are_found_again(text: str, cell: str, found: list[tuple[int, int | None]]) -> None:
    assert origins(text.split("\n"), cell.split("\n")) == [Origin(*one) for one in found]


def test_a_kernel_ends_with_its_time(tmp_path: Path) -> None:
    endless, seconds = book("import os\nprint(os.getpid())", "while True: pass"), 3.0
    while not (record := execute(tmp_path, endless, Limits(timeout=seconds))).output:
        seconds *= 2  # a busy machine takes longer to start a kernel
    assert record.outcome is Outcome.TIMED_OUT
    with pytest.raises(ProcessLookupError):
        os.kill(int(record.output), 0)


def test_a_kernel_needs_no_warm_process(tmp_path: Path) -> None:
    record = execute(tmp_path, book("import torch", "!echo done", "import sys; sys.exit(3)"), Limits(warm=False))
    assert record.outcome is Outcome.RAISED and str(record.error) == "SystemExit: 3"
    assert record.output.startswith("done\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells what is left")
def test_a_kernel_ends_with_an_interrupt(tmp_path: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir="/tmp"))  # sockets have short names
    (tmp_path / "nb.ipynb").write_text(book("open('begun', 'w').close()\nwhile True: pass"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    command = [sys.executable, "-m", "autofix", "run", "nb.ipynb"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while not list(scratch.glob("autofix-*/tree/*/begun")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode not in (0, 1)
    assert not list(scratch.iterdir())
    scratch.rmdir()
    assert until(lambda: not list(processes(f"TMPDIR={scratch}")))


def test_a_folder_with_a_long_name_has_no_room_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    record = execute(tmp_path, book("x = 1"))
    assert record.outcome is Outcome.NOT_STARTED and "TMPDIR names another" in str(record.error)


def test_a_notebook_is_judged_against_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    loop = """\
for step in range(3):
    kept.append(net(torch.ones(2)))
    loss = sum(kept).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    Path("nb.ipynb").write_text(book(TRAINING, loop))
    Path("fixed.py").write_text(f"{TRAINING}\n{loop.replace('sum(kept)', 'kept[-1]')}")
    assert main(["prove", "nb.ipynb", "fixed.py"]) == 0
    out = capsys.readouterr().out
    assert "passed      cell 2, line 5: RuntimeError: Trying to" in out and "Proved: the patched script trains" in out


def test_the_package_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    (tmp_path / "nb.ipynb").write_text(book("x = 1"))
    found = invocation([str(tmp_path / "nb.ipynb")], python=str(python))
    assert (found.lacking, found.script.way, found.script.start) == ("ipykernel", Way.FILE, tmp_path)
    tell_of_kernel(found)
    assert capsys.readouterr().err.endswith(f": ipykernel is not installed (pip install ipykernel, for {python})\n")
