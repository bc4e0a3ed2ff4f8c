"""Starts child processes: from a warm server that forks one for each run, or afresh where that cannot be."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autofix.child import keeper
from autofix.child.job import Job, Request
from autofix.child.wire import encode
from autofix.execution.guard import MARK, end_marked
from autofix.execution.guardian import new_mark
from autofix.execution.patience import Patience

CHILD = Path(__file__).parents[1] / "child"
HEAD = TAIL = 32 * 1024
"""Bytes of output that are kept from its beginning and from its end."""
KEEPING = 10.0
"""Seconds that a keeper may take to end the processes below it."""
START = 120.0
"""Seconds that an interpreter may take to import torch."""


@dataclass
class Output:
    """The beginning and the end of a stream's output, so that a script that prints without end costs nothing."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    lost: int = 0
    echo: bool = False

    def drain(self, descriptor: int) -> None:
        """Read until the stream ends, and close it."""
        with open(descriptor, "rb", buffering=0) as stream:
            while chunk := stream.read(65536):
                if self.echo:
                    os.write(2, chunk)
                room = HEAD - len(self.head)
                self.head += chunk[:room]
                self.tail += chunk[room:] if room > 0 else chunk
                if len(self.tail) > 2 * TAIL:
                    self.lost += len(self.tail) - TAIL
                    del self.tail[:-TAIL]

    def text(self) -> str:
        gap = f"\n[... {self.lost} bytes left out ...]\n".encode() if self.lost else b""
        return (bytes(self.head) + gap + bytes(self.tail)).decode(errors="replace")


@dataclass(frozen=True)
class Launch:
    """Run to be started: the job as the child reads it, its folders, and its environment."""

    python: str
    job: Job
    folder: Path
    """The working directory, inside ``scratch``."""
    scratch: Path
    """The run's folder, which the keeper or the warm server removes when the caller is killed."""
    environment: Mapping[str, str]
    timeout: float
    plain: Mapping[str, str] = field(default_factory=dict)
    """The environment without the parts of this run: the warm server is started with it, and serves other runs, too."""
    options: tuple[str, ...] = ()
    """Options of the interpreter."""
    echo: bool = False
    """Whether the output goes to standard error as it comes, too."""
    broken: Callable[[], str] = str
    """Reason why the run cannot go on although its process does; empty while it can."""


@dataclass(frozen=True)
class Ending:
    """End of a child: its output, the seconds that it took, and its exit code, or why it could not be started."""

    output: str
    seconds: float
    code: int | None
    timed_out: bool = False
    refused: str = ""


def launch(what: Launch, *, warm: bool) -> Ending:
    """Run one child to its end, or kill it when its time is up."""
    if warm and hasattr(os, "fork") and hasattr(socket, "send_fds"):
        server = server_for(what.python, what.plain, kernel=what.job.kernel is not None)
        ending = server.launch(what) if server is not None else None
        if ending is not None:
            return ending
    return launch_fresh(what)


