"""The catalogue of mistakes, from the codemods' own docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autofix.report.terminal import Piece

if TYPE_CHECKING:
    from codemods.base import Codemod


def contents(codemods: Sequence[type[Codemod]]) -> Iterator[tuple[Piece, ...]]:
    """Yield one line for each codemod: code, name and title."""
    width = max((len(codemod.name) for codemod in codemods), default=0)
    for codemod in codemods:
        yield ((codemod.code, "bold red"), f"  {codemod.name:<{width}}  {codemod.title()}")


def page(codemod: type[Codemod]) -> Iterator[tuple[Piece, ...]]:
    """Yield the whole documentation of one codemod."""
    yield ((codemod.code, "bold red"), " ", (codemod.name, "bold"))
    yield ("",)
    for line in documentation(codemod).split("\n"):
        yield (line,)


def documentation(codemod: type[Codemod]) -> str:
    return inspect.cleandoc(codemod.__doc__ or "")
