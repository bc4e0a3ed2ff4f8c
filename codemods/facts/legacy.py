"""Names and keywords of earlier versions of PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autofix.codemods.facts.base import Fact, Span


@dataclass(frozen=True, kw_only=True)
class LegacyApi(Fact):
    """A call that PyTorch 2 no longer knows."""

    code = "AF700"
    kind = "legacy API"
    error = "invalid index of a 0-dim tensor"
    phrases = {"call": "this call is no longer in PyTorch 2"}

    call: Span
    name: str = ""

    @property
    def raised(self) -> str:
        return self.error if self.name.endswith("]") else ""  # what follows from the others depends on the script

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` no longer works in PyTorch 2"


@dataclass(frozen=True, kw_only=True)
class LegacyFunction(Fact):
    """An object of a ``torch.autograd.Function`` is called, as before PyTorch 0.4."""

    code = "AF710"
    kind = "legacy function"
    error = "Legacy autograd function with non-static forward"
    phrases: ClassVar[dict[str, str]] = {
        "call": "an object of a Function is called",
        "defined": "forward is a method of the object here",
    }

    call: Span
    defined: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` calls an object of an autograd Function, whose methods are static since PyTorch 1.5"


@dataclass(frozen=True, kw_only=True)
class OldKeyword(Fact):
    """An argument has a name that became a keyword of Python: the script does not parse."""

    code = "AF720"
    kind = "old keyword"
    error = "invalid syntax"
    phrases: ClassVar[dict[str, str]] = {"call": "a keyword since Python 3.7"}

    call: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` no longer parses: the name is a keyword of Python"
