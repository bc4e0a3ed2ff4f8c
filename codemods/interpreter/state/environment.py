"""Position of a run in the program: its names, its calls, its loops and the statement being executed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Loops
from autofix.codemods.interpreter.values import Class, Function, Module, Scope, Value
from autofix.codemods.source.sources import Site, Sources

if TYPE_CHECKING:
    from autofix.codemods.interpreter.generators import Generator


@dataclass
class Frame:
    """One call: the function it is in, its names, what it returned, and the generator that it runs as."""

    function: Function | None
    scope: Scope
    result: Value = None
    generator: Generator | None = None


class Environment:
    """The names, calls and loops around the statement that is executed."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.source = source = sources.main
        """The file whose code is being run."""
        self.globals = Scope({})
        """The names of the script itself."""
        self.modules: dict[str, Module] = {}
        """The program's other files that were imported, by path."""
        self.scope = self.globals
        self.stack: tuple[Site, ...] = ()
        """The call expressions that led into the function being run."""
        self.frames: list[Frame] = [Frame(None, self.globals)]
        self.loops: Loops = ()
        self.statement: Site = Site(source, ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0))
        self.star_imports = False
        self.generators: list[Generator] = []
        self.making: list[Class | None] = []
        """Classes whose metaclasses are at work, the last innermost; None once ``type`` was asked for the class."""
        self.spread: set[ast.expr] = set()
        """Calls that are given ``**`` of something unknown: any parameter may be among it."""

    def site(self, node: ast.expr | ast.stmt) -> Site:
        return Site(self.source, node)
