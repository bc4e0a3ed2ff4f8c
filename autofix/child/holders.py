"""Finds out by which variables a script holds a tensor."""

from __future__ import annotations

import gc
import os
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from .stage import is_user_file

MOST = 50_000
"""Elements of containers that are looked at for one answer."""


def tensors_made_by(nodes: set[Any]) -> list[torch.Tensor]:
    """The live tensors whose graph begins at one of *nodes*."""
    tensors = (thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor))
    return [tensor for tensor in tensors if tensor.grad_fn in nodes]


def holders(tensors: list[torch.Tensor], root: str) -> list[dict[str, Any]]:
    """The variables, attributes and containers in the running user frames that hold one of *tensors*.

    Each is told as the ``name`` that the source would give it (``temp``, ``self.hidden``), the ``kind`` of what holds
    the tensor there, and the file and function whose frame knows the name.
    """
    wanted = {id(tensor) for tensor in tensors}
    found: list[dict[str, Any]] = []
    seen: set[tuple[int, str]] = set()
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename, root):
            budget = [MOST]
            for name, value in list(frame.f_locals.items()):
                for path, kind in paths_to(wanted, name, value, budget):
                    if (id(frame.f_locals), path) not in seen:
                        seen.add((id(frame.f_locals), path))
                        found.append(
                            {
                                "name": path,
                                "kind": kind,
                                "file": os.path.relpath(code.co_filename, root),
                                "function": getattr(code, "co_qualname", code.co_name),
                            }
                        )
        frame = frame.f_back
    return found


def paths_to(wanted: set[int], name: str, value: Any, budget: list[int], depth: int = 3) -> Iterator[tuple[str, str]]:
    """The paths from the variable *name* to the objects *wanted*, with the kind of what holds them at the end."""
    if name.startswith("__"):
        return
    if id(value) in wanted:
        yield name, "variable" if "." not in name else "attribute"
        return
    if contains(wanted, value, budget):
        yield name, type(value).__name__
        return
    if depth == 0 or isinstance(value, (type, types.ModuleType, types.FunctionType, torch.Tensor)):
        return
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        budget[0] -= len(attributes)
        if budget[0] > 0:
            for key, inner in list(attributes.items()):
                if isinstance(key, str) and not key.startswith("__"):
                    yield from paths_to(wanted, f"{name}.{key}", inner, budget, depth - 1)


def contains(wanted: set[int], value: Any, budget: list[int], depth: int = 3) -> bool:
    """Whether the container *value* holds one of *wanted*, perhaps in containers within it."""
    if not isinstance(value, (list, tuple, deque, set, frozenset, dict)):
        return False
    inner = list(value.values()) if isinstance(value, dict) else list(value)
    budget[0] -= len(inner)
    if budget[0] < 0:
        return False
    return any(id(one) in wanted or (depth > 0 and contains(wanted, one, budget, depth - 1)) for one in inner)
