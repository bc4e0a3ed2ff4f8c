"""The tokens of a text, on each version of Python."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

_SURROGATE = re.compile("[\ud800-\udfff]")


def tokens_of(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of *text*, whatever ends its lines.

    A lone surrogate, which a string of a notebook may have, reads as a question mark: ``tokenize`` refuses it from
    Python 3.12 on.  Raises :class:`SyntaxError` and :class:`tokenize.TokenError`.
    """
    return tokenize.generate_tokens(io.StringIO(_SURROGATE.sub("?", text), newline="").readline)
