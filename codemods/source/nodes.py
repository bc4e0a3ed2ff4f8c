"""The nodes of a syntax tree, found in one walk: whoever looks for some of them looks through a list.

``ast.walk`` asks every node for its fields by name, which costs more than anything that is done with the nodes.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import TypeVar

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions that loop; their targets are names of their own."""
_PLAIN = frozenset("ctx op ops id attr kind type_comment module level conversion is_async simple lineno".split())
"""Fields that hold no node of interest: names, numbers, operators, and whether a name is loaded or stored."""
_TEXTS = {ast.Constant: "value", ast.Global: "names", ast.Nonlocal: "names", ast.arg: "arg", ast.keyword: "arg"}
"""Fields of other names that hold no node in some classes; they stand in every third node."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """For each class of nodes, the fields that may hold others: of two million nodes a second, each asks for them."""

    def __init__(self, wanted: Collection[str] = (), *, last_first: bool = False) -> None:
        self._wanted = wanted
        self._last_first = last_first

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = [name for name in kind._fields if name not in _PLAIN and name != _TEXTS.get(kind)]
        found = [name for name in found if not self._wanted or name in self._wanted]
        self[kind] = tuple(reversed(found) if self._last_first else found)
        return self[kind]


_FIELDS = _Fields()
_LAST_FIRST = _Fields(last_first=True)
_BLOCKS = _Fields("body handlers orelse finalbody cases".split())
"""The fields that may hold statements, or the parts of a statement that do."""


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, as they are written, but for operators and contexts."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """*node* and all nodes below it but for operators and contexts, by level: for trees without a :class:`Nodes`."""
    found = [node]
    for one in found:  # which grows meanwhile
        found += children(one)
    return found


def own_parts(statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes of a statement that are not in a statement inside it, each after the node around it."""
    pending: list[ast.AST] = [statement]
    while pending:
        around = pending.pop()
        for part in children(around):
            yield around, part
            if not isinstance(part, ast.stmt):
                pending.append(part)


def statements_by_level(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a module, those with fewer nodes around them first, without a look at any expression.

    Beside them stand the parts of statements that hold statements: handlers of exceptions, and cases.
    """
    level: list[ast.AST] = [tree]
    while level:
        below: list[ast.AST] = []
        for node in level:
            for name in _BLOCKS[type(node)]:
                below += getattr(node, name)
        yield from below
        level = below


class Nodes:
    """All nodes of a tree, each before those below it.

    *known* are those of a tree that has some statements of the module in common with this one.
    """

    def __init__(self, tree: ast.AST, known: Nodes | None = None) -> None:
        self.all: list[ast.AST] = []
        self._known: dict[object, object] = {}
        self._depths: list[int] = []
        if known is None:
            self._add(tree, 0)
            return
        self.all.append(tree)
        self._depths.append(0)
        for part in children(tree):
            if part in known:
                taken = known._slice(part)
                self.all += known.all[taken]
                self._depths += known._depths[taken]
            else:
                self._add(part, 1)

    def _add(self, root: ast.AST, depth: int) -> None:
        """Add a node at a *depth*, and those below it."""
        found, levels = self.all, self._depths
        pending: list[ast.AST] = [root]
        depths = [depth]
        while pending:
            node, depth = pending.pop(), depths.pop()
            found.append(node)
            levels.append(depth)
            for name in _LAST_FIRST[type(node)]:
                value = getattr(node, name, None)
                for one in reversed(value) if type(value) is list else (value,):
                    if isinstance(one, ast.AST):
                        pending.append(one)
                        depths.append(depth + 1)

    def once(self, find: Callable[[Nodes], T]) -> T:
        """The answer of *find*, found once for a tree."""
        if find not in self._known:
            self._known[find] = find(self)
        return self._known[find]  # type: ignore[return-value]

    @cached_property
    def _positions(self) -> dict[ast.AST, int]:
        return {node: at for at, node in enumerate(self.all)}

    def __contains__(self, node: ast.AST) -> bool:
        return node in self._positions

    def within(self, node: ast.AST) -> list[ast.AST]:
        """*node* and all below it."""
        return self.all[self._slice(node)]

    def holds(self, node: ast.AST, part: ast.AST) -> bool:
        """Whether *part* is *node*, or stands below it."""
        start = self._positions[node]
        return start <= self._positions.get(part, -1) < self._ends[start]

    def _slice(self, node: ast.AST) -> slice:
        """Indices of *node* and of all below it."""
        start = self._positions[node]
        return slice(start, self._ends[start])

    @cached_property
    def _ends(self) -> list[int]:
        """For each node, the index behind the last one below it."""
        ends = [len(self.all)] * len(self.all)
        around: list[int] = []
        """The last node, and those that it is below, outermost first."""
        for at, depth in enumerate(self._depths):
            while len(around) > depth:
                ends[around.pop()] = at
            around.append(at)
        return ends

    @cached_property
    def _of_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in self.all:
            found[type(node)].append(node)
        return dict(found)

    def of(self, kind: type[N]) -> list[N]:
        """All nodes of one class, not of those derived from it, as they are written."""
        return self._of_kind.get(kind, [])  # type: ignore[return-value]

    def by_level(self, *kinds: type[N]) -> list[N]:
        """All nodes of some classes, those with fewer nodes around them first, as ``ast.walk`` has them."""
        return self.levelled(node for kind in kinds for node in self.of(kind))

    def levelled(self, nodes: Iterable[N]) -> list[N]:
        """Some *nodes*, those with fewer nodes around them first."""
        found = [(self._positions[node], node) for node in nodes]
        return [node for _, node in sorted(found, key=lambda one: (self._depths[one[0]], one[0]))]

    def statements(self) -> list[ast.stmt]:
        """All statements, in no order."""
        return [node for kind, found in self._of_kind.items() if issubclass(kind, ast.stmt) for node in found]  # type: ignore[misc]


def imports(nodes: Nodes) -> Iterator[tuple[str, str]]:
    """The names that a file imports, each with the first part of the module's name."""
    statements: list[ast.Import | ast.ImportFrom] = [*nodes.of(ast.Import), *nodes.of(ast.ImportFrom)]
    for one in statements:
        for alias in one.names:
            module = (one.module if isinstance(one, ast.ImportFrom) else None) or alias.name
            yield alias.asname or alias.name.partition(".")[0], module.partition(".")[0]
