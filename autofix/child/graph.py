"""Reads autograd's graph: the nodes that a backward pass walks, the leaves it reaches, the number of live nodes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .recorded import Live

LIMIT = 200_000
"""Nodes that one walk looks at.  More would make the meter slower than the training; growth shows long before."""

LONG = 64
"""Most nodes of a trunk in a record."""

MANY = 20_000
"""Objects in the collector's sight from which a measurement would slow a step down."""
FREEZES = 4

SPENT = "autofix_spent"
"""Key in ``Node.metadata`` of nodes whose saved tensors a backward pass has freed."""
PLACE = "autofix_place"
"""Key of the place that a node had in the first pass that visited it."""
WALKED = "autofix_walked"
"""Key of nodes that a backward pass has visited, whether or not it kept the graph."""
FIRST = "autofix_first"
"""Key of the number of the pass that was the first to visit a node."""


Place = tuple[int, str]
"""Distance of a node from the root of a pass, and the type of the node before it."""
ROOT: Place = (0, "")
"""Place of the root itself, and where the root is a sum, of its terms."""


@dataclass(frozen=True)
class Walk:
    """The nodes that a backward pass from some roots visits, and the leaf tensors at its ends."""

    nodes: list[Any]
    leaves: list[torch.Tensor]


def node_of(tensor: torch.Tensor) -> Any:
    """The node of a tensor; None where autograd gives none: of a view made under no_grad whose base was changed."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def walk(roots: Iterable[Any]) -> Walk:
    """Visit every node under *roots* (nodes or None) once, at most ``LIMIT`` of them, depth first in a fixed order."""
    # The wrappers must be held during the walk: Python makes a new one for a node that nothing holds.
    nodes: list[Any] = []
    seen: set[Any] = set()
    leaves: list[torch.Tensor] = []
    stack = [node for node in roots if node is not None]
    while stack and len(nodes) < LIMIT:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        nodes.append(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            leaves.append(variable)
            continue
        stack.extend(next_node for next_node, _ in node.next_functions if next_node is not None)
    return Walk(nodes, leaves)


def below(node: Any) -> list[Any]:
    """The nodes to which a node hands its gradients on."""
    return [following for following, _ in node.next_functions if following is not None]


def is_low_precision(nodes: Iterable[Any]) -> bool:
    """Whether some of *nodes* convert to a precision that is lower than single: autocast does that to the weights."""
    return any(
        type(node).__name__ == "ToCopyBackward0" and node._input_metadata[0].dtype in (torch.float16, torch.bfloat16)
        for node in nodes
    )


def places_in(roots: Iterable[Any]) -> dict[Any, set[Place]]:
    """The places of each node under *roots*: below which nodes it stands, and how far down on the shortest way.

    Additions do not count: where a sum grows by an item, all that was in it before moves one addition further down.
    """
    found: dict[Any, set[Place]] = {}
    level: list[Any] = []
    _put(found, level, [(root, ROOT) for root in roots if root is not None])
    depth = 0
    while level and len(found) < LIMIT:
        depth += 1
        below = [
            (one, (depth, type(node).__name__)) for node in level for one, _ in node.next_functions if one is not None
        ]
        level = []
        _put(found, level, below)
    return found


def _put(found: dict[Any, set[Place]], level: list[Any], nodes: list[tuple[Any, Place]]) -> None:
    """Note the places of *nodes*, an addition's for its terms, too; new nodes but additions go to the next *level*."""
    while nodes:
        node, place = nodes.pop()
        if node not in found:
            found[node] = set()
            if not is_addition(node):
                level.append(node)
        if place not in found[node]:
            found[node].add(place)
            if is_addition(node):
                nodes += [(one, place) for one, _ in node.next_functions if one is not None]


def is_addition(node: Any) -> bool:
    """Whether a node adds tensors, and so stands for no place of its own."""
    return type(node).__name__ == "AddBackward0"


def repeats(places: dict[Any, set[Place]], now: Moment, *, by_hand: bool) -> bool:
    """Whether a pass enters earlier iterations, and only where a pass of them was at the same places of its own graph.

    So it is where a store of losses is filled on and on: its first items are sent back with every sum over it.
    """
    entries = [
        (following, above if is_addition(node) else {(min(depth for depth, _ in above) + 1, type(node).__name__)})
        for node, above in places.items()
        if not is_of_earlier_iteration(node.metadata, now, by_hand=by_hand)
        for following, _ in node.next_functions
        if following is not None and is_of_earlier_iteration(following.metadata, now, by_hand=by_hand)
        if not hasattr(following, "variable")
    ]
    return bool(entries) and all(place & one.metadata.get(PLACE, set()) for one, place in entries)


def sends_again(places: dict[Any, set[Place]]) -> bool:
    """Whether a pass enters freed graphs, and only at nodes that are terms of its root and were of another pass's.

    So it is where a total is added to after it was sent back: the whole of it would be sent back once more.
    """
    entries = [
        (above, following.metadata)
        for node, above in places.items()
        if SPENT not in node.metadata
        for following, _ in node.next_functions
        if following is not None and SPENT in following.metadata and not hasattr(following, "variable")
    ]
    return bool(entries) and all(ROOT in above and ROOT in notes.get(PLACE, ()) for above, notes in entries)


def trunk_of(roots: Iterable[Any]) -> list[str]:
    """The types of the nodes from the only one of *roots* to the first that parts into several; empty for several."""
    found: list[str] = []
    ways = [root for root in roots if root is not None]
    while len(ways) == 1 and len(found) < LONG:
        found.append(type(ways[0]).__name__)
        ways = below(ways[0])
    return found


