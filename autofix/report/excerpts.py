"""Pieces of source for the page: the lines that a story touches, coloured, with notes on the events below them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pygments.lexers.python import PythonLexer
from pygments.token import Token, _TokenType

from autofix.codemods.facts.base import Span
from autofix.report.lines import joined
from autofix.report.story import UNDERLINED, WORDS, ends, shown
from autofix.report.view import Place, View, source_lines

CONTEXT = 1
"""Lines around one that matters."""
GAP = 2
"""Lines up to which a gap is not worth a mark: they are shown."""
COLOURS = {
    Token.Keyword: "k",
    Token.Operator.Word: "k",
    Token.Literal.String: "s",
    Token.Literal.Number: "n",
    Token.Comment: "c",
    Token.Name.Function: "f",
    Token.Name.Class: "f",
    Token.Name.Builtin: "b",
    Token.Name.Decorator: "b",
}
"""Kinds of token, and the class of the page's style for each.  Parts of a kind look as the whole."""


@dataclass(frozen=True)
class Segment:
    """Text of one look: its classes in the page's style."""

    text: str
    classes: str


@dataclass(frozen=True)
class Note:
    """Note on the event at a place, to be written below the place, after its ``lead``, the text before it."""

    lead: str
    stroke: str
    """The text of the place, to be underlined."""
    roles: str
    phrase: str
    is_cause: bool


@dataclass(frozen=True)
class Row:
    """One line of source; ``number`` 0 stands for lines left out."""

    number: int
    segments: tuple[Segment, ...] = ()
    notes: tuple[Note, ...] = ()
    is_cause: bool = False


@dataclass(frozen=True)
class Excerpt:
    """The rows of one file."""

    path: str
    rows: tuple[Row, ...]


def excerpts(view: View, places: Sequence[Place]) -> tuple[Excerpt, ...]:
    """The excerpts for *places*, one for each file, the file of the cause first."""
    found: dict[str, list[Place]] = {}
    for place in sorted(places, key=lambda place: not place.is_cause):
        if place.span.path in view.sources:
            found.setdefault(place.span.path, []).append(place)
    return tuple(Excerpt(path, tuple(rows(view.sources, path, here))) for path, here in found.items())


def rows(sources: Mapping[str, str], path: str, places: Sequence[Place]) -> Iterator[Row]:
    lines = source_lines(sources[path])
    colours = coloured(lines)
    wanted = sorted({near for place in places for near in nearby(place.span, lines)})
    last = wanted[0] if wanted else 0
    for number in wanted:
        if last + 1 < number <= last + 1 + GAP:
            yield from (row(between, lines, colours, ()) for between in range(last + 1, number))
        elif number > last + 1:
            yield Row(0)
        yield row(number, lines, colours, places)
        last = number


def nearby(span: Span, lines: Sequence[str]) -> Iterator[int]:
    """The numbers of *span*'s lines and of the lines around them, without blank lines at the ends."""
    numbers = range(max(1, span.line - CONTEXT), min(last_line(span) + CONTEXT, len(lines)) + 1)
    full = [number for number in numbers if span.line <= number <= last_line(span) or lines[number - 1].strip()]
    yield from range(full[0], full[-1] + 1) if full else ()


def last_line(span: Span) -> int:
    """The last line of *span* that is shown as such: the first line for a long span, such as a whole loop."""
    return span.end_line if span.end_line < span.line + UNDERLINED else span.line


def row(number: int, lines: Sequence[str], colours: Sequence[Sequence[str]], places: Sequence[Place]) -> Row:
    line = lines[number - 1]
    classes = list(colours[number - 1])
    here: dict[tuple[int, int], list[Place]] = {}
    for place in places:
        if place.span.line <= number <= last_line(place.span):
            start, end = ends(place.span, number, line)
            mark(classes, start, end, "cause" if place.is_cause else "role")
            if number == place.span.line:
                here.setdefault((start, end), []).append(place)
    notes = tuple(note(line, start, end, told) for (start, end), told in sorted(here.items()))
    return Row(number, segments(line, classes), notes, any(place.is_cause for told in here.values() for place in told))


def note(line: str, start: int, end: int, places: Sequence[Place]) -> Note:
    return Note(
        lead=shown(line[:start]),
        stroke=shown(line[:end])[len(shown(line[:start])) :],
        roles=", ".join(dict.fromkeys(WORDS.get(place.role, place.role) for place in places)),
        phrase=joined(place.phrase for place in places),
        is_cause=any(place.is_cause for place in places),
    )


def mark(classes: list[str], start: int, end: int, name: str) -> None:
    for index in range(start, min(end, len(classes))):
        if name not in classes[index].split():
            classes[index] = f"{classes[index]} {name}".strip()


def segments(line: str, classes: Sequence[str]) -> tuple[Segment, ...]:
    """*line* cut where its look changes, tabs as blanks."""
    found, done = [], 0
    for look, group in groupby(classes):
        length = len(list(group))
        before, text = shown(line[:done]), shown(line[: done + length])
        found.append(Segment(text[len(before) :], look))
        done += length
    return tuple(found)


def coloured(lines: Sequence[str]) -> list[list[str]]:
    """For every line the class of each of its characters."""
    text = "\n".join(lines)
    classes = [
        colour_of(kind) for kind, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text) for _ in value
    ]
    if len(classes) != len(text):  # the lexer has changed the text
        classes = [""] * len(text)
    found, done = [], 0
    for line in lines:
        found.append(classes[done : done + len(line)])
        done += len(line) + 1
    return found


def colour_of(kind: _TokenType) -> str:
    for part in reversed(kind.split()):
        if part in COLOURS:
            return COLOURS[part]
    return ""
