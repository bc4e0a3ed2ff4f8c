"""Losses that one unread call returns side by side, each of which may have a graph of its own."""

from __future__ import annotations

from autofix.codemods.autograd import groups
from autofix.codemods.autograd.graph import BackwardCall, Node


def may_be_separate(made: Node, first: BackwardCall | None, second: BackwardCall) -> bool:
    """Whether two passes reach an unread call by items of their own, one of them a loss as the call returned it.

    ``loss, extra = model(rows); loss.backward(); extra.backward()``: the second may be the loss of a prior alone. An
    author who keeps the graph in the first pass knows that they share it.
    """
    if not made.opaque or first is None or first.retains or first is second:
        return False
    parts = [_items(made, one) for one in (first, second)]
    known = [{id(item) for item in items} for items in parts]
    if not all(known) or known[0] & known[1]:
        return False
    if _is_sent(parts[1], second):
        return True
    return _is_sent(parts[0], first) and not _meets_network(parts[1], second)


def _items(made: Node, one: BackwardCall) -> list[Node]:
    """Items of the result of a call through which a pass reaches it; none where it uses the result as a whole."""
    users, items, pending = one.users(), [], [made]
    while pending:
        node = pending.pop()
        above = users.get(id(node), [])
        if node is not made and not any(user.operation == "select" for user in above):
            items.append(node)
        elif all(user.operation == "select" for user in above):
            pending.extend(above)
        else:
            return []
    return items


def _is_sent(items: list[Node], one: BackwardCall) -> bool:
    """Whether a pass begins at these items, weighed at most."""
    return all(user.operation in groups.SCALES for user in one.above(items))


def _meets_network(items: list[Node], one: BackwardCall) -> bool:
    """Whether an item is an input of another network: ``loss, hidden = model(rows, hidden)`` in the next step."""
    return any(
        user.opaque or any(operand.node.leaf is not None for operand in user.operands) for user in one.above(items)
    )
