"""Every fixture, by what it is: a broken script, what autofix makes of it, and look-alikes that stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofix.engine import analyse
from autofix.prove import Limits, Script, prove
from codemods.registry import all_codemods

FIXTURES = sorted(path for path in (Path(__file__).parent.parent / "fixtures").iterdir() if path.is_dir())
NAMES = [path.name for path in FIXTURES]
CLEAN = [path for path in FIXTURES if (path / "clean.py").exists()]
CODEMODS = [kind.__module__.rpartition(".")[2] for kind in all_codemods()]


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def expected_message(broken: str) -> str:
    """What the first line of a broken script says that PyTorch will say."""
    return broken.partition("\n")[0].removeprefix("# fails: ")


def test_every_fixture_belongs_to_a_codemod() -> None:
    strangers = [name for name in NAMES if not name.startswith(tuple(CODEMODS))]
    assert not strangers


@pytest.mark.parametrize("codemod", CODEMODS)
def test_every_codemod_has_a_fixture_with_look_alikes(codemod: str) -> None:
    assert any(path.name.startswith(codemod) for path in CLEAN)


@pytest.mark.parametrize("fixture", CLEAN, ids=[path.name for path in CLEAN])
def test_look_alikes_are_left_alone(fixture: Path) -> None:
    text = read(fixture / "clean.py")
    analysis = analyse(text, "clean.py")
    assert [(finding.cause.line, finding.message) for finding in analysis.findings] == []
    assert analysis.patched == text


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_the_patch_is_the_expected_one_byte_for_byte(fixture: Path) -> None:
    analysis = analyse(read(fixture / "broken.py"), "broken.py")
    assert analysis.findings
    assert all(finding.fixed for finding in analysis.findings)
    assert analysis.patched == read(fixture / "fixed.py")


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_applied_again_autofix_changes_nothing(fixture: Path) -> None:
    text = read(fixture / "fixed.py")
    analysis = analyse(text, "fixed.py")
    assert analysis.findings == ()
    assert analysis.patched == text


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_the_script_fails_as_it_says_and_its_patch_is_proved(fixture: Path) -> None:
    broken = read(fixture / "broken.py")
    original = Script(fixture / "broken.py")
    patched = Script(fixture / "broken.py", read(fixture / "fixed.py"))
    certificate = prove(original, patched, Limits(), expected_error=expected_message(broken))
    assert certificate.proved, [(point.name, point.verdict, point.detail) for point in certificate.points]
