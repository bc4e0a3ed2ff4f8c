"""The keeper of a fresh run: a small process that starts the interpreter, and ends all processes that the run leaves.

It is called with a run's scratch folder, the process that it belongs to, and the interpreter's command; to the command
it adds the job.  Processes that leave the run's group, session and environment become its children when their own
parents end (it is a subreaper), so that none is missed.  It imports little, and nothing of autofix.
The warm server ends the processes that its runs leave by these functions, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of Linux's prctl
ROUNDS = 100
"""Killing a process may orphan its own children, so often at most."""
FAILED = 127
"""Exit code where the interpreter cannot be started."""
REFUSED = "refused"
"""The file in the scratch folder that then says why."""


def main(scratch: str, parent: int, command: list[str]) -> NoReturn:
    """Run *command* with the job in *scratch* to its end, and end as it has ended."""
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: leave(FAILED))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        leave(FAILED)
    path = os.path.join(scratch, "job.json")
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**job, "parent": os.getpid()}, file)
    try:
        process = subprocess.Popen([*command, path], start_new_session=True)
    except OSError as error:
        with open(os.path.join(scratch, REFUSED), "w", encoding="utf-8") as file:
            file.write(f"cannot start {command[0]}: {error.strerror}")
        leave(FAILED)
    leave(process.wait())


def leave(code: int) -> NoReturn:
    """End all that is below this process, and then this process, by *code* or by the signal that it stands for."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_children()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def adopt_orphans() -> None:
    """Become the parent of processes that a run leaves behind in a session of their own.  Only Linux can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill every process whose parent is this one, until there is none."""
    for _ in range(ROUNDS):
        children = [process for process in processes() if parent_of(process) == os.getpid()]
        if not children:
            return
        for process in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        for process in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


def processes() -> list[int]:
    try:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    except OSError:
        return []


def parent_of(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
