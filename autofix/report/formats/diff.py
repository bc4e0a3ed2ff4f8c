"""``--diff``: the patch alone, as bytes, for a program to take."""

from __future__ import annotations

from autofix.escaping import escaped_lines
from autofix.report import story
from autofix.report.base import Checked, Repaired, Reporter


class Diff(Reporter):
    """One patch for all files.  ``run`` hands out only a proved patch."""

    def findings(self, told: Checked) -> None:
        self.patch(told.found.patch())

    def is_left(self, told: Checked) -> bool:
        return bool(told.found.edits)

    def repair(self, told: Repaired) -> None:
        """Print the patch; without a proof, the reason on standard error instead."""
        certificate = told.outcome.certificate
        if certificate is not None and certificate.proved:
            self.patch(told.patch)
            return
        closing = "".join(piece if isinstance(piece, str) else piece[0] for piece in story.closing(certificate))
        self.tell(" ".join(filter(None, [closing, told.outcome.note])))

    def patch(self, data: bytes) -> None:
        """Write a patch: byte for byte to a program, and without control characters to a terminal."""
        if self.stream.isatty():
            self.stream.write(escaped_lines(data.decode(errors="replace")))
        else:
            self.write_bytes(data)


REPORTER = Diff
