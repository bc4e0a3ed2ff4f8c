"""Tensors and arrays that a script keeps outside of its optimizers: averages of weights, target networks, queues.

No gradient tells of them.  A patch that leaves the update of an average out, or updates it at another rate, trains on
the very same losses for as long as anybody watches.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.nn.modules.batchnorm import _NormBase

from .graph import node_of
from .holders import OF_KERNEL, OPAQUE, namespaces
from .parameters import Parameters
from .recorded import MOST_KEPT

OBJECTS = 4_000
"""Objects that are looked into for them."""
DEPTH = 5
"""Attributes, and elements of containers, that are looked into one within the other."""
FIRST = 64
"""Elements of a list that are looked into."""
SAMPLE, WIDTH = 64, 8
"""Elements of a tensor that are looked at, and sums of them that are told."""
CLOSED = frozenset({"torch", "torchvision", "numpy", "builtins", "collections", "functools", *OF_KERNEL})
"""Packages whose objects hold no tensors of the user's, but for modules and containers."""


class Found(NamedTuple):
    """Tensors and arrays that the user's variables lead to at a step."""

    values: dict[str, tuple[float, ...]]
    """Some sums of the elements of each of them, by name."""
    carried: frozenset[str]
    """The names of those that are carried on."""
    arrays: frozenset[str]
    """The names of NumPy's arrays that are others than at the step before: nobody sees from what they were computed."""


class Kept:
    """Tells at each optimizer step which tensors the user's variables lead to, and which of them are carried on.

    Carried on is a tensor or an array that is the one of the step before, or a tensor that was computed from it without
    a graph.
    """

    def __init__(self, parameters: Parameters, root: str) -> None:
        self._parameters = parameters
        self._root = root
        self._before: dict[str, weakref.ref[Any]] = {}
        self._origins: dict[int, tuple[weakref.ref[torch.Tensor], frozenset[str]]] = {}
        """The ``id`` of a tensor to itself, and to the names whose values at the step before it was computed from."""

    def values(self) -> Found:
        """Look at the tensors and arrays at a step."""
        with torch._C.DisableTorchFunction():
            found = dict(self._found())
            values = {name: glance(one) for name, one in found.items()}
        loose = {name: one for name, one in found.items() if isinstance(one, torch.Tensor) and node_of(one) is None}
        arrays = {name: one for name, one in found.items() if not isinstance(one, torch.Tensor)}
        carried = frozenset(name for name, one in (loose | arrays).items() if self._is_carried(name, one))
        self._before = {name: weakref.ref(one) for name, one in (loose | arrays).items()}
        self._origins = {id(one): (weakref.ref(one), frozenset((name,))) for name, one in loose.items()}
        return Found(values, carried, frozenset(arrays) - carried)

    def _is_carried(self, name: str, value: Any) -> bool:
        before = self._before.get(name)
        return before is not None and (before() is value or name in self._names_in((value,)))

    def after_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Note that a call of torch has computed *result*."""
        if not self._origins:
            return
        names = self._names_in((*args, *kwargs.values()))
        if names:
            for one in result if isinstance(result, (list, tuple)) else (result,):
                if isinstance(one, torch.Tensor) and node_of(one) is None:
                    self._origins[id(one)] = weakref.ref(one), names

    def _names_in(self, values: Iterable[Any]) -> frozenset[str]:
        """The names from whose values at the step before one of *values* was computed."""
        found: frozenset[str] = frozenset()
        for value in values:
            for one in value if isinstance(value, (list, tuple)) else (value,):
                origin = self._origins.get(id(one))
                if origin is not None and origin[0]() is one:
                    found |= origin[1]
        return found

    def _found(self) -> Iterator[tuple[str, Any]]:
        """The tensors and arrays that are compared, by name."""
        seen, left, budget = set[int](), MOST_KEPT, [OBJECTS]
        for space, _, _ in namespaces(self._root):
            for key, value in list(space.items()):
                if key.startswith("__"):
                    continue
                for name, one in self._inside(key, value, seen, budget, DEPTH):
                    if not isinstance(one, torch.Tensor) or self._is_compared(one):
                        yield name, one
                        left -= 1
                        if not left:
                            return

    def _is_compared(self, tensor: torch.Tensor) -> bool:
        """Whether *tensor* holds numbers, and no optimizer has it."""
        known = self._parameters.find(tensor)
        plain = tensor.layout == torch.strided and tensor.device.type != "meta" and not tensor.is_quantized
        return plain and tensor.dtype.is_floating_point and not (known is not None and known.in_optimizer)

    def _inside(
        self, name: str, value: Any, seen: set[int], budget: list[int], depth: int
    ) -> Iterator[tuple[str, Any]]:
        """The tensors and arrays that *value* leads to, each under the first name that leads to it."""
        if id(value) in seen or budget[0] <= 0:
            return
        budget[0] -= 1
        if isinstance(value, torch.Tensor):
            seen.add(id(value))
            if value.numel():
                yield name, value
        elif is_array_of_numbers(value):
            seen.add(id(value))
            yield name, value
        elif depth and not isinstance(value, OPAQUE):
            seen.add(id(value))
            for key, inner in parts_of(value):
                yield from self._inside(f"{name}{key}", inner, seen, budget, depth - 1)


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The elements of a container, the attributes of an object of the user's, the tensors of a module."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", one) for key, one in list(value.items()) if isinstance(key, (str, int)))
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{number}]", value[number]) for number in range(min(len(value), FIRST)))
    elif isinstance(value, torch.nn.Module):
        for key, one in list(vars(value).items()):
            if key == "_buffers" and isinstance(value, _NormBase):
                continue  # what a batch norm is called with is compared instead
            if key in ("_parameters", "_buffers", "_modules"):
                yield from ((f".{part}", inner) for part, inner in list(one.items()))
            elif not key.startswith("_"):
                yield f".{key}", one
    elif type(value).__module__.partition(".")[0] not in CLOSED:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            yield from ((f".{key}", one) for key, one in list(attributes.items()) if isinstance(key, str))


def is_array_of_numbers(value: Any) -> bool:
    """Whether *value* is an array of NumPy that holds floating point numbers."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind == "f" and value.size > 0


def glance(values: Any) -> tuple[float, ...]:
    """Some sums of elements from all over a tensor or an array."""
    if isinstance(values, torch.Tensor):
        sample = _sampled(values.detach().reshape(-1), values.numel()).to("cpu", torch.float64)
    else:
        sample = torch.tensor(_sampled(values.reshape(-1), values.size).tolist(), dtype=torch.float64)
    if sample.numel() <= WIDTH:
        return tuple(sample.tolist())
    padded = torch.nn.functional.pad(sample, (0, -sample.numel() % WIDTH))
    return tuple(padded.view(WIDTH, -1).sum(1).tolist())


def _sampled(flat: Any, size: int) -> Any:
    return flat[:: max(1, size // SAMPLE)][:SAMPLE]
