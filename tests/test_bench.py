"""The benchmark's files and programs must be as they are described, or its figures mean nothing."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from autofix.engine import analyse
from tests.bench import growth, scripts, trace
from tests.bench.generate import file_text
from tests.bench.timing import Comparison, turn_by_turn


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


@pytest.mark.parametrize("name", scripts.scripts())
def test_training_scripts_parse_and_have_the_length_of_real_ones(name: str) -> None:
    text = scripts.scripts()[name]
    ast.parse(text)
    assert 150 <= text.count("\n") <= 600


def test_a_training_script_of_the_benchmark_is_right_and_is_followed() -> None:
    analysis = analyse(scripts.scripts()["distillation"], "a.py")
    assert (analysis.findings, analysis.complete, len(analysis.passes), analysis.missed) == ((), True, 2, {})


def test_growing_folders_hold_files_that_train(tmp_path: Path) -> None:
    growth.write(tmp_path, 45)
    texts = [path.read_text() for path in sorted(tmp_path.rglob("*.py"))]
    assert len(texts) == 45
    assert sum("backward()" in text for text in texts) == 3
    for text in texts:
        ast.parse(text)


def test_programs_are_timed_turn_by_turn(capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []

    def program(name: str, times: list[float]) -> float:
        order.append(name)
        return times.pop()

    ours, theirs = [3.0, 1.0, 2.0], [9.0, 4.0, 5.0]
    medians = turn_by_turn(3, {"ours": lambda: program("ours", ours), "theirs": lambda: program("theirs", theirs)})
    assert order == ["ours", "theirs"] * 3
    assert medians == {"ours": 2.0, "theirs": 5.0}
    assert "median:  theirs                      5.000 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ratio", "least", "most", "told"),
    [
        (2.5, 2.0, None, "a / b = 2.50 (at least 2: holds)"),
        (1.5, 2.0, None, "a / b = 1.50 (at least 2: DOES NOT HOLD)"),
        (0.9, None, 1.0, "a / b = 0.90 (at most 1: holds)"),
        (1.1, None, 1.0, "a / b = 1.10 (at most 1: DOES NOT HOLD)"),
    ],
)
def test_a_ratio_says_whether_it_holds(ratio: float, least: float | None, most: float | None, told: str) -> None:
    comparison = Comparison("a / b", ratio, least, most)
    assert str(comparison) == f"ratio:   {told}"
    assert comparison.holds is ("NOT" not in told)


def test_a_run_that_comes_to_no_end_is_no_figure() -> None:
    assert trace.median_in("noise\nMEDIAN 0.5\n") == 0.5
    with pytest.raises(RuntimeError, match="came to no end: Traceback"):
        trace.median_in("Traceback")
