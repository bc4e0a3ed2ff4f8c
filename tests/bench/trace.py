"""A training step of a small network under the run witness, and under PyTorch's own anomaly mode."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from autofix.child.job import Bounds
from autofix.execution.runner import Limits, Script
from autofix.execution.runner import run as run_child
from tests.bench.timing import Comparison, run, turn_by_turn

STEP = """\
import statistics
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
torch.autograd.set_detect_anomaly("anomaly" in sys.argv, check_nan=True)
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(64, 32), torch.randint(10, (64,))
taken = []
for step in range(600):
    began = time.perf_counter()
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    taken.append(time.perf_counter() - began)
print("MEDIAN", 1000 * statistics.median(taken[100:]))
"""


def compare(rounds: int) -> Comparison:
    """Raises :class:`RuntimeError` where a run comes to no end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.py"
        path.write_text(STEP)

        def alone(*arguments: str) -> float:
            return median_in(run([sys.executable, "-W", "ignore", str(path), *arguments], folder, (0,)).stdout)

        def traced() -> float:
            return median_in(run_child(Script(path), Limits(), Bounds(trace=True)).output)

        programs = {"plain": alone, "under the run witness": traced, "under anomaly mode": lambda: alone("anomaly")}
        medians = turn_by_turn(rounds, programs, "ms a step")
    ratio = medians["under the run witness"] / medians["under anomaly mode"]
    return Comparison("run witness / anomaly mode", ratio, most=1.0)


def median_in(output: str) -> float:
    for line in output.splitlines():
        if line.startswith("MEDIAN "):
            return float(line.split()[1])
    raise RuntimeError(f"the run came to no end: {output[-2000:]}")
