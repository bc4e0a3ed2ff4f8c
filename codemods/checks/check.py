"""One mistake of a program: its facts on a path, and the other paths and facts that rule these out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Fact
from autofix.codemods.interpreter.protocol import Interpreter


class Check:
    """The base of every check.

    An object serves one analysis: it keeps what the paths so far have shown of its mistake, beside the facts.
    """

    kinds: ClassVar[tuple[type[Fact], ...]]
    """The facts that it tells."""
    is_of_a_call: ClassVar[bool] = False
    """Whether the mistake is one of a call in itself, which fails whichever way leads there."""
    comes_first: ClassVar[bool] = False
    """Whether it is told of a path that ends before all others, too: see :meth:`ends`."""

    def facts(self, interp: Interpreter, known: Known) -> Iterator[Fact]:
        """Facts that one path shows."""
        raise NotImplementedError

    def extent(self) -> int:
        """Size of what is kept beside the facts: a path that leaves it unchanged showed nothing new."""
        return 0

    def doubted(self, fact: Fact, doubted: Fact) -> None:
        """Keep for a *doubted* fact what is known of the certain one."""

    def is_answered(self, fact: Fact, known: Known) -> bool:
        """Whether another path shows that there is no such mistake."""
        return False

    def ends(self, fact: Fact) -> bool:
        """Whether the mistake ends its path, long before others of the path can show."""
        return False

    def explains(self, fact: Fact, other: Fact) -> bool:
        """Whether the *other* fact shows only because of this one, behind the first failure."""
        return False

    def fuller(self, fact: Fact) -> Iterator[Fact]:
        """Fuller versions that this fact gives way to, where a path has shown them."""
        yield from ()

    def completed(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        """All *facts* that are left, those of this check with what they say of one another."""
        return facts
