"""A warm process: it imports torch once and forks one child for each run.

It talks over a socket that it inherits (the control channel).  Each request is the path of a job file, with two
descriptors attached: a socket for this run alone and the stream for the script's output.  On the run's socket the
server answers ``started PID`` and, when the child is gone, ``ended CODE``.  When the other end of a run's socket
closes, the run is killed and its scratch folder removed; when the control channel closes, all of them, and the server
ends.

The server runs no tensor operation: threads that torch starts for one would not survive the fork.  So every child
begins as a process that has imported torch and done nothing else, and no run sees another's state.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from .job import Request
from .keeper import adopt_orphans, end_children
from .session import end_with, run
from .wire import decode

WARM = ("torch", "torch.optim", "torch.utils.data", "torch._dynamo")
"""Modules that nearly every training script imports; torch loads the last one when the first optimizer is made."""


@dataclass
class Run:
    """One forked child, and the socket of the caller that waits for it."""

    process: int
    caller: socket.socket
    scratch: str


class Server:
    """The loop.  ``serve`` returns in the server when the control channel closes, and never in a child."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._runs: dict[int, Run] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, wake = socket.socketpair()
        self._wake.setblocking(False)
        wake.setblocking(False)
        self._wake_end = wake

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_end.fileno(), warn_on_full_buffer=False)
        adopt_orphans()
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                elif key.fileobj is self._control:
                    if not self._accept():
                        self._end_all()
                        return
                else:  # a caller that has nothing more to say has gone
                    self._kill(key.data)
            self._reap()

    def _accept(self) -> bool:
        """Take one request; False when the control channel is closed."""
        message, descriptors = receive(self._control)
        if not message:
            return False
        caller, output = socket.socket(fileno=descriptors[0]), descriptors[1]
        request = decode(Request, message.decode())
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            self._become_run(request, caller, output)
        os.close(output)
        record = Run(process, caller, request.scratch)
        self._runs[process] = record
        self._selector.register(caller, selectors.EVENT_READ, record)
        with contextlib.suppress(OSError):
            caller.sendall(f"started {process}\n".encode())
        return True

    def _become_run(self, request: Request, caller: socket.socket, output: int) -> NoReturn:
        """Turn this child into the run of the job: leave everything of the server behind, and never return."""
        parent = os.getppid()
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for run_ in self._runs.values():
                run_.caller.close()
            self._selector.close()
            for end in (self._control, self._wake, self._wake_end, caller):
                end.close()
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            os.environ.clear()
            os.environ.update(request.environment)
            os.chdir(request.folder)
            tempfile.tempdir = None
            forget_folder(request.folder)
            end_with(parent)
            run(request.job)
        except BaseException:  # a fault of ours, which nobody would hear of
            traceback.print_exc()
        finally:
            os._exit(1)

    def _kill(self, run_: Run) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(run_.process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(run_.process, signal.SIGKILL)  # it may not have made its group yet
        self._selector.unregister(run_.caller)
        run_.caller.close()

    def _reap(self) -> None:
        """Answer the callers whose children have ended, and end the processes that these left behind."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            run_ = self._runs.pop(process, None)
            if run_ is None:
                continue  # an orphan of a run
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process, signal.SIGKILL)
            if not self._runs:
                end_children()
            if run_.caller.fileno() < 0:
                shutil.rmtree(run_.scratch, ignore_errors=True)  # nobody else is left to do it
                continue
            self._selector.unregister(run_.caller)
            with contextlib.suppress(OSError):
                run_.caller.sendall(f"ended {os.waitstatus_to_exitcode(status)}\n".encode())
            run_.caller.close()

    def _end_all(self) -> None:
        """End all runs once the caller is gone, and remove their folders."""
        runs = list(self._runs.values())
        for run_ in runs:
            if run_.caller.fileno() >= 0:
                self._kill(run_)
        for run_ in runs:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(run_.process, 0)
        end_children()
        for run_ in runs:
            shutil.rmtree(run_.scratch, ignore_errors=True)


def main(descriptor: int, further: Sequence[str] = ()) -> NoReturn:
    """Serve requests that come in on the socket *descriptor*, with *further* modules imported."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    gc.disable()  # see session.py
    try:
        for module in (*WARM, *further):
            importlib.import_module(module)
    except ImportError:
        sys.exit(3)  # a fresh process will say what is missing
    own = ("reference", "probe", "trace", "device", "sandbox", "copies", "imports")
    for module in (*own, *(["kernel"] if further else [])):
        importlib.import_module(f".{module}", __package__)
    gc.collect()
    gc.enable()
    gc.freeze()  # children share these pages as long as nobody looks at them
    control.sendall(b"ready\n")
    Server(control).serve()
    os._exit(0)


def receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """One request with its descriptors: a line of JSON."""
    descriptors = array.array("i")
    data = b""
    while not data.endswith(b"\n"):
        chunk, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(2 * descriptors.itemsize))
        if not chunk:
            return b"", []
        data += chunk
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return data, list(descriptors)


def forget_folder(folder: str) -> None:
    """Let modules that noted the working directory when they were imported note the run's."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = folder  # type: ignore[attr-defined]
