"""The files that belong to a script: the files that it imports from its own project, and their imports in turn."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from autofix.codemods.source import sources
from autofix.project import dynamic_imports, files, imports
from autofix.project import layout as layouts
from autofix.project.disk import Inquiry
from autofix.project.files import SourceFile
from autofix.project.layout import Layout
from autofix.project.members import Project

MOST_FILES = 32
MOST_TEXT = 400_000
"""Files, and characters in all, of one program: beyond them the reading would take longer than anybody waits."""


def gather(
    path: Path,
    file: SourceFile,
    *,
    from_root: bool = False,
    within: Path | None = None,
    layout: Layout | None = None,
    cwd: Path | None = None,
    python: str = sys.executable,
    disk: Inquiry | None = None,
) -> Project:
    """Read the files that the script *file* at *path* imports from its project, if given only from *within* a folder.

    Modules are looked for as Python would, started in the folder *cwd* with the interpreter *python*.  A file that
    cannot be read or parsed is left out: nobody asked for it.  The *disk* notes the answers that the result rests on.
    """
    from autofix.codemods.interpreter.entries import may_go_wrong

    if not _matters(file.text):
        return Project(path, file)
    start = files.absolute(path)
    cwd = files.absolute(cwd or Path())
    disk = disk or Inquiry()
    layout = layout or disk.layout(start.parent, cwd)
    search = _SearchPath(layout, start, cwd, python, disk.checkout(start.parent), disk)
    found: dict[Path, SourceFile] = {}
    seen = {start}
    left = MOST_TEXT - len(file.text)
    pending = deque([(start, file.text)])
    texts: dict[Path, str] = {}
    while pending and len(found) < MOST_FILES:
        importer, text = pending.popleft()
        texts[importer] = text
        places = list(_imports(text, importer, search))
        if not pending:
            places += _by_options(texts, search)
        for place in places:
            if place in seen or len(found) >= MOST_FILES or (within is not None and not place.is_relative_to(within)):
                continue
            seen.add(place)
            companion = _readable(place, left, disk, from_root=from_root) if search.is_inside(place) else None
            if companion is not None:
                left -= len(companion.text)
                found[place] = companion
                pending.append((place, companion.text))
    if not may_go_wrong([file.text, *(other.text for other in found.values())]):
        return Project(path, file)
    companions = {other.name: (place, other) for place, other in found.items() if sources.parses(other.text)}
    read = [str(place) for place, _ in companions.values()]
    roots = [root for root in search.all if any(place.startswith(os.path.join(root, "")) for place in read)]
    return Project(path, file, companions, tuple(files.display_name(Path(root), from_root=from_root) for root in roots))


def _matters(text: str) -> bool:
    """Whether there is reason to follow a file's imports: it has a pass in it, or may lead to one in another file.

    A script may lead to one, and so may a method that gives its loss to a helper: ``self._update(loss, self.opt)``.
    """
    from autofix.codemods.interpreter.entries import may_go_wrong

    if may_go_wrong([text]) or _hands_loss(text):
        return True
    if "__main__" not in text and not _TOP_LEVEL_CALL.search(text):
        return False
    return sources.parses(text) and any(map(_runs, sources.parse(text).tree.body))


def _hands_loss(text: str) -> bool:
    """Whether a text about torch has a statement that calls a function with a loss, and with an optimizer or by a name
    that says what is done with the loss.
    """
    return "torch" in text and "loss" in text and _HANDS_LOSS.search(text) is not None


_HANDS_LOSS = re.compile(
    r"^[ \t]+(?:self\.)?(?:\w*(?:backward|minimi[sz]e|optimi[sz]e|update)\w*\(\s*[^\n]*loss"
    r"|(?:\w+\.)*\w+\(\s*[^\n]*loss[^\n]*opt)",
    re.MULTILINE,
)
_DOES = r"(?:^|_|\b)(?:train|fit|run|main|learn|optimi[sz]e|experiment|search)"
_TOP_LEVEL_CALL = re.compile(
    rf"^(?:for|while|with|if|try|[A-Za-z_][\w.]*\(|(?!def |class |async |@|#)\S[^\n]*{_DOES}\w*\()", re.MULTILINE
)


def _runs(statement: ast.stmt) -> bool:
    """Whether a module's own statement does something when it is run, beyond setting up names or warnings."""
    match statement:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))) | ast.For() | ast.While() | ast.With():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name())):
            return True
        case ast.If(body=body, orelse=other) | ast.Try(body=body, orelse=other):
            return any(map(_runs, (*body, *other)))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            if sources.dotted_name(owner).partition(".")[0] not in _SET_UP:
                return True
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom():
            return False
    calls = (part for part in ast.walk(statement) if isinstance(part, ast.Call))
    return any(_TRAINS.search(sources.last_name(call.func)) for call in calls)  # `scores = train(config)`


_TRAINS = re.compile(_DOES)
"""Names of functions that train something, or begin to."""
_SET_UP = frozenset("warnings logging logger sys os torch np numpy random plt matplotlib parser".split())
"""Modules and objects whose calls at the top of a file train nothing."""


