"""Parameters that forward passes come to: a module that is never called need not train."""

from __future__ import annotations

import weakref

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from .events import Events
from .parameters import Parameters, Tracked
from .recorded import CalledBefore


class Called:
    """Tells the members of optimizers that a forward pass under autograd came to, or that belong to no module.

    Each is told at the first backward pass after that, and once more past the original's failure.
    """

    def __init__(self, parameters: Parameters, events: Events, failed_passes: int) -> None:
        self._parameters = parameters
        self._events = events
        self._failed_passes = failed_passes
        self._modules: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Modules that were called since the last pass."""
        self._told: set[int] = set()

    def install(self) -> None:
        register_module_forward_pre_hook(self._note)

    def _note(self, module: torch.nn.Module, _: object) -> None:
        if module not in self._modules and torch.is_grad_enabled():
            self._modules.add(module)

    def tell(self, members: list[Tracked], number: int) -> None:
        """Backward pass *number* is about to run."""
        if number - self._failed_passes in (0, 1):
            self._told.clear()
        modules, self._modules = self._modules, weakref.WeakSet()
        unknown = {id(tensor): one.index for one in members if (tensor := one.tensor) is not None}
        unknown = {place: index for place, index in unknown.items() if index not in self._told}
        if not unknown:
            return
        come_to = {id(p) for module in modules for p in module.parameters(recurse=False)}
        named = self._parameters.of_modules(unknown)
        found = [index for place, index in unknown.items() if place in come_to or place not in named]
        if found:
            self._told.update(found)
            self._events.write(CalledBefore(number, frozenset(found)))
