"""Every fixture by its kind: a broken script, autofix's repair of it, and look-alikes that stay as they are."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autofix.codemods.rules.registry import all_codemods
from autofix.engine import Analysis, analyse
from autofix.proof.prove import Limits, Original, Script, prove
from autofix.repair import promises
from tests.benchmark.cases import program
from tests.sampling import sampled

FIXTURES = sorted(path for path in (Path(__file__).parent.parent / "fixtures").iterdir() if path.is_dir())
NAMES = [path.name for path in FIXTURES]
CLEAN = [path for path in FIXTURES if (path / "clean.py").exists() or (path / "clean").exists()]
KINDS = (
    "stale graph",
    "overwritten",
    "leaf changed",
    "cut graph",
    "graph escapes",
    "scalar",
    "graph held",
    "legacy API",
    "no gradient",
    "refused flag",
    "whole numbers",
    "refused hook",
    "two kinds",
)
SOURCES = ("https://", "article ", "no single report; ")
"""Prefixes of a pattern's source: a thread, one of the articles that started it all, or the truth."""
ENOUGH = 80
"""Broken scripts, and clean ones, that the benchmark has at the least."""
CODEMODS = [kind.__module__.rpartition(".")[2] for kind in all_codemods()]
PATCHED = [path for path in FIXTURES if path.name in CODEMODS or sampled(path.name, 2)]
"""The first one of each codemod, and half of the others: to search for the patches takes a sixth of the time of all
tests.
"""
PROVED = [path for path in FIXTURES if sampled(path.name, 3 if path.name in CODEMODS else 24)]
"""A twenty-fourth, and a third of the first ones of each codemod: the three runs of a proof take most of the time that
all tests take.  ``make benchmark`` proves them all.
"""


def texts_of(fixture: Path, name: str) -> dict[str, str]:
    """The files of the script *name* of a fixture, by path from its folder, the one that is run first."""
    found = program(fixture, name, about(fixture).get("entry", ""))
    assert found is not None
    files = {found.key(found.entry): found.entry} if found.folder else {found.entry.name: found.entry}
    for key in found.texts if found.folder else ():
        files.setdefault(key, found.root / key)
    return {key: path.read_bytes().decode("utf-8") for key, path in files.items()}


def analysis_of(texts: dict[str, str]) -> Analysis:
    (entry, text), *others = texts.items()
    return analyse(text, entry, others=dict(others))


def expected_message(broken: str) -> str:
    """PyTorch's message as the first line of a broken script announces it."""
    return broken.partition("\n")[0].removeprefix("# fails: ")


def about(fixture: Path) -> dict[str, Any]:
    """Content of ``about.json``: see fixtures/README.md."""
    known: dict[str, Any] = json.loads((fixture / "about.json").read_text(encoding="utf-8"))
    return known


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_every_fixture_says_what_it_is_and_where_its_pattern_comes_from(fixture: Path) -> None:
    known = about(fixture)
    assert known["kind"] in KINDS
    assert known["pattern"]
    assert known["source"].startswith(SOURCES) or "https://" in known["source"]
    assert known["why"][0].strip() and not known["why"].endswith(".") and len(known["why"].split()) > 4


def test_the_benchmark_is_large_enough_and_has_every_kind() -> None:
    kinds = Counter(about(fixture)["kind"] for fixture in FIXTURES)
    assert len(FIXTURES) >= ENOUGH and len(CLEAN) >= ENOUGH
    assert set(kinds) == set(KINDS)
    look_alikes = Counter(about(fixture)["kind"] for fixture in CLEAN)
    assert [kind for kind in KINDS if look_alikes[kind] < 2] == []


def test_every_fixture_belongs_to_a_codemod() -> None:
    strangers = [name for name in NAMES if not name.startswith(tuple(CODEMODS))]
    assert not strangers


@pytest.mark.parametrize("codemod", CODEMODS)
def test_every_codemod_has_a_fixture_with_look_alikes(codemod: str) -> None:
    assert any(path.name.startswith(codemod) for path in CLEAN)


@pytest.mark.parametrize("fixture", CLEAN, ids=[path.name for path in CLEAN])
def test_look_alikes_are_left_alone(fixture: Path) -> None:
    analysis = analysis_of(texts_of(fixture, "clean"))
    assert [(finding.cause.line, finding.message) for finding in analysis.findings] == []
    assert not analysis.changes


@pytest.mark.parametrize("fixture", PATCHED, ids=[path.name for path in PATCHED])
def test_the_patch_is_the_expected_one_byte_for_byte(fixture: Path) -> None:
    analysis = analysis_of(texts_of(fixture, "broken"))
    assert analysis.findings
    assert all(finding.fixed for finding in analysis.findings)
    expected = texts_of(fixture, "fixed")
    assert list(analysis.repaired.texts.values()) == list(expected.values())


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_applied_again_autofix_changes_nothing(fixture: Path) -> None:
    analysis = analysis_of(texts_of(fixture, "fixed"))
    assert analysis.findings == ()
    assert not analysis.changes


@pytest.mark.parametrize("fixture", PROVED, ids=[path.name for path in PROVED])
def test_the_script_fails_as_it_says_and_its_patch_is_proved(fixture: Path) -> None:
    broken, fixed = texts_of(fixture, "broken"), texts_of(fixture, "fixed")
    found = program(fixture, "broken", about(fixture).get("entry", ""))
    assert found is not None
    patched, *others = fixed.values()
    names = list(fixed)[1:]
    original = Original(Script(found.entry), Limits())
    script = Script(found.entry, patched, others=tuple(zip(names, others, strict=True)))
    expected = expected_message(next(iter(broken.values())))
    certificate = prove(original, script, promises(analysis_of(broken)), expected_error=expected)
    assert certificate.proved, [(point.name, point.verdict, point.detail) for point in certificate.points]
