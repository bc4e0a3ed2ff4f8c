"""The disk as one command sees it: each folder is listed and each file read once, and questions are noted.

The program of a script depends on more than its text: on the files that its imports lead to, and on files that were
looked for and are not there.  :class:`Answers` holds all of it, so that a stale result is recognized.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from autofix.project import files, reading
from autofix.project.layout import Known, Layout, checkout_of, import_roots, root_of

MOST_BYTES = 16_000_000
"""Bytes of files that are kept in memory, for the next program that they belong to."""
NONE: frozenset[str] = frozenset()
Names = dict[str, dict[str, list[str]]]
"""Entries of folders, by folder and stem: none for a module that was looked for in vain."""


class Disk:
    """View of the disk.  Changes after the first look at a file are not seen: each command has a view of its own."""

    def __init__(self) -> None:
        self._folders: dict[str, Mapping[str, frozenset[str]]] = {}
        self._files: OrderedDict[str, files.SourceFile | files.FileError] = OrderedDict()
        self._bytes = 0
        self._digests: dict[str, str] = {}
        self._layouts: dict[tuple[Path, Path, Path | None, tuple[Path, ...]], Layout] = {}
        self._roots: Known = {}
        self._checkouts: Known = {}
        self._of_roots: dict[Path, Layout] = {}
        self._projects: dict[tuple[str, str], list[str]] = {}
        self._real: dict[str, str] = {}
        self.imported: dict[tuple[str, int, tuple[str, ...], tuple[str, ...]], tuple[tuple[Path, ...], Names]] = {}
        """Imports, and names asked for, by source, hash of its text and the folders that are searched."""

    def called(self, folder: str, stem: str) -> frozenset[str]:
        """The entries of a folder whose names up to the first dot are *stem*; names of folders end in a slash."""
        return self.listed(folder).get(stem, NONE)

    def listed(self, folder: str) -> Mapping[str, frozenset[str]]:
        """The entries of a folder by their stems; none where it cannot be listed."""
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = _listing(folder)
        return known

    def read(self, path: Path, *, from_root: bool = False) -> files.SourceFile:
        """The file at *path*.  Raises :class:`autofix.project.files.FileError`."""
        key = str(path)
        known = self._files.get(key)
        if known is None:
            known = self._read(path, from_root=from_root)
            self._files[key] = known
            self._bytes += _size(known)
            while self._bytes > MOST_BYTES and len(self._files) > 1:
                self._bytes -= _size(self._files.popitem(last=False)[1])
        else:
            self._files.move_to_end(key)
        if isinstance(known, files.FileError):
            raise known
        return known

    def _read(self, path: Path, *, from_root: bool) -> files.SourceFile | files.FileError:
        try:
            file = files.read(path, files.display_name(path, from_root=from_root))
        except files.FileError as error:
            return error
        self._digests[str(path)] = digest(file.data)
        return file

    def digest(self, path: str) -> str:
        """The digest of a file's bytes; empty where it cannot be read."""
        known = self._digests.get(path)
        if known is None:
            try:
                known = digest(reading.read(Path(path)))
            except OSError:
                known = ""
            self._digests[path] = known
        return known

    def knows(self, path: str) -> bool:
        """Whether the digest of a file was asked for before."""
        return path in self._digests

    def take(self, path: str, read: str) -> None:
        """Take the digest of a file from an earlier command, after which the file has not changed."""
        self._digests[path] = read

    def layout(self, folder: Path, cwd: Path, *, root: Path | None = None, given: tuple[Path, ...] = ()) -> Layout:
        """The project of the files right in *folder*; *root* and *given* as for :func:`.layout.layout_of`."""
        key = folder, cwd, root, given
        known = self._layouts.get(key)
        if known is None:
            known = self._layouts[key] = self._layout_at(
                root.resolve() if root is not None else root_of(self._resolved(folder), cwd, given, self._roots)
            )
        return known

    def _layout_at(self, root: Path) -> Layout:
        known = self._of_roots.get(root)
        if known is None:
            known = self._of_roots[root] = Layout(root, import_roots(root))
        return known

    def checkout(self, folder: Path) -> Path | None:
        """The repository that holds *folder*."""
        return checkout_of(self._resolved(folder), self._checkouts)

    def _resolved(self, folder: Path) -> Path:
        return Path(self.real(str(folder)))

    def real(self, path: str) -> str:
        """The path without symbolic links."""
        known = self._real.get(path)
        if known is None:
            known = self._real[path] = os.path.realpath(path)
        return known

    def folder_at(self, path: str) -> str:
        """The folder that a path leads to; empty where it leads to none."""
        try:
            return real if os.path.isdir(real := self.real(path)) else ""
        except (OSError, ValueError):  # a null byte in a name
            return ""

    def project(self, folder: str, cwd: str) -> list[str]:
        """Folders that decide the project of the files in *folder*: its root, its checkout, and its import roots."""
        known = self._projects.get((folder, cwd))
        if known is None:
            layout = self.layout(Path(folder), Path(cwd))
            known = [str(layout.root), str(self.checkout(Path(folder)) or ""), *map(str, layout.import_roots)]
            self._projects[folder, cwd] = known
        return known


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _size(known: files.SourceFile | files.FileError) -> int:
    return len(known.data) if isinstance(known, files.SourceFile) else 1


