"""The symbolic tape: nodes, what they save and at which version, and what a backward pass does to them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, partial
from typing import Any, NamedTuple

from autofix.codemods.autograd import groups
from autofix.codemods.facts import Form
from autofix.codemods.source.sources import Site


class LoopPoint(NamedTuple):
    """State of a dynamic loop: the statement, the number of this run, the number of the iteration (from 0)."""

    statement: Site
    instance: int
    iteration: int


Loops = tuple[LoopPoint, ...]


def crossing(earlier: Loops, later: Loops) -> LoopPoint | None:
    """The outermost loop that moved on between two moments, as it stood at the later; None in the same iteration."""
    for before, after in zip(earlier, later, strict=False):
        if before.instance != after.instance:
            return None
        if before.iteration != after.iteration:
            return after
    return None


def _is_within(loops: Loops, iteration: Loops) -> bool:
    """Whether a moment with these *loops* around it lies in one *iteration* of loops."""
    return bool(iteration) and loops[: len(iteration)] == iteration


def distance(made: Loops, seen: Loops) -> tuple[int, ...]:
    """For each common loop, the number of iterations between two moments; trailing zeros are left out."""
    gaps = []
    for before, after in zip(made, seen, strict=False):
        if before.instance != after.instance:
            break
        gaps.append(after.iteration - before.iteration)
    while gaps and gaps[-1] == 0:
        gaps.pop()
    return tuple(gaps)


class DetachSite(NamedTuple):
    """A place where a value lost its graph."""

    site: Site
    how: str
    """``detach``, ``data``, ``item``, ``tensor`` (of a value), ``tensors`` (of several), ``number``, ``numpy``,
    ``flag``, ``integer``, ``grad``, ``no_grad``, ``frozen`` or ``unflagged``."""
    nodes: tuple[Node, ...]
    """The graph that was lost."""
    guard: Site | None = None
    """The place that turned recording off: a ``with`` statement, a decorated function, a call."""
    leaves: tuple[Leaf, ...] = ()
    """For ``frozen``: the parameters that would have given it a graph."""


class Detachment(NamedTuple):
    """Provenance of a value without a graph: the places at which the graph that it could have had was lost."""

    cuts: tuple[DetachSite, ...]
    """The places, in the order in which the value met them."""
    several: bool = False
    """Whether several values that lost their graphs met in it, so that one of them may be meant to have none."""


class StoreEvent(NamedTuple):
    """A statement that carried a value on: an assignment, an append, an attribute."""

    statement: Site
    expression: Site | None
    name: str
    form: Form
    loops: Loops
    clock: int
    owner: Any = None
    """The object whose attribute it set, or the container of which it set an item."""
    items: bool = False
    """Whether the name is that of the container."""
    whole: str = ""
    """For a value whose form has no name: see :func:`~autofix.codemods.interpreter.forms.whole_of`."""
    is_added: bool = False
    """Whether the statement adds to something that grows: ``losses.append(loss)``, ``losses += [loss]``."""


class Change(NamedTuple):
    """An in-place change of a storage."""

    site: Site
    by_step: bool
    clock: int
    origin: Site | None = None
    """Construction of the module that made the change."""
    part: bool = False
    """Whether the change was made through a part of the tensor, picked by index, that other names do not see."""
    stack: tuple[Site, ...] = ()
    """The calls of the program's own functions that it was made in, outermost first."""
    parameter: bool = False
    """Whether a parameter was changed, and not by a step."""
    guessed: bool = False
    """Whether what takes the step is only likely to be an optimizer."""


@dataclass(eq=False, slots=True)
class Storage:
    """Storage shared by views: a version counter and the places that raised it."""

    changes: list[Change] = field(default_factory=list)
    inference: Site | None = None
    """The place that switched on the inference mode in which it was made."""

    @property
    def version(self) -> int:
        return len(self.changes)

    def as_saved(self) -> Saved:
        """The storage as an operation saves it now."""
        return Saved(self, self.version)


