"""The results of earlier checks, by all that they rest on.

The key of a result is made of the file's place and bytes, the options, the program and the interpreter that read it.
Kept with a result are the answers that the disk gave while it was made: the modules that were looked for, whether found
or not, and the contents of the files that were read.  It holds for as long as the disk gives these answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from autofix.cache import outcomes
from autofix.cache.outcomes import Read, Unread
from autofix.cache.store import Store
from autofix.project import files, layout, reading
from autofix.project.disk import Answers, Disk, digest, hold
from autofix.project.files import SourceFile

PACKAGE = Path(__file__).parents[1]
AT_ONCE = 256
"""Results that are kept in one transaction, and looked for in one question."""


@dataclass(frozen=True)
class Asked:
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
    _paths: dict[str, Path] = field(default_factory=dict)
    """Paths of files that several others import, by their names."""

    def __post_init__(self) -> None:
        self._common = repr((self.from_root, *surroundings()))

    def find(self, asked: Sequence[Asked]) -> list[tuple[SourceFile, Read | Unread] | None]:
        """For each file, the outcome that an earlier check has kept for it; None where it is to be checked.

        A caller with many files asks for :data:`AT_ONCE` of them at a time: all are in memory together.
        """
        data = [_bytes(one.path) for one in asked]
        keys = [
            self._key(one, digest(held)) if held is not None else b"" for one, held in zip(asked, data, strict=True)
        ]
        known = self.store.get([key for key in keys if key])
        return [
            self._restored(one, held, known[key]) if held is not None and key in known else None
            for one, key, held in zip(asked, keys, data, strict=True)
        ]

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
        parts = "\0".join((self._common, asked.options, os.path.abspath(asked.path), digest_of_file))
        return blake2b(parts.encode("utf-8", "surrogateescape"), digest_size=16).digest()

    def _restored(self, asked: Asked, data: bytes, text: str) -> tuple[SourceFile, Read | Unread] | None:
        """The outcome in a text, if it still holds."""
        try:
            name = files.display_name(asked.path, from_root=self.from_root)
            file = files.decode(data, name)
            answers, outcome = outcomes.read(text, asked.path, file, self._companion)
            return (file, outcome()) if hold(answers, self.disk) else None
        except Exception:  # a damaged text, or a file that is gone by now: as if it had never been checked
            return None

    def _companion(self, place: str) -> tuple[Path, SourceFile]:
        """Another file, as it was when the disk was asked for its digest."""
        path = self._paths.get(place) or self._paths.setdefault(place, Path(place))
        known = self.disk.digest(place)
        file = self.disk.read(path, from_root=self.from_root)
        if self.disk.digest(place) != known:
            raise ValueError("changed")
        return path, file


def _bytes(path: Path) -> bytes | None:
    try:
        return reading.read(path)
    except OSError:
        return None


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
