"""Lets a reference run keep the graphs that the statements cut which a patch by hand rewrites.

A loss without any graph has no gradients to compare a patch with.  The values on which a cut was meant are not known;
but the patch tells where it was not: in the statements that it rewrites, and in contexts and decorators that it takes
statements out of.  There

- ``detach``, ``detach_`` and ``data`` give the tensor with its graph, and ``item`` gives one of no dimensions;
- ``torch.tensor`` and ``torch.as_tensor`` of tensors with graphs give a stack of them, and of the very array or list
  that a tensor gave, as ``torch.from_numpy`` does, this tensor;
- ``no_grad``, ``set_grad_enabled(False)`` and ``inference_mode`` record as ever.

What has a graph now may be handed to NumPy anywhere: no tensor refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from .calls import CallMode
from .job import Watched
from .stage import user_place

DATA = vars(torch._C.TensorBase)["data"].__get__
DETACHING = (torch.Tensor.detach, torch.detach, DATA)
MAKING = (torch.tensor, torch.as_tensor)
FROM_NUMPY = torch.from_numpy
TAKING = (torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.tolist)


class Rewritten:
    """The statements that a patch rewrites.  *root* is the folder of the user's files."""

    def __init__(self, root: str, watched: Iterable[Watched]) -> None:
        self._root = root
        self._spans = {one.file: one.rewritten for one in watched}

    def runs(self) -> bool:
        """Whether the innermost user frame runs one of them."""
        file, line = user_place(self._root)
        return line is not None and any(first <= line <= last for first, last in self._spans.get(file, ()))


class Attached(CallMode):
    """Gives what a call in a rewritten statement takes off its graph with its graph."""

    def __init__(self, rewritten: Rewritten) -> None:
        super().__init__()
        self._rewritten = rewritten
        self._taken: dict[int, tuple[object, torch.Tensor]] = {}
        """The arrays and lists that tensors with graphs gave, which are kept so that no other object gets their id."""

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in TAKING and args[0].requires_grad:
            taken = func(args[0].detach(), *args[1:], **kwargs)
            if self._rewritten.runs():
                self._taken[id(taken)] = taken, args[0]
            return taken
        if func in DETACHING and self._rewritten.runs():
            return args[0].view_as(args[0])
        if func is torch.Tensor.detach_ and self._rewritten.runs():
            return args[0]
        if func is torch.Tensor.item and args[0].requires_grad and self._rewritten.runs():
            return args[0].reshape(())
        if func in MAKING and args and self._rewritten.runs() and has_graph(data := self._before_it_was_taken(args[0])):
            made = stacked(data)
            return made.to(dtype=kwargs.get("dtype") or made.dtype, device=kwargs.get("device") or made.device)
        return func(*args, **kwargs)

    def from_numpy(self, array: Any) -> torch.Tensor:
        """``torch.from_numpy``, which no mode sees."""
        return torch.as_tensor(array) if id(array) in self._taken else FROM_NUMPY(array)

    def _before_it_was_taken(self, data: Any) -> Any:
        """*data*, with tensors in the place of the arrays and lists that they gave."""
        if (found := self._taken.get(id(data))) is not None:
            return found[1]
        return [self._before_it_was_taken(one) for one in data] if isinstance(data, (list, tuple)) else data


def has_graph(data: Any) -> bool:
    """Whether *data* is a tensor that requires grad, or nested sequences with one."""
    if isinstance(data, torch.Tensor):
        return data.requires_grad
    return isinstance(data, (list, tuple)) and any(map(has_graph, data))


def stacked(data: Any) -> torch.Tensor:
    """Nested sequences of numbers and tensors as one tensor, with the graphs of all of them."""
    if isinstance(data, torch.Tensor):
        return data.clone()
    if isinstance(data, (list, tuple)):
        return torch.stack([stacked(one) for one in data])
    return torch.tensor(data)


def keep_attached(root: str, watched: Iterable[Watched]) -> None:
    """Keep the graphs that rewritten statements cut, from now on."""
    rewritten = Rewritten(root, watched)
    mode = Attached(rewritten)
    mode.enter()
    torch.from_numpy = mode.from_numpy  # type: ignore[assignment]
    for name in ("no_grad", "inference_mode", "set_grad_enabled"):
        kind = recording(getattr(torch, name), rewritten)
        setattr(torch, name, kind)
        setattr(torch.autograd, name, kind)


def recording(kind: Any, rewritten: Rewritten) -> Any:
    """The context manager or decorator *kind*, but one that records where a rewritten statement makes it."""

    def made(*args: Any, **kwargs: Any) -> Any:
        if not rewritten.runs():
            return kind(*args, **kwargs)
        function = args[0] if args and callable(args[0]) else None
        return torch.enable_grad() if function is None else function

    return made
