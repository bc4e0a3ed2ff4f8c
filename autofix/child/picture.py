"""Takes a picture of the part of the graph in which a pass fails: few enough nodes to be looked at.

The nodes are the way from the roots of the pass to the guilty place, and the surroundings of that place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .sites import Sites

MOST = 40
"""Nodes in a picture."""
MOST_OF_WAY = 16
"""Nodes of the way from the roots that are shown; in the middle of a longer one, some are left out."""
LOOKED_AT = 20_000
"""Nodes of the pass that are looked at to find the way."""


@dataclass(frozen=True)
class Notes:
    """The keys under which the witness keeps its notes in ``Node.metadata``."""

    made: str
    freed: str


def picture(
    roots: Iterable[Any], guilty: Sequence[Any], sites: Sites, notes: Notes, names: Mapping[int, str]
) -> dict[str, Any]:
    """The neighbourhood of *guilty* as plain data.

    *guilty* is one node, whose saved tensor was overwritten or which is itself a root that was freed; or the two ends
    of an edge, from a fresh node to a freed one.  ``nodes`` have an ``id``, the ``operation``, the ``frames`` that made
    them, after how many ``passes`` that was, a ``state`` (``fresh``, ``freed``, ``overwritten`` or ``leaf``) and, for
    leaves, their ``shape`` and what *names* calls them by their ``id``.  ``edges`` run from a node to what it was made
    of; one that stands for several on the way says how many nodes it has ``skipped``.  ``guilty`` holds the ids, and
    ``left_out`` counts nodes seen, not shown.
    """
    guilty = [node for node in guilty if node is not None]
    later = ways(roots, guilty)
    way = way_to(guilty[0], later)
    shown, skipped = shortened(way)
    for node in around(guilty, later):
        if len(shown) >= MOST:
            break
        shown.setdefault(node, len(shown))
    overwritten = guilty if len(guilty) == 1 and notes.freed not in guilty[0].metadata else []
    edges = [
        {"from": number, "to": shown[under]}
        for node, number in shown.items()
        for under in dict.fromkeys(following for following, _ in node.next_functions)
        if under in shown
    ]
    edges += [{"from": shown[above], "to": shown[below], "skipped": count} for above, below, count in skipped]
    return {
        "nodes": [
            _node(node, number, overwritten, sites, notes) | _leaf(node, names) for node, number in shown.items()
        ],
        "edges": edges,
        "guilty": [shown[node] for node in guilty],
        "left_out": len(later) - len(shown),
    }


def ways(roots: Iterable[Any], guilty: Iterable[Any]) -> dict[Any, list[Any]]:
    """The nodes of the pass, guilty ones included, each with the nodes from which the pass comes to it, in order."""
    later: dict[Any, list[Any]] = {root: [] for root in roots if root is not None}
    queue = deque(later)
    while queue and len(later) < LOOKED_AT:
        node = queue.popleft()
        for under in dict.fromkeys(following for following, _ in node.next_functions if following is not None):
            if under not in later:
                later[under] = []
                queue.append(under)
            later[under].append(node)
    for node in guilty:
        later.setdefault(node, [])
    return later


def way_to(node: Any, later: dict[Any, list[Any]]) -> list[Any]:
    """The shortest way from a root to *node*, both included."""
    way = [node]
    while later[way[-1]]:
        way.append(later[way[-1]][0])
    return way[::-1]


def shortened(way: list[Any]) -> tuple[dict[Any, int], list[tuple[Any, Any, int]]]:
    """The nodes of *way* that are shown, numbered; and the gap, if there is one: its ends, and the nodes between."""
    if len(way) <= MOST_OF_WAY:
        return {node: number for number, node in enumerate(way)}, []
    head, tail = way[: MOST_OF_WAY // 4], way[-(MOST_OF_WAY - MOST_OF_WAY // 4) :]
    gap = (head[-1], tail[0], len(way) - len(head) - len(tail))
    return {node: number for number, node in enumerate([*head, *tail])}, [gap]


def around(guilty: Sequence[Any], later: dict[Any, list[Any]]) -> Iterable[Any]:
    """The nodes in the order of their distance from *guilty*, with edges followed in both directions."""
    seen = dict.fromkeys(guilty)
    queue = deque(guilty)
    while queue:
        node = queue.popleft()
        yield node
        under = [following for following, _ in node.next_functions if following is not None]
        for near in (*under, *later.get(node, ())):
            if near not in seen:
                seen[near] = None
                queue.append(near)


def _node(node: Any, number: int, overwritten: Sequence[Any], sites: Sites, notes: Notes) -> dict[str, Any]:
    call = None if hasattr(node, "variable") else node.metadata.get(notes.made)
    state = "overwritten" if node in overwritten else "freed" if notes.freed in node.metadata else "fresh"
    return {
        "id": number,
        "operation": node.name(),
        "state": state,
        "frames": sites.told(call.chain) if call is not None else [],
        "passes": call.passes if call is not None else None,
    }


def _leaf(node: Any, names: Mapping[int, str]) -> dict[str, Any]:
    """Description of a node that collects a leaf's gradient; empty for any other node."""
    if not hasattr(node, "variable"):
        return {}
    leaf = node.variable
    return {"state": "leaf", "shape": list(leaf.shape), "name": names.get(id(leaf), "")}
