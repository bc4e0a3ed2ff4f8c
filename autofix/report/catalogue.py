"""The catalogue of mistakes that ``autofix rule`` prints, from the docstrings of the codemods and of the facts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.kinds import OF_CODES, name_of
from autofix.suppression.unused import UnusedIgnore

if TYPE_CHECKING:
    from autofix.codemods.rules.base import Codemod
    from autofix.report.terminal import Piece

    Line = tuple[Piece, ...]

SECTIONS = ("Error", "Cause", "Fix", "When it is not what you want", "Source")
"""The parts of a codemod's docstring after its first line, in their order."""


@dataclass(frozen=True)
class Documentation:
    """A docstring taken apart: its first line, then its sections, each a paragraph or more."""

    title: str
    sections: dict[str, str]
    """Texts by heading.  Text under no heading has the heading ``""``."""


def documentation(documented: type[Codemod] | type[Fact]) -> Documentation:
    """Take a docstring apart."""
    title, _, rest = (inspect.getdoc(documented) or "").partition("\n")
    sections: dict[str, str] = {}
    heading = ""
    for line in rest.strip("\n").split("\n"):
        found = re.fullmatch(r"(\w[\w ]*):", line)
        if found is not None:
            heading = found[1]
        else:
            sections[heading] = sections.get(heading, "") + line.removeprefix("    ") + "\n"
    return Documentation(title, {name: text.strip("\n") for name, text in sections.items() if text.strip()})


def facts() -> list[type[Fact]]:
    """Every kind of fact, by code.  ``check`` reports mistakes under these codes that no codemod can repair safely."""
    return sorted(OF_CODES, key=lambda fact: fact.code)


def contents(codemods: Sequence[type[Codemod]]) -> Iterator[Line]:
    """Yield one line for each codemod: code, name and title."""
    yield from _table([(codemod.code, codemod.name, codemod.title()) for codemod in codemods])


def page(asked: str, codemods: Sequence[type[Codemod]]) -> Iterator[Line]:
    """Yield the page on *asked*: a code, a name, or the beginning of one.

    Where several begin with it, they are listed; where nothing does, nothing is yielded.
    """
    wanted = asked.strip().lower().replace(" ", "-").replace("_", "-")
    entries: list[tuple[str, str, type[Codemod] | type[Fact]]] = [(one.code, one.name, one) for one in codemods]
    taken = {name for _, name, _ in entries}
    # A codemod may be called like the fact that it repairs: then the name means the codemod.
    kinds: list[type[Fact]] = [*facts(), UnusedIgnore]
    entries += [(fact.code, "" if name_of(fact) in taken else name_of(fact), fact) for fact in kinds]
    if not wanted:
        return
    found = [entry for entry in entries if wanted in (entry[0].lower(), entry[1])]
    if not found:
        found = [entry for entry in entries if entry[0].lower().startswith(wanted) or entry[1].startswith(wanted)]
    if len(found) == 1:
        documented = found[0][2]
        yield from _of_fact(documented, codemods) if issubclass(documented, Fact) else _of_codemod(documented)
    else:
        rows = [(code, name or name_of_any(one), documentation(one).title) for code, name, one in found]
        yield from _table(sorted(rows))


def name_of_any(documented: type[Codemod] | type[Fact]) -> str:
    return name_of(documented) if issubclass(documented, Fact) else documented.name


def _of_codemod(codemod: type[Codemod]) -> Iterator[Line]:
    yield ((codemod.code, "bold red"), " ", (codemod.name, "bold"))
    yield ("",)
    told = documentation(codemod)
    yield (told.title,)
    for heading, text in told.sections.items():
        yield ("",)
        if heading:
            yield ((f"{heading}:", "bold"),)
        for line in text.split("\n"):
            yield (f"    {plain(line)}" if heading and line else plain(line),)


def _of_fact(fact: type[Fact], codemods: Sequence[type[Codemod]]) -> Iterator[Line]:
    yield ((fact.code, "bold red"), " ", (name_of(fact), "bold"))
    yield ("",)
    told = documentation(fact)
    yield (told.title,)
    for text in told.sections.values():
        yield ("",)
        yield from ((plain(line),) for line in text.split("\n"))
    if fact is UnusedIgnore:
        return
    yield ("",)
    yield ((f"PyTorch says: {fact.error}" if fact.error else "PyTorch says nothing: memory grows."),)
    answering = [codemod for codemod in codemods if fact in codemod.answers]
    yield ("",)
    if answering:
        yield ("Reported under this code where none of these rewrites is known to be right:",)
        yield from contents(answering)
    else:
        yield ("No rewrite is known for it: the report shows where it happens.",)


def plain(text: str) -> str:
    """A docstring's text as it is read in a terminal, and in Markdown: code between single backticks."""
    return text.replace("``", "`")


def _table(rows: Sequence[tuple[str, str, str]]) -> Iterator[Line]:
    width = max((len(name) for _, name, _ in rows), default=0)
    for code, name, title in rows:
        yield ((code, "bold red"), f"  {name:<{width}}  {plain(title)}")
