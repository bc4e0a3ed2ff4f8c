"""Sees to it that nothing is left behind when this process is killed: no process, no scratch folder, no half a file."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from autofix.execution import guard


class Guard:
    """The process that clears up (``guard.py``), started when it is first needed."""

    def __init__(self) -> None:
        self.mark = f"{os.getpid()}-{secrets.token_hex(4)}"
        """With it begin the marks of all processes that this one starts."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._paths: set[Path] = set()

    def add(self, path: Path) -> None:
        """Have *path* removed if this process is killed.  To be called before it is made."""
        with self._lock:
            self._paths.add(path)
            if self._process is None or self._process.poll() is not None:
                self._start()
            else:
                self._tell("+", path)

    def discard(self, path: Path) -> None:
        """The path is gone, or there to stay."""
        with self._lock:
            self._paths.discard(path)
            self._tell("-", path)

    def close(self) -> None:
        """Let it go: nothing is left to do."""
        if self._process is None or os.getpid() != self._owner:
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=2.0)

    def _start(self) -> None:
        with contextlib.suppress(OSError):  # without it, the next run clears up
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, self.mark],
                # Without the mark of the caller of autofix: killing all processes with it must leave a guard at work.
                env={name: value for name, value in os.environ.items() if name != guard.MARK},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # it must live when the terminal's processes are ended
            )
            for path in self._paths:
                self._tell("+", path)

    def _tell(self, sign: str, path: Path) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                # In hexadecimal: a line end within a path must not make two of it.
                self._process.stdin.write(f"{sign}{os.fsencode(path).hex()}\n".encode())
                self._process.stdin.flush()


GUARD = Guard()
atexit.register(GUARD.close)


@contextlib.contextmanager
def guarded_folder(name: str) -> Iterator[Path]:
    """A temporary folder of this process alone, removed at the end, and also where this process is killed before."""
    folder = Path(tempfile.gettempdir()).resolve() / f"autofix-{name}-{os.getpid()}-{secrets.token_hex(4)}"
    GUARD.add(folder)  # before it is there, so that there is no moment at which nobody knows of it
    folder.mkdir(0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        GUARD.discard(folder)


_numbers = itertools.count()


def new_mark() -> str:
    """A mark for the next process that is started: this process's own mark, and a number."""
    return f"{GUARD.mark}-{next(_numbers)}."
