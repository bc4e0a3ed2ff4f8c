"""Destination of a report: standard output, or a file, which is replaced as a whole once the report is complete."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from autofix.project import files


class OutputError(click.ClickException):
    """A report that cannot be written."""


@contextmanager
def destination(path: Path | None, standard: IO[str]) -> Iterator[IO[str]]:
    """Yield a stream for the report to *path*; without one, the *standard* stream.

    Raises :class:`OutputError` where the file cannot be written; a report that fails half-way leaves it as it was.
    """
    if path is None:
        yield standard
        return
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", newline="")
    yield stream
    stream.flush()
    replace(path, buffer.getvalue())


def replace(path: Path, data: bytes) -> None:
    """Write *data* as a whole or not at all.  Raises :class:`OutputError`."""
    import secrets  # most reports go to standard output

    from autofix.execution.guardian import GUARD

    scratch = path.with_name(f".autofix.{secrets.token_hex(8)}.tmp")
    GUARD.add(scratch)
    try:
        if path.exists() and not path.is_file():  # a pipe, or a terminal
            path.write_bytes(data)
            return
        with open(scratch, "xb") as stream:
            stream.write(data)
        os.replace(scratch, path)
    except OSError as error:
        raise OutputError(f"{files.display_name(path)} cannot be written: {files.reason_of(error)}.") from None
    finally:
        scratch.unlink(missing_ok=True)
        GUARD.discard(scratch)
