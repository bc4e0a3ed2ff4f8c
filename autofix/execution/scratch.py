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
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autofix.execution.guardian import GUARD
from autofix.project.files import declared_encoding

SKIPPED = frozenset(
    {".git", ".hg", ".svn", "__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".ipynb_checkpoints", ".idea", ".vscode"}
)
LARGE = 8 * 2**20
"""Bytes from which a file is linked rather than copied, unless it is source or the file system shares its blocks."""
TOTAL = 256 * 2**20
"""Bytes that are copied altogether; files after that are linked."""
MOST = 20_000
"""Entries that are copied; the folders after are linked whole (a data set of many files)."""
CROWD = 1_000
"""Entries of a folder from which it is linked whole, unless it holds source."""
NEIGHBOURS = 1_000
"""Most links to files and folders beside the project."""
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
        """The folder for temporary files."""
        return self.top / "tmp"

    @property
    def job(self) -> Path:
        """The file with the job, for the processes that the script starts."""
        return self.top / "descendants.json"

    @property
    def record(self) -> Path:
        return self.top / "record.jsonl"


class _Filling:
    """Contents of a scratch folder: entries that an earlier run has left unchanged stay, all others are made anew.

    Most entries stay: no run changes more than a few, and making a file takes a file system much longer than looking at
    it.  A file is unchanged if neither the user's nor its copy has changed since it was copied; no program sets the
    time of a change of the copy's own record (``st_ctime``).
    """

    def __init__(self) -> None:
        self._copied: dict[str, tuple[int, ...]] = {}
        self._modes: dict[str, int] = {}
        self._placed: set[str] = set()

    def begin(self) -> None:
        """Begin anew: no entry is in its place yet."""
        self._placed.clear()

    def leave(self, place: Path) -> None:
        """Leave the entry at *place* alone: somebody else sees to it."""
        self._placed.add(str(place))

    def folder(self, place: Path) -> None:
        name = str(place)
        self._placed.add(name)
        mode = _mode_at(name)
        if not stat.S_ISDIR(mode):
            _remove(name)
            os.mkdir(name)
            self._modes[name] = _mode_at(name)
        elif mode != self._modes.get(name, mode):
            os.chmod(name, stat.S_IMODE(self._modes[name]))

    def link(self, place: Path, end: str | Path) -> None:
        name, end = str(place), str(end)
        self._placed.add(name)
        mode = _mode_at(name)
        if not (stat.S_ISLNK(mode) and os.readlink(name) == end):
            _remove(name)
            os.symlink(end, name)

    def file(self, status: os.stat_result, place: Path, copied: Callable[[Path], None]) -> None:
        """Have a copy of the file with this *status* at *place*; *copied* makes it unless it is there unchanged."""
        name = str(place)
        self._placed.add(name)
        if name in self._copied and self._copied[name] == _stamp(status, name):
            return
        _remove(name)
        copied(place)
        self._copied[name] = _stamp(status, name)

    def end(self, top: Path) -> None:
        """Remove all entries that were not put there.  Raises :class:`OSError` where a folder cannot be read."""
        pending = [str(top)]
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.path not in self._placed:
                        _remove(entry.path)
                    elif entry.path in self._modes:
                        pending.append(entry.path)


def _mode_at(name: str) -> int:
    """The kind and the permissions of the entry at *name*; 0 where there is none."""
    try:
        return os.lstat(name).st_mode
    except FileNotFoundError:
        return 0


def _stamp(status: os.stat_result, name: str) -> tuple[int, ...]:
    """Figures that change with the original of this *status* or with its copy; empty where there is no copy."""
    try:
        own = os.lstat(name)
    except FileNotFoundError:
        return ()
    theirs = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    return (*theirs, own.st_ino, own.st_size, own.st_mode, own.st_ctime_ns)


def _remove(name: str) -> None:
    mode = _mode_at(name)
    if stat.S_ISDIR(mode):
        shutil.rmtree(name)
    elif mode:
        os.unlink(name)


class _Folder:
    """A scratch folder on the disk, for one run after another of the same project."""

    def __init__(self, root: Path, cwd: Path) -> None:
        self.project = (root, cwd)
        self._filling = _Filling()
        self.top = Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        GUARD.add(self.top)  # before it is there, so that there is no moment at which nobody knows of it
        self.top.mkdir(0o700)
        self._lock = _take(self.top / LOCK)

    def filled(self) -> Scratch:
        """Fill the folder with the project as it is now, after any earlier run; remove the folder where that fails."""
        try:
            return self._filled()
        except BaseException:
            self.remove()
            raise

    def _filled(self) -> Scratch:
        root, cwd = self.project
        tmp, filling = self.top / "tmp", self._filling
        filling.begin()
        filling.leave(self.top / LOCK)
        filling.leave(tmp)
        _remove(str(tmp))
        tmp.mkdir()
        base = cwd if cwd != root and root.is_relative_to(cwd) else root.parent
        copy = mirror(base, root, self.top / "tree", filling)
        copy_folder(root, copy, filling)
        if cwd.is_relative_to(base):
            start = self.top / "tree"
            for part in cwd.relative_to(base).parts:
                start = start / part
                if not start.is_dir():
                    filling.folder(start)  # it lies in a folder that is left out
        else:
            start = mirror(cwd, cwd, self.top / "here", filling)
            link_neighbours(cwd, start, None, filling)
        filling.end(self.top)
        return Scratch(self.top, copy, start)

    def remove(self) -> None:
        shutil.rmtree(self.top, ignore_errors=True)
        GUARD.discard(self.top)
        if self._lock is not None:
            os.close(self._lock)


class _Kept:
    """Folders that wait for the next run of their project."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._free: list[_Folder] = []

    @contextmanager
    def block(self) -> Iterator[None]:
        with self._lock:
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                left: list[_Folder] = []
                if not self._depth:
                    left, self._free = self._free, left
            for folder in left:
                folder.remove()

    def take(self, root: Path, cwd: Path) -> tuple[_Folder, Scratch]:
        """A folder with a copy of the project at *root*."""
        with self._lock:
            known = next((one for one in self._free if one.project == (root, cwd)), None)
            if known is not None:
                self._free.remove(known)
        if known is not None:
            try:
                return known, known.filled()
            except OSError as error:  # the leavings of a run cannot be put right
                if error.errno in FULL:
                    raise
        folder = _Folder(root, cwd)
        return folder, folder.filled()

    def give_back(self, folder: _Folder) -> None:
        with self._lock:
            if self._depth and len(self._free) < MOST_KEPT:
                self._free.append(folder)
                return
        folder.remove()


MOST_KEPT = 2
_KEPT = _Kept()
kept_copies = _KEPT.block
"""A block within which a copy serves one run after the other of its project; each finds it as if it were new."""


@contextmanager
def scratch_copy(root: Path, texts: Mapping[str, str], cwd: Path | None = None) -> Iterator[Scratch]:
    """A temporary copy of the project at *root* with *texts* (relative path to content) written over it.

    *cwd* is the caller's working directory, the root where it is not given.  All is removed at the end.
    """
    sweep()
    folder, scratch = _KEPT.take(root, cwd or root)
    try:
        for name, text in texts.items():
            write_over(scratch.copy, name, encode(text))
        yield scratch
    finally:
        _KEPT.give_back(folder)


def mirror(base: Path, root: Path, target: Path, filling: _Filling) -> Path:
    """Make the counterpart of *base* at *target*, down to *root* and without it, with links to all that lies beside."""
    filling.folder(target)
    here = base
    for part in root.relative_to(base).parts:
        link_neighbours(here, target, part, filling)
        here, target = here / part, target / part
        if here != root:
            filling.folder(target)
    return target


def link_neighbours(folder: Path, target: Path, but: str | None, filling: _Filling) -> None:
    """Link the entries of *folder*, without entries that belong to no program."""
    for entry in _entries(folder)[:NEIGHBOURS]:
        if entry.name != but and entry.name not in SKIPPED and not entry.name.startswith(PREFIX):
            filling.link(target / entry.name, entry.path)


def copy_folder(source: Path, target: Path, filling: _Filling) -> None:
    """Copy breadth first, so that entries near the root are copies, and the depths of large data are links."""
    filling.folder(target)
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
                    _link_again(entry, place, source, target, filling)
                elif entry.is_dir():
                    if is_environment(Path(entry.path)):
                        continue
                    if entries > MOST or is_crowd(Path(entry.path)):
                        filling.link(place, entry.path)
                    else:
                        filling.folder(place)
                        queue.append((Path(entry.path), place))
                elif stat.S_ISREG(entry.stat().st_mode):
                    size = entry.stat().st_size
                    is_source = entry.name.endswith(".py") and size < LARGE
                    if is_source or (size < LARGE and copied + size <= TOTAL and entries <= MOST):
                        copied += size
                        filling.file(entry.stat(), place, partial(_copy, entry))
                    else:
                        filling.file(entry.stat(), place, partial(_share, entry.path))


def _copy(entry: os.DirEntry[str], place: Path) -> None:
    shutil.copyfile(entry.path, place)
    if entry.stat().st_mode & stat.S_IXUSR:
        place.chmod(0o700)


def _share(source: str, place: Path) -> None:
    """Share the blocks of a large file, or link it."""
    if not shares_blocks(Path(source), place):
        place.symlink_to(source)


@contextmanager
def _what_can_be_read() -> Iterator[None]:
    """Leave out files that are not readable, or gone by now: the script could not read them either.

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
    """Message where a run finds no room."""
    return f"the temporary folder {tempfile.gettempdir()} is full; TMPDIR names another one"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _link_again(entry: os.DirEntry[str], place: Path, source: Path, target: Path, filling: _Filling) -> None:
    """A link of the project: to the counterpart where it leads to a place within the project."""
    end = Path(os.path.realpath(entry.path))
    if not end.exists():
        return
    inside = end.is_relative_to(source)
    filling.link(place, target / end.relative_to(source) if inside else end)


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
            link_neighbours(original, here, None, _Filling())
        here.mkdir(exist_ok=True)
    target = here / last
    target.unlink(missing_ok=True)
    target.write_bytes(data)


def encode(text: str) -> bytes:
    """*text* in the encoding that its own coding line declares, UTF-8 without one; line endings as they are."""
    return text.encode(declared_encoding(text.encode("utf-8")))


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

    A folder counts only with the tool's own lock file in it, and a lock that nobody holds any more.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not path.is_symlink() and path.is_dir() and is_left_behind(path):
                shutil.rmtree(path, ignore_errors=True)


def is_left_behind(folder: Path) -> bool:
    """Whether *folder* is a scratch folder of this user, and its owner has ended."""
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
