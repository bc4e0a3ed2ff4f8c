"""Whole training scripts: every right patch is proved, every tempting wrong one refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from autofix.prove import Limits, RunRecord, Script, prove, run_original, run_reference
from tests import folk_cases, proof_cases, store_cases
from tests.proof_cases import Case, Patch

CASES = (*proof_cases.CASES, *folk_cases.CASES, *store_cases.CASES)
LIMITS = Limits(timeout=60)
PATH = Path(__file__).parent / "no_such_folder" / "train.py"


@cache
def runs_of(case: Case) -> tuple[RunRecord, RunRecord]:
    original = Script(PATH, text=case.script)
    before = run_original(original, LIMITS)
    return before, run_reference(original, LIMITS, before)


@pytest.mark.parametrize(
    ("case", "patch"),
    [pytest.param(case, patch, id=f"{case.name}: {patch.what}") for case in CASES for patch in case.patches],
)
def test_patch_is_judged(case: Case, patch: Patch) -> None:
    fixed = case.script
    for old, new in patch.edits:
        assert old in fixed
        fixed = fixed.replace(old, new)
    before, reference = runs_of(case)
    certificate = prove(
        Script(PATH, text=case.script), Script(PATH, text=fixed), LIMITS, before=before, reference=reference
    )
    story = "\n".join(f"{point.number} {point.name}: {point.verdict} - {point.detail}" for point in certificate.points)
    assert not [mistake for run in (before, reference, certificate.after) for mistake in run.mistakes]
    assert certificate.proved == patch.right, story
    number, reason = patch.reason
    assert not number or reason in certificate.points[number - 1].detail, story
