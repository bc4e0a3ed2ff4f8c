"""``autofix check`` and TorchFix on one generated folder."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.generate import write_folder
from tests.bench.timing import Comparison, run, seconds, turn_by_turn


def compare(files: int, lines: int, rounds: int) -> Comparison:
    """Raises :class:`RuntimeError` where autofix does not find just the mistakes that were put in."""
    torchfix = shutil.which("torchfix", path=str(Path(sys.executable).parent)) or "torchfix"
    autofix = [sys.executable, "-m", "autofix", "check", "--quiet", "."]
    with tempfile.TemporaryDirectory() as folder:
        wrong = write_folder(Path(folder), files, lines)
        print(f"{files} files of {lines} lines, {wrong} with a mistake")
        found = files_found(autofix, folder)
        if found != wrong:
            raise RuntimeError(f"autofix check finds mistakes in {found} files, and there are {wrong}")
        programs = {
            "autofix check": lambda: seconds(autofix, folder),
            "torchfix": lambda: seconds([torchfix, "."], folder),
        }
        medians = turn_by_turn(rounds, programs)
    return Comparison("torchfix / autofix check", medians["torchfix"] / medians["autofix check"], least=1.0)


def files_found(command: list[str], folder: str) -> int:
    done = run([*command, "--output-format", "json"], folder)
    return len({role["file"] for finding in json.loads(done.stdout)["findings"] for role in finding["roles"]})
