"""Parameters that the passes train, and the edges of useful gradient flow."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

from autofix.codemods.autograd.graph import BackwardCall, Leaf, Node, distance
from autofix.codemods.autograd.walks import useful_edges
from autofix.codemods.checks.known import Edge, Known, Place
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.source.sources import Site, last_name


def collect(interp: Interpreter, found: Known) -> None:
    """Record in *found* which parameters the passes of a path train, and the edges of useful gradient flow."""
    tape, incidents = interp.tape, interp.incidents
    known = tape.owned and not tape.unknown_owner
    place = _places()
    later = set(map(id, _later(tape.passes)))
    unread = set(interp.leaves_of_calls.values())
    for one in tape.passes:
        line = one.site.line
        found.passes.add(line)
        if not unread or not unread.issuperset(filter(None, (producer.leaf for _, producer in one.edges))):
            found.read.add(line)
        if not one.idle:
            found.training.add(line)

        def useful(leaf: Leaf, one: BackwardCall = one) -> bool:
            return not known or (id(one), leaf.name) in tape.served

        for consumer, producer in useful_edges(one, useful):
            edge = _edge(one, consumer, producer, place)
            found.edges.add(edge)
            if id(one) in later and not any(_is_from_before(node, one) for node in (consumer, producer)):
                found.renewed.add(edge)
        if known and _called(one.site.node) != "grad":  # not for a gradient that is asked for by itself
            found.through.add(one, tape.served)
    found.ways |= tape.trained
    found.updated |= tape.updated
    found.waiting |= incidents.waiting
    found.faded |= incidents.faded
    for one in _later(tape.passes):
        found.repeated.add(one.site.line)
        found.later.update((one.site.line, leaf.name) for leaf in tape.owned if (id(one), leaf.name) in tape.served)
        found.later.update((one.site.line, name) for name in incidents.reserves)


def _is_from_before(node: Node, one: BackwardCall) -> bool:
    """Whether a node was made before the outermost loop around a pass, or in another loop than the one around it."""
    if not node.loops or node.leaf is not None:
        return bool(one.loops) and node.leaf is None
    for made, seen in zip(node.loops, one.loops, strict=False):
        if made.instance != seen.instance:
            return True
        if made != seen:  # in another iteration, which has loops of its own
            return False
    return False


def _later(passes: list[BackwardCall]) -> Iterator[BackwardCall]:
    """The passes that are not the first at their place, in their run of the loop around them where any run has several.

    A state that each sequence begins anew leaves a first pass in every sequence.
    """
    runs = Counter((one.place, one.loops[-1].instance) for one in passes if one.loops)
    several = {place for (place, _), count in runs.items() if count > 1}
    begun: set[tuple[tuple[int, ...], int]] = set()
    for one in passes:
        run = (one.place, one.loops[-1].instance if one.loops and one.place in several else -1)
        if run in begun:
            yield one
        begun.add(run)


def _edge(one: BackwardCall, consumer: Node, producer: Node, place: Callable[[Node], Place]) -> Edge:
    gap = () if producer.leaf is not None else distance(producer.loops, one.loops)
    lag = () if producer.leaf is not None else distance(producer.loops, consumer.loops)
    return Edge(one.site.line, place(consumer), place(producer), gap, lag)


def _places() -> Callable[[Node], Place]:
    """Function that gives the place of a node; most nodes share the calls that led there with others."""

    @cache
    def calls(stack: tuple[Site, ...]) -> tuple[tuple[int, int, str], ...]:
        return tuple((site.line, _column(site), _called(site.node)) for site in stack)

    @cache
    def place(node: Node) -> Place:
        name = node.leaf.name if node.leaf is not None else node.operation
        return Place(name, node.site.line, _column(node.site), calls(node.stack))

    return place


def _called(node: ast.AST) -> str:
    """The last name of the function of a call; empty for other ways into a function: an operator, a property."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _column(site: Site) -> int:
    return site.node.col_offset * 1000 + (site.node.end_col_offset or 0) % 1000


def ranked(edges: set[Edge]) -> Iterator[Edge]:
    """The edges with columns replaced by their order on the line: an edit shifts columns, not their order."""
    columns: dict[tuple[str, int], set[int]] = {}
    for place in {place for edge in edges for place in (edge.consumer, edge.producer)}:
        columns.setdefault((place.operation, place.line), set()).add(place.rank)
        for line, column, name in place.calls:
            columns.setdefault((f"{name}()", line), set()).add(column)
    order = {key: {column: rank for rank, column in enumerate(sorted(found))} for key, found in columns.items()}

    @cache
    def ranked(place: Place) -> Place:
        calls = tuple((line, order[f"{name}()", line][column], name) for line, column, name in place.calls)
        return place._replace(rank=order[place.operation, place.line][place.rank], calls=calls)

    for edge in edges:
        yield edge._replace(consumer=ranked(edge.consumer), producer=ranked(edge.producer))
