"""``concise``: a line for each place of each finding, as compilers print them, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from autofix.engine import Finding
from autofix.escaping import escaped
from autofix.outcomes import Outcomes, in_order
from autofix.report import lines
from autofix.report.base import Checked, Reporter
from autofix.report.terminal import Printer


class Concise(Reporter):
    """Lines for people, editors and ``grep``."""

    def findings(self, told: Checked) -> None:
        printer = Printer(self.stream, colour=self.colour)
        left = in_order(told.left.findings)
        for finding in left:
            self.finding(printer, finding, told.left)
        if not self.quiet:
            self.summary(printer, told, left)

    def finding(self, printer: Printer, finding: Finding, found: Outcomes) -> None:
        """Print the lines of one finding."""
        written = list(lines.finding_lines(finding))
        for line in written[:1] if self.quiet else written:
            printer.line(*line)
        if self.verbose and finding.remedy:
            printer.line((lines.location(finding.cause), "dim"), ": ", ("help", "cyan"), f": {finding.remedy}")

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
            unread=told.asked - len(found.results),
            partly=sum(not result.analysis.complete for result in found.results),
            passes=found.passes,
            missed=len(found.missed),
        )
        printer.line(text)


REPORTER = Concise
