"""A mode that is called in the place of every call of torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from torch.overrides import TorchFunctionMode


class CallMode(TorchFunctionMode):
    """Mode in which each call of torch goes through ``call``, from ``enter`` to the end of the process."""

    def enter(self) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    @abstractmethod
    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result that the script gets for ``func(*args, **kwargs)``."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.call(func, args, kwargs or {})
