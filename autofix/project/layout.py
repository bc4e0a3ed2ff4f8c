"""Layout of a project on the disk: its root, and the folders below which its modules are imported by name.

The root is the nearest folder upward that holds a project file or a repository.  The import roots are the folders of
the build system's settings, a folder ``src`` and the root itself, as if the project were installed in editable mode.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autofix.project import reading

MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
"""Files and folders that mark the root of a project."""


@dataclass(frozen=True)
class Layout:
    """A project: its root, and its import roots in the order of search.  All paths are absolute and resolved."""

    root: Path
    import_roots: tuple[Path, ...]

    def relative(self, path: Path) -> str:
        """*path*, which lies below the root, relative to it, with slashes."""
        return path.resolve().relative_to(self.root).as_posix()


def layout_of(path: Path, *, root: Path | None = None, cwd: Path | None = None, given: Sequence[Path] = ()) -> Layout:
    """The project that the file *path* belongs to; *root* overrides the search.

    Without a marker, the working directory *cwd* is the root of what lies below it: that is where people start a
    script that has no project file.  Elsewhere it is the folder that the command was *given*.  A home folder, or one
    that holds all others, never is.
    """
    found = root.resolve() if root is not None else root_of(path.resolve().parent, cwd, given)
    return Layout(found, import_roots(found))


Known = dict[Path, Path | None]
"""Folders that were looked at before, and what was found for them."""


def root_of(folder: Path, cwd: Path | None = None, given: Sequence[Path] = (), known: Known | None = None) -> Path:
    """The root of the project that *folder*, resolved, belongs to; *known* as for :func:`marked_root`."""
    return marked_root(folder, known) or unmarked_root(folder, cwd, given)


def marked_root(folder: Path, known: Known | None = None) -> Path | None:
    """The nearest of *folder* and the folders above it that holds a marker, below the home folder.

    *known* keeps the answer for the next call.
    """

    def nearest(one: Path, above: Path | None) -> Path | None:
        if is_too_wide(one):
            return None
        return one if any((one / marker).exists() for marker in MARKERS) else above

    return _from_above(folder, nearest, known)


def _from_above(folder: Path, answer: Callable[[Path, Path | None], Path | None], known: Known | None) -> Path | None:
    """The *answer* for a folder, which is given that for the folder above it; *known* are the answers so far."""
    known = {} if known is None else known
    pending = []
    for one in (folder, *folder.parents):
        if one in known:
            break
        pending.append(one)
    for one in reversed(pending):
        known[one] = answer(one, known.get(one.parent))
    return known[folder]


def names_from_root(paths: Sequence[Path]) -> list[str]:
    """The names of files relative to the root of the project that holds all of them, as git writes them in a patch.

    Empty where all lie below the working directory, which is what their names are relative to then, or where no one
    project holds them.
    """
    full = [Path(os.path.abspath(path)) for path in paths]
    here = Path.cwd()
    if all(path.is_relative_to(here) for path in full):
        return []
    root = marked_root(full[0].parent)
    if root is None or not all(path.is_relative_to(root) for path in full):
        return []
    return [path.relative_to(root).as_posix() for path in full]


def checkout_of(folder: Path, known: Known | None = None) -> Path | None:
    """The outermost repository that holds *folder*, resolved; None where there is none.

    A checkout is somebody else's: what it names outside of itself is none of its business.  *known* keeps the answer
    for the next call.
    """

    def outermost(one: Path, above: Path | None) -> Path | None:
        return one if above is None and not is_too_wide(one) and (one / ".git").exists() else above

    return _from_above(folder, outermost, known)


def unmarked_root(folder: Path, cwd: Path | None, given: Sequence[Path] = ()) -> Path:
    places = [place.resolve() for place in (*([cwd] if cwd is not None else []), *given)]
    return next((one for one in places if folder.is_relative_to(one) and not is_too_wide(one)), folder)


def is_too_wide(folder: Path) -> bool:
    """Whether a folder holds more than one project for certain: a home folder, or one right below the file system's."""
    return len(folder.parts) <= 2 or folder == home()


def home() -> Path:
    return _resolved(os.path.expanduser("~"))


@lru_cache(maxsize=8)
def _resolved(home: str) -> Path:
    """The home folder, resolved; the root of the file system where no home is known."""
    return Path(home).resolve() if home != "~" else Path(os.sep)


def import_roots(root: Path) -> tuple[Path, ...]:
    """The folders of the project at *root* that stand on the import path once it is installed, and the root."""
    return _import_roots(root, tuple(_stamp(root / name) for name in ("pyproject.toml", "setup.cfg", "setup.py")))


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=64)
def _import_roots(root: Path, _stamps: tuple[int, ...]) -> tuple[Path, ...]:
    named = [*of_pyproject(_toml(root / "pyproject.toml")), *of_setup_cfg(root / "setup.cfg")]
    named += of_setup_py(root / "setup.py")
    if (root / "src").is_dir() and not (root / "src" / "__init__.py").exists():
        named.append("src")
    found = [Path(os.path.realpath(root / name)) for name in named if "\0" not in name]
    places = [place for place in found if os.path.isdir(place) and place.is_relative_to(root)]
    return tuple(dict.fromkeys([*places, root]))


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        text = reading.settings(path)
    except OSError:
        return {}
    import tomllib  # not needed by who has no such file

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # not for us to complain about
        return {}


