"""Autograd's records of a run: the tape, the incidents, the grad mode, the state of leaves and the hooks."""

from __future__ import annotations

from typing import NamedTuple

from autofix.codemods.autograd.graph import Leaf, Storage
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.interpreter.state.incidents import Incidents
from autofix.codemods.interpreter.state.numbers import Numbers
from autofix.codemods.interpreter.values import Binding, Hook
from autofix.codemods.source.sources import Site


class Filled(NamedTuple):
    """What every element of a storage holds."""

    number: bool | int | float
    version: int
    """The version of the storage that holds it."""


class Recording:
    """The tape of a run and the modes that decide what is written on it."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.incidents = Incidents()
        self.grad = True
        self.guard: Site | None = None
        """The place that turned grad mode off, where it is off."""
        self.recorded = False
        """Whether an operation of a graph was recorded yet."""
        self.filled: dict[Storage, Filled] = {}
        """Storages that hold one number throughout."""
        self.data_of: dict[Storage, Storage] = {}
        """For the storages of ``x.data``, which count changes for themselves, the storage of ``x``."""
        self.retaining = False
        """Whether a branch is run that frees a graph which its other branch keeps: the order of both is not known."""
        self.packing = 0
        """Number of open blocks that pack what is saved, so that PyTorch does not ask whether it was changed since."""
        self.parametrizations: dict[tuple[int, str], Binding] | None = None
        """In a block of ``parametrize.cached()``: the parametrized tensors computed in it, by module and name."""
        self.misses = False
        """Whether a node was made of a value that had lost its graph."""
        self.evaluating: set[Leaf] = set()
        """Parameters of models in evaluation mode."""
        self.measured: set[int] = set()
        """Tensors of several elements that were asked for their shape, by identity."""
        self.goes_by_shape = False
        """Whether a condition depends on such a shape."""
        self.activity = 0
        """Rises with everything that a later pass could notice: values stored, nodes made, tensors changed."""
        self.leaf_numbers = Numbers()
        self.hooks: list[Hook] = []
        """Hooks of modules, in the order in which they were registered."""
        self.backward_hooks: list[Hook] = []
