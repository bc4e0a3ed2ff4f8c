"""Unknown text of which some pieces are written out: ``f"block{i}_{j}"``, ``"block%d" % i``, ``"block" + str(i)``."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

_FILLED = re.compile(r"%[-#0-9 .+]*[a-zA-Z]|\{[^{}]*\}")
"""A place of a format that is filled in."""
_ANY = ".*"


def pattern(key: Hashable) -> str:
    """Regular expression of the texts that an unknown value with this key may be; empty where no piece is known."""
    pieces = list(_pieces(key))
    return "".join(pieces) if any(one and one != _ANY for one in pieces) else ""


def _pieces(key: Hashable) -> Iterator[str]:
    match key:
        case ("str", str(text)):
            yield re.escape(text)
        case ("add", first, second):
            yield from _pieces(first)
            yield from _pieces(second)
        case ("format", str(text), *_):
            yield _ANY.join(map(re.escape, _FILLED.split(text)))
        case ("text", *parts):
            yield from (re.escape(part) if isinstance(part, str) else _ANY for part in parts)
        case _:
            yield _ANY
