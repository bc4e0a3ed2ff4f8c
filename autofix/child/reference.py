"""Lets the broken script run on, and so yields the gradients that its formulas mean.

Every pass keeps its graph, and every tensor that a node saves is cloned when it is saved, so that neither a freed
graph nor a change in place stops a pass: it computes with the values that the forward pass saw.
(``allow_mutation_on_saved_tensors`` is no substitute: in torch 2.13 it gives wrong gradients for some views.)  Errors
of other kinds are forgiven where it is plain what was meant (``leniency.py``).

A *faulty* node belongs to an earlier iteration (``graph.is_of_earlier_iteration``), or an optimizer step has changed a
parameter that it saved.  The part of each gradient that comes through faulty nodes is measured by an extra pass in
which they pass nothing on, entry by entry.  A right patch may change that part (a detach drops it, a second forward
pass renews it) and no other: two losses of one iteration that share a graph want both their gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from .graph import Moment, Walk, is_of_earlier_iteration, roots_of
from .leniency import be_lenient
from .parameters import Parameters

MOST_PARTS = 6
"""Entries into faulty nodes that are told apart: each takes a pass of its own."""
BACKWARD = inspect.signature(torch.autograd.backward)
GRAD = inspect.signature(torch.autograd.grad)


class Saved:
    """A tensor as a node saved it, and an alias through which a later change in place shows."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.values = tensor.clone()
        self.alias = tensor.detach()  # the tensor itself would close a reference cycle through its node
        self.version = tensor._version


@dataclass
class Measured:
    """A leaf before a pass: the gradient that it has, and what the pass would add if closed off from faulty nodes."""

    leaf: torch.Tensor
    old: torch.Tensor | None
    sound: torch.Tensor | None = None
    """None where no node is faulty."""
    parts: list[torch.Tensor] = field(default_factory=list)
    """The same with one entry into faulty nodes left open, for each entry; empty where there is only one."""
    known: bool = True
    """Whether the entries were few enough to be told apart."""


@dataclass
class Faulty:
    """What of a gradient came through faulty nodes: all of it, and by which entry."""

    total: torch.Tensor | None = None
    parts: list[torch.Tensor] = field(default_factory=list)
    known: bool = True


