"""Files that a source imports: resolved by the import system's rules over the folders that will be searched.

Nothing is imported, and folders are only listed.  Python searches these folders for the program: the script's own,
folders that the source itself puts on ``sys.path``, ``PYTHONPATH``, the project's import roots, and folders of projects
installed in editable mode; a name that none of them has belongs to somebody else and is not read.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from autofix.codemods.source import sources
from autofix.codemods.source.nodes import Nodes, statements_by_level
from autofix.codemods.source.sources import Parsed
from autofix.project.disk import Inquiry

LONGEST_PATH = 4096
"""Characters of the longest path that a source can put together."""


class Imported(NamedTuple):
    """One import statement: the module, the dots before it, and the names taken from it, which may be modules too."""

    module: str
    level: int
    names: tuple[str, ...]


def imported(text: str, parsed: Parsed) -> tuple[Imported, ...]:
    """All imports of a source, also within functions, and modules that it loads by a written name."""
    if any(word in text for word in _LOADERS):
        return parsed.nodes.once(with_loaded)
    return parsed.remembered(parsed.tree, _of_statements)


_LOADERS = ("import_module", "__import__", "run_module")
"""Functions that load the module that they are given by name."""


def with_loaded(nodes: Nodes) -> tuple[Imported, ...]:
    """As :func:`imported`, of the nodes of a source."""
    return tuple(_imported(nodes.by_level(ast.Import, ast.ImportFrom, ast.Call)))


def _of_statements(tree: ast.Module) -> tuple[Imported, ...]:
    """The imports of a source that loads nothing by name: found among its statements alone."""
    return tuple(_imported(statements_by_level(tree)))


def _imported(nodes: Iterable[ast.AST]) -> Iterator[Imported]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (Imported(alias.name, 0, ()) for alias in names)
            case ast.ImportFrom(module=module, level=level, names=names):
                yield Imported(module or "", level, tuple(alias.name for alias in names))
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if sources.last_name(function) in _LOADERS:
                    yield Imported(name.lstrip("."), len(name) - len(name.lstrip(".")), ())


def files_of(one: Imported, importer: Path, path: Sequence[str], disk: Inquiry) -> list[Path]:
    """The source files that an import is about: the module, and the submodules taken from it."""
    file: Path | None = None
    places = list(path)
    if one.level:
        folder = importer.parent
        for _ in range(one.level - 1):
            folder = folder.parent
        places = [str(folder)]
        is_package = not one.module and "__init__.py" in disk.called(str(folder), "__init__")
        file = folder / "__init__.py" if is_package else None
    if one.module:
        located = _below(one.module, places, disk)
        while places and _is_beside(one.module, located, importer, places, disk):
            # A file beside the importer has a package's name: its folder is searched only where it is run itself.
            places = places[1:]
            located = _below(one.module, places, disk)
        if located is None:
            return []
        file, places = located
    taken = [located[0] for name in one.names if (located := locate(name, places, disk)) is not None]
    return [place for place in (file, *taken) if place is not None and place != importer]


def _is_beside(
    module: str,
    located: tuple[Path | None, list[str]] | None,
    importer: Path,
    places: Sequence[str],
    disk: Inquiry,
) -> bool:
    """Whether the first of *places* that has the module's name has another module of this name, or the importer."""
    if located is None:
        return locate(module.partition(".")[0], places, disk) is not None
    return located[0] == importer


def _below(module: str, places: Sequence[str], disk: Inquiry) -> tuple[Path | None, list[str]] | None:
    """What :func:`locate` says of a module with dots in its name."""
    located: tuple[Path | None, list[str]] | None = None
    for part in module.split("."):
        located = locate(part, places, disk)
        if located is None:
            return None
        _, places = located
    return located


_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)
"""Endings of modules, in the order in which the import system's own finder tries them."""


def locate(name: str, places: Sequence[str], disk: Inquiry) -> tuple[Path | None, list[str]] | None:
    """The source file of a module called *name* in the folders *places*, and where its submodules lie; None if none.

    In each folder a package comes before a module; folders without ``__init__`` make one package where nothing else is
    found (PEP 420).
    """
    if not name.isidentifier():
        return None
    portions: list[str] = []
    for folder in places:
        entries = disk.called(folder, name)
        if not entries:
            continue
        below = os.path.join(folder, name)
        if f"{name}/" in entries:
            inside = disk.called(below, "__init__")
            for suffix in _SUFFIXES:
                if f"__init__{suffix}" in inside:
                    return Path(below, f"__init__{suffix}") if suffix in SOURCE_SUFFIXES else None, [below]
        for suffix in _SUFFIXES:
            if f"{name}{suffix}" in entries:
                return (Path(folder, f"{name}{suffix}"), []) if suffix in SOURCE_SUFFIXES else None
        if f"{name}/" in entries:
            portions.append(below)
    return (None, portions) if portions else None


def is_standard(one: Imported) -> bool:
    """Whether the standard library has the module: it stands before a project's import roots."""
    return not one.level and one.module.partition(".")[0] in sys.stdlib_module_names


