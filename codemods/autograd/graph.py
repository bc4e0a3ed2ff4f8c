"""The graph that autograd records: nodes, what they save and at which version, leaves, and the calls that walk it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from autofix.codemods.autograd import groups
from autofix.codemods.facts.parts import Form
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


def is_within(loops: Loops, iteration: Loops) -> bool:
    """Whether a moment with these *loops* around it lies in one *iteration* of loops."""
    return bool(iteration) and loops[: len(iteration)] == iteration


def is_in_run(loops: Loops, point: LoopPoint) -> bool:
    """Whether a moment with these *loops* around it lies in one run of a loop, which is at *point* in an iteration."""
    return any(there.instance == point.instance for there in loops)


def distance(made: Loops, seen: Loops) -> tuple[int, ...]:
    """For each common loop, the number of iterations between two moments; trailing zeros are left out."""
    if made is seen:  # as most edges are: both ends in one iteration
        return ()
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
    unread: bool = False
    """Whether an argument is the result of a call that was not read, which may come from anything."""
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
    inputs: tuple[Node, ...] = ()
    """For a call of ``autograd.grad``: the nodes whose gradients it returns, as far as they are known."""
    chosen: bool = False
    """Whether it gives gradients to chosen leaves alone: ``loss.backward(inputs=...)``."""
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
    _read: set[Leaf] = field(default_factory=set)
    _users: dict[int, list[Node]] = field(default_factory=dict)
    _producers: dict[int, list[Node]] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, ...]:
        """Its line, and those of the calls that led to it."""
        return (self.site.line, *(site.line for site in self.stack))

    def reads_frozen(self, leaves: set[Leaf]) -> bool:
        """Whether it goes through operations that compute with some of these leaves while they are frozen."""
        return any(leaf in leaves for node, _ in self.edges for leaf in node.frozen)

    def reads(self, leaves: set[Leaf]) -> bool:
        """Whether it goes through operations that compute with some of these leaves, which may be given no gradient.

        They are frozen, or no part of what it was asked for: ``loss.backward(inputs=wanted)``.
        """
        if not self._read:
            self._read |= {leaf for node, _ in self.edges for leaf in node.frozen}
            self._read |= {node.leaf for _, node in self.edges if node.leaf is not None}
        return not self._read.isdisjoint(leaves)

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
