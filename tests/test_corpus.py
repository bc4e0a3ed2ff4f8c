"""The corpus is pinned, and its table counts each finding once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autofix.engine import analyse
from tests.corpus.__main__ import count, read, row
from tests.corpus.fetch import FetchError, fetch, packages

BROKEN = Path(__file__).parents[1] / "fixtures" / "detach_stored" / "broken.py"


def test_every_package_is_named_once_and_pinned() -> None:
    names = [package.partition("==")[0] for package in packages()]
    assert len(names) == len(set(names)) >= 50
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", package) for package in packages())


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "some-1.0").mkdir()
    assert fetch("some==1.0", tmp_path) == tmp_path / "some-1.0"


def test_what_the_index_does_not_give_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(FetchError, match="some"):
        fetch("some==1.0", tmp_path)


def test_a_finding_is_counted_once_however_many_scripts_come_to_it() -> None:
    reading = read(("some==1.0", BROKEN))
    assert len(reading.findings) == len(analyse(BROKEN.read_text(encoding="utf-8"), "broken.py").findings) == 1
    figures = count([reading, reading])
    assert (figures["files"], figures["findings"]) == (2, 1)
    assert row("some", figures).split()[-1] == f"{100_000 / (2 * reading.lines):.2f}"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "a.py"
    broken.write_text("def f(:\n")
    assert "invalid syntax" in read(("some==1.0", broken)).problem
