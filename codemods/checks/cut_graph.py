"""Passes that lack the graph of their root, or a part of it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace

from autofix.codemods.autograd.tape import Tape
from autofix.codemods.autograd.walks import leaves_under
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.story import distinct
from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.cut import CutGraph, LossEscapes
from autofix.codemods.facts.kept import GraphEscapes
from autofix.codemods.facts.parts import Drop
from autofix.codemods.facts.untrained import NoGradient, UpdateRefused
from autofix.codemods.interpreter import cuts
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import BackwardWithoutGraph, Incidents
from autofix.codemods.source.sources import Site, last_name


class CutGraphCheck(Check):
    """Whether a pass lacks its graph, on every path that comes to it."""

    kinds = (CutGraph, LossEscapes)

    def __init__(self) -> None:
        self._shown: Counter[Span] = Counter()
        """For each place of a pass without a graph, the number of paths that found it so."""
        self._came: Counter[int] = Counter()
        """For each line of a pass, the number of paths that came to it."""

    def facts(self, interp: Interpreter, known: Known) -> Iterator[CutGraph]:
        """Facts of passes without a graph on one path, and of passes that have a part of theirs only."""
        tape = interp.tape
        whole = list(_without_graph(tape, interp.incidents))
        yield from whole
        self._shown.update({fact.failed for fact in whole})
        self._came.update({one.site.line for one in tape.passes} | tape.rootless)
        yield from _without_part(tape, interp.incidents)

    def is_answered(self, fact: Fact, known: Known) -> bool:
        """Whether another path shows the graph that is said to be missing."""
        if not isinstance(fact, CutGraph) or isinstance(fact, LossEscapes):
            return False  # PyTorch refuses before any pass
        if not fact.wanted and any(_is_fuller(one, fact) for one in known.facts):
            return True
        if fact.beside:
            return not known.complete or (not fact.constant and set(fact.wanted) <= {name for _, name in known.trained})
        if fact.silent:
            return bool(known.training)  # a script that trains may well ask for the gradient of a copy, too
        if fact.lasting or fact.failed.line not in known.training:
            return False
        # A pass that trains in one stage of the script and fails in a later one, whichever way leads to it.
        return not (known.complete and self._shown[fact.failed] == self._came[fact.failed.line])

    def explains(self, fact: Fact, other: Fact) -> bool:
        """Whether the *other* one is a gradient missing behind a block without graphs, or the same loss in NumPy."""
        match fact, other:
            case CutGraph(guard=Span() as guard), NoGradient():
                return not isinstance(other, UpdateRefused) and guard.contains(other.made)
            case LossEscapes(), GraphEscapes():
                return any(drop.span == other.call for drop in fact.drops)
        return False


def _without_graph(tape: Tape, incidents: Incidents) -> Iterator[CutGraph]:
    """Facts of passes that have no graph at all."""
    for rootless in incidents.cut:
        if not any(leaf.asked for leaf in rootless.copies):  # else somebody wants the gradient of the copy itself
            yield _told_as_escape(_fact(rootless, tape), rootless, incidents)


def _without_part(tape: Tape, incidents: Incidents) -> Iterator[CutGraph]:
    """Facts of passes that have a graph, though not that of one part of their loss."""
    for rootless in distinct(incidents.partial, lambda one: (one.detachment.cuts[-1].site, one.site)):
        dropped = _fact(rootless, tape)
        told = _told_as_escape(dropped, rootless, incidents)
        # A loss that is computed from the result of NumPy's function for a tensor takes it for one of torch's.
        meant = isinstance(told, LossEscapes) and not told.call.endswith(".numpy()")
        if meant or (dropped.wanted and not tape.unknown_owner and _is_missed(rootless, dropped, tape)):
            yield told
        elif not tape.unknown_owner and _is_number_added(rootless):
            yield from _constant_term(dropped, tape)


def _told_as_escape(fact: CutGraph, rootless: BackwardWithoutGraph, incidents: Incidents) -> CutGraph:
    """*fact*, told as the call of NumPy that fails before any pass does, where one is on the way."""
    calls = {site.span: site for site, escape in incidents.escapes.items() if escape.where == "numpy"}
    refused = next((calls[drop.span] for drop in fact.drops if drop.span in calls), None)
    if refused is None:
        return fact
    own = {one.name: getattr(fact, one.name) for one in fields(fact)}
    # A factor of a loss that has a graph without it may have been meant for a constant.
    certainty = Certainty.LIKELY if rootless.weighs else Certainty.CERTAIN
    own |= {"cut": refused.span, "certainty": certainty, "silent": False, "beside": False}
    return LossEscapes(**own, call=refused.source.text_of(refused.node))


def _is_missed(rootless: BackwardWithoutGraph, dropped: CutGraph, tape: Tape) -> bool:
    """Whether the part of a loss that has no graph was meant to train something."""
    in_block = any(one.guard is not None and isinstance(one.guard.node, ast.With) for one in rootless.detachment.cuts)
    unrecorded = cuts.is_unrecorded(rootless.detachment)
    if unrecorded and _misses_a_group(rootless, tape):
        return True
    if _is_number_added(rootless) and set(dropped.wanted) <= {name for _, name in tape.trained}:
        return False
    return not in_block and _shares_an_optimizer(dropped, tape) and (not unrecorded or _trains_no_layer(tape))


def _is_fuller(one: Fact, fact: CutGraph) -> bool:
    """Whether one fact says of which parameters another one is: where they are unfrozen later, a path forgets that."""
    return isinstance(one, CutGraph) and bool(one.wanted) and (one.cut, one.failed) == (fact.cut, fact.failed)


def _fact(rootless: BackwardWithoutGraph, tape: Tape) -> CutGraph:
    owned = tape.owned
    drops = rootless.detachment.cuts
    # Parameters frozen beside these may well be meant to be.
    drops = tuple(one for one in drops if one.how in ("unflagged", "reentrant")) or drops
    cut = next((one for one in drops if one.nodes), drops[0])
    graph = [node for one in drops for node in one.nodes]
    guard = next((one.guard for one in drops if one.guard is not None), None)
    frozen = [leaf for one in drops for leaf in one.leaves if leaf.frozen_at is not None]
    kept = [leaf for leaf in frozen if leaf in owned]
    taken = (kept or frozen)[-1].frozen_at if frozen else None
    # The substitute for a comparison is a choice: the pass fails for certain, but not every loss is meant so.
    doubtful = any(node.opaque for node in graph) or any(one.how == "integer" for one in drops)
    wanted = {leaf.name for leaf in {*leaves_under(graph), *kept} if leaf in owned}
    constant = rootless.beside and rootless.adds and {one.how for one in drops} == {"tensors"}
    constant = constant and wanted <= {name for _, name in tape.trained}
    factor = (
        rootless.beside and rootless.weighs and len(wanted) == 1 and {one.how for one in drops} <= {"item", "number"}
    )
    owner = tape.owners.get(kept[-1]) if kept else None
    whole = next((one.site for one in drops if one.how == "integer"), None)
    return CutGraph(
        cut=cut.site.span,
        guard=guard.span if guard is not None else None,
        frozen=taken.span if taken is not None else None,
        owner=owner.span if owner is not None else None,
        failed=rootless.site.span,
        drops=tuple(Drop(one.site.span, one.how) for one in drops),
        several=rootless.detachment.several and any(one.how != "reentrant" for one in drops),
        silent=rootless.silent,
        beside=rootless.beside,
        lasting=guard is not None and isinstance(guard.node, ast.Call),
        constant=constant,
        factor=factor,
        wanted=tuple(sorted(wanted)),
        built=tuple(dict.fromkeys(leaf.node.site.span for leaf in kept if leaf.node is not None)),
        spared=len(set(kept)) < len(set(frozen)),
        probable=bool(graph) and all(cuts.is_probability(node) for node in graph),
        name=rootless.name,
        operation=_operation(whole) if whole is not None else "",
        certainty=Certainty.LIKELY if doubtful or constant or factor else Certainty.CERTAIN,
    )


def _operation(site: Site) -> str:
    """The name of a call, or the text of another expression."""
    name = last_name(site.node.func) if isinstance(site.node, ast.Call) else ""
    return name or " ".join(site.source.text_of(site.node).split())


def _is_number_added(rootless: BackwardWithoutGraph) -> bool:
    """Whether a term of a loss was made a number, or of what has no derivative.

    ``loss + penalty.item()``, ``loss + float(penalty.detach())``; ``loss + penalty(logits.argmax(1))``; and a
    penalty on a gradient that was taken without ``create_graph=True``.
    """
    ways = {one.how for one in rootless.detachment.cuts}
    if cuts.is_underivable(rootless.detachment):
        return rootless.adds
    return rootless.adds and bool(ways & {"item", "number"}) and ways <= {"item", "number", "detach", "data"}


def _constant_term(fact: CutGraph, tape: Tape) -> Iterator[CutGraph]:
    """*fact* of a term that was computed from what the very pass trains, and has no share in that.

    What else the term was made of, a critic's weights, is not this pass's to train.
    """
    trained = {name for place, name in tape.trained if place[0] == fact.failed.line}
    if own := trained.intersection(fact.wanted):
        yield replace(fact, constant=True, wanted=tuple(sorted(own)), certainty=Certainty.LIKELY)


def _shares_an_optimizer(fact: CutGraph, tape: Tape) -> bool:
    """Whether one optimizer holds all that a pass misses, and something that the pass trains."""
    trained = {name for place, name in tape.trained if place[0] == fact.failed.line}
    owners = {leaf.name: site for leaf, site in tape.owners.items()}
    sites = {owners.get(name) for name in fact.wanted}
    return len(sites) == 1 and bool(sites & {owners.get(name) for name in trained} - {None})


def _misses_a_group(rootless: BackwardWithoutGraph, tape: Tape) -> bool:
    """Whether a group that an optimizer was given for itself is behind a block that records nothing, in every pass."""
    guards = [one.guard for one in rootless.detachment.cuts if one.guard is not None]
    if any(_is_conditional(guard) for guard in guards):
        return False
    behind = leaves_under(node for one in rootless.detachment.cuts for node in one.nodes)
    return any(
        group.leaves
        and group.leaves <= behind
        and not any(leaf.frozen for leaf in group.leaves)
        and not any(
            one.clock > group.clock and any(node.leaf in group.leaves for edge in one.edges for node in edge)
            for one in tape.passes
        )
        for group in tape.groups
    )


def _is_conditional(guard: Site) -> bool:
    """Whether a block is entered in some cases only."""
    nodes = guard.source.nodes
    return any(nodes.holds(around, guard.node) for around in (*nodes.of(ast.If), *nodes.of(ast.Try)))


def _trains_no_layer(tape: Tape) -> bool:
    """Whether of all that the optimizers hold, no layer is trained, a scale or another bare parameter at most."""
    trained = {name for _, name in tape.trained}
    layers = [leaf for leaf in tape.owned if not leaf.name.startswith(_BARE)]
    return len(layers) > 1 and not any(leaf.name in trained for leaf in layers)


_BARE = ("Parameter:", "tensor:")
