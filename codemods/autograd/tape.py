"""The symbolic tape: what backward calls and optimizer steps do to the graph, and the mistakes that show there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from autofix.codemods.autograd.graph import (
    BackwardCall,
    Change,
    FreedGraphUse,
    Group,
    Leaf,
    Loops,
    Node,
    Operand,
    SavedTensorModified,
    Storage,
    StoreEvent,
    crossing,
    is_within,
    repeats,
)
from autofix.codemods.autograd.walks import Way, behind_the_spoilt, guess, leading_to, on_every_way
from autofix.codemods.source.sources import Site


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
    updated: set[tuple[str, Site, int]] = field(default_factory=set)
    """Parameters, by name, the steps that used a gradient of theirs, and the pass (by line) that gave it."""
    reached: set[Any] = field(default_factory=set)
    """Statements (nodes of the syntax tree) that kept values for a pass of a later iteration, or behind the loop."""

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def _ask_for(self, inputs: list[Node], current: BackwardCall) -> None:
        """Record that *current* returns the gradients of *inputs*: a requested gradient counts as used."""
        current.inputs = tuple(inputs)
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
        roots = list(roots)
        current = BackwardCall(site, loops, self.tick(), retain, stack, explores=retain and not accumulate)
        self.passes.append(current)
        current.chosen = inputs is not None and accumulate
        executed = leading_to(inputs, roots) if inputs is not None else None
        if inputs is not None and executed is not None and not accumulate:
            self._ask_for(inputs, current)
            if all(id(root.node) not in executed for root in roots):
                self.rootless.add(site.line)  # none of the requested inputs has a part in it
        _Walk(self, current, executed, accumulate=accumulate).go(roots)
        return current

    def reach(self, provenance: tuple[StoreEvent, ...], loops: Loops) -> None:
        """Note the statements that kept a value for a pass with these *loops* around it.

        Nothing need be added to a container for a pass of the same iteration: ``losses.append(loss);
        losses[-1].backward()``.
        """
        for kept in provenance:
            if kept.statement.node not in self.reached and not (kept.is_added and is_within(loops, kept.loops)):
                self.reached.add(kept.statement.node)

    def step(self, leaves: Iterable[Leaf], site: Site, stack: tuple[Site, ...], *, guessed: bool = False) -> None:
        """An optimizer's step: changes in place every parameter that has a gradient."""
        moment = self.tick()
        leaves = list(leaves)
        if self.passes:
            self._served_by(leaves).owners.update(leaves)
        for leaf in leaves:
            self.stepped.add(leaf)
            if not leaf.grads and not leaf.given:
                continue
            for backward in leaf.grads:
                if _is_left_over(backward, leaf):
                    self.left_over.add((id(backward), leaf.name))
                    continue
                self.trained.add((backward.place, leaf.name))
                self.updated.add((leaf.name, site, backward.place[0]))
                backward.served_again |= (id(backward), leaf.name) in self.served
                self.served.add((id(backward), leaf.name))
                backward.steps.add(moment)
            leaf.storage.changes.append(Change(site, True, self.tick(), stack=stack, guessed=guessed))

    def _served_by(self, leaves: Iterable[Leaf]) -> BackwardCall:
        """The pass for which a step of some leaves is made: the last one, unless it has chosen others."""
        last = self.passes[-1]
        passes = reversed(self.passes) if last.chosen else ()
        return next((one for one in passes if any(one in leaf.grads for leaf in leaves)), last)

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


class _Arrival(NamedTuple):
    """A way by which a backward call comes to a node."""

    node: Node
    reader: Node | None
    """The node through which it comes; None for a root."""
    provenance: tuple[StoreEvent, ...]
    """The statements that carried the node's result to the reader."""
    entry: FreedGraphUse | None
    """The edge by which the way left the fresh graph for one that was freed."""
    way: Way
    """The certainty that the call comes this way."""


