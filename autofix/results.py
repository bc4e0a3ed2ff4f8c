"""The results of the Python API: what ``autofix.check``, ``autofix.run`` and ``autofix.prove`` return.

Lines and columns count from 1, columns in code points, and an end is exclusive, as in the JSON documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Certainty = Literal["certain", "likely"]
Verdict = Literal["passed", "failed", "not proved", "does not apply"]


class AutofixError(Exception):
    """A call that cannot be answered: a wrong argument, unusable settings, a script that cannot be read or started."""


@dataclass(frozen=True)
class Place:
    """A piece of a file; ``path`` is relative to the working directory where the file lies below it.

    For a cell of a notebook, ``path`` is ``nb.ipynb:cell 4``, and lines count within the cell.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class StoryPlace:
    """One place of a finding's story: its role (``made``, ``kept``, ``freed``), and a phrase for what happens there."""

    role: str
    phrase: str
    place: Place
    cause: bool
    """Whether the finding is reported here."""


@dataclass(frozen=True)
class Edit:
    """A piece of a file, and the text that replaces it."""

    place: Place
    content: str


@dataclass(frozen=True)
class Finding:
    """One mistake."""

    code: str
    name: str
    message: str
    certainty: Certainty
    """``likely`` where it rests on a call whose source was not read."""
    place: Place
    """The cause."""
    story: tuple[StoryPlace, ...]
    fix: str
    """Effect of the repair, also of one that only ``unsafe_fixes=True`` makes; empty where none is known."""
    edits: tuple[Edit, ...]
    """The repair; it may change other files than the one in which the cause stands."""
    safe: bool
    """Whether there is a repair that loses nothing for certain."""
    needs_review: bool
    """Whether a repair is known that only ``unsafe_fixes=True`` makes."""
    fixed: bool = False
    """Whether the repair was written."""

    @property
    def fixable(self) -> bool:
        """Whether there is a repair."""
        return bool(self.edits)


@dataclass(frozen=True)
class Problem:
    """A file that could not be checked."""

    path: str
    line: int
    column: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.reason}"


@dataclass(frozen=True)
class CheckResult:
    """Result of ``autofix.check``: findings, problems, and one patch."""

    findings: tuple[Finding, ...]
    """Sorted by file and position."""
    problems: tuple[Problem, ...]
    files: int
    """Number of files that were read, not counting the files that they import."""
    patch: str
    """One unified diff for all files."""
    patched: Mapping[str, str] = field(default_factory=dict)
    """The texts of the files that the patch changes, by path, as it leaves them."""
    written: tuple[str, ...] = ()
    """The files that were written: none without ``fix=True``."""

    @property
    def clean(self) -> bool:
        """Whether every file was read and nothing was found."""
        return not self.findings and not self.problems


@dataclass(frozen=True)
class Point:
    """One of the six points of a proof."""

    number: int
    name: str
    verdict: Verdict
    detail: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution:
    """One run of a script."""

    outcome: str
    """``finished``, ``raised``, ``stopped``, ``timed out``, ``died`` or ``not started``."""
    error: str
    """The exception that ended it; empty where there was none."""
    error_line: int | None
    steps: int
    """Optimizer steps."""
    losses: tuple[float, ...]
    """One for each backward call that succeeded."""
    seconds: float


@dataclass(frozen=True)
class ProveResult:
    """Result of ``autofix.prove``: the verdict on a repair, by two runs."""

    proved: bool
    verdict: Verdict
    points: tuple[Point, ...]
    remarks: tuple[str, ...]
    """Differences of the runs from a start by the user: a part of the system that the sandbox left open, say."""
    before: Execution
    after: Execution


@dataclass(frozen=True)
class RunResult:
    """Result of ``autofix.run``: findings, patch, and proof."""

    findings: tuple[Finding, ...]
    patch: str
    """A unified diff; empty where no repair is known."""
    patched: Mapping[str, str]
    proof: ProveResult | None
    """None where there was nothing to prove."""
    fails: bool
    """Whether the script fails and no repair is known."""
    note: str
    """Further remark, in a sentence; or empty."""
    refused: tuple[str, ...]
    """Reasons why other repairs were not made."""
    written: tuple[str, ...] = ()
    """The files that were written: none without ``fix=True``, none without a proof."""

    @property
    def proved(self) -> bool:
        """Whether there is a repair and both runs prove it."""
        return self.proof is not None and self.proof.proved
