"""``full``: the cause in its source, the story, the patch and the proof, for a person at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autofix.findings import Finding
from autofix.outcomes import Outcomes
from autofix.report import lines, story
from autofix.report.base import Proved, Repaired
from autofix.report.formats.concise import Concise
from autofix.report.story import Line
from autofix.report.terminal import Printer, wants_colour
from autofix.report.view import View, story_of_finding

if TYPE_CHECKING:
    from autofix.proof.prove import Certificate
    from autofix.repair import Repair


@dataclass
class Full(Concise):
    """Excerpts of source with the story of each mistake."""

    _shown: list[Line] = field(default_factory=list)
    """The story that was printed before any patch was tried."""

    def finding(self, printer: Printer, finding: Finding, found: Outcomes) -> None:
        """Print the cause underlined in its source, the other places, the fix, and how to learn more."""
        headline, *_ = lines.finding_lines(finding)
        printer.line(*headline)
        if self.quiet:
            return
        told = story_of_finding(finding)
        sources = found.sources
        for line in (
            *story.excerpt(told, sources, story.CONTEXT),
            *story.places(told, sources, everything=self.verbose),
        ):
            printer.line(*line)
        printer.line()
        if finding.remedy:
            printer.line(("  fix", "green"), f"{lines.when_fixed(finding)}: {finding.remedy}")
        printer.line(("  more", "cyan"), f": autofix rule {finding.code}")
        printer.line()

    def read(self, early: Repair) -> None:
        """Name the findings from reading the source, for a person who waits."""
        if self.quiet or not (wants_colour(sys.stderr) or self.verbose):
            return
        for finding in early.analysis.findings:
            self.tell(f"{lines.location(finding.cause)}: {finding.code} {finding.message} (read, not run yet)")

    def shown(self, told: View) -> None:
        """Tell the cause while patches are being tried."""
        if self.quiet or self._shown:
            return
        self._shown = list(story.tell(told, everything=self.verbose))
        self._print(self._shown)
        self.stream.flush()

    def repair(self, told: Repaired) -> None:
        """Print cause, patch and proof; the cause only where it was not shown before."""
        view, printer = told.view, Printer(self.stream, colour=self.colour)
        now = list(story.tell(replace(view, patch=""), everything=self.verbose))
        if not self.quiet and now != self._shown:  # where the patch alone has given it another name, the name alone
            self._print(now[:1] if now[1:] == self._shown[1:] else story.tell(view, everything=self.verbose))
        if view.patch:
            for remedy in view.remedies:
                printer.line(("fix", "green"), f": {remedy}")
            printer.patch(view.patch)
            printer.line()
        if view.certificate is not None:
            self._certificate(view.certificate)
        elif view.patch:
            printer.line(*story.closing(None))
        if self.verbose or not view.proved:
            self._print(story.refusals(view, everything=self.verbose))
        if view.note:
            printer.line(view.note)
        if told.written:
            printer.line(f"Wrote {', '.join(told.written)}.")
        elif told.proved and not self.fix and not self.quiet:
            printer.line("Nothing was written; --fix writes the patch.")
        self._page(told)

    def proof(self, told: Proved) -> None:
        self._certificate(told.certificate)
        self._page(told)

    def _certificate(self, certificate: Certificate) -> None:
        if not self.quiet:
            self._print((*story.proof_table(certificate), *story.remarks(certificate)))
        if self.verbose:
            self._print(story.runs(certificate))
        self._print([story.closing(certificate)])

    def _page(self, told: Repaired | Proved) -> None:
        if told.page is not None and not self.quiet:
            self._print([(f"The page is {told.page}.",)])

    def _print(self, told: Iterable[Line]) -> None:
        printer = Printer(self.stream, colour=self.colour)
        for line in told:
            printer.line(*line)


REPORTER = Full
