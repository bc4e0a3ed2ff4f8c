"""A mode that is called in the place of every call of torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from torch.overrides import TorchFunctionMode


class CallMode(TorchFunctionMode):
    """From ``enter`` to the end of the process, each call of torch goes through ``call``."""

    def enter(self) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    @abstractmethod
    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what ``func(*args, **kwargs)`` is to return."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.call(func, args, kwargs or {})