def roots_of(tensors: Any) -> list[Any]:
    """The nodes at which a pass over *tensors* (one tensor, a gradient edge, or a sequence of them) begins."""
    if isinstance(tensors, torch.Tensor):
        return [node_of(tensors)]
    if hasattr(tensors, "node"):
        return [tensors.node]
    if isinstance(tensors, (list, tuple)):
        return [root for tensor in tensors for root in roots_of(tensor)]
    return []


def read_once(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that can be read again: ``autograd.grad(loss, net.parameters())`` is given a generator."""
    listed = [tuple(one) if isinstance(one, Iterator) else one for one in args]
    return tuple(listed), {name: tuple(one) if isinstance(one, Iterator) else one for name, one in kwargs.items()}


def in_transform() -> bool:
    """Whether a transform of ``torch.func`` is running: the tensors that it handles stand for others."""
    return torch._C._functorch.peek_interpreter_stack() is not None


@dataclass(frozen=True)
class Moment:
    """When and where a pass runs: after how many optimizer steps, and at which line of the user's."""

    step: int
    file: str
    line: int | None


def mark(nodes: Iterable[Any], note: str, moment: Moment) -> None:
    """Put *note* with the moment of the pass on every node.  It lives and dies with the node."""
    for node in nodes:
        node.metadata[note] = moment


def count_past(nodes: Iterable[Any], step: int) -> int:
    """Number of *nodes*, except leaves' accumulators, that an earlier pass has freed, or walked before step *step*."""
    return sum(1 for node in nodes if is_past(node.metadata, step) and not hasattr(node, "variable"))


def count_own(nodes: Iterable[Any], step: int, since: int) -> int:
    """Number of *nodes*, except leaves' accumulators, from which a way leads to a leaf through present nodes alone.

    Present are nodes that no earlier pass has freed, or walked before step *step*, and whose sequence number is *since*
    or more: what an earlier iteration has made for nobody is of the past, too.
    """
    alive: set[Any] = set()
    own = 0
    for node in sorted(nodes, key=lambda one: one._sequence_nr()):  # a node is made after all that it leads to
        if hasattr(node, "variable"):
            continue
        if is_past(node.metadata, step) or node._sequence_nr() < since:
            continue
        if any(below in alive or hasattr(below, "variable") for below, _ in node.next_functions if below is not None):
            alive.add(node)
            own += 1
    return own


def next_number() -> int:
    """The sequence number of a node that is made now: nodes with a smaller one were made before."""
    with torch.enable_grad():
        node = torch.zeros((), requires_grad=True).neg().grad_fn
    assert node is not None
    return int(node._sequence_nr())


def first_walked(nodes: Iterable[Any]) -> dict[torch.Tensor, int]:
    """Each leaf below the *nodes* that earlier passes have visited, and the first of these passes.

    All nodes under a node were visited by every pass that visited the node.
    """
    groups: dict[int, list[Any]] = {}
    for node in nodes:
        if FIRST in node.metadata and not hasattr(node, "variable"):
            groups.setdefault(node.metadata[FIRST], []).append(node)
    found: dict[torch.Tensor, int] = {}
    for number in sorted(groups):
        for leaf in walk(groups[number]).leaves:
            found.setdefault(leaf, number)
    return found


def is_past(notes: dict[str, Any], step: int) -> bool:
    """Whether a node with these notes was freed, or walked before the last of *step* optimizer steps."""
    return SPENT in notes or (WALKED in notes and notes[WALKED].step < step)


def is_of_earlier_iteration(notes: dict[str, Any], now: Moment, *, by_hand: bool) -> bool:
    """Whether a node with these notes was walked in an earlier iteration than the pass at *now*.

    An optimizer step ends an iteration; so does every pass, where weights are updated *by_hand*.  Within one step, a
    script that has gone back to the same line, or one above, has gone around a loop.
    """
    then = notes.get(SPENT) or notes.get(WALKED)
    if then is None:
        return False
    if then.step < now.step or by_hand:
        return True
    went_back = then.file != now.file or (then.line or 0) >= (now.line or 0)
    return SPENT in notes and went_back


class Meter:
    """Counts the graph nodes and bytes that are reachable from the tensors alive in Python.

    Nodes are counted rather than bytes alone, because after a backward pass only the nodes of a held graph stay.
    Counting starts from the garbage collector's list, so that the meter holds nothing itself and costs nothing
    between measurements.
    """

    def __init__(self) -> None:
        self._frozen: list[weakref.ref[torch.Tensor]] = []
        self._freezes = 0

    def measure(self) -> Live:
        tensors = self._tensors()
        storages: dict[int, int] = {}
        for tensor in tensors:
            try:
                storage = tensor.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
            except (RuntimeError, NotImplementedError):
                continue  # sparse and functional tensors have no storage of their own
        nodes = walk(map(node_of, tensors)).nodes
        armed = sum(1 for node in nodes if not hasattr(node, "variable") and SPENT not in node.metadata)
        return Live(len(nodes), armed, sum(storages.values()))

    def _tensors(self) -> list[torch.Tensor]:
        gc.collect()  # a cycle that waits for collection is not held by anyone
        things = gc.get_objects()
        tensors = [thing for thing in things if issubclass(type(thing), torch.Tensor)]
        known = [tensor for reference in self._frozen if (tensor := reference()) is not None]
        if len(things) > MANY and self._freezes < FREEZES:
            # Take the objects of the imports and the set-up out of the collector's sight, and remember the tensors.
            self._freezes += 1
            self._frozen += [weakref.ref(tensor) for tensor in tensors]
            del things
            gc.freeze()
        return known + tensors
