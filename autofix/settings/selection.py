"""Codes and names of mistakes, as ``--select``, ``--ignore`` and comments give them: whole ones, or how they begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

UNUSED_IGNORE = ("AF001", "unused-ignore")
"""Code and name of a comment that suppresses nothing."""


class UnknownCode(Exception):
    """A pattern that is the beginning of no code and of no name; its text says so, and names the nearest one."""

    def __init__(self, pattern: str) -> None:
        near = get_close_matches(normal(pattern), known().values(), 1)  # a code like another one is a guess
        hint = f"did you mean `{near[0]}`?" if near else "`autofix rule` lists them all"
        super().__init__(f"no code or name of a mistake begins with `{pattern}`; {hint}")


@cache
def known() -> dict[str, str]:
    """The names of everything that ``check`` can report, by code."""
    from autofix.codemods.facts.kinds import OF_CODES, name_of
    from autofix.codemods.rules.registry import names

    kinds = {kind.code: name_of(kind) for kind in OF_CODES}
    code, name = UNUSED_IGNORE
    return {code: name, **kinds, **names()}


def matches(pattern: str, code: str, name: str) -> bool:
    """Whether *pattern* is a code or a name, or the beginning of one."""
    wanted = normal(pattern)
    return bool(wanted) and (code.lower().startswith(wanted) or name.startswith(wanted))


def normal(pattern: str) -> str:
    return pattern.strip().lower().replace("_", "-").replace(" ", "-")


def split(patterns: Iterable[str]) -> Iterator[str]:
    """Yield the single patterns of options that hold several, separated by commas."""
    for option in patterns:
        yield from (one.strip() for one in option.split(",") if one.strip())


def codes_of(pattern: str) -> dict[str, int]:
    """The codes that *pattern* stands for, each with how closely it names it.  Raises :class:`UnknownCode`."""
    wanted = normal(pattern)
    exact = {code for code, name in known().items() if wanted in (code.lower(), name)}
    if exact:
        return dict.fromkeys(exact, 1000)
    found = {code: len(wanted) for code, name in known().items() if matches(wanted, code, name)}
    if not found and wanted != "all":
        raise UnknownCode(pattern)
    return found or dict.fromkeys(known(), 0)


@dataclass(frozen=True)
class Selection:
    """Choice of codes: the *selected* ones, less the *ignored* ones; where both name a code, the closer name counts."""

    selected: tuple[str, ...] = ()
    """Patterns; without any, everything is."""
    extended: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def over(self, select: Sequence[str], extend: Sequence[str], ignore: Sequence[str]) -> Selection:
        """This selection as the command line changes it: with *select*, a new selection takes the place of this one."""
        if select:
            return Selection(tuple(select), tuple(extend), tuple(ignore))
        return Selection(self.selected, (*self.extended, *extend), (*self.ignored, *ignore))

    @property
    def select(self) -> tuple[str, ...] | None:
        """The codes that are looked for; None for all.  Raises :class:`UnknownCode`."""
        if not self.selected:
            for pattern in self.extended:
                codes_of(pattern)
            return None
        return tuple(sorted(_named((*self.selected, *self.extended))))

    @property
    def silent(self) -> tuple[str, ...]:
        """The codes that are looked for, but not reported.  Raises :class:`UnknownCode`."""
        if not self.ignored:
            return ()
        wanted = _named((*self.selected, *self.extended))
        ignored = _named(self.ignored)
        return tuple(sorted(code for code, close in ignored.items() if close >= wanted.get(code, 0)))


def _named(patterns: Iterable[str]) -> dict[str, int]:
    """The codes that *patterns* stand for, each with how closely the closest names it."""
    found: dict[str, int] = {}
    for pattern in patterns:
        for code, close in codes_of(pattern).items():
            found[code] = max(close, found.get(code, 0))
    return found
