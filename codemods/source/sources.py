"""Source files: their text, their syntax trees, and the one place where columns are converted.

``ast`` counts columns in UTF-8 bytes; spans, LibCST and editors count code points.  Lines are those of the program
(:mod:`autofix.codemods.source.program`).
"""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

from autofix.codemods.facts.base import Span
from autofix.codemods.source import edited
from autofix.codemods.source.nodes import Nodes
from autofix.codemods.source.program import Program, split

_DEVICES = ("set_default_device", "set_default_tensor_type", "with torch.device", "with device")
_PRECISIONS = ("set_default_dtype", "set_default_tensor_type")
_COMPLEX = ("torch.complex", "as_complex", "complex64", "complex128", "cfloat", "cdouble", "polar(", "fft", "1j")
_MIXED = ("autocast", "bfloat16", ".half()", "float16", *_COMPLEX)

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class Parsed(NamedTuple):
    """A syntax tree, and what was found out about its nodes by reading under them, so that no path reads it again."""

    tree: ast.Module
    facts_of: dict[tuple[ast.AST, object], object]

    @property
    def nodes(self) -> Nodes:
        """All nodes of the tree."""
        return self.remembered(self.tree, Nodes)

    def remembered(self, node: N, find: Callable[[N], T]) -> T:
        """The answer of *find*, found once for a node."""
        known = self.facts_of.get((node, find))
        if known is None:
            known = self.facts_of[node, find] = find(node)
        return known  # type: ignore[return-value]

    def once(self, find: Callable[[Parsed], T]) -> T:
        """The answer of *find*, found once for the whole text."""
        known = self.facts_of.get((self.tree, find))
        if known is None:
            known = self.facts_of[self.tree, find] = find(self)
        return known  # type: ignore[return-value]


_latest: deque[tuple[list[str], Parsed]] = deque(maxlen=3)
"""The lines of the texts that were parsed last: the next text may be an edited one of them."""


