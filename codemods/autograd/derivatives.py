"""The graph of a gradient that was taken with ``create_graph=True``: the parts of the differentiated graph in it.

The formula of an operation's derivative computes with the tensors that the operation has saved for the gradients that
are wanted, and leads on to their graphs.  What it has not saved, or has saved for others, has no part in the gradient:
that of ``(u * w).sum()`` by ``w`` is ``u``.

Source: https://pytorch.org/docs/stable/notes/autograd.html, and the formulas in tools/autograd/derivatives.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from autofix.codemods.autograd.catalogue import operation
from autofix.codemods.autograd.graph import BackwardCall, Node, Operand

_WRITES = "copy_slices"
"""The node of data that are written into a part of a tensor: it keeps at most the places, which have no graph."""


def differentiate(gradient: Node, call: BackwardCall, tick: Callable[[], int]) -> bool:
    """Let the graph of a *gradient* that a *call* of ``autograd.grad`` returns lead to the parts that it needs.

    Returns whether there are any: that of ``(c * w).sum()`` by ``w`` has none, nor has that by what has no part in it.
    Nothing is done where the inputs of the call are not known.  *tick* gives the moments of what is recorded.
    """
    if call.inputs:
        executed = list(dict.fromkeys(consumer for consumer, _ in call.edges))
        gradient.operands = parts_of(gradient, executed, call.inputs, tick)
    return bool(gradient.operands)


def parts_of(
    gradient: Node,
    executed: Sequence[Node],
    inputs: Iterable[Node],
    tick: Callable[[], int],
    apart: Collection[Node] = (),
) -> tuple[Operand, ...]:
    """The edges of a *gradient* by some *inputs*, for which operations are *executed* under those that it has now.

    Each leads to a node for one derivative, at the place of the operation.  Where it is not known which of its tensors
    an operation has saved, all of them are taken.  Edges to nodes *apart* are left out.
    """
    on_the_way = {*executed, *inputs}
    edges = {one.node: one for one in gradient.operands}
    for node in executed:
        edges |= {one.node: one for one in node.operands}
    parts: list[Operand] = []
    for node in executed:
        kept = [edges[node]] if node in edges and _keeps_result(node) else []
        kept = [one for one in (*kept, *_kept_operands(node, on_the_way)) if one.node not in apart]
        if kept:
            at = node.site, tuple(kept), gradient.loops, tick()
            parts.append(Operand(Node("derivative", *at, saved=node.saved, stack=node.stack), ()))
    gradient.clock = tick()
    return tuple(parts)


def _keeps_result(node: Node) -> bool:
    """Whether an operation has saved its own result, or may have."""
    if node.leaf is not None or not node.saves or node.operation == _WRITES:
        return False
    row = operation(node.operation)
    return node.opaque or not row.known or bool(row.usual) or any("result" in kept for kept in row.saves.values())


def _kept_operands(node: Node, on_the_way: Collection[Node]) -> Iterator[Operand]:
    """The operands that an operation has saved for the gradients of those that are *on the way*."""
    if not node.saves or node.operation == _WRITES:
        return
    row = operation(node.operation)
    if not row.known or row.usual or node.opaque:
        yield from node.operands
        return
    named = dict(zip(row.tensors, node.operands, strict=False)) if len(row.tensors) == len(node.operands) else {}
    if named:
        wanted = {kept for name, one in named.items() if one.node in on_the_way for kept in row.saves.get(name, ())}
        yield from (one for name, one in named.items() if name in wanted)
    elif len(node.operands) > 1 or any(name in kept for name, kept in row.saves.items()):
        yield from (one for one in node.operands if any(set(kept) - {"result"} for kept in row.saves.values()))
