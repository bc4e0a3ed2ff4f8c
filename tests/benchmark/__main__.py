"""``make benchmark``: the fixtures, or another folder of cases, given to autofix, TorchFix and PyTorch's anomaly mode.

Prints for each contender, by kind of mistake and in total: how many broken scripts there are; in how many something was
found; in how many it named a line that the reference's repair changes; how many it repaired exactly as the reference
does, differently but proved by execution, with a patch that no run could judge (open), with a patch that the proof
refuses (wrong); and how many look-alikes there are, in how many it reported something (alarms), how many it changed
(harmed).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path

from autofix.checking import cpu_count
from tests.benchmark.cases import Case, load
from tests.benchmark.contenders import Contender, anomaly, check, run_alone, run_with_both, torchfix
from tests.benchmark.score import Alarm, Repaired, Row, Score, total

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONTENDERS: Mapping[str, Contender] = {
    "check": check,
    "run": run_with_both,
    "run --no-static": run_alone,
    "detect_anomaly": anomaly,
}
Scores = dict[str, dict[str, Score]]
"""Scores by contender, then by case."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FIXTURES, help="the cases [default: fixtures]")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="cases whose names begin so")
    parser.add_argument("--contenders", nargs="*", choices=[*CONTENDERS, "torchfix"], metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every score there")
    parser.add_argument(
        "--jobs", type=int, default=cpu_count(), metavar="N", help="cases at a time [default: %(default)s]"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="name the cases that were missed")
    options = parser.parse_args()
    cases = load(options.folder.resolve())
    if options.only:
        cases = [case for case in cases if case.name.startswith(tuple(options.only))]
    started = time.perf_counter()
    scores = score_all(cases, options.contenders or [*CONTENDERS, "torchfix"], options.jobs)
    for line in report(cases, scores, verbose=options.verbose):
        print(line)
    print(f"\n{len(cases)} cases in {time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(document(cases, scores), indent=1) + "\n", encoding="utf-8")
    return 0


def score_all(cases: Sequence[Case], contenders: Sequence[str], jobs: int) -> Scores:
    """Give every case to every contender."""
    scores: Scores = {}
    # Each worker is a process of its own, with a warm interpreter of its own, since one of these serves one caller.
    with ProcessPoolExecutor(max(1, min(jobs, len(cases)))) as pool:
        for name in contenders:
            began = time.perf_counter()
            if name == "torchfix":
                scores[name] = torchfix(list(cases))
            else:
                scored = pool.map(CONTENDERS[name], cases)
                scores[name] = {case.name: score for case, score in zip(cases, scored, strict=True)}
            print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return scores


def report(cases: Sequence[Case], scores: Scores, *, verbose: bool) -> Iterator[str]:
    kinds = sorted({case.kind for case in cases})
    columns = [field.name for field in fields(Row)]
    width = max(len(name) for name in [*kinds, "in total", *scores])
    for contender, known in scores.items():
        yield ""
        yield f"{contender:<{width}}" + "".join(f"{name:>12}" for name in columns)
        for kind in [*kinds, ""]:
            these = [case for case in cases if case.name in known and kind in ("", case.kind)]
            row = total(
                (known[case.name] for case in these),
                broken=sum(case.broken is not None for case in these),
                clean=sum(case.clean is not None for case in these),
            )
            figures = "".join(f"{figure:>12}" for figure in asdict(row).values())
            yield f"{kind or 'in total':<{width}}{figures}"
        if verbose and contender not in ("torchfix", "detect_anomaly"):
            yield from missed(cases, known)


def missed(cases: Sequence[Case], known: Mapping[str, Score]) -> Iterator[str]:
    """Name the cases that did not go as they should, and how."""
    for case in cases:
        score = known[case.name]
        told = []
        if case.broken is not None:
            if not score.cause:
                told.append("another line" if score.found else "not found")
            if score.repaired not in (Repaired.EXACTLY, Repaired.DIFFERENTLY):
                told.append(score.repaired.value)
        if score.alarm is not Alarm.NONE:
            told.append(f"look-alike {score.alarm.value}")
        if told:
            yield f"  {case.name}: {', '.join(told)}{': ' + score.detail if score.detail else ''}"


def document(cases: Sequence[Case], scores: Scores) -> dict[str, object]:
    kinds = {case.name: case.kind for case in cases}
    return {
        "version": 1,
        "cases": len(cases),
        "scores": {
            contender: {name: {"kind": kinds[name], **asdict(score)} for name, score in known.items()}
            for contender, known in scores.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
