"""Tells a failure in places of the source, by asking the failing graph itself.

The message of the error only says which question to ask: the edges from fresh nodes to freed ones, the nodes whose
saved tensors were changed, the last calls that dropped a graph.  Without a failure: the values that keep graphs alive
for nothing.
"""

from __future__ import annotations

import gc
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .events import Events
from .graph import node_of, walk
from .holders import forms_in_frames, holders, tensors_made_by
from .notes import ACCUMULATE, BY, FREED, KEPT, MADE, Call, Tape
from .parameters import parameter_names
from .picture import Notes, picture
from .recorded import GRAPHLESS, Fact
from .reference import saved_names
from .sites import Chain, Sites

STALE = "backward through the graph a second time"
CHANGED = "modified by an inplace operation"
NOT_SCALAR = "grad can be implicitly created only for scalar outputs"
ERRORS = {
    "a leaf Variable that requires grad": "leaf changed",
    "a view of a leaf Variable that requires grad": "leaf changed",
    "functions with out=... arguments don't support automatic differentiation": "out argument",
    "is a view and is being modified inplace": "part changed",
    "A view was created in no_grad mode and is being modified inplace": "unrecorded view changed",
    "A view was created in no_grad mode and its base or another view": "unrecorded view read",
    "Can't call numpy() on Tensor that requires grad": "graph escapes",
    "Only Tensors created explicitly by the user": "graph copied",
    "subgraph that doesn't require differentiation": "refused flag",
    "change requires_grad flags of leaf variables": "refused leaf",
    "cannot register a hook on a tensor that doesn't require gradient": "refused hook",
    "can't retain_grad on Tensor that has requires_grad=False": "refused hook",
    "Tensors of floating point": "whole numbers",
    "Cowardly refusing to serialize non-leaf tensor": "graph sent",
    "invalid index of a 0-dim tensor": "legacy API",
    "Legacy autograd function with non-static forward": "legacy function",
}
"""Pieces of messages that a call itself raises, and the kind of fact that they tell of."""
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")

ELEMENTWISE = frozenset({"AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"})

