"""Places of the values in a JSON text, so that one of them can be replaced and every other byte stays.

Values are skipped by the standard library's decoder, which is written in C: a notebook may hold megabytes of pictures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Place(NamedTuple):
    """A value, with the begin and the end of its text."""

    value: Any
    start: int
    end: int


def value_at(text: str, at: int = 0) -> Place:
    """The value that begins at *at*, blanks left out.  Raises :class:`ValueError`."""
    start = _after_blanks(text, at)
    value, end = _DECODER.raw_decode(text, start)
    return Place(value, start, end)


def members(text: str, at: int) -> dict[str, Place]:
    """The members of the object that begins at *at*; the last of two members with one name, as the decoder has it."""
    found: dict[str, Place] = {}
    at = _after_blanks(text, at + 1)
    while text[at] != "}":
        name = value_at(text, at)
        colon = _after_blanks(text, name.end)
        member = found[name.value] = value_at(text, colon + 1)
        at = _after_comma(text, member.end)
    return found


def items(text: str, at: int) -> Iterator[Place]:
    """Yield the items of the array that begins at *at*."""
    at = _after_blanks(text, at + 1)
    while text[at] != "]":
        item = value_at(text, at)
        yield item
        at = _after_comma(text, item.end)


def _after_comma(text: str, at: int) -> int:
    at = _after_blanks(text, at)
    return _after_blanks(text, at + 1) if text[at] == "," else at


def _after_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


# Strings --------------------------------------------------------------------------------------------------------------

_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)


def pieces(token: str) -> list[str]:
    """The text of a string, with its quotes, as one piece for each of its characters."""
    return _PIECE.findall(token[1:-1])


def written(text: str, *, ascii_only: bool) -> str:
    """*text* as it stands in a JSON string, without the quotes."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]
