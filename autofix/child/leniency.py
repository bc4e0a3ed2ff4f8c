"""Lets a reference run get past errors that no kept graph avoids, by repeating a call as its author meant it.

- A leaf that requires grad is changed in place: an update of weights or an initialisation, so it happens without grad.
- A tensor with a graph is handed to numpy or copied deeply: only its values are wanted.
- A part of a tensor, as ``unbind`` gives it, is changed in place, which autograd refuses: a new tensor takes its place.
- A result with a graph is written into ``out=``: it is computed, and copied there.
- An optimizer is given the result of an operation: that tensor is what is to be trained, so it becomes a leaf.
- The gradient of a tensor that is no leaf, which no pass keeps, is asked for: it is computed when it is asked for.
- Tensors made in inference mode are normal ones, made without a graph.
- ``loss.data[0]`` and ``Variable(x, volatile=True)`` have their meaning from before PyTorch 0.4.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer
from torch.utils.hooks import RemovableHandle

from .calls import CallMode

GRADIENT = vars(torch._C.TensorBase)["grad"].__get__
LEAF = "leaf Variable that requires grad"
PART = "is a view and is being modified inplace"
UNRECORDED = "A view was created in no_grad mode and is being modified inplace"
FLAG = "subgraph that doesn't require differentiation"
LEAVES = "change requires_grad flags of leaf variables"
HOOKS = ("on a tensor that doesn't require gradient", "on Tensor that has requires_grad=False")
WHOLE = "Tensors of floating point"
OUT = "don't support automatic differentiation, but one of the arguments requires grad"
ESCAPES = ("Can't call numpy() on Tensor that requires grad", "Only Tensors created explicitly by the user")


class Lenient(CallMode):
    """Repeats a call that failed in the way that was meant."""

    def __init__(
        self,
        gradient_of: Callable[[torch.Tensor], torch.Tensor | None],
        on_read: Callable[[torch.Tensor, str], None],
    ) -> None:
        super().__init__()
        self._gradient_of = gradient_of
        self._on_read = on_read

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func == GRADIENT:
            if not (args[0].is_leaf or args[0].retains_grad):
                return self._gradient_of(args[0])
            self._on_read(args[0], sys._getframe(2).f_code.co_filename)
        try:
            return func(*args, **kwargs)
        except IndexError:
            if func is torch.Tensor.__getitem__ and args[0].dim() == 0 and isinstance(args[1], int) and args[1] == 0:
                return args[0]
            raise
        except RuntimeError as error:
            message = str(error)
            if LEAF in message or (UNRECORDED in message and args and is_of_leaf(args[0])):
                with torch.no_grad():
                    return func(*args, **kwargs)
            if any(piece in message for piece in ESCAPES) and args and isinstance(args[0], torch.Tensor):
                return func(args[0].detach(), *args[1:], **kwargs)
            if (PART in message or UNRECORDED in message) and args and isinstance(args[0], torch.Tensor):
                return on_its_own(func, args, kwargs)
            if FLAG in message:
                return detached(args[0])
            if LEAVES in message:
                return a_leaf_or_kept(args[0])
            if any(piece in message for piece in HOOKS):
                return hooked(func, args, kwargs)
            if WHOLE in message and ("requires_grad" in kwargs or (args and isinstance(args[0], torch.Tensor))):
                return with_floats(func, args, kwargs)
            if OUT in message and isinstance(kwargs.get("out"), torch.Tensor):
                return written(kwargs["out"], func(*args, **{n: value for n, value in kwargs.items() if n != "out"}))
            raise


def exchange(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Let all who hold *tensor* hold *other* from now on."""
    torch.utils.swap_tensors(tensor, other)  # type: ignore[no-untyped-call]


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, without its graph for all who hold it."""
    if tensor._base is None:
        return tensor.detach_()
    exchange(tensor, tensor.detach())
    return tensor


def a_leaf_or_kept(tensor: torch.Tensor) -> None:
    """Let a result that is told to require grad be a leaf; one that is computed of parameters keeps its gradient."""
    pending, seen = [tensor.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(getattr(node, "variable", None), torch.nn.Parameter):
            tensor.retain_grad()
            return
        pending.extend(one for one, _ in node.next_functions)
    detached(tensor).requires_grad_()


def hooked(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Give data a hook as a leaf; under ``no_grad``, where no gradient will come, give none."""
    if not torch.is_grad_enabled():
        return RemovableHandle(OrderedDict())
    args[0].requires_grad_()
    return func(*args, **kwargs)


