"""Knows the tensors that a script trains: their names, their values, and how far they have moved."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import sys
import types
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from .events import Events
from .recorded import Parameter
from .stage import is_user_file

MOST = 20_000
"""Tensors that are tracked.  Scripts that make new leaves at every step would fill the record."""
LARGE = 2**16
"""Elements from which double precision would cost more than it tells."""
SCANS = 8
"""Most searches of modules for names: a search looks at every live object."""


class Tracked:
    """One tensor: a member of an optimizer, or a leaf that a backward pass has reached."""

    def __init__(self, index: int, key: str, tensor: torch.Tensor, in_optimizer: bool) -> None:
        self.index = index
        self.key = key
        self.in_optimizer = in_optimizer
        self.stepped = False
        """Whether an optimizer that has it has made a step: then steps tell how it moves."""
        # It must not be kept alive: a leaf of the script's own may be a batch.
        self._reference = weakref.ref(tensor)

    @property
    def tensor(self) -> torch.Tensor | None:
        return self._reference()

    @property
    def needs_grad(self) -> bool:
        return (tensor := self.tensor) is not None and tensor.requires_grad

    def rebind(self, tensor: torch.Tensor) -> None:
        """Follow a variable to its new tensor."""
        self._reference = weakref.ref(tensor)


class Parameters:
    """The table of tracked tensors.  Indices count from 0 in order of appearance, and ``key`` is alike in two runs."""

    def __init__(self, events: Events, root: str) -> None:
        self._events = events
        self._root = root
        self._by_id: dict[int, Tracked] = {}
        self._by_key: dict[str, Tracked] = {}
        self._names: dict[int, str] = {}
        self._scans = 0
        self._leaves = 0
        self._count = 0
        self._told: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Tracked]:
        return iter(tuple(self._by_key.values()))  # another thread may make a parameter

    def find(self, tensor: torch.Tensor) -> Tracked | None:
        tracked = self._by_id.get(id(tensor))
        return tracked if tracked is not None and tracked.tensor is tensor else None

    def storages(self) -> set[int]:
        """Memory addresses of the storages of the optimizers' members."""
        tensors = (tracked.tensor for tracked in self if tracked.in_optimizer)
        return {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor is not None}

    def add_group_member(self, tensor: torch.Tensor, optimizer: int, group: int, position: int) -> Tracked:
        """Track a parameter of an optimizer.  One that was first seen as a leaf is registered anew."""
        tracked = self.find(tensor)
        if tracked is not None:
            if tracked.in_optimizer:
                return tracked
            self._by_key.pop(tracked.key)
        return self._add(tensor, f"optimizer {optimizer}.{group}.{position}", self._name(tensor), optimizer)

    def add_leaf(self, tensor: torch.Tensor) -> Tracked | None:
        """Track a leaf outside of every optimizer: a weight that is updated by hand, an input, a frozen parameter.

        A variable that is bound to a new leaf at every step (``w = (w - lr * g).requires_grad_()``) stays one entry,
        by its name.
        """
        tracked = self.find(tensor)
        if tracked is not None or len(self._by_key) >= MOST:
            return tracked
        name = self._name(tensor)
        key = f"leaf {name}" if name else f"leaf {self._leaves}"
        self._leaves += 1
        known = self._by_key.get(key)
        if known is not None and not known.in_optimizer:
            known.rebind(tensor)
            self._by_id[id(tensor)] = known
            return known
        return self._add(tensor, key, name, None)

    def _add(self, tensor: torch.Tensor, key: str, name: str, optimizer: int | None) -> Tracked:
        tracked = Tracked(self._count, key, tensor, optimizer is not None)
        self._count += 1
        self._by_id[id(tensor)] = tracked
        self._by_key[key] = tracked
        self._events.write(Parameter(tracked.index, key, self._unique(name or key), tuple(tensor.shape), optimizer))
        return tracked

    def of_modules(self, places: Iterable[int]) -> set[int]:
        """The ids among *places* whose tensors a module holds, as far as names are known."""
        return {place for place in places if place in self._names}

    def _unique(self, name: str) -> str:
        """*name*, numbered if another tensor has it already: two networks may be of one type and have no variable."""
        self._told[name] += 1
        return name if self._told[name] == 1 else f"{name} ({self._told[name]})"

    def _name(self, tensor: torch.Tensor) -> str:
        """Name of *tensor* in the script: a module's attribute path or a variable; empty where it has no name."""
        if isinstance(tensor, torch.nn.Parameter):
            if id(tensor) not in self._names and self._scans < SCANS:
                self._scans += 1
                self._names.update(parameter_names(self._root))
            return self._names.get(id(tensor), "")
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if is_user_file(frame.f_code.co_filename, self._root):
                for variable, value in frame.f_locals.items():
                    if value is tensor:
                        return variable
            frame = frame.f_back
        return ""


