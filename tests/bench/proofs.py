"""Cost of execution: one repair against one plain run, and all proofs against an interpreter for each run."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from autofix.checking import Options, Problem, check_path
from autofix.execution.runner import run
from autofix.proof.promises import Promises
from autofix.proof.prove import Limits, Original, Script, prove
from autofix.repair import promises
from tests.bench.timing import ROOT, Comparison, seconds, turn_by_turn

FIXTURES = sorted((ROOT / "fixtures").iterdir())
SAMPLE = 8
"""Fixtures on which the peer is measured: on all of them it would take a quarter of an hour."""


def compare_run(rounds: int) -> Comparison:
    script = ROOT / "fixtures" / "detach_stored" / "broken.py"
    autofix = [sys.executable, "-m", "autofix", "run", str(script)]
    programs = {
        "autofix run SCRIPT": lambda: seconds(autofix, script.parent, (0,)),
        "python SCRIPT": lambda: seconds([sys.executable, str(script)], script.parent, (1,)),
    }
    medians = turn_by_turn(rounds, programs)
    return Comparison("autofix run / python", medians["autofix run SCRIPT"] / medians["python SCRIPT"], most=1.3)


def compare_fixtures() -> Comparison:
    """Raises :class:`RuntimeError` where a fixture is not proved."""
    fixtures = [path for path in FIXTURES if path.is_dir()]
    granted = [promised_for(scripts_of(path)[0]) for path in fixtures]
    run(scripts_of(fixtures[0])[0], Limits())  # the server imports torch once, before the clock starts
    began = time.perf_counter()
    runs = sum(map(runs_of_proof, fixtures, granted))
    warm = time.perf_counter() - began
    print(f"{len(fixtures)} fixtures proved from the warm server: {runs} runs in {warm:.1f} s", flush=True)
    sample = fixtures[:: -(-len(fixtures) // SAMPLE)]
    pairs = [(broken.path, fixed) for broken, _, fixed in map(scripts_of, sample)]
    plain = [plain_run(script) for pair in pairs for script in pair]
    peer = runs * statistics.mean(plain)
    print(
        f"python SCRIPT takes {statistics.mean(plain):.2f} s on average, measured on {len(plain)} of them; "
        f"extrapolated to {runs} runs: {peer:.0f} s"
    )
    return Comparison("python for each run / warm server", peer / warm, least=15.0)


def scripts_of(fixture: Path) -> tuple[Script, Script, Path]:
    """The broken script, the fixed one in its place, and where that lies; a fixture is two files or two folders."""
    about = json.loads((fixture / "about.json").read_text()) if (fixture / "about.json").exists() else {}
    broken = fixture / about.get("entry", "broken.py")
    folder = fixture / "fixed" if broken.parent != fixture else None
    if folder is None:
        fixed, others = fixture / "fixed.py", []
    else:
        fixed = folder / broken.relative_to(fixture / "broken")
        others = [path for path in folder.rglob("*.py") if path != fixed]
    texts = tuple((path.relative_to(fixed.parent).as_posix(), text_of(path)) for path in others)
    return Script(broken), Script(broken, text_of(fixed), others=texts), fixed


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


def promised_for(broken: Script) -> Promises:
    """Promises of the patch of *broken*, beyond those of every patch, as ``autofix check`` reads it."""
    read = check_path(broken.path, Options(unsafe=True))
    if isinstance(read, Problem):
        raise RuntimeError(str(read))
    return promises(read.analysis)


def runs_of_proof(fixture: Path, granted: Promises) -> int:
    """Prove one fixture, and return how many runs that took: the original, the reference, and the patched script."""
    broken, fixed, _ = scripts_of(fixture)
    certificate = prove(Original(broken, Limits()), fixed, granted)
    if not certificate.proved:
        raise RuntimeError(f"{fixture.name} is not proved: {certificate.points}")
    return 2 + (certificate.reference is not None)


def plain_run(script: Path) -> float:
    return seconds([sys.executable, "-W", "ignore", str(script)], script.parent)
