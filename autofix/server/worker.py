"""The process that analyses, beside the one that talks to the editor: it can be interrupted, and it may die."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType

from autofix.server.reports import Done, Report, Request
from autofix.spreading import end_with_parent

INTERRUPT = getattr(signal, "SIGUSR1", None)
"""Tells the process to give up a request; where the system has no such signal, the process is ended instead."""


class Stale(BaseException):
    """The request that is being answered has been overtaken.  No :class:`Exception`: nothing takes it for a failure."""


def serve(connection: Connection, folder: str) -> None:
    """Answer requests until the other end is closed.  Runs in a process of its own, in the folder of the workspace."""
    end_with_parent()
    with suppress(OSError):
        os.chdir(folder)
    state = _State()
    if INTERRUPT is not None:
        signal.signal(INTERRUPT, state.give_up)
    from autofix.server.analysis import Analyst, load

    load()
    analyst = Analyst()
    while True:
        try:
            request: Request = connection.recv()
        except (EOFError, OSError):
            return
        state.is_stale = False
        for report in state.interruptible(analyst.reports(request)):
            connection.send(report)
        connection.send(Done(request.serial))


class _State:
    """Whether the request at hand has been overtaken, and whether it may be interrupted just now."""

    def __init__(self) -> None:
        self.is_stale = False
        self._is_computing = False

    def give_up(self, _signal: int, _frame: FrameType | None) -> None:
        self.is_stale = True
        if self._is_computing:
            raise Stale

    def interruptible(self, reports: Iterator[Report]) -> Iterator[Report]:
        """Yield *reports* until there are no more, or the request is overtaken.

        Clean-up code of a library may turn an interrupt into an error of its own: the failing request is given up then.
        """
        while not self.is_stale:
            report: Report | None = None
            try:
                self._is_computing = True
                report = next(reports, None)
                self._is_computing = False
            except Stale:
                self._is_computing = False
            except Exception:
                self._is_computing = False
                if not self.is_stale:
                    traceback.print_exc()  # a bug, for the editor's log; the next request is answered all the same
            if report is None or self.is_stale:
                return
            yield report


class Worker:
    """Starts the process, hands it requests, and starts it anew where it has died.

    *told* and *died* are called in a thread of their own: with each report, with :class:`Done` after the last one of
    a request, also of one that was given up; and with the exit code of a process that died.
    """

    def __init__(self, folder: str, told: Callable[[Report | Done], None], died: Callable[[int], None]) -> None:
        self._folder = folder
        self._told = told
        self._died = died
        self._context = get_context("spawn")
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the process; importing goes on while the editor sends its first documents."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=serve, args=(theirs, self._folder), name="autofix-analysis", daemon=True)
        process.start()
        theirs.close()
        self._process, self._connection = process, ours
        threading.Thread(target=self._listen, args=(process, ours), daemon=True).start()

    def send(self, request: Request) -> None:
        """Hand a request to the process, which must have answered the one before."""
        if self._process is None or not self._process.is_alive():
            self.start()
        assert self._connection is not None
        with suppress(OSError):  # it has just died, which the listening thread reports
            self._connection.send(request)

    def interrupt(self) -> None:
        """Have the request at hand given up; :class:`Done` follows."""
        process = self._process
        if process is None or process.pid is None or not process.is_alive():
            return
        if INTERRUPT is None:
            process.terminate()
            return
        with suppress(OSError):
            os.kill(process.pid, INTERRUPT)

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        if self._process is not None and self._process.is_alive():
            self._process.terminate()

    def _listen(self, process: BaseProcess, connection: Connection) -> None:
        while True:
            try:
                answer = connection.recv()
            except (EOFError, OSError):
                break
            self._told(answer)
        process.join()
        if not self._is_closed:
            self._died(process.exitcode or 0)
