"""``concise``: a line for each place of each finding, as compilers print them, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from autofix.escaping import escaped
from autofix.findings import Finding
from autofix.outcomes import Outcomes, in_order
from autofix.project.cells import cell_of
from autofix.report import lines
from autofix.report.base import Checked, Reporter
from autofix.report.counts import counted
from autofix.report.terminal import Printer


class Concise(Reporter):
    """Lines for people, editors and ``grep``."""

    counts: ClassVar[bool] = True

    def findings(self, told: Checked) -> None:
        printer = Printer(self.stream, colour=self.colour)
        left = in_order(told.left.findings)
        for finding in left:
            self.finding(printer, finding, told.left)
        if self.show_fixes:
            self.fixes(printer, told.found)
        if not self.quiet:
            self.summary(printer, told, left)

    def statistics(self, told: Checked) -> None:
        """Print a line for each code: how often, how often with a fix, code and name."""
        printer = Printer(self.stream, colour=self.colour)
        rows = counted(told.left.findings)
        width = max((len(str(row.count)) for row in rows), default=0)
        for row in rows:
            mark = ("[*] ", "cyan") if row.fixable == row.count else ("[-] ", "cyan") if row.fixable else "    "
            printer.line(f"{row.count:>{width}}  ", (row.code, "bold red"), "  ", mark, row.name)
        if not self.quiet:
            self.summary(printer, told, told.left.findings)

    def fixes(self, printer: Printer, found: Outcomes) -> None:
        """Print the mistakes that were repaired on disk, file by file."""
        for name in found.written:
            done = [one for one in found.findings if one.fixed and cell_of(one.cause.path)[0] == name]
            printer.line((name, "bold"), ":")
            for row in counted(done):
                printer.line(f"  {row.count} x ", (row.code, "bold red"), f" {row.name}")

    def finding(self, printer: Printer, finding: Finding, found: Outcomes) -> None:
        """Print the lines of one finding."""
        written = list(lines.finding_lines(finding))
        for line in written[:1] if self.quiet else written:
            printer.line(*line)
        if self.verbose and finding.remedy:
            told = f"{lines.when_fixed(finding)}: {finding.remedy}"
            printer.line((lines.location(finding.cause), "dim"), ": ", ("help", "cyan"), told)

    def summary(self, printer: Printer, told: Checked, left: Sequence[Finding]) -> None:
        """Print the closing line; verbose, the backward passes that were not followed before it."""
        found = told.found
        if self.verbose:
            for (name, line), reason in found.missed.items():
                self.tell(f"{escaped(name)}:{line}: this backward pass was not followed: {reason}")
        text = lines.summary(
            left,
            len(found.results),
            fixed=found.fixed,
            unread=told.asked - len(found.results) - found.passed_by,
            partly=sum(not result.analysis.complete for result in found.results),
            passes=found.passes,
            missed=len(found.missed),
            cells=sum(cell_of(problem.name)[1] is not None for problem in found.problems),
        )
        printer.line(text)


REPORTER = Concise
