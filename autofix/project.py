"""The files that belong to a script: what it imports from its own project, and what those import."""

from __future__ import annotations

import ast
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from autofix import files
from autofix.files import SourceFile
from codemods.tape import source as sources
from codemods.tape.entries import may_go_wrong

MOST_FILES = 40
MOST_TEXT = 600_000
"""Files, and characters in all, of one program: beyond them the reading would take longer than anybody waits."""


@dataclass(frozen=True)
class Project:
    """A script, and the files that it brings with it."""

    path: Path
    file: SourceFile
    companions: Mapping[str, tuple[Path, SourceFile]] = field(default_factory=dict)
    """By the name under which reports know the file: where it is, and what it says."""

    @property
    def others(self) -> dict[str, str]:
        """The companions' texts."""
        return {name: file.text for name, (_, file) in self.companions.items()}

    def find(self, name: str) -> tuple[Path, SourceFile]:
        """The file that reports call *name*."""
        return (self.path, self.file) if name == self.file.name else self.companions[name]


def gather(path: Path, file: SourceFile, *, from_root: bool = False, within: Path | None = None) -> Project:
    """Read what the script *file* at *path* imports from its project; from *within* a folder only, where one is given.

    What cannot be read or parsed is left out: it is not what was asked about.
    """
    if not _matters(file.text):
        return Project(path, file)
    start = files.absolute(path)
    roots = [start.parent]
    found: dict[str, tuple[Path, SourceFile]] = {}
    seen = {str(start)}
    size = len(file.text)
    pending = deque([(start, file.text)])
    while pending and len(found) < MOST_FILES:
        importer, text = pending.popleft()
        for place in _imports(text, importer, roots):
            if str(place) in seen or (within is not None and not place.is_relative_to(within)):
                continue
            seen.add(str(place))
            companion = _readable(place, from_root=from_root)
            if companion is None or size + len(companion.text) > MOST_TEXT or len(found) >= MOST_FILES:
                continue
            size += len(companion.text)
            found[companion.name] = (place, companion)
            pending.append((place, companion.text))
    if not may_go_wrong([file.text, *(other.text for _, other in found.values())]):
        return Project(path, file)
    return Project(path, file, found)


def _matters(text: str) -> bool:
    """Whether there is reason to follow the imports of a file: it has a pass in it, or code that may lead to one."""
    if may_go_wrong([text]):
        return True
    try:
        tree = sources.parse(text).tree
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(part, (ast.If, ast.For, ast.While, ast.With)) or _calls(part) for part in tree.body)


def _calls(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _readable(place: Path, *, from_root: bool) -> SourceFile | None:
    try:
        file = files.read(place, files.display_name(place, from_root=from_root))
        sources.parse(file.text)
    except (files.FileError, SyntaxError, ValueError):
        return None
    return file


def _imports(text: str, importer: Path, roots: list[Path]) -> Iterator[Path]:
    """The project's files that a text imports."""
    folders = [*dict.fromkeys([importer.parent, _above_package(importer.parent), *roots])]
    for name, level, parts in _names(text):
        if level:
            folder = importer.parent
            for _ in range(level - 1):
                folder = folder.parent
            starts = [folder]
        else:
            starts = folders
        for start in starts:
            module = start.joinpath(*name.split(".")) if name else start
            hits = [place for place in (_file_of(module), *(_file_of(module / part) for part in parts)) if place]
            if hits:
                yield from hits
                break


@lru_cache(maxsize=256)
def _names(text: str) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """What a text imports: module, dots before it, and the names taken from it, which may be modules too."""
    found: dict[tuple[str, int, tuple[str, ...]], None] = {}
    for node in ast.walk(sources.parse(text).tree):
        if isinstance(node, ast.Import):
            found.update(((alias.name, 0, ()), None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found[node.module or "", node.level, tuple(alias.name for alias in node.names)] = None
    return tuple(found)


def _file_of(module: Path) -> Path | None:
    """The file of a module: ``module.py``, or the package's ``__init__.py``."""
    if f"{module.name}.py" in _listing(str(module.parent)):
        return module.with_name(f"{module.name}.py")
    if module.name in _listing(str(module.parent)) and "__init__.py" in _listing(str(module)):
        return module / "__init__.py"
    return None


def _above_package(folder: Path) -> Path:
    """The folder that holds the outermost package that *folder* is part of."""
    while "__init__.py" in _listing(str(folder)) and folder.parent != folder:
        folder = folder.parent
    return folder


def _listing(folder: str) -> frozenset[str]:
    try:
        return _names_in(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=1024)
def _names_in(folder: str, _changed: int) -> frozenset[str]:
    return frozenset(os.listdir(folder))
