"""The benchmark's files must be what they are said to be, or its figures mean nothing."""

from __future__ import annotations

import ast
import random

import pytest

from autofix.engine import analyse
from tests.bench.generate import file_text


@pytest.mark.parametrize("seed", range(3))
def test_generated_files_parse_and_have_the_length_that_was_asked_for(seed: int) -> None:
    text = file_text(random.Random(seed), 1000, with_mistake=False)
    ast.parse(text)
    assert text.count("\n") == 1000


@pytest.mark.parametrize("with_mistake", [False, True], ids=["clean", "mistaken"])
def test_generated_files_hold_just_the_mistake_that_they_should(with_mistake: bool) -> None:
    text = file_text(random.Random(1), 300, with_mistake=with_mistake)
    found = analyse(text, "a.py").findings
    assert [finding.code for finding in found] == ["AF101"] * with_mistake
