"""Values from before a loop, or a closure, that each run compares with what the same parameters give then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autofix.codemods.autograd import catalogue, groups
from autofix.codemods.autograd.graph import FreedGraphUse, Leaf, LoopPoint, Node
from autofix.codemods.autograd.walks import leaves_under, nodes_under

_FAR = 12
"""Operations on the way from a value to the comparison."""
_COMPARES = frozenset("sub div cosine_similarity pairwise_distance".split())
_STATISTICS = frozenset("add sub mul div mean std var max min amax amin median quantile gather".split())
_DISTANCES = frozenset("pow square abs norm linalg_norm vector_norm".split())


def is_target(stale: FreedGraphUse, now: LoopPoint | None) -> bool:
    """Whether a value from before a loop is a target, a weight or a statistic of the network that the loop trains.

    *now* is the iteration in which the pass fails; None where a closure is called several times in one step.
    ``target = r + 0.9 * V(s2)`` is, of which the loop takes ``mse_loss(V(s), target)``: it is to stay as it was while
    the network follows it.  So is ``old = p.tanh()``, of which it takes ``(p - old).pow(2)``: the distance that the
    parameter has moved.  An output as such (``anchor = net(a)``, beside ``net(b)``) may be to be trained, too.
    """
    users = stale.failed.users()

    def is_older(node: Node) -> bool:
        if node.leaf is not None:
            return False
        return node.clock <= stale.freed.clock if now is None else now not in node.loops

    below, reader = stale.node, stale.reader
    mine = set(leaves_under([stale.node]))
    for _ in range(_FAR):
        if reader is None:
            return False
        if len(reader.operands) > 1 and not (reader.operation in groups.JOINS and _are_old(reader, is_older)):
            if _is_distance(reader, below, users.get(id(reader), [])) and mine == set(_leaves_beside(reader, below)):
                return True
            return _meets_as_target(reader, below, stale.node) and mine <= _fresh_leaves(reader, below, is_older)
        consumers = users.get(id(reader), [])
        if len(consumers) != 1:
            return False
        below, reader = reader, consumers[0]
    return False


def _are_old(reader: Node, is_older: Callable[[Node], bool]) -> bool:
    """Whether all that an operation joins was made before: the values that a rollout has collected."""
    return all(operand.node.leaf is None and is_older(operand.node) for operand in reader.operands)


def _meets_as_target(reader: Node, below: Node, value: Node) -> bool:
    """Whether an operation takes the value, by way of *below*, as the target of a loss, a weight or a statistic."""
    made = {one.node.operation for one in value.operands} if value.operation in groups.JOINS else {value.operation}
    if reader.operation in _COMPARES:
        return made <= _STATISTICS | groups.LIKELIHOODS
    if reader.operation == "mul":
        return made <= groups.LIKELIHOODS
    row = catalogue.operation(reader.operation)
    return row.kind == catalogue.LOSS and row.arguments[1:2] == ("target",) and reader.operands[-1].node is below


def _is_distance(reader: Node, below: Node, consumers: list[Node]) -> bool:
    """Whether an operation, with what reads its result, measures how far *below* is from something.

    Of a difference as such, the two sides may be one formula: ``logvar.exp() - logvar``.
    """
    if catalogue.operation(reader.operation).kind == catalogue.LOSS:
        return reader.operands[-1].node is below
    squared = all(
        one.operation in _DISTANCES or (one.operation == "mul" and all(part.node is reader for part in one.operands))
        for one in consumers
    )
    return reader.operation == "sub" and bool(consumers) and squared


def _leaves_beside(reader: Node, below: Node) -> Iterator[Leaf | None]:
    """The parameters themselves that an operation reads beside *below*; None for what is computed of some."""
    return (operand.node.leaf for operand in reader.operands if operand.node is not below)


def _fresh_leaves(reader: Node, below: Node, is_older: Callable[[Node], bool]) -> set[Leaf]:
    """The parameters that the same iteration computes with for what an operation reads beside *below*.

    What reaches them through values from before the loop is no comparison: it is those that both are made of.
    """
    beside = [operand.node for operand in reader.operands if operand.node is not below]
    if any(node.leaf is not None or is_older(node) for node in beside):
        return set()
    return {one.leaf for one in nodes_under(beside, lambda one: not is_older(one)) if one.leaf is not None}
