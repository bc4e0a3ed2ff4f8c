"""Growth of time and memory of ``autofix check`` with the number of files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil

from tests.bench.timing import ROOT, Comparison, children_cpu

SIZES = (500, 2000)
FULL_SIZES = (1_000, 10_000, 100_000)
MOST_MEMORY = 400
"""Megabytes, of all processes together."""

PLAIN = '''\
"""Settings and small functions of part {number}."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

LIMIT_{number} = {number}


@dataclass
class Part{number}:
    name: str = "part-{number}"
    size: int = {size}

    def describe(self) -> str:
        return f"{{self.name}}: {{self.size}}"

    def save(self, folder: str) -> None:
        with open(os.path.join(folder, self.name), "w") as file:
            json.dump({{"name": self.name, "size": self.size}}, file)


def total_{number}(values: list[int]) -> int:
    found = 0
    for value in values:
        if value < LIMIT_{number}:
            found += value
    return found
'''
TRAINS = """\
import torch
from torch import nn


class Net{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear({size}, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x)


def train(steps={size}):
    net = Net{number}()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        x = torch.randn(8, {size})
        loss = net(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    train()
"""
ONE_IN = 20
"""Number of files of which one trains a network."""


def write(folder: Path, count: int, seed: int = 0) -> None:
    """Write *count* small files, a hundred to a folder."""
    chance = random.Random(seed)
    for number in range(count):
        package = folder / f"package_{number // 100:04}"
        if number % 100 == 0:
            package.mkdir()
        form = TRAINS if number % ONE_IN == 0 else PLAIN
        (package / f"part_{number}.py").write_text(form.format(number=number, size=chance.randrange(4, 64)))


def compare(*, full: bool) -> list[Comparison]:
    seconds, peaks = [], []
    sizes = FULL_SIZES if full else SIZES
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), count)
            taken, peak = measured(folder)
        print(f"{count:>8} files: {taken:8.2f} CPU s, {1000 * taken / count:6.2f} ms each, {peak:5.0f} MB", flush=True)
        seconds.append(taken)
        peaks.append(peak)
    rate = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
    first = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0]) if len(sizes) > 2 else seconds[0] / sizes[0]
    return [
        Comparison("growth: time for one more file, at the end / at the beginning", rate / first, most=1.25),
        Comparison("growth: memory / 400 MB", max(peaks) / MOST_MEMORY, most=1.0),
    ]


def measured(folder: str) -> tuple[float, float]:
    """The CPU seconds of a check of *folder*, and the most megabytes that its processes had together."""
    command = [sys.executable, "-m", "autofix", "check", "--isolated", "--no-cache", "--quiet", folder]
    before = children_cpu()
    peak = 0.0
    done = threading.Event()
    program = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            try:
                first = psutil.Process(program.pid)
                # On Linux, memory that workers share with the process that they were forked from counts once.
                used = [process.memory_full_info() for process in (first, *first.children(recursive=True))]
                sizes = [getattr(one, "pss", one.rss) for one in used]
            except psutil.Error:
                continue
            peak = max(peak, sum(sizes) / 2**20)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = program.wait()
    done.set()
    watcher.join()
    if code != 0:
        raise RuntimeError(f"a check of {folder} ended with {code}")
    return children_cpu() - before, peak
