"""The story of a mistake in the terms of facts: where a value was made, and by which statements it was kept."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from autofix.codemods.autograd.graph import BackwardCall, Change, LoopPoint, Loops, Node, StoreEvent, crossing
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.autograd.walks import nodes_under
from autofix.codemods.facts.parts import Carrier, Form
from autofix.codemods.source.sources import Site

T = TypeVar("T")


def distinct(told: Iterable[T], story: Callable[[T], Hashable]) -> list[T]:
    """The first observation of each story: a loop that is run many times repeats its stories."""
    first: dict[Hashable, T] = {}
    for one in told:
        first.setdefault(story(one), one)
    return list(first.values())


def story(
    node: Node,
    reader: Node | None,
    provenance: tuple[StoreEvent, ...],
    between: BackwardCall | Change,
    failed: BackwardCall,
) -> Hashable:
    """Key of the places that a fact is made of: observations with equal keys become one fact."""
    return (
        (node.site, node.stack, node.opaque, crossing(node.loops, failed.loops) is None),
        (reader.site, reader.stack) if reader is not None else None,
        tuple(
            (one.statement, one.name, crossing(one.loops, failed.loops) is None, one.clock < between.clock)
            for one in provenance
        ),
        between.site,
        failed.site,
    )


def made(node: Node, provenance: tuple[StoreEvent, ...]) -> Site:
    """Place at which a value was made: the expression in the first statement that kept it, else its node's site."""
    ordered = sorted(provenance, key=lambda kept: kept.clock)
    if ordered:
        statement = ordered[0].statement.span
        for site in (*node.stack, node.site):
            if statement.contains(site.span):
                return site
    return node.site


_LONGEST = 40
"""Characters of an expression in a message."""


def told(site: Site) -> str:
    """Text for a tensor that nothing keeps: its expression, or ``self.net(...)`` for a long one; empty if too long."""
    text = site.source.text_of(site.node)
    if len(text) <= _LONGEST:
        return text
    short = f"{site.source.text_of(site.node.func)}(...)" if isinstance(site.node, ast.Call) else ""
    return short if len(short) <= _LONGEST else ""


def carriers(provenance: tuple[StoreEvent, ...]) -> tuple[Carrier, ...]:
    carriers = (
        Carrier(
            kept.statement.span,
            kept.expression.span if kept.expression else None,
            kept.name,
            kept.form,
            kept.items,
            kept.whole,
        )
        for kept in sorted(provenance, key=lambda kept: kept.clock)
    )
    return tuple(dict.fromkeys(carriers))  # a comprehension carries all items on by one statement


def last_before(provenance: tuple[StoreEvent, ...], moment: Loops, clock: int, made: int) -> StoreEvent | None:
    """The statement that carried the value over: the last one of an earlier iteration, or else before *clock*.

    What was stored before the value was *made* is the container that holds it: ``self.rows = []`` in a ``clear()``.
    """
    ordered = sorted(provenance, key=lambda kept: kept.clock)
    ordered = [kept for kept in ordered if kept.clock > made] or ordered
    over = [kept for kept in ordered if crossing(kept.loops, moment) is not None]
    over = [kept for kept in over if not _only_names(kept)] or over
    over = [kept for kept in over if not _is_over(kept, moment)] or over
    if not over:
        over = [kept for kept in ordered if kept.clock < clock]
    named = [kept for kept in over if kept.name and not (kept.whole and kept.whole.startswith("$x."))] or over
    named = [kept for kept in named if kept.name]
    carried = named or over
    return carried[-1] if carried else None


def _is_over(kept: StoreEvent, moment: Loops) -> bool:
    """Whether a statement gives a container that is kept elsewhere a local name, in a call that is over by *moment*."""
    node, point = kept.statement.node, crossing(kept.loops, moment)
    if kept.form is Form.TENSOR or point is None or not kept.name.isidentifier():
        return False
    if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.Name, ast.IfExp, ast.BoolOp)):
        return False
    nodes, loop = kept.statement.source.nodes, point.statement
    around = (one for one in nodes.of(ast.FunctionDef) if nodes.holds(one, node))
    return any(loop.source is not kept.statement.source or not nodes.holds(one, loop.node) for one in around)


def _only_names(kept: StoreEvent) -> bool:
    """Whether a statement only gives a container that is kept elsewhere another name: ``past = self.memory[key]``.

    So does a loop over its items, or a comprehension, for as long as it runs.
    """
    if kept.expression is None and isinstance(kept.statement.node, (ast.For, ast.AsyncFor)):
        return True
    if kept.expression is None and isinstance(kept.statement.node, (ast.Assign, ast.AugAssign, ast.Return)):
        targets = getattr(kept.statement.node, "targets", None) or [getattr(kept.statement.node, "target", None)]
        names = {part.id for one in targets if one for part in ast.walk(one) if isinstance(part, ast.Name)}
        return kept.name.isidentifier() and kept.name not in names
    if kept.form is Form.TENSOR or kept.expression is None:
        return False
    return isinstance(kept.expression.node, (ast.Subscript, ast.Attribute))


def carried_within(kept: StoreEvent | None, point: LoopPoint | None) -> bool:
    """Whether a value was kept by a loop inside the one that it crosses."""
    if kept is None or point is None:
        return False
    around = [there.instance for there in kept.loops]
    return point.instance in around[:-1]


def enters(node: Node | None) -> bool:
    """Whether a node belongs to a layer with parameters, or only passes tensors on to one; not to a loss."""
    if node is None:
        return False
    passes_on = node.operation in ("cat", "stack", "select", "index", "clone", "view", "reshape", "flatten")
    return passes_on or any(operand.node.leaf is not None for operand in node.operands)


def mixes(reader: Node | None) -> bool:
    """Whether an operation combines several graphs element by element; a sum of losses is no such thing."""
    if reader is None or reader.scalar or reader.operation not in ("add", "sub", "mul", "div"):
        return False
    if reader.operation in ("add", "sub") and any(operand.node.scalar for operand in reader.operands):
        return False  # `loss + weight * other`, where nothing is known of the weight
    return len({id(operand.node) for operand in reader.operands}) > 1


_MOST_NODES = 4_000
"""Nodes of a graph that are looked through for a parameter."""


def may_lead_nowhere(node: Node, tape: Tape) -> bool:
    """Whether a graph ends in nothing but parameters of what may have none, and that no optimizer holds."""
    for looked_at, one in enumerate(nodes_under([node]), 1):
        if looked_at > _MOST_NODES or (one.leaf is not None and (not one.leaf.doubtful or one.leaf in tape.owned)):
            return False
    return True


def part_of_opaque(node: Node) -> bool:
    """Whether a node stands for a call that was not read, or for an item of what it gave back."""
    while node.operation == "select" and node.operands:
        node = node.operands[0].node
    return node.opaque
