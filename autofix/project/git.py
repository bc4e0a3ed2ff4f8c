"""Commands of git in a repository that may belong to anybody: none of its hooks, pagers or monitors is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class GitError(Exception):
    """A command that git refused, or that could not be started; ``lines`` holds the messages."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines or ("git failed",)
        super().__init__("\n".join(self.lines))


def require_revision(revision: str) -> None:
    """Raise :class:`GitError` for a revision that git would take for an option: it may write files by one."""
    if revision.startswith("-"):
        raise GitError((f"bad revision '{revision}'",))


SETTINGS = ("core.fsmonitor=", "core.hooksPath=/dev/null", "core.quotePath=false")
SECONDS = 600.0
"""Seconds after which a command is given up."""


def git(folder: Path, *words: str, data: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
    """Return the output of a git command in *folder* that reads *data*.  Raises :class:`GitError`."""
    command = ["git", "--no-pager", *(word for setting in SETTINGS for word in ("-c", setting)), *words]
    surroundings = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(
            command, cwd=folder, env=surroundings, input=data, capture_output=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise GitError((f"git took more than {SECONDS:.0f} seconds",)) from None
    except OSError as error:
        raise GitError((f"git cannot be run: {(error.strerror or str(error)).lower()}",)) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(tuple(line.removeprefix("fatal: ") for line in said))
    return done.stdout
