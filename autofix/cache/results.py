"""The results of earlier checks, by all that they rest on.

The key of a result is made of the file's place and bytes, the options, the program and the interpreter that read it.
Kept with a result are the answers that the disk gave while it was made: the modules that were looked for, whether found
or not, and the contents of the files that were read.  It holds for as long as the disk gives these answers.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from autofix.cache import outcomes
from autofix.cache.outcomes import Read, Unread
from autofix.cache.store import Store
from autofix.project import files, layout
from autofix.project.disk import Answers, Disk, digest, hold
from autofix.project.files import SourceFile

PACKAGE = Path(__file__).parents[1]
AT_ONCE = 256
"""Results that are kept in one transaction, and looked for in one question."""
SETTLED = 2_000_000_000
"""Nanoseconds since its last change from which the status of a file is kept: FAT counts in steps of two seconds."""


class Asked(NamedTuple):
    """A file that is to be checked, and a text with all of its options that matter to the result."""

    path: Path
    options: str


@dataclass
class Results:
    """Results in the *store* for one command, which names files *from_root* or not."""

    store: Store
    from_root: bool = False
    disk: Disk = field(default_factory=Disk)
    _common: str = field(init=False)
    _pending: list[tuple[bytes, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._common = repr((self.from_root, *surroundings()))

    def find(self, asked: Sequence[Asked]) -> list[tuple[str, Read | Unread] | None]:
        """For each file, its name and the outcome that an earlier check has kept; None where it is to be checked.

        A caller with many files asks for :data:`AT_ONCE` of them at a time: all are in memory together.
        """
        digests = self._digests([os.path.abspath(one.path) for one in asked])
        keys = [self._key(one, read) if read else b"" for one, read in zip(asked, digests, strict=True)]
        known = self.store.get([key for key in keys if key])
        return [self._restored(one, known[key]) if key in known else None for one, key in zip(asked, keys, strict=True)]

    def _digests(self, places: Sequence[str]) -> list[str]:
        """The digests of files, of which those are read alone that have changed since their digest was kept."""
        keys = [_hashed(f"digest\0{place}") for place in places]
        known = self.store.get(keys)
        now = time.time_ns()
        for place, key in zip(places, keys, strict=True):
            if self.disk.knows(place) or (status := Status.of(place)) is None:
                continue
            kept, _, read = known.get(key, "").rpartition(" ")
            if kept == status.text:
                self.disk.take(place, read)
            elif (read := self.disk.digest(place)) and status.is_settled(now) and Status.of(place) == status:
                self._pending.append((key, f"{status.text} {read}"))
        return [self.disk.digest(place) for place in places]

    def add(self, asked: Asked, digest_of_file: str, answers: Answers, outcome: Read | Unread) -> None:
        """Keep an outcome that rests on the *answers* of the disk."""
        try:
            text = outcomes.written(outcome, answers.document)
        except TypeError:
            return
        self._pending.append((self._key(asked, digest_of_file), text))
        if len(self._pending) >= AT_ONCE:
            self._flush()

    def close(self) -> None:
        self._flush()
        self.store.close()

    def _flush(self) -> None:
        self.store.put(self._pending)
        self._pending = []

    def _key(self, asked: Asked, digest_of_file: str) -> bytes:
        return _hashed("\0".join((self._common, asked.options, os.path.abspath(asked.path), digest_of_file)))

    def _restored(self, asked: Asked, text: str) -> tuple[str, Read | Unread] | None:
        """The outcome in a text, if it still holds."""
        try:
            name = files.display_name(asked.path, from_root=self.from_root)
            answers, outcome = outcomes.read(text, asked.path, name, self._unchanged)
            return (name, outcome()) if hold(answers, self.disk) else None
        except Exception:  # a damaged text, or a file that is gone by now: as if it had never been checked
            return None

    def _unchanged(self, path: Path) -> SourceFile:
        """The file at *path*, as it was when the disk was asked for its digest.  Raises :class:`ValueError`."""
        place = files.absolute(path)
        known = self.disk.digest(str(place))
        file = self.disk.read(place, from_root=self.from_root)
        if self.disk.digest(str(place)) != known:
            raise ValueError("changed")
        return file


class Status(NamedTuple):
    """What the system says of a file's content without its being read: its bytes are the same where all of it is."""

    size: int
    modified: int
    changed: int
    """Time of the last change, which no program sets, in nanoseconds as ``modified``; Windows has none."""
    number: int

    @classmethod
    def of(cls, place: str) -> Status | None:
        """The status of the regular file at *place*; None where there is none."""
        try:
            status = os.stat(place)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @property
    def text(self) -> str:
        return " ".join(map(str, self))

    def is_settled(self, now: int) -> bool:
        """Whether another change from *now* on would show: the clock of a file system may stand still for a while."""
        return max(self.modified, self.changed) < now - SETTLED


def _hashed(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def surroundings() -> tuple[object, ...]:
    """Conditions of every result beside the project: the programs that make it, and the environment."""
    environment = tuple(os.environ.get(name, "") for name in ("PYTHONPATH", "HOME", "USERPROFILE"))
    own_path = tuple(map(str, layout.environment_roots(sys.executable)))
    return (sys.version, sys.platform, stamp(), os.getcwd(), *environment, own_path)


def stamp() -> str:
    """The state of the program's own files and of LibCST's: an edited or another version makes other results."""
    parts: list[str] = []
    pending = [PACKAGE]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(Path(entry.path))
                elif entry.name.endswith((".py", ".json", ".so", ".pyd")):
                    status = entry.stat()
                    parts.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    libcst = find_spec("libcst")
    if libcst is not None and libcst.origin is not None:
        status = os.stat(libcst.origin)
        parts.append(f"{libcst.origin} {status.st_size} {status.st_mtime_ns}")
    return digest("\n".join(sorted(parts)).encode("utf-8", "surrogateescape"))
