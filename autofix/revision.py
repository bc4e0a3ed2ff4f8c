"""The files of a project as git has them at a revision, beside the files as they are."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

from autofix.execution.runner import Script
from autofix.foreign import as_it_is
from autofix.project import files


def since(script: Script, revision: str) -> tuple[Script, Script]:
    """*script* at *revision*, and as it lies on the disk.

    Raises :class:`autofix.project.files.FileError` where git does not know the revision, or no source has
    changed since.
    """
    listed = git(
        script, "diff", "--no-ext-diff", "--name-only", "--relative", "-z", "--diff-filter=M", revision, "--", "."
    )
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    texts = {}
    for name in names:
        if name.endswith(".py"):
            data = git(script, "show", "--no-textconv", f"{revision}:./{name}")
            texts[name] = files.decode(data, f"{revision}:{name}").text
    if not texts:
        raise files.FileError(files.display_name(script.folder), f"no source has changed since {revision}")
    own = texts.get(script.key)
    others = {name: text for name, text in texts.items() if name != script.key}
    before = replace(script, text=own, others=tuple(others.items()))
    return before, as_it_is(script, texts)


def git(script: Script, *words: str) -> bytes:
    """What a git command prints in the project's root.  Raises :class:`autofix.project.files.FileError`."""
    name = files.display_name(script.folder)
    try:
        # No hooks, pagers or external diffs of the repository are started.
        done = subprocess.run(
            ["git", "--no-pager", "-c", "core.fsmonitor=", *words],
            cwd=script.folder,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise files.FileError(name, f"git cannot be run: {files.reason_of(error)}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise files.FileError(name, said[-1].removeprefix("fatal: ") if said else "git failed")
    return done.stdout
