"""A scratch copy of a project: the folder in which a run may read and write as it likes.

The copy has the project's own shape, and stands among links to the neighbours of the original, so that relative paths
lead where they led.  Large files are linked; the run copies one before it is written (``child/copies.py``), and the
sandbox forbids every change behind a link.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
import tokenize
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from autofix.execution.guardian import GUARD

SKIPPED = frozenset(
    {".git", ".hg", ".svn", "__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".ipynb_checkpoints", ".idea", ".vscode"}
)
LARGE = 8 * 2**20
"""Bytes from which a file is linked rather than copied, unless it is source or the file system shares its blocks."""
TOTAL = 256 * 2**20
"""Bytes that are copied altogether; what comes after is linked."""
MOST = 20_000
"""Entries that are copied; the folders after are linked whole (a data set of many files)."""
CROWD = 1_000
"""Entries of a folder from which it is linked whole, unless it holds source."""
NEIGHBOURS = 1_000
"""Links to what lies beside the project."""
ROOM = 64 * 2**10
"""Bytes without which a file system counts as full."""
FULL = (errno.ENOSPC, errno.EDQUOT)
PREFIX = "autofix-"
LOCK = "autofix.lock"
MAGIC = "The lock of a scratch folder of autofix: its owner holds it as long as the folder is in use.\n"
FICLONE = 0x40049409
"""Request of Linux to share the blocks of two files (include/uapi/linux/fs.h)."""


@dataclass(frozen=True)
class Scratch:
    """The folders of one run, all below ``top``."""

    top: Path
    copy: Path
    """The counterpart of the project's root."""
    start: Path
    """The counterpart of the caller's working directory."""

    @property
    def temporary(self) -> Path:
        """For temporary files."""
        return self.top / "tmp"

    @property
    def job(self) -> Path:
        """What the run is asked to do, for the processes that the script starts."""
        return self.top / "descendants.json"

    @property
    def record(self) -> Path:
        return self.top / "record.jsonl"


@contextmanager
def scratch_copy(root: Path, texts: Mapping[str, str], cwd: Path | None = None) -> Iterator[Scratch]:
    """A temporary copy of the project at *root* with *texts* (relative path to content) written over it.

    *cwd* is the caller's working directory, the root where it is not given.  All is removed at the end.
    """
    sweep()
    top = Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    GUARD.add(top)  # before it is there, so that there is no moment at which nobody knows of it
    top.mkdir(0o700)
    lock = _take(top / LOCK)
    try:
        scratch = _populate(top, root, cwd or root)
        for name, text in texts.items():
            write_over(scratch.copy, name, encode(text))
        yield scratch
    finally:
        shutil.rmtree(top, ignore_errors=True)
        GUARD.discard(top)
        if lock is not None:
            os.close(lock)


def _populate(top: Path, root: Path, cwd: Path) -> Scratch:
    (top / "tmp").mkdir()
    base = cwd if cwd != root and root.is_relative_to(cwd) else root.parent
    copy = mirror(base, root, top / "tree")
    copy_folder(root, copy)
    if cwd.is_relative_to(base):
        start = top / "tree" / cwd.relative_to(base)
        start.mkdir(parents=True, exist_ok=True)  # it may lie in a folder that is left out
    else:
        start = mirror(cwd, cwd, top / "here")
        link_neighbours(cwd, start, None)
    return Scratch(top, copy, start)


def mirror(base: Path, root: Path, target: Path) -> Path:
    """Make the counterpart of *base* at *target*, down to *root* and without it, with links to all that lies beside."""
    target.mkdir()
    here = base
    for part in root.relative_to(base).parts:
        link_neighbours(here, target, part)
        here, target = here / part, target / part
        if here != root:
            target.mkdir()
    return target


def link_neighbours(folder: Path, target: Path, but: str | None) -> None:
    """Link the entries of *folder*, those left out that belong to no program."""
    for entry in _entries(folder)[:NEIGHBOURS]:
        if entry.name != but and entry.name not in SKIPPED and not entry.name.startswith(PREFIX):
            (target / entry.name).symlink_to(entry.path)


