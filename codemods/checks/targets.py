"""Values from before a loop that each iteration compares with what the same parameters give then."""

from __future__ import annotations

from autofix.codemods.autograd import catalogue
from autofix.codemods.autograd.graph import FreedGraphUse, Node, crossing
from autofix.codemods.interpreter import cuts

_FAR = 12
"""Operations on the way from a value to the comparison."""
_COMPARES, _WEIGHS = frozenset(("sub", "div")), frozenset(("mul",))
_STATISTICS = frozenset("add sub mul div mean std var max min amax amin median quantile gather".split())
_PROBABILITIES = frozenset("softmax log_softmax sigmoid logsigmoid exp".split())


def is_target(stale: FreedGraphUse) -> bool:
    """Whether a value is a target, a weight or a statistic of the very network that the iterations train.

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
            return _meets_as_target(reader, below, stale.node) and mine <= _fresh_leaves(reader, below, stale)
        consumers = users[id(reader)]
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


def _fresh_leaves(reader: Node, below: Node, stale: FreedGraphUse) -> set[object]:
    """The parameters behind what an operation reads beside *below*, where the same iteration has computed that."""
    others = [operand.node for operand in reader.operands if operand.node is not below]
    fresh = [node for node in others if node.leaf is None and crossing(node.loops, stale.failed.loops) is None]
    return set(cuts.leaves_under(fresh)) if len(fresh) == len(others) else set()