@lru_cache(maxsize=256)
def parse(text: str) -> Parsed:
    """Parse a text once, in however many programs it stands.  Raises :class:`SyntaxError`."""
    lines = split(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a script's invalid escapes are not our user's question
        parsed = _edited(lines) or Parsed(ast.parse(text.removeprefix("\ufeff")), {})
    _latest.append((lines, parsed))
    return parsed


def _edited(lines: list[str]) -> Parsed | None:
    """The tree of an edited text, with the known facts about all statements that the edit left alone."""
    for before, known in reversed(_latest):
        tree = edited.tree_of(lines, before, known.tree)
        if tree is None:
            continue
        nodes = Nodes(tree, known.nodes)
        kept = {part for one in tree.body if one in known.nodes for part in known.nodes.within(one)}
        facts_of = {key: fact for key, fact in known.facts_of.items() if key[0] in kept}
        return Parsed(tree, {**facts_of, (tree, Nodes): nodes})
    return None


def parses(text: str) -> bool:
    """Whether a text is one that can be parsed, by Python and without exhausting it."""
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def last_name(function: ast.AST) -> str:
    """``raises`` for ``pytest.raises`` and for ``raises``; empty for an expression that is neither."""
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def dotted_name(node: ast.expr) -> str:
    """``torch.cuda`` as it is written; empty for an expression that is no dotted name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


class Source:
    """One file of a program, ``start`` lines of which stand before it.  Raises :class:`SyntaxError`."""

    def __init__(self, text: str, path: str, start: int = 0) -> None:
        self.text = text
        self.path = path
        self.start = start
        self._parsed = parse(text)
        self.tree = self._parsed.tree
        self._lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        """The lines as the parser counts them."""
        if self._lines is None:
            self._lines = split(self.text)
        return self._lines

    def _column(self, line: int, byte_column: int) -> int:
        text = self.lines[line - 1]
        if text.isascii():
            return byte_column
        return len(text.encode()[:byte_column].decode(errors="ignore"))

    def remembered(self, node: N, find: Callable[[N], T]) -> T:
        """The answer of *find*, found once for a node."""
        return self._parsed.remembered(node, find)

    def once(self, find: Callable[[Parsed], T]) -> T:
        """The answer of *find*, found once for the whole file."""
        return self._parsed.once(find)

    @property
    def nodes(self) -> Nodes:
        """All nodes of the file."""
        return self._parsed.nodes

    @property
    def yields(self) -> bool:
        """Whether anything in the file is a generator."""
        return bool(self.nodes.of(ast.Yield) or self.nodes.of(ast.YieldFrom))

    def ifs_around(self, statement: ast.AST) -> list[ast.If]:
        """The ``if`` statements in whose body, not in whose ``else``, a statement stands."""
        return self.nodes.once(_ifs_around).get(statement, [])

    def span(self, node: ast.stmt | ast.expr) -> Span:
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return Span(
            self.path,
            node.lineno + self.start,
            self._column(node.lineno, node.col_offset),
            end_line + self.start,
            self._column(end_line, end_column),
        )

    def text_of(self, node: ast.expr | ast.stmt) -> str:
        """The user's own text of an expression, where it stands on one line."""
        if node.lineno == node.end_lineno:
            line = self.lines[node.lineno - 1]
            if line.isascii():
                return line[node.col_offset : node.end_col_offset]
            return line.encode()[node.col_offset : node.end_col_offset].decode(errors="replace")
        return ast.unparse(node)


class Site(NamedTuple):
    """A place in the program.  Kept as a node until somebody asks for its span: most sites are never asked."""

    source: Source
    node: ast.stmt | ast.expr

    @property
    def span(self) -> Span:
        return self.source.span(self.node)

    @property
    def line(self) -> int:
        return self.node.lineno + self.source.start


def _ifs_around(nodes: Nodes) -> dict[ast.AST, list[ast.If]]:
    """The ``if`` statements in whose body each statement stands."""
    found: dict[ast.AST, list[ast.If]] = {}
    for node in nodes.of(ast.If):
        for part in (part for one in node.body for part in nodes.within(one) if isinstance(part, ast.stmt)):
            found.setdefault(part, []).append(node)
    return found


def _set_attributes(nodes: Nodes) -> set[str]:
    return {node.attr for node in nodes.of(ast.Attribute) if not isinstance(node.ctx, ast.Load)}


def _parameters_set(nodes: Nodes) -> set[tuple[str, str]]:
    return {
        (target.value.id, target.attr)
        for node in nodes.of(ast.Assign)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == "Parameter"
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id != "self"
    }


_OF_MODELS = ("parameters", "named_parameters", "train", "eval")
"""Methods that tell a module from other things that can be called."""


_PASSES = ("backward", "manual_backward")


def _models(nodes: Nodes) -> set[str]:
    asked = (node.func for node in nodes.of(ast.Call) if not node.args or isinstance(node.args[0], ast.Constant))
    owners = (one.value for one in asked if isinstance(one, ast.Attribute) and one.attr in _OF_MODELS)
    return {last_name(owner) for owner in owners if isinstance(owner, (ast.Name, ast.Attribute))} - {"self"}


def _own_passes(nodes: Nodes) -> set[str]:
    """The names among ``backward`` and ``manual_backward`` that a class defines as methods of objects."""
    found: set[str] = set()
    for cls in nodes.of(ast.ClassDef):
        named = (one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name in _PASSES)
        found |= {one.name for one in named if len(one.args.args) > 1 and not one.decorator_list}  # with a loss
    return found


@lru_cache(maxsize=4096)
def _says_any(text: str, words: tuple[str, ...]) -> bool:
    """Whether one of the words stands in a text, which may be part of many programs."""
    return any(word in text for word in words)


class Sources:
    """The files of a program, parsed.  Raises :class:`SyntaxError` where one of them cannot be."""

    def __init__(self, program: Program) -> None:
        self.all = [
            Source(file.text, file.path, start) for file, start in zip(program.files, program.starts, strict=True)
        ]
        self._by_place = {_place(source.path): source for source in self.all[1:]}
        self._roots = program.roots
        self._packages = _packages(self.all)
        self._modules: dict[tuple[str, int, str], Source | None] = {}
        self.has_sparse = any("sparse" in source.text for source in self.all)
        """Whether a tensor may be sparse: ``x.to_dense()`` then is a copy."""
        self.mixes_precision = any(_says_any(source.text, _MIXED) for source in self.all)
        """Whether tensors may be of a lower precision than is written, or complex: ``x.float()`` then is a copy."""
        self.has_complex = any(_says_any(source.text, _COMPLEX) for source in self.all)
        """Whether tensors may hold complex numbers, of which ``x.conj_physical()`` is a copy."""
        self.sets_precision = any(_says_any(source.text, _PRECISIONS) for source in self.all)
        """Whether tensors may be of another precision than single where none is written."""
        self.sets_device = any(_says_any(source.text, _DEVICES) for source in self.all)
        """Whether tensors may be made on another device than is written."""

    @cached_property
    def retains_gradients(self) -> bool:
        """Whether a tensor may be told to retain its gradient, which only leaves do by themselves."""
        return any("retain_grad" in source.text for source in self.all)

    @cached_property
    def keeps_derivatives(self) -> bool:
        """Whether a gradient may have a graph of its own."""
        return any("create_graph" in source.text for source in self.all)

    @cached_property
    def intercepts_attributes(self) -> bool:
        """Whether a class may have a ``__getattribute__`` of its own."""
        return any("__getattribute__" in source.text for source in self.all)

    @property
    def main(self) -> Source:
        """The script that is run."""
        return self.all[0]

    @cached_property
    def set_attributes(self) -> set[str]:
        """The names of attributes that some statement sets: ``rate`` where ``self.rate = 0.1`` stands anywhere."""
        return {name for source in self.all for name in source.nodes.once(_set_attributes)}

    @cached_property
    def parameters_set(self) -> set[tuple[str, str]]:
        """Owner and name of attributes set to parameters: ``layer``, ``bias`` for ``layer.bias = nn.Parameter(b)``."""
        return {pair for source in self.all for pair in source.nodes.once(_parameters_set)}

    @cached_property
    def models(self) -> set[str]:
        """The names of variables and attributes that the program asks for parameters, or gives a mode, anywhere."""
        return {name for source in self.all for name in source.nodes.once(_models)}

    @cached_property
    def own_passes(self) -> set[str]:
        """The names of the program's own methods that are called like those that libraries send a loss backward by."""
        return {name for source in self.all for name in source.nodes.once(_own_passes)}

    def module(self, name: str, level: int, importer: Source) -> Source | None:
        """The file that ``import name`` in *importer* means, with *level* dots before it; None where it has none."""
        asked = name, level, importer.path
        if asked not in self._modules:
            places = places_of(name, level, importer.path, self._roots, self._packages) if self._by_place else ()
            found = [self._by_place[place] for place in places if place in self._by_place]
            # A module that has the name itself means another one.
            self._modules[asked] = next((one for one in found if one is not importer), found[0] if found else None)
        return self._modules[asked]


_RELATIVE = re.compile(r"^[ \t]*from[ \t]+(\.+)[\w.]*[ \t]+import\b", re.MULTILINE)


@lru_cache(maxsize=4096)
def relative_levels(text: str) -> int:
    """The most dots before a relative import of a source: so many folders above it are packages.

    Python refuses such imports in a script, whose folder would be searched first.
    """
    return max((len(dots) for dots in _RELATIVE.findall(text)), default=0)


def _packages(sources: Sequence[Source]) -> frozenset[str]:
    """The folders that are packages by the relative imports in them, and not the folder of the script."""
    found: set[str] = set()
    for source in sources:
        path = source.path.replace("\\", "/")
        found.update(_above(path, level) for level in range(1, relative_levels(source.text) + 1))
    main = sources[0]
    if not relative_levels(main.text):
        found.discard(posixpath.dirname(main.path.replace("\\", "/")))
    return frozenset(found - {""})


def _above(path: str, levels: int) -> str:
    """The folder *levels* above a path."""
    for _ in range(levels):
        path = posixpath.dirname(path)
    return path


INSTALLED = ("torch", "numpy")
"""Packages that no project has its own of."""


def places_of(
    name: str, level: int, importer: str, roots: Sequence[str] = (), packages: Collection[str] = ()
) -> Iterator[str]:
    """Paths at which the module of an import may lie, the likeliest first, without the ending that names the file.

    An import without dots is looked for in the importer's folder (a script's own folder is on its path) and in those
    above it (which hold the packages that the importer is part of), then in the project's import *roots*.  Folders that
    are *packages* come last: none is a script's own.
    A package's part for torch, as ``garage.torch``, is not what its files mean by ``import torch``.
    """
    if not level and name.partition(".")[0] in INSTALLED:
        return
    folder = posixpath.dirname(importer.replace("\\", "/"))
    below = name.replace(".", "/")
    if level:
        for _ in range(level - 1):
            if not folder:  # above the folder that paths are relative to
                return
            folder = posixpath.dirname(folder)
        yield posixpath.join(folder, below).rstrip("/")
        return
    folders = [folder]
    while (above := posixpath.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    paths = [posixpath.normpath(root.replace("\\", "/")) for root in roots]
    folders += ["" if path == "." else path for path in paths]
    for folder in sorted(folders, key=lambda folder: folder in packages):
        yield posixpath.join(folder, below)


def _place(path: str) -> str:
    """The path without ``.py``; a package's is that of its folder."""
    place = path.replace("\\", "/").removesuffix(".py")
    return posixpath.dirname(place) if posixpath.basename(place) == "__init__" else place
