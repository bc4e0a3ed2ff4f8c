"""Two passes through one value: for whose sake each of them is, as the optimizers' steps tell.

A discriminator's loss reaches the generator, and the generator's the discriminator: of both, one half is of no use.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from autofix.codemods.autograd import groups
from autofix.codemods.autograd.graph import BackwardCall, Leaf, Node, crossing
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.autograd.walks import leaves_under, nodes_under, operations_under
from autofix.codemods.facts.base import Span
from autofix.codemods.facts.parts import Severed
from autofix.codemods.interpreter import cuts
from autofix.codemods.source.sources import Site


def outer_site(node: Node | None, failed: BackwardCall) -> Site:
    """Site at which *node* was made, as an expression of the function in which a pass stands."""
    if node is None:
        return failed.site
    depth = len(failed.stack)
    if len(node.stack) > depth and node.stack[:depth] == failed.stack:
        return node.stack[depth]
    common = 0
    while common < min(depth, len(node.stack)) and node.stack[common] == failed.stack[common]:
        common += 1
    return node.stack[common] if len(node.stack) > common else node.site


class MeantFor(NamedTuple):
    """The last fields of :class:`~autofix.codemods.facts.Outer`."""

    wanted: tuple[bool, bool]
    wanted_behind: tuple[bool, bool]
    incidental: tuple[tuple[str, ...], tuple[str, ...]]
    weights: tuple[tuple[Span, ...], tuple[Span, ...]]
    weighed: tuple[str, ...]
    crossed: bool = False
    wanted_itself: bool = False


def attribute_gradient(shared: Node, passes: tuple[BackwardCall, BackwardCall], tape: Tape) -> MeantFor:
    """For whom two passes through a *shared* node are, as far as the steps tell.

    Where a loop sends one loss after the other, that is told of the likelihoods' weights alone.
    """
    here = leaves_under([shared])
    if crossing(passes[0].loops, passes[1].loops) is not None:
        nobody = (False, False)
        return MeantFor(nobody, nobody, ((), ()), *_weights(shared, here, passes, tape))
    by_turns = _incidental(here, passes, tape)
    incidental = (by_turns, ()) if by_turns else _incidental_at_once(shared, here, passes, tape)
    crossed = _crossed(here, passes[1], tape)
    wanted = _wanted(shared, here, passes, tape)
    behind = _behind(shared, passes[1])
    return MeantFor(
        (bool(wanted[0]), bool(wanted[1])),
        (bool(wanted[0] & behind), bool(wanted[1] & behind)),
        incidental,
        *_weights(shared, here, passes, tape),
        crossed,
        bool(wanted[1] - behind),
    )


def _wanted(
    shared: Node, here: set[Leaf], passes: tuple[BackwardCall, BackwardCall], tape: Tape
) -> tuple[set[Leaf], set[Leaf]]:
    """The leaves for which a step uses what two passes send through a *shared* node, and which they reach beside it.

    *here* are all the leaves that the node leads to.

    Where there are such, it cannot be seen by the leaves alone what the value may be detached in: a generator's loss
    may have a term of another batch, too. Where no step lies between the passes, the first counts as one that a step
    uses.
    """
    follows = next(_steps(tape.stepped, passes[0], passes[1].clock), None)
    found: list[set[Leaf]] = []
    for one in passes:
        until = min((later.clock for later in tape.passes if later.clock > one.clock), default=math.inf)
        used = {leaf for leaf in here if next(_steps([leaf], one, until), None) is not None}
        if one is passes[0] and follows is None:
            used = here
        found.append(used & _reached_beside([shared], one))
    return found[0], found[1]


def _steps(leaves: Iterable[Leaf], one: BackwardCall, until: float) -> Iterator[int]:
    """The steps of these leaves between a pass and a moment."""
    return (
        change.clock
        for leaf in leaves
        for change in leaf.storage.changes
        if change.by_step and one.clock < change.clock < until
    )


def _behind(shared: Node, seen_by: BackwardCall) -> set[Leaf]:
    """The leaves of what the call that made a node was given, and not those of the call itself."""
    place = outer_site(shared, seen_by)

    def is_within(node: Node) -> bool:
        return outer_site(node, seen_by) == place

    return leaves_under(one for one in operations_under([shared], is_within) if not is_within(one))


def is_fed(made: Node, kept: Span) -> bool:
    """Whether the call in a statement that made a node, and *kept* it, was given anything with a graph."""
    chain = [*made.stack, made.site]
    depth = next((at for at, site in enumerate(chain) if kept.contains(site.span)), None)
    if depth is None:
        return True
    return any([*node.stack, node.site][: depth + 1] != chain[: depth + 1] for node in operations_under([made]))


def _reached_beside(nodes: Iterable[Node], one: BackwardCall) -> set[Leaf]:
    """The leaves that a pass reaches on ways that do not lead through one of *nodes*."""
    below, pending = one.producers(), one.roots()
    seen, found = {id(node) for node in nodes}, set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.leaf is not None:
            found.add(node.leaf)
        pending.extend(below.get(id(node), ()))
    return found


def _incidental(here: set[Leaf], passes: tuple[BackwardCall, BackwardCall], tape: Tape) -> tuple[str, ...]:
    """Parameters, *here* below a shared node, that the first pass over it trains by the way: a generator, by a
    discriminator's loss.

    That is so where a step of others follows the pass (the discriminator's), while the second pass goes through those
    others only to come to the shared node: no step uses the gradient that it leaves in them.  What the first pass comes
    to by another way than through those others (an encoder whose code the loss judges as well) it trains on purpose,
    where a step uses that gradient.
    """
    first, second = passes
    between = {leaf for leaf in tape.stepped if next(_steps([leaf], first, second.clock), None) is not None}
    passed = between & {producer.leaf for _, producer in second.edges if producer.leaf is not None}
    served = any((id(second), leaf.name) in tape.served for leaf in passed)
    if not passed or served:
        return ()
    users = [consumer for consumer, producer in first.edges if producer.leaf in between]
    used = tape.served | tape.left_over
    meant = {leaf for leaf in _reached_beside(users, first) if (id(first), leaf.name) in used}
    return tuple(sorted(leaf.name for leaf in here - between - meant))


def _crossed(here: set[Leaf], one: BackwardCall, tape: Tape) -> bool:
    """Whether a pass goes through the network that made a shared node, which has the leaves *here*, to others that a
    step trains.

    So it is where two networks make a cycle: each of them is asked about what the other has made.
    """
    asked = {id(user): user for user, node in one.edges if node.leaf in here}
    return any(leaf in tape.stepped and leaf not in here for leaf in leaves_under(asked.values()))


def _incidental_at_once(
    shared: Node, here: set[Leaf], passes: tuple[BackwardCall, BackwardCall], tape: Tape
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Parameters that each pass trains by the way, where both networks make their steps behind both passes.

    Each pass runs the discriminator anew on the generator's output: two losses that have a common aim would share the
    result. The discriminator's is the one that also runs it on data that no network made.
    """
    first, second = passes
    nothing: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    if next(_steps(tape.stepped, first, second.clock), None) is not None:
        return nothing
    made = here & tape.stepped
    above = [set(map(id, one.above([shared]))) for one in passes]
    asked = [
        {node.leaf for user, node in one.edges if node.leaf in tape.stepped and id(user) in up}
        for one, up in zip(passes, above, strict=True)
    ]
    judge = {leaf for leaf in asked[0] & asked[1] if leaf is not None} - made
    places = [
        {change.site for leaf in some for change in leaf.storage.changes if change.by_step} for some in (made, judge)
    ]
    if not judge or above[0] & above[1] or places[0] & places[1]:
        return nothing
    elsewhere = [
        any(node.leaf in judge and id(user) not in up for user, node in one.edges)
        for one, up in zip(passes, above, strict=True)
    ]
    if elsewhere[0] == elsewhere[1] or made & _reached_beside([shared], passes[elsewhere[1]]):
        return nothing
    names = tuple(sorted(leaf.name for leaf in made))
    return (names, ()) if elsewhere[0] else ((), names)


def parting(node: Node, first: BackwardCall, second: BackwardCall) -> Node:
    """The node at which the ways of two passes to a *node* part; itself where there are several such."""
    up = set(map(id, second.above([node])))
    last = {
        id(producer): producer
        for consumer, producer in second.edges
        if id(consumer) in up and producer.walked is first and consumer.walked is not first
        if producer is node or id(producer) in up
    }
    return next(iter(last.values())) if len(last) == 1 else node


def severed(shared: Node, passes: tuple[BackwardCall, BackwardCall], tape: Tape) -> Severed | None:
    """The parameters that one of two passes over a *shared* node misses, if it trains nothing else there; else None.

    A discriminator's output for a fake that was detached is all right in the discriminator's loss. In the
    generator's, whose step follows, it trains nobody: the gradients of the discriminator are thrown away.
    """
    if tape.unknown_owner:
        return None
    nodes = list(nodes_under([shared]))
    here = {node.leaf for node in nodes if node.leaf is not None}
    served = [any((id(one), leaf.name) in tape.served for leaf in here) for one in passes]
    if served[0] == served[1]:
        return None
    wanted = passes[served[0]].owners or tape.stepped
    for node in nodes:
        for cut in (one for one in node.constants if one.how != "grad"):
            behind = {leaf for leaf in leaves_under(cut.nodes) if leaf in wanted and not leaf.frozen}
            if behind and not behind & here and not _weighs(shared, behind, passes[served[0]]):
                return Severed(cut.site.span, not served[0], tuple(sorted(leaf.name for leaf in behind)))
    return None


def _weighs(shared: Node, leaves: set[Leaf], one: BackwardCall) -> bool:
    """Whether a node is a weight, in a pass, of what some parameters learn by: ``w`` of ``(w * cost).mean()``."""
    return any(
        consumer.operation in ("mul", "div") and leaves & leaves_under([node])
        for consumer in one.above([shared])
        for node in (operand.node for operand in consumer.operands)
        if len(consumer.operands) == 2
    )


def _weights(
    shared: Node, here: set[Leaf], passes: tuple[BackwardCall, BackwardCall], tape: Tape
) -> tuple[tuple[tuple[Span, ...], tuple[Span, ...]], tuple[str, ...]]:
    """Factors by which one of two passes weighs log-likelihoods with a *shared* value alone, and its parameters.

    The score function estimates a gradient with the likelihoods' own gradient alone; the advantage that weighs them is
    a number to it (Williams, 1992), and what computes it learns from the other pass. Not so the probabilities of a
    mixture, or of a variational distribution: such an expectation has a gradient in them.
    """
    here = here & tape.stepped
    found = [_as_weight(shared, one) for one in passes]
    learned = [here and all((id(one), leaf.name) in tape.served for leaf in here) for one in passes]
    found = [found[at] if learned[1 - at] and not found[1 - at] else () for at in range(2)]
    names = tuple(sorted(leaf.name for leaf in here)) if any(found) else ()
    return (found[0], found[1]), names


def _as_weight(shared: Node, one: BackwardCall) -> tuple[Span, ...]:
    """The factors, beside likelihoods, on all the ways from a node to the pass's roots; none where one has no such."""
    above = one.users()
    pending, seen = [shared], {id(shared)}
    found: dict[Span, None] = {}
    while pending:
        node = pending.pop()
        if id(node) not in above or node.operation in groups.LIKELIHOODS or node.operation == "logsumexp":
            return ()
        for consumer in above.get(id(node), ()):
            factor = _factor(consumer, node)
            if factor is not None:
                found[factor] = None
            elif id(consumer) not in seen:
                seen.add(id(consumer))
                pending.append(consumer)
    return tuple(found)


def _factor(product: Node, weight: Node) -> Span | None:
    """The expression of a weight in a product with likelihoods."""
    written = product.site.node
    if product.operation != "mul" or not isinstance(written, ast.BinOp) or len(product.operands) != 2:
        return None
    left, right = (operand.node for operand in product.operands)
    if right is weight and cuts.is_likelihood(left):
        return Site(product.site.source, written.right).span
    if left is weight and cuts.is_likelihood(right):
        return Site(product.site.source, written.left).span
    return None
