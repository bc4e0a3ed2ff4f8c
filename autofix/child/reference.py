"""Lets the broken script run on, and so yields the gradients that its formulas mean.

Every pass keeps its graph, and every tensor that a node saves is cloned when it is saved, so that neither a freed
graph nor a change in place stops a pass: it computes with the values that the forward pass saw.
(``allow_mutation_on_saved_tensors`` is no substitute: in torch 2.13 it gives wrong gradients for some views.)  A few
calls of old PyTorch are understood, too, so that a script with two faults gets past the first.

A *faulty* node is one that could not have been walked as the script was written, or only into the past: an earlier
pass freed it, or walked it before the last optimizer step, or a step changed a parameter that it saved.  The part of
each gradient that comes through faulty nodes is measured by an extra pass in which they pass nothing on.  A right
patch may change that part (a detach drops it, a second forward pass renews it) and no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from .graph import Walk, is_past
from .parameters import Parameters

BACKWARD = inspect.signature(torch.autograd.backward)
GRAD = inspect.signature(torch.autograd.grad)


class Saved:
    """A tensor as a node saved it, and an alias through which a later change in place shows."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.values = tensor.clone()
        self.alias = tensor.detach()  # the tensor itself would close a reference cycle through its node
        self.version = tensor._version


class Reference:
    """The machinery of a reference run.  Only one at a time."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._grad = torch.autograd.grad
        self._changed: list[int] = []
        self._faulty_part: dict[int, torch.Tensor] = {}

    def install(self) -> None:
        """Clone what nodes save from now on, and understand a few old calls."""
        saved_tensors_hooks(Saved, self._unpack).__enter__()
        understand_old_calls()

    def _unpack(self, saved: Saved) -> torch.Tensor:
        if saved.alias._version != saved.version:
            self._changed.append(saved.alias.untyped_storage().data_ptr())
        return saved.values

    def run_pass(
        self,
        original: Callable[..., Any],
        kind: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        walked: Walk,
        step: int,
    ) -> Any:
        """Run a pass that keeps its graph, and remember how much of each gradient came through faulty nodes."""
        bound = (BACKWARD if kind == "backward" else GRAD).bind(*args, **kwargs)
        bound.arguments["retain_graph"] = True
        if kind != "backward":
            return original(*bound.args, **bound.kwargs)
        leaves = walked.leaves if bound.arguments.get("inputs") is None else []
        bad = self.faulty(walked, step)
        before = {leaf: leaf.grad.clone() if leaf.grad is not None else None for leaf in leaves} if bad else {}
        sound = self._sound_part(bound, leaves, bad) if bad else {}
        result = original(*bound.args, **bound.kwargs)
        for leaf in leaves:
            tracked = self._parameters.find(leaf)
            if tracked is None or leaf.grad is None:
                continue
            old = before.get(leaf)
            earlier = self._faulty_part.pop(tracked.index, None)
            if old is not None and earlier is not None and bool((old != 0).any()):
                self._faulty_part[tracked.index] = earlier
            if not bad:
                continue
            added = leaf.grad.detach() - (old if old is not None else 0)
            part = added - sound[leaf] if leaf in sound else added
            self._faulty_part[tracked.index] = part + self._faulty_part.get(tracked.index, 0)
        return result

    def faulty_part(self, index: int) -> torch.Tensor | None:
        """What of the present gradient of parameter *index* came through faulty nodes; None where nothing did."""
        return self._faulty_part.get(index)

    def faulty(self, walked: Walk, step: int) -> list[Any]:
        """The faulty nodes of a pass that begins after *step* optimizer steps."""
        return [node for node in walked.nodes if not hasattr(node, "variable") and self._is_faulty(node, step)]

    def _is_faulty(self, node: Any, step: int) -> bool:
        if is_past(node.metadata, step):
            return True
        self._changed.clear()
        for name in saved_names(type(node)):
            getattr(node, name, None)  # unpacking tells whether it was changed
        return any(storage in self._parameters.storages() for storage in self._changed)

    def _sound_part(
        self, bound: inspect.BoundArguments, leaves: Iterable[torch.Tensor], bad: Iterable[Any]
    ) -> dict[torch.Tensor, torch.Tensor]:
        """The gradients of the pass when faulty nodes pass nothing on."""
        handles = [node.register_prehook(pass_nothing) for node in bad]
        wanted = list(leaves)
        try:
            with torch.enable_grad():
                gradients = self._grad(
                    bound.arguments["tensors"],
                    wanted,
                    grad_outputs=bound.arguments.get("grad_tensors"),
                    retain_graph=True,
                    allow_unused=True,
                )
        finally:
            for handle in handles:
                handle.remove()
        return {leaf: g.detach() for leaf, g in zip(wanted, gradients, strict=True) if g is not None}


def pass_nothing(gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients)


_names: dict[type, tuple[str, ...]] = {}


def saved_names(kind: type) -> tuple[str, ...]:
    """The attributes under which nodes of this type show the tensors that they saved."""
    if kind not in _names:
        raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        _names[kind] = tuple(name.removeprefix("_raw") for name in raw if name != "_raw_saved_tensors")
        if "_raw_saved_tensors" in raw:  # a function written in Python
            _names[kind] += ("saved_tensors",)
    return _names[kind]


def understand_old_calls() -> None:
    """Let ``loss.data[0]`` and ``Variable(x, volatile=True)`` mean what they meant before PyTorch 0.4."""
    index = torch.Tensor.__getitem__

    def getitem(self: torch.Tensor, key: Any) -> Any:
        return self if key == 0 and isinstance(key, int) and self.dim() == 0 else index(self, key)

    torch.Tensor.__getitem__ = getitem  # type: ignore[method-assign, assignment]
    variable = torch.autograd.Variable

    def old_variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach() if volatile else variable(data, requires_grad)

    torch.autograd.Variable = old_variable  # type: ignore[assignment, misc]
