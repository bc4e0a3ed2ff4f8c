"""Whole training scripts: every right patch is proved, every tempting wrong one refused.

A twelfth of them, and the first right and the first wrong patch of a sixth of the scripts: see
:mod:`tests.sampling`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from autofix.child.recorded import GRAPHLESS
from autofix.proof.changed import watched
from autofix.proof.promises import Promises
from autofix.proof.prove import Limits, Original, Script, prove
from tests import folk_cases, objective_cases, proof_cases, store_cases, together_cases, unkept_cases
from tests.proof_cases import Case, Patch
from tests.sampling import sampled

CASES = (
    *proof_cases.CASES,
    *folk_cases.CASES,
    *store_cases.CASES,
    *together_cases.CASES,
    *objective_cases.CASES,
    *unkept_cases.CASES,
)
LIMITS = Limits(timeout=60)
PATH = Path(__file__).parent / "no_such_folder" / "train.py"


@cache
def original_of(case: Case) -> Original:
    return Original(Script(PATH, text=case.script), LIMITS)


def patches_of(case: Case) -> Iterator[Patch]:
    """The patches of *case* that are judged."""
    first = {patch.right: patch for patch in reversed(case.patches)}.values() if sampled(case.name, 6) else ()
    yield from (patch for patch in case.patches if patch in first or sampled(f"{case.name}: {patch.what}", 12))


@pytest.mark.parametrize(
    ("case", "patch"),
    [pytest.param(case, patch, id=f"{case.name}: {patch.what}") for case in CASES for patch in patches_of(case)],
)
def test_patch_is_judged(case: Case, patch: Patch) -> None:
    fixed = case.script
    for old, new in patch.edits:
        assert old in fixed
        fixed = fixed.replace(old, new)
    original = original_of(case)
    before, patched = watched(original.script, Script(PATH, text=fixed))
    failure = original.before.failure
    if failure is None or GRAPHLESS in failure.error.message:
        original = Original(before, LIMITS)  # whose references depend on the patch
    certificate = prove(original, patched, Promises(own=frozenset(case.own), by_hand=True))
    story = "\n".join(f"{point.number} {point.name}: {point.verdict} - {point.detail}" for point in certificate.points)
    assert failure is None or original.reference is not None
    runs = (original.before, original.reference, certificate.after)
    assert not [mistake for run in runs if run is not None for mistake in run.mistakes]
    assert certificate.proved == patch.right, story
    number, reason = patch.reason
    assert not number or reason in certificate.points[number - 1].detail, story
