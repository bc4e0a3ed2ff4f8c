"""Operations that give some values back as they are: a clamp, a relu, a choice between two tensors.

A patch that clamps the loss to 50 changes nothing as long as the loss is smaller, and nobody sees how it trains later.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch


def _within(node: Any) -> bool:
    least, most = getattr(node, "_saved_min", None), getattr(node, "_saved_max", None)
    return _between(node._saved_self, least, most)


def _between(values: torch.Tensor, least: Any, most: Any) -> bool:
    return (least is None or bool((values >= least).all())) and (most is None or bool((values <= most).all()))


def _one_side(chosen: torch.Tensor) -> bool:
    return bool(chosen.all()) or not bool(chosen.any())


GATES: dict[str, Callable[[Any], bool]] = {
    "ClampBackward": _within,
    "ClampMinBackward": _within,
    "ClampMaxBackward": _within,
    "ReluBackward": lambda node: bool((node._saved_result > 0).all()),
    "LeakyReluBackward": lambda node: bool((node._saved_self > 0).all()),
    "EluBackward": lambda node: bool((node._saved_self > 0).all()),
    "HardtanhBackward": lambda node: _between(node._saved_self, node._saved_min_val, node._saved_max_val),
    "ThresholdBackward": lambda node: bool((node._saved_self > node._saved_threshold).all()),
    "NanToNumBackward": lambda node: bool(torch.isfinite(node._saved_self).all()),
    "AbsBackward": lambda node: _one_side(node._saved_self >= 0),
    "MaximumBackward": lambda node: _one_side(node._saved_self >= node._saved_other),
    "MinimumBackward": lambda node: _one_side(node._saved_self <= node._saved_other),
    "FmaxBackward": lambda node: _one_side(node._saved_self >= node._saved_other),
    "FminBackward": lambda node: _one_side(node._saved_self <= node._saved_other),
    "WhereBackward": lambda node: _one_side(node._saved_condition),
    "MaskedFillBackward": lambda node: not bool(node._saved_mask.any()),
}
"""Type of a node, without its number, to whether it hands on all of one input and so has no effect."""
CONSTANTS = ("min", "max", "min_val", "max_val", "threshold", "negative_slope")
"""Numbers that a node saves beside its tensors."""
LARGE = 2**20
"""Elements from which on a tensor is not looked at."""


def open_gates(nodes: Iterable[Any]) -> dict[str, int]:
    """The number of *nodes* without an effect, by their type."""
    found: Counter[str] = Counter()
    for node in nodes:
        kind = type(node).__name__.rstrip("0123456789")
        gate = GATES.get(kind)
        # What was freed, or changed in place, cannot be looked at.
        with contextlib.suppress(RuntimeError, AttributeError):
            if gate is not None and _is_small(node) and gate(node):
                found[f"{kind.removesuffix('Backward')}{_constants(node)}"] += 1
    return dict(found)


def _constants(node: Any) -> str:
    """The bounds of a gate that are numbers, such as ``(min=0, max=50)``; empty for none."""
    found = [(name, getattr(node, f"_saved_{name}", None)) for name in CONSTANTS]
    told = [f"{name.removesuffix('_val')}={value:g}" for name, value in found if isinstance(value, (int, float))]
    return f"({', '.join(told)})" if told else ""


def _is_small(node: Any) -> bool:
    return all(torch.Size(one.shape).numel() <= LARGE for one in node._input_metadata)
