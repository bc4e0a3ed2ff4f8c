"""Settings of modules that keep statistics or draw random numbers, when a forward pass comes to them.

A patch that leaves ``net.eval()`` out, or gives a batch norm another momentum, may train on the very same losses.  So
may one that calls a network once more, with other inputs, and so changes its statistics.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.module import register_module_forward_pre_hook

from .kept import glance

KINDS = (_NormBase, _DropoutNd, nn.RNNBase, nn.MultiheadAttention)
MOST = 400
"""Inputs of modules with statistics that are told."""
SETTINGS = ("p", "dropout", "momentum", "eps", "track_running_stats")


class Modes:
    """Collects the settings of the modules that are called."""

    def __init__(self) -> None:
        self._new: dict[str, None] = {}
        self._inputs: list[tuple[float, ...]] = []
        self._left = MOST
        self._calls = 0

    def install(self) -> None:
        register_module_forward_pre_hook(self._note)

    def _note(self, module: torch.nn.Module, inputs: tuple[object, ...]) -> None:
        self._calls += 1
        if isinstance(module, KINDS):
            mode = "training" if module.training else "evaluating"
            settings = [f"{name}={getattr(module, name)}" for name in SETTINGS if hasattr(module, name)]
            self._new[f"{type(module).__name__}({', '.join(settings)}), {mode}"] = None
            if isinstance(module, _NormBase) and module.training and module.running_mean is not None:
                self._note_input(inputs)

    def _note_input(self, inputs: tuple[object, ...]) -> None:
        if self._left and inputs and isinstance(inputs[0], torch.Tensor) and inputs[0].numel():
            self._left -= 1
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._inputs.append(glance(inputs[0]))

    def since(self) -> list[str]:
        """The settings that were met since the last call."""
        found = list(self._new)
        self._new.clear()
        return found

    def inputs(self) -> tuple[tuple[float, ...], ...] | None:
        """Some sums of what modules that keep statistics were given since the last call; None from where it is much."""
        found, self._inputs = tuple(self._inputs), []
        return found if self._left else None

    def called(self) -> int:
        """Number of calls of modules since the last call of this."""
        found, self._calls = self._calls, 0
        return found
