"""``async=``, which Python 3.7 made a keyword: a script from before it does not even parse."""

from __future__ import annotations

import io
import tokenize
from typing import NamedTuple

from autofix.codemods.source.tokens import tokens_of

OLD, NEW = "async", "non_blocking"
_METHODS = frozenset(("cuda", "copy_", "type"))
"""The methods of tensors and modules that had the argument."""


class Renamed(NamedTuple):
    """A text in which the argument has its new name, and where it had the old one: lines from 1, columns from 0."""

    text: str
    places: tuple[tuple[int, int], ...]


def renamed(text: str) -> Renamed | None:
    """*text* with ``x.cuda(async=True)`` as ``x.cuda(non_blocking=True)``; None where there is no such call."""
    places = _places(text)
    if not places:
        return None
    lines = io.StringIO(text, newline="").readlines()  # those that the places are counted in, whatever ends them
    for line, column in reversed(places):
        before = lines[line - 1]
        lines[line - 1] = before[:column] + NEW + before[column + len(OLD) :]
    return Renamed("".join(lines), tuple(places))


def _places(text: str) -> list[tuple[int, int]]:
    """Positions at which torch's methods take the argument; empty if any other call has an argument of this name."""
    try:
        tokens = list(tokens_of(text))
    except (tokenize.TokenError, SyntaxError):
        return []
    tokens = [token for token in tokens if token.type not in (tokenize.NL, tokenize.COMMENT)]
    found = []
    called: list[str] = []
    for at, token in enumerate(tokens[1:-1], start=1):
        if token.string in "([{" and token.type == tokenize.OP:
            is_method = at > 1 and tokens[at - 2].string == "."
            called.append(tokens[at - 1].string if token.string == "(" and is_method else "")
        elif token.string in ")]}" and token.type == tokenize.OP and called:
            called.pop()
        elif token.string == OLD and tokens[at + 1].string == "=":
            if not called or called[-1] not in _METHODS or tokens[at - 1].string not in ("(", ","):
                return []
            found.append(token.start)
    return found
