"""Settings of modules that keep statistics or draw random numbers, when a forward pass comes to them.

A patch that leaves ``net.eval()`` out, or gives a batch norm another momentum, may train on the very same losses.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.module import register_module_forward_pre_hook

KINDS = (_NormBase, _DropoutNd, nn.RNNBase, nn.MultiheadAttention)
SETTINGS = ("p", "dropout", "momentum", "eps", "track_running_stats")


class Modes:
    """Collects the settings of the modules that are called; each is told once."""

    def __init__(self) -> None:
        self._new: dict[str, None] = {}
        self._told: set[str] = set()

    def install(self) -> None:
        register_module_forward_pre_hook(self._note)

    def _note(self, module: torch.nn.Module, _: object) -> None:
        if isinstance(module, KINDS):
            mode = "training" if module.training else "evaluating"
            settings = [f"{name}={getattr(module, name)}" for name in SETTINGS if hasattr(module, name)]
            self._new[f"{type(module).__name__}({', '.join(settings)}), {mode}"] = None

    def since(self) -> list[str]:
        """The settings that were met since the last call, and never before."""
        found = [one for one in self._new if one not in self._told]
        self._told.update(found)
        self._new.clear()
        return found
