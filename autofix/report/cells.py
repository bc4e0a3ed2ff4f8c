"""Findings in notebooks, in the places that people know them by: the cell, and the line in the cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autofix.checking import Edit, Problem
from autofix.codemods.facts.base import Span
from autofix.codemods.source.program import with_spans
from autofix.edits import TextEdit
from autofix.findings import Finding, Place
from autofix.outcomes import Outcomes
from autofix.project import notebook
from autofix.project.cells import SUFFIX, cell_of, name_of_cell
from autofix.project.notebook import Layout, Notebook

if TYPE_CHECKING:
    from autofix.execution.record import RunRecord
    from autofix.project.files import SourceFile
    from autofix.proof.prove import Certificate
    from autofix.repair import Repair
    from autofix.report.view import View


@dataclass(frozen=True)
class Cells:
    """The notebooks of a report, by name, with their programs' texts as the findings know them."""

    notebooks: Mapping[str, Notebook]
    texts: Mapping[str, str]
    layouts: Mapping[str, Layout] = field(init=False)

    def __post_init__(self) -> None:
        layouts = {name: Layout.of(self.texts[name]) for name in self.notebooks}
        object.__setattr__(self, "layouts", layouts)

    def span(self, span: Span, line: int | None = None) -> Span:
        """*span* of a program as a span of its cell; of the cell of *line*, where the span lies between two."""
        layout = self.layouts.get(span.path)
        if layout is None:
            return span
        cell, here = layout.place(line or span.line)
        by = (line or span.line) - here
        return Span(
            name_of_cell(span.path, cell), span.line - by, span.column, max(span.end_line - by, 1), span.end_column
        )

    def place(self, place: Place) -> Place:
        """A line of a program as a line of its cell."""
        layout = self.layouts.get(place[0])
        if layout is None:
            return place
        cell, line = layout.place(place[1])
        return name_of_cell(place[0], cell), line

    def edit(self, edit: TextEdit) -> TextEdit:
        """An edit of a program as one of its cell."""
        return replace(edit, span=self.span(edit.span, edit.lines[0] if edit.lines else None))

    @property
    def sources(self) -> dict[str, str]:
        """The cells' sources by their names, and the files' own texts."""
        return {
            **{name: own.with_text(self.texts[name]) for name, own in self.notebooks.items()},
            **notebook.in_cells(self.texts, self.notebooks),
        }

    def in_file(self, span: Span) -> Span:
        """*span* of a cell in the file's own text."""
        name, cell = cell_of(span.path)
        own = self.notebooks.get(name)
        if own is None or cell is None:
            return span
        if self.texts[name] != own.text:
            own = notebook.read(own.with_text(self.texts[name]))
        start = own.place_in_file(cell, span.line, span.column)
        end = own.place_in_file(cell, span.end_line, span.end_column)
        return Span(name, *start, *max(start, end))

    def words(self, text: str) -> str:
        """*text*, which names lines of a notebook's program, with the cells that they are in."""
        for name, layout in self.layouts.items():

            def told(found: re.Match[str], layout: Layout = layout) -> str:
                cell, line = layout.place(int(found[1]))
                return f"cell {cell}, line {line}"

            def placed(found: re.Match[str], name: str = name, layout: Layout = layout) -> str:
                cell, line = layout.place(int(found[1]))
                return f"{name_of_cell(name, cell)}:{line}"

            text = re.sub(rf"(?<![\w./-]){re.escape(name)}:(\d+)", placed, re.sub(r"\bline (\d+)\b", told, text))
        return text


class CellOutcomes(Outcomes):
    """Outcomes with every place of a notebook in its cell."""

    def __init__(self, found: Outcomes, cells: Cells) -> None:
        super().__init__(verbose=found.verbose, tell=found.tell)
        self.results, self.problems, self.written = found.results, found.problems, found.written
        self.passed_by = found.passed_by
        self._found, self._cells = found, cells
        self._originals = {with_spans(one, cells.span): one for one in found.findings}
        self.findings = list(self._originals)

    @property
    def edits(self) -> list[Edit]:
        return self._found.edits

    @property
    def missed(self) -> dict[Place, str]:
        return {self._cells.place(place): reason for place, reason in self._found.missed.items()}

    @property
    def repairs(self) -> dict[Finding, tuple[TextEdit, ...]]:
        known = self._found.repairs
        return {told: tuple(map(self._cells.edit, known[one])) for told, one in self._originals.items() if one in known}

    @property
    def sources(self) -> dict[str, str]:
        return {**self._found.sources, **self._cells.sources}

    def in_file(self, span: Span) -> Span:
        return self._cells.in_file(span)


