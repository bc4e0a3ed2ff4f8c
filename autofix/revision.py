"""The files of a project as git has them at a revision, beside the files as they are."""

from __future__ import annotations

import os
from dataclasses import replace

from autofix.execution.runner import Script
from autofix.foreign import as_it_is
from autofix.project import files
from autofix.project.git import GitError, git, require_revision


class UnknownRevision(files.FileError):
    """A revision that git does not know, or a folder that is in no repository."""


def since(script: Script, revision: str) -> tuple[Script, Script]:
    """*script* at *revision*, and as it lies on the disk.

    Raises :class:`UnknownRevision` where git does not know the revision, and another
    :class:`autofix.project.files.FileError` where no source has changed since.
    """
    try:
        require_revision(revision)
    except GitError as error:
        raise UnknownRevision(files.display_name(script.folder), error.lines[-1]) from None
    listed = of_git(
        script, "diff", "--no-ext-diff", "--name-only", "--relative", "-z", "--diff-filter=M", revision, "--", "."
    )
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    texts = {}
    for name in names:
        if name.endswith(".py"):
            data = of_git(script, "show", "--no-textconv", f"{revision}:./{name}")
            texts[name] = files.decode(data, f"{revision}:{name}").text
    if not texts:
        raise files.FileError(files.display_name(script.folder), f"no source has changed since {revision}")
    own = texts.get(script.key)
    others = {name: text for name, text in texts.items() if name != script.key}
    before = replace(script, text=own, others=tuple(others.items()))
    return before, as_it_is(script, texts)


def of_git(script: Script, *words: str) -> bytes:
    """Return the output of a git command in the project's root.  Raises :class:`UnknownRevision`."""
    try:
        return git(script.folder, *words)
    except GitError as error:
        raise UnknownRevision(files.display_name(script.folder), error.lines[-1]) from None