MOST_FACTS = 16
MOST_OF_WAY = 40
"""Most calls on the way of a pass, and most passes, in a report."""
HELD = 4
"""Steps from which on graphs must be kept for a value to be told as holding them."""


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
            self._tell_overwritten(message, roots, failed)
        elif GRAPHLESS in message:
            self._tell_cut(failed)
        elif NOT_SCALAR in message:
            made = next((call for root in roots if root is not None and (call := made_by(root)) is not None), None)
            self._tell("not a scalar", {"made": made.chain if made else failed, "failed": failed})

    def _tell(self, kind: str, roles: dict[str, Chain | None], **details: Any) -> None:
        if self._told >= MOST_FACTS:
            return
        self._told += 1
        told = {name: self._sites.told(chain) for name, chain in roles.items() if chain}
        self._events.write(Fact({"kind": kind, "roles": told, **details}))

    def _tell_stale(self, roots: list[Any], failed: Chain) -> None:
        before = parents(roots, to_freed=True)
        told: dict[tuple[Any, ...], tuple[Any, Any, Call | None, Call | None]] = {}
        edges: Counter[tuple[Any, ...]] = Counter()
        for freed, fresh in before.items():
            if is_freed(freed):
                made, used = made_by(freed), fresh.metadata.get(MADE) if fresh is not None else None
                key = (made.chain if made else None, used.chain if used else None)
                edges[key] += 1
                told.setdefault(key, (freed, fresh, made, used))
        for key, (freed, fresh, made, used) in told.items():
            number = freed.metadata[FREED]
            by = freed.metadata.get(BY)
            self._tell(
                "stale graph",
                {
                    "made": made.chain if made else None,
                    "used": used.chain if used else failed,
                    "walked": by.chain if by else None,
                    "freed": self._tape.pass_sites.get(number),
                    "failed": failed,
                },
                node=freed.name(),
                edges=edges[key],
                freed_by_pass=number,
                one_step=self._tape.pass_steps.get(number) == self._tape.steps and not self._updated(freed, number),
                walked_enters=by.enters if by else False,
                made_after={"passes": made.passes, "steps": made.steps} if made else None,
                used_after={"passes": used.passes, "steps": used.steps} if used else None,
                failed_pass=self._tape.passes,
                **self._background(freed, before, made),
                graph=picture(roots, [fresh, freed], self._sites, Notes(MADE, FREED), parameter_names(self._root)),
            )

    def _updated(self, freed: Any, number: int) -> bool:
        """Whether the script itself has changed a parameter behind *freed* since pass *number*."""
        since = self._tape.pass_calls.get(number, 0)
        changes = [change for change in self._tape.changes if change.number > since]
        pointers = [leaf.data_ptr() for leaf in walk([freed]).leaves] if changes else []
        return any(change.begin <= pointer < change.end for change in changes for pointer in pointers)

    def _tell_overwritten(self, message: str, roots: list[Any], failed: Chain) -> None:
        seen: set[tuple[Any, ...]] = set()
        before = parents(roots)
        found = list(_overwritten(before)) or [(node, "result", *_versions(message)) for node in before if _hides(node)]
        for node, name, then, now in found:
            call = node.metadata.get(MADE)
            changes = list(self._changes_of(call, then, now)) if call else []
            if not changes and _hides(node):
                continue
            number, chain, what = changes[0] if changes else (None, None, {})
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
                    "retained": self._tape.pass_sites.get(node.metadata.get(KEPT, 0)),
                    **({"constructed": what.pop("constructed")} if what.get("constructed") else {}),
                },
                node=node.name(),
                saved_as=name,
                versions={"expected": then, "found": now},
                changes=[self._sites.told(c)[-1:] for _, c, _ in changes],
                changed_number=number,
                saved_after={"passes": call.passes, "steps": call.steps} if call else None,
                failed_pass=self._tape.passes,
                freed=FREED in node.metadata or None,
                **self._background(node, before, call),
                graph=picture(roots, [node], self._sites, Notes(MADE, FREED), parameter_names(self._root)),
                **{k: v for k, v in what.items() if k != "constructed"},
            )

    def _background(self, node: Any, before: dict[Any, Any], made: Call | None) -> dict[str, Any]:
        """Details of the failure for a repair: the way of the pass, the holders of its tensors, the passes between.

        ``way`` begins at the guilty node and ends at a root; nodes of one call are one step of it.
        """
        steps: list[tuple[Call, list[Any]]] = []
        at: Any = node
        while at is not None:
            call = made if at is node else at.metadata.get(MADE)
            if call is not None:
                if not steps or steps[-1][0] is not call:
                    steps.append((call, []))
                steps[-1][1].append(at)
            at = before[at]
        shown = steps if len(steps) <= MOST_OF_WAY else [*steps[: MOST_OF_WAY // 2], *steps[-MOST_OF_WAY // 2 :]]
        indices = {one: index for index, (_, nodes) in enumerate(shown) for one in nodes}
        first = made.passes if made else 0
        between = [n for n in range(first + 1, self._tape.passes) if n in self._tape.pass_sites]
        if len(between) > MOST_OF_WAY:
            between = [*between[: MOST_OF_WAY // 2], *between[-MOST_OF_WAY // 2 :]]
        return {
            "way": [self._step(call, nodes) for call, nodes in shown],
            "between": [{"pass": n, "frames": self._sites.told(self._tape.pass_sites[n])} for n in between],
            "holders": holders(
                {id(tensor): indices[node_of(tensor)] for tensor in tensors_made_by(set(indices))}, self._root
            ),
            "forms": forms_in_frames(self._root),
        }

    def _step(self, call: Call, nodes: list[Any]) -> dict[str, Any]:
        return {
            "frames": self._sites.told(call.chain),
            "number": call.number,
            "passes": call.passes,
            "steps": call.steps,
            "operation": nodes[-1].name(),
            "enters": any(reads_leaf(node) for node in nodes),
            "mixes": mixes(nodes[-1]),
        }

    def _changes_of(self, call: Call, then: int, now: int) -> Iterator[tuple[int, Chain, dict[str, Any]]]:
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
        yield from found

    def _tell_cut(self, failed: Chain) -> None:
        """The calls that dropped a graph: one of them is on the way to the loss, most likely a late one."""
        cuts = [(chain, cut) for chain, cut in reversed(self._tape.cuts.items()) if chain]
        recent = [one for one in cuts if one[1].passes == self._tape.passes - 1]
        told = [*recent, *(one for one in cuts if one not in recent)][:MOST_OF_WAY]
        self._tell(
            "cut graph",
            {"cut": told[0][0] if recent else None, "failed": failed},
            by=told[0][1].name if recent else "",
            cuts=[{"by": c.name, "recorded": c.recorded, "frames": self._sites.told(chain)} for chain, c in told],
        )

    def tell_error(
        self,
        error: BaseException,
        func: Callable[..., Any],
        here: Chain,
        tensors: list[torch.Tensor],
        constructed: Chain | None = None,
    ) -> None:
        """Tell of an error that a call itself raises on *tensors*, by a module that was told so at *constructed*."""
        message = str(error)
        for piece, kind in ERRORS.items():
            if piece in message:
                node = next((node for tensor in tensors if (node := node_of(tensor)) is not None), None)
                made = made_by(node) if node is not None else None
                background = self._background(node, {node: None}, made) if made is not None else {}
                roles = {"made": made.chain if made is not None else None, "failed": here, "constructed": constructed}
                self._tell(kind, roles, by=getattr(func, "__name__", str(func)), **background)
                return

    def tell_held(self) -> None:
        """Report the values that keep graphs of earlier steps: many values of one place, or one whose graph goes back.

        Nothing is reported once an earlier look has reported something.
        """
        if self._told:
            return
        groups: dict[Chain, list[torch.Tensor]] = {}
        for thing in gc.get_objects():
            if issubclass(type(thing), torch.Tensor) and node_of(thing) is not None:
                call = made_by(node_of(thing))
                if call is not None:
                    groups.setdefault(call.chain, []).append(thing)
        for chain, tensors in groups.items():
            steps = {one.steps for tensor in tensors for one in calls_under(node_of(tensor))}
            if len(steps) >= HELD:
                tensors.sort(key=lambda tensor: number_of(node_of(tensor)))
                held = holders({id(tensor): index for index, tensor in enumerate(tensors)}, self._root)
                first = node_of(tensors[min((holder["at"] for holder in held), default=0)])
                way = [self._step(call, [first]) for call in [made_by(first)] if call is not None]
                self._tell("graph held", {"made": chain}, steps=len(steps), values=len(tensors), holders=held, way=way)


def _overwritten(nodes: Iterable[Any]) -> Iterator[tuple[Any, str, int, int]]:
    """Saved tensors that were changed since: the node, the tensor's name, and the versions expected and found."""
    for node in nodes:
        for name in saved_names(type(node)):
            try:
                getattr(node, name)
            except RuntimeError as error:
                if CHANGED in str(error):
                    yield node, name.removeprefix("_saved_"), *_versions(str(error))


def _versions(message: str) -> tuple[int, int]:
    """The version of a tensor that a node expected, and the one that it found."""
    found = VERSIONS.search(message)
    return (int(found[2]), int(found[1])) if found else (0, 0)


def _hides(node: Any) -> bool:
    """Whether a node is an operation on a view in place, which does not show what it has saved."""
    return bool(node.name() == "torch::autograd::CopySlices")


def is_freed(node: Any) -> bool:
    return type(node) is not ACCUMULATE and FREED in node.metadata


def parents(roots: list[Any], *, to_freed: bool = False) -> dict[Any, Any]:
    """Every node of a pass to the node from which the pass first comes to it, None for the roots.

    With *to_freed*, nodes under freed ones are left out: the pass fails at the edge from a fresh node to a freed one.
    """
    before: dict[Any, Any] = {root: None for root in roots if root is not None}
    queue = deque(before)
    while queue:
        node = queue.popleft()
        if to_freed and is_freed(node):
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in before:
                before[following] = node
                queue.append(following)
    return before


def reads_leaf(node: Any) -> bool:
    """Whether a node reads a leaf that is trained, perhaps through another node of its call (a transposed weight)."""
    call = node.metadata.get(MADE)
    for under, _ in node.next_functions:
        if type(under) is ACCUMULATE:
            return True
        if under is not None and under.metadata.get(MADE) is call:
            if any(type(leaf) is ACCUMULATE for leaf, _ in under.next_functions):
                return True
    return False


def mixes(node: Any) -> bool:
    """Whether a node combines several graphs element by element; a sum of losses is no such thing."""
    if node.name() not in ELEMENTWISE or len({under for under, _ in node.next_functions if under is not None}) < 2:
        return False
    shapes = [one.shape for one in getattr(node, "_input_metadata", ())]
    return not shapes or len(shapes[0]) > 0


def crossing(node: Any, before: dict[Any, Any]) -> tuple[Call | None, Call | None]:
    """Calls at which the way from the roots to *node* enters an earlier iteration's graph: its maker and its user.

    At that place, a node that was made after one more pass uses a node that was made before it.  None and None if the
    way stays in one iteration.
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


def number_of(node: Any) -> int:
    """The number of the call that made *node*, or the first known one of the nodes under it; 0 if there is none."""
    call = made_by(node)
    return call.number if call is not None else 0


def calls_under(node: Any) -> Iterator[Call]:
    """The calls that made *node* and the nodes under it."""
    for one in walk([node]).nodes:
        call = one.metadata.get(MADE)
        if isinstance(call, Call) and not hasattr(one, "variable"):
            yield call