def launch_fresh(what: Launch) -> Ending:
    """Start a new interpreter for one run, on Linux below a keeper, which ends processes that the run leaves behind."""
    job_file = what.scratch / "job.json"
    job_file.write_text(encode(replace(what.job, parent=os.getpid())), encoding="utf-8")
    mark = new_mark()
    began = time.monotonic()
    command = [what.python, *what.options, str(CHILD)]
    if sys.platform == "linux":
        words = [sys.executable, "-I", "-S", keeper.__file__, str(what.scratch), str(os.getpid()), *command]
    else:
        words = [*command, str(job_file)]
    reading, writing = os.pipe()
    output, reader = collect(reading, echo=what.echo)
    try:
        process = subprocess.Popen(
            words,
            cwd=what.folder,
            env={**what.environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
    except OSError as error:
        return Ending("", 0.0, None, refused=f"cannot start {what.python}: {error.strerror}")
    finally:
        os.close(writing)
    patience = Patience(what.timeout, what.scratch, what.broken)
    try:
        for seconds in patience:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                break
    finally:
        if process.poll() is None:
            process.terminate()  # the keeper takes all that is below it along
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KEEPING)
        kill_group(process.pid)
        process.wait()
        end_marked(mark)  # where there was no keeper, or it was killed
    reader.join(2.0)
    refused = what.scratch / keeper.REFUSED
    if process.returncode == keeper.FAILED and refused.exists():
        return Ending("", 0.0, None, refused=refused.read_text(encoding="utf-8"))
    text = output.text() + patience.excess
    return Ending(text, time.monotonic() - began, process.returncode, patience.is_over)


def collect(descriptor: int, *, echo: bool) -> tuple[Output, threading.Thread]:
    """Gather the output from *descriptor* in a thread."""
    output = Output(echo=echo)
    reader = threading.Thread(target=output.drain, args=(descriptor,), daemon=True)
    reader.start()
    return output, reader


def kill_group(leader: int) -> None:
    """End every process of the group that *leader* leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(leader, signal.SIGKILL)
        else:
            os.kill(leader, signal.SIGTERM)


class WarmServer:
    """A running server (``child/server.py``) for one interpreter."""

    def __init__(self, python: str, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self._control, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._ready = False
        self._mark = new_mark()
        with theirs:
            self._process = subprocess.Popen(
                [python, str(CHILD), "--serve", str(theirs.fileno()), *modules],
                # torch makes this folder when it is imported: here it is one that is there already.
                env={"TORCHINDUCTOR_CACHE_DIR": tempfile.gettempdir(), **environment, MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt from the keyboard is ours to pass on
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the server and all that it runs."""
        self._control.close()
        if not self._ready:  # it still imports torch, and runs nothing yet
            self._process.kill()
        try:
            by_itself = self._process.wait(10) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            by_itself = False
        if not by_itself:
            end_marked(self._mark)  # processes that the runs have left, when the server cannot end them any more

    def launch(self, what: Launch) -> Ending | None:
        """Run one child; None if the server cannot, so that a fresh process must."""
        surroundings = {**what.environment, MARK: self._mark}
        request = Request(what.job, str(what.folder), str(what.scratch), surroundings)
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        output, reader = collect(reading, echo=what.echo)
        try:
            with ours:
                with theirs:
                    try:
                        started = self._request(request, ours, theirs.fileno(), writing)
                    finally:
                        os.close(writing)
                if not started:
                    self.close()
                    return None
                return self._await(what, ours, int(started), output, reader)
        finally:
            reader.join(0.0)

    def _request(self, request: Request, ours: socket.socket, theirs: int, writing: int) -> str:
        """Send the request and return the child's process number, or nothing if the server is gone."""
        ours.settimeout(START)
        try:
            with self._lock:  # requests must not mix on the control channel
                if not self._ready:
                    self._control.settimeout(START)
                    self._ready = self._control.recv(64) == b"ready\n"
                    if not self._ready:
                        return ""
                message = encode(request).encode() + b"\n"
                sent = socket.send_fds(self._control, [message[:1]], [theirs, writing])
                self._control.sendall(message[sent:])
                word, _, number = line_of(ours).partition(" ")
        except OSError:
            return ""
        return number.strip() if word == "started" else ""

    def _await(
        self, what: Launch, ours: socket.socket, process: int, output: Output, reader: threading.Thread
    ) -> Ending:
        began = time.monotonic()
        patience, answer = Patience(what.timeout, what.scratch, what.broken), b""
        try:
            for seconds in patience:
                ours.settimeout(seconds)
                with contextlib.suppress(TimeoutError):
                    answer = ours.recv(64)
                    break
        except OSError:
            pass
        finally:
            if not answer:
                kill_group(process)
                ours.settimeout(10.0)
                with contextlib.suppress(OSError):
                    ours.recv(64)  # the server has reaped it: nothing writes to the scratch folder any more
                if not (patience.is_over or patience.excess):
                    self.close()
        reader.join(2.0)
        code = int(answer.decode().split()[1]) if answer else None
        return Ending(output.text() + patience.excess, time.monotonic() - began, code, patience.is_over)


def line_of(connection: socket.socket) -> str:
    """The next line, without any bytes that may have come after it: a child can be gone before anybody asks for it."""
    line = b""
    while not line.endswith(b"\n") and (byte := connection.recv(1)):
        line += byte
    return line.decode()


OF_KERNEL = ("ipykernel.kernelapp", "ipykernel.ipkernel", "IPython.core.magics")
"""Modules that a server of kernels has imported besides torch: they take longer than a short training."""
_servers: dict[tuple[str, bool], WarmServer] = {}
_servers_lock = threading.Lock()


def server_for(python: str, environment: Mapping[str, str], *, kernel: bool = False) -> WarmServer | None:
    """The server of an interpreter, for kernels or for scripts, started if there is none; None if it cannot be."""
    with _servers_lock:
        server = _servers.get((python, kernel))
        if server is None or not server.alive:
            try:
                server = WarmServer(python, environment, OF_KERNEL if kernel else ())
            except OSError:
                return None
            _servers[python, kernel] = server
        return server


@atexit.register
def close_servers() -> None:
    """End all servers.  They end by themselves, too, when this process is gone."""
    with _servers_lock:
        for server in _servers.values():
            server.close()
        _servers.clear()
