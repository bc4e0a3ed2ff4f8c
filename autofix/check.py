"""Analyse many files: in parallel where they are many, in order, and none of them able to stop the others."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from autofix import engine, files

FEW = 8
"""Up to so many files, starting worker processes costs more time than it saves."""


@dataclass(frozen=True)
class Result:
    """One file, and what the static witness has to say of it."""

    path: Path
    file: files.SourceFile
    analysis: engine.Analysis


@dataclass(frozen=True)
class Problem:
    """One file of which nothing can be said, and why; ``line`` and ``column`` count from 1."""

    name: str
    reason: str
    line: int = 1
    column: int = 1
    trace: str = ""
    """The traceback, where the reason is a bug in autofix."""

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}: {self.reason}"

    @classmethod
    def of(cls, error: files.FileError | engine.SourceError) -> Problem:
        name = error.name if isinstance(error, files.FileError) else error.path
        return cls(name, error.reason, error.line, error.column)


def check(
    paths: Sequence[Path], *, select: Collection[str] | None = None, from_root: bool = False
) -> Iterator[Result | Problem]:
    """Analyse the files at *paths* and yield an outcome for each, in the order given."""
    examine = partial(check_path, select=select, from_root=from_root)
    workers = min(cpu_count(), len(paths))
    if len(paths) <= FEW or workers == 1:
        yield from map(examine, paths)
        return
    # A forked worker has all modules loaded; elsewhere than on Linux, the system's libraries may not survive a fork.
    context = get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=die_of_interrupts) as pool:
        try:
            yield from pool.map(examine, paths, chunksize=max(1, min(8, len(paths) // (4 * workers))))
        except BaseException:  # an interrupt above all: leave at once, and not when the queue is empty
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def check_path(path: Path, *, select: Collection[str] | None, from_root: bool) -> Result | Problem:
    try:
        file = files.read(path, files.display_name(path, from_root=from_root))
    except files.FileError as error:
        return Problem.of(error)
    return check_file(path, file, select=select)


def check_file(path: Path, file: files.SourceFile, *, select: Collection[str] | None = None) -> Result | Problem:
    """Analyse one file that was read already."""
    try:
        return Result(path, file, engine.analyse(file.text, file.name, select=select))
    except engine.SourceError as error:
        return Problem.of(error)
    except Exception as error:  # a bug in autofix: report it with this file's name, and go on with the other files
        reason = f"internal error, please report it: {type(error).__name__}: {error}"
        return Problem(file.name, reason, trace=traceback.format_exc())


def cpu_count() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def die_of_interrupts() -> None:
    """Let Ctrl-C end a worker without a traceback of its own."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
