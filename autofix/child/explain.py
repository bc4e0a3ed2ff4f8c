"""Tells a failure in places of the source, by asking the failing graph itself.

The message of the error only says which question to ask: the edges from fresh nodes to freed ones, the nodes whose
saved tensors were changed, the last calls that dropped a graph.  Without a failure: the values that keep graphs alive
for nothing.
"""

from __future__ import annotations

import gc
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from .events import Events
from .graph import walk
from .holders import holders, tensors_made_by
from .parameters import parameter_names
from .picture import Notes, picture
from .reference import saved_names
from .sites import Chain, Sites

MADE = "autofix_made"
"""Key in ``Node.metadata`` of the call that made a node."""
FREED = "autofix_freed"
"""Key of the number of the pass that freed it."""

STALE = "backward through the graph a second time"
CHANGED = "modified by an inplace operation"
CUT = "does not require grad and does not have a grad_fn"
ERRORS = {
    "a leaf Variable that requires grad": "leaf changed",
    "a view of a leaf Variable that requires grad": "leaf changed",
    "Can't call numpy() on Tensor that requires grad": "graph escapes",
    "Only Tensors created explicitly by the user": "graph escapes",
    "invalid index of a 0-dim tensor": "legacy API",
}
"""Pieces of messages that a call itself raises, and the kind of fact that they tell of."""
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")

MOST_FACTS = 16
HELD = 4
"""Steps from which on graphs must be kept for a value to be told as holding them."""


class Call:
    """One call of torch that made nodes: where, after how many passes and steps, and on what memory it worked."""

    __slots__ = ("chain", "number", "passes", "pointers", "steps")

    def __init__(self, chain: Chain, number: int, passes: int, steps: int, pointers: tuple[int, ...]) -> None:
        self.chain = chain
        self.number = number
        self.passes = passes
        self.steps = steps
        self.pointers = pointers


class Change:
    """A change in place: of which memory, from which version to which, where, by what."""

    __slots__ = ("begin", "chain", "end", "kind", "made", "name", "number", "version")

    def __init__(
        self, tensor: torch.Tensor, chain: Chain, number: int, name: str, kind: str, made: Chain | None
    ) -> None:
        storage = tensor.untyped_storage()
        self.begin = storage.data_ptr()
        self.end = self.begin + storage.nbytes()
        self.version = tensor._version
        self.chain = chain
        self.number = number
        self.name = name
        self.kind = kind
        self.made = made


@dataclass
class Tape:
    """What the witness has seen so far."""

    calls: int = 0
    passes: int = 0
    steps: int = 0
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=4096))
    step_sites: deque[tuple[int, Optimizer, Chain]] = field(default_factory=lambda: deque(maxlen=256))
    pass_sites: dict[int, Chain] = field(default_factory=dict)
    cuts: deque[tuple[str, Chain, int]] = field(default_factory=lambda: deque(maxlen=64))
    """Calls that took tensors with a graph and gave back something without: name, place, passes before."""


