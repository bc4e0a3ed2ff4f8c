"""Files whose blocks are indented by tabs here and by spaces there, as Python reads them.

A tab takes the indent to the next multiple of eight columns, so that a block may be indented by ``"\\t    "`` within
one of four spaces.  LibCST's tokenizer finds no end of such a block ("no matching outer block for dedent"): it is given
the text with spaces in the place of the tabs, and what it writes gets the file's own indents back.
"""

from __future__ import annotations

import tokenize
from collections.abc import Iterator, Sequence
from functools import cached_property

from autofix.codemods.rewriting.origins import Place
from autofix.codemods.rewriting.patch import Line, lines_of
from autofix.codemods.source.tokens import tokens_of

_BLANKS = " \t"


class Indents:
    """The indents of a file with tabs, and those of the same text with spaces."""

    def __init__(self, text: str) -> None:
        self._own = lines_of(text)
        inside = set(_inside_tokens(text))
        self._spaced = [line if number in inside else _spaced(line) for number, line in enumerate(self._own, 1)]

    @cached_property
    def spaced(self) -> str:
        """The text with spaces in the place of the tabs that indent its lines."""
        return "".join(self._spaced)

    def in_file(self, place: Place) -> Place:
        """A place in the file, for one in the text with spaces."""
        first, start, last, end = place
        return first, self._column(first, start), last, self._column(last, end)

    def _column(self, number: int, column: int) -> int:
        if not 0 < number <= len(self._own):
            return column
        own, spaced = (_indent(lines[number - 1]) for lines in (self._own, self._spaced))
        if own == spaced:
            return column
        return column - len(spaced) + len(own) if column >= len(spaced) else min(column, len(own))

    def restored(self, lines: Sequence[Line]) -> list[Line]:
        """Lines that were written with spaces, with the indents that the file has in their blocks."""
        kept = [self._as_in_file(line) for line in lines]
        return [
            Line(_indent_in(kept, at, len(_indent(line.text))) + line.text.lstrip(_BLANKS), line.origin)
            if own is None
            else Line(own, line.origin)
            for at, (line, own) in enumerate(zip(lines, kept, strict=True))
        ]

    def _as_in_file(self, line: Line) -> str | None:
        """The text of a line with its indent in the file; None for a line that is new, or is indented otherwise."""
        if line.origin and line.text == self._spaced[line.origin - 1]:
            return self._own[line.origin - 1]
        if not line.text.strip() or "\t" in _indent(line.text):
            return line.text  # with a tab still: it begins inside a string
        if not line.origin or _indent(line.text) != _indent(self._spaced[line.origin - 1]):
            return None
        return _indent(self._own[line.origin - 1]) + line.text.lstrip(_BLANKS)


def _indent_in(lines: Sequence[str | None], at: int, width: int) -> str:
    """The indent of the block of that *width* in which a new line stands; a block that is new is indented by spaces."""
    for around in (lines[at::-1], lines[at:]):
        for line in around:
            if line is None or not line.strip():
                continue
            there = len(_indent(_spaced(line)))
            if there == width:
                return _indent(line)
            if there < width:
                break
    outer = next((line for line in lines[at::-1] if line and line.strip() and len(_indent(_spaced(line))) < width), "")
    return _indent(outer) + " " * (width - len(_indent(_spaced(outer))))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_BLANKS))]


def _spaced(line: str) -> str:
    indent = _indent(line)
    return indent.expandtabs(8) + line[len(indent) :] if "\t" in indent else line


_STRINGS = {tokenize.STRING, *(getattr(tokenize, name, -1) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE"))}


def _inside_tokens(text: str) -> Iterator[int]:
    """The lines that begin inside a string: their blanks are a part of it."""
    for token in tokens_of(text):
        if token.type in _STRINGS:
            yield from range(token.start[0] + 1, token.end[0] + 1)
