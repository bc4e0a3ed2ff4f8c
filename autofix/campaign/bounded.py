"""Run one command within bounds of time and memory, as a group of processes that ends as a whole."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from autofix.execution.guard import MARK, end_marked
from autofix.execution.guardian import guarded_folder, new_mark
from autofix.execution.launch import kill_group

LOOK = 0.1
"""Seconds between two looks at whether the command has ended; its memory is measured at every second look, at most."""
LARGEST_OUTPUT = 256 * 2**20
TAIL = 4096
"""Bytes of the messages that are kept."""

STOP = threading.Event()
"""Set when the campaign is interrupted: every command ends."""


@dataclass(frozen=True)
class Ended:
    """End of a command: its exit code, time, memory and output."""

    code: int
    """Its exit code, negative for the signal that killed it."""
    seconds: float
    memory: int
    """The most bytes that its processes held together, as seen."""
    exceeded: str = ""
    """The bound that it was ended for: ``time``, ``memory``, ``output``; ``stop`` for an interrupt."""
    output: bytes = b""
    messages: str = ""
    """The end of its standard error."""

    @property
    def is_killed(self) -> bool:
        """Whether somebody else has killed it: the kernel for want of memory, say."""
        return not self.exceeded and self.code < 0


def bounded(
    command: Sequence[str], folder: Path, seconds: float, memory: int, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run *command* in *folder* for at most *seconds*, with at most *memory* bytes (0: no limit).

    Raises :class:`OSError` where it cannot be started.
    """
    mark = new_mark()
    with (
        guarded_folder("campaign") as scratch,
        open(scratch / "output", "w+b") as output,
        open(scratch / "messages", "w+b") as messages,
    ):
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {}), MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            start_new_session=True,
        )
        try:
            exceeded, peak = _watch(process, began + seconds, memory, Path(output.name))
        finally:
            kill_group(process.pid)
            process.wait()
            end_marked(mark)  # processes that have left the group
        took = time.monotonic() - began
        output.seek(0)
        size = messages.seek(0, os.SEEK_END)
        messages.seek(max(0, size - TAIL))
        text = messages.read().decode(errors="replace")
        return Ended(process.returncode, took, peak, exceeded, output.read(LARGEST_OUTPUT), text)


def _watch(process: subprocess.Popen[bytes], until: float, memory: int, output: Path) -> tuple[str, int]:
    """Wait until *process* ends or exceeds a bound; return the name of the bound, and the most memory that was seen."""
    peak, pause = 0, LOOK / 10
    while True:
        began = time.monotonic()
        peak = max(peak, memory_of(process.pid))
        measured = time.monotonic() - began
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(pause, measured))  # measuring takes half of a processor at most
            return "", peak
        pause = min(LOOK, 2 * pause)
        if STOP.is_set():
            return "stop", peak
        if time.monotonic() > until:
            return "time", peak
        if memory and peak > memory:
            return "memory", peak
        if output.stat().st_size > LARGEST_OUTPUT:
            return "output", peak


def memory_of(leader: int) -> int:
    """The bytes that a process and its descendants hold: shared memory is counted once where the system tells it."""
    try:
        process = psutil.Process(leader)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(map(_held, family))


def _held(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss if psutil.LINUX else process.memory_info().rss)
    except psutil.Error:  # it has ended
        return 0
