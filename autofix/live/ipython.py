"""``%load_ext autofix``: when a cell dies of an error of autograd, the cause and the patched cell stand below it.

The cells that were run, in that order, are the program.  Of a cell that has failed before the last one, the statements
above the one that failed are part of it.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.live.frames import Frame, frames_of

if TYPE_CHECKING:
    from autofix.live.death import Explanation

TIMED = ("<timed exec>", "<timed eval>")
"""The names under which ``%%time`` runs the lines below it."""


def load_ipython_extension(shell: Any) -> None:
    """Begin to watch the cells of an IPython *shell*."""
    watcher = getattr(shell, _OF_SHELL, None) or Watcher(shell)
    shell.events.register("post_run_cell", watcher.after_cell)
    setattr(shell, _OF_SHELL, watcher)


def unload_ipython_extension(shell: Any) -> None:
    """Watch no more; what is known of the cells so far is kept for another time."""
    watcher = getattr(shell, _OF_SHELL, None)
    if watcher is not None:
        with suppress(ValueError):  # it was unloaded before
            shell.events.unregister("post_run_cell", watcher.after_cell)


_OF_SHELL = "_autofix_watcher"


class Watcher:
    """Remembers which cells were run, and explains the one that dies."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._failed: dict[int, int] = {}
        """The line at which each cell failed that did; 0 where nothing of it was run."""

    def after_cell(self, result: Any) -> None:
        """Called by IPython once a cell is done, and its traceback printed."""
        number = result.execution_count
        if number is None:  # it is not part of the history
            return
        error = result.error_in_exec
        if result.error_before_exec is not None or error is not None:
            self._failed[number] = 0 if error is None else self._line(number, error)
        if error is None:
            return
        from autofix.live.death import explained

        told = explained(error, read=lambda message: self._explanation(number, message, error))
        if told is not None:  # in one piece: each piece would be an output of the cell of its own
            from autofix.report.terminal import wants_colour

            whole = io.StringIO()
            told.show(whole, colour=wants_colour(sys.stdout))
            print(whole.getvalue(), flush=True)  # noqa: T201

    def _explanation(self, number: int, message: str, error: BaseException) -> Explanation:
        from autofix.live.cells import explanation

        whole = self._history()
        cells = {at: whole[at] if at == number else self._run_of(at, whole[at]) for at in whole}
        lines = {place for frame in frames_of(error.__traceback__) if (place := self._place(frame, number, cells))}
        told = explanation(book(cells), message, lines)
        rests = {f"In [{at}]": whole[at][len(source) :] for at, source in cells.items()}
        return replace(told, patched=tuple((name, source + rests.get(name, "")) for name, source in told.patched))

    def _line(self, number: int, error: BaseException) -> int:
        """The line of a cell at which an error left it; 0 where it is not known."""
        cells = {number: self._history().get(number, "")}
        places = [self._place(frame, number, cells) for frame in frames_of(error.__traceback__)]
        return next((place[1] for place in places if place is not None), 0)

    def _run_of(self, number: int, source: str) -> str:
        """The lines of a cell that were run to their end."""
        if number in self._failed:
            return above(source, self._failed[number])
        unseen = getattr(self._shell.history_manager, "exceptions", {})  # of cells that ran before this was loaded
        return "" if number in unseen else source

    def _history(self) -> dict[int, str]:
        """The cells by their numbers, as they were typed."""
        sources = self._shell.history_manager.input_hist_raw
        return {at: source for at, source in enumerate(sources) if at}

    def _place(self, frame: Frame, number: int, cells: dict[int, str]) -> tuple[int, int] | None:
        """The cell and the line of a frame."""
        if frame.path in TIMED:
            source = cells[number]
            blank = source[: len(source) - len(source.lstrip())].count("\n")
            return number, frame.line + blank + source.lstrip().startswith("%%")
        known = getattr(self._shell.compile, "_filename_map", {})
        at = known.get(frame.path)
        return (at, frame.line) if at in cells else None


def above(source: str, line: int) -> str:
    """The lines of a cell above the statement at *line*; none of a cell that is no Python."""
    from autofix.project.magics import neutral

    try:
        body = ast.parse("\n".join(one.text for one in neutral(source))).body
    except (SyntaxError, ValueError, RecursionError):
        return ""
    starts = [min([one.lineno, *(each.lineno for each in getattr(one, "decorator_list", ()))]) for one in body]
    begun = [start for start in starts if start <= line]
    return "".join(source.splitlines(keepends=True)[: begun[-1] - 1]) if begun else ""


def book(cells: dict[int, str]) -> str:
    """A notebook whose cell N is the one that was run as ``In [N]``."""
    empty = {"cell_type": "markdown", "source": ""}
    code = {at: {"cell_type": "code", "source": source} for at, source in cells.items()}
    last = max(cells, default=0)
    return json.dumps({"nbformat": 4, "cells": [code.get(at, empty) for at in range(1, last + 1)]})
