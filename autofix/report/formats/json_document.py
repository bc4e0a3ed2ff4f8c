"""``json``: one document, in the form that README.md describes under "JSON"."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from autofix.report import documents
from autofix.report.base import Checked, Proved, Repaired, Reporter
from autofix.report.counts import counted


class Json(Reporter):
    """Everything that was found, for a program."""

    counts: ClassVar[bool] = True

    def findings(self, told: Checked) -> None:
        self._write(documents.check_document(told.found))

    def statistics(self, told: Checked) -> None:
        self._write([asdict(row) for row in counted(told.left.findings)])

    def repair(self, told: Repaired) -> None:
        self._write(documents.repair_document(told))

    def proof(self, told: Proved) -> None:
        self._write(documents.prove_document(told.certificate))

    def _write(self, document: object) -> None:
        self.stream.write(documents.render(document) + "\n")


REPORTER = Json
