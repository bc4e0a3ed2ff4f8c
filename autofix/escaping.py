"""Text for people without control characters: names and keys come from files that anybody may have written.

A terminal obeys what it is sent: it moves the cursor over what was said, sets the window's title, or answers on its
user's behalf.  Marks that turn the direction of writing let a line say something else than it holds.
"""

from __future__ import annotations

import re

_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def escaped(text: str) -> str:
    """*text* on one line, each control character as Python writes it: ``\\x1b``."""
    return _LINE.sub(_as_written, text)


def escaped_lines(text: str) -> str:
    """*text* with each control character as Python writes it, except for line feeds and tabs, which stay."""
    return _LINES.sub(_as_written, text)


def _as_written(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]
