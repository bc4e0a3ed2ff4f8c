"""Python processes below a run: all of them find the project's copy, and one may take the place of the script.

Where a launcher or a shell script was started, the first Python program below it that is no launcher itself is the one
to be watched: it runs under the probe from here on, and ends here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from .command import write
from .imports import redirect
from .job import Job
from .launchers import LAUNCHERS, LAUNCHING_MODULES, WITH_VALUE
from .wire import decode

_NO_PROGRAMS = (*LAUNCHING_MODULES, "torch.distributed.", "multiprocessing.")


def enter(path: str) -> None:
    """Prepare this process for the job at *path*."""
    try:
        with open(path, encoding="utf-8") as file:
            job = decode(Job, file.read())
    except (OSError, ValueError):
        return
    own = os.path.dirname(os.path.abspath(__file__))
    if own in map(os.path.abspath, sys.orig_argv[1:]):  # the run itself, which will see to all that
        return
    found = program() if job.way == "command" and job.seal else None
    if found is None or not is_first(job):
        redirect(job)
        return
    write(path, replace(job, seal=""))  # nobody after this process is to write the record
    from .session import run  # loads modules that a process without a probe does not need

    way, target, args = found
    run(replace(job, way=way, target=target, args=tuple(args)))


def program() -> tuple[str, str, list[str]] | None:
    """Way, target and arguments of the user's program that this interpreter was started for; None for other uses."""
    words = list(sys.orig_argv[1:])
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        words = words[2 if words[0] in WITH_VALUE else 1 :]
    if not words or words[0] in ("-c", "-"):
        return None
    if words[0] != "-m":
        script = os.path.abspath(words[0])
        known = os.path.basename(script) in LAUNCHERS or not os.path.isfile(script)
        return None if known else ("file", script, words[1:])
    if len(words) < 2 or words[1].startswith(_NO_PROGRAMS):
        return None
    return "module", words[1], words[2:]


def is_first(job: Job) -> bool:
    """Whether no other process of this run is watched yet; of several ranks it is the first that is."""
    if os.environ.get("RANK", "0") not in ("0", ""):
        return False
    try:
        os.close(os.open(os.path.join(job.scratch, "taken"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    return True
