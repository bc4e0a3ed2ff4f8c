"""Analyses one open document as ``autofix check`` would, with the unsaved texts of all in place of their files."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import click

from autofix import engine
from autofix.checking import Options, Problem, Result, analysed, check_file, layout_for
from autofix.choices import Choices, Plan
from autofix.codemods.source import sources
from autofix.codemods.source.program import Program, with_spans
from autofix.edits import TextEdit, edits_of, text_edits
from autofix.findings import Analysis, Finding
from autofix.outcomes import Outcomes, in_order
from autofix.project import files
from autofix.project.cells import SUFFIX
from autofix.project.disk import Disk, Inquiry
from autofix.project.gather import gather
from autofix.report.cells import Cells, in_cells
from autofix.server.carrying import Known
from autofix.server.reports import Fix, Report, Request

MOST_KNOWN = 16
"""Analyses that are kept, of all documents together."""
MOST_FIXES = 3
"""Repairs of one program that are offered beside each other."""


def load() -> None:
    """Import the modules that the first finding needs, so that it does not wait for them."""
    import autofix.codemods.repair
    import autofix.codemods.rules.registry

    autofix.codemods.rules.registry.all_codemods()
    gc.freeze()  # the modules stay, and need not be looked through between two keystrokes


class Overlay(Disk):
    """The disk with the texts of open documents in place of their files."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._texts = texts

    def listed(self, folder: str) -> Mapping[str, frozenset[str]]:
        """As :meth:`Disk.listed`, with the open documents that were never saved."""
        found = dict(super().listed(folder))
        for path in self._texts:
            parent, name = os.path.split(path)
            if parent == folder:
                stem = name.partition(".")[0]
                found[stem] = found.get(stem, frozenset()) | {name}
        return found

    def _read(self, path: Path, *, from_root: bool) -> files.SourceFile | files.FileError:
        text = self._texts.get(str(path))
        try:
            return super()._read(path, from_root=from_root) if text is None else source_file(str(path), text)
        except files.FileError as error:
            return error


def source_file(path: str, text: str) -> files.SourceFile:
    """A document's text as a file: an editor has decoded it already from any encoding on the disk.

    Raises :class:`autofix.project.files.FileError` for a notebook that cannot be read.
    """
    if path.endswith(SUFFIX):
        return files.decode(text.encode("utf-8", "surrogatepass"), path)
    return files.SourceFile(path, text.encode("utf-8", "surrogatepass"), text, "utf-8")


@dataclass
class Analyst:
    """Answers requests, and remembers the results for each document for the next one."""

    _known: list[Known] = field(default_factory=list)
    """The last one at the end."""

    def reports(self, request: Request) -> Iterator[Report]:
        """Yield reports on a document: a carried one at once, then the whole analysis, then one with all repairs."""
        opened = _opened(request)
        if isinstance(opened, Report):
            yield opened
            return
        path, file, options, disk = opened
        empty = Report(request.serial, request.path, request.version)
        program = _program(path, file, options, disk)
        if program is not None:
            same = next((one for one in self._known if (one.program, one.options) == (program, options)), None)
            early = same.report if same is not None else self._carried(program, options)
            if early is not None:
                yield replace(early, serial=request.serial, version=request.version)
            if same is not None and same.is_settled:
                self._known = [*(one for one in self._known if one is not same), same]
                return  # an edit was taken back, or a document that this one does not import has changed
        outcome = check_file(path, file, options, from_root=True, disk=disk)
        if isinstance(outcome, Problem):
            yield replace(empty, problems=(outcome,), texts={request.path: file.text})
            return
        report = _report(empty, outcome)
        yield report
        if program is None or not outcome.analysis.complete:
            return
        known = Known(program, options, report)
        self._known = [one for one in self._known if (one.program, one.options) != (program, options)]
        self._known = [*self._known[1 - MOST_KNOWN :], known]
        if any(one.fixed or one.needs_review for one in report.findings):
            known.report = _with_alternatives(report, outcome)
            yield known.report
        known.prepare()
        known.is_settled = True

    def _carried(self, program: Program, options: Options) -> Report | None:
        """Report of the document's last analysis, carried over to its text now, if a new one is likely to be equal."""
        before = [one for one in self._known if one.program.path == program.path]
        return before[-1].carried(program, options) if before else None


def _opened(request: Request) -> tuple[Path, files.SourceFile, Options, Inquiry] | Report:
    """The document of a request, the options and the disk for its analysis; a report where it is not analysed."""
    empty = Report(request.serial, request.path, request.version)
    path = Path(request.path)
    try:
        plan = Plan(Choices(force_exclude=True))
        if not plan.wanted([path]):
            return empty
        options = plan.options(path)
    except click.ClickException as error:
        return replace(empty, error=error.message)
    text = request.texts.get(request.path)
    if text is None:
        return empty
    try:
        file = source_file(request.path, text)
    except files.FileError as error:
        return replace(empty, problems=(Problem.of(error),))
    return path, file, options, Inquiry(Overlay(request.texts))


