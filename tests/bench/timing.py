"""Measures programs turn by turn, so that a slower machine slows all of them, and compares the medians."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Comparison:
    """A ratio and its bound: at least ``least``, or at most ``most``."""

    what: str
    ratio: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        return (self.least is None or self.ratio >= self.least) and (self.most is None or self.ratio <= self.most)

    def __str__(self) -> str:
        aim = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return f"ratio:   {self.what} = {self.ratio:.2f} ({aim}: {'holds' if self.holds else 'DOES NOT HOLD'})"


def turn_by_turn(rounds: int, programs: Mapping[str, Callable[[], float]], unit: str = "s") -> dict[str, float]:
    """Call each of *programs* once a round, print their results, and return the medians."""
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds):
        for name, program in programs.items():
            taken[name].append(program())
            print(f"round {number + 1}: {name:<24} {taken[name][-1]:8.3f} {unit}", flush=True)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, median in medians.items():
        print(f"median:  {name:<24} {median:8.3f} {unit}", flush=True)
    return medians


def seconds(command: Sequence[str], folder: str | Path, expected: Sequence[int] = (0, 1)) -> float:
    started = time.perf_counter()
    run(command, folder, expected)
    return time.perf_counter() - started


def cpu_seconds(command: Sequence[str], folder: str | Path, expected: Sequence[int] = (0, 1)) -> float:
    """User and system seconds of *command* and of the processes that it has waited for."""
    before = children_cpu()
    run(command, folder, expected)
    return children_cpu() - before


def children_cpu() -> float:
    """User and system seconds of all processes that this one has waited for."""
    import resource  # not on Windows

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(
    command: Sequence[str], folder: str | Path, expected: Sequence[int] = (0, 1)
) -> subprocess.CompletedProcess[str]:
    """Run *command* in *folder*.  Raises :class:`RuntimeError` where it ends with none of the *expected* codes."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in expected:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done
