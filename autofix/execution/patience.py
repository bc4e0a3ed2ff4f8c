"""Limits of the wait for a run: its time, and its share of the machine meanwhile, processes and room on the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_TASKS = 1200
"""Processes and threads that may come up on the machine before a run is taken for one that starts them without end."""
MOST_DISK = 16 * 2**30
"""Bytes that the files of one run may take on the disk; half of the free room, where that is less."""
LOOK = 0.25
"""Seconds between two looks at a run."""


class Patience:
    """The wait for a run: short spells, until its time is up or it has filled the machine.

    *broken* says why a run cannot go on that does not end by itself; nothing for one that can.
    """

    def __init__(self, timeout: float, scratch: Path, broken: Callable[[], str] = str) -> None:
        self._until = time.monotonic() + timeout
        self._tasks = tasks()
        self._disk = Disk(scratch)
        self._broken = broken
        self.is_over = False
        """Whether the time is up."""
        self.excess = ""
        """Message on a run that was ended before its time, with the reason; empty for any other."""

    def __iter__(self) -> Iterator[float]:
        while (left := self._until - time.monotonic()) > 0:
            if tasks() > self._tasks + MOST_TASKS:
                self.excess = f"\n[ended: it has started more than {MOST_TASKS} processes]\n"
                return
            if reason := self._broken():
                self.excess = f"\n[ended: {reason}]\n"
                return
            if self._disk.is_filled():
                self.excess = f"\n[ended: its files take more than {self._disk.most / 2**30:.1f} GiB]\n"
                return
            yield min(left, LOOK)
        self.is_over = True


class Disk:
    """The room that a run's files take.  They are counted only when the disk has lost as much as they may take."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._free = free(scratch)
        self.most = min(MOST_DISK, self._free // 2)
        """Bytes that they may take: a run fills no disk, however small it is."""

    def is_filled(self) -> bool:
        now = free(self._scratch)
        if self._free - now < self.most:
            return False
        taken = used(self._scratch)
        self._free = now + taken  # the rest was taken by others
        return taken > self.most


def free(folder: Path) -> int:
    """The bytes that are free on the disk of *folder*; 0 where that is not known."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def used(folder: Path) -> int:
    """The bytes that the files below *folder* take on the disk, links not followed."""
    total = 0
    pending = [os.fspath(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        known = entry.stat(follow_symlinks=False)
                        total += getattr(known, "st_blocks", known.st_size // 512) * 512
    return total


def tasks() -> int:
    """Number of processes and threads on this machine; 0 where that is not known."""
    try:
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
