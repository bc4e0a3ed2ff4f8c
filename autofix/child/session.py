"""One run in this process: tie it to its parent, close the sandbox, watch the script, leave."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn

from .job import Job

PR_SET_PDEATHSIG = 1


def closed_off(job: Job) -> list[str]:
    """Close the sandbox, if the job asks for one, and return the parts that could not be closed."""
    if not job.sandbox:
        return list(job.open_ends)
    from .sandbox import close

    return close(job.writable, network=job.network, memory=job.memory)


def end_with(parent: int) -> None:
    """Ask the kernel to kill this process when *parent* ends.  Only Linux can."""
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def run(job: Job) -> NoReturn:
    """Run the script or the notebook of *job* under the probe or the witness, and end this process."""
    from .events import Events
    from .recorded import RunError, Sandbox, Unable, Unloaded
    from .stage import perform

    if job.way == "command":
        from .command import start_command

        start_command(replace(job, sandbox=False, open_ends=tuple(closed_off(job))))
    gc.disable()  # of torch's 300,000 objects none is garbage: to look for some takes a fifth of its import
    events = Events(job.record, job.seal)
    open_ends = closed_off(job)
    try:
        # The optimizers load it in the end; before the script starts, it can be left out of the meter's sight.
        importlib.import_module("torch._dynamo")
        from .copies import Copies
        from .executed import Executed
        from .imports import redirect, unloaded
        from .probe import Probe
        from .trace import Witness

        performed: Callable[[], tuple[str, RunError | None]] = partial(perform, job)
        if job.kernel is not None:
            from .kernel import perform_cells

            performed = partial(perform_cells, job, job.kernel)
    except ImportError as missing:
        # Without torch the script cannot train, but its own message on that is for the user to read.
        events.write(Unable(f"{type(missing).__name__}: {missing}"))
        os._exit(1)
    copies = Copies(job.scratch)
    if job.scratch:
        if any(one.startswith("writing") for one in open_ends):
            open_ends += copies.replace_links(job.root)
        copies.install()
    events.write(Sandbox(tuple(open_ends), job.network))
    finder = redirect(job)
    executed = Executed(job)

    def tell() -> None:
        events.write(Unloaded(unloaded(job, copies.read | finder.found)))
        if job.watched:
            events.write(executed.missed())

    events.at_end = tell
    gc.freeze()  # the meter of live graphs looks at the script's own objects, not at torch's 300,000
    watcher: Probe | Witness = Witness(job, events) if job.bounds.trace else Probe(job, events)
    watcher.install()
    gc.enable()
    executed.install()
    outcome, error = performed()
    watcher.finish(outcome, error)
