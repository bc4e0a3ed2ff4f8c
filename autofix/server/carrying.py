"""Carries a report over to a text that was edited since, where one path through the program is as before.

A whole analysis follows many paths, and takes longer than the time between two keystrokes.  Only the first path is
followed here, before and after the edit: where it shows the same graph, the same backward calls and the same mistakes
on the same statements, the last report is sent at once, with its lines moved.  The whole analysis comes behind, and
corrects the answer where another path shows something else.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial

from autofix.codemods.checks.known import Edge, Place
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.interpreter.entries import MODULE, entries
from autofix.codemods.interpreter.policy import Path
from autofix.codemods.source.edited import common_ends
from autofix.codemods.source.nodes import Nodes
from autofix.codemods.source.program import Program, split, with_spans
from autofix.codemods.source.sources import Sources, parse
from autofix.edits import TextEdit
from autofix.server.reports import Fix, Report

MOST_ENTRIES = 2
"""Functions that nobody calls of which the first path is followed; with more of them, a whole analysis is as good."""


@dataclass(frozen=True)
class Shift:
    """Shift of a text's lines by one edit, which replaced lines in the middle."""

    first: int
    """Lines before the edit."""
    old: int
    """Lines that were replaced."""
    new: int
    """Lines that took their place."""

    @classmethod
    def between(cls, before: list[str], after: list[str]) -> Shift:
        """The edit that leads from some lines to others."""
        first, last = common_ends(before, after)
        return cls(first, len(before) - first - last, len(after) - first - last)

    def line(self, line: int) -> int:
        """New number of a line (from 1); a replaced line keeps its number as far as the edit has as many new lines."""
        return line if line <= self.first + min(self.old, self.new) else line + self.new - self.old

    def touches(self, span: Span) -> bool:
        """Whether a span reaches into the replaced lines."""
        return span.line <= self.first + max(self.old, 1) and span.end_line > self.first

    def span(self, span: Span) -> Span:
        """*span* with the new numbers of its lines."""
        return replace(span, line=self.line(span.line), end_line=self.line(span.end_line))


@dataclass
class Known:
    """Last analysis of one document: its program as it was analysed as a whole, the report, and its first paths."""

    program: Program
    options: Hashable
    """All that decided on the report beside the program, in a form that can be compared."""
    report: Report
    is_settled: bool = False
    """Whether the report has all repairs."""
    _shown: dict[str, AnalysisResult] = field(default_factory=dict)

    def shown(self, entry: str) -> AnalysisResult:
        """Result of the first path from an entry."""
        if entry not in self._shown:
            self._shown[entry] = analyze(self.program, Path(entry=entry))
        return self._shown[entry]

    def prepare(self) -> None:
        """Follow the first paths, while nobody waits."""
        for entry in _entries(self.program):
            self.shown(entry)

    def carried(self, program: Program, options: Hashable) -> Report | None:
        """The report, carried over to *program*; None where *program* must be analysed first."""
        known, text = self.program, program.files[0].text
        if (options, program.files[1:], program.roots) != (self.options, known.files[1:], known.roots):
            return None
        before, after = split(known.files[0].text), split(text)
        shift = Shift.between(before, after)
        gone, come = before[shift.first : shift.first + shift.old], after[shift.first : shift.first + shift.new]
        if any("autofix" in line or "noqa" in line.lower() for line in gone + come):
            return None
        moved = _moved(self.report, program.path, shift)
        if moved is None:
            return None
        in_string = any(start <= shift.first + shift.new and shift.first < end for start, end in _strings(text))
        if (in_string or not _is_comment(gone + come)) and not self._shows_the_same(program, shift):
            return None
        return replace(moved, texts={**self.report.texts, program.path: text})

    def _shows_the_same(self, program: Program, shift: Shift) -> bool:
        now = _entries(program)
        if not now or now != _entries(self.program):
            return False
        return all(_same(self.shown(entry), analyze(program, Path(entry=entry)), shift) for entry in now)


