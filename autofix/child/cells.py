"""Gives the code of a notebook's cells the places that it has in the notebook's program.

IPython compiles each cell, and what ``%time``, ``%%time`` or ``%%capture`` run of it, as a text of its own, from which
it has taken magics, indentation and blank lines.  The probe and the witness know one file and its lines: the program
that the finders of mistakes read, with a line for each line of a cell.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Origin of a line that is compiled."""

    line: int
    """Index among the lines of the cell."""
    shift: int | None
    """Bytes of UTF-8 that the cell has before it; None for a line that IPython has written itself."""


def origins(text: Sequence[str], cell: Sequence[str], first: int = 0) -> list[Origin]:
    """Return the origin of each line of *text* among the lines of *cell*, from index *first* on.

    >>> origins(["x = 1"], ["%%capture", "", "x = 1"])
    [Origin(line=2, shift=0)]
    """
    found: list[Origin] = []
    at, last = first, max(len(cell) - 1, 0)
    for line in text:
        own = line.rstrip()
        place = next((i for i in range(at, len(cell)) if own and cell[i].rstrip().endswith(own)), None)
        if place is None:
            # A magic, or a blank line: Python's lines after a magic of several are found again by their text.
            is_gone = not own and at <= last and cell[at].strip()
            found.append(Origin(min(at, last), None))
            at += not is_gone
            continue
        shift = len(cell[place].rstrip().encode()) - len(own.encode())
        found.append(Origin(place, shift))
        at = place + 1
    return found


class Places:
    """Places of the code of cells in the program of a notebook."""

    def __init__(self, file: str, heads: Mapping[int, int]) -> None:
        self.file = file
        """The path that the code gets: the notebook's."""
        self._heads = heads
        self._head = 0
        self._cell: list[str] = []
        self._lines: list[str] = []

    def enter(self, number: int | None, source: str) -> None:
        """A cell with this *number* and *source* is about to be executed; None for code that is in no cell."""
        self._head = self._heads.get(number or 0, 0)
        self._cell = source.split("\n")
        if self.is_known:  # with its magics
            self._lines[self._head : self._head + len(self._cell)] = [f"{line}\n" for line in self._cell]

    def show(self, program: str) -> None:
        """Let tracebacks, and :mod:`inspect`, find the lines of the *program*: the file on the disk is JSON."""
        self._lines = program.splitlines(keepends=True)
        # Without a time the entry stands for no file that may change.
        linecache.cache[self.file] = len(program), None, self._lines, self.file

    @property
    def is_known(self) -> bool:
        """Whether a cell is executed that the program has."""
        return bool(self._head)

    def move(self, tree: ast.AST, text: str) -> None:
        """Move the nodes of a tree that was parsed from *text*, a piece of the cell, to their places in the program."""
        if not self.is_known:
            return
        known = origins(text.split("\n"), self._cell, self._running_line())
        for node in ast.walk(tree):
            if hasattr(node, "lineno") and node.lineno is not None:
                self._move(node, known)

    def move_error(self, error: SyntaxError, text: str) -> None:
        """Move the place of an error that parsing *text*, a piece of the cell, has raised."""
        if self.is_known and error.lineno is not None:
            known = origins(text.split("\n"), self._cell, self._running_line())
            error.lineno = self._head + known[min(error.lineno, len(known)) - 1].line + 1

    def told(self, error: traceback.TracebackException) -> Iterator[str]:
        """The lines of a traceback, with the numbers of cells and their own lines."""
        seen: set[int] = set()
        pending: list[traceback.TracebackException | None] = [error]
        while pending:
            one = pending.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            pending += [one.__cause__, one.__context__]
            for frame in one.stack:
                if frame.filename == self.file and frame.lineno is not None and frame.line is not None:
                    number, head = self._cell_of(frame.lineno)
                    frame.filename = f"{os.path.basename(self.file)}:cell {number}"
                    frame.lineno -= head
                    last = getattr(frame, "end_lineno", None)  # from Python 3.11 on
                    if last is not None:
                        frame.end_lineno = last - head
        return error.format()

    def _cell_of(self, line: int) -> tuple[int, int]:
        """The number of the cell of a line of the program, and the line above its first."""
        above = [(head, number) for number, head in self._heads.items() if head < line]
        head, number = max(above, default=(0, 0))
        return number, head

    def _running_line(self) -> int:
        """Index of the cell's line that runs now: a magic in it has its code behind it, or in the lines below."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                line = frame.f_lineno - self._head - 1
                return line if 0 <= line < len(self._cell) else 0
            frame = frame.f_back
        return 0

    def _move(self, node: Any, known: Sequence[Origin]) -> None:
        first = known[min(node.lineno, len(known)) - 1]
        last = known[min(node.end_lineno or node.lineno, len(known)) - 1]
        column, end = self._columns(first), self._columns(last)
        begin = node.col_offset + first.shift if first.shift is not None else column[0]
        stop = (node.end_col_offset or 0) + last.shift if last.shift is not None else end[1]
        node.lineno, node.end_lineno = self._head + first.line + 1, self._head + last.line + 1
        node.col_offset, node.end_col_offset = begin, max(stop, begin) if first.line == last.line else stop

    def _columns(self, origin: Origin) -> tuple[int, int]:
        """Columns of a magic's line, without its indentation, in bytes."""
        line = self._cell[origin.line].rstrip()
        return len(line) - len(line.lstrip()), len(line.encode())


def placing(compiler: Any, places: Places) -> Any:
    """A compiler for IPython's shell that is like *compiler*, and gives code the places in the program."""

    class Placing(type(compiler)):  # type: ignore[misc]
        def ast_parse(self, source: str, *args: Any, **kwargs: Any) -> Any:
            try:
                tree = super().ast_parse(source, *args, **kwargs)
            except SyntaxError as error:
                places.move_error(error, source)
                raise
            places.move(tree, source)
            return tree

        def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
            if not places.is_known:
                return str(super().cache(transformed_code, number, raw_code))
            return places.file

        def __call__(self, source: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
            # What `%%time` runs is called `<timed exec>`.
            is_piece = places.is_known and isinstance(source, ast.AST) and filename.startswith("<")
            return super().__call__(source, places.file if is_piece else filename, *args, **kwargs)

    return Placing()
