"""The output folder of a campaign: one file for each repository that is over, written once and as a whole.

A patch is written before the result that names it, so that a reader of the result finds its patch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from autofix.campaign.task import Outcome, Task
from autofix.report.output import replace

RESULTS, PATCHES, LOCK = "results", "patches", "lock"


class StoreError(click.ClickException):
    """An output folder that cannot be used."""

    exit_code = 2


class Store:
    """The results below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep other campaigns out of the folder.  Raises :class:`StoreError` where one is in it."""
        try:
            for name in (RESULTS, PATCHES):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be written to: {error.strerror}") from None
        try:
            if not _lock(descriptor):
                raise StoreError(f"another campaign writes to {self.folder}")
            yield
        finally:
            os.close(descriptor)

    def patch(self, name: str) -> Path:
        return self.folder / PATCHES / f"{name}.diff"

    def result(self, name: str) -> Path:
        return self.folder / RESULTS / f"{name}.json"

    def write(self, outcome: Outcome) -> None:
        """Keep *outcome*.  Raises :class:`autofix.report.output.OutputError`."""
        if outcome.patch:
            replace(self.patch(outcome.name), outcome.patch.encode("utf-8", "surrogateescape"))
        replace(self.result(outcome.name), msgspec.json.format(encoded(outcome), indent=1))

    def read(self, task: Task) -> Outcome | None:
        """The kept outcome of a task; None where there is none or its file is damaged."""
        try:
            return msgspec.json.decode(self.result(task.name).read_bytes(), type=Outcome)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None


def encoded(outcome: Outcome) -> bytes:
    """The outcome as JSON.  Names that are no text come as lone surrogates, which JSON writes and UTF-8 does not."""
    try:
        return msgspec.json.encode(outcome)
    except UnicodeEncodeError:
        return msgspec.json.encode(_plain(msgspec.to_builtins(outcome)))


def _plain(value: object) -> object:
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _lock(descriptor: int) -> bool:
    """Take the lock, which the system gives back however this process ends; whether nobody else has it."""
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
