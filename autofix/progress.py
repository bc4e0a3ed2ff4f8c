"""What a person who waits is told of the runs that a repair makes: nothing by default, see ``report/live.py``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from autofix.repair import Repair


class Watcher:
    """Hears of a repair as it goes on.  This one keeps it to itself."""

    echo = False
    """Whether the output of the script as it is goes to standard error as it comes."""

    def run(self, label: str, record: BinaryIO) -> AbstractContextManager[object]:
        """Around one run, which *label* describes; its record grows meanwhile."""
        return nullcontext()

    def expect(self, runs: int) -> None:
        """So many more runs are made, if all that is planned turns out to be needed."""

    def found(self, repair: Repair, *, by_run: bool) -> None:
        """The cause is known, and no patch has been tried yet: from the source, or from a run."""


SILENT = Watcher()
