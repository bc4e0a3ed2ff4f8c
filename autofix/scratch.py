"""A scratch copy of a script's folder: what a run may read and spoil."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from autofix.guardian import GUARD

SKIPPED = frozenset(
    {".git", ".hg", ".svn", "__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".ipynb_checkpoints", ".idea", ".vscode"}
)
LARGE = 8 * 2**20
"""Bytes from which a file is linked rather than copied, unless it is source."""
TOTAL = 256 * 2**20
"""Bytes that are copied altogether; what comes after is linked."""
MOST = 5_000
"""Entries that are copied; the folders after are linked whole (a script in somebody's home folder)."""
PREFIX = "autofix-"


@contextmanager
def scratch_copy(folder: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """A temporary copy of *folder* with *texts* (relative path to content) written over it; removed at the end.

    Yields the folder *inside* the scratch directory, which has the name of the original.  The record lies beside it.
    """
    sweep()
    top = Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    GUARD.add(top)  # before it is there, so that there is no moment at which nobody knows of it
    top.mkdir(0o700)
    try:
        copy = top / (folder.name or "script")
        copy_folder(folder, copy)
        for name, text in texts.items():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # it may be a link to the original
            target.write_bytes(encode(text))
        yield copy
    finally:
        shutil.rmtree(top, ignore_errors=True)
        GUARD.discard(top)


def copy_folder(source: Path, target: Path) -> None:
    """Copy breadth first, so that what lies near the script is a copy and the depths are links."""
    target.mkdir()
    if not source.is_dir():
        return
    copied, entries = 0, 0
    queue = [(source, target)]
    while queue:
        here, there = queue.pop(0)
        for entry in _entries(here):
            entries += 1
            path = there / entry.name
            if entry.name in SKIPPED or entry.name.startswith(PREFIX):
                continue
            if entry.is_symlink() and not entry.exists():
                continue
            if entry.is_dir():
                if (entry / "pyvenv.cfg").exists():
                    continue
                if entries > MOST or entry.is_symlink():
                    path.symlink_to(entry.resolve())
                else:
                    path.mkdir()
                    queue.append((entry, path))
            elif entry.is_file():
                size = entry.stat().st_size
                is_source = entry.suffix == ".py" and size < LARGE
                if not is_source and (size >= LARGE or copied + size > TOTAL or entries > MOST):
                    path.symlink_to(entry.resolve())
                else:
                    copied += size
                    try:
                        shutil.copyfile(entry, path)
                    except OSError:  # not readable: the script could not read it either
                        continue


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def encode(text: str) -> bytes:
    """*text* in the encoding that its own coding line declares, UTF-8 without one; line endings as they are."""
    encoding, _ = tokenize.detect_encoding(BytesIO(text.encode("utf-8")).readline)
    return text.encode(encoding)


def sweep() -> None:
    """Remove the scratch folders of processes that were killed before they could."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = path.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not _alive(int(owner)) and path.is_dir() and path.stat().st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
