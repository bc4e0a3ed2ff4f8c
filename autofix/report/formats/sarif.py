"""``sarif``: the Static Analysis Results Interchange Format 2.1.0, with fixes, for code scanning."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from autofix import __version__
from autofix.checking import Problem
from autofix.codemods.facts.base import Span
from autofix.edits import TextEdit
from autofix.findings import Finding
from autofix.outcomes import Outcomes, in_order
from autofix.project.cells import cell_of
from autofix.report import documents, lines
from autofix.report.base import Checked, Reporter
from autofix.report.cells import span_of
from autofix.report.documents import Json
from autofix.report.view import story_of_finding
from autofix.suppression.fingerprint import fingerprints

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "autofix/v1"


class Sarif(Reporter):
    """One run with a result for each finding; its story is the result's code flow."""

    def findings(self, told: Checked) -> None:
        left = in_order(told.left.findings)
        names = sorted({finding.code: finding for finding in left}.items())
        index = {code: number for number, (code, _) in enumerate(names)}
        repairs = told.left.repairs
        run: Json = {
            "tool": {
                "driver": {
                    "name": "autofix",
                    "version": __version__,
                    "informationUri": "https://pypi.org/project/torch-autofix/",
                    "rules": rules([finding for _, finding in names]),
                }
            },
            "columnKind": "unicodeCodePoints",
            "invocations": [
                {
                    "executionSuccessful": not told.found.problems,
                    "toolExecutionNotifications": [
                        notification(problem, told.found) for problem in told.found.problems
                    ],
                }
            ],
            "results": [
                result(finding, fingerprint, index[finding.code], repairs.get(finding, ()), told.left)
                for finding, fingerprint in fingerprints(left, told.left.sources)
            ],
        }
        self.stream.write(documents.render({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n")


def rules(findings: Sequence[Finding]) -> list[Json]:
    """A description of the rule of each of *findings*, which have different ones."""
    if not findings:
        return []
    from autofix.codemods.rules.registry import all_codemods
    from autofix.report import catalogue

    known = all_codemods()
    described: list[Json] = []
    for finding in findings:
        page = list(catalogue.page(finding.code, known))
        text = "\n".join("".join(piece if isinstance(piece, str) else piece[0] for piece in line) for line in page)
        title = text.split("\n")[2] if text.count("\n") > 1 else finding.message
        described.append(
            {
                "id": finding.code,
                "name": finding.name,
                "shortDescription": {"text": title},
                "help": {"text": text or finding.message},
                "defaultConfiguration": {"level": lines.level(finding)},
                "properties": {"tags": ["pytorch", "autograd"]},
            }
        )
    return described


def result(finding: Finding, fingerprint: str, rule: int, edits: Sequence[TextEdit], left: Outcomes) -> Json:
    story = story_of_finding(finding)

    def location(span: Span, message: str = "", number: int | None = None) -> Json:
        return location_of(span, left, message, number)

    told: Json = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": lines.level(finding),
        "message": {"text": finding.message},
        "locations": [location(finding.cause)],
        "relatedLocations": [
            location(span, phrase, number) for number, (span, phrase) in enumerate(lines.other_places(finding), 1)
        ],
        "codeFlows": [
            {
                "threadFlows": [
                    {"locations": [{"location": location(place.span, place.phrase)} for place in story.places]}
                ]
            }
        ],
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "properties": {"certainty": finding.certainty.value},
    }
    if edits and all(cell_of(edit.span.path)[1] is None for edit in edits):
        told["fixes"] = [fix(finding, edits)]
    return told


def fix(finding: Finding, edits: Iterable[TextEdit]) -> Json:
    changes: list[Json] = []
    for path, own in groupby(edits, lambda edit: edit.span.path):
        pieces = [{"deletedRegion": region(edit.span), "insertedContent": {"text": edit.text}} for edit in own]
        changes.append({"artifactLocation": {"uri": uri(path)}, "replacements": pieces})
    safety = "safe" if finding.safe else "unsafe"
    return {"description": {"text": f"{finding.remedy} ({safety})"}, "artifactChanges": changes}


def location_of(span: Span, left: Outcomes, message: str = "", number: int | None = None) -> Json:
    """A place in its file; of a cell of a notebook, its place there as well."""
    own = left.in_file(span)
    told: Json = {"physicalLocation": {"artifactLocation": {"uri": uri(own.path)}, "region": region(own)}}
    if own != span:
        told["logicalLocations"] = [{"fullyQualifiedName": lines.location(span), "kind": "module"}]
    if message:
        told["message"] = {"text": message}
    return told if number is None else {"id": number} | told


def region(span: Span) -> Json:
    return {
        "startLine": span.line,
        "startColumn": span.column + 1,
        "endLine": span.end_line,
        "endColumn": span.end_column + 1,
    }


def notification(problem: Problem, found: Outcomes) -> Json:
    place = location_of(span_of(problem), found)
    return {"level": "error", "message": {"text": problem.reason}, "locations": [place]}


def uri(path: str) -> str:
    """*path* as a reference: relative to the root of the sources, or of a file elsewhere."""
    if os.path.isabs(path):
        return Path(path).as_uri()
    return quote(path.replace(os.sep, "/"))


REPORTER = Sarif
