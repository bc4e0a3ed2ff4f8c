"""Data of a campaign: the task for one repository, and the outcome that is kept of it.

Both travel between machines and lie in files as JSON, hence structs of plain values.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath
from typing import Any, Literal

import msgspec

TRIES = 2
"""Number of times that a repository is begun whose worker or process is killed from outside."""

Status = Literal["done", "timed out", "out of memory", "died", "not there", "failed"]
"""Status of a repository's task.  ``died``: its process or worker was killed from outside, at each of its tries."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits for one repository, and the options of its check."""

    seconds: float = 600.0
    memory: int = 4 * 2**30
    """Bytes of all its processes together."""
    unsafe: bool = False
    isolated: bool = False
    open_branch: bool = False
    python: str = ""
    """The interpreter that runs scripts; autofix's own where it is empty."""


class Task(msgspec.Struct, frozen=True):
    """One repository, and the command for it."""

    source: str
    """An absolute path, or a git URL."""
    is_url: bool = False
    command: tuple[str, ...] = ()
    """Arguments of ``autofix run``; without any, ``autofix check`` reads the checkout."""
    cache: str = ""
    """The folder for clones."""
    bounds: Bounds = Bounds()
    program: tuple[str, ...] = ()
    """Words that start autofix on the machine that does the work; empty for that machine's own interpreter."""

    @property
    def name(self) -> str:
        """A name for files: legible, and different for every source and command."""
        digest = hashlib.sha256("\0".join((self.source, *self.command)).encode(errors="surrogatepass")).hexdigest()
        last = PurePath(self.source.rstrip("/").rpartition(":")[2]).name.removesuffix(".git")
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', last).strip('-.')[:60] or 'repository'}-{digest[:10]}"

    @property
    def needs_torch(self) -> bool:
        return bool(self.command)


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of the task for one repository."""

    name: str
    source: str
    command: tuple[str, ...] = ()
    status: Status = "done"
    reason: str = ""
    """Why it is not done, in a sentence."""
    revision: str = ""
    """The commit that was checked out."""
    seconds: float = 0.0
    memory: int = 0
    """The most bytes that its processes held together."""
    tries: int = 1
    branch: str = ""
    branch_note: str = ""
    """Why there is no branch although there is a patch."""
    document: dict[str, Any] | None = None
    """The JSON document that ``check`` or ``run`` printed."""

    @property
    def proof(self) -> dict[str, Any] | None:
        return (self.document or {}).get("proof")

    @property
    def proved(self) -> bool:
        return bool(self.proof and self.proof["proved"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [*(self.document or {}).get("findings", [])]

    @property
    def patch(self) -> str:
        """The patch that may be applied: of a run only one that is proved."""
        if self.document is None or (self.command and not self.proved):
            return ""
        return str(self.document["patch"])


def outcome_of(task: Task, status: Status, reason: str, tries: int = 1) -> Outcome:
    """The outcome of a repository that has no document."""
    return Outcome(task.name, task.source, task.command, status, reason, tries=tries)