def with_floats(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Repeat a call that lets whole numbers require grad, with floats in their place."""
    if "requires_grad" in kwargs and func is not torch.Tensor.requires_grad_:
        return func(*args, **{**kwargs, "dtype": torch.float32})
    exchange(args[0], args[0].float())
    return func(*args, **kwargs)


def is_of_leaf(tensor: object) -> bool:
    """Whether it is a view of a leaf that requires grad."""
    base = tensor._base if isinstance(tensor, torch.Tensor) else None
    return base is not None and base.is_leaf and base.requires_grad


def on_its_own(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Change a tensor that is part of another in place, as a tensor of its own: the other stays as it is."""
    part, own = args[0], args[0].clone()
    result = func(own, *args[1:], **kwargs)
    exchange(part, own)
    return part if result is own else result


def written(out: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """*out* with the values and the graph of *result*: as a part of another tensor, or in its own place."""
    if out._base is not None:
        return out.copy_(result)
    exchange(out, result)
    return out


def be_lenient(
    gradient_of: Callable[[torch.Tensor], torch.Tensor | None], on_read: Callable[[torch.Tensor, str], None]
) -> None:
    """Repeat failing calls as they were meant, from now on.

    *gradient_of* computes the gradient of a tensor that is no leaf by the last pass; *on_read* is told of each leaf
    whose gradient is read, and of the file that reads it.
    """
    Lenient(gradient_of, on_read).enter()
    torch.autograd.Variable = old_variable_of(torch.autograd.Variable)  # type: ignore[misc]
    torch.inference_mode = torch.autograd.inference_mode = unrecorded  # type: ignore[misc, assignment]
    torch.nn.Parameter.__new__ = of_floats(torch.nn.Parameter.__new__)  # type: ignore[method-assign]
    Optimizer.add_param_group = of_leaves(Optimizer.add_param_group)  # type: ignore[method-assign]


def unrecorded(mode: Any = True) -> Any:
    """``inference_mode`` whose tensors can be used by a recorded computation."""
    if callable(mode):
        return torch.no_grad()(mode)
    return torch.no_grad() if mode else torch.enable_grad()


def of_leaves(add: Callable[..., None]) -> Callable[..., None]:
    """``add_param_group`` that makes leaves of tensors that are none."""

    @functools.wraps(add)
    def add_param_group(self: Optimizer, param_group: dict[str, Any]) -> None:
        given = param_group.get("params")
        for one in [given] if isinstance(given, torch.Tensor) else given if isinstance(given, (list, tuple)) else ():
            member = one[1] if isinstance(one, tuple) else one
            if isinstance(member, torch.Tensor) and not member.is_leaf and not member.retains_grad:
                exchange(member, member.detach().clone().requires_grad_())
        add(self, param_group)

    return add_param_group


def of_floats(new: Callable[..., Any]) -> Callable[..., Any]:
    """``Parameter`` that takes whole numbers for floats where they require grad."""

    @functools.wraps(new)
    def made(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        return new(cls, with_gradients(data) if requires_grad else data, requires_grad)

    return made


def with_gradients(data: Any) -> Any:
    """A tensor of numbers that can have gradients: floats for whole numbers."""
    whole = isinstance(data, torch.Tensor) and not (data.is_floating_point() or data.is_complex())
    return data.float() if whole else data


def old_variable_of(variable: Any) -> Any:
    """``Variable`` as it was before PyTorch 0.4; a type still, of which every tensor is an instance."""

    class OldVariable(variable):  # type: ignore[misc]
        def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
            if volatile:
                return data.detach()
            return variable(with_gradients(data) if requires_grad else data, requires_grad)

    OldVariable.__name__ = OldVariable.__qualname__ = "Variable"
    return OldVariable
