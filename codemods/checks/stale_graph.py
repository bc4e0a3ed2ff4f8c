"""Passes through a graph that an earlier pass freed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace
from itertools import islice

from autofix.codemods.autograd import catalogue, groups
from autofix.codemods.autograd.graph import (
    BackwardCall,
    FreedGraphUse,
    LoopPoint,
    Node,
    StoreEvent,
    crossing,
    is_in_run,
)
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.autograd.walks import nodes_under, operations_under
from autofix.codemods.checks import chains, separate_losses, targets
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.story import (
    carried_within,
    carriers,
    distinct,
    enters,
    last_before,
    made,
    may_lead_nowhere,
    mixes,
    part_of_opaque,
    story,
    told,
)
from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form, Outer
from autofix.codemods.interpreter import rivals
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.rivals import outer_site


class StaleGraphCheck(Check):
    """Whether a pass needs a graph that an earlier one freed."""

    kinds = (StaleGraph,)

    def facts(self, interp: Interpreter, known: Known) -> Iterator[StaleGraph]:
        """Facts of passes through a freed graph on one path, one for each story."""
        found = distinct(
            interp.tape.stale,
            lambda one: story(one.node, one.reader, (*one.outside, *one.provenance), one.freed, one.failed),
        )
        items = interp.loop_items.handed_out.items()
        serving = {run for key, run in items if isinstance(key, tuple) and key[0] == "item"}
        yield from (
            _fact(one, interp, serving)
            for one in found
            if not separate_losses.may_be_separate(one.node, one.freed, one.failed)
        )

    def completed(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        """*facts*, each with what the others are computed of that cross the same loop to the same pass."""
        shared: dict[tuple[Span, Span], set[Span]] = {}
        crossing_one = {f: (f.loop, f.failed) for f in facts if isinstance(f, StaleGraph) and f.loop and not f.inside}
        for fact, way in crossing_one.items():
            shared.setdefault(way, set()).update(fact.computed_by, [fact.kept] if fact.kept is not None else [])
        return tuple(
            replace(fact, computed_by=tuple(sorted(shared[crossing_one[fact]]))) if fact in crossing_one else fact
            for fact in facts
        )


def _parted(stale: FreedGraphUse) -> tuple[Span, Span] | None:
    parted = chains.parting([*stale.freed.stack, stale.freed.site], [*stale.failed.stack, stale.failed.site])
    return (parted[0].span, parted[1].span) if parted is not None else None


def _fact(stale: FreedGraphUse, interp: Interpreter, serving: Collection[int]) -> StaleGraph:
    """The fact of one use; *serving* are the runs of loops over items that nothing is known about."""
    tape = interp.tape
    point = crossing(stale.freed.loops, stale.failed.loops)
    kept = last_before(stale.provenance, stale.failed.loops, stale.freed.clock, stale.node.clock)
    node, reader = stale.node, stale.reader
    certain = stale.surely and not (part_of_opaque(node) or (reader is not None and reader.opaque))
    certain = certain and not may_lead_nowhere(node, tape)
    inside = point is not None and is_in_run(node.loops, point)
    behind = _under(node) if point is not None and not inside else []
    origin = made(node, stale.provenance)
    return StaleGraph(
        made=origin.span,
        kept=kept.statement.span if kept else None,
        used=reader.site.span if reader else stale.failed.site.span,
        walked=stale.walked.site.span if stale.walked else None,
        freed=stale.freed.site.span,
        failed=stale.failed.site.span,
        loop=point.statement.span if point else None,
        inside=inside,
        carried_within=carried_within(kept, point),
        sources=carriers(_sources(behind)),
        computed_by=_computed_by(behind),
        carriers=carriers(stale.provenance),
        outside=carriers(stale.outside),
        outer=Outer(
            outer_site(node, stale.failed).span,
            outer_site(reader, stale.failed).span,
            outer_site(stale.walked, stale.failed).span if stale.walked else None,
            outer_site(stale.walked, stale.freed).span if stale.walked else None,
            (enters(reader), enters(stale.walked)),
            mixes(reader),
            _parted(stale),
            *(() if inside else rivals.attribute_gradient(node, (stale.freed, stale.failed), tape)),
        ),
        together=bool(stale.freed.steps) and stale.freed.steps == stale.failed.steps and not stale.freed.served_again,
        stepped=point is not None or _is_stepped(stale, tape),
        repeats=_repeats(stale),
        total=_is_total(stale, tape),
        thawed=node.site in interp.incidents.thawed,
        target=not inside and _is_run_again(stale, point) and targets.is_target(stale, point),
        served=point is not None and point.instance in serving,
        name=kept.name if kept else "",
        text=told(origin),
        certainty=Certainty.CERTAIN if certain else Certainty.LIKELY,
        severed=rivals.severed(node, (stale.freed, stale.failed), tape) if point is None else None,
        fed=kept is None or rivals.is_fed(node, kept.statement.span),
        replaces=inside and kept is not None and _replaces_a_leaf(stale, kept, tape),
        differentiated=_is_differentiated(stale.freed, interp),
    )


def _is_run_again(stale: FreedGraphUse, point: LoopPoint | None) -> bool:
    """Whether one statement makes both passes: in two iterations, or in two calls of a closure by one step."""
    return point is not None or stale.freed.site == stale.failed.site


def _is_stepped(stale: FreedGraphUse, tape: Tape) -> bool:
    """Whether an optimizer steps between the pass that frees a graph and the one that fails."""
    return any(stale.freed.clock <= abs(moment) < stale.failed.clock for one in tape.passes for moment in one.steps)


def _replaces_a_leaf(stale: FreedGraphUse, kept: StoreEvent, tape: Tape) -> bool:
    """Whether what was kept is computed of an optimizer's parameter that had its name: ``x = x.clamp(0, 1)``.

    Element by element on one way at least, so that it has the parameter's shape.
    """
    if kept.form is not Form.TENSOR:
        return False
    inner = list(islice(operations_under([stale.node]), _FEW_NODES + 1))
    if len(inner) > _FEW_NODES or any(one.opaque for one in inner):
        return False
    ends = [(one, operand) for one in inner for operand in one.operands if operand.node.leaf is not None]
    return all(
        operand.node.leaf in tape.owned and {before.name for before in operand.provenance if before.name} == {kept.name}
        for _, operand in ends
    ) and any(catalogue.keeps_shape(one.operation) for one, _ in ends)


_FEW_NODES = 16
"""Nodes of which the new value of a parameter is computed."""

_ADDED = groups.ADDS | groups.WEIGHS | groups.JOINS
_ADDED_ONCE = groups.JOINS | {"add", "sum_of"}


class _Walk:
    """The operations that a pass goes through, from its roots."""

    def __init__(self, one: BackwardCall) -> None:
        self._below = one.producers()
        self.roots = list({id(root): root for root in one.roots()}.values())

    def parts(self, node: Node) -> list[Node]:
        return self._below.get(id(node), [])

    def terms(self, *, weighed: bool = True) -> set[int]:
        """Identities of the losses that the roots are sums of; of a loss that is no sum, itself.

        *weighed*: also of the sums that take a term with a weight, or less another one.
        """
        reduces, adding = (groups.REDUCES, _ADDED) if weighed else ({"sum"}, _ADDED_ONCE)
        found: set[int] = set()
        nodes = list(self.roots)
        seen = set(map(id, nodes))
        while nodes:
            node = nodes.pop()
            parts = self.parts(node)
            joins = node.operation in reduces and any(part.operation in groups.JOINS for part in parts)
            adds = node.operation in adding and not (node.operation in ("mul", "div") and len(parts) > 1)
            if not (joins or adds):
                found.add(id(node))
                continue
            fresh = [part for part in parts if id(part) not in seen]
            seen.update(map(id, fresh))
            nodes += fresh
        return found

    def results(self) -> set[int]:
        """Identities of the tensors that were joined, for a loss of the elements of ``torch.cat(outputs)``."""
        found: set[int] = set()
        for node in self.roots:
            while len(self.parts(node)) == 1 and _is_of_elements(node.operation):
                node = self.parts(node)[0]
            if node.operation in groups.JOINS:
                found |= set(map(id, self.parts(node)))
        return found


def _repeats(stale: FreedGraphUse) -> bool:
    """Whether the failing pass is of the losses of the earlier one and of others, or of its results and of more."""
    before, after = _Walk(stale.freed), _Walk(stale.failed)
    if before.terms() & after.terms():
        return True
    results = before.results()
    return bool(results) and results < after.results()


def _is_total(stale: FreedGraphUse, tape: Tape) -> bool:
    """Whether the failing pass is of a plain sum, and the earlier ones at the other's place are of terms of it."""
    failed, site = stale.failed, stale.freed.site
    terms = _Walk(failed).terms(weighed=False)
    earlier = (
        one for one in tape.passes if one.site == site and one.clock < failed.clock and one.steps == failed.steps
    )
    return len(terms) > 1 and all({id(root) for root in one.roots()} <= terms for one in earlier)


