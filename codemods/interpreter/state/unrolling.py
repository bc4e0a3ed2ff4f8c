"""Observations in loops that decide which of their iterations are run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofix.codemods.interpreter.streams import LazyStream


class Unrolling:
    """Signs that an iteration of a loop is unlike those before it."""

    def __init__(self) -> None:
        self.spans: list[int] = []
        """Numbers of iterations that show the events at every k-th iteration of a loop, or at written numbers."""
        self.periods: list[int] = []
        """The periods k among them."""
        self.thresholds: list[tuple[str, int]] = []
        """Numbers with which counters that are known were compared, by the counters' names."""
        self.short = 0
        """Number of comparisons that a size or a counter is too small for, where both numbers are known."""
        self.ways: dict[ast.AST, bool] = {}
        """The last outcome of known conditions."""
        self.turns = 0
        """Number of times that the outcome of one of them changed: the loop begins differently than it goes on."""
        self.ending: set[ast.If] = set()
        """Conditions that end a loop in its last iteration, which is being run."""
        self.doubted: set[ast.expr] = set()
        """The parts of conditions of which one that holds is enough to leave, which is unlikely."""
        self.asks_for_last: set[int] = set()
        """The runs of loops in which a condition asks for the last iteration."""
        self.last: set[int] = set()
        """The runs of loops whose last iteration is being run."""
        self.filled: dict[tuple[int, str], int] = {}
        """Numbers of items, in the first iteration, of lists that get one in each: by the loop's run and the name."""
        self.lengths: dict[int, int] = {}
        """Number of iterations of each run of a loop that is run in full."""
        self.streams: list[LazyStream] = []
        """The streams of which ``next`` took an item, once for each item."""
