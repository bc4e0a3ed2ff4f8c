"""``autofix check`` on published packages, cold and from its cache, next to ruff and TorchFix: CPU seconds."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.timing import ROOT, Comparison, cpu_seconds, turn_by_turn
from tests.corpus.fetch import FetchError, fetch, packages

FEW = ("captum", "gpytorch", "torch-optimizer")
"""The packages of a run that is not full."""
AT_LEAST = 4000
"""Files of a full run."""
SAMPLE = 100
"""Files that TorchFix is given, evenly spread: it takes much longer."""


def compare(rounds: int, *, full: bool) -> list[Comparison]:
    """Raises :class:`RuntimeError` where no package can be fetched."""
    folders = list(_folders(ROOT / ".corpus", full=full))
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    if not files:
        raise RuntimeError("no package could be fetched")
    print(f"{len(folders)} packages, {len(files)} files")
    bin_ = Path(sys.executable).parent
    ruff, torchfix = (shutil.which(name, path=str(bin_)) or name for name in ("ruff", "torchfix"))
    autofix = [sys.executable, "-m", "autofix", "check", "--isolated", "--quiet"]
    with tempfile.TemporaryDirectory() as scratch:
        own, theirs = Path(scratch, "autofix"), Path(scratch, "ruff")
        sample = Path(scratch, "sample")
        for number, file in enumerate(files[:: max(1, len(files) // SAMPLE)]):
            (sample / f"{number:03}").mkdir(parents=True)
            shutil.copy(file, sample / f"{number:03}" / file.name)
        named = [str(folder) for folder in folders]
        from_cache = [*autofix, "--cache-dir", str(own), *named]
        defaults = [ruff, "check", "--isolated", "--quiet", "--cache-dir", str(theirs), *named]
        for command in (from_cache, defaults):
            cpu_seconds(command, scratch)
        programs = {
            "autofix, cold": lambda: cpu_seconds([*autofix, "--no-cache", *named], scratch),
            "ruff, all rules, cold": lambda: cpu_seconds(
                [ruff, "check", "--isolated", "--quiet", "--select", "ALL", "--no-cache", *named], scratch
            ),
            "autofix, from the cache": lambda: cpu_seconds(from_cache, scratch),
            "ruff, from the cache": lambda: cpu_seconds(defaults, scratch),
            "autofix, sample, cold": lambda: cpu_seconds([*autofix, "--no-cache", str(sample)], scratch),
            "torchfix, sample": lambda: cpu_seconds([torchfix, str(sample)], scratch),
        }
        medians = turn_by_turn(rounds, programs)
    return [
        Comparison("cold: autofix / ruff", medians["autofix, cold"] / medians["ruff, all rules, cold"], most=1.0),
        Comparison(
            "from the cache: autofix / ruff",
            medians["autofix, from the cache"] / medians["ruff, from the cache"],
            most=1.0,
        ),
        Comparison(
            "sample: autofix / torchfix", medians["autofix, sample, cold"] / medians["torchfix, sample"], most=1.0
        ),
    ]


def _folders(place: Path, *, full: bool) -> list[Path]:
    """The folders of the packages, fetched where they are missing; of all, as many as have enough files together."""
    found: list[Path] = []
    files = 0
    for package in packages():
        if not full and package.partition("==")[0] not in FEW:
            continue
        try:
            folder = fetch(package, place)
        except FetchError as error:
            print(f"not fetched: {error}", file=sys.stderr)
            continue
        found.append(folder)
        files += sum(name.endswith(".py") for _, _, names in os.walk(folder) for name in names)
        if files >= AT_LEAST:
            break
    return found