def _entries(program: Program) -> list[str]:
    """Entries at which the paths of a program begin; none where there are too many to follow one of each."""
    found = [entry for entry, _ in entries(Sources(program))]
    if MODULE in found:
        return [MODULE]  # functions that it does not call are left to the whole analysis
    return found if len(found) <= MOST_ENTRIES else []


def _is_comment(lines: list[str]) -> bool:
    """Whether lines are blank or hold a comment alone, unless they are within a string."""
    return all(line.strip()[:1] in ("", "#") for line in lines)


def _strings(text: str) -> list[tuple[int, int]]:
    """The first and last lines of the strings of a source that go over several lines."""
    found = parse(text).nodes.once(_long_strings)
    return [(node.lineno, node.end_lineno or node.lineno) for node in found]


def _long_strings(nodes: Nodes) -> list[ast.expr]:
    kinds = (ast.Constant, ast.JoinedStr)
    return [node for node in nodes.all if isinstance(node, kinds) and (node.end_lineno or 0) > node.lineno]


def _same(before: AnalysisResult, after: AnalysisResult, shift: Shift) -> bool:
    """Whether two paths show the same, the first one's lines being shifted."""
    line = shift.line
    return (
        before.complete
        and after.complete
        and [_key(fact, shift) for fact in before.facts] == [_key(fact, None) for fact in after.facts]
        and {_edge(edge, shift) for edge in before.edges} == set(after.edges)
        and {(line(at), name) for at, name in before.trained} == after.trained
        and {(line(at), name) for at, name in before.once} == after.once
        and {line(at) for at in before.rootless} == after.rootless
        and {line(at) for at in before.passes} == after.passes
        and {line(at) for at in before.written} == after.written
        and {(line(one.line), one.reason) for one in before.missed} == {(one.line, one.reason) for one in after.missed}
    )


def _key(fact: Fact, shift: Shift | None) -> Hashable:
    """Key of a fact, equal for facts with the same story."""
    places = [(role.name, role.span.line) for role in fact.roles()]
    return (type(fact), *((name, shift.line(line) if shift is not None else line) for name, line in places))


def _edge(edge: Edge, shift: Shift) -> Edge:
    return edge._replace(
        line=shift.line(edge.line), consumer=_place(edge.consumer, shift), producer=_place(edge.producer, shift)
    )


def _place(place: Place, shift: Shift) -> Place:
    calls = tuple((shift.line(line), rank, name) for line, rank, name in place.calls)
    return place._replace(line=shift.line(place.line), calls=calls)


def _moved(report: Report, path: str, shift: Shift) -> Report | None:
    """A report with the places of the file *path* where they are now; None where the edit touches one of them."""
    spans = [role.span for one in report.findings for role in one.roles() if role.name != "loop"]
    spans += [one.cause for one in report.findings]
    edits = [edit for fixes in report.fixes.values() for fix in fixes for edit in fix.edits]
    spans += [edit.span for edit in (*edits, *report.all_safe)]
    if any(span.path == path and shift.touches(span) for span in spans):
        return None
    found = {one: with_spans(one, partial(_span, path=path, shift=shift)) for one in report.findings}
    return replace(
        report,
        findings=tuple(found.values()),
        fixes={found[one]: tuple(_fix(fix, path, shift) for fix in fixes) for one, fixes in report.fixes.items()},
        all_safe=tuple(_edit(edit, path, shift) for edit in report.all_safe),
    )


def _fix(fix: Fix, path: str, shift: Shift) -> Fix:
    return replace(fix, edits=tuple(_edit(edit, path, shift) for edit in fix.edits))


def _edit(edit: TextEdit, path: str, shift: Shift) -> TextEdit:
    if edit.span.path != path:
        return edit
    return replace(edit, span=shift.span(edit.span), lines=tuple(map(shift.line, edit.lines)))


def _span(span: Span, path: str, shift: Shift) -> Span:
    return shift.span(span) if span.path == path else span
