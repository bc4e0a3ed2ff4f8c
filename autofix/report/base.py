"""The interface of an output format, and the outcome that each command hands to it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, NamedTuple

from autofix.escaping import escaped_lines
from autofix.outcomes import Outcomes

if TYPE_CHECKING:
    from autofix.edits import TextEdit
    from autofix.findings import Finding
    from autofix.proof.prove import Certificate
    from autofix.repair import Repair
    from autofix.report.view import View


class Checked(NamedTuple):
    """The outcome of ``check``."""

    found: Outcomes
    """Outcomes for the files as they were read."""
    left: Outcomes
    """Outcomes for the files as they are now; equal to ``found`` where nothing was written."""
    asked: int
    """Number of files that were to be read."""


@dataclass(frozen=True)
class Repaired:
    """The outcome of ``run``."""

    outcome: Repair
    view: View
    patch: bytes
    written: Sequence[str] = ()
    page: Path | None = None
    """Path of the page for the browser, where one was written."""
    repairs: Mapping[Finding, Sequence[TextEdit]] = field(default_factory=dict)
    """The edits that repair each finding."""

    @property
    def proved(self) -> bool:
        return self.outcome.certificate is not None and self.outcome.certificate.proved


class Proved(NamedTuple):
    """The outcome of ``prove``."""

    certificate: Certificate
    view: View | None = None
    """The view for a page; gathered only for a reporter that is ``pictured``."""
    page: Path | None = None


@dataclass
class Reporter:
    """One output format: overrides the method of each command that offers it."""

    stream: IO[str]
    quiet: bool = False
    verbose: bool = False
    fix: bool = False
    """Whether the user asked for the patch to be written."""
    colour: bool | None = None
    """Whether to write colours; by default where a terminal is written to."""
    show_fixes: bool = False
    """Whether to list the repaired mistakes."""

    counts: ClassVar[bool] = False
    """Whether it has a form for ``--statistics``."""
    pictured: ClassVar[bool] = False
    """Whether it draws the graph, which takes a run of its own where none has shown it."""

    def findings(self, told: Checked) -> None:
        """Report the findings of ``check``."""
        raise NotImplementedError

    def statistics(self, told: Checked) -> None:
        """Report how often ``check`` found each kind of mistake."""
        raise NotImplementedError

    def is_left(self, told: Checked) -> bool:
        """Whether this report of ``check`` leaves something to do for its reader."""
        return bool(told.left.findings)

    def read(self, early: Repair) -> None:
        """Called when ``run`` has read the source, and not executed it yet."""

    def shown(self, told: View) -> None:
        """Called when an execution by ``run`` has shown the cause, and no patch was tried yet."""

    def repair(self, told: Repaired) -> None:
        """Report the findings, the patch and the proof of ``run``."""
        raise NotImplementedError

    def proof(self, told: Proved) -> None:
        """Report the certificate of ``prove`` on a repair."""
        raise NotImplementedError

    def write_bytes(self, data: bytes) -> None:
        """Write *data* past the stream's encoding."""
        self.stream.flush()
        buffer = getattr(self.stream, "buffer", None)
        if buffer is None:  # a stream of text alone, as tests have it
            self.stream.write(data.decode(errors="replace"))
        else:
            buffer.write(data)

    def tell(self, message: str) -> None:
        """Print one message on standard error."""
        print(escaped_lines(message), file=sys.stderr, flush=True)  # noqa: T201
