"""Notes of the witness while the script runs: calls, changes, passes, and the marks that it leaves on the graph.

The marks lie in ``Node.metadata``, a dict that lives exactly as long as the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from .sites import Chain

MADE = "autofix_made"
"""Key of the call that made a node."""
FREED = "autofix_freed"
"""Key of the number of the pass that freed it."""
KEPT = "autofix_kept"
"""Key of the number of the first pass that walked it and kept the graph."""
BY = "autofix_by"
"""Key of the first call on the way of the pass that freed it."""

ACCUMULATE: type = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
"""The type of the nodes at the leaves."""


class Call:
    """One call of torch that made nodes: its site, the passes and steps before it, and the memory that it worked on."""

    __slots__ = ("chain", "enters", "number", "passes", "pointers", "steps")

    def __init__(self, chain: Chain, number: int, passes: int, steps: int, pointers: tuple[int, ...]) -> None:
        self.chain = chain
        self.number = number
        self.passes = passes
        self.steps = steps
        self.pointers = pointers
        self.enters = False  # whether a freed node of it read a leaf: a layer, rather than a loss


class Change:
    """A change in place: the memory, the version before and after, the site, and the operation."""

    __slots__ = ("begin", "chain", "end", "kind", "made", "name", "number", "version")

    def __init__(
        self, tensor: torch.Tensor, chain: Chain, number: int, name: str, kind: str, made: Chain | None
    ) -> None:
        storage = tensor.untyped_storage()
        self.begin = storage.data_ptr()
        self.end = self.begin + storage.nbytes()
        self.version = tensor._version
        self.chain = chain
        self.number = number
        self.name = name
        self.kind = kind
        self.made = made


@dataclass(frozen=True)
class Cut:
    """A call that dropped a graph: its name, passes before, and whether autograd was recording."""

    name: str
    passes: int
    recorded: bool


@dataclass
class Tape:
    """Record of all that the witness has seen so far."""

    calls: int = 0
    passes: int = 0
    steps: int = 0
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=4096))
    step_sites: deque[tuple[int, Optimizer, Chain]] = field(default_factory=lambda: deque(maxlen=256))
    pass_sites: dict[int, Chain] = field(default_factory=dict)
    pass_steps: dict[int, int] = field(default_factory=dict)
    """Number of optimizer steps before each pass."""
    pass_calls: dict[int, int] = field(default_factory=dict)
    """Number of calls before each pass."""
    cuts: dict[Chain, Cut] = field(default_factory=dict)
    """Calls that took tensors with a graph and returned a result without one, the latest last."""


def mark(roots: Iterable[Any], number: int, *, frees: bool) -> None:
    """Note on every node under *roots* that pass *number* has walked it, and whether that freed it."""
    key = FREED if frees else KEPT
    stack: list[tuple[Any, Call | None]] = [(root, None) for root in roots if root is not None]
    while stack:
        node, user = stack.pop()
        if isinstance(node, ACCUMULATE):
            if user is not None:
                user.enters = True
            continue
        notes = node.metadata
        if key in notes:
            if frees and user is not None and notes[FREED] == number and BY in notes and user.number < notes[BY].number:
                notes[BY] = user
            continue
        notes[key] = number
        if frees and user is not None:
            notes[BY] = user
        call = notes.get(MADE, user)
        stack.extend([(following, call) for following, _ in node.next_functions if following is not None])
