"""Commands of git in a repository that may belong to anybody: none of its hooks, pagers or monitors is started."""

from __future__ import annotations

import subprocess
from pathlib import Path


class GitError(Exception):
    """A command that git refused, or that could not be started; ``lines`` is what there is to say of it."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines or ("git failed",)
        super().__init__("\n".join(self.lines))


def git(folder: Path, *words: str) -> bytes:
    """Return the output of a git command in *folder*.  Raises :class:`GitError`."""
    command = ["git", "--no-pager", "-c", "core.fsmonitor=", "-c", "core.quotePath=false", *words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    except OSError as error:
        raise GitError((f"git cannot be run: {(error.strerror or str(error)).lower()}",)) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(tuple(line.removeprefix("fatal: ") for line in said))
    return done.stdout
