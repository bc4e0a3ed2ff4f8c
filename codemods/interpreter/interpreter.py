"""The interpreter composed of its parts: how it evaluates, executes and calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autofix.codemods.interpreter import attributes, calls, elements, errors, expressions, statements
from autofix.codemods.interpreter.decisions import Decisions
from autofix.codemods.interpreter.kinds import (  # noqa: F401
    chains,
    constants,
    functions,
    handles,
    instances,
    mappings,
    modules,
    names,
    sequences,
    symbols,
    tensors,
)
from autofix.codemods.interpreter.recorder import Recorder
from autofix.codemods.interpreter.values import Binding, Function, Instance, Module, Scope, Value
from autofix.codemods.source.sources import Site, Source


class GaveUp(Exception):
    """The program is too large for the budget of one run: nothing may be concluded from what was not reached."""


class ProgramInterpreter(Recorder, Decisions):
    """Executes one program along one path.  See the package's docstring for the rules it follows."""

    def eval(self, node: ast.expr) -> Value:
        self._steps -= 1
        if self._steps < 0:
            raise GaveUp
        return expressions.EVALUATE[type(node)](self, node)

    def run(self, body: Iterable[ast.stmt]) -> str:
        """Execute statements; returns how they ended: nothing, ``break``, ``continue``, ``return`` or ``raise``."""
        for statement in body:
            self._steps -= 1
            if self._steps < 0:
                raise GaveUp
            self.statement = Site(self.source, statement)
            self.log.executed.add(statement)
            signal = statements.EXECUTE[type(statement)](self, statement)
            if signal:
                return signal
        return ""

    def module(self, source: Source) -> Module:
        """The module of another file of the program; run now, where this is its first import."""
        known = self.modules.get(source.path)
        if known is not None:
            return known
        module = self.modules[source.path] = Module(source, Scope({"__name__": Binding("module")}))
        here = self.scope, self.source, self.statement, self.stack, self.loops
        self.scope, self.source, self.stack, self.loops = module.scope, source, (), ()
        try:
            self.run(source.tree.body)
        finally:
            self.scope, self.source, self.statement, self.stack, self.loops = here
        return module

    def close(self) -> None:
        """End what still waits to be resumed."""
        for generator in self.generators:
            generator.abandon()

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        return calls.call(self, function, args, keywords, node)

    def attribute(self, value: Value, name: str, node: ast.expr) -> Value:
        return attributes.get(self, value, name, node)

    def item(self, value: Value, index: Value, node: ast.expr) -> Value:
        return elements.item(self, value, index, node)

    def cached_attribute(self, function: Function, receiver: Instance, node: ast.expr) -> Value:
        return calls.cached_attribute(self, function, receiver, node)

    def assign(self, target: ast.expr, value: Value, expression: ast.expr | None) -> None:
        statements.assign(self, target, value, expression)

    def crash(self, reason: str, kind: str = "") -> None:
        """The program certainly fails here, by an error of a built-in *kind* that it may await."""
        if kind:
            errors.happen(self, kind)
        self.log.crashes.add((self.statement.line, reason))
