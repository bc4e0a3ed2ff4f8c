"""Values from before a loop that each iteration compares with what the same parameters give then."""

from __future__ import annotations

from autofix.codemods.autograd import catalogue
from autofix.codemods.autograd.graph import FreedGraphUse, Leaf, LoopPoint, Node
from autofix.codemods.interpreter import cuts

_FAR = 12
"""Operations on the way from a value to the comparison."""
_COMPARES, _WEIGHS = frozenset(("sub", "div")), frozenset(("mul",))
_STATISTICS = frozenset("add sub mul div mean std var max min amax amin median quantile gather".split())
_PROBABILITIES = frozenset("softmax log_softmax sigmoid logsigmoid exp".split())


def is_target(stale: FreedGraphUse, now: LoopPoint) -> bool:
    """Whether a value from before a loop is a target, a weight or a statistic of the network that the loop trains.

    *now* is the iteration in which the pass fails.
    ``target = r + 0.9 * V(s2)`` is, of which the loop takes ``mse_loss(V(s), target)``: it is to stay as it was while
    the network follows it.  An output as such (``anchor = net(a)``, beside ``net(b)``) may be to be trained, too.
    """
    users = stale.failed.users()
    below, reader = stale.node, stale.reader
    mine = set(cuts.leaves_under([stale.node]))
    for _ in range(_FAR):
        if reader is None:
            return False
        if len(reader.operands) > 1:
            return _meets_as_target(reader, below, stale.node) and mine <= _fresh_leaves(reader, below, now)
        consumers = users.get(id(reader), [])
        if len(consumers) != 1:
            return False
        below, reader = reader, consumers[0]
    return False


def _meets_as_target(reader: Node, below: Node, value: Node) -> bool:
    """Whether an operation takes the value, by way of *below*, as the target of a loss, a weight or a statistic."""
    if reader.operation in _COMPARES:
        return value.operation in _STATISTICS | _PROBABILITIES
    if reader.operation in _WEIGHS:
        return value.operation in _PROBABILITIES
    row = catalogue.operation(reader.operation)
    return row.kind == catalogue.LOSS and row.arguments[1:2] == ("target",) and reader.operands[-1].node is below


def _fresh_leaves(reader: Node, below: Node, now: LoopPoint) -> set[Leaf]:
    """The parameters that the same iteration computes with for what an operation reads beside *below*.

    What reaches them through values from before the loop is no comparison: it is those that both are made of.
    """
    pending = [operand.node for operand in reader.operands if operand.node is not below]
    found: set[Leaf] = set()
    if any(node.leaf is not None or _is_older(node, now) for node in pending):
        return found
    seen = set(map(id, pending))
    while pending:
        node = pending.pop()
        if node.leaf is not None:
            found.add(node.leaf)
        for operand in () if _is_older(node, now) else node.operands:
            if id(operand.node) not in seen:
                seen.add(id(operand.node))
                pending.append(operand.node)
    return found


def _is_older(node: Node, now: LoopPoint) -> bool:
    """Whether a value was made before an iteration."""
    return node.leaf is None and now not in node.loops
