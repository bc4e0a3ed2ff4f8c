"""The story as a terminal shows it: strokes below their text, after any characters, and no line too long."""

from __future__ import annotations

import unicodedata

import pytest

from autofix.codemods.facts.base import Span
from autofix.report import story
from autofix.report.terminal import Piece
from autofix.report.view import Place, Story, View


def told(source: str, wanted: str, *, line: int = 1, everything: bool = False) -> list[str]:
    """The story of a mistake at *wanted* in a line of *source*."""
    text = source.split("\n")[line - 1]
    start = text.index(wanted)
    cause = Place("kept", Span("a.py", line, start, line, start + len(wanted)), "kept here", is_cause=True)
    other = Place("used", Span("a.py", 1, 0, 1, 4), "used here", callers=(("f", Span("b.py", 7, 4, 7, 9)),))
    view = View("a.py", (Story("AF101", "message", (cause, other), holders=("temp", "self.hidden")),), {"a.py": source})
    return [plain(line) for line in story.tell(view, everything=everything)]


def plain(line: tuple[Piece, ...]) -> str:
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in line)


def wide(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def underlined(lines: list[str]) -> str:
    """The text above the strokes, as a terminal shows it."""
    (number,) = [number for number, line in enumerate(lines) if "^" in line]
    strokes = [column for column, char in enumerate(lines[number]) if char == "^"]
    cells = [char for char in lines[number - 1] if not unicodedata.combining(char) for _ in range(wide(char))]
    return "".join(cells[strokes[0] : strokes[-1] + 1])


@pytest.mark.parametrize(
    ("source", "wanted", "above"),
    [
        ("x = temp.append(h)", "temp.append(h)", "temp.append(h)"),
        ("\tif x:\ttemp.append(h)", "temp.append(h)", "temp.append(h)"),
        ("名前 = temp.append(漢字)  # 表", "temp.append(漢字)", "temp.append(漢漢字字)"),
        ("e\u0301 = temp.append(h)", "temp.append(h)", "temp.append(h)"),
        ("s = '🔥'; temp.append(h)", "temp.append(h)", "temp.append(h)"),
        ("s = '\x1b[31m'; temp.append(h)", "temp.append(h)", "temp.append(h)"),
    ],
    ids=["plain", "tabs", "wide characters", "a combining accent", "an emoji", "an escape"],
)
def test_strokes_stand_below_the_cause(source: str, wanted: str, above: str) -> None:
    assert underlined(told(source, wanted)) == above


def test_what_controls_terminals_is_shown_and_not_sent() -> None:
    lines = "\n".join(told("s = '\x1b[31m\x07 \x9b31m \u202e'; temp.append(h)", "temp"))
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(lines)
    assert "␛[31m␇ \ufffd31m \ufffd" in lines


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_longer_than_the_screen(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    source = "x = 1\n" + "漢字 = temp.append(h)  # " + "words and " * 20
    lines = told(source, "temp.append(h)", line=2)
    assert max(story.columns(line) for line in lines) <= width
    assert any(line.endswith("...") for line in lines)


def test_a_cause_of_several_lines_is_underlined_line_by_line() -> None:
    source = "store.append(\n    h,\n)\nend"
    cause = Place("kept", Span("a.py", 1, 0, 3, 1), "kept here", is_cause=True)
    view = View("a.py", (Story("AF101", "message", (cause,)),), {"a.py": source})
    assert [plain(line) for line in story.tell(view)][1:] == [
        "> 1 | store.append(",
        "    | ^^^^^^^^^^^^^",
        "> 2 |     h,",
        "    |     ^^",
        "> 3 | )",
        "    | ^ kept here",
        "  4 | end",
        "",
    ]


def test_other_places_are_listed_with_their_source_and_who_called() -> None:
    lines = told("x = 1\n\ntemp.append(h)", "temp.append(h)", line=3)
    assert lines[-5:] == [
        "",
        "  used     a.py:1:1  x =",
        "           called from b.py:7:5 in f",
        "  held by  temp, self.hidden",
        "",
    ]


def test_all_is_told_in_phrases_too_where_everything_is_wanted() -> None:
    lines = told("x = 1\n\ntemp.append(h)", "temp.append(h)", line=3, everything=True)
    assert lines[-5:-2] == ["  used     a.py:1:1  x =", "           used here", "           called from b.py:7:5 in f"]


def test_a_place_below_the_end_of_its_file_has_no_excerpt() -> None:
    cause = Place("failed", Span("a.py", 3, 0, 3, 4), "this fails", is_cause=True)
    view = View("a.py", (Story("AF100", "message", (cause,)),), {"a.py": "x = 1"})
    assert [plain(line) for line in story.tell(view)] == ["a.py:3:1: AF100 message", ""]


def test_a_story_without_its_file_is_told_all_the_same() -> None:
    cause = Place("failed", Span("gone.py", 3, 0, 3, 4), "this fails", is_cause=True)
    view = View("gone.py", (Story("AF100", "message", (cause,)),))
    assert [plain(line) for line in story.tell(view)] == ["gone.py:3:1: AF100 message", ""]
