"""Finds the places at which a loss compares what networks have computed, before any parameter comes in between.

The error of a temporal difference, ``(reward + discount * next_value - value).pow(2).mean()``, has two of them.  The
old value is what it trains: cut off from its graph, because it was computed as the next value of the iteration before,
it leaves a loss that moves the target alone.  A hidden state lies behind the weights that read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .graph import below, is_addition

MOST = 2_000
"""Places that are looked at for one pass."""
NODES_TO_A_WEIGHT = 4
"""Nodes that may lie between an operation and its parameter: a transposition, another shape, another precision."""
JOINING = frozenset({"StackBackward0", "CatBackward0"})
"""Nodes whose inputs are items alike."""

COMPARING = frozenset(f"{name}Backward0" for name in ("Sub", "MseLoss", "SmoothL1Loss", "HuberLoss"))
"""Nodes of the error between two values."""
JOINS_OTHERWISE = frozenset(f"{name}Backward0" for name in ("Mm", "Bmm", "Addmm", "Baddbmm", "Mv", "Dot", "LogSoftmax"))
"""Nodes behind which a value is no longer compared element by element: it stands for many, as a memory's rows do."""

Sign = tuple[tuple[str, int], ...]
"""A place: the types of the nodes on the way from the root, and at which of their inputs it goes on; no additions."""
Terms = dict[Sign, list[Any]]
"""The nodes at each place."""


def terms_of(roots: Iterable[Any]) -> Terms:
    """The nodes at each place of a loss down to the first that has a parameter of its own."""
    found: Terms = {}
    pending: list[tuple[Any, Sign]] = [(root, ()) for root in roots if root is not None]
    count = 0
    while pending and count < MOST:
        count += 1
        node, sign = pending.pop()
        if is_addition(node):
            pending += [(one, sign) for one in below(node)]
            continue
        if hasattr(node, "variable"):
            continue
        found.setdefault(sign, []).append(node)
        if not has_parameter(node):
            name, alike = type(node).__name__, type(node).__name__ in JOINING
            inputs = enumerate(one for one, _ in node.next_functions)
            pending += [(one, (*sign, (name, 0 if alike else at))) for at, one in inputs if one is not None]
    return found


def has_parameter(node: Any) -> bool:
    """Whether an input of a node is a leaf, perhaps in another shape."""
    return any(_is_leaf(one) for one in below(node))


def _is_leaf(node: Any) -> bool:
    for _ in range(NODES_TO_A_WEIGHT):
        if hasattr(node, "variable"):
            return True
        under = below(node)
        if len(under) != 1:
            return False
        node = under[0]
    return False


def replaced_signs(terms: Terms, earlier: Terms, past: set[Any], wanted: set[Any]) -> list[Sign]:
    """The places of errors between values at which *past* nodes stand alone, where an *earlier* pass had others.

    Some of these nodes must be *wanted*.
    """
    return [
        sign
        for sign, nodes in terms.items()
        if sign in earlier and _compares(sign) and past.issuperset(nodes) and not wanted.isdisjoint(nodes)
    ]


def _compares(sign: Sign) -> bool:
    """Whether a value at a place is compared with another one, element by element."""
    names = {name for name, _ in sign}
    return not names.isdisjoint(COMPARING) and names.isdisjoint(JOINS_OTHERWISE)
