"""The base of every fact: places in the source, their roles, and the certainty of a witness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import ClassVar, Self


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """A piece of source text: ``path``, then start and exclusive end."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def start(self) -> tuple[int, int]:
        return self.line, self.column

    @property
    def end(self) -> tuple[int, int]:
        return self.end_line, self.end_column

    def contains(self, other: Span) -> bool:
        """Whether *other* lies inside this span (or equals it)."""
        return self.path == other.path and self.start <= other.start and other.end <= self.end


class Certainty(StrEnum):
    """Certainty of a witness; a fact that is ``LIKELY`` has a :class:`Doubt`."""

    CERTAIN = "certain"
    LIKELY = "likely"


class Doubt(StrEnum):
    """The reason why a fact is likely only."""

    UNREAD = "it rests on a call that was not read"
    SWITCH = "it depends on an option or a condition whose value is not known"
    GPUS = "it takes more than one GPU"
    RESET = "a function that resets it is handed on to code that was not read"
    HANDED = "code that was not read is taken to call the function for each batch"
    ENTERED = "its caller, which was not read, is taken to call it for each batch"


@dataclass(frozen=True, slots=True)
class Role:
    """One place in the story of a fact: what happened there, in one word and in one phrase."""

    name: str
    span: Span
    phrase: str


@dataclass(frozen=True, kw_only=True)
class Fact:
    """The base of every fact.  Fields that hold a :class:`Span` are its roles, in the order of the story."""

    code: ClassVar[str]
    kind: ClassVar[str]
    error: ClassVar[str]
    """A piece of the message that PyTorch raises; empty where it raises nothing."""
    phrases: ClassVar[dict[str, str]]

    certainty: Certainty = Certainty.CERTAIN
    reason: Doubt = field(default=Doubt.UNREAD, compare=False, metadata={"role": False})

    def doubted(self, reason: Doubt) -> Self:
        """The same fact, likely for this *reason*."""
        return replace(self, certainty=Certainty.LIKELY, reason=reason)

    @property
    def raised(self) -> str:
        """A piece of the message that this one leads to; empty where nothing is raised."""
        return self.error

    @property
    def doubt(self) -> str:
        """Why it is likely only, where it is."""
        return self.reason.value

    @property
    def cause(self) -> Span:
        """The span that a repair most likely changes: what a report names first."""
        raise NotImplementedError

    @property
    def message(self) -> str:
        """One sentence that says what goes wrong at the cause."""
        raise NotImplementedError

    @property
    def gist(self) -> str:
        """The message without lines, which move when others are inserted above them."""
        return self.message

    def roles(self) -> Iterator[Role]:
        for one in fields(self):
            span = getattr(self, one.name)
            if isinstance(span, Span) and one.metadata.get("role", True):
                calls = _CALLS.get(self.reason) if one.name == "loop" else None
                yield Role(one.name, span, calls or self.phrases[one.name])


_CALLS = {
    Doubt.HANDED: "across calls of the function that is handed over here",
    Doubt.ENTERED: "across calls of this method",
}
"""What stands for a loop that code which was not read runs, by the doubt of that."""
