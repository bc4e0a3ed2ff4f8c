"""Parameters that a script moves without an optimizer: of a target network, or of a running average of weights.

No gradient tells of them, and a patch that leaves their update out trains on other aims only after a while.
"""

from __future__ import annotations

import weakref

import torch

from .parameters import Parameters, named_parameters

MOST = 2_000
"""Parameters that are watched."""
LOOKED_AT = 64
"""Elements of each that are compared from step to step: an update by a formula changes all of them."""


class Beside:
    """Tells at each optimizer step which of these parameters have moved since the step before."""

    def __init__(self, parameters: Parameters, root: str) -> None:
        self._parameters = parameters
        self._root = root
        self._watched: dict[str, weakref.ref[torch.Tensor]] | None = None
        """None before the first pass."""
        self._values: dict[str, torch.Tensor] = {}

    def before_pass(self) -> None:
        """Begin to watch at the first pass: parameters that are updated by hand have been made by then."""
        if self._watched is not None:
            return
        found: dict[str, list[torch.Tensor]] = {}
        for name, parameter in named_parameters(self._root).values():
            found.setdefault(name, []).append(parameter)
        # Two modules of one name cannot be told apart in two runs.
        alone = [(name, tensors[0]) for name, tensors in found.items() if len(tensors) == 1]
        self._watched = {name: weakref.ref(tensor) for name, tensor in alone[:MOST]}
        self.moved()

    def moved(self) -> dict[str, bool]:
        """For each parameter outside of all optimizers, by name, whether it has moved since the last call."""
        watched, moved = self._watched or {}, dict[str, bool]()
        for name, reference in list(watched.items()):
            tensor = reference()
            if tensor is None or self._is_trained(tensor):
                del watched[name]
                continue
            values = tensor.detach().flatten()[:LOOKED_AT].clone()
            before = self._values.get(name)
            self._values[name] = values
            if before is not None:
                moved[name] = not torch.equal(before, values)
        return moved

    def _is_trained(self, tensor: torch.Tensor) -> bool:
        """Whether gradients tell how it moves, or an optimizer has it."""
        known = self._parameters.find(tensor)
        return tensor.grad is not None or (known is not None and known.in_optimizer)
