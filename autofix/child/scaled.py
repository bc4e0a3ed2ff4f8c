"""Tells by how much ``torch.amp.GradScaler`` has scaled a loss, so that scripts with and without one can be compared.

Its scale is to be taken back before the step, and means nothing for the training: losses and gradients of a pass are
recorded without it.  A step that is made of gradients that are still scaled shows it, because it uses others than the
pass has left.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from .graph import below, is_addition, node_of

SCALE = "autofix_scale"
"""Key in ``Node.metadata`` of the scale by which a node has multiplied a loss."""
DEPTH = 16
"""Nodes that may lie between the root of a pass and a scaled loss: a sum of losses, a division by their number."""


def watch_scaling() -> None:
    """Note the scale of every loss that a scaler scales from now on."""
    scaler = torch.amp.GradScaler
    original = scaler.scale

    @functools.wraps(original)
    def scaled(self: Any, outputs: Any) -> Any:
        result = original(self, outputs)
        if self.is_enabled():
            if not isinstance(result, (torch.Tensor, list, tuple)):
                result = list(result)
            for node in _nodes_of(result):
                node.metadata[SCALE] = float(self.get_scale())
        return result

    scaler.scale = scaled  # type: ignore[method-assign]


def _nodes_of(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [node] if (node := node_of(value)) is not None else []
    return [node for one in value for node in _nodes_of(one)] if isinstance(value, (list, tuple)) else []


def scale_of(roots: Iterable[Any]) -> float:
    """The scale of the losses at which a pass begins; 1 where they have none, or several."""
    found = {_scale_of(root, DEPTH) for root in roots if root is not None}
    return found.pop() if len(found) == 1 else 1.0


def _scale_of(node: Any, depth: int) -> float:
    if SCALE in node.metadata:
        return float(node.metadata[SCALE])
    under = below(node)
    if not depth or not under or (len(under) > 1 and not is_addition(node)):
        return 1.0
    found = {_scale_of(one, depth - 1) for one in under}
    return found.pop() if len(found) == 1 else 1.0
