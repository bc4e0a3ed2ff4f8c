"""Random numbers of their own for networks, so that calls in another order do not change any other draws.

A dropout layer draws from the generator that shuffles the data as well.  A patch that calls the network later, or once
more, changes all that is drawn behind it; with a stream for each network, only the calls that are new draw anew.
"""

from __future__ import annotations

import weakref
import zlib
from collections import Counter
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class Streams:
    """A stream for each module that is called from outside of modules."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states: weakref.WeakKeyDictionary[torch.nn.Module, torch.Tensor] = weakref.WeakKeyDictionary()
        self._known: Counter[str] = Counter()
        self._depth = 0
        self._outside: torch.Tensor | None = None

    def install(self) -> None:
        register_module_forward_pre_hook(self._enter)
        register_module_forward_hook(self._leave, always_call=True)

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._outside = torch.get_rng_state()
            if module not in self._states:
                self._begin(module)
            torch.set_rng_state(self._states[module])

    def _begin(self, module: torch.nn.Module) -> None:
        """Begin the stream of a module: it depends on the module's class and its number within the class alone."""
        name = type(module).__qualname__
        self._known[name] += 1
        torch.manual_seed(zlib.crc32(f"{self._seed} {name} {self._known[name]}".encode()))
        self._states[module] = torch.get_rng_state()

    def _leave(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._outside is not None:
            self._states[module] = torch.get_rng_state()
            torch.set_rng_state(self._outside)
