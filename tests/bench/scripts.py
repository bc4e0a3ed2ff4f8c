"""``autofix check`` on training scripts as people write them, in one warm process: milliseconds of computing each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from autofix.checking import Options, Problem, check_file
from autofix.project.files import SourceFile
from tests.bench.timing import Comparison
from tests.bench.training import bodies
from tests.bench.training.head import HEAD, MORE, TAIL

BODIES = {
    "classifier": bodies.CLASSIFIER,
    "gan": bodies.GAN,
    "ppo": bodies.PPO,
    "dqn": bodies.DQN,
    "language model": bodies.LANGUAGE,
    "vae": bodies.VAE,
    "seq2seq": bodies.SEQ2SEQ,
    "contrastive": bodies.CONTRASTIVE,
    "distillation": bodies.DISTILLATION,
    "diffusion": bodies.DIFFUSION,
}
MEDIAN, WORST = 0.050, 0.500
"""Seconds that a script may take."""


def scripts() -> dict[str, str]:
    """Twenty scripts by name: each body with the common part, and with more of it."""
    found = {}
    for number, (name, body) in enumerate(BODIES.items()):
        head = HEAD.format(title=name, name=name.replace(" ", "_"), epochs=10 + number, batch=32, hidden=64 + number)
        found[name] = f"{head}{body}{TAIL}"
        found[f"{name}, long"] = f"{head}{MORE}{body}{TAIL}"
    return found


def of_400_lines() -> str:
    """One script with a model that it trains, and another that it only has."""
    head = HEAD.format(title="one of 400 lines", name="one", epochs=10, batch=32, hidden=64)
    models = bodies.CLASSIFIER.partition("def main")[0]
    return f"{head}{MORE}{models}{bodies.LANGUAGE}{TAIL}"


def compare(rounds: int) -> list[Comparison]:
    taken: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, text in scripts().items():
            # Another text each time: a memory of earlier texts must not help.
            spent = _seconds(f"{text}\n# {number}\n")
            if number:  # the first round warms up
                taken.setdefault(name, []).append(spent)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, median in sorted(medians.items(), key=lambda one: one[1]):
        print(f"{name:<24}{1000 * median:8.1f} ms", flush=True)
    return [
        Comparison("20 scripts: median / 50 ms", statistics.median(medians.values()) / MEDIAN, most=1.0),
        Comparison("20 scripts: slowest / 500 ms", max(medians.values()) / WORST, most=1.0),
    ]


def compare_warm(rounds: int) -> Comparison:
    """One script whose last line is edited again and again."""
    text = of_400_lines()
    values = [_seconds(f"{text}\n# edit {number}\n") for number in range(2 * rounds + 1)][1:]
    median = statistics.median(values)
    print(f"{text.count(chr(10))} lines: {1000 * median:.1f} ms", flush=True)
    return Comparison("one script of 400 lines / 50 ms", median / MEDIAN, most=1.0)


def _seconds(text: str) -> float:
    """The computing time of one check.  Raises :class:`RuntimeError` where anything is found: the scripts are right."""
    file = SourceFile("train.py", text.encode(), text, "utf-8")
    started = time.process_time()
    outcome = check_file(Path("train.py"), file, Options(), alone=True)
    spent = time.process_time() - started
    wrong = [str(outcome)] if isinstance(outcome, Problem) else list(_messages(outcome.analysis.findings))
    if wrong:
        raise RuntimeError(f"found in a script that is right: {wrong}")
    return spent


def _messages(findings: tuple[object, ...]) -> Iterator[str]:
    yield from map(str, findings)
