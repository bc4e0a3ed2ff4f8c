"""Unknown values that loops hand out, and the items of containers that they are taken to stand for."""

from __future__ import annotations

import ast
from collections.abc import Hashable


class LoopItems:
    """Which item of a container an unknown key stands for, so that a loop meets each of them in its turn."""

    def __init__(self) -> None:
        self.handed_out: dict[Hashable, int] = {}
        """Keys of the unknown values that loops hand out, each iteration another one, and the loops' runs."""
        self.taken: dict[tuple[int, int], dict[Hashable, Hashable]] = {}
        """Items of a container that one run of a loop took under such a value: container and run; value and item."""
        self.places: dict[int, dict[Hashable, tuple[Hashable, Hashable, int]]] = {}
        """By container and unknown key, the place it stands for, with the iteration and the number of passes so far."""
        self.filled: set[tuple[int, ast.expr]] = set()
        """Containers that held ``None`` where they were read by an unknown key, and the expressions."""
        self.several_places = 0
        """Rises with each iteration that has several such keys."""
        self.turns_compared = 0
        """Rises with each comparison of the turns of two loops."""