@dataclass(eq=False, slots=True)
class Leaf:
    """A parameter, or all the parameters of one torch module: a tensor that collects gradients."""

    name: str
    storage: Storage
    grads: list[BackwardCall] = field(default_factory=list)
    node: Node | None = None
    frozen: bool = False
    """Whether ``requires_grad`` was taken from it."""
    frozen_at: Site | None = None
    """The last place that took it."""
    copied: Detachment | None = None
    """For a copy of a value with a graph: the lost graph of ``torch.tensor(loss, requires_grad=True)``."""
    asked: bool = False
    """Whether the program asks for its gradient."""
    given: bool = False
    """Whether the program sets its gradient by hand."""
    parts: dict[str, bool] = field(default_factory=dict)
    """For a module whose parameters are known by name: whether each is frozen by itself, or frozen in its place."""
    supposed: bool = False
    """Whether the only sign of a parameter is that the program puts one in its place."""
    doubtful: bool = False
    """Whether it stands for the parameters of a value that may have none: one of which only the mode is set."""
    plain: bool = False
    """Whether it is a tensor that was told to require grad, and no ``nn.Parameter``: no module counts it as its own."""
    within: tuple[Leaf, str] | None = None
    """For a parameter that was put in the place of a module's: the module's leaf and the name."""


class Group(NamedTuple):
    """A group of parameters that an optimizer was given beside others, and when."""

    clock: int
    leaves: frozenset[Leaf]


class Saved(NamedTuple):
    storage: Storage
    version: int


class Operand(NamedTuple):
    """An edge of the graph, and the statements that carried the operand to the operation that reads it."""

    node: Node
    provenance: tuple[StoreEvent, ...]


@dataclass(eq=False, slots=True)
class Node:
    """A ``grad_fn``."""

    operation: str
    site: Site
    operands: tuple[Operand, ...]
    loops: Loops
    clock: int
    saves: bool = True
    """Whether it saves a tensor at all: a second walk over a node that saves none raises nothing."""
    saved: tuple[Saved, ...] = ()
    opaque: bool = False
    """Whether it stands for a model whose source was not read."""
    doubtful: bool = False
    """Whether it stands for a call whose result may not even carry the graph of the arguments."""
    layer: bool = False
    """Whether it stands for a call of a layer by all appearances: then a loss that comes from it has a graph."""
    leaf: Leaf | None = None
    scalar: bool = False
    """Whether its result certainly has no dimensions."""
    stack: tuple[Site, ...] = ()
    """The calls of the program's own functions that it was made in, outermost first."""
    missing: tuple[Detachment, ...] = ()
    """The lost graphs of the arguments that came without one."""
    constants: tuple[DetachSite, ...] = ()
    """The places at which arguments were detached, and so marked as constants, or came from ``autograd.grad``."""
    frozen: tuple[Leaf, ...] = ()
    """The frozen parameters that it computes with."""
    walked: BackwardCall | None = None
    """The first pass that went over it."""
    freed_by: BackwardCall | None = None
    """The pass that freed it."""
    consumer: Node | None = None
    """The node through which the pass that freed it came; of several, the one that was made first."""
    surely: bool = True
    """Whether the freeing pass came to it for certain, and not through a call of which nothing is known."""
    readings: Sequence[Node] = ()
    """Of an item of a result that was not read: the nodes of all readings of that item, which are one tensor."""
    rests: bool = field(init=False)
    """Whether it computes with nothing but results of doubtful calls: it exists only if one of these has a graph."""

    def __post_init__(self) -> None:
        self.rests = bool(self.operands) and all(one.node.doubtful or one.node.rests for one in self.operands)

    def pass_through(self, current: BackwardCall, consumer: Node | None, *, frees: bool, surely: bool) -> None:
        """Record that the pass *current* came here from the *consumer*, for certain or not; it may free the node."""
        if self.walked is None:
            self.walked = current
        if frees and self.freed_by is None:
            self.freed_by = current
            self.consumer = consumer
            self.surely = surely

    @property
    def was_walked(self) -> bool:
        """Whether a pass went over it: then its value has a graph."""
        return self.walked is not None or any(one.walked is not None for one in self.readings)

    def is_output_of(self, operation: Node) -> bool:
        """Whether it stands for another output of an *operation*, made by the same call: an LSTM's state."""
        return (
            self.operation == "select"
            and operation.operation in groups.RECURRENT
            and not self.saves
            and [operand.node for operand in self.operands] == [operation]
            and (self.site, self.stack, self.loops) == (operation.site, operation.stack, operation.loops)
        )

    @property
    def is_one_of_several(self) -> bool:
        """Whether it is an item of the result of a call that was not read: a count, maybe, without a graph."""
        return self.operation == "select" and any(operand.node.opaque for operand in self.operands)


