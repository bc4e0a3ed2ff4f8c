"""The tape and the repairs, held against PyTorch's verdict on random programs."""

from __future__ import annotations

import warnings

import pytest
import torch

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import LeafChanged, Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program
from autofix.engine import analyse
from tests.random_programs import Writer

SEEDS = range(600)
SAYS = {"second time": StaleGraph, "modified by an inplace": Overwritten, "a leaf Variable": LeafChanged}
"""Pieces of PyTorch's messages, and the kind of fact that is to be found for each."""


def failure(text: str) -> str:
    """The first line of PyTorch's error on a program; empty if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
        except RuntimeError as error:
            return str(error).partition("\n")[0]
    return ""


def told(text: str) -> set[type[Fact]]:
    return {type(fact) for fact in analyze(Program.of(text, "program.py")).facts if not isinstance(fact, GraphHeld)}


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    """Programs, each with PyTorch's verdict on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {text: failure(text) for text in (Writer(seed).program() for seed in SEEDS)}
    torch.set_num_threads(threads)
    return found


def test_there_are_failing_programs_and_others(programs: dict[str, str]) -> None:
    said = [next((part for part in SAYS if part in error), error) for error in programs.values()]
    assert said.count("") > 100 and said.count("second time") > 5 and said.count("modified by an inplace") > 5


def test_of_what_runs_nothing_is_told(programs: dict[str, str]) -> None:
    assert [text for text, error in programs.items() if not error and told(text)] == []


def test_what_fails_is_found(programs: dict[str, str]) -> None:
    for text, error in programs.items():
        for part, kind in SAYS.items():
            if part in error:
                assert kind in told(text), text


def test_what_is_repaired_runs(programs: dict[str, str]) -> None:
    repaired = 0
    for text, error in programs.items():
        if any(part in error for part in SAYS):
            analysis = analyse(text, "program.py", unsafe=False)
            if analysis.changes and all(finding.fixed for finding in analysis.findings):
                assert not any(part in failure(analysis.patched) for part in SAYS), analysis.patched
                repaired += 1
    assert repaired > 10
