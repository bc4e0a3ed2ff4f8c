"""``make corpus``: reads published packages with ``autofix check``, prints every finding and how many there are.

The packages work, so a finding is a true mistake in a published package or a bug of autofix; each wants to be read.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from autofix import checking as checker
from autofix.checking import Problem
from autofix.engine import Finding
from tests.corpus.fetch import FetchError, fetch, packages

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reading:
    """One file: its lines, the seconds that it took, and its findings, or the problem why it could not be read."""

    package: str
    path: Path
    lines: int
    seconds: float
    findings: tuple[Finding, ...] = ()
    problem: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".corpus", help="where the packages are kept")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these packages")
    parser.add_argument("--slowest", type=int, default=5, metavar="N", help="name so many files that took longest")
    options = parser.parse_args()
    asked = [one for one in packages() if not options.only or one.partition("==")[0] in options.only]
    files: list[tuple[str, Path]] = []
    missing = 0
    for package in asked:
        try:
            folder = fetch(package, options.folder)
        except FetchError as error:
            print(f"not fetched: {error}", file=sys.stderr)
            missing += 1
        else:
            files += [(package, path) for path in sorted(folder.rglob("*.py"))]
    started = time.perf_counter()
    readings: list[Reading] = []
    for reading in read_all(files):
        if readings and reading.package != readings[-1].package:
            print(f"{time.perf_counter() - started:6.0f} s: read {readings[-1].package}", file=sys.stderr, flush=True)
        readings.append(reading)
        tell(reading, options.folder)
    seconds = time.perf_counter() - started
    print()
    for line in table(readings, seconds):
        print(line)
    for reading in sorted(readings, key=lambda reading: -reading.seconds)[: options.slowest]:
        name = reading.path.relative_to(options.folder)
        print(f"{reading.seconds:6.1f} s  {reading.lines:6} lines  {name}")
    return 1 if missing or any("internal error" in reading.problem for reading in readings) else 0


def read_all(files: Sequence[tuple[str, Path]]) -> Iterator[Reading]:
    """Read all *files*, one process for each processor, and yield them in their order."""
    context = get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(checker.cpu_count(), mp_context=context) as pool:
        yield from pool.map(read, files, chunksize=4)


def read(asked: tuple[str, Path]) -> Reading:
    package, path = asked
    lines = path.read_bytes().count(b"\n")
    started = time.perf_counter()
    outcome = checker.check_path(path, from_root=True)
    seconds = time.perf_counter() - started
    if isinstance(outcome, Problem):
        return Reading(package, path, lines, seconds, problem=str(outcome))
    return Reading(package, path, lines, seconds, outcome.analysis.findings)


def tell(reading: Reading, folder: Path) -> None:
    """Print the findings in one file, each with its story, one place to a line."""
    if "internal error" in reading.problem:
        print(reading.problem)
    for finding in reading.findings:
        print(f"{place(finding.cause.path, folder)}:{finding.cause.line}: {finding.code} {finding.certainty.value}")
        print(f"    {finding.message}; {finding.remedy or 'no repair'}")
        for role in finding.roles():
            path = place(role.span.path, folder)
            print(f"    {path}:{role.span.line}: {role.phrase}: {excerpt(role.span.path, role.span.line)}", flush=True)


def place(path: str, folder: Path) -> str:
    found = Path(path)
    return str(found.relative_to(folder.resolve()) if found.is_relative_to(folder.resolve()) else found)


def excerpt(path: str, line: int) -> str:
    """Return a line of a file, without its indentation."""
    text = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    return text[line - 1].strip() if line <= len(text) else ""


def table(readings: Sequence[Reading], seconds: float) -> Iterator[str]:
    """Yield the figures: a line for each package, and the sum.

    A finding in a file that several scripts import is found once for each of them, and counted once.
    """
    yield f"{'package':<44}{'files':>7}{'lines':>10}{'findings':>10}{'per 100,000 lines':>19}"
    every: Counter[str] = Counter()
    for package, group in groupby(readings, key=lambda reading: reading.package):
        figures = count(list(group))
        every.update(figures)
        yield row(package, figures)
    yield row("all", every)
    unread = sum(bool(reading.problem) for reading in readings)
    yield f"{seconds:.0f} s with {checker.cpu_count()} processors; {unread} files could not be read"


def count(readings: Sequence[Reading]) -> Counter[str]:
    different = {(finding.code, finding.cause) for reading in readings for finding in reading.findings}
    return Counter(files=len(readings), lines=sum(reading.lines for reading in readings), findings=len(different))


def row(name: str, figures: Counter[str]) -> str:
    rate = 100_000 * figures["findings"] / max(figures["lines"], 1)
    return f"{name:<44}{figures['files']:>7}{figures['lines']:>10}{figures['findings']:>10}{rate:>19.2f}"


if __name__ == "__main__":
    sys.exit(main())
