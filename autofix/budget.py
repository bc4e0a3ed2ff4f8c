"""The time that one file may take: a file that takes more is given up, and the others go on.

Computing time is counted rather than time on the clock, so that a machine at work on other things gives up no file.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 120.0
"""Seconds of computing allowed for one file; the slowest of the project's own files takes a few."""
AGAIN = 10.0
"""Seconds until :class:`Spent` is raised again where the block has not ended: a destructor may have swallowed it."""


spent = 0
"""Number of times that a file's time has run out: the outcome for such a file depends on the machine's speed."""


class Spent(BaseException):
    """The time for a file is over.  No :class:`Exception`, so that nothing on the way takes it for a failure."""


@contextmanager
def bounded(seconds: float | None = None) -> Iterator[None]:
    """Raise :class:`Spent` within the block after so many *seconds* of computing, :data:`SECONDS` by default.

    Without effect where the system has no such timer, in threads but the main one, and within another such block.
    """
    seconds = SECONDS if seconds is None else seconds
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
        or signal.getitimer(signal.ITIMER_PROF)[0] > 0
    ):
        yield
        return
    is_over = False

    def ring(_signal: int, _frame: FrameType | None) -> None:
        global spent
        if not is_over:
            spent += 1
            raise Spent

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
