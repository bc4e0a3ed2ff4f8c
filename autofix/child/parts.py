"""Lets a reference run read one of several views when their base was changed in place, which autograd refuses.

``chunk``, ``split`` and ``unbind`` give several views in one call, and a change of their base takes their graphs away.
The author may have meant the views to see the change, as a slice does, or to stay as they were.

Source: ``grad_fn`` of multi-output views in torch/csrc/autograd/variable.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .calls import CallMode

VIEWS = "views"


class Parts(CallMode):
    """Gives each of several views by a call of its own, ``views``, or each as a copy, ``copies``."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._given = alone if kind == VIEWS else torch.Tensor.clone

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if type(result) in (tuple, list) and all(map(is_view, result)):
            return type(result)(map(self._given, result))
        return result


def is_view(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value._base is not None


def alone(part: torch.Tensor) -> torch.Tensor:
    """The same view of the same base, by a call that gives nothing else."""
    base = part._base
    assert base is not None
    return base.as_strided(part.size(), part.stride(), part.storage_offset())
