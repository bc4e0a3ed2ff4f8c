"""Sizes of a script's containers before its passes: those that grow together belong together."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch

from .holders import OPAQUE, namespaces
from .kept import DEPTH, OBJECTS, is_array_of_numbers, parts_of

MOST = 512
"""Containers whose sizes are told of one pass."""


_CONTAINERS: tuple[Any, ...] = (list, dict, set, deque)


class Sizes(NamedTuple):
    """Sizes of what the user's variables lead to, by name."""

    containers: dict[str, int]
    """Numbers of the items of containers, and of the rows of tensors."""
    numbers: dict[str, int]
    """Values of whole numbers that may count items."""


def sizes(root: str) -> Sizes:
    """The sizes of what the variables of the user's running frames and modules lead to."""
    found = Sizes({}, {})
    seen, budget = set[int](), [OBJECTS]
    with torch._C.DisableTorchFunction():
        for space, _, _ in namespaces(root):
            for key, value in list(space.items()):
                if not key.startswith("__"):
                    _look_into(key, value, found, seen, budget, DEPTH)
    return found


def _look_into(name: str, value: Any, found: Sizes, seen: set[int], budget: list[int], depth: int) -> None:
    if type(value) in (int, float):
        if not name.endswith("]") and float(value).is_integer():
            found.numbers.setdefault(name, int(value))
        return
    if id(value) in seen or budget[0] <= 0 or len(found.containers) >= MOST:
        return
    budget[0] -= 1
    seen.add(id(value))
    if (length := _length(value)) is not None:
        found.containers.setdefault(name, length)
    if depth and not isinstance(value, OPAQUE):
        for key, inner in parts_of(value):
            _look_into(f"{name}{key}", inner, found, seen, budget, depth - 1)


def _length(value: Any) -> int | None:
    """The number of items that *value* holds, if it is one that a script may fill."""
    for kind in _CONTAINERS:
        if isinstance(value, kind):
            return int(kind.__len__(value))  # not by a method of the user's
    if is_array_of_numbers(value) or (isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)):
        try:
            return int(value.shape[0]) if value.ndim else None
        except RuntimeError:  # one without sizes: it is nested, or was not filled yet
            return None
    return None
