"""Lets a script run with every parameter update left out, so that a patched script computes what its original does.

Where parameters stay as they are, nothing is stale: a value that is computed anew equals the replaced value bit for
bit, and so does a value that is detached from its graph.  So two versions of one training must then send back equal
losses at every step, however they are arranged.  Left out are the steps of optimizers, of which only the closure is
called, and a script's updates of its parameters by hand once a pass has been made: under ``no_grad``, by ``.data``, or
by assigning to it.

Some things show only where parameters move: an average that is no longer updated, a term that is zero at the start.
Then each step moves its parameters in a prescribed way (``course.py``).

In the original a pass may find no graph (the mistake to be repaired).  It is left out, too, and ones stand in for the
gradients that it would have given, to show how the script changes gradients before each step.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer

from .calls import CallMode
from .kept import Kept
from .parameters import Parameters, has_no_gradient

DATA = vars(torch._C.TensorBase)["data"]
KEEP_VALUES = frozenset({"requires_grad_", "detach_", "share_memory_"})
"""Methods that are named like changes in place, and change no values."""
OPERATORS = frozenset({"__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "pow"))})


class Frozen(CallMode):
    """Undoes updates of parameters by hand."""

    def __init__(self, parameters: Parameters, kept: Kept) -> None:
        super().__init__()
        self._parameters = parameters
        self._kept = kept
        self._left_out: dict[int, set[str]] = {}
        self._held: dict[int, weakref.ref[torch.Tensor]] = {}
        """The parameters by the addresses of their storages; none before the first pass: a script initialises them."""

    def hold(self) -> None:
        """Hold the parameters that are known by now at their values, once a pass has been made."""
        tensors = (tracked.tensor for tracked in self._parameters)
        self._held = {address(one): weakref.ref(one) for one in tensors if one is not None and one.requires_grad}

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._call(func, args, kwargs)
        self._kept.after_call(args, kwargs, result)
        return result

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if not self._held or not (writes(name) or name == "__set__" or "out" in kwargs):
            return func(*args, **kwargs)
        if name == "__set__":
            if getattr(func, "__self__", None) is not DATA or not self._is_held(args[0]):
                return func(*args, **kwargs)
            self._note(args[0], "data", ())
            return None
        with torch.no_grad():
            kept = [(one, one.detach().clone()) for one in written(args, kwargs) if self._is_held(one)]
        result = func(*args, **kwargs)
        for one, values in kept:
            self._note(one, name, (*args[1:], *kwargs.values()))
            DATA.__get__(one).copy_(values)  # behind the version's back, as an update that is not made
        return result

    def _note(self, tensor: torch.Tensor, name: str, values: tuple[Any, ...]) -> None:
        known = self._held[address(tensor)]()
        tracked = self._parameters.find(known) if known is not None else None
        if tracked is not None:
            numbers = [f"{value:.4g}" for value in values if isinstance(value, (int, float))]
            self._left_out.setdefault(tracked.index, set()).add(f"{name}({', '.join(numbers)})")

    def left_out(self) -> dict[int, frozenset[str]]:
        """The updates by hand that were left out since the last call, by the parameter's index."""
        found = {index: frozenset(calls) for index, calls in self._left_out.items()}
        self._left_out.clear()
        return found

    def _is_held(self, tensor: torch.Tensor) -> bool:
        if tensor.requires_grad and not tensor.is_leaf:
            return False  # computed: it lies elsewhere, or the call will fail
        place = address(tensor)
        known = self._held.get(place)
        parameter = known() if known is not None else None
        return parameter is not None and address(parameter) == place != 0


def writes(name: str) -> bool:
    """Whether a call of this name changes its first argument."""
    return (name.endswith("_") and not name.endswith("__") and name not in KEEP_VALUES) or name in OPERATORS


def written(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that a call changes: its first argument, or the list that it is, and ``out``."""
    for value in (*args[:1], kwargs.get("out")):
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, torch.Tensor):
                yield one


def address(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def leave_out(step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the closure of an optimizer's *step*, but make no step; return the loss, or None without a closure."""
    closure = args[0] if args else kwargs.get("closure")
    if not callable(closure):
        return None
    with torch.enable_grad():
        return closure()


def stand_in(bound: inspect.BoundArguments, optimizers: Iterable[Optimizer]) -> Any:
    """Gradients in place of a pass without a graph: zeros for ``grad``; for ``backward``, ones where there are none."""
    inputs = bound.arguments.get("inputs")
    if "outputs" in bound.arguments:
        asked = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs or ())
        return tuple(torch.zeros_like(one) for one in asked)
    members = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    for one in members:
        if one.requires_grad and has_no_gradient(one):
            one.grad = torch.ones_like(one)
    return None


class SameCalls:
    """Lets every call of a module draw the same random numbers, and leave the module's buffers as they were.

    So a module that is called once more, as a patch may do, computes its earlier result again: dropout draws alike, and
    a spectral norm does not come nearer to its limit.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._depth = 0
        self._outside: torch.Tensor | None = None
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def install(self) -> None:
        register_module_forward_pre_hook(self._enter)
        register_module_forward_hook(self._leave, always_call=True)

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._outside = torch.get_rng_state()
            torch.manual_seed(self._seed)
            self._buffers = [(one, one.detach().clone()) for one in module.buffers()]

    def _leave(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._outside is not None:
            torch.set_rng_state(self._outside)
            for buffer, values in self._buffers:
                DATA.__get__(buffer).copy_(values)
            self._buffers = []
