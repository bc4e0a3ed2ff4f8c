"""``rdjson``: reviewdog's diagnostic format, with the patch as suggestions.  Its columns count bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Mapping

from autofix import __version__
from autofix.codemods.facts.base import Span
from autofix.outcomes import in_order
from autofix.report import documents, lines
from autofix.report.base import Checked, Reporter
from autofix.report.cells import span_of
from autofix.report.view import source_lines


class RdJson(Reporter):
    """One diagnostic for each finding, and for each file that could not be checked."""

    def findings(self, told: Checked) -> None:
        sources, repairs, in_file = told.left.sources, told.left.repairs, told.left.in_file
        diagnostics: list[documents.Json] = []
        for finding in in_order(told.left.findings):
            diagnostics.append(
                {
                    "message": finding.message,
                    "location": location(in_file(finding.cause), sources),
                    "severity": lines.level(finding).upper(),
                    "code": {"value": finding.code},
                    "suggestions": [
                        {"range": range_of(edit.span, sources), "text": edit.text}
                        for edit in repairs.get(finding, ())
                        if edit.span.path == finding.cause.path == in_file(finding.cause).path
                    ],
                    "relatedLocations": [
                        {"message": phrase, "location": location(in_file(span), sources)}
                        for span, phrase in lines.other_places(finding)
                    ],
                }
            )
        for problem in told.found.problems:
            span = told.found.in_file(span_of(problem))
            place = {"path": span.path, "range": {"start": {"line": span.line, "column": span.column + 1}}}
            diagnostics.append({"message": problem.reason, "location": place, "severity": "ERROR"})
        source = {"name": "autofix", "url": f"https://pypi.org/project/torch-autofix/{__version__}/"}
        self.stream.write(documents.render({"source": source, "severity": "ERROR", "diagnostics": diagnostics}) + "\n")


def location(span: Span, sources: Mapping[str, str]) -> documents.Json:
    return {"path": span.path, "range": range_of(span, sources)}


def range_of(span: Span, sources: Mapping[str, str]) -> documents.Json:
    written = source_lines(sources.get(span.path, ""))

    def position(line: int, column: int) -> documents.Json:
        text = written[line - 1] if line <= len(written) else ""
        return {"line": line, "column": len(text[:column].encode("utf-8", "surrogatepass")) + 1}

    return {"start": position(*span.start), "end": position(*span.end)}


REPORTER = RdJson