def _program(path: Path, file: files.SourceFile, options: Options, disk: Inquiry) -> Program | None:
    """The document with the files that it imports; None where it cannot be parsed as it is, and for a notebook."""
    if file.notebook is not None or not sources.parses(file.text):
        return None  # of a notebook, places move from cell to cell
    project = gather(path, file, from_root=True, layout=layout_for(path, options, disk.disk), disk=disk)
    return Program.of(file.text, file.name, project.others, project.roots)


def _report(empty: Report, outcome: Result) -> Report:
    """Report on a document, with the results of ``autofix check``."""
    told = Outcomes(tell=lambda _: None)
    told.add(outcome)
    told.add_unused()
    told = in_cells(told)
    findings = tuple(in_order(told.findings))
    fixes = {one: (Fix(one.remedy, edits, one.safe, True),) for one, edits in told.repairs.items() if edits}
    return replace(
        empty,
        findings=findings,
        problems=tuple(told.problems),
        fixes=fixes,
        all_safe=() if outcome.options.unsafe else _edits(outcome, outcome.analysis),
        texts=told.sources,
        companions=frozenset(outcome.project.companions),
        rules={code: rule_text(code) for code in sorted({one.code for one in findings})},
    )


def _with_alternatives(report: Report, result: Result) -> Report:
    """The report with the repairs that come after the first, and with repairs that are only likely to be right."""
    fixes = dict(report.fixes)
    safe = replace(result.options, unsafe=False)
    if result.options.unsafe:
        report = replace(report, all_safe=_edits(result, _again(result, safe)))
    rejected: set[Program] = set(result.analysis.steps)
    if any(one.needs_review for one in result.analysis.findings):
        rejected = set()
    for _ in range(MOST_FIXES - 1):
        found = _again(result, replace(result.options, unsafe=True), tuple(rejected))
        if not found.changes:
            break
        _add(fixes, report.findings, found, result)
        rejected |= set(found.steps)
    return replace(report, fixes=fixes)


def _again(result: Result, options: Options, rejected: Sequence[Program] = ()) -> Analysis:
    program = result.analysis.program
    if rejected:
        return engine.analyse(
            program.files[0].text,
            program.path,
            others={file.path: file.text for file in program.files[1:]},
            roots=program.roots,
            select=options.select,
            rejected=rejected,
            unsafe=options.unsafe,
            silence=options.silence,
        )
    return analysed(result.file.text, result.file.name, result.project.others, result.project.roots, options)


def _add(fixes: dict[Finding, tuple[Fix, ...]], known: Sequence[Finding], found: Analysis, result: Result) -> None:
    """Add the repairs of another analysis to the repairs of the *known* findings, matched by their stories."""
    cells = _cells(result)
    changed = replace(result, analysis=found).edits
    repairs = edits_of(changed, found.findings)
    for original, known_edits in repairs.items():
        other, edits = with_spans(original, cells.span), tuple(map(cells.edit, known_edits))
        own = next(
            (one for one in known if one.fact == other.fact or (one.code, one.cause) == (other.code, other.cause)), None
        )
        before = fixes.get(own, ()) if own is not None else ()
        if own is None or not edits or any(one.edits == edits for one in before):
            continue
        fixes[own] = (*before, Fix(other.remedy, edits, other.safe, not before and other.safe))


def _cells(result: Result) -> Cells:
    """The cells of the document, if it is a notebook."""
    notebook, texts = result.file.notebook, result.analysis.program.texts
    return Cells({} if notebook is None else {result.file.name: notebook}, texts)


def _edits(result: Result, analysis: Analysis) -> tuple[TextEdit, ...]:
    """Edits of the patch of an analysis, in all files."""
    cells = _cells(result)
    return tuple(
        cells.edit(edit)
        for path in analysis.patch.paths
        for edit in text_edits(analysis.program.texts[path], analysis.patch.of_file(path))
    )


@cache
def rule_text(code: str) -> str:
    """The page of ``autofix rule`` for a code, in Markdown."""
    from autofix.codemods.rules.registry import all_codemods
    from autofix.report import catalogue

    lines = [
        "".join(piece if isinstance(piece, str) else piece[0] for piece in line)
        for line in catalogue.page(code, all_codemods())
    ]
    if not lines:
        return ""
    title, *rest = lines
    return "\n".join([f"**{title}**", *(_paragraph(line) for line in rest)])


def _paragraph(line: str) -> str:
    """A line of the page: headings in bold, lines indented by four as running text, and deeper ones as code."""
    if line.endswith(":") and line[:1].isupper() and " " not in line.strip(":").strip():
        return f"**{line}**\n"
    return line.removeprefix("    ")
