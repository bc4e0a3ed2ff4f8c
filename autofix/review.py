"""Review of patches hunk by hunk, with the reason for each, as ``git add -p`` does it.

Only what was accepted is written, and what was accepted always parses: hunks that would not alone are shown and
decided together, and a hunk is split only into parts that would.  Reads answers from standard input, a terminal or a
pipe; its end means quit.
"""

from __future__ import annotations

import ast
import sys
import warnings
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from unidiff.patch import Hunk

from autofix.checking import Edit, Problem
from autofix.codemods.source.program import with_spans
from autofix.edits import attribute
from autofix.findings import Finding
from autofix.patch import CARRIER, Change, apply, changed_lines, hunks_of
from autofix.project import files
from autofix.project.cells import cell_of
from autofix.report.cells import Cells
from autofix.report.lines import count, location
from autofix.report.terminal import Printer

HELP = """\
y - apply this hunk
n - do not apply it
a - apply this hunk and all later ones in the file
d - apply neither this hunk nor any later one in the file
s - split this hunk into smaller ones
q - quit: apply neither this hunk nor any later one; what was accepted stays accepted
? - print this help"""


class Answer(Enum):
    YES = "y"
    NO = "n"
    ALL = "a"
    DONE = "d"
    SPLIT = "s"
    QUIT = "q"


@dataclass(frozen=True)
class Unit:
    """Unit of one decision: a hunk, a part of one, or several hunks that leave a file that parses only together."""

    title: str
    changes: tuple[Hunk, ...]
    """Without context, so that any of them can be applied without its neighbours."""
    findings: tuple[Finding, ...]
    """The mistakes that it repairs, or helps to repair."""
    size: int = 1
    """Number of announced hunks that it stands for."""


class Reviewer:
    """Asks about every hunk of every patch."""

    def __init__(self, printer: Printer, *, quiet: bool = False) -> None:
        self.printer = printer
        self.quiet = quiet
        self.stopped = False
        self.is_refused = False
        """Whether some hunk was not accepted, or not asked about."""

    def review(self, edits: Iterable[Edit], findings: Sequence[Finding]) -> Iterator[Problem]:
        """Review each of *edits* and write the accepted hunks.  Yields a problem for each file that cannot be."""
        for edit in edits:
            if self.stopped:
                self.is_refused = True
                return
            try:
                self.review_file(edit, [one for one in findings if one.fixed and one.cause.path == edit.file.name])
            except files.FileError as error:
                yield Problem.of(error)

    def review_file(self, edit: Edit, findings: Sequence[Finding]) -> None:
        file = edit.file
        after = files.check_result(file, edit.text)
        if file.notebook is None:
            change = Change(file.name, file.data, after)
        else:  # a person decides about the lines of cells, not about those of JSON
            change = Change(file.name, file.text.encode(), edit.text.encode())
        units = divide(change, findings)
        accepted = self.ask_all(file, change, units)
        self.is_refused = self.is_refused or len(accepted) < len(units)
        if not accepted:
            return
        data = patched(change, accepted)
        files.write(edit.path, file, data.removeprefix(BOM_UTF8).decode(file.encoding))
        applied, total = (sum(unit.size for unit in some) for some in (accepted, units))
        self.printer.line(f"{file.name}: applied {applied} of {count(total, 'hunk')}.")
        for finding in half_done(units, accepted):
            where = location(cells_of(file).span(finding.cause))
            self.printer.line((where, "bold"), f": {finding.code} is repaired in part only")

    def ask_all(self, file: files.SourceFile, change: Change, units: list[Unit]) -> list[Unit]:
        """Return the units that the user accepts.  A unit that is split is replaced in *units* by its parts."""
        accepted: list[Unit] = []
        answer = Answer.NO
        place = 0
        while place < len(units):
            unit = units[place]
            if answer is not Answer.ALL:
                parts = split(change, unit)
                self.show(file, change, unit, units)
                answer = self.ask(unit, can_split=len(parts) > 1)
                if answer is Answer.SPLIT:
                    units[place : place + 1] = parts
                    continue
            if answer in (Answer.DONE, Answer.QUIT):
                self.stopped = answer is Answer.QUIT
                break
            if answer in (Answer.YES, Answer.ALL):
                if parses(patched(change, [*accepted, unit])):
                    accepted.append(unit)
                else:
                    self.printer.line(f"Not applied: with {unit.title} the file would not parse.")
            place += 1
        return accepted

    def show(self, file: files.SourceFile, change: Change, unit: Unit, units: Sequence[Unit]) -> None:
        self.printer.line((f"{file.name}: {unit.title}", "bold"))
        for finding in unit.findings if not self.quiet else ():
            told = with_spans(finding, cells_of(file).span)
            cause = told.cause
            cell = f" cell {number}," if (number := cell_of(cause.path)[1]) else ""
            self.printer.line((finding.code, "bold red"), f"{cell} line {cause.line}: {told.message}")
            if finding.remedy:
                self.printer.line("  ", finding.remedy)
            others = [other.title for other in units if other is not unit and finding in other.findings]
            if others:
                self.printer.line(f"  belongs together with {', '.join(others)}: one fix for all")
        if unit.size > 1:
            self.printer.line("  to be decided together: one without the others would leave a file that does not parse")
        for hunk in hunks_of(Change(change.name, change.before, patched(change, [unit]))):
            self.printer.patch(str(hunk).encode(CARRIER).decode(file.encoding, "replace"))

    def ask(self, unit: Unit, *, can_split: bool) -> Answer:
        what = "this hunk" if unit.size == 1 else "these hunks"
        while True:
            self.printer.stream.write(f"Apply {what} [y,n,a,d,{'s,' if can_split else ''}q,?]? ")
            self.printer.stream.flush()
            line = sys.stdin.readline()
            if not sys.stdin.isatty():
                self.printer.line(line.strip())
            if not line:
                return Answer.QUIT
            letter = line.strip().lower()[:1]
            if letter == Answer.SPLIT.value and not can_split:
                self.printer.line("This hunk cannot be split.")
            elif letter in {answer.value for answer in Answer}:
                return Answer(letter)
            else:
                self.printer.line(HELP)