# What a source puts on the path --------------------------------------------------------------------------------------


def added_folders(tree: ast.Module, file: Path, cwd: Path, disk: Inquiry) -> list[Path]:
    """The folders that a module puts on ``sys.path``, built from ``__file__`` or relative to *cwd*."""
    known: dict[str, object] = {"__file__": str(file)}
    found: list[Path] = []
    for node in _statements(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                known[name] = evaluate(value, known, cwd)
            case ast.Assign(targets=[ast.Subscript(value=path)], value=ast.List(elts=items)) if _is_path(path):
                found += _folders(items, known, cwd, disk)
            case ast.Assign(targets=[path], value=ast.BinOp(left=left, op=ast.Add(), right=right)) if _is_path(path):
                for side in (left, right):
                    found += _folders(side.elts, known, cwd, disk) if isinstance(side, ast.List) else []
            case ast.AugAssign(target=path, value=ast.List(elts=items)) if _is_path(path):
                found += _folders(items, known, cwd, disk)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=path, attr=method), args=args)) if args:
                if _is_path(path) and method in ("insert", "append"):
                    found += _folders(args[-1:], known, cwd, disk)
                elif _is_path(path) and method == "extend" and isinstance(args[0], (ast.List, ast.Tuple)):
                    found += _folders(args[0].elts, known, cwd, disk)
                elif method == "addsitedir":
                    found += _folders(args[:1], known, cwd, disk)
    return list(dict.fromkeys(found))


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, also under conditions."""
    pending = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For)):
            blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            pending += reversed([statement for block in blocks for statement in block])


def _is_path(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "path" and getattr(node.value, "id", "") == "sys"


def _folders(items: Sequence[ast.expr], known: dict[str, object], cwd: Path, disk: Inquiry) -> list[Path]:
    values = [evaluate(item, known, cwd) for item in items]
    places = [disk.folder_at(cwd / value) for value in values if isinstance(value, (str, Path))]
    return [place for place in places if place is not None]


def evaluate(node: ast.expr, known: dict[str, object], cwd: Path) -> object:
    """The value of an expression over ``os.path`` and ``pathlib`` that begins at ``__file__``; None for any other."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=ast.Div() | ast.Add() as op, right=right):
            one, other = evaluate(left, known, cwd), evaluate(right, known, cwd)
            if isinstance(op, ast.Div) and isinstance(one, Path) and isinstance(other, (str, Path)):
                return one / other
            return _short(one + other) if isinstance(one, str) and isinstance(other, str) else None
        case ast.JoinedStr(values=parts):
            texts = [evaluate(p.value if isinstance(p, ast.FormattedValue) else p, known, cwd) for p in parts]
            return _short("".join(map(str, texts))) if all(isinstance(text, (str, Path)) for text in texts) else None
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr="pardir"):
            return os.pardir
        case ast.Attribute(value=ast.Name(id="os"), attr="pardir" | "curdir" | "sep" as attribute):
            return getattr(os, attribute)
        case ast.Attribute(value=owner, attr="parent"):
            place = evaluate(owner, known, cwd)
            return place.parent if isinstance(place, Path) else None
        case ast.Subscript(value=ast.Attribute(value=owner, attr="parents"), slice=ast.Constant(value=int(number))):
            place = evaluate(owner, known, cwd)
            inside = isinstance(place, Path) and -len(place.parents) <= number < len(place.parents)
            return place.parents[number] if inside and isinstance(place, Path) else None
        case ast.Call(func=function, args=args):
            return _called(function, [evaluate(arg, known, cwd) for arg in args], known, cwd)
    return None


def _short(text: str) -> str | None:
    """A text that may be a path: one that is added to itself again and again would fill the memory."""
    return text if len(text) <= LONGEST_PATH and "\0" not in text else None


def _called(function: ast.expr, args: list[object], known: dict[str, object], cwd: Path) -> object:
    name = sources.last_name(function)
    if name in ("getcwd", "cwd") and not args:
        return str(cwd) if name == "getcwd" else cwd
    if isinstance(function, ast.Attribute) and name in ("resolve", "absolute", "as_posix", "joinpath", "expanduser"):
        owner = evaluate(function.value, known, cwd)
        if isinstance(owner, Path):
            rest = [arg for arg in args if isinstance(arg, (str, Path))]
            place = owner.joinpath(*rest) if name == "joinpath" and len(rest) == len(args) else owner
            place = place if place.is_absolute() else cwd / place
            return str(place) if name == "as_posix" else Path(os.path.normpath(place))
    if not args or not all(isinstance(arg, (str, Path)) for arg in args):
        return None
    texts = [str(arg) for arg in args]
    match name:
        case "join":
            return _short(os.path.join(*texts))
        case "dirname":
            return os.path.dirname(texts[0])
        case "abspath" | "realpath" | "normpath" | "expanduser":
            return os.path.normpath(os.path.join(cwd, os.path.expanduser(texts[0])))
        case "str" | "fspath":
            return texts[0]
        case "Path" | "PurePath" | "PosixPath":
            return Path(*texts)
    return None
