"""Runs a script in a child process, in a scratch copy of its folder, and reads what the child recorded."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from autofix.launch import Ending, Launch, launch, server_for
from autofix.record import RunRecord, not_started, parse, unsealed
from autofix.scratch import scratch_copy


@dataclass(frozen=True)
class Script:
    """A script to run: ``path`` gives its folder and name; ``text`` stands for the file's content where it is given."""

    path: Path
    text: str | None = None
    args: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    """Further files to write over the copy: path relative to the script's folder, and text."""

    @property
    def folder(self) -> Path:
        return self.path.resolve().parent

    @property
    def texts(self) -> dict[str, str]:
        own = {self.path.name: self.text} if self.text is not None else {}
        return {**own, **dict(self.others)}


@dataclass(frozen=True)
class Limits:
    """How a run is bounded."""

    python: str = sys.executable
    """The interpreter that has torch."""
    steps: int = 20
    """Optimizer steps past the failure, for each optimizer."""
    timeout: float = 300.0
    """Wall-clock seconds for one run."""
    seed: int = 0
    device: str = ""
    """``cpu`` to run what was written for a GPU on the CPU."""
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


@dataclass(frozen=True)
class Bounds:
    """Where a run may stop, from what the original did: steps and passes that it had started when it failed."""

    failed_steps: int | None = None
    failed_passes: int | None = None
    compare_from: int | None = None
    """The step (the pass, without an optimizer) after which gradients are recorded."""
    reference: bool = False
    """Whether the script is run on with all graphs kept."""
    more_steps: int | None = None
    """Optimizer steps past the failure; None for what the limits say."""
    trace: bool = False
    """Whether the run witness watches, and the record holds its facts."""
    between: bool = False
    """Whether live graphs are counted between steps as well."""
    follow: tuple[tuple[int, int, str], ...] = ()
    """Values that the witness follows from call to call.  See ``child/follow.py``."""
    apart: bool = False
    """Whether, in a reference run, modules with ``inplace=True`` leave their inputs as they are."""
    throughout: bool = False
    """Whether gradients are recorded to the end, and not at the first steps alone that are compared."""
    frozen: bool = False
    """Whether every parameter update is left out.  See ``child/frozen.py``."""
    same_calls: bool = False
    """Whether every call of a module draws the same random numbers and leaves the module's buffers as they were."""


def run(script: Script, limits: Limits, bounds: Bounds = Bounds()) -> RunRecord:
    """Run *script* once.  Never raises for what the script does; the record says how it ended."""
    if script.text is None and not script.path.is_file():
        return not_started(f"there is no file {script.path}")
    with scratch_copy(script.folder, script.texts) as folder:
        scratch = folder.parent
        temporary = _beside(folder, "tmp")
        temporary.mkdir()
        record, seal = _beside(folder, "record.jsonl"), secrets.token_hex(16)
        record.touch(0o600)
        job = {
            "script": str(folder / script.path.name),
            "root": str(folder),
            "record": str(record),
            "seal": seal,
            "args": list(script.args),
            "seed": limits.seed,
            "more_steps": limits.steps if bounds.more_steps is None else bounds.more_steps,
            "failed_steps": bounds.failed_steps,
            "failed_passes": bounds.failed_passes,
            "compare_from": bounds.compare_from,
            "reference": bounds.reference,
            "apart": bounds.apart,
            "throughout": bounds.throughout,
            "frozen": bounds.frozen,
            "same_calls": bounds.same_calls,
            "streams": limits.streams,
            "trace": bounds.trace,
            "between": bounds.between,
            "follow": bounds.follow,
            "device": limits.device,
            "sandbox": limits.sandbox,
            "writable": [str(scratch), *limits.writable],
            "network": limits.network,
            "memory": limits.memory or default_memory(),
        }
        what = Launch(limits.python, job, folder, scratch, environment(temporary), limits.timeout)
        with record.open("rb") as events:  # the child takes its name away
            ending = launch(what, warm=limits.warm)
            return _read(events.read(), seal, ending, limits)


def _beside(folder: Path, name: str) -> Path:
    """A place in the folder that holds *folder*, which may have the same name."""
    return folder.with_name(f"{name}_" if folder.name == name else name)


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


def warm_up(limits: Limits) -> None:
    """Let the interpreter import torch while the caller does something else.  Returns at once."""
    if limits.warm and hasattr(os, "fork"):
        server_for(limits.python, environment(None))


def default_memory() -> int:
    """Four fifths of the machine's memory, so that a run that eats without end fails before the machine does."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    except (AttributeError, ValueError, OSError):
        return 0


def environment(temporary: Path | None) -> dict[str, str]:
    """The caller's environment, with what makes a run repeatable, quiet and free of windows.

    ``temporary`` is the folder for temporary files; None leaves the system's.
    """
    return {
        **os.environ,
        **({"TMPDIR": str(temporary)} if temporary is not None else {}),
        "PYTHONHASHSEED": "0",  # read when an interpreter starts, so the same for all that a server forks
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # a killed run has still said what it said
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS is deterministic only with it
        "MPLBACKEND": "Agg",
        "TORCHDYNAMO_DISABLE": "1",  # a proof in seconds cannot wait for a compiler
        "WANDB_MODE": "disabled",
        "TQDM_DISABLE": "1",
    }