def cells_of(file: files.SourceFile) -> Cells:
    """The cells of a file that is a notebook; none of any other."""
    return Cells({} if file.notebook is None else {file.name: file.notebook}, {file.name: file.text})


def divide(change: Change, findings: Sequence[Finding]) -> list[Unit]:
    """Cut a change into the smallest runs of hunks that leave a file that parses, and find the reasons for each."""
    changes = hunks_of(change, context=0)
    hunks: list[list[Hunk]] = []
    for hunk in hunks_of(change):
        end = hunk.source_start + hunk.source_length
        inside = [one for one in changes if one.source_start < end or not hunk.source_length]
        hunks.append(inside)
        changes = changes[len(inside) :]
    runs = runs_that_parse(change, hunks)
    flat = [tuple(one for hunk in run for one in hunk) for run in runs]
    units = []
    number = 1
    for run, found in zip(runs, attribute(touched_by(flat), findings, change.name), strict=True):
        title = f"hunk {number}" if len(run) == 1 else f"hunks {number} to {number + len(run) - 1}"
        units.append(Unit(title, tuple(one for hunk in run for one in hunk), found, len(run)))
        number += len(run)
    return units


def split(change: Change, unit: Unit) -> list[Unit]:
    """Cut *unit* into the smallest parts that leave a file that parses; itself alone where there are none."""
    runs = runs_that_parse(change, [[one] for one in unit.changes])
    if len(runs) == 1:
        return [unit]
    flat = [tuple(one for hunk in run for one in hunk) for run in runs]
    reasons = attribute(touched_by(flat), unit.findings, change.name)
    titles = [f"{unit.title}, part {number} of {len(runs)}" for number in range(1, len(runs) + 1)]
    return [Unit(*parts) for parts in zip(titles, flat, reasons, strict=True)]


def runs_that_parse(change: Change, hunks: Sequence[list[Hunk]]) -> list[list[list[Hunk]]]:
    """Return *hunks* in the shortest runs that leave a file that parses when nothing else is applied."""
    runs = []
    start = 0
    while start < len(hunks):
        end = start + 1
        while end < len(hunks) and not parses(apply([one for hunk in hunks[start:end] for one in hunk], change.before)):
            end += 1
        runs.append(list(hunks[start:end]))
        start = end
    return runs


def touched_by(runs: Sequence[Sequence[Hunk]]) -> list[list[int]]:
    """The lines that each of *runs* changes."""
    return [sorted(line for hunk in run for line in changed_lines(hunk)) for run in runs]


def half_done(units: Sequence[Unit], accepted: Sequence[Unit]) -> Iterator[Finding]:
    """Yield the findings of whose hunks some were accepted and some refused."""
    done = {finding for unit in accepted for finding in unit.findings}
    open_ = {finding for unit in units if unit not in accepted for finding in unit.findings}
    yield from sorted(done & open_, key=lambda finding: finding.cause)


def patched(change: Change, units: Sequence[Unit]) -> bytes:
    """Return the file with just these *units* applied, which are given in order."""
    return apply([one for unit in units for one in unit.changes], change.before)


def parses(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError):
            return False
    return True
