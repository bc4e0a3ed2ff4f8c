from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from autofix import engine
from autofix.cli import main
from autofix.codemods.facts.base import Span
from autofix.codemods.facts.freed import StaleGraph
from autofix.engine import Analysis
from tests import fake_engine

FILLER = "#\n" * 10
ONE = "store.append(a)\n"
BROKEN = f"{ONE}{FILLER}store.append(b)\n{FILLER}store.append(c)\n"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(engine, "analyse", fake_engine.analyse)


@pytest.fixture
def review(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that reviews with the answers given and returns exit code and output."""

    def run(answers: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
        code = main(["review", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def repaired(text: str, *names: str) -> str:
    for name in names:
        text = text.replace(f"({name})", f"({name}.detach())")
    return text


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        ("y\ny\ny\n", "abc"),
        ("n\nn\nn\n", ""),
        ("y\nn\ny\n", "ac"),
        ("n\na\n", "bc"),
        ("y\nd\n", "a"),
        ("y\nq\n", "a"),
        ("y\n", "a"),
        ("", ""),
        ("Yes\nNO\n y \n", "ac"),
        ("?\nwhat\n\ny\nq\n", "a"),
    ],
    ids=["yes", "no", "some", "all the rest", "done", "quit", "end of input is quit", "at once", "words", "help first"],
)
def test_applies_what_was_accepted_and_nothing_else(review: Any, answers: str, names: str) -> None:
    Path("a.py").write_text(BROKEN)
    code, _ = review(answers)
    assert code == (0 if names == "abc" else 1)
    assert Path("a.py").read_text() == repaired(BROKEN, *names)


def test_shows_hunk_reason_and_question(review: Any) -> None:
    Path("a.py").write_text(BROKEN)
    _, out = review("y\nq\n")
    assert out.startswith(
        f"""\
a.py: hunk 1
AF101 line 1: `store`'s graph was already freed by the backward at line 2
  {fake_engine.REMEDY}
@@ -1,4 +1,4 @@
-store.append(a)
+store.append(a.detach())
 #
 #
 #
Apply this hunk [y,n,a,d,q,?]? y
a.py: hunk 2
"""
    )
    assert out.endswith("a.py: applied 1 of 3 hunks.\n")


def test_question_mark_explains_the_answers(review: Any) -> None:
    Path("a.py").write_text(BROKEN)
    assert "q - quit" in review("?\n")[1]


def test_d_ends_one_file_and_q_ends_all(review: Any) -> None:
    for name in "ab":
        Path(f"{name}.py").write_text(BROKEN)
    review("d\ny\nq\n")
    assert Path("a.py").read_text() == BROKEN
    assert Path("b.py").read_text() == repaired(BROKEN, "a")
    Path("b.py").write_text(BROKEN)
    review("q\ny\n")
    assert Path("b.py").read_text() == BROKEN


def test_keeps_line_endings_encoding_and_byte_order_mark(review: Any) -> None:
    for data in (b"\xef\xbb\xbf# \xc3\xa4\r\n", b"# coding: latin-1\r\n# \xe4\r\n"):
        data += BROKEN.replace("\n", "\r\n").encode()
        Path("a.py").write_bytes(data)
        review("n\ny\nn\n")
        assert Path("a.py").read_bytes() == data.replace(b"(b)", b"(b.detach())")


def test_a_file_that_cannot_be_written_is_one_line_and_the_others_go_on(review: Any) -> None:
    for name in "ab":
        Path(f"{name}.py").write_text(ONE)
    Path("a.py").chmod(0o444)
    code, out = review("y\ny\n")
    assert code == 1
    assert "a.py:1:1: not written: the file is read-only\n" in out
    assert Path("b.py").read_text() == repaired(ONE, "a")


def patch_with(monkeypatch: pytest.MonkeyPatch, source: str, patched: str, **roles: int) -> None:
    """Let the engine answer with one finding, whose roles stand in the given lines, and with *patched*."""
    spans = {name: Span("a.py", line, 0, line, 1) for name, line in roles.items()}
    fact = StaleGraph(**spans)  # type: ignore[arg-type]
    finding = engine.Finding("AF101", "stored-tensor", fact, True, "Guard it.", fact.cause)

    def analyse(text: str, path: str, **_: Any) -> Analysis:
        found = (finding,) if text == source else ()
        return fake_engine.analysis(path, text, patched if text == source else text, found)

    Path("a.py").write_text(source)
    monkeypatch.setattr(engine, "analyse", analyse)


def test_hunks_that_parse_only_together_are_decided_together(review: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"x = 1\n{FILLER}y = 2\n"
    patched = f"x = (1,\n{FILLER}2)\n"
    for answer, result in (("y", patched), ("n", source)):
        patch_with(monkeypatch, source, patched, made=1, used=1, freed=2, failed=2)
        _, out = review(f"{answer}\n")
        assert Path("a.py").read_text() == result
        assert out.count("Apply these hunks") == 1
        assert "a.py: hunks 1 to 2\n" in out
        assert "to be decided together" in out


def test_says_which_hunks_belong_to_one_remedy_and_when_one_is_left_out(
    review: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"store(h)\n{FILLER}backward(retain_graph=True)\n"
    patched = f"store(h.detach())\n{FILLER}backward()\n"
    patch_with(monkeypatch, source, patched, made=1, used=1, freed=12, failed=12)
    _, out = review("y\nn\n")
    assert "belongs together with hunk 2: one fix for all" in out
    assert "belongs together with hunk 1: one fix for all" in out
    assert "a.py:1:1: AF101 is repaired in part only\n" in out


def test_a_hunk_far_from_every_role_is_given_the_nearest_reason(review: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"import x\n{FILLER}store(h)\n"
    patched = f"import x, y\n{FILLER}store(h.detach())\n"
    patch_with(monkeypatch, source, patched, made=12, used=12, freed=12, failed=12)
    _, out = review("q\n")
    assert out.startswith("a.py: hunk 1\nAF101 line 12: ")


def test_neighbours_in_one_hunk_can_be_split(review: Any) -> None:
    source = "store.append(a)\n#\nstore.append(b)\n#\nstore.append(c)\n"
    Path("a.py").write_text(source)
    code, out = review("s\ny\nn\ny\n")
    assert code == 1
    assert Path("a.py").read_text() == repaired(source, "a", "c")
    assert "Apply this hunk [y,n,a,d,s,q,?]? s\na.py: hunk 1, part 1 of 3\n" in out
    assert out.count("AF101 line 3:") == 2
    assert out.endswith("a.py: applied 2 of 3 hunks.\n")


def test_what_parses_only_together_cannot_be_split(review: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_with(monkeypatch, "x = 1\n#\ny = 2\n", "x = (1,\n#\n2)\n", made=1, used=1, freed=3, failed=3)
    _, out = review("s\ny\n")
    assert "This hunk cannot be split.\n" in out
    assert "[y,n,a,d,q,?]" in out
    assert Path("a.py").read_text() == "x = (1,\n#\n2)\n"


def test_select_limits_the_review(review: Any) -> None:
    Path("a.py").write_text(BROKEN)
    assert review("a\n", "--select", "AF200") == (0, "")
    assert Path("a.py").read_text() == BROKEN