def parameter_names(root: str) -> dict[int, str]:
    """``id`` of every live module's parameter to its path: ``net.fc1.weight``, or ``Net.fc1.weight``."""
    return {place: name for place, (name, _) in named_parameters(root).items()}


def named_parameters(root: str) -> dict[int, tuple[str, torch.nn.Parameter]]:
    """``id`` of every live module's parameter to its path and itself."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    variables = module_variables(root)
    found: dict[int, tuple[str, torch.nn.Parameter]] = {}
    for module in sorted(modules, key=lambda module: id(module) not in variables):
        if id(module) in children and id(module) not in variables:
            continue
        prefix = variables.get(id(module)) or type(module).__name__
        for path, parameter in module.named_parameters():
            found.setdefault(id(parameter), (f"{prefix}.{path}", parameter))
    return found


def module_variables(root: str) -> dict[int, str]:
    """``id`` of a module to its holder: a variable of the running frames, or an attribute of a variable's object."""
    scopes: list[Mapping[str, object]] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename, root):
            scopes.append(dict(frame.f_locals))
        frame = frame.f_back
    scopes.append(vars(sys.modules["__main__"]))
    variables = [(name, value) for scope in scopes for name, value in scope.items() if not name.startswith("__")]
    found: dict[int, str] = {}
    for name, value in variables:
        if isinstance(value, torch.nn.Module):
            found.setdefault(id(value), name)
    for name, value in variables:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and not isinstance(value, (torch.nn.Module, type, types.ModuleType)):
            for attribute, inner in attributes.items():
                if isinstance(inner, torch.nn.Module):
                    found.setdefault(id(inner), f"{name}.{attribute}")
    return found


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The values of *tensor* as a dense tensor on the CPU, without graph."""
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.coalesce()._values()
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu()


def norm(tensor: torch.Tensor) -> float:
    """The Euclidean norm; of small tensors in double precision, so that they give equal numbers in every layout."""
    values = dense(tensor)
    if values.numel() > LARGE:
        return float(torch.linalg.vector_norm(values))
    kind = torch.complex128 if values.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(values.to(kind)))


def has_no_gradient(tensor: torch.Tensor | None) -> bool:
    """Whether nothing was added to the gradient of *tensor* since it was set to zero."""
    gradient = tensor.grad if tensor is not None else None
    return gradient is None or not bool((gradient != 0).any())


def settings_of(group: dict[str, Any]) -> dict[str, float]:
    """The numbers that steer an optimizer's step for one group: the learning rate, the momentum, and so on."""
    return {
        name: float(value)
        for name, value in group.items()
        if isinstance(value, (int, float)) or (isinstance(value, torch.Tensor) and value.numel() == 1)
    }


def gradient_norms(members: list[tuple[int, torch.Tensor]]) -> dict[int, float]:
    """The norm of every gradient that is there; a parameter without one is left out."""
    return {index: norm(tensor.grad) for index, tensor in members if tensor.grad is not None}


def digest(tensor: torch.Tensor) -> str:
    """A fingerprint of the bits of *tensor*: equal bits, equal fingerprint."""
    values = dense(tensor).contiguous()
    size = values.numel() * values.element_size()
    data = (ctypes.c_char * size).from_address(values.data_ptr()) if size else b""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