class Reference:
    """The machinery of a reference run.  Only one at a time."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._grad = torch.autograd.grad
        self._changed: list[int] = []
        self._faulty: dict[int, Faulty] = {}

    def install(self) -> None:
        """Clone what nodes save from now on, and forgive what a kept graph does not help against."""
        saved_tensors_hooks(Saved, self._unpack).__enter__()
        be_lenient()

    def _unpack(self, saved: Saved) -> torch.Tensor:
        if saved.alias._version != saved.version:
            self._changed.append(saved.alias.untyped_storage().data_ptr())
        return saved.values

    def keeping(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments of a pass, changed so that it keeps its graph."""
        bound = (BACKWARD if kind == "backward" else GRAD).bind(*args, **kwargs)
        bound.arguments["retain_graph"] = True
        return bound

    def before_pass(self, bound: inspect.BoundArguments, walked: Walk, moment: Moment, by_hand: bool) -> list[Measured]:
        """Measure the sound part of a pass that is about to run, and the parts through each entry into faulty nodes."""
        leaves = walked.leaves if bound.arguments.get("inputs") is None else []
        bad = {node for node in walked.nodes if self._is_faulty(node, moment, by_hand)}
        if not bad:
            return [Measured(leaf, clone(leaf.grad)) for leaf in leaves]
        entries = [
            (node, position)
            for node in walked.nodes
            if node not in bad
            for position, (following, _) in enumerate(node.next_functions)
            if following in bad
        ]
        nothing: dict[torch.Tensor, torch.Tensor] = {}
        whole = any(root in bad for root in roots_of(bound.arguments["tensors"]))
        sound = nothing if whole else self._part(bound, leaves, entries)
        parts = []
        if not whole and 1 < len(entries) <= MOST_PARTS:
            parts = [self._part(bound, leaves, [e for e in entries if e is not entry]) for entry in entries]
        known = whole or len(entries) <= MOST_PARTS
        return [
            Measured(leaf, clone(leaf.grad), part_of(sound, leaf), [part_of(p, leaf) for p in parts], known)
            for leaf in leaves
        ]

    def after_pass(self, before: list[Measured]) -> None:
        """Remember how much of each gradient came through faulty nodes, as long as it is not set to zero."""
        for one in before:
            tracked = self._parameters.find(one.leaf)
            if tracked is None or one.leaf.grad is None:
                continue
            earlier = self._faulty.pop(tracked.index, None)
            faulty = Faulty() if earlier is None or one.old is None or not bool((one.old != 0).any()) else earlier
            if one.sound is not None:
                added = one.leaf.grad.detach() - one.sound - (one.old if one.old is not None else 0)
                faulty.parts += [part - one.sound for part in one.parts] or [added]
                faulty.known = faulty.known and one.known and len(faulty.parts) <= MOST_PARTS
                faulty.total = added if faulty.total is None else faulty.total + added
            if faulty.total is not None:
                self._faulty[tracked.index] = faulty

    def faulty(self, index: int) -> Faulty | None:
        """What of the present gradient of parameter *index* came through faulty nodes; None where nothing did."""
        return self._faulty.get(index)

    def _is_faulty(self, node: Any, moment: Moment, by_hand: bool) -> bool:
        if hasattr(node, "variable"):
            return False
        if is_of_earlier_iteration(node.metadata, moment, by_hand=by_hand):
            return True
        self._changed.clear()
        for name in saved_names(type(node)):
            getattr(node, name, None)  # unpacking tells whether it was changed
        return any(storage in self._parameters.storages() for storage in self._changed)

    def _part(
        self, bound: inspect.BoundArguments, leaves: list[torch.Tensor], closed: list[tuple[Any, int]]
    ) -> dict[torch.Tensor, torch.Tensor]:
        """The gradients of the pass when nothing goes through the edges *closed* (node, position of its input)."""
        positions: dict[Any, set[int]] = {}
        for node, position in closed:
            positions.setdefault(node, set()).add(position)
        handles = [node.register_hook(closing(at)) for node, at in positions.items()]
        try:
            with torch.enable_grad():
                gradients = self._grad(
                    bound.arguments["tensors"],
                    leaves,
                    grad_outputs=bound.arguments.get("grad_tensors"),
                    retain_graph=True,
                    allow_unused=True,
                )
        finally:
            for handle in handles:
                handle.remove()
        return {leaf: g.detach() for leaf, g in zip(leaves, gradients, strict=True) if g is not None}


def closing(positions: set[int]) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """A hook of a node that passes zeros on to the inputs at *positions*."""

    def close(inputs: tuple[torch.Tensor | None, ...], _: Any) -> tuple[torch.Tensor | None, ...]:
        return tuple(
            torch.zeros_like(gradient) if at in positions and gradient is not None else gradient
            for at, gradient in enumerate(inputs)
        )

    return close


def clone(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return gradient.detach().clone() if gradient is not None else None


def part_of(gradients: dict[torch.Tensor, torch.Tensor], leaf: torch.Tensor) -> torch.Tensor:
    return gradients[leaf] if leaf in gradients else torch.zeros_like(leaf)


_names: dict[type, tuple[str, ...]] = {}


def saved_names(kind: type) -> tuple[str, ...]:
    """The attributes under which nodes of this type show the tensors that they saved."""
    if kind not in _names:
        raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        _names[kind] = tuple(name.removeprefix("_raw") for name in raw if name != "_raw_saved_tensors")
        if "_raw_saved_tensors" in raw:  # a function written in Python
            _names[kind] += ("saved_tensors",)
    return _names[kind]