def in_cells(found: Outcomes) -> Outcomes:
    """*found* with every place of a notebook in its cell; as it is where there is none."""
    notebooks = {one.file.name: one.file.notebook for one in found.results if one.file.notebook is not None}
    without_code = dict.fromkeys(notebooks, "")
    return CellOutcomes(found, Cells(notebooks, without_code | found.sources)) if notebooks else found


def cells_of_repair(outcome: Repair) -> Cells:
    """The cells of the notebook that ``run`` was given, if it was one."""
    return cells_of_file(outcome.project.file)


def repair_in_cells(outcome: Repair) -> Repair:
    """*outcome* with every place of a notebook in its cell, but for the evidence."""
    cells = cells_of_repair(outcome)
    if not cells.notebooks:
        return outcome
    findings = tuple(with_spans(one, cells.span) for one in outcome.analysis.findings)
    return replace(
        outcome,
        analysis=replace(outcome.analysis, findings=findings),
        certificate=_certificate(outcome, cells),
        refused=tuple(map(cells.words, outcome.refused)),
        note=cells.words(outcome.note),
    )


def view_in_cells(view: View, outcome: Repair) -> View:
    """The *view* of an outcome with every place of a notebook in its cell."""
    cells = cells_of_repair(outcome)
    if not cells.notebooks:
        return view
    evidence = [
        replace(one, sites={role: with_spans(site, cells.span) for role, site in one.sites.items()})
        for one in view.evidence
    ]
    from autofix.report.view import story_of_finding

    findings = repair_in_cells(outcome).analysis.findings  # whose messages name lines of cells
    stories = [story_of_finding(one) for one in findings] or [with_spans(one, cells.span) for one in view.stories]
    return replace(
        view,
        stories=tuple(stories),
        sources={**view.sources, **cells.sources},
        certificate=_certificate(outcome, cells),
        refused=tuple(map(cells.words, view.refused)),
        note=cells.words(view.note),
        evidence=tuple(evidence),
    )


def _certificate(outcome: Repair, cells: Cells) -> Certificate | None:
    """The proof in the words of cells; in points on the patched script, lines count in the patched cells."""
    if outcome.certificate is None:
        return None
    name = outcome.project.file.name
    after = Cells(cells.notebooks, {name: outcome.analysis.patched}) if outcome.analysis.path == name else cells
    return proof_in_cells(outcome.certificate, cells, after)


def proof_in_cells(known: Certificate, before: Cells, after: Cells) -> Certificate:
    """The proof *known* in the words of the cells *before* and *after* the patch."""
    points = [
        replace(point, detail=(before if point.number == 1 else after).words(point.detail)) for point in known.points
    ]
    return replace(known, points=tuple(points), before=_record(known.before, before), after=_record(known.after, after))


def cells_of_file(file: SourceFile) -> Cells:
    """The cells of a *file*, if it is a notebook."""
    return Cells({} if file.notebook is None else {file.name: file.notebook}, {file.name: file.text})


def _record(run: RunRecord, cells: Cells) -> RunRecord:
    """The record of a run whose error names the cell and the line in the cell."""
    error = run.error
    name = next(iter(cells.layouts), "")  # one at most, whose path in the run is another
    if error is None or error.line is None or not name or not error.file.endswith(SUFFIX):
        return run
    file, line = cells.place((name, error.line))
    return replace(run, error=replace(error, file=file, line=line))


def span_of(problem: Problem) -> Span:
    """The place of a problem."""
    return Span(problem.name, problem.line, problem.column - 1, problem.line, problem.column - 1)
