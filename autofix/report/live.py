"""One line on the run in progress, its stage and its time, while a person watches."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from autofix.progress import Watcher

if TYPE_CHECKING:
    from autofix.repair import Repair

TAIL = 1 << 16
"""Bytes at the end of a record among which the last step is looked for."""
EVERY = 0.25
"""Seconds between two looks."""
_STEP = re.compile(rb'"event": "step", "at": [\d.]+, "number": (\d+)')


class Report(Watcher["Repair"]):
    """Hands causes to *tell* once they are found, and keeps a line up to date on a terminal."""

    def __init__(self, tell: Callable[[Repair, bool], None], *, live: bool, echo: bool) -> None:
        self._tell = tell
        self._live = live
        self.echo = echo
        self._runs = 0
        self._planned = 0

    def expect(self, runs: int) -> None:
        self._planned = self._runs + runs

    def found(self, repair: Repair, *, by_run: bool) -> None:
        self._tell(repair, by_run)

    def head(self, label: str) -> str:
        """Number of the run in progress, of at most how many, and its label."""
        of = f" of at most {self._planned}" if self._planned >= self._runs else ""
        return f"run {self._runs}{of}: {label}"

    @contextmanager
    def run(self, label: str, record: BinaryIO) -> Iterator[None]:
        """Show the line while the run is on."""
        self._runs += 1
        if not self._live:
            yield
            return
        from rich.console import Console

        head, began, over = self.head(label), time.monotonic(), threading.Event()
        with Console(stderr=True).status(head) as status:

            def follow() -> None:
                while not over.wait(EVERY):
                    status.update(f"{head}, {stage(record)}, {time.monotonic() - began:.0f} s")

            thread = threading.Thread(target=follow, daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()


def stage(record: BinaryIO) -> str:
    """Stage of a run, by its record: loading, training, or the last optimizer step."""
    size = os.fstat(record.fileno()).st_size
    text = os.pread(record.fileno(), TAIL, max(0, size - TAIL))
    if steps := _STEP.findall(text):
        return f"step {int(steps[-1])}"
    return "training" if b'"event": "pass"' in text else "loading"
