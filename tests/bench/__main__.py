"""``make bench``: times ``autofix check`` and TorchFix on one generated folder, turn by turn, and prints the ratio."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.generate import write_folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    scripts = Path(sys.executable).parent
    commands = {
        "autofix check": [sys.executable, "-m", "autofix", "check", "--quiet", "."],
        "torchfix": [shutil.which("torchfix", path=str(scripts)) or "torchfix", "."],
    }
    with tempfile.TemporaryDirectory() as folder:
        wrong = write_folder(Path(folder), options.files, options.lines)
        print(f"{options.files} files of {options.lines} lines, {wrong} with a mistake; {machine()}")
        found = files_found(commands["autofix check"], folder)
        print(f"autofix check finds mistakes in {found} files")
        if found != wrong:
            print(f"expected {wrong}", file=sys.stderr)
            return 1
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(options.rounds):
            for name, command in commands.items():
                times[name].append(seconds(command, folder))
                print(f"round {number + 1}: {name:<14} {times[name][-1]:7.2f} s", flush=True)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    for name, median in medians.items():
        print(f"median:  {name:<14} {median:7.2f} s  ({1000 * median / options.files:.1f} ms a file)")
    print(f"ratio:   torchfix / autofix check = {medians['torchfix'] / medians['autofix check']:.2f}")
    return 0


def files_found(command: list[str], folder: str) -> int:
    done = run([*command, "--output-format", "json"], folder)
    return len({role["file"] for finding in json.loads(done.stdout)["findings"] for role in finding["roles"]})


def seconds(command: list[str], folder: str) -> float:
    started = time.perf_counter()
    run(command, folder)
    return time.perf_counter() - started


def run(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run *command* in *folder*.  Raises :class:`RuntimeError` where it ends with neither 0 nor 1."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def machine() -> str:
    return f"{os.cpu_count()} processors, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
