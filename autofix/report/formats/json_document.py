"""``json``: one document, in the form that README.md describes under "JSON"."""

from __future__ import annotations

from autofix.report import documents
from autofix.report.base import Checked, Proved, Repaired, Reporter


class Json(Reporter):
    """Everything that was found, for a program."""

    def findings(self, told: Checked) -> None:
        self._write(documents.check_document(told.found))

    def repair(self, told: Repaired) -> None:
        self._write(documents.repair_document(told))

    def proof(self, told: Proved) -> None:
        self._write(documents.prove_document(told.certificate))

    def _write(self, document: object) -> None:
        self.stream.write(documents.render(document) + "\n")


REPORTER = Json
