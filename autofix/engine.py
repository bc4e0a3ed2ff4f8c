"""Source text in, findings and patched text out.  Pure: reads no file and runs nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from codemods.facts import Certainty, Fact, Role, Span


class SourceError(Exception):
    """A file that cannot be parsed: ``path``, ``line`` and ``column`` (both from 1) and the reason."""

    def __init__(self, path: str, line: int, column: int, reason: str) -> None:
        super().__init__(f"{path}:{line}:{column}: {reason}")
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason


@dataclass(frozen=True)
class Finding:
    """One mistake in one file: the fact, the codemod that answers it, and whether the patch repairs it.

    Spans are in the coordinates of the text that was given, also for a mistake that shows only once another is repaired.
    """

    code: str
    name: str
    fact: Fact
    fixed: bool
    """Whether the patched text of the analysis repairs it."""
    remedy: str
    """What the patch does, in one sentence; empty where there is none."""

    @property
    def message(self) -> str:
        return self.fact.message

    @property
    def certainty(self) -> Certainty:
        return self.fact.certainty

    @property
    def cause(self) -> Span:
        return self.fact.cause

    def roles(self) -> Iterator[Role]:
        return self.fact.roles()


@dataclass(frozen=True)
class Analysis:
    """What the static witness has to say of one file."""

    path: str
    source: str
    patched: str
    """Equal to ``source`` where nothing is to be done."""
    findings: tuple[Finding, ...]
    """Sorted by position of the cause."""


def analyse(source: str, path: str, *, select: Collection[str] | None = None) -> Analysis:
    """Find the mistakes in *source* and patch those that a symbolically proved rewrite repairs.

    ``select`` keeps only the codes that it names (a code or a prefix of one: ``AF1``).  Raises :class:`SourceError` where
    the text does not parse.
    """
    raise NotImplementedError
