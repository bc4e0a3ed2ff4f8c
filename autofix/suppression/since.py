"""The lines that were changed since a revision of git: with ``--since``, only mistakes in them are reported."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autofix.findings import Finding
from autofix.project import files
from autofix.project.cells import SUFFIX
from autofix.project.git import GitError, git, require_revision

SOURCES = ("*.py", f"*{SUFFIX}")


class RevisionError(Exception):
    """A revision that git does not know, or a folder that is in no repository."""


@dataclass(frozen=True)
class Changed:
    """For every file with changes, by its real path, the lines that are new; None for all of a new file."""

    lines: tuple[tuple[str, tuple[int, ...] | None], ...]

    def touches(self, finding: Finding) -> bool:
        """Whether a place of the finding's story is new; of the loop that it crosses, only the head counts."""
        known = dict(self.lines)
        for span in (finding.cause, *(role.span for role in finding.roles())):
            path = os.path.realpath(span.path)
            if path not in known:
                continue
            lines = known[path]
            last = span.line if span.end_line - span.line > 20 else span.end_line
            if lines is None or any(span.line <= line <= last for line in lines):
                return True
        return False


def changed_since(revision: str, folder: Path) -> Changed:
    """Changes in the repository around *folder* since *revision*, including new files that git does not track.

    Raises :class:`RevisionError`.
    """
    from unidiff.patch import PatchSet

    try:
        require_revision(revision)
        top = Path(os.fsdecode(git(folder, "rev-parse", "--show-toplevel")).rstrip("\n"))
        diff = git(top, "diff", "--no-ext-diff", "--no-color", "--no-renames", "-U0", revision, "--", *SOURCES)
        untracked = git(top, "ls-files", "--others", "--exclude-standard", "-z", "--", *SOURCES)
    except GitError as error:
        raise RevisionError(f"--since {revision}: {error.lines[0]}") from None
    found: dict[str, tuple[int, ...] | None] = {}
    for file in PatchSet(diff.decode("utf-8", "replace")):
        path = os.path.realpath(top / file.path)
        added = [line.target_line_no for hunk in file for line in hunk if line.is_added]
        removed = [hunk.target_start for hunk in file if not hunk.target_length]  # the line before the deleted ones
        found[path] = in_program(path, {number for number in [*added, *removed] if number})
    for name in untracked.split(b"\0"):
        if name:
            found[os.path.realpath(top / os.fsdecode(name))] = None
    return Changed(tuple(sorted(found.items())))


def in_program(path: str, lines: set[int]) -> tuple[int, ...]:
    """Changed *lines* of a file as lines of its program: a notebook's file lines are mapped to lines of its cells."""
    if path.endswith(SUFFIX):
        with suppress(files.FileError):
            known = files.read(Path(path)).notebook
            return tuple(known.program_lines(lines)) if known is not None else ()
    return tuple(sorted(lines))
