"""Lets the broken script run on, and so yields the gradients that its formulas mean.

Every pass keeps its graph, and every tensor that a node saves is cloned when it is saved, so that neither a freed
graph nor a change in place stops a pass: it computes with the values that the forward pass saw.
(``allow_mutation_on_saved_tensors`` is no substitute: in torch 2.13 it gives wrong gradients for some views.)  A few
calls of old PyTorch are understood, too, so that a script with two faults gets past the first.

A *faulty* node belongs to an earlier iteration (``graph.is_of_earlier_iteration``), or an optimizer step has changed a
parameter that it saved.  The part of each gradient that comes through faulty nodes is measured by an extra pass in
which they pass nothing on.  A right patch may change that part (a detach drops it, a second forward pass renews it)
and no other: two losses of one iteration that share a graph want both their gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from .graph import Moment, Walk, is_of_earlier_iteration
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

    def keeping(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments of a pass, changed so that it keeps its graph."""
        bound = (BACKWARD if kind == "backward" else GRAD).bind(*args, **kwargs)
        bound.arguments["retain_graph"] = True
        return bound

    def before_pass(
        self, bound: inspect.BoundArguments, walked: Walk, moment: Moment, by_hand: bool
    ) -> list[tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]]:
        """Measure the sound part of a pass that is about to run.

        Returns for each leaf the gradient that it has now, and what the pass will add without faulty nodes: None
        where that is all that it adds.
        """
        leaves = walked.leaves if bound.arguments.get("inputs") is None else []
        bad = [node for node in walked.nodes if self._is_faulty(node, moment, by_hand)]
        sound = self._sound_part(bound, leaves, bad) if bad else {}
        old = {leaf: leaf.grad.detach().clone() if leaf.grad is not None else None for leaf in leaves}
        return [(leaf, old[leaf], sound.get(leaf, torch.zeros_like(leaf)) if bad else None) for leaf in leaves]

    def after_pass(self, before: list[tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]]) -> None:
        """Remember how much of each gradient came through faulty nodes, as long as it is not set to zero."""
        for leaf, old, sound in before:
            tracked = self._parameters.find(leaf)
            if tracked is None or leaf.grad is None:
                continue
            earlier = self._faulty_part.pop(tracked.index, None)
            part = None if old is None or not bool((old != 0).any()) else earlier
            if sound is not None:
                added = leaf.grad.detach() - sound - (old if old is not None else 0)
                part = added if part is None else part + added
            if part is not None:
                self._faulty_part[tracked.index] = part

    def faulty_part(self, index: int) -> torch.Tensor | None:
        """What of the present gradient of parameter *index* came through faulty nodes; None where nothing did."""
        return self._faulty_part.get(index)

    def _is_faulty(self, node: Any, moment: Moment, by_hand: bool) -> bool:
        if hasattr(node, "variable"):
            return False
        if is_of_earlier_iteration(node.metadata, moment, by_hand=by_hand):
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
        return self if isinstance(key, int) and key == 0 and self.dim() == 0 else index(self, key)

    torch.Tensor.__getitem__ = getitem  # type: ignore[method-assign, assignment]
    variable = torch.autograd.Variable

    def old_variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach() if volatile else variable(data, requires_grad)

    torch.autograd.Variable = old_variable  # type: ignore[assignment, misc]