def _listing(folder: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{entry.name}/" if entry.is_dir() else entry.name if entry.is_file() else ""
                if name:
                    found.setdefault(entry.name.partition(".")[0], set()).add(name)
    except OSError:
        return {}
    return {stem: frozenset(names) for stem, names in found.items()}


@dataclass
class Answers:
    """Answers of the disk to all questions that decide which files a program has."""

    cwd: str = ""
    folder: str = ""
    layout: list[str] = field(default_factory=list)
    """As :meth:`Disk.project` has it for ``folder``; empty where nobody asked."""
    names: Names = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """Digests of files, by path."""
    places: dict[str, str] = field(default_factory=dict)
    """Folders to which paths lead that a source puts on ``sys.path``, by path; empty where one leads to none."""
    links: dict[str, str] = field(default_factory=dict)
    """Paths without symbolic links, by path."""

    @property
    def document(self) -> object:
        """The answers for a file of JSON; None where nothing was asked."""
        if not (self.layout or self.names or self.texts or self.places):
            return None
        names = {
            folder: [" ".join(sorted(asked)), {stem: found for stem, found in asked.items() if found}]
            for folder, asked in self.names.items()
        }
        return [self.cwd, self.folder, self.layout, names, self.texts, self.places, self.links]


def hold(document: object, disk: Disk) -> bool:
    """Whether the *disk* still gives the answers of a :attr:`Answers.document`."""
    if document is None:
        return True
    match document:
        case [str(cwd), str(folder), list(layout), dict(names), dict(texts), dict(places), dict(links)]:
            return (
                (not layout or disk.project(folder, cwd) == layout)
                and all(_holds(disk.listed(one), asked, found) for one, (asked, found) in names.items())
                and all(disk.digest(path) == known for path, known in texts.items())
                and all(disk.folder_at(path) == known for path, known in places.items())
                and all(disk.real(path) == known for path, known in links.items())
            )
    return False


def _holds(listed: Mapping[str, frozenset[str]], asked: str, found: Mapping[str, list[str]]) -> bool:
    return all(sorted(listed[stem]) == found.get(stem) for stem in listed.keys() & asked.split(" ")) and all(
        stem in listed for stem in found
    )


@dataclass
class Inquiry:
    """Asks the disk, and notes questions and answers."""

    disk: Disk = field(default_factory=Disk)
    answers: Answers = field(default_factory=Answers)

    def called(self, folder: str, stem: str) -> frozenset[str]:
        """As :meth:`Disk.called`."""
        found = self.disk.called(folder, stem)
        asked = self.answers.names.setdefault(folder, {})
        if stem not in asked:
            asked[stem] = sorted(found)
        return found

    def note(self, names: Names) -> None:
        """Add the names that an earlier inquiry of this disk has asked for."""
        for folder, asked in names.items():
            self.answers.names.setdefault(folder, {}).update(asked)

    def read(self, path: Path, *, from_root: bool) -> files.SourceFile:
        """As :meth:`Disk.read`."""
        try:
            return self.disk.read(path, from_root=from_root)
        finally:
            self.answers.texts[str(path)] = self.disk.digest(str(path))

    def layout(self, folder: Path, cwd: Path) -> Layout:
        """As :meth:`Disk.layout`."""
        found = self.disk.layout(folder, cwd)
        self.answers.cwd, self.answers.folder = str(cwd), str(folder)
        self.answers.layout = self.disk.project(str(folder), str(cwd))
        return found

    def checkout(self, folder: Path) -> Path | None:
        """As :meth:`Disk.checkout`: noted with the layout."""
        return self.disk.checkout(folder)

    def real(self, path: Path) -> str:
        """As :meth:`Disk.real`."""
        return self.answers.links.setdefault(str(path), self.disk.real(str(path)))

    def folder_at(self, path: Path) -> Path | None:
        """As :meth:`Disk.folder_at`."""
        found = self.disk.folder_at(str(path))
        self.answers.places[str(path)] = found
        return Path(found) if found else None
