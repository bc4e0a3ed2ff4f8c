"""The first steps of a child process: read the job, or be the warm server."""

from __future__ import annotations

import os
from typing import NoReturn

from .job import Job
from .session import end_with, run
from .wire import decode


def main(arguments: list[str]) -> NoReturn:
    """``JOB.json``: run that job; ``--serve DESCRIPTOR MODULES``: be the warm server on that socket.  Never returns."""
    if arguments[0] == "--serve":
        from .server import main as serve

        serve(int(arguments[1]), arguments[2:])
    with open(arguments[0], encoding="utf-8") as file:
        job = decode(Job, file.read())
    os.unlink(arguments[0])  # it holds the key of the record
    end_with(job.parent)
    run(job)
