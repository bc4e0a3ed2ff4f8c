"""Explains an error in a kernel: the cells that were run are read as a notebook, under their own numbers."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from autofix.checking import Options, Problem, check_file
from autofix.codemods.facts.base import Span
from autofix.codemods.source.program import with_spans
from autofix.live.death import Explanation, explains, repaired_alone
from autofix.project import files
from autofix.project.cells import cell_of
from autofix.report.cells import Cells
from autofix.report.view import View, story_of_finding

FILE = "kernel.ipynb"
"""Name of the program of the cells while it is read."""
NOTHING = "no mistake that explains this error was found by reading the cells that were run"


def explanation(book: str, message: str, lines: Collection[tuple[int, int]]) -> Explanation:
    """Explanation of an error with this *message* that was raised at *lines* (cell and line) of a *book*."""
    file = files.decode(book.encode(), FILE)
    result = check_file(Path(FILE), file, Options(unsafe=True))
    if isinstance(result, Problem) or file.notebook is None:
        return Explanation(None, NOTHING)
    cells = Cells({FILE: file.notebook}, {FILE: file.text})
    originals = {with_spans(one, lambda span: as_input(cells.span(span))): one for one in result.analysis.findings}
    known = {(os.path.realpath(f"In [{cell}]"), line) for cell, line in lines}
    told = [one for one in originals if explains(one, message, known)]
    if not told:
        return Explanation(None, NOTHING)
    result = repaired_alone(originals[told[0]], result, lambda options: check_file(Path(FILE), file, options))
    sources = {named(name): text for name, text in cells.sources.items()}
    view = View(FILE, (story_of_finding(told[0]),), sources)
    if not told[0].fixed:
        return Explanation(view)
    after = Cells({FILE: file.notebook}, {FILE: result.analysis.patched}).sources
    changed = [(name, text) for name, text in after.items() if name != FILE and text != cells.sources[name]]
    return Explanation(view, patched=tuple((named(name), text) for name, text in changed))


def named(name: str) -> str:
    """A cell as the kernel numbers it."""
    cell = cell_of(name)[1]
    return name if cell is None else f"In [{cell}]"


def as_input(span: Span) -> Span:
    return replace(span, path=named(span.path))
