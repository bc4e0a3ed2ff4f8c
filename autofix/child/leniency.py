"""Lets a reference run get past errors that no kept graph avoids, by repeating a call as its author meant it.

- A leaf that requires grad is changed in place: an update of weights or an initialisation, so it happens without grad.
- A tensor with a graph is handed to numpy or copied deeply: only its values are wanted.
- ``loss.data[0]`` and ``Variable(x, volatile=True)`` have their meaning from before PyTorch 0.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .calls import CallMode

LEAF = "leaf Variable that requires grad"
ESCAPES = ("Can't call numpy() on Tensor that requires grad", "Only Tensors created explicitly by the user")


class Lenient(CallMode):
    """Repeats a call that failed in the way that was meant."""

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            message = str(error)
            if LEAF in message:
                with torch.no_grad():
                    return func(*args, **kwargs)
            if any(piece in message for piece in ESCAPES) and args and isinstance(args[0], torch.Tensor):
                return func(args[0].detach(), *args[1:], **kwargs)
            raise


def be_lenient() -> None:
    """Repeat failing calls as they were meant, from now on."""
    Lenient().enter()
    index = torch.Tensor.__getitem__

    def getitem(self: torch.Tensor, key: Any) -> Any:
        return self if isinstance(key, int) and key == 0 and self.dim() == 0 else index(self, key)

    torch.Tensor.__getitem__ = getitem  # type: ignore[method-assign, assignment]
    torch.autograd.Variable = old_variable_of(torch.autograd.Variable)  # type: ignore[misc]


def old_variable_of(variable: Any) -> Any:
    """``Variable`` as it was before PyTorch 0.4; a type still, of which every tensor is an instance."""

    class OldVariable(variable):  # type: ignore[misc]
        def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
            return data.detach() if volatile else variable(data, requires_grad)

    OldVariable.__name__ = OldVariable.__qualname__ = "Variable"
    return OldVariable
