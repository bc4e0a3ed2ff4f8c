"""Errors that a script brings about on purpose: it goes on when the statement that fails has failed."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from autofix.codemods.facts.base import Fact
from autofix.codemods.source.sources import Source, last_name


def is_provoked(fact: Fact, sources: Sequence[Source]) -> bool:
    """Whether the script fails on purpose."""
    place = getattr(fact, "failed", None) or getattr(fact, "changed", None)
    if place is None:
        return False
    source = next(source for source in reversed(sources) if source.start < place.line)
    return any(
        probe.body[0].lineno <= place.line - source.start <= (probe.body[-1].end_lineno or 0)
        for probe in source.remembered(source.tree, _probes)
    )


_FEW = 3
"""Statements at most in a ``try`` that is there to see one of them fail."""


_CAUGHT = frozenset(("RuntimeError", "Exception", "BaseException"))


_AGAIN = (ast.For, ast.AsyncFor, ast.While)


def _probes(tree: ast.Module) -> tuple[ast.Try | ast.With, ...]:
    """Every ``try`` of a few statements whose errors are swallowed, and that holds no training, and ``with suppress``.

    In a loop that makes steps it may be there for one bad batch of many; a longer one may hold the training itself. A
    loop without a step compares, or times, the passes of several operations, of which some have none.
    """
    found: list[ast.Try | ast.With] = []
    pending: list[ast.AST] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, (ast.Try, ast.With)) and len(part.body) <= _FEW and _swallows(part):
            if not any(isinstance(one, _AGAIN) for statement in part.body for one in ast.walk(statement)):
                found.append(part)
        # No statement stands in an expression, which may be deep.
        pending += [one for one in ast.iter_child_nodes(part) if not isinstance(one, ast.expr) and not _trains(one)]
    return tuple(found)


_TRAINS = frozenset(("step", "zero_grad", "update", "train_step", "training_step", "minimize"))


def _trains(part: ast.AST) -> bool:
    """Whether a loop may train something: it calls a method by whose name it does."""
    return isinstance(part, _AGAIN) and any(
        isinstance(one, ast.Call) and last_name(one.func) in _TRAINS for one in ast.walk(part)
    )


def _swallows(node: ast.Try | ast.With) -> bool:
    """Whether no handler raises an error again, or leaves the script, and one catches what PyTorch raises."""
    if isinstance(node, ast.With):
        return any(map(_suppresses, (item.context_expr for item in node.items)))
    caught = {
        last_name(one)
        for handler in node.handlers
        if handler.type
        for one in ast.walk(handler.type)
        if isinstance(one, ast.expr)
    }
    leaves = any(
        isinstance(part, ast.Raise) or (isinstance(part, ast.Call) and last_name(part.func) in ("exit", "_exit"))
        for handler in node.handlers
        for part in ast.walk(handler)
    )
    return not leaves and (bool(caught & _CAUGHT) or any(handler.type is None for handler in node.handlers))


def _suppresses(manager: ast.expr) -> bool:
    """Whether it is ``contextlib.suppress(RuntimeError)``."""
    if not isinstance(manager, ast.Call) or last_name(manager.func) != "suppress":
        return False
    return any(last_name(argument) in _CAUGHT for argument in manager.args)
