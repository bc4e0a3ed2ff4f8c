"""Notebooks as the rest of the program knows them: their suffix, the names of their cells, and their errors."""

from __future__ import annotations

import re

SUFFIX = ".ipynb"
_NAMED = re.compile(r"(?P<file>.*\.ipynb):cell (?P<cell>\d+)", re.DOTALL)


class NotebookError(Exception):
    """A file that is no notebook, or a text that is none of its cells' any more; ``line`` and ``column`` from 1."""

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason, line, column)
        self.reason = reason
        self.line = line
        self.column = column


class OtherLanguage(NotebookError):
    """A notebook whose kernel runs no Python."""


def name_of_cell(file: str, cell: int) -> str:
    """Name of a cell in reports: ``nb.ipynb:cell 4``.  Cells count from 1, including cells without code."""
    return f"{file}:cell {cell}"


def cell_of(name: str) -> tuple[str, int | None]:
    """The file of a cell's name, and the cell's number; None for the name of a whole file."""
    found = _NAMED.fullmatch(name)
    return (found["file"], int(found["cell"])) if found else (name, None)
