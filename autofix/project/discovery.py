"""Discovery of the files to read: Python files and notebooks that paths name or contain; skipped ones are reported."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from autofix.escaping import escaped
from autofix.project import reading
from autofix.project.cells import SUFFIX
from autofix.project.files import absolute, display_name, reason_of
from autofix.project.ignoring import innermost_first, is_ignored, read_gitignore, rules_above
from autofix.project.layout import checkout_of

SKIPPED_FOLDERS = frozenset(
    [
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".hg",
        ".idea",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "__pypackages__",
        "_build",
        "build",
        "buck-out",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
    ]
)
"""Folders that hold no source of the user's own (ruff's list).  One that is named on the command line is searched."""


def is_skipped(path: Path, is_folder: bool) -> bool:
    """Whether *path* is a folder that holds no source of the user's own, by its name."""
    return is_folder and path.name in SKIPPED_FOLDERS


def discover(
    paths: Iterable[Path],
    passed_by: Callable[[str], None] | None = None,
    excluded: Callable[[Path, bool], bool] = is_skipped,
) -> list[Path]:
    """Return the Python files and notebooks that *paths* name or contain, each once, sorted as they will be shown.

    A file that is named is always taken.  In a folder, files are taken that end in ``.py`` or ``.ipynb``, lie in no
    folder that is *excluded* and no virtual environment, and are not ignored by git.  For a file or folder there that
    cannot be read, *passed_by* is called with a message.
    """
    found: dict[str, Path] = {}
    folders: dict[str, str] = {}
    for path in paths:
        for file in walk(path, passed_by or (lambda _: None), excluded) if path.is_dir() else [path]:
            found.setdefault(_resolved(str(file), folders), file)
    return sorted(found.values(), key=lambda file: display_name(file))


def _resolved(file: str, folders: dict[str, str]) -> str:
    """The path of a *file* without symbolic links; *folders* keeps the paths of folders for the next file."""
    if os.path.islink(file):
        return os.path.realpath(file)
    folder, name = os.path.split(file)
    if (known := folders.get(folder)) is None:
        known = folders[folder] = os.path.realpath(folder)
    return os.path.join(known, name)


def walk(
    top: Path, passed_by: Callable[[str], None], excluded: Callable[[Path, bool], bool] = is_skipped
) -> Iterator[Path]:
    """Yield the Python files and notebooks below the folder *top*.

    No link is followed to a folder, or out of the repository.
    """
    rules = rules_above(absolute(top))
    checkout = checkout_of(top.resolve())
    pending = [top]
    while pending:  # and not by a function within a function: folders may lie in folders a thousand levels deep
        here = pending.pop()
        try:
            with os.scandir(here) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            passed_by(f"{escaped(display_name(here))}: skipped: {reason_of(error)}")
            continue
        home = absolute(here)
        if (spec := read_gitignore(home)) is not None:
            rules[home] = spec
        above = innermost_first({base: spec for base, spec in rules.items() if home.is_relative_to(base)})
        folders = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                path = here / entry.name
                is_left_out = excluded(path, True) or is_environment(entry)
                if not is_left_out and not is_ignored(home / entry.name, above, is_folder=True):
                    folders.append(path)
            elif entry.name.endswith((".py", SUFFIX)) and not is_ignored(home / entry.name, above):
                path = here / entry.name
                if excluded(path, False):
                    continue
                if reason := obstacle(entry, checkout):
                    passed_by(f"{escaped(display_name(path))}: skipped: {escaped(reason)}")
                elif not is_folder(entry):
                    yield path
        pending += reversed(folders)


def is_environment(folder: os.DirEntry[str]) -> bool:
    """Whether a folder is a virtual environment."""
    return os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether *entry* is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def obstacle(entry: os.DirEntry[str], checkout: Path | None) -> str:
    """Why an entry that is called as a source is not read, if it is not."""
    try:
        status = entry.stat()
    except OSError as error:
        return reason_of(error)
    if entry.is_symlink() and checkout is not None:
        end = Path(os.path.realpath(entry.path))
        if not end.is_relative_to(checkout):
            return f"a link to {end}, outside of the project"
    return "" if stat.S_ISDIR(status.st_mode) else reading.what_else(status)
