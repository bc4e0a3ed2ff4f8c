"""The guard: a small process that outlives autofix, should that be killed, and clears up after it.

It reads paths from its standard input: ``+PATH`` is a folder or file that is about to be made, ``-PATH`` one that is
gone or there to stay, and PATH is in hexadecimal.  When the input ends, which it does however autofix ends, the guard
kills every process that carries autofix's mark, and removes the paths that are left.  It imports little, and nothing of
autofix, so that it starts within milliseconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

MARK = "AUTOFIX_RUN"
"""Environment variable of all that autofix starts.  Its value begins with autofix's own mark."""
PATIENCE = 10.0
"""Seconds for which the guard tries."""
CLEAR = 3
"""Number of looks without a find before the guard ends: a process that was just forked has no mark until it runs a
program of its own, and may still make a folder."""


def end_marked(mark: str) -> None:
    """Kill every process whose mark begins with *mark*, until there is none.  Only Linux tells the marks."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        left = list(marked(mark))
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if not left:
            return
        time.sleep(0.01)


def marked(mark: str) -> Iterator[int]:
    """Yield the processes whose mark begins with *mark*, without this one and ended ones."""
    try:
        entries = os.listdir("/proc")
    except OSError:
        return
    wanted = f"{MARK}={mark}".encode()
    for entry in filter(str.isdigit, entries):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:  # somebody else's, or gone
            continue
        if int(entry) != os.getpid() and any(variable.startswith(wanted) for variable in variables):
            yield int(entry)


def main(mark: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    paths: set[bytes] = set()
    for line in sys.stdin:
        if line.endswith("\n"):  # a torn one would name a folder further up
            (paths.add if line[0] == "+" else paths.discard)(bytes.fromhex(line[1:]))
    end_marked(mark)
    folders = [path for path in paths if os.path.basename(path).startswith(b"autofix-")]
    for path in paths.difference(folders):
        if path.endswith(b".tmp") and os.path.exists(path):
            os.unlink(path)
    deadline, clear = time.monotonic() + PATIENCE, 0
    while folders and clear < CLEAR and time.monotonic() < deadline:
        left = [path for path in folders if os.path.lexists(path)]
        for path in left:
            shutil.rmtree(path, ignore_errors=True)
        clear = 0 if left else clear + 1
        time.sleep(0.02)
        end_marked(mark)


if __name__ == "__main__":
    main(sys.argv[1])
