"""Runs a notebook in a kernel: this process becomes ipykernel's, and nbclient, in the runner, hands it the cells.

Magics, shell commands, top-level ``await``, ``display`` and IPython's own names are Jupyter's own.  The cells' code has
the places that it has in the notebook's program (``cells.py``), so that the probe and the witness see it as a script's.
"""

from __future__ import annotations

import asyncio
import codecs
import gc
import os
import subprocess
import sys
import threading
import traceback
import types
from typing import Any

from ipykernel.kernelapp import IPKernelApp

from .cells import Places, placing
from .job import Job, Kernel
from .probe import seed_everything
from .recorded import RunError
from .stage import describe, is_user_file, own_frames_removed, wait_for_threads


def perform_cells(job: Job, kernel: Kernel) -> tuple[str, RunError | None]:
    """Be a kernel until nbclient shuts it down; return the outcome as :func:`stage.perform` does.

    A kernel ends with the first error of a cell that is not marked to raise one (``raises-exception``).
    """
    sys.path.insert(0, "")
    app: Any = IPKernelApp.instance()
    words = ["-f", kernel.connection]
    # How to connect is not printed where there is a parent; 1 is one that no Unix kernel watches.
    quiet = ["--IPKernelApp.parent_handle=1"] if sys.platform != "win32" else []
    app.initialize([*words, "--HistoryManager.hist_file=:memory:", *quiet])
    sys.argv = [os.path.relpath(job.target), *job.args] if job.args else ["ipykernel_launcher.py", *words]
    places = Places(job.target, kernel.cells)
    watched = Watched(app.kernel, places, job)
    with open(kernel.program, encoding="utf-8", newline="") as file:
        places.show(file.read())
    app.shell.compile = placing(app.shell.compile, places)
    app.shell._update_code_co_name = lambda code: code  # IPython 8 calls modules' code `<cell line: 1>`
    if not has_terminals():
        app.shell.system = Commands(app.shell)
    gc.freeze()  # the kernel's own objects are none of the notebook's
    app.start()
    wait_for_threads()
    return watched.outcome


class Watched:
    """Sees each cell before and after it is executed."""

    def __init__(self, kernel: Any, places: Places, job: Job) -> None:
        self._kernel, self._places, self._job = kernel, places, job
        self._execute = kernel.do_execute
        self._output = Echo(sys.stdout), Echo(sys.stderr)
        self._is_seeded = False
        self.outcome: tuple[str, RunError | None] = "finished", None
        kernel.do_execute = self.execute
        for stream, echo in zip((sys.stdout, sys.stderr), self._output, strict=True):
            stream.echo = echo  # type: ignore[union-attr]
        for shown in (kernel.shell.display_pub, kernel.shell.displayhook):
            if hasattr(shown, "register_hook"):
                shown.register_hook(self._show)

    async def execute(self, code: str, *args: Any, **kwargs: Any) -> Any:
        """Have the kernel execute a cell."""
        if not self._is_seeded:  # IPython draws the tips of its banner, once for each time that it is asked who it is
            seed_everything(self._job.seed)
            self._is_seeded = True
        asked = self._kernel.get_parent()
        named = str(asked["metadata"].get("cellId", ""))
        self._places.enter(int(named) if named.isdecimal() else None, code)
        reply = await self._execute(code, *args, **kwargs)
        self._places.enter(None, "")
        if reply["status"] == "error" and asked["content"].get("stop_on_error", True):
            self._note(reply)
        while getattr(self._kernel.shell, "exit_now", False):  # `exit()`: the loop is stopped a tenth of a second later
            await asyncio.sleep(0.1)
        return reply

    def _note(self, reply: Any) -> None:
        """Note the error that ends the run, and print its traceback as a script's."""
        result = self._kernel.shell.last_execution_result
        error = result.error_before_exec if result.error_before_exec is not None else result.error_in_exec
        if error is None:  # of a display
            self.outcome = "raised", RunError(reply["ename"], reply["evalue"])
            return
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return
        trace = from_user(own_frames_removed(error.__traceback__), self._job.root)
        self._output[1].write("".join(self._places.told(traceback.TracebackException(type(error), error, trace))))
        self.outcome = "raised", describe(error, self._job.root)

    def _show(self, message: Any) -> Any:
        """Print what a cell displays: the text of it."""
        text = message["content"].get("data", {}).get("text/plain")
        if isinstance(text, str):
            self._output[0].write(f"{text}\n")
        return message


class Echo:
    """Writes a stream's text to the run's own output, too: ipykernel sends it to the client alone."""

    def __init__(self, stream: Any) -> None:
        self._own = getattr(stream, "watch_fd_thread", None)
        """Thread that hands on text written to the descriptor itself, and prints it as well."""
        self._descriptor: int | None = getattr(stream, "_original_stdstream_copy", None)
        self._other = sys.__stdout__ if stream.name == "stdout" else sys.__stderr__

    def write(self, text: str) -> None:
        if threading.current_thread() is self._own:
            return
        if self._descriptor is None:
            if self._other is not None:
                self._other.write(text)
            return
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def flush(self) -> None:
        if self._descriptor is None and self._other is not None:
            self._other.flush()


def from_user(trace: types.TracebackType | None, root: str) -> types.TracebackType | None:
    """The part of a traceback from the first frame of the user's on; all of it where there is none."""
    part = trace
    while part is not None and not is_user_file(part.tb_frame.f_code.co_filename, root):
        part = part.tb_next
    return part or trace


def has_terminals() -> bool:
    """Whether shell commands can be given a terminal, as IPython gives them one: the sandbox keeps devices closed."""
    if not hasattr(os, "openpty"):
        return True  # Windows has other ways
    try:
        ends = os.openpty()
    except OSError:
        return False
    for end in ends:
        os.close(end)
    return True


class Commands:
    """Executes ``!command`` with pipes in the place of a terminal."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, command: str) -> None:
        """Print the output of a *command*, and leave its exit code in ``_exit_code``."""
        if command.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")
        expanded = self._shell.var_expand(command, depth=1)
        with subprocess.Popen(
            expanded, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            while data := process.stdout.read1():  # type: ignore[attr-defined]
                sys.stdout.write(decoder.decode(data))
        self._shell.user_ns["_exit_code"] = process.returncode
        if process.returncode and getattr(self._shell, "system_raise_on_error", False):
            raise subprocess.CalledProcessError(process.returncode, command)
