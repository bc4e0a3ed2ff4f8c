"""Names that only serve to tell how things go: printed, written to a log, or used for nothing but each other.

``best = score`` decides about nothing where ``best`` is only printed.  All places of a file where a name of that text
stands are looked at, whatever function they are in, by how they are written.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from autofix.codemods.autograd.catalogue import operation
from autofix.codemods.interpreter.opaque_results import MODEL_METHODS
from autofix.codemods.source.nodes import Nodes, children, imports, own_parts
from autofix.codemods.source.sources import Parsed, Source

KNOWN = MODEL_METHODS | frozenset(
    "backward manual_backward grad step zero_grad unscale_ scale update data requires_grad numpy send put".split()
)
"""Attributes by which values that nobody read are known for models, optimizers, scalers, tensors and queues."""
TELLING = frozenset(
    "print len str repr int float round abs min max sum sorted range enumerate format isinstance open".split()
)
"""Python's own functions that do nothing to what they are given."""
GROWING = frozenset("append appendleft extend".split())
"""Methods that add to a list or a deque."""
CHANGING = GROWING | frozenset("add insert pop popleft remove clear update setdefault".split())
"""Methods that change a container of Python's."""
_PARTS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)
_PARTS_OF_PARTS = (ast.FormattedValue, ast.Slice, ast.Starred, ast.keyword)
EXPRESSIONS = (*_PARTS, *_PARTS_OF_PARTS)
"""Nodes that only compute a value of their parts."""


class _Use(NamedTuple):
    """A place where a name is read."""

    node: ast.Name
    target: str | None
    """The name that is computed from it; none where it is only told, an empty one for any other use."""


def is_told(source: Source, name: str, within: Collection[ast.AST] = ()) -> bool:
    """Whether nothing but what is told depends on a *name*, wherever in its file it stands but *within* some nodes."""
    uses = source.once(_uses)
    reached, pending = {name}, [name]
    while pending:
        for use in uses.get(pending.pop(), ()):
            if use.target is None or use.node in within:
                continue
            if not use.target:
                return False
            if use.target not in reached:
                reached.add(use.target)
                pending.append(use.target)
    return True


def _uses(parsed: Parsed) -> dict[str, list[_Use]]:
    nodes = parsed.nodes
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [
        *nodes.of(ast.FunctionDef),
        *nodes.of(ast.AsyncFunctionDef),
    ]
    defined = frozenset(one.name for one in functions)
    imported = frozenset(name for name, library in imports(nodes) if library != "torch")
    reader = _Reader(defined, imported, nodes)
    found: dict[str, list[_Use]] = {}
    for statement in parsed.tree.body:
        for name, uses in parsed.remembered(statement, reader).items():
            found.setdefault(name, []).extend(uses)
    return found


@dataclass(frozen=True)
class _Reader:
    """Notes for each name in a statement of a module what it is used for."""

    defined: frozenset[str]
    """The functions of the module."""
    imported: frozenset[str]
    """The names that it imports, those from torch apart."""
    nodes: Nodes = field(compare=False)

    def __call__(self, statement: ast.stmt) -> dict[str, list[_Use]]:
        uses = _Uses(self)
        for node in self.nodes.within(statement):
            if isinstance(node, ast.stmt):
                uses.statement(node)
        return uses.found


class _Uses:
    """The uses of names that were noted so far."""

    def __init__(self, reader: _Reader) -> None:
        self.found: dict[str, list[_Use]] = {}
        self._defined = reader.defined
        self._imported = reader.imported

    def statement(self, node: ast.stmt) -> None:
        """Note the uses in a statement itself; those within it come as statements of their own."""
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) as call) if (
                name in GROWING
            ):
                self._note((*call.args, *call.keywords), owner)
            case ast.Expr(value=ast.Call() as call):
                self._note((call,), None)
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                self._note((value,), target)
            case ast.AugAssign(target=ast.Name(id=target), value=value):
                self._note((value,), target)
            case ast.Global() | ast.Nonlocal():
                pass
            case _:
                for _, part in own_parts(node):
                    if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store):
                        self._use(part, "")

    def _note(self, parts: Iterable[ast.AST], target: str | None) -> None:
        """Note the names that *parts* read, for a *target* or for what is told."""
        for part in parts:
            for name, plain in self._names(part):
                self._use(name, target if plain else "")

    def _use(self, name: ast.Name, target: str | None) -> None:
        self.found.setdefault(name.id, []).append(_Use(name, target))

    def _names(self, node: ast.AST, plain: bool = True) -> Iterator[tuple[ast.Name, bool]]:
        """The names that an expression reads, and whether it only computes or tells with them."""
        match node:
            case ast.Name():
                yield node, plain and isinstance(node.ctx, ast.Load)
                return
            case ast.Call(func=ast.Name(id=function), args=args, keywords=keywords):
                plain = plain and function in TELLING
                below: list[ast.AST] = [*args, *keywords]
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords):
                of_library = isinstance(owner, ast.Name) and owner.id in self._imported
                acts = name in KNOWN or name in CHANGING or name in self._defined or name.endswith("_")
                plain = plain and not acts and (of_library or not operation(name).known)
                below = [owner, *args, *keywords]
            case ast.Attribute(value=owner) | ast.Subscript(value=owner):
                below = [owner, *([node.slice] if isinstance(node, ast.Subscript) else [])]
            case _:
                plain = plain and isinstance(node, EXPRESSIONS)
                below = [one for one in children(node) if not isinstance(one, ast.stmt)]
        for one in below:
            yield from self._names(one, plain)
