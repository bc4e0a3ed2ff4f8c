"""Runs a script in a child process, in a scratch copy of its folder, and reads the record of the child."""

from __future__ import annotations

import math
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from autofix.child.job import Bounds, Job, Watched
from autofix.child.wire import encode
from autofix.execution import kernels
from autofix.execution.launch import CHILD, Ending, Launch, launch, server_for
from autofix.execution.record import RunRecord, not_started, parse, unsealed
from autofix.execution.scratch import FULL, Scratch, is_full, no_room, scratch_copy
from autofix.progress import SILENT, Watcher
from autofix.project.cells import NotebookError
from autofix.project.layout import import_roots


class Way(StrEnum):
    """Way in which a program is started."""

    FILE = "file"
    """``python FILE ARGS``"""
    MODULE = "module"
    """``python -m MODULE ARGS``"""
    COMMAND = "command"
    """Another program, which starts Python in the end: a launcher, a shell script."""
    NOTEBOOK = "notebook"
    """The cells of a notebook, in a kernel."""


@dataclass(frozen=True)
class Script:
    """A program to run: ``path`` is its main source file; ``text`` stands for the file's content where it is given."""

    path: Path
    text: str | None = None
    args: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    """Further files to write over the copy: path relative to the project's root, and text."""
    root: Path | None = None
    """The project's root, of which a copy is run; the script's own folder where none is given."""
    cwd: Path | None = None
    """The folder that the run starts in; the root where none is given."""
    way: Way = Way.FILE
    target: str = ""
    """The file that is run, where that is not ``path`` (pytest's own program, say), the module, or the command."""
    options: tuple[str, ...] = ()
    """Options of the interpreter."""
    watched: tuple[Watched, ...] = ()
    """Parts of its sources of which the run tells whether it executed them."""
    plain: str | None = None
    """``text`` where it says no more than the file: the program of a notebook's cells."""

    @property
    def is_patched(self) -> bool:
        """Whether the run has other texts than the files."""
        return self.text != self.plain or bool(self.others)

    @property
    def folder(self) -> Path:
        """The project's root, absolute and resolved."""
        return self.path.resolve().parent if self.root is None else self.root.resolve()

    @property
    def start(self) -> Path:
        """The folder that the run starts in, absolute and resolved."""
        return self.folder if self.cwd is None else self.cwd.resolve()

    @property
    def key(self) -> str:
        """``path``, relative to the root."""
        return Path(os.path.relpath(self.path.resolve(), self.folder)).as_posix()

    @property
    def texts(self) -> dict[str, str]:
        own = {self.key: self.text} if self.text is not None else {}
        return {**own, **dict(self.others)}


OVER = "the budget is spent; --budget SECONDS gives more"
"""Why no run is made any more."""
TO_THE_END = Bounds()


@dataclass(frozen=True)
class Limits:
    """Limits and surroundings of a run."""

    python: str = sys.executable
    """The interpreter that has torch."""
    steps: int = 20
    """Optimizer steps past the failure, for each optimizer."""
    timeout: float = 300.0
    """Wall-clock seconds for one run."""
    seed: int = 0
    device: str = ""
    """``cpu`` to run a script that was written for a GPU on the CPU."""
    sandbox: bool = True
    """Whether writing outside the scratch copy and the network are closed off (where the system can)."""
    network: bool = False
    """Whether the network stays open."""
    writable: tuple[str, ...] = ()
    """Folders outside the scratch copy that may be written to."""
    memory: int = 0
    """The most bytes of data for one process; 0 for four fifths of the machine's memory."""
    streams: bool = False
    """Whether every network draws random numbers of its own."""
    warm: bool = True
    """Whether runs are forked from one process that has imported torch, where the system can."""
    deadline: float = field(default=math.inf, compare=False)
    """Time by which all runs must have ended, by the monotonic clock."""
    watcher: Watcher[Any] = field(default=SILENT, compare=False, repr=False)
    """Observer of the runs."""

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        return self.deadline - time.monotonic()


def run(script: Script, limits: Limits, bounds: Bounds = TO_THE_END) -> RunRecord:
    """Run *script* once.  Never raises for anything that the script does; the record says how it ended."""
    if script.text is None and not script.path.is_file():
        return not_started(f"there is no file {script.path}")
    if limits.left <= 0:
        return not_started(OVER)
    try:
        return _run_in_copy(script, limits, bounds)
    except NotebookError as error:
        return not_started(error.reason)
    except kernels.TooLong as error:
        return not_started(str(error))
    except OSError as error:
        if error.errno not in FULL:
            raise
        return not_started(no_room())