def copy_folder(source: Path, target: Path) -> None:
    """Copy breadth first, so that what lies near the root is a copy, and the depths of large data are links."""
    target.mkdir(exist_ok=True)
    copied, entries = 0, 0
    queue = deque([(source, target)])
    while queue:
        here, there = queue.popleft()
        for entry in _entries(here):
            entries += 1
            place = there / entry.name
            if entry.name in SKIPPED or entry.name.startswith(PREFIX):
                continue
            with _what_can_be_read():
                if entry.is_symlink():
                    _link_again(entry, place, source, target)
                elif entry.is_dir():
                    if is_environment(Path(entry.path)):
                        continue
                    if entries > MOST or is_crowd(Path(entry.path)):
                        place.symlink_to(entry.path)
                    else:
                        place.mkdir()
                        queue.append((Path(entry.path), place))
                elif stat.S_ISREG(entry.stat().st_mode):
                    size = entry.stat().st_size
                    is_source = entry.name.endswith(".py") and size < LARGE
                    if is_source or (size < LARGE and copied + size <= TOTAL and entries <= MOST):
                        copied += size
                        shutil.copyfile(entry.path, place)
                        if entry.stat().st_mode & stat.S_IXUSR:
                            place.chmod(0o700)
                    elif not shares_blocks(Path(entry.path), place):
                        place.symlink_to(entry.path)


@contextmanager
def _what_can_be_read() -> Iterator[None]:
    """Leave out what is not readable, or gone by now: the script could not read it either.

    Raises :class:`OSError` where the disk is full: a copy in part is another project.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise


def is_full(folder: Path) -> bool:
    """Whether the file system of *folder* takes nothing more."""
    try:
        status = os.statvfs(folder)
    except (AttributeError, OSError):  # Windows
        return False
    return status.f_bavail * status.f_frsize < ROOM or (status.f_files > 0 and status.f_favail == 0)


def no_room() -> str:
    """What to say where a run finds no room."""
    return f"the temporary folder {tempfile.gettempdir()} is full; TMPDIR names another one"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _link_again(entry: os.DirEntry[str], place: Path, source: Path, target: Path) -> None:
    """A link of the project: to the counterpart where it leads to a place within the project."""
    end = Path(os.path.realpath(entry.path))
    if not end.exists():
        return
    inside = end.is_relative_to(source)
    place.symlink_to(target / end.relative_to(source) if inside else end)


def is_environment(folder: Path) -> bool:
    """Whether *folder* is a virtual or a conda environment."""
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").is_dir()


def is_crowd(folder: Path) -> bool:
    """Whether a folder holds very many entries, and no source: it is data."""
    entries = _entries(folder)
    return len(entries) > CROWD and not any(entry.name.endswith(".py") for entry in entries)


def shares_blocks(source: Path, target: Path) -> bool:
    """Copy a file without copying its blocks, where the file system can (btrfs, XFS); whether it could."""
    try:
        from fcntl import ioctl
    except ImportError:
        return False
    try:
        with open(source, "rb") as one, open(target, "xb") as other:
            ioctl(other.fileno(), FICLONE, one.fileno())
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True


def write_over(copy: Path, name: str, data: bytes) -> None:
    """Give the file *name* of a copy another content.  No link is followed: behind it lies the user's own file."""
    *folders, last = Path(name).parts
    here = copy
    for part in folders:
        here = here / part
        if here.is_symlink():
            original = Path(os.path.realpath(here))
            here.unlink()
            here.mkdir()
            link_neighbours(original, here, None)
        here.mkdir(exist_ok=True)
    target = here / last
    target.unlink(missing_ok=True)
    target.write_bytes(data)


def encode(text: str) -> bytes:
    """*text* in the encoding that its own coding line declares, UTF-8 without one; line endings as they are."""
    encoding, _ = tokenize.detect_encoding(BytesIO(text.encode("utf-8")).readline)
    return text.encode(encoding)


# Folders that were left behind ---------------------------------------------------------------------------------------


def _take(path: Path) -> int | None:
    """Make the lock file of a scratch folder and hold it until the descriptor is closed; None where there are no locks.

    The lock is the kernel's: it holds across containers that share the folder, and ends with its owner.
    """
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a file system without locks
        flock(descriptor, LOCK_EX | LOCK_NB)
    os.write(descriptor, MAGIC.encode())  # only now is it a lock file: nobody can find it free before
    return descriptor


def sweep() -> None:
    """Remove the scratch folders of processes that were killed before they could.

    Only what carries the tool's own lock file, and a lock that nobody holds any more, is one.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not path.is_symlink() and path.is_dir() and is_left_behind(path):
                shutil.rmtree(path, ignore_errors=True)


def is_left_behind(folder: Path) -> bool:
    """Whether *folder* is a scratch folder of this user's whose owner has ended."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return False
    lock = folder / LOCK
    try:
        if folder.stat().st_uid != os.getuid() or lock.is_symlink() or lock.stat().st_size != len(MAGIC):
            return False
        if lock.read_text(encoding="utf-8") != MAGIC:
            return False
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except (OSError, UnicodeDecodeError):
        return False
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
