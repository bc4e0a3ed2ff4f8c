"""``json-lines``: a line for each finding and each file that could not be checked, for streams and for ``jq``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from autofix.outcomes import in_order
from autofix.report import documents
from autofix.report.base import Checked, Reporter


class JsonLines(Reporter):
    """The objects of ``json``, each with its ``type``."""

    def findings(self, told: Checked) -> None:
        for one in self._objects(told):
            self.stream.write(json.dumps(documents.finite(one), allow_nan=False) + "\n")

    def _objects(self, told: Checked) -> Iterator[Mapping[str, object]]:
        found = told.found
        repairs = found.repairs
        for finding in in_order(found.findings):
            yield {"type": "finding", **documents.finding_object(finding, repairs.get(finding, ()), found.written)}
        for problem in found.problems:
            yield {"type": "problem", **documents.problem_object(problem)}


REPORTER = JsonLines
