"""Repairs, held against the intended scripts: a repaired script trains as the right one does."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
import torch

from autofix.engine import analyse
from tests.training_programs import FAMILIES, Writer

SEEDS = range(8)


def trained(text: str) -> torch.Tensor:
    """All parameters of a script after its last step, in one row.  Raises the errors of the script."""
    names: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "train.py", "exec"), names)
    final = names["FINAL"]
    assert isinstance(final, list)
    return torch.cat([parameter.detach().flatten() for parameter in final])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_repaired_script_trains_as_it_was_meant(family: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        broken, meant = Writer(seed, family).scripts()
        assert analyse(meant, "train.py").findings == ()
        analysis = analyse(broken, "train.py")
        if not analysis.changes:
            trained(broken)  # a mistake that this shape forgives
            continue
        assert torch.allclose(trained(analysis.patched), trained(meant), atol=1e-5), analysis.patched
        outcomes["repaired"] += 1
    torch.set_num_threads(threads)
    assert outcomes["repaired"] > len(SEEDS) // 2
