"""The outcomes of one call, put together: findings once each, one patch for all files, and the writing of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from autofix.checking import Edit, Options, Problem, Result
from autofix.codemods.facts.base import Fact, Span
from autofix.exits import Exit
from autofix.findings import Finding, Place
from autofix.project import files
from autofix.project.cells import cell_of
from autofix.project.layout import names_from_root
from autofix.suppression.directives import directives_in
from autofix.suppression.unused import unused

if TYPE_CHECKING:
    from autofix.edits import TextEdit


class Outcomes:
    """Results of one call, put together, and its problems, which are reported as they come.

    A file that several scripts import is repaired once: later scripts see it as the earlier ones leave it.
    """

    def __init__(
        self,
        *,
        verbose: bool = False,
        tell: Callable[[str], None],
    ) -> None:
        self.verbose = verbose
        self.tell = tell
        self.results: list[Result] = []
        self.problems: list[Problem] = []
        self.findings: list[Finding] = []
        self.written: list[str] = []
        """Names of the files that were replaced."""
        self.passed_by = 0
        """Number of files that are sound but not written in Python: notebooks for other languages."""
        self._edits: dict[str, Edit] = {}
        self._told: dict[tuple[str, Span], Finding] = {}
        self._of_kinds: dict[tuple[type[Fact], Span], Finding] = {}
        self._read: dict[Finding, set[str]] = {}
        """Files of the programs that show a finding, by finding."""

    @property
    def edits(self) -> list[Edit]:
        """Every file that is to change, with its text after all repairs."""
        return [self._edits[name] for name in sorted(self._edits)]

    def add(self, outcome: Result | Problem) -> None:
        if isinstance(outcome, Problem):
            self._add_problem(outcome)
            return
        for problem in outcome.problems:
            self._add_problem(problem)
        result = self._after_others(outcome)
        self.results.append(result)
        for edit in result.edits:
            self._edits[edit.file.name] = edit.after(self._edits.get(edit.file.name))
        read = set(result.names)
        for finding in result.analysis.findings:
            self._read.setdefault(finding, set()).update(read)
            told = self._told_before(finding)
            if told is None:
                self.findings.append(finding)
            elif _rank(finding) > _rank(told):  # as another script leads to it, it is certain, or has a repair
                self.findings[self.findings.index(told)] = finding
                del self._told[told.code, told.cause]
            else:
                continue
            self._told[finding.code, finding.cause] = self._of_kinds[type(finding.fact), finding.cause] = finding

    def _told_before(self, finding: Finding) -> Finding | None:
        """The same mistake as another script leads to it: of one code, or of one kind where one has no repair."""
        told = self._told.get((finding.code, finding.cause))
        if told is not None:
            return told
        of_kind = self._of_kinds.get((type(finding.fact), finding.cause))
        return of_kind if of_kind is not None and _rank(of_kind) != _rank(finding) else None

    def _add_problem(self, problem: Problem) -> None:
        self.tell(str(problem))
        if problem.is_passed_by:
            self.passed_by += 1
            return
        self.problems.append(problem)
        if self.verbose and problem.trace:
            self.tell(problem.trace)

    def _after_others(self, result: Result) -> Result:
        texts = self._texts(result)
        return result.over(texts) if texts and result.analysis.findings else result

    def _texts(self, result: Result) -> dict[str, str]:
        """Current texts of those files of a result that earlier results changed, by name."""
        return {name: self._edits[name].text for name in result.names if name in self._edits}

    @property
    def missed(self) -> dict[Place, str]:
        """Backward passes that no path of any program reached, as file and line, and the reason for each."""
        reached = {place for one in self.results for place in one.analysis.passes - one.analysis.missed.keys()}
        missed = {place: reason for one in self.results for place, reason in one.analysis.missed.items()}
        return {place: missed[place] for place in sorted(missed) if place not in reached}

    @property
    def passes(self) -> int:
        """Number of backward passes that are written in the sources read."""
        return len({place for one in self.results for place in one.analysis.passes})

    @property
    def fixed(self) -> int:
        """Number of mistakes that were repaired on disk."""
        return sum(finding.fixed and cell_of(finding.cause.path)[0] in self.written for finding in self.findings)

    @property
    def repairs(self) -> dict[Finding, tuple[TextEdit, ...]]:
        """The edits that repair each finding."""
        from autofix.edits import edits_of  # only where they are shown

        return edits_of(self.edits, self.findings, self._read)

    @property
    def sources(self) -> dict[str, str]:
        """The texts that the findings' spans point into, by file."""
        texts = (one.analysis.program.texts for one in self.results)
        return {name: text for some in texts for name, text in some.items() if text}

    def in_file(self, span: Span) -> Span:
        """*span* in the coordinates of the file on the disk: unchanged here, see ``report/cells.py`` for notebooks."""
        return span

    def left(self, options: Callable[[Options], Options] = lambda same: same) -> Outcomes:
        """Return the outcomes for the files as they are now: positions move when lines above them change.

        *options* updates the options with which a file was read.
        """
        after = Outcomes(tell=lambda _: None)  # what could not be read was said before
        for result in self.results:
            texts = {name: text for name, text in self._texts(result).items() if name in self.written}
            if not texts:
                after.add(result)
                continue
            open_ones = [one for one in result.analysis.findings if not (one.fixed and one.cause.path in self.written)]
            is_commented = not result.is_brief and any(directives_in(name, text) for name, text in texts.items())
            after.add(result.over(texts, options(result.options)) if open_ones or is_commented else result.repaired)
        return after

    def add_unused(self) -> None:
        """Add a finding for each comment that suppresses nothing, once all files are there."""
        self.findings += [one for one in unused(self.results) if not self._is_silent(one)]

    def _is_silent(self, finding: Finding) -> bool:
        own = next(one for one in self.results if one.file.name == finding.cause.path)
        silence, select = own.options.silence, own.options.select
        if select is not None and not any(finding.code.startswith(code) for code in select):
            return True
        return silence is not None and bool(silence(own.analysis.program, [finding]))

    def patch(self) -> bytes:
        """Return one patch for all files that can take theirs."""
        return b"".join(part for _, part in self._parts())

    def patch_text(self) -> str:
        """The patch as text, each file's part in its encoding."""
        return "".join(part.decode(edit.file.encoding, "replace") for edit, part in self._parts())

    def _parts(self) -> Iterator[tuple[Edit, bytes]]:
        from autofix.patch import Change, patch  # only where there is a patch to show

        names = names_from_root([edit.path for edit in self.edits]) or [edit.file.name for edit in self.edits]
        for edit, name in zip(self.edits, names, strict=True):
            try:
                after = files.check_result(edit.file, edit.text)
            except files.FileError as error:
                self._refuse(error)
            else:
                yield edit, patch([Change(name, edit.file.data, after)])

    def _refuse(self, error: files.FileError) -> None:
        """Report, once, a file that cannot have its patch."""
        problem = Problem.of(error)
        if problem not in self.problems:
            self.add(problem)

    def write(self) -> None:
        for edit in self.edits:
            try:
                files.write(edit.path, edit.file, edit.text)
            except files.FileError as error:
                self._refuse(error)
            else:
                self.written.append(edit.file.name)

    def write_standard_output(self) -> None:
        """Write the patched text, or the original where that must not be written: an editor takes it for its buffer."""
        sys.stdout.flush()
        for result in self.results:
            try:
                data = files.check_result(result.file, result.analysis.patched)
            except files.FileError as error:
                self._refuse(error)
                data = result.file.data
            else:
                self.written.append(result.file.name)
            sys.stdout.buffer.write(data)

    def exit(self, code: Exit) -> Exit:
        """Return *code*, unless a problem asks for more."""
        if any(problem.trace for problem in self.problems):
            return Exit.FAILED
        return Exit.LEFT if self.problems else code


def _rank(finding: Finding) -> tuple[bool, bool]:
    """How much is known of a mistake: whether the patch repairs it, and whether there is a repair to look at."""
    return finding.fixed, bool(finding.remedy)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of reports: file by file, cell by cell, from the top down."""

    def place(finding: Finding) -> tuple[str, int, Span, str]:
        file, cell = cell_of(finding.cause.path)
        return file, cell or 0, finding.cause, finding.code

    return sorted(findings, key=place)