class _Walk:
    """The walk of one backward call: the nodes that it comes to, from where and how surely, and what it finds there."""

    def __init__(self, tape: Tape, current: BackwardCall, executed: set[int] | None, *, accumulate: bool) -> None:
        self._tape = tape
        self._current = current
        self._executed = executed
        """Identities of the nodes to be executed; None for all."""
        self._accumulate = accumulate
        self._walked: list[Node] = []
        self._leaves: list[Leaf] = []
        self._parents: dict[int, tuple[Node | None, tuple[StoreEvent, ...]]] = {}
        """For each node the edge by which the call came to it, with the most certainty so far."""
        self._ways: dict[int, Way] = {}
        self._first: dict[int, Node] = {}
        """For each node, of those through which the call came to it, the one that was made first."""
        self._freed: dict[tuple[int, int], FreedGraphUse] = {}
        """The uses of freed graphs, by reader and node."""

    def go(self, roots: list[Operand]) -> None:
        """Walk the graph under *roots*, note the mistakes, and free what the call frees."""
        tape, current = self._tape, self._current
        forced = cache(partial(on_every_way, [root.node for root in roots]))
        pending: list[_Arrival] = []
        for root in roots:
            tape.reach(root.provenance, current.loops)
            pending.append(_Arrival(root.node, None, root.provenance, None, Way.CERTAIN))
        while pending:
            arrival = pending.pop()
            node = arrival.node
            if arrival.way and (node.doubtful or node.rests):
                arrival = arrival._replace(way=min(arrival.way, forced().get(id(node), guess(node))))
            if self._executed is None or id(node) in self._executed:
                pending += self._visit(arrival)
        _believe(self._leaves)
        for one in self._freed.values():
            node, reader, provenance = self._entry(one.node, one.reader, one.provenance, one.freed)
            tape.stale.append(one._replace(node=node, reader=reader, provenance=provenance, walked=one.node.consumer))
        current.old = self._past()
        for node in self._walked:
            surely = self._ways[id(node)] is Way.CERTAIN
            node.pass_through(current, self._first.get(id(node)), frees=not current.retains, surely=surely)

    def _visit(self, arrival: _Arrival) -> Iterator[_Arrival]:
        """Note that the call comes to a node, and go on to its operands where the way is new or more certain."""
        node, reader, provenance, entry, way = arrival
        if node.freed_by is not None:
            entry = self._comes_to_freed(arrival, node.freed_by)
        if reader is not None and (id(node) not in self._first or reader.clock < self._first[id(node)].clock):
            self._first[id(node)] = reader
        known = self._ways.get(id(node))
        if known is not None and way <= known:
            return
        self._parents[id(node)] = reader, provenance
        self._ways[id(node)] = way
        if way:
            self._check_saved(node, surely=way is Way.CERTAIN)
        if node.leaf is not None:
            if known is None:
                self._reach_leaf(node.leaf)
            return
        if known is None:
            self._walked.append(node)
            for operand in node.operands:
                self._current.edges.append((node, operand.node))
                self._tape.reach(operand.provenance, self._current.loops)
        for operand in node.operands:
            yield _Arrival(operand.node, node, operand.provenance, entry, way)

    def _comes_to_freed(self, arrival: _Arrival, freed: BackwardCall) -> FreedGraphUse:
        """The edge by which a way that comes to a freed node left the fresh graph; noted where the node raises.

        That may be behind operations that save nothing and raise nothing.
        """
        node = arrival.node
        entry = arrival.entry or FreedGraphUse(
            arrival.reader, node, arrival.provenance, freed, self._current, surely=node.surely
        )
        if node.saves and arrival.way:
            surely = entry.surely and node.surely and arrival.way is Way.CERTAIN
            edge = id(entry.reader), id(entry.node)
            known = self._freed.setdefault(edge, entry._replace(surely=surely))
            self._freed[edge] = known._replace(surely=known.surely or surely)
        return entry

    def _reach_leaf(self, leaf: Leaf) -> None:
        self._leaves.append(leaf)
        if self._accumulate:
            leaf.grads.append(self._current)
        elif self._executed is not None and leaf in self._tape.owned:  # requested: a missing part is an error
            self._tape.trained.add((self._current.place, leaf.name))

    def _past(self) -> set[int]:
        """Identities of those nodes that a pass of an earlier iteration went over, or was to go over.

        The latter were made before it and build on the former, but its root did not lead there: what a memory is given
        last in an iteration is first read in the next one.  Whoever cuts the way to the past cuts them off as well.
        """
        current = self._current
        # The passes stand in the order of their clocks, and only what was made in a loop may be late.
        passes = reversed(self._tape.passes) if current.loops else ()
        before = next((one.clock for one in passes if one is not current and repeats(one, current)), 0)
        old: set[int] = set()
        for node in sorted(self._walked, key=lambda node: node.clock):
            again = node.walked is not None and repeats(node.walked, current)
            late = node.clock < before and crossing(node.loops, current.loops) is not None
            if again or (late and any(id(operand.node) in old for operand in node.operands)):
                old.add(id(node))
        return old | behind_the_spoilt(self._walked, current)

    def _check_saved(self, node: Node, *, surely: bool) -> None:
        """Note a tensor that the node has saved and that was changed in place since."""
        tape, current = self._tape, self._current
        for storage, version in node.saved:
            if storage.version > version:
                change = storage.changes[version]
                reader, provenance = self._parents[id(node)]
                entered = node
                while reader is not None and reader.clock < change.clock:
                    entered = reader
                    reader, provenance = self._parents[id(reader)]
                earlier = (one for one in reversed(tape.passes) if one.clock < change.clock and repeats(one, current))
                _, reader, provenance = self._entry(entered, reader, provenance, next(earlier, None))
                tape.clobbered.append(SavedTensorModified(node, change, reader, provenance, current, surely=surely))
                return

    def _entry(
        self,
        node: Node,
        reader: Node | None,
        provenance: tuple[StoreEvent, ...],
        freed: BackwardCall | None = None,
    ) -> tuple[Node, Node | None, tuple[StoreEvent, ...]]:
        """The edge by which the way to *node* enters the current iteration: what earlier ones computed is the past.

        Where iterations lie between the pass that *freed* the graph and this one, they are one window with this one's.
        An LSTM's state is no computation of its own: what reads it reads the LSTM.
        """
        while reader is not None and reader.is_output_of(node):
            node = reader
            reader, provenance = self._parents[id(reader)]
        while reader is not None and crossing(reader.loops, self._current.loops) is not None:
            if freed is not None and reader.clock > freed.clock and crossing(freed.loops, reader.loops) is not None:
                break
            node = reader
            reader, provenance = self._parents[id(reader)]
        return node, reader, provenance


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
    return own.reads(one.owners) or one.leads_through(leaf)


def _believe(leaves: list[Leaf]) -> None:
    """Take the *leaves* of a pass for parameters if there is nothing else that it could be sent to."""
    if all(leaf.doubtful for leaf in leaves):
        for leaf in leaves:
            leaf.doubtful = False
