"""What executing costs: one repair against one plain run, and all proofs against an interpreter for each run."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from autofix.prove import Limits, Script, prove, run_original
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
    fixtures = [path for path in FIXTURES if (path / "broken.py").is_file() and (path / "fixed.py").is_file()]
    run_original(Script(fixtures[0] / "broken.py"), Limits())  # the server imports torch once, before the clock starts
    began = time.perf_counter()
    runs = sum(runs_of_proof(path) for path in fixtures)
    warm = time.perf_counter() - began
    print(f"{len(fixtures)} fixtures proved from the warm server: {runs} runs in {warm:.1f} s", flush=True)
    sample = fixtures[:: -(-len(fixtures) // SAMPLE)]
    plain = [plain_run(path / name) for path in sample for name in ("broken.py", "fixed.py")]
    peer = runs * statistics.mean(plain)
    print(
        f"python SCRIPT takes {statistics.mean(plain):.2f} s on average, measured on {len(plain)} of them; "
        f"extrapolated to {runs} runs: {peer:.0f} s"
    )
    return Comparison("python for each run / warm server", peer / warm, least=15.0)


def runs_of_proof(fixture: Path) -> int:
    """Prove one fixture, and return how many runs that took: the original, the reference, and the patched script."""
    broken, fixed = fixture / "broken.py", (fixture / "fixed.py").read_bytes().decode()
    certificate = prove(Script(broken), Script(broken, fixed), Limits())
    if not certificate.proved:
        raise RuntimeError(f"{fixture.name} is not proved")
    return 2 + (certificate.reference is not None)


def plain_run(script: Path) -> float:
    return seconds([sys.executable, "-W", "ignore", str(script)], script.parent)
