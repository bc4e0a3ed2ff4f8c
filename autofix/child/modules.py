"""Knows the modules that work in place: where they were told so, and which one a change came from."""

from __future__ import annotations

import dis
import functools
import sys
import types
import weakref
from typing import Any

import torch

from .sites import Chain, Sites

AUGMENTED = 13
"""The operand of ``BINARY_OP`` from which it is an augmented assignment."""


class InplaceModules:
    """Notes the places that set modules to work in place: by ``inplace=True``, or ``module.inplace = True`` later."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._told: weakref.WeakKeyDictionary[torch.nn.Module, Chain] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Watch the flag of all module types that can work in place."""
        for kind in vars(torch.nn).values():
            if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and takes_inplace(kind):
                self._watch(kind)

    def _watch(self, kind: type[torch.nn.Module]) -> None:
        assign = kind.__setattr__

        @functools.wraps(assign)
        def watched(module: torch.nn.Module, name: str, value: Any) -> None:
            assign(module, name, value)
            if name == "inplace" and value:
                self._told[module] = self._sites.here()

        kind.__setattr__ = watched  # type: ignore[method-assign, assignment]

    def kind_of(self, name: str, kwargs: dict[str, Any], chain: Chain) -> tuple[str, Chain | None]:
        """Kind of the change in place by a call, and the place that set the calling module to ``inplace``, if known."""
        if name == "__setitem__":
            return "index assignment", None
        if kwargs.get("out") is not None:
            return "out=", None
        if chain and is_augmented(*chain[0]):
            return "operator", None
        module = self._calling_module()
        if module is not None:
            return "inplace module", self._told.get(module)
        if name.endswith("_") and not name.endswith("__"):
            return "method", None
        return "inplace function", None

    def _calling_module(self) -> torch.nn.Module | None:
        """The module with ``inplace=True`` whose ``forward`` made this call, if one did."""
        frame: types.FrameType | None = sys._getframe(3)
        for _ in range(4):  # its forward lies right above the call
            if frame is None:
                return None
            if frame.f_code.co_name == "forward":
                module = frame.f_locals.get("self")
                if isinstance(module, torch.nn.Module) and module in self._told:
                    return module
            frame = frame.f_back
        return None


def is_augmented(code: types.CodeType, last: int) -> bool:
    """Whether the instruction at *last* is an augmented assignment: torch names ``x += 1`` and ``x.add_(1)`` alike."""
    name, operand = dis.opname[code.co_code[last]], code.co_code[last + 1]
    return name.startswith("INPLACE_") or (name == "BINARY_OP" and operand >= AUGMENTED)


def takes_inplace(kind: type[torch.nn.Module]) -> bool:
    code = getattr(kind.__init__, "__code__", None)
    return code is not None and "inplace" in code.co_varnames