def _readable(place: Path, most: int, disk: Inquiry, *, from_root: bool) -> SourceFile | None:
    """The file at *place*, if it can be read and has at most *most* bytes; else None."""
    try:
        file = disk.read(place, from_root=from_root)
    except files.FileError:
        return None
    return file if len(file.data) <= most else None


def _imports(text: str, importer: Path, path: _SearchPath) -> Iterator[Path]:
    """The project's files that a text imports; a text that cannot be parsed imports nothing."""
    if not sources.parses(text):
        return
    parsed = sources.parse(text)
    own, first = path.for_importer(importer, text), path.first(importer)
    known = path.disk.disk.imported
    key = str(importer), hash(text), tuple(own), tuple(first)
    if key not in known:
        inquiry = Inquiry(path.disk.disk)
        found: dict[Path, None] = {}
        for one in imports.imported(text, parsed):
            if not one.level and one.module.partition(".")[0] in sources.INSTALLED:
                continue
            found.update(
                dict.fromkeys(imports.files_of(one, importer, own if not imports.is_standard(one) else first, inquiry))
            )
        known[key] = tuple(found), inquiry.answers.names
    places, names = known[key]
    path.disk.note(names)
    yield from places


def _by_options(texts: Mapping[Path, str], path: _SearchPath) -> Iterator[Path]:
    """The project's files that the *texts* read so far load by the default of an option."""
    loading = {place: text for place, text in texts.items() if _loads(text) and sources.parses(text)}
    if not loading:
        return
    parsers = [text for text in texts.values() if "add_argument" in text and sources.parses(text)]
    options = [one for text in parsers for one in sources.parse(text).nodes.once(dynamic_imports.defaults)]
    for importer, text in loading.items():
        parsed = sources.parse(text)
        folders = path.for_importer(importer, text)
        for pattern in parsed.nodes.once(dynamic_imports.patterns):
            for one in filter(None, map(pattern.filled, dict.fromkeys(options))):
                yield from imports.files_of(one, importer, folders, path.disk)


@lru_cache(maxsize=4096)
def _loads(text: str) -> bool:
    """Whether a text may load a module by a name that is not written in the call."""
    return "import_module(" in text or "__import__(" in text


@dataclass
class _SearchPath:
    """The folders that are searched for modules, as the sources that were read have left them."""

    layout: Layout
    start: Path
    """The script."""
    cwd: Path
    python: str
    checkout: Path | None
    """The repository that the script is part of."""
    disk: Inquiry
    added: list[Path] = field(default_factory=list)
    """Folders that sources have put on ``sys.path``."""
    packaged: set[Path] = field(default_factory=set)
    """The sources that import relatively, so that they are parts of packages."""

    def is_inside(self, place: Path) -> bool:
        """Whether a place is one that the checkout may name: by no path and no link does it lead out of itself.

        A folder that the environment names is the user's own, and may lie anywhere.
        """
        if self.checkout is None or any(place.is_relative_to(root) for root in self._of_the_user):
            return True
        return Path(self.disk.real(place)).is_relative_to(self.checkout)

    @cached_property
    def _of_the_user(self) -> list[Path]:
        """The folders that the environment adds to the import path."""
        return [*layouts.environment_roots(self.python), *_search_variable()]

    @property
    def all(self) -> list[str]:
        """The folders whose modules are known by their full names to every importer."""
        return list(dict.fromkeys([*self.first(self.start), *self.late]))

    @cached_property
    def late(self) -> list[str]:
        """Folders that are searched after the standard library."""
        return [str(folder) for folder in (*self.layout.import_roots, *layouts.environment_roots(self.python))]

    def for_importer(self, importer: Path, text: str) -> list[str]:
        """The folders that are searched for the imports of *importer*, whose *text* parses."""
        if sources.relative_levels(text):
            self.packaged.add(importer)
        if "sys.path" in text or "addsitedir" in text:
            new = imports.added_folders(sources.parse(text).tree, importer, self.cwd, self.disk)
            self.added += [folder for folder in new if folder not in self.added and self.is_inside(folder)]
        above = _between(os.path.dirname(importer), str(self.layout.root))
        return list(dict.fromkeys([*self.first(importer), *self.late, *above]))

    def first(self, importer: Path) -> list[str]:
        """Folders that are searched before the standard library: the script's own, and folders put on the path.

        The folders of *importer* and of its outermost package are the script's own where it is run itself, which no
        file with a relative import can be.
        """
        folder = os.path.dirname(importer)
        own = [folder, self._above_package(folder), str(self.start.parent)]
        if importer in self.packaged:
            own = [*own[1:], folder]
        return list(dict.fromkeys([*own, *map(str, self.added), *map(str, _search_variable())]))

    def _above_package(self, folder: str) -> str:
        """The folder that holds the outermost package that *folder* is part of."""
        while "__init__.py" in self.disk.called(folder, "__init__") and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        return folder


@lru_cache(maxsize=4096)
def _between(folder: str, root: str) -> tuple[str, ...]:
    """*folder* and the folders above it that are below *root*: a script that imports a file may lie in any of them."""
    place = Path(folder)
    return tuple(str(one) for one in (place, *place.parents) if one != Path(root) and one.is_relative_to(root))


def _search_variable() -> list[Path]:
    return [files.absolute(Path(one)) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
