"""The reference repairs of some fixtures, proved as patches by hand, of which nothing is promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofix.proof.changed import watched
from autofix.proof.promises import Promises
from autofix.proof.prove import Limits, Original, Script, prove

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.mark.parametrize(
    "name",
    [
        "retain_shared_scaled_optimizer",  # the network takes over the rounding of its optimizer's copies
        "restart_adapted_ordered_dict",  # what was computed before the failure began with other weights
        "modernize_legacy_trainer_totals",  # a total becomes a number of Python's
        "guard_leaf_soft_prompt",  # the original changes a parameter beside its optimizer, by mistake
    ],
)
def test_the_reference_repair_is_proved(name: str) -> None:
    broken, fixed = ((FIXTURES / name / f"{kind}.py").read_text("utf-8") for kind in ("broken", "fixed"))
    path = FIXTURES / name / "broken.py"
    before, after = watched(Script(path, text=broken), Script(path, text=fixed))
    certificate = prove(Original(before, Limits(timeout=120)), after, Promises(by_hand=True))
    assert certificate.proved, [point.detail for point in certificate.points]
