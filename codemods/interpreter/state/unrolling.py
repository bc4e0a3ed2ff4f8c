"""What was met in loops and decides which of their iterations are run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofix.codemods.interpreter.streams import LazyStream


class Unrolling:
    """Signs that an iteration of a loop is unlike those before it."""

    def __init__(self) -> None:
        self.spans: list[int] = []
        """So many iterations of a loop show what happens every k-th time, or at numbers that are written down."""
        self.periods: list[int] = []
        """The k of these."""
        self.thresholds: list[tuple[str, int]] = []
        """Numbers with which counters that are known were compared, by the counters' names."""
        self.ways: dict[ast.AST, bool] = {}
        """Which way known conditions went last."""
        self.turns = 0
        """How often one of them went another way than the time before: what begins differently than it goes on."""
        self.ending: set[ast.If] = set()
        """Conditions that end a loop in its last iteration, which is being run."""
        self.lengths: dict[int, int] = {}
        """How many iterations the runs of loops have that are run in full."""
        self.streams: list[LazyStream] = []
        """Those of which ``next`` took an item, as often as it did."""
