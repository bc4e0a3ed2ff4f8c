"""``--diff``: the patch alone, as bytes, for a program to take."""

from __future__ import annotations

from autofix.report import story
from autofix.report.base import Checked, Repaired, Reporter


class Diff(Reporter):
    """One patch for all files.  ``run`` hands out only what is proved."""

    def findings(self, told: Checked) -> None:
        self.write_bytes(told.found.patch())

    def is_left(self, told: Checked) -> bool:
        return bool(told.found.edits)

    def repair(self, told: Repaired) -> None:
        """Print the patch; without a proof, the reason on standard error instead."""
        certificate = told.outcome.certificate
        if certificate is not None and certificate.proved:
            self.write_bytes(told.patch)
            return
        closing = "".join(piece if isinstance(piece, str) else piece[0] for piece in story.closing(certificate))
        self.tell(" ".join(filter(None, [closing, told.outcome.note])))


REPORTER = Diff
