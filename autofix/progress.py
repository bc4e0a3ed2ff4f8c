"""Messages to a person who waits for the runs of a repair: none by default, see ``report/live.py``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, Generic, TypeVar

R = TypeVar("R", contravariant=True)


class Watcher(Generic[R]):
    """Observer of a repair, of type ``R``, as it goes on.  This one shows nothing."""

    echo = False
    """Whether the output of the script as it is goes to standard error as it comes."""

    def run(self, label: str, record: BinaryIO) -> AbstractContextManager[object]:
        """Context manager for one run, which *label* describes; *record* grows meanwhile."""
        return nullcontext()

    def expect(self, runs: int) -> None:
        """Take note that *runs* more runs are made, if all planned ones turn out to be needed."""

    def found(self, repair: R, *, by_run: bool) -> None:
        """Take note of the cause, before any patch has been tried: it is known from the source, or *by_run*."""


SILENT: Watcher[Any] = Watcher()
