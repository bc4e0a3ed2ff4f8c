"""Graphs that are kept for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.autograd.graph import Tape
from autofix.codemods.checks import readers
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.story import may_lead_nowhere
from autofix.codemods.facts import Certainty, GraphHeld
from autofix.codemods.interpreter import holding
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import RetainedGraph


def facts(interp: Interpreter, known: Known) -> Iterator[GraphHeld]:
    """Facts of graphs that one path keeps for nothing; record in *known* the value behind each."""
    for kept in holding.held(interp):
        held = _fact(kept, interp.tape)
        known.holdings[held] = kept
        yield held


def is_used(fact: GraphHeld, known: Known) -> bool:
    """Whether another path shows a use for a graph that is kept, or may show one."""
    kept = known.holdings[fact]
    used = kept.kept.statement.node in known.used
    if used or not known.complete or readers.serves_other_scripts(kept, known):
        return True
    return not readers.every_reader_ran(kept, known)


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
        name=one.kept.name,
        certainty=Certainty.LIKELY if one.bounded or unread else Certainty.CERTAIN,
    )
