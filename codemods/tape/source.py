"""One source file: its text, its syntax tree, and the one place where columns are converted.

``ast`` counts columns in UTF-8 bytes; spans, LibCST and editors count code points.
"""

from __future__ import annotations

import ast
import warnings
from typing import NamedTuple

from codemods.facts import Span


class Source:
    """The text of a file and its tree.  Raises :class:`SyntaxError` where the text does not parse."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a script's invalid escapes are not our user's question
            self.tree = ast.parse(text.removeprefix("\ufeff"), filename=path)
        self._lines: list[str] | None = None
        self.facts_of: dict[ast.AST, bool] = {}
        """What was found out about a node by reading under it, so that no path reads it again."""

    @property
    def lines(self) -> list[str]:
        """The lines as the parser counts them: only ``\\n``, ``\\r\\n`` and ``\\r`` end one."""
        if self._lines is None:
            self._lines = self.text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return self._lines

    def _column(self, line: int, byte_column: int) -> int:
        text = self.lines[line - 1]
        if text.isascii():
            return byte_column
        return len(text.encode()[:byte_column].decode(errors="ignore"))

    def span(self, node: ast.stmt | ast.expr) -> Span:
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return Span(
            self.path,
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, end_column),
        )

    def text_of(self, node: ast.expr | ast.stmt) -> str:
        """The user's own text of an expression, where it stands on one line."""
        if node.lineno == node.end_lineno:
            line = self.lines[node.lineno - 1]
            if line.isascii():
                return line[node.col_offset : node.end_col_offset]
            return line.encode()[node.col_offset : node.end_col_offset].decode(errors="replace")
        return ast.unparse(node)


class Site(NamedTuple):
    """A place in the program.  Kept as a node until somebody asks for its span: most sites are never asked."""

    source: Source
    node: ast.stmt | ast.expr

    @property
    def span(self) -> Span:
        return self.source.span(self.node)