class Explainer:
    """Answers the questions, and writes the answers as events."""

    def __init__(self, tape: Tape, sites: Sites, events: Events, root: str) -> None:
        self._tape = tape
        self._sites = sites
        self._events = events
        self._root = root
        self._told = 0

    def explain(self, message: str, roots: list[Any], failed: Chain) -> None:
        """Tell the facts behind the failure of a pass."""
        if STALE in message:
            self._tell_stale(roots, failed)
        elif CHANGED in message:
            self._tell_overwritten(roots, failed)
        elif CUT in message:
            self._tell_cut(failed)

    def _tell(self, kind: str, roles: dict[str, Chain | None], **details: Any) -> None:
        if self._told >= MOST_FACTS:
            return
        self._told += 1
        told = {name: self._sites.told(chain) for name, chain in roles.items() if chain}
        self._events.write("fact", kind=kind, roles=told, **details)

    def _tell_stale(self, roots: list[Any], failed: Chain) -> None:
        seen: set[tuple[Any, ...]] = set()
        for fresh, freed in frontier(roots):
            made, used = made_by(freed), fresh.metadata.get(MADE) if fresh is not None else None
            key = (made.chain if made else None, used.chain if used else None)
            if key in seen:
                continue
            seen.add(key)
            number = freed.metadata[FREED]
            self._tell(
                "stale graph",
                {
                    "made": made.chain if made else None,
                    "used": used.chain if used else failed,
                    "freed": self._tape.pass_sites.get(number),
                    "failed": failed,
                },
                node=freed.name(),
                freed_by_pass=number,
                made_after={"passes": made.passes, "steps": made.steps} if made else None,
                used_after={"passes": used.passes, "steps": used.steps} if used else None,
                failed_pass=self._tape.passes,
                holders=holders(tensors_made_by({freed}), self._root),
                graph=picture(roots, [fresh, freed], self._sites, Notes(MADE, FREED), parameter_names(self._root)),
            )

    def _tell_overwritten(self, roots: list[Any], failed: Chain) -> None:
        seen: set[tuple[Any, ...]] = set()
        before = parents(roots)
        for node in before:
            call = node.metadata.get(MADE)
            for name in saved_names(type(node)):
                try:
                    getattr(node, name)
                except RuntimeError as error:
                    if CHANGED not in str(error):
                        continue
                    found = VERSIONS.search(str(error))
                    now, then = (int(found[1]), int(found[2])) if found else (0, 0)
                    changes = list(self._changes_of(call, then, now)) if call else []
                    chain, what = changes[0] if changes else (None, {})
                    made, used = crossing(node, before)
                    key = (call.chain if call else None, chain)
                    if key in seen:
                        continue
                    seen.add(key)
                    self._tell(
                        "overwritten",
                        {
                            "saved": call.chain if call else None,
                            "made": made.chain if made else None,
                            "used": used.chain if used else None,
                            "changed": chain,
                            "failed": failed,
                            **({"constructed": what.pop("constructed")} if what.get("constructed") else {}),
                        },
                        node=node.name(),
                        saved_as=name.removeprefix("_saved_"),
                        versions={"expected": then, "found": now},
                        changes=[self._sites.told(c)[-1:] for c, _ in changes],
                        saved_after={"passes": call.passes, "steps": call.steps} if call else None,
                        freed=FREED in node.metadata or None,
                        graph=picture(roots, [node], self._sites, Notes(MADE, FREED), parameter_names(self._root)),
                        **{k: v for k, v in what.items() if k != "constructed"},
                    )

    def _changes_of(self, call: Call, then: int, now: int) -> Iterator[tuple[Chain, dict[str, Any]]]:
        """The changes, in their order, of memory that *call* worked on, made after it."""
        found: list[tuple[int, Chain, dict[str, Any]]] = []
        for change in self._tape.changes:
            if change.number >= call.number and then < change.version <= now:
                if any(change.begin <= pointer < change.end for pointer in call.pointers):
                    how = {"change": change.kind, "by": change.name, "constructed": change.made}
                    found.append((change.number, change.chain, how))
        for number, optimizer, chain in self._tape.step_sites:
            if number >= call.number:
                pointers = {p.data_ptr() for group in optimizer.param_groups for p in group["params"]}
                if pointers.intersection(call.pointers):
                    found.append((number, chain, {"change": "optimizer step", "by": type(optimizer).__name__}))
        found.sort(key=lambda one: one[0])
        for _, chain, how in found:
            yield chain, how

    def _tell_cut(self, failed: Chain) -> None:
        """The last calls that dropped a graph, the latest first: one of them is on the way to the loss."""
        seen: set[Chain] = set()
        for name, chain, passes in reversed(self._tape.cuts):
            if passes == self._tape.passes - 1 and chain and chain not in seen:
                seen.add(chain)
                self._tell("cut graph", {"cut": chain, "failed": failed}, by=name)
        if not seen:
            self._tell("cut graph", {"failed": failed})

    def tell_error(self, error: BaseException, func: Callable[..., Any], here: Chain) -> None:
        """Tell of an error that a call itself raises."""
        message = str(error)
        for piece, kind in ERRORS.items():
            if piece in message:
                self._tell(kind, {"failed": here}, by=getattr(func, "__name__", str(func)))
                return

    def tell_held(self) -> None:
        """Tell which values keep graphs of earlier steps: many values of one place, or one whose graph goes back."""
        groups: dict[Chain, list[torch.Tensor]] = {}
        for thing in gc.get_objects():
            if issubclass(type(thing), torch.Tensor) and thing.grad_fn is not None:
                call = made_by(thing.grad_fn)
                if call is not None:
                    groups.setdefault(call.chain, []).append(thing)
        for chain, tensors in groups.items():
            steps = {one.steps for tensor in tensors for one in calls_under(tensor.grad_fn)}
            if len(steps) >= HELD:
                held = holders(tensors, self._root)
                self._tell("graph held", {"made": chain}, steps=len(steps), values=len(tensors), holders=held)


def frontier(roots: list[Any]) -> list[tuple[Any, Any]]:
    """The edges from fresh nodes to freed ones; a freed root has no fresh node before it."""
    edges: list[tuple[Any, Any]] = []
    seen: set[Any] = set()
    stack = [(None, node) for node in roots if node is not None]
    while stack:
        before, node = stack.pop()
        if FREED in node.metadata and not hasattr(node, "variable"):
            edges.append((before, node))
            continue
        if node not in seen:
            seen.add(node)
            stack.extend((node, following) for following, _ in node.next_functions if following is not None)
    return edges


def parents(roots: list[Any]) -> dict[Any, Any]:
    """Every node of a pass to the node from which the pass first comes to it, None for the roots."""
    before: dict[Any, Any] = {root: None for root in roots if root is not None}
    queue = deque(before)
    while queue:
        node = queue.popleft()
        for following, _ in node.next_functions:
            if following is not None and following not in before:
                before[following] = node
                queue.append(following)
    return before


def crossing(node: Any, before: dict[Any, Any]) -> tuple[Call | None, Call | None]:
    """Where the way from the roots to *node* enters an earlier iteration's graph: the calls that made and used it.

    That is where a node that was made after one more pass uses one that was made before it.  None and None if the way
    stays in one iteration.
    """
    call, later = node.metadata.get(MADE), before[node]
    while later is not None:
        user = later.metadata.get(MADE)
        if call is not None and user is not None and user.passes > call.passes:
            return call, user
        call, later = user or call, before[later]
    return None, None


def made_by(node: Any) -> Call | None:
    """The call that made *node*, or the nearest under it: nodes made by a pass with ``create_graph`` have no site."""
    for one in walk([node]).nodes:
        call = one.metadata.get(MADE)
        if isinstance(call, Call):
            return call
    return None


def calls_under(node: Any) -> Iterator[Call]:
    """The calls that made *node* and what lies under it."""
    for one in walk([node]).nodes:
        call = one.metadata.get(MADE)
        if isinstance(call, Call) and not hasattr(one, "variable"):
            yield call
