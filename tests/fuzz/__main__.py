"""``python -m tests.fuzz [--seconds N] [--seed N] [--one NUMBER MUTATIONS]``: look for a file that breaks a property.

Every failure is printed with the number of its source and its mutations, as few as still show it.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import time
from collections.abc import Sequence

from autofix import budget
from tests.fuzz.mutants import MUTATIONS, Mutation, mutant
from tests.fuzz.properties import hold

BUDGET = 60.0
"""Seconds of computing for one file."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--one", nargs=2, metavar=("NUMBER", "MUTATIONS"))
    asked = parser.parse_args()
    budget.SECONDS = BUDGET
    if asked.one:
        number, mutations = int(asked.one[0]), ast.literal_eval(asked.one[1])
        sys.stdout.write(f"{mutant(number, mutations)!r}\n{failure(number, mutations)}\n")
        return 0
    seed = random.SystemRandom().randrange(2**32) if asked.seed is None else asked.seed
    return search(seed, time.monotonic() + asked.seconds)


def search(seed: int, deadline: float) -> int:
    """Try mutants until the time is over; the exit code is 1 where one of them fails."""
    chance = random.Random(seed)
    tried, patched, slowest = 0, 0, 0.0
    told: set[str] = set()
    while time.monotonic() < deadline:
        number = chance.randrange(10**6)
        mutations = [(chance.choice(list(MUTATIONS)), chance.randrange(10**6)) for _ in range(chance.randrange(5))]
        began = time.process_time()
        reason = failure(number, mutations)
        slowest = max(slowest, time.process_time() - began)
        tried += 1
        patched += reason is None
        if reason and _kind(reason) not in told:
            told.add(_kind(reason))
            mutations = fewest(number, mutations, _kind(reason))
            sys.stdout.write(f"python -m tests.fuzz --one {number} {str(mutations)!r}\n{reason}\n\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"seed {seed}: {tried} files, {patched} of them patched, {len(told)} faults, "
        f"at most {slowest:.1f} s of computing for one\n"
    )
    return 1 if told else 0


def failure(number: int, mutations: Sequence[Mutation]) -> str | None:
    """The property that a mutant breaks; None where it has a patch, and empty where there is nothing to patch."""
    try:
        return None if hold(mutant(number, mutations), unsafe=number % 2 == 0) else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _kind(reason: str) -> str:
    """A reason without the parts that differ from file to file: its first line and the last of its traceback."""
    lines = reason.strip().splitlines()
    return f"{lines[0]} | {lines[-1]}"


def fewest(number: int, mutations: list[Mutation], kind: str) -> list[Mutation]:
    """The mutations without which the fault is not seen."""
    for at in reversed(range(len(mutations))):
        fewer = mutations[:at] + mutations[at + 1 :]
        if (reason := failure(number, fewer)) and _kind(reason) == kind:
            mutations = fewer
    return mutations


if __name__ == "__main__":
    sys.exit(main())
