"""What the static witness has to say of a program: its findings, and the patched files.

Knows nothing of how they are found, so that reports need none of the interpreter: results may come from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autofix.codemods.facts import Certainty, Fact, Role, Span
from autofix.codemods.proof import Keeps
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
    """What the patch does, in one sentence; empty where none is known."""
    cause: Span
    """The place to look at first: the one that the patch changes, where it changes one of the story's places."""
    keeps: Keeps = Keeps.EDGES
    """What the patch promises to leave as it was."""
    needs_review: bool = False
    """Whether a patch is known that was left out because the fact rests on a call whose source was not read."""
    others: tuple[Fact, ...] = field(default=(), compare=False, repr=False)
    """Further facts that it tells of: they share its cause, or are the mistake as another iteration sees it."""

    @property
    def message(self) -> str:
        """What is wrong, on one line and without control characters, which a key or a name may hold."""
        return escaped(self.fact.message)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts that it tells of."""
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
    """What the static witness has to say of one program: a script, and the files that it imports."""

    patch: Patch
    findings: tuple[Finding, ...]
    """Sorted by file and position of the cause."""
    complete: bool = True
    """False where the program is too large, or an expression of it too deep, to be read in full."""
    passes: frozenset[Place] = frozenset()
    """Every call that runs a backward pass, as file and line."""
    missed: Mapping[Place, str] = field(default_factory=dict)
    """Those of them that no path reached, and the reason."""
    silenced: tuple[Finding, ...] = ()
    """Mistakes that the user does not want to hear of: neither among the findings nor repaired."""
    steps: tuple[Program, ...] = ()
    """The program after each repair; what :func:`analyse` is told not to take again where an execution refused it."""

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
"""Which findings of a program are to be neither reported nor repaired."""
