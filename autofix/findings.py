"""Results of the static witness for a program: its findings, and the patched files.

Independent of the interpreter that finds them: a report of results from the cache need not load it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autofix.codemods.facts.base import Certainty, Fact, Role, Span
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.program import Program
from autofix.escaping import escaped


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
    """One mistake: the fact, the codemod that answers it, and whether the patch repairs it.

    Spans are in the coordinates of the files that were given.
    """

    code: str
    name: str
    fact: Fact
    fixed: bool
    """Whether the patched text of the analysis repairs it."""
    remedy: str
    """Effect of the patch, in one sentence; empty where no patch is known."""
    cause: Span
    """The place to look at first: the one that the patch changes, where it changes one of the story's places."""
    keeps: Keeps = Keeps.EDGES
    """Promise of the patch: the part of the training that it leaves as it was."""
    needs_review: bool = False
    """Whether a patch is known that was left out because the fact rests on a call whose source was not read."""
    others: tuple[Fact, ...] = field(default=(), compare=False, repr=False)
    """Further facts of this mistake: they share its cause, or are the mistake as another iteration meets it."""

    @property
    def message(self) -> str:
        """Description of the mistake on one line, without the control characters that a key or a name may hold."""
        return escaped(self.fact.message)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts of the mistake: ``fact``, then the ``others``."""
        return self.fact, *self.others

    @property
    def certainty(self) -> Certainty:
        return self.fact.certainty

    @property
    def safe(self) -> bool:
        """Whether its patch loses nothing, for certain: proved on the symbolic tape, with no call left unread."""
        return self.certainty is Certainty.CERTAIN

    def roles(self) -> Iterator[Role]:
        return self.fact.roles()


Place = tuple[str, int]
"""A file, as reports name it, and a line of it."""


@dataclass(frozen=True)
class Analysis:
    """Analysis of one program by the static witness: a script, and the files that it imports."""

    patch: Patch
    findings: tuple[Finding, ...]
    """Sorted by file and position of the cause."""
    complete: bool = True
    """False where the program is too large, or an expression of it too deep, to be read in full."""
    passes: frozenset[Place] = frozenset()
    """Every call that runs a backward pass, as file and line."""
    missed: Mapping[Place, str] = field(default_factory=dict)
    """Backward passes that no path reached, and the reason for each."""
    silenced: tuple[Finding, ...] = ()
    """Mistakes that the user does not want to hear of: neither among the findings nor repaired."""
    steps: tuple[Program, ...] = ()
    """The program after each repair; *rejected* ones for :func:`analyse` where an execution refused the patch."""

    @property
    def program(self) -> Program:
        """The program as it is."""
        return self.patch.program

    @property
    def repaired(self) -> Program:
        """The program after the patch; equal to ``program`` where nothing is to be done."""
        return self.patch.patched

    @property
    def path(self) -> str:
        """The script."""
        return self.program.path

    @property
    def source(self) -> str:
        """The script's text."""
        return self.program.files[0].text

    @property
    def patched(self) -> str:
        """The script's patched text."""
        return self.repaired.files[0].text

    @property
    def changes(self) -> bool:
        """Whether the patch changes anything, in any file."""
        return self.repaired != self.program


Silence = Callable[[Program, Sequence[Finding]], Collection[Finding]]
"""Function that picks the findings of a program that are to be neither reported nor repaired."""