def of_pyproject(document: Mapping[str, Any]) -> list[str]:
    """The import roots that a ``pyproject.toml`` names, for the build systems in use, and for pytest."""
    tool = table(document, "tool")
    setuptools = table(tool, "setuptools")
    found = strings(table(setuptools, "package-dir").get(""))
    found += strings(table(setuptools, "packages", "find").get("where"))
    targets = table(tool, "hatch", "build")
    for settings in (targets, table(targets, "targets", "wheel")):
        found += [os.path.dirname(name) or "." for name in strings(settings.get("packages"))]
        found += strings(settings.get("dev-mode-dirs"))
        sources = settings.get("sources")
        found += list(sources) if isinstance(sources, Mapping) else strings(sources)
    packages = table(tool, "poetry").get("packages")
    for package in packages if isinstance(packages, list) else ():
        found += strings(package.get("from")) if isinstance(package, Mapping) else []
    found += strings(table(tool, "pdm", "build").get("package-dir"))
    found += strings(table(tool, "uv", "build-backend").get("module-root"))
    return found + strings(table(tool, "pytest", "ini_options").get("pythonpath"))


def table(document: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The table at *keys*; an empty one where it is missing or something else."""
    for key in keys:
        value = document.get(key)
        document = value if isinstance(value, Mapping) else {}
    return document


def strings(value: object) -> list[str]:
    """A string, or a list of them, as a list."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def of_setup_cfg(path: Path) -> list[str]:
    """The import roots of a ``setup.cfg``."""
    try:
        text = reading.settings(path)
    except OSError:
        return []
    import configparser  # not needed by who has no such file

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    found = []
    for line in parser.get("options", "package_dir", fallback="").splitlines():
        package, equals, folder = line.partition("=")
        if equals and not package.strip():
            found.append(folder.strip())
    return found + parser.get("options.packages.find", "where", fallback="").split()


def of_setup_py(path: Path) -> list[str]:
    """The import roots that the call of ``setup`` in a ``setup.py`` writes out: it is read, never run."""
    try:
        tree = ast.parse(reading.read(path, reading.LARGEST_SETTINGS))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(_of_setup_calls(tree))


def _of_setup_calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if name == "setup":
            folders = keywords.get("package_dir")
            if isinstance(folders, ast.Dict):
                pairs = zip(folders.keys, folders.values, strict=True)
                yield from (text for key, value in pairs if _text(key) == "" and (text := _text(value)))
        elif name in ("find_packages", "find_namespace_packages"):
            where = _text(keywords.get("where") or (node.args[0] if node.args else None))
            if where:
                yield where


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


# The environment -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def environment_roots(python: str) -> tuple[Path, ...]:
    """The folders that projects installed in editable mode add to the import path of the interpreter *python*.

    They stand in ``.pth`` files and in the tables of the finders that build systems write; nothing of it is run.
    """
    found: list[Path] = []
    for folder in site_folders(python):
        for file in sorted(folder.glob("*.pth")):
            found += (place for line in lines_of(file) if is_path(line) and os.path.isdir(place := folder / line))
        for file in sorted(folder.glob("__editable__*_finder.py")):
            found += (place.parent for place in _mapped(file))
    return tuple(dict.fromkeys(place.resolve() for place in found))


def is_path(line: str) -> bool:
    """Whether a line of a ``.pth`` file is a folder, and not code."""
    return bool(line) and not line.startswith(("#", "import ", "import\t"))


def lines_of(file: Path) -> list[str]:
    try:
        return [line.strip() for line in reading.settings(file).splitlines()]
    except OSError:
        return []


def site_folders(python: str) -> Sequence[Path]:
    """The folders ``site-packages`` of an interpreter, by where it lies: a virtual environment's, or a prefix's."""
    for prefix in dict.fromkeys((Path(python).absolute().parents[1], Path(python).resolve().parents[1])):
        found = [*prefix.glob("lib/python3*/site-packages"), *prefix.glob("Lib/site-packages")]
        if found:
            return found
    return ()


def _mapped(finder: Path) -> Iterator[Path]:
    """The packages that setuptools' finder for an editable install knows, from its table ``MAPPING``."""
    try:
        tree = ast.parse(reading.read(finder, reading.LARGEST_SETTINGS))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
        if isinstance(target, ast.Name) and target.id == "MAPPING" and isinstance(node, (ast.Assign, ast.AnnAssign)):
            try:
                table_ = ast.literal_eval(node.value) if node.value is not None else {}
            except ValueError:
                continue
            yield from (Path(place) for place in table_.values() if isinstance(place, str))