def _run_in_copy(script: Script, limits: Limits, bounds: Bounds) -> RunRecord:
    """Run *script* in a copy of its project.  Raises :class:`OSError` where there is no room for it."""
    notebook = kernels.read(script.path, script.texts[script.key]) if script.way is Way.NOTEBOOK else None
    texts = script.texts if notebook is None else {**script.texts, script.key: notebook.document}
    with scratch_copy(script.folder, texts, script.start) as scratch:
        seal = secrets.token_hex(16)
        scratch.record.touch(0o600)
        kernel = None if notebook is None else kernels.prepare(notebook, scratch)
        job = replace(
            program(script, scratch),
            bounds=bounds,
            seal=seal,
            seed=limits.seed,
            steps=limits.steps,
            streams=limits.streams,
            device=limits.device,
            sandbox=limits.sandbox,
            writable=(str(scratch.top), *limits.writable),
            network=limits.network,
            memory=limits.memory or default_memory(),
            kernel=kernel,
        )
        shown = job if script.way is Way.COMMAND else replace(job, seal="")
        scratch.job.write_text(encode(shown), encoding="utf-8")
        surroundings = moved(environment(scratch.temporary), script.folder, scratch.copy)
        surroundings = for_descendants(surroundings, scratch.job)
        with ExitStack() as stack:
            timeout = min(limits.timeout, limits.left)
            broken: Callable[[], str] = str
            if notebook is not None and kernel is not None:
                surroundings = kernels.surroundings(surroundings, scratch)
                client = stack.enter_context(kernels.client(notebook, kernel, timeout))
                broken = client.failed
            what = Launch(
                limits.python,
                job,
                scratch.start,
                scratch.top,
                surroundings,
                timeout,
                plain=environment(None),
                options=script.options,
                echo=limits.watcher.echo and bounds == Bounds(healthy=bounds.healthy) and not script.is_patched,
                broken=broken,
            )
            events = stack.enter_context(scratch.record.open("rb"))
            stack.enter_context(limits.watcher.run(label(script, bounds), events))
            # The child takes the name of the record away.
            ending = launch(what, warm=limits.warm and not script.options and script.way is not Way.COMMAND)
            if is_full(scratch.top):  # nothing that was written, and nothing that failed then, tells anything
                return not_started(no_room())
            return _read(events.read(), seal, ending, limits)


def label(script: Script, bounds: Bounds) -> str:
    """Purpose of a run, in a few words."""
    if bounds.trace:
        return "watching where graphs are made and freed"
    if bounds.reference:
        return "computing the gradients that are meant"
    return "the patched script" if script.is_patched else "the script as it is"


def program(script: Script, scratch: Scratch) -> Job:
    """The job as far as it names the program to run, in places of the copy."""
    root, copy = script.folder, scratch.copy
    target = counterpart(script.target, root, copy) if script.target else str(copy / script.key)
    return Job(
        target,
        str(copy),
        str(scratch.record),
        way=script.way.value,
        args=tuple(counterpart(argument, root, copy) for argument in script.args),
        origin=str(root),
        scratch=str(scratch.top),
        import_roots=tuple(str(copy / place.relative_to(root)) for place in import_roots(root)),
        changed=tuple(name for name in script.texts if name.endswith(".py")),
        watched=script.watched,
    )


def counterpart(text: str, root: Path, copy: Path) -> str:
    """An argument in which absolute paths into the project lead into the copy."""
    begins = re.compile(rf"(?<![\w./-]){re.escape(str(root))}(?![\w.-])")
    return begins.sub(lambda _: str(copy), text)


def for_descendants(surroundings: dict[str, str], job: Path) -> dict[str, str]:
    """An environment that lets ``child/descend.py`` into every Python process that the script starts."""
    search = [str(CHILD / "site"), *filter(None, [surroundings.get("PYTHONPATH")])]
    return {**surroundings, "AUTOFIX_JOB": str(job), "PYTHONPATH": os.pathsep.join(search)}


def moved(surroundings: dict[str, str], root: Path, copy: Path) -> dict[str, str]:
    """An environment whose import path leads into the copy, for the processes that the script starts."""
    if not (search := surroundings.get("PYTHONPATH")):
        return surroundings
    pairs = [(place, counterpart(place, root, copy)) for place in search.split(os.pathsep)]
    places = [inside if os.path.isdir(inside) else place for place, inside in pairs]
    return {**surroundings, "PYTHONPATH": os.pathsep.join(places)}


def _read(events: bytes, seal: str, ending: Ending, limits: Limits) -> RunRecord:
    """The record of a run that has ended."""
    if ending.refused:
        return not_started(ending.refused)
    lines = unsealed(events, seal)
    if lines is None:
        return not_started("the script has written to the record of its run, which then shows nothing")
    if not lines and not ending.timed_out:
        return not_started(ending.output.strip() or f"{limits.python} ended with code {ending.code}")
    return parse(lines, output=ending.output, seconds=ending.seconds, timed_out=ending.timed_out)


def warm_up(script: Script, python: str) -> None:
    """Let the interpreter *python* import torch for *script* while the caller does something else.  Returns at once."""
    if hasattr(os, "fork") and not script.options and script.way is not Way.COMMAND:
        server_for(python, environment(None), kernel=script.way is Way.NOTEBOOK)


def default_memory() -> int:
    """Four fifths of the machine's memory, so that a run that eats without end fails before the machine does."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    except (AttributeError, ValueError, OSError):
        return 0


def environment(temporary: Path | None) -> dict[str, str]:
    """The caller's environment, with variables that make a run repeatable, quiet and free of windows.

    ``temporary`` is the folder for temporary files; None leaves the system's.
    """
    return {
        **os.environ,
        **({"TMPDIR": str(temporary), "TRITON_CACHE_DIR": str(temporary / "triton")} if temporary is not None else {}),
        "PYTHONHASHSEED": "0",  # read when an interpreter starts, so common to all runs that a server forks
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # a killed run leaves all of its output
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS is deterministic only with it
        "MPLBACKEND": "Agg",
        "TORCHDYNAMO_DISABLE": "1",  # a proof in seconds cannot wait for a compiler
        "WANDB_MODE": "disabled",
        "TQDM_DISABLE": "1",
    }
