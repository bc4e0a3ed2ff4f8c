"""The files that belong to a script: what it imports from its own project, and what those import."""

from __future__ import annotations

import ast
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from autofix import files
from autofix.files import SourceFile
from codemods.tape import source as sources
from codemods.tape.entries import may_go_wrong

MOST_FILES = 32
MOST_TEXT = 400_000
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
    found: dict[Path, SourceFile] = {}
    seen = {start}
    left = MOST_TEXT - len(file.text)
    pending = deque([(start, file.text)])
    while pending and len(found) < MOST_FILES:
        importer, text = pending.popleft()
        for place in _imports(text, importer, start.parent):
            if place in seen or len(found) >= MOST_FILES or (within is not None and not place.is_relative_to(within)):
                continue
            seen.add(place)
            companion = _readable(place, left, from_root=from_root)
            if companion is not None:
                left -= len(companion.text)
                found[place] = companion
                pending.append((place, companion.text))
    if not may_go_wrong([file.text, *(other.text for other in found.values())]):
        return Project(path, file)
    return Project(path, file, {other.name: (place, other) for place, other in found.items() if _parses(other.text)})


def _matters(text: str) -> bool:
    """Whether there is reason to follow a file's imports: it has a pass in it, or is a script that may lead to one."""
    if may_go_wrong([text]):
        return True
    if "__main__" not in text and not _TOP_LEVEL_CALL.search(text):
        return False
    return _parses(text) and any(map(_runs, sources.parse(text).tree.body))


_TOP_LEVEL_CALL = re.compile(r"^(for|while|with|[A-Za-z_][\w.]*\()", re.MULTILINE)


def _runs(statement: ast.stmt) -> bool:
    """Whether a module's own statement does something when it is run: not what only sets up names or warnings."""
    match statement:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))) | ast.For() | ast.While() | ast.With():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name())):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name not in _SET_UP
    return False


_SET_UP = frozenset("warnings logging logger sys os torch np numpy random plt matplotlib parser".split())
"""Modules and objects whose calls at the top of a file train nothing."""


def _readable(place: Path, most: int, *, from_root: bool) -> SourceFile | None:
    """The file at *place*, if it has at most so many characters."""
    try:
        if place.stat().st_size > most:
            return None
        return files.read(place, files.display_name(place, from_root=from_root))
    except (files.FileError, OSError):
        return None


def _parses(text: str) -> bool:
    try:
        sources.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _imports(text: str, importer: Path, root: Path) -> Iterator[Path]:
    """The project's files that a text imports; *root* is the script's folder, which is on its path."""
    folders = [*dict.fromkeys([importer.parent, _above_package(importer.parent), root])]
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


_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_IMPORT_FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]+)", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?:[ \t]+as[ \t]+\w+)?")


@lru_cache(maxsize=256)
def _names(text: str) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """What a text imports: module, dots before it, and the names taken from it, which may be modules too.

    Read by pattern, since most files are not needed in the end; what looks like an import and is none leads to no
    file, or to one that is read for nothing.
    """
    found: dict[tuple[str, int, tuple[str, ...]], None] = {}
    for match in _IMPORT.finditer(text):
        found.update(((part.split()[0], 0, ()), None) for part in match[1].split(",") if part.strip())
    for match in _IMPORT_FROM.finditer(text):
        names = tuple(name for name in _NAME.findall(re.sub(r"#[^\n]*", "", match[3])))
        found[match[2], len(match[1]), names] = None
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
