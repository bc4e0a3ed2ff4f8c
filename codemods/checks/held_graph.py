"""Graphs that are kept for nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from autofix.codemods.autograd.graph import StoreEvent
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.checks import readers
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.story import may_lead_nowhere
from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.interpreter import holding
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import RetainedGraph


class HeldGraphCheck(Check):
    """Whether a graph is kept on some path, and used on none."""

    kinds = (GraphHeld,)

    def __init__(self) -> None:
        self._kept: dict[Fact, RetainedGraph] = {}
        """The value behind each fact, as its path knew it."""

    def facts(self, interp: Interpreter, known: Known) -> Iterator[GraphHeld]:
        """Facts of graphs that one path keeps for nothing."""
        for kept in holding.held(interp):
            held = _fact(kept, interp.tape)
            self._kept[held] = kept
            yield held

    def extent(self) -> int:
        return len(self._kept)

    def doubted(self, fact: Fact, doubted: Fact) -> None:
        if fact in self._kept:
            self._kept.setdefault(doubted, self._kept[fact])

    def is_answered(self, fact: Fact, known: Known) -> bool:
        """Whether another path shows a use for a graph that is kept, or may show one."""
        kept = self._kept[fact]
        used = kept.kept.statement.node in known.used or kept.part in known.used
        if used or not known.complete or readers.serves_other_scripts(kept, known) or may_begin_again(kept, known):
            return True
        return not readers.every_reader_ran(kept, known)

    def fuller(self, fact: Fact) -> Iterator[Fact]:
        """The fact of a dictionary that also holds other things."""
        if isinstance(fact, GraphHeld) and not fact.mixed:
            yield replace(fact, mixed=True)


def may_begin_again(held: RetainedGraph, known: Known) -> bool:
    """Whether a state that is made anew may leave out its old part, where nothing was executed that shows it.

    A function that makes it may return something else then (``if state.count == 100: return State()``), or choose
    between the two (``total = loss if fresh else state.total + loss``).
    """
    if held.place is None:
        return False
    stores = [store for store in (held.kept, *held.parts) if store is not None]
    return any(_may_be_left_out(store, held.point.statement.node, known) for store in stores)


def _may_be_left_out(store: StoreEvent, loop: ast.AST, known: Known) -> bool:
    statement, nodes = store.statement.node, store.statement.source.nodes
    around = [one for one in nodes.of(ast.FunctionDef) if nodes.holds(one, statement) and not nodes.holds(one, loop)]
    scope = around[-1] if around else loop
    written = store.expression.node if store.expression is not None else statement
    names = {one.id for one in ast.walk(written) if isinstance(one, ast.Name)}
    for part in nodes.within(scope):
        match part:
            case ast.Return() if around and part not in known.executed:
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) if name in names and part not in known.executed:
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp()) if name in names:
                return True
    return any(isinstance(part, ast.IfExp) for part in ast.walk(statement))


def _fact(one: RetainedGraph, tape: Tape) -> GraphHeld:
    unread = any(cell.node.opaque or may_lead_nowhere(cell.node, tape) for cell in one.cells)
    return GraphHeld(
        kept=one.kept.statement.span,
        loop=one.point.statement.span,
        expression=one.kept.expression.span if one.kept.expression is not None else None,
        form=one.kept.form,
        handed=next(iter(holding.written_for(one)), None) if one.handed else None,
        parts=holding.written_for(one),
        evaluates=one.evaluates,
        mixed=one.mixed,
        begun=one.begun,
        updates=one.updated is not None,
        name=one.kept.name,
        certainty=Certainty.LIKELY if one.bounded or unread else Certainty.CERTAIN,
    )
