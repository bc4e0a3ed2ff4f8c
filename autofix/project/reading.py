"""Reads regular files alone, up to a size: a checkout may hold FIFOs, devices, and files without an end."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

LARGEST_SOURCE = 16 * 2**20
"""Bytes of the largest file that is read as source."""
LARGEST_SETTINGS = 2**20
"""Bytes of the largest file that is read for its settings: ignore patterns, project files."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_PIPES = re.compile(r"/dev/fd/\d+|/proc/self/fd/\d+|/dev/stdin")
"""The names that shells and callers give to a pipe: a user who writes one means the data from the pipe."""


def is_pipe(path: Path) -> bool:
    """Whether *path* is a name that shells give to a pipe, whose data can be read once."""
    return _PIPES.fullmatch(str(path)) is not None


def read(path: Path, most: int = LARGEST_SOURCE) -> bytes:
    """Return the bytes of the regular file at *path*.

    Raises :class:`OSError` where it is none, where it cannot be read, and where it has more than *most* bytes.
    """
    named = is_pipe(path)
    if not named:
        _require_regular(os.stat(path))  # before it is opened, which some devices take for an order
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if not named:  # the file may be another one by now
        flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    with open(os.open(path, flags), "rb") as stream:
        if not named:
            _require_regular(os.fstat(stream.fileno()))
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most // 2**20} megabytes")
    return data


def settings(path: Path) -> str:
    """Return the text of a file of settings, less a byte order mark.  Raises :class:`OSError` as :func:`read` does."""
    return read(path, LARGEST_SETTINGS).decode("utf-8-sig", "replace")


def what_else(status: os.stat_result) -> str:
    """Kind of a file that is no regular one; empty for a regular file."""
    if stat.S_ISREG(status.st_mode):
        return ""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "no file")


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind := what_else(status):
        raise OSError(errno.EINVAL, f"it is {kind}")
