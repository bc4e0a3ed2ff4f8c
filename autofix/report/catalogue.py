"""The catalogue of mistakes, from the codemods' own docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autofix.report.terminal import Piece

if TYPE_CHECKING:
    from codemods.base import Codemod
    from codemods.facts import Fact

Line = tuple[Piece, ...]


def contents(codemods: Sequence[type[Codemod]]) -> Iterator[Line]:
    """Yield one line for each codemod: code, name and title."""
    width = max((len(codemod.name) for codemod in codemods), default=0)
    for codemod in codemods:
        yield ((codemod.code, "bold red"), f"  {codemod.name:<{width}}  {codemod.title()}")


def page(asked: str, codemods: Sequence[type[Codemod]]) -> Iterator[Line]:
    """Yield the whole documentation of what is called *asked*, by its code or name; nothing where nothing is.

    A fact has a code of its own, under which ``check`` reports what no codemod can repair safely.
    """
    for codemod in codemods:
        if asked.upper() == codemod.code or asked.lower() == codemod.name:
            yield ((codemod.code, "bold red"), " ", (codemod.name, "bold"))
            yield ("",)
            yield from paragraphs(codemod)
    for fact in sorted({fact for codemod in codemods for fact in codemod.answers}, key=lambda fact: fact.code):
        if asked.upper() == fact.code or asked.lower() == fact.kind:
            yield ((fact.code, "bold red"), " ", (fact.kind, "bold"))
            yield ("",)
            yield from paragraphs(fact)
            yield ("",)
            yield ("Reported under this code where none of these rewrites is known to be right:",)
            yield from contents([codemod for codemod in codemods if fact in codemod.answers])


def paragraphs(documented: type[Codemod] | type[Fact]) -> Iterator[Line]:
    for line in (inspect.getdoc(documented) or "").split("\n"):
        yield (line,)
