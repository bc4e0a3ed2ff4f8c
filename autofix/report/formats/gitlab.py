"""``gitlab``: a Code Quality report, which GitLab shows in merge requests."""

from __future__ import annotations

import hashlib

from autofix.codemods.facts.base import Span
from autofix.outcomes import in_order
from autofix.report import documents, lines
from autofix.report.base import Checked, Reporter
from autofix.report.cells import span_of
from autofix.suppression.fingerprint import fingerprints

SEVERITIES = {"error": "major", "warning": "minor"}


class GitLab(Reporter):
    """One issue for each finding, and for each file that could not be checked."""

    def findings(self, told: Checked) -> None:
        issues: list[documents.Json] = []
        for finding, fingerprint in fingerprints(in_order(told.left.findings), told.left.sources):
            places = [f"{phrase}: {lines.location(span)}" for span, phrase in lines.other_places(finding)]
            issues.append(
                {
                    "description": f"{finding.code} {finding.message}",
                    "check_name": finding.code,
                    "fingerprint": fingerprint,
                    "severity": SEVERITIES[lines.level(finding)],
                    "location": location(told.left.in_file(finding.cause)),
                    "content": {"body": "\n".join(f"- {place}" for place in places)},
                }
            )
        for problem in told.found.problems:
            place = told.found.in_file(span_of(problem))
            issues.append(
                {
                    "description": problem.reason,
                    "check_name": "not-checked",
                    "fingerprint": hashlib.sha256(f"{problem.name}\0{problem.reason}".encode()).hexdigest()[:32],
                    "severity": "critical",
                    "location": {"path": place.path, "lines": {"begin": place.line}},
                }
            )
        self.stream.write(documents.render(issues) + "\n")


def location(span: Span) -> documents.Json:
    begin = {"line": span.line, "column": span.column + 1}
    end = {"line": span.end_line, "column": span.end_column + 1}
    return {"path": span.path, "positions": {"begin": begin, "end": end}}


REPORTER = GitLab
