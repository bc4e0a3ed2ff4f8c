"""A run of a program that is no Python script: this process becomes it, and its descendants find the job."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from .job import Job
from .wire import encode


def write(path: str, job: Job) -> None:
    """Put another job in the place of the one at *path*, as a whole."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(encode(job))
    os.replace(f"{path}.new", path)


def start_command(job: Job) -> NoReturn:
    """Become the program of *job*, whose descendants will find the job by their environment."""
    write(os.environ["AUTOFIX_JOB"], job)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(job.target, [job.target, *job.args])
    except OSError as error:
        sys.stderr.write(f"{job.target}: {error.strerror}\n")
    os._exit(1)
