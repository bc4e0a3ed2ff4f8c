"""Walks over a graph: the nodes and leaves under others, and the ways of a backward call to them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from autofix.codemods.autograd.graph import BackwardCall, Leaf, Node, Operand, crossing


def nodes_under(tops: Iterable[Node], enters: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """The nodes of the graph that ends in *tops*, these among them, each once; behind a node only where it *enters*."""
    pending = list(tops)
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if enters is None or enters(node):
            pending.extend([operand.node for operand in node.operands])


def operations_under(tops: Iterable[Node], enters: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """As :func:`nodes_under`, without the nodes of leaves."""
    return (node for node in nodes_under(tops, enters) if node.leaf is None)


def leaves_under(tops: Iterable[Node]) -> set[Leaf]:
    """The leaves that a graph leads to."""
    return {node.leaf for node in nodes_under(tops) if node.leaf is not None}


class Way(IntEnum):
    """Certainty that a backward pass comes to a node."""

    DOUBTFUL = 0
    """A call of which nothing is known lies on the way."""
    LIKELY = 1
    """The called object is a layer by all appearances; or several ways lead from the loss, all to unknown calls, at
    least one of whose results has a graph."""
    CERTAIN = 2


def guess(node: Node) -> Way:
    """The certainty that a doubtful node, or one that rests on such nodes, is there at all."""
    return Way.LIKELY if node.layer or not node.doubtful else Way.DOUBTFUL


def on_every_way(roots: list[Node]) -> dict[int, Way]:
    """The nodes on every way from a loss to its leaves, by identity: a loss that has a graph has theirs.

    Nodes are taken in the reverse order of their clocks, consumers before producers; one that is alone is on every way.
    A called object may have parameters of its own: where several ways lead to a call, none certainly leads behind it.
    """
    found: dict[int, Way] = {}
    if len(roots) != 1:
        return found
    way, called = Way.CERTAIN, False
    seen = {id(roots[0])}
    pending = [(-roots[0].clock, id(roots[0]), roots[0])]
    while pending:
        _, identity, node = heapq.heappop(pending)
        if not pending:
            found[identity] = way
        if len(node.operands) > 1:
            way = Way.LIKELY
        called = called or node.doubtful
        if not node.operands or (called and way is Way.LIKELY):
            break  # a way ends in this leaf
        for operand in node.operands:
            if id(operand.node) not in seen:
                seen.add(id(operand.node))
                heapq.heappush(pending, (-operand.node.clock, id(operand.node), operand.node))
    return found


def leading_to(inputs: list[Node], roots: Iterable[Operand]) -> set[int]:
    """Identities of the nodes on a way from *roots* to *inputs*: what a pass with ``inputs=`` executes."""
    targets = {id(node) for node in inputs}
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root.node, False) for root in roots]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        stack.extend((operand.node, False) for operand in node.operands)
    leading = set(targets)
    # An input that is no leaf gets its gradient before its own node would be executed.
    executed = {id(node) for node in inputs if node.leaf is not None}
    for node in order:
        if any(id(operand.node) in leading for operand in node.operands):
            leading.add(id(node))
            executed.add(id(node))
    return executed


def behind_the_spoilt(walked: list[Node], current: BackwardCall) -> set[int]:
    """Identities of the nodes that a pass reaches only through those of earlier iterations which a step has spoilt.

    It fails there, so that no gradient of it gets any further, whatever is done about it.
    """
    spoilt = {
        id(node)
        for node in walked
        if any(change.by_step for one in node.saved for change in one.storage.changes[one.version :])
        and crossing(node.loops, current.loops) is not None
    }
    if not spoilt:
        return spoilt
    below: dict[int, list[int]] = {}
    for consumer, producer in current.edges:
        below.setdefault(id(consumer), []).append(id(producer))
    producers = {one for found in below.values() for one in found}
    pending = [id(node) for node in walked if id(node) not in producers]
    reached: set[int] = set()
    while pending:
        one = pending.pop()
        if one not in reached and one not in spoilt:
            reached.add(one)
            pending.extend(below.get(one, ()))
    return {id(node) for node in walked} - reached


def useful_edges(one: BackwardCall, wanted: Callable[[Leaf], bool]) -> Iterator[tuple[Node, Node]]:
    """Edges through which a pass carries gradient to a leaf that *wanted* accepts, or to a requested input, without a
    detour over old nodes.
    """
    memo: dict[int, bool] = dict.fromkeys(one.targets, True)
    for consumer, producer in one.edges:
        identity = id(producer)
        if identity in one.targets:
            continue  # a requested input may become a leaf, if the value that it was made of loses its graph
        if id(consumer) in one.old or identity in one.old:
            continue
        if memo[identity] if identity in memo else _leads(producer, wanted, one.old, memo):
            yield consumer, producer


def _leads(node: Node, wanted: Callable[[Leaf], bool], old: set[int], memo: dict[int, bool]) -> bool:
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, done = stack.pop()
        if done:
            for operand in current.operands:
                if memo.get(id(operand.node), False):
                    memo[id(current)] = True
                    break
        elif id(current) not in memo:
            if current.leaf is not None:
                memo[id(current)] = wanted(current.leaf)
                continue
            memo[id(current)] = False
            if id(current) not in old:
                stack.append((current, True))
                stack.extend((operand.node, False) for operand in current.operands)
    return memo[id(node)]
