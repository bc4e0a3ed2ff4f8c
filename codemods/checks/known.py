"""Observations of the paths through a program so far."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from autofix.codemods.checks.layers import ThroughLayers
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.interpreter.checkpoint import Prelude
from autofix.codemods.interpreter.entries import Ways
from autofix.codemods.interpreter.policy import Path
from autofix.codemods.interpreter.unread_losses import Parts
from autofix.codemods.source.sources import Site, Source


class Place(NamedTuple):
    """Place at which a node was made, in terms that an edit elsewhere does not change."""

    operation: str
    line: int
    rank: int = 0
    """Position among the nodes with this operation on this line, from left to right."""
    calls: tuple[tuple[int, int, str], ...] = ()
    """For each call that led there: its line, its position among the calls of this name on the line, and the name. Two
    views of one picture are two ways.
    """


class Edge(NamedTuple):
    """An edge of the graph as one pass walked it."""

    line: int
    """The line of the pass."""
    consumer: Place
    producer: Place
    gap: tuple[int, ...]
    """For each common loop, the number of iterations between the producer and the pass."""
    lag: tuple[int, ...] = ()
    """The number of iterations between the producer and the consumer: a state's way from one time step to the next."""


@dataclass
class Known:
    """Observations of all the paths that were followed so far."""

    facts: dict[Fact, Path] = field(default_factory=dict)
    edges: set[Edge] = field(default_factory=set)
    renewed: set[Edge] = field(default_factory=set)
    """Those of passes that were not the first at their place: what an iteration computes for itself."""
    ways: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    through: ThroughLayers = field(default_factory=ThroughLayers)
    updated: set[tuple[str, Site, int]] = field(default_factory=set)
    """Parameters, by name, the steps that used a gradient of theirs, and the pass (by line) that gave it."""
    waiting: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    faded: set[tuple[int, str]] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    """Lines at which a path ran several passes."""
    later: set[tuple[int, str]] = field(default_factory=set)
    """Parameters trained by passes that were not the first at their place: see :mod:`autofix.codemods.checks.flow`."""
    crashes: set[tuple[int, str]] = field(default_factory=set)
    rootless: set[int] = field(default_factory=set)
    passes: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    """The lines of those whose graph is not just that of a result which code that was not read has computed."""
    training: set[int] = field(default_factory=set)
    """Lines of the passes that reach something which may be trained."""
    executed: set[ast.stmt] = field(default_factory=set)
    unresolved: set[str] = field(default_factory=set)
    """Names of functions that paths may have called without following them."""
    unentered: set[ast.AST] = field(default_factory=set)
    handed: set[ast.ClassDef] = field(default_factory=set)
    driven: dict[Span, Collection[ast.AST] | None] = field(default_factory=dict)
    """The last three are as :class:`autofix.codemods.interpreter.state.log.Log` says."""
    losses_of_calls: Parts = field(default_factory=dict)
    """Calls of unread code that gave what a path has sent backward (:mod:`..interpreter.unread_losses`)."""
    sources: list[Source] = field(default_factory=list)
    used: set[Hashable] = field(default_factory=set)
    """Statements through which a pass came on some path, also with the part of a state that is given up there."""
    supposed: set[str] = field(default_factory=set)
    """The models of which no pass is known and whose results were sent backward, by their entries."""
    every: int = 0
    """All paths."""
    complete: bool = True
    steps: int = 0
    ways_to_passes: Callable[[], Ways] = Ways
    """The ways to a pass in the program."""
    prelude: Prelude = field(default_factory=Prelude)

    def extent(self) -> tuple[int, ...]:
        """Sizes of what tells paths that show something from those that do not."""
        known = (self.facts, self.edges, self.ways, self.waiting, self.faded, self.repeated, self.later, self.crashes)
        return tuple(map(len, (*known, self.rootless, self.passes, self.training, self.used)))

    @property
    def trained(self) -> set[tuple[int, str]]:
        return {(place[0], name) for place, name in self.ways}
