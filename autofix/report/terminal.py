"""Styled lines: in colour by rich where a person watches, as plain text everywhere else."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from autofix.escaping import escaped_lines

if TYPE_CHECKING:
    from rich.console import Console

Piece = str | tuple[str, str]
"""A text, alone or with its style in rich's words: ``("AF100", "bold red")``."""


def wants_colour(stream: IO[str]) -> bool:
    """Whether *stream* is a terminal whose owner has not asked for plain text (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


class Printer:
    """Writes lines to one stream.  Imports rich only where there is colour to show."""

    def __init__(self, stream: IO[str], *, colour: bool | None = None) -> None:
        """``colour`` overrides the answer of :func:`wants_colour`."""
        self.stream = stream
        self.console: Console | None = None
        if wants_colour(stream) if colour is None else colour:
            from rich.console import Console

            self.console = Console(file=stream, force_terminal=True, highlight=False, emoji=False, soft_wrap=True)

    def line(self, *pieces: Piece) -> None:
        """Print one line, control characters in it as they are written."""
        pieces = tuple(
            escaped_lines(piece) if isinstance(piece, str) else (escaped_lines(piece[0]), piece[1]) for piece in pieces
        )
        if self.console is None:
            self.stream.write("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces) + "\n")
            return
        from rich.text import Text

        self.console.print(Text.assemble(*pieces))

    def patch(self, text: str) -> None:
        """Print a unified diff, coloured as git colours it."""
        for line in text.removesuffix("\n").split("\n"):
            self.line((line.removesuffix("\r"), patch_style(line)))


def patch_style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"@": "cyan", "+": "green", "-": "red"}.get(line[:1], "")