@dataclass(eq=False, slots=True)
class BackwardCall:
    """One backward pass (or one call of ``autograd.grad``)."""

    site: Site
    loops: Loops
    clock: int
    retains: bool
    stack: tuple[Site, ...] = ()
    edges: list[tuple[Node, Node]] = field(default_factory=list)
    """All edges, consumer and producer, under the roots."""
    targets: set[int] = field(default_factory=set)
    """Identities of the nodes, leaves apart, whose gradients it was asked for."""
    old: set[int] = field(default_factory=set)
    """Identities of the nodes under the roots that belong to the past: see :meth:`Tape._past`."""
    explores: bool = False
    """Whether it is a call of ``autograd.grad`` that leaves the graph as it is: further such calls are to come."""
    idle: bool = False
    """Whether it reaches only leaves that nobody trains."""
    steps: set[int] = field(default_factory=set)
    """The optimizers' steps that use its gradients, by their moments."""
    served_again: bool = False
    """Whether a parameter was stepped with its gradient more than once: nobody had set it to zero."""
    owners: set[Leaf] = field(default_factory=set)
    """The leaves that optimizers step before the next pass."""
    _users: dict[int, list[Node]] = field(default_factory=dict)
    _producers: dict[int, list[Node]] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, ...]:
        """Its line, and those of the calls that led to it."""
        return (self.site.line, *(site.line for site in self.stack))

    def reads_frozen(self, leaves: set[Leaf]) -> bool:
        """Whether it goes through operations that compute with some of these leaves while they are frozen."""
        return any(leaf in leaves for node, _ in self.edges for leaf in node.frozen)

    def users(self) -> dict[int, list[Node]]:
        """The consumers of each node on its ways, by the node's identity; asked for once it has gone all of them."""
        if not self._users:
            for consumer, producer in self.edges:
                self._users.setdefault(id(producer), []).append(consumer)
        return self._users

    def producers(self) -> dict[int, list[Node]]:
        """The nodes that each node on its ways was computed of, by that node's identity; asked for as :meth:`users`."""
        if not self._producers:
            for consumer, producer in self.edges:
                self._producers.setdefault(id(consumer), []).append(producer)
        return self._producers

    def roots(self) -> list[Node]:
        """The nodes that it begins with, once for each of their edges."""
        users = self.users()
        return [consumer for consumer, _ in self.edges if id(consumer) not in users]

    def above(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """The nodes that it comes through on its ways to some of them."""
        users = self.users()
        pending = list(nodes)
        seen = {id(node) for node in pending}
        while pending:
            for user in users.get(id(pending.pop()), ()):
                if id(user) not in seen:
                    seen.add(id(user))
                    pending.append(user)
                    yield user

    def leads_through(self, leaf: Leaf) -> bool:
        """Whether a leaf is a parameter of an operation on a way to one of its owners."""
        owned = (producer for _, producer in self.edges if producer.leaf in self.owners)
        return any(operand.node.leaf is leaf for user in self.above(owned) for operand in user.operands)


def repeats(earlier: BackwardCall, later: BackwardCall) -> bool:
    """Whether *later* belongs to another iteration, or another call, of the same training step."""
    return crossing(earlier.loops, later.loops) is not None or earlier.site.node is later.site.node


class FreedGraphUse(NamedTuple):
    """The frontier: a fresh node (None for the root itself) that reads a consumed one."""

    reader: Node | None
    node: Node
    provenance: tuple[StoreEvent, ...]
    freed: BackwardCall
    failed: BackwardCall
    walked: Node | None = None
    """The node through which the freeing pass came."""
    outside: tuple[StoreEvent, ...] = ()
    """The statements that kept the value in attributes, under the names that callers have for them."""
    surely: bool = True
    """Whether the freeing pass came to it for certain."""


class SavedTensorModified(NamedTuple):
    """A node whose saved tensor was changed, and the change.

    ``reader`` and ``via`` are the edge on the pass's way to the node that was laid after the change, where there is
    one: there an old graph entered a new computation.
    """

    node: Node
    change: Change
    reader: Node | None
    provenance: tuple[StoreEvent, ...]
    failed: BackwardCall
    outside: tuple[StoreEvent, ...] = ()
    surely: bool = True
    """Whether the failing pass comes to it for certain."""


@dataclass(eq=False)
class Tape:
    """Everything that happened on one path through the program."""

    clock: int = 0
    passes: list[BackwardCall] = field(default_factory=list)
    stale: list[FreedGraphUse] = field(default_factory=list)
    clobbered: list[SavedTensorModified] = field(default_factory=list)
    trained: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    """Pairs of a pass (by line) and a parameter to which it gave a gradient that a step then used."""
    left_over: set[tuple[int, str]] = field(default_factory=set)
    """Gradients that a step uses although it is likely that somebody forgot to clear them: pass and parameter."""
    served: set[tuple[int, str]] = field(default_factory=set)
    """As ``trained``, with the pass itself (its identity) instead of its line: a helper runs passes for many."""
    owned: set[Leaf] = field(default_factory=set)
    """Parameters that some optimizer holds."""
    stepped: set[Leaf] = field(default_factory=set)
    """Parameters for which an optimizer's step was made, whether they had a gradient or not."""
    owners: dict[Leaf, Site] = field(default_factory=dict)
    """For each parameter, the construction of the last optimizer that was given it."""
    groups: list[Group] = field(default_factory=list)
    """Groups that optimizers were given one by one."""
    unknown_owner: bool = False
    """Whether an optimizer was met whose parameters are not known."""
    rootless: set[int] = field(default_factory=set)
    """Lines of passes whose root certainly has no graph."""
    updated: set[tuple[str, Site]] = field(default_factory=set)
    """Parameters, by name, and the steps that used a gradient of theirs."""
    reached: set[Any] = field(default_factory=set)
    """Statements (nodes of the syntax tree) that kept values for a pass of a later iteration, or behind the loop."""

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def _ask_for(self, inputs: list[Node], current: BackwardCall) -> None:
        """Record that *current* returns the gradients of *inputs*: a requested gradient counts as used."""
        self.served.update((id(current), node.leaf.name) for node in inputs if node.leaf is not None)
        current.targets.update(id(node) for node in inputs if node.leaf is None)

    def backward(
        self,
        roots: Iterable[Operand],
        site: Site,
        loops: Loops,
        *,
        retain: bool,
        inputs: list[Node] | None = None,
        accumulate: bool = True,
        stack: tuple[Site, ...] = (),
    ) -> BackwardCall:
        """Walk the graph under *roots*: note what is stale or overwritten, give leaves their gradient, free the graph.

        A pass that would raise goes on as if the graph had been kept, so that one run shows every mistake.
        """
        current = BackwardCall(site, loops, self.tick(), retain, stack, explores=retain and not accumulate)
        self.passes.append(current)
        wanted = _leading_to(inputs, roots) if inputs is not None else None
        if inputs is not None and not accumulate:
            self._ask_for(inputs, current)
        walked: list[Node] = []
        leaves: list[Leaf] = []
        parents: dict[int, tuple[Node | None, tuple[StoreEvent, ...]]] = {}
        sure: dict[int, _Way] = {}
        first: dict[int, Node] = {}
        # The last item of an entry: how certain the way to the node is.
        pending: list[tuple[Node, Node | None, tuple[StoreEvent, ...], FreedGraphUse | None, _Way]] = []
        roots = list(roots)
        forced = cache(partial(_on_every_way, [root.node for root in roots]))
        for root in roots:
            self._reach(root.provenance, loops)
            pending.append((root.node, None, root.provenance, None, _Way.CERTAIN))
        if wanted is not None and not accumulate and all(id(root.node) not in wanted for root in roots):
            self.rootless.add(site.line)  # none of the requested inputs has a part in it
        found: dict[tuple[int, int], FreedGraphUse] = {}
        while pending:
            node, reader, provenance, entry, certain = pending.pop()
            if certain and (node.doubtful or node.rests):
                certain = min(certain, forced().get(id(node), _guess(node)))
            if wanted is not None and id(node) not in wanted:
                continue
            if node.freed_by is not None:
                if entry is None:
                    entry = FreedGraphUse(reader, node, provenance, node.freed_by, current, surely=node.surely)
                if node.saves and certain:  # it raises here, behind operations that save nothing and raise nothing
                    surely = entry.surely and node.surely and certain is _Way.CERTAIN
                    known = found.setdefault((id(entry.reader), id(entry.node)), entry._replace(surely=surely))
                    found[id(entry.reader), id(entry.node)] = known._replace(surely=known.surely or surely)
            if reader is not None and (id(node) not in first or reader.clock < first[id(node)].clock):
                first[id(node)] = reader
            if id(node) in parents and (certain <= sure[id(node)]):
                continue
            again = id(node) in parents
            parents[id(node)] = (reader, provenance)
            sure[id(node)] = certain
            if certain:
                self._check_saved(node, parents, current, surely=certain is _Way.CERTAIN)
            if again:
                pending.extend((o.node, node, o.provenance, entry, certain) for o in node.operands)
                continue
            if node.leaf is not None:
                leaves.append(node.leaf)
                if accumulate:
                    node.leaf.grads.append(current)
                elif wanted is not None and node.leaf in self.owned:  # requested: a missing part is an error
                    self.trained.add((current.place, node.leaf.name))
                continue
            walked.append(node)
            for operand in node.operands:
                current.edges.append((node, operand.node))
                self._reach(operand.provenance, loops)
                pending.append((operand.node, node, operand.provenance, entry, certain))
        _believe(leaves)
        for one in found.values():
            node, reader, provenance = _entry(one.node, one.reader, one.provenance, current, parents, one.freed)
            self.stale.append(one._replace(node=node, reader=reader, provenance=provenance, walked=one.node.consumer))
        current.old = self._past(walked, current)
        for node in walked:
            node.pass_through(current, first.get(id(node)), frees=not retain, surely=sure[id(node)] is _Way.CERTAIN)
        return current

    def _reach(self, provenance: tuple[StoreEvent, ...], loops: Loops) -> None:
        """Note the statements that kept a value for a pass with these *loops* around it.

        Nothing need be added to a container for a pass of the same iteration: ``losses.append(loss);
        losses[-1].backward()``.
        """
        for kept in provenance:
            if kept.statement.node not in self.reached and not (kept.is_added and _is_within(loops, kept.loops)):
                self.reached.add(kept.statement.node)

    def _past(self, walked: list[Node], current: BackwardCall) -> set[int]:
        """Identities of those nodes that a pass of an earlier iteration went over, or was to go over.

        The latter were made before it and build on the former, but its root did not lead there: what a memory is given
        last in an iteration is first read in the next one.  Whoever cuts the way to the past cuts them off as well.
        """
        # The passes stand in the order of their clocks, and only what was made in a loop may be late.
        passes = reversed(self.passes) if current.loops else ()
        before = next((one.clock for one in passes if one is not current and repeats(one, current)), 0)
        old: set[int] = set()
        for node in sorted(walked, key=lambda node: node.clock):
            again = node.walked is not None and repeats(node.walked, current)
            late = node.clock < before and crossing(node.loops, current.loops) is not None
            if again or (late and any(id(operand.node) in old for operand in node.operands)):
                old.add(id(node))
        return old | _behind_the_spoilt(walked, current)

    def _check_saved(
        self,
        node: Node,
        parents: dict[int, tuple[Node | None, tuple[StoreEvent, ...]]],
        current: BackwardCall,
        *,
        surely: bool,
    ) -> None:
        for storage, version in node.saved:
            if storage.version > version:
                change = storage.changes[version]
                reader, provenance = parents[id(node)]
                entered = node
                while reader is not None and reader.clock < change.clock:
                    entered = reader
                    reader, provenance = parents[id(reader)]
                earlier = (one for one in reversed(self.passes) if one.clock < change.clock and repeats(one, current))
                _, reader, provenance = _entry(entered, reader, provenance, current, parents, next(earlier, None))
                self.clobbered.append(SavedTensorModified(node, change, reader, provenance, current, surely=surely))
                return

    def step(self, leaves: Iterable[Leaf], site: Site, stack: tuple[Site, ...], *, guessed: bool = False) -> None:
        """An optimizer's step: changes in place every parameter that has a gradient."""
        moment = self.tick()
        leaves = list(leaves)
        if self.passes:
            self.passes[-1].owners.update(leaves)
        for leaf in leaves:
            self.stepped.add(leaf)
            if not leaf.grads and not leaf.given:
                continue
            for backward in leaf.grads:
                if _is_left_over(backward, leaf):
                    self.left_over.add((id(backward), leaf.name))
                    continue
                self.trained.add((backward.place, leaf.name))
                self.updated.add((leaf.name, site))
                backward.served_again |= (id(backward), leaf.name) in self.served
                self.served.add((id(backward), leaf.name))
                backward.steps.add(moment)
            leaf.storage.changes.append(Change(site, True, self.tick(), stack=stack, guessed=guessed))

    def change(
        self,
        storage: Storage,
        site: Site,
        origin: Site | None = None,
        part: bool = False,
        stack: tuple[Site, ...] = (),
        parameter: bool = False,
    ) -> None:
        storage.changes.append(Change(site, False, self.tick(), origin, part, stack, parameter))


def _is_left_over(one: BackwardCall, leaf: Leaf) -> bool:
    """Whether a pass left its gradient in a leaf by the way, where nobody cleared it before the leaf's own pass.

    In a GAN that clears gradients after each step, the discriminator's loss, which the discriminator's step follows,
    leaves a gradient in the generator, whose own loss goes through the discriminator; and this in turn leaves one in
    the discriminator, on its way to the generator.  Two losses that share an encoder are different: neither reaches the
    other's head.
    """
    own = leaf.grads[-1]
    if own is one or not one.owners or leaf in one.owners:
        return False
    return any(own in owner.grads for owner in one.owners) or own.reads_frozen(one.owners) or one.leads_through(leaf)


class _Way(IntEnum):
    """Certainty that a backward pass comes to a node."""

    DOUBTFUL = 0
    """A call of which nothing is known lies on the way."""
    LIKELY = 1
    """The called object is a layer by all appearances; or several ways lead from the loss, all to unknown calls, at
    least one of whose results has a graph."""
    CERTAIN = 2


def _guess(node: Node) -> _Way:
    """The certainty that a doubtful node, or one that rests on such nodes, is there at all."""
    return _Way.LIKELY if node.layer or not node.doubtful else _Way.DOUBTFUL


def _on_every_way(roots: list[Node]) -> dict[int, _Way]:
    """The nodes on every way from a loss to its leaves, by identity: a loss that has a graph has theirs.

    Nodes are taken in the reverse order of their clocks, consumers before producers; one that is alone is on every way.
    A called object may have parameters of its own: where several ways lead to a call, none certainly leads behind it.
    """
    found: dict[int, _Way] = {}
    if len(roots) != 1:
        return found
    way, called = _Way.CERTAIN, False
    seen = {id(roots[0])}
    pending = [(-roots[0].clock, id(roots[0]), roots[0])]
    while pending:
        _, identity, node = heapq.heappop(pending)
        if not pending:
            found[identity] = way
        if len(node.operands) > 1:
            way = _Way.LIKELY
        called = called or node.doubtful
        if not node.operands or (called and way is _Way.LIKELY):
            break  # a way ends in this leaf
        for operand in node.operands:
            if id(operand.node) not in seen:
                seen.add(id(operand.node))
                heapq.heappush(pending, (-operand.node.clock, id(operand.node), operand.node))
    return found


def _believe(leaves: list[Leaf]) -> None:
    """Take the *leaves* of a pass for parameters if there is nothing else that it could be sent to."""
    if all(leaf.doubtful for leaf in leaves):
        for leaf in leaves:
            leaf.doubtful = False


def _behind_the_spoilt(walked: list[Node], current: BackwardCall) -> set[int]:
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


def _leading_to(inputs: list[Node], roots: Iterable[Operand]) -> set[int]:
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


def _entry(
    node: Node,
    reader: Node | None,
    provenance: tuple[StoreEvent, ...],
    current: BackwardCall,
    parents: dict[int, tuple[Node | None, tuple[StoreEvent, ...]]],
    freed: BackwardCall | None = None,
) -> tuple[Node, Node | None, tuple[StoreEvent, ...]]:
    """The edge by which the way to *node* enters the current iteration: what earlier ones computed is the past.

    Where iterations lie between the pass that *freed* the graph and this one, they are one window with this one's.  An
    LSTM's state is no computation of its own: what reads it reads the LSTM.
    """
    while reader is not None and reader.is_output_of(node):
        node = reader
        reader, provenance = parents[id(reader)]
    while reader is not None and crossing(reader.loops, current.loops) is not None:
        if freed is not None and reader.clock > freed.clock and crossing(freed.loops, reader.loops) is not None:
            break
        node = reader
        reader, provenance = parents[id(reader)]
    return node, reader, provenance


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
