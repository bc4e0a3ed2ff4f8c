"""Runs a script in a child process, in a scratch copy of its folder, and reads what the child recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from autofix.record import RunRecord, not_started, parse
from autofix.scratch import scratch_copy

CHILD = Path(__file__).parent / "child"
HEAD = TAIL = 32 * 1024
"""Bytes of output that are kept from its beginning and from its end."""


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


@dataclass(frozen=True)
class Bounds:
    """Where a run may stop, from what the original did: steps and passes that it had started when it failed."""

    failed_steps: int | None = None
    failed_passes: int | None = None
    compare_from: int | None = None
    """The step (the pass, without an optimizer) after which gradients are recorded."""
    reference: bool = False
    """Whether the script is run on with all graphs kept."""


@dataclass
class Output:
    """The beginning and the end of what a stream says, so that a script that prints without end costs nothing."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    lost: int = 0

    def drain(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 65536):
            room = HEAD - len(self.head)
            self.head += chunk[:room]
            self.tail += chunk[room:] if room > 0 else chunk
            if len(self.tail) > 2 * TAIL:
                self.lost += len(self.tail) - TAIL
                del self.tail[:-TAIL]

    def text(self) -> str:
        gap = f"\n[... {self.lost} bytes left out ...]\n".encode() if self.lost else b""
        return (bytes(self.head) + gap + bytes(self.tail)).decode(errors="replace")


def run(script: Script, limits: Limits, bounds: Bounds = Bounds()) -> RunRecord:
    """Run *script* once.  Never raises for what the script does; the record says how it ended."""
    if script.text is None and not script.path.is_file():
        return not_started(f"there is no file {script.path}")
    with scratch_copy(script.folder, script.texts) as folder:
        record = folder.parent / "record.jsonl"
        job = {
            "script": str(folder / script.path.name),
            "root": str(folder),
            "record": str(record),
            "args": list(script.args),
            "seed": limits.seed,
            "parent": os.getpid(),
            "more_steps": limits.steps,
            "failed_steps": bounds.failed_steps,
            "failed_passes": bounds.failed_passes,
            "compare_from": bounds.compare_from,
            "reference": bounds.reference,
        }
        return _execute(job, folder, record, limits)


def _execute(job: dict[str, Any], folder: Path, record: Path, limits: Limits) -> RunRecord:
    job_file = folder.parent / "job.json"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            [limits.python, str(CHILD), str(job_file)],
            cwd=folder,
            env=environment(limits.seed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return not_started(f"cannot start {limits.python}: {error.strerror}")
    assert process.stdout is not None
    output = Output()
    reader = threading.Thread(target=output.drain, args=(process.stdout,), daemon=True)
    reader.start()
    timed_out = False
    try:
        process.wait(limits.timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        kill_group(process.pid)
        process.wait()
    reader.join(2.0)  # a process that left the group may hold the pipe open for ever
    seconds = time.monotonic() - began
    try:
        lines = record.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    result = parse(lines, output=output.text(), seconds=seconds, timed_out=timed_out)
    if not lines and not timed_out:
        return not_started(result.output.strip() or f"{limits.python} ended with code {process.returncode}")
    return result


def kill_group(leader: int) -> None:
    """End every process of the group that *leader* leads."""
    kill: Callable[[int, int], None] | None = getattr(os, "killpg", None)
    try:
        if kill is not None:
            kill(leader, signal.SIGKILL)
        else:
            os.kill(leader, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        pass


def environment(seed: int) -> dict[str, str]:
    """The caller's environment, with what makes a run repeatable, quiet and free of windows."""
    return {
        **os.environ,
        "PYTHONHASHSEED": str(seed % 2**32),
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