def _is_of_elements(name: str) -> bool:
    """Whether an operation is a loss of, a sum of, or a function of each of its argument's elements."""
    return catalogue.keeps_shape(name) or catalogue.reduces(name) or catalogue.operation(name).kind == catalogue.LOSS


def _is_differentiated(freed: BackwardCall, interp: Interpreter) -> bool:
    """Whether a later pass goes through computations with the gradient that *freed* returned without a graph."""
    later = (one for one in interp.tape.passes if one.clock > freed.clock)
    constants = (cut for one in later for node, _ in one.edges for cut in node.constants)
    lost = (cut for one in interp.incidents.cut for cut in one.detachment.cuts)
    return any(cut.how == "grad" and cut.site == freed.site for cut in (*lost, *constants))


_MOST_NODES = 4_000
"""Nodes of a graph that are looked at for the statements by which all of it came."""


def _under(node: Node) -> list[Node]:
    """The nodes of the graph that ends in *node*, in the order in which they were made; none where there are many."""
    nodes = list(islice(nodes_under([node]), _MOST_NODES + 1))
    return sorted(nodes, key=lambda node: node.clock) if len(nodes) <= _MOST_NODES else []


def _computed_by(nodes: list[Node]) -> tuple[Span, ...]:
    """The statements that keep what *nodes* are computed of, but for the parameters themselves."""
    kept = [
        one for node in nodes for operand in node.operands if operand.node.leaf is None for one in operand.provenance
    ]
    return tuple(dict.fromkeys(one.statement.span for one in sorted(kept, key=lambda one: one.clock)))


def _sources(nodes: list[Node]) -> tuple[StoreEvent, ...]:
    """The statements by which everything came that has a graph in *nodes*: to detach there is to detach it all."""
    if not nodes:
        return ()
    common: dict[int, dict[Hashable, StoreEvent]] = {}
    for one in nodes:
        ways = [
            common[id(operand.node)]
            | {(kept.statement, kept.expression, kept.name): kept for kept in operand.provenance}
            for operand in one.operands
        ]
        first = ways[0] if ways else {}
        common[id(one)] = {key: kept for key, kept in first.items() if all(key in way for way in ways)}
    return tuple(common[id(nodes[-1])].values())
