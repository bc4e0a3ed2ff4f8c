"""Which line of a file each line of its changed tree was: read from the nodes that both trees have in common."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import libcst as cst
from libcst._nodes.internal import CodegenState

_ROWS = (cst.EmptyLine, cst.Decorator)
"""Nodes that stand before a statement and are no part of its position."""
_STATEMENTS = frozenset(
    (
        cst.SimpleStatementLine,
        cst.ClassDef,
        cst.For,
        cst.FunctionDef,
        cst.If,
        cst.Match,
        cst.Try,
        cst.TryStar,
        cst.While,
        cst.With,
    )
)


_UNRECORDED = nullcontext()


@dataclass
class _Written:
    """A node as it was written: in which other one, and from which line on."""

    node: cst.CSTNode
    within: int
    """The place of the node around it in the order of writing; -1 for the module."""
    line: int
    deep: bool = False
    """Whether it stands somewhere in the node around it, which is an old statement."""


@dataclass(frozen=False)
class Rendering(CodegenState):
    """Writes a tree as text, and remembers where every node begins.

    Of the nodes in a statement of the *old* tree, all of which are old, only the rows are remembered.
    """

    old: Container[cst.CSTNode] = ()
    line: int = 1
    written: list[_Written] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)
    _inside: int = 0
    """Number of open nodes in an old statement, itself included."""

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        if "\n" in value or "\r" in value:
            self.line += value.replace("\r\n", "\n").replace("\r", "\n").count("\n")

    def before_codegen(self, node: cst.CSTNode) -> None:
        if self._inside:
            self._inside += 1
            if type(node) in _ROWS:
                self.written.append(_Written(node, self._open[-1], self.line, deep=True))
            return
        self.written.append(_Written(node, self._open[-1] if self._open else -1, self.line))
        self._open.append(len(self.written) - 1)
        if type(node) in _STATEMENTS and node in self.old:
            self._inside = 1

    def after_codegen(self, node: cst.CSTNode) -> None:
        if self._inside > 1:
            self._inside -= 1
            return
        self._inside = 0
        self._open.pop()

    def record_syntactic_position(  # type: ignore[override]
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> AbstractContextManager[None]:
        return _UNRECORDED if self._inside > 1 else self._recorded(start_node)

    @contextmanager
    def _recorded(self, start_node: cst.CSTNode | None) -> Iterator[None]:
        line, at = self.line, self._open[-1]
        yield
        if start_node is not None:
            inside = (one.line for one in self.written[at:] if one.node is start_node)
            line = next(inside, line)
        self.written[at].line = line


Place = tuple[int, int, int, int]
"""Start line and column, end line and column of a node, in the lines of its file."""


@dataclass(frozen=False)
class Placing(CodegenState):
    """Writes a tree as text, and remembers where every node begins and ends, as ``PositionProvider`` does.

    A third of its time: there are tens of thousands of nodes, and one plain tuple for each.
    """

    line: int = 1
    column: int = 0
    found: dict[cst.CSTNode, Place] = field(default_factory=dict)
    _open: list[tuple[int, int]] = field(default_factory=list)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self._move(value)

    def add_indent_tokens(self) -> None:
        self.tokens.extend(self.indent_tokens)
        for token in self.indent_tokens:
            self._move(token)

    def _move(self, value: str) -> None:
        if "\n" not in value and "\r" not in value:
            self.column += len(value)
            return
        *ended, last = value.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.line += len(ended)
        self.column = len(last)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._open.append((self.line, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._open.pop()
        if node not in self.found:
            self.found[node] = (*start, self.line, self.column)

    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        start = self.line, self.column
        yield
        start = self.found[start_node][:2] if start_node is not None else start
        end = self.found[end_node][2:] if end_node is not None else (self.line, self.column)
        self.found[node] = (*start, *end)


def places_in(module: cst.Module) -> dict[cst.CSTNode, Place]:
    """The place of each node of a module."""
    state = Placing(default_indent=module.default_indent, default_newline=module.default_newline)
    module._codegen(state)
    return state.found


def render(module: cst.Module, old: Container[cst.CSTNode]) -> tuple[str, list[_Written]]:
    """The text of a tree, and its nodes in the order in which they are written; see :class:`Rendering`."""
    state = Rendering(default_indent=module.default_indent, default_newline=module.default_newline, old=old)
    module._codegen(state)
    return "".join(state.tokens), state.written


Extent = Callable[[cst.CSTNode], tuple[int, int] | None]
"""The first and the last line of a node of the old tree; None for what is no node of it."""


def origins(
    written: Sequence[_Written],
    extent: Extent,
    parents: Mapping[cst.CSTNode, cst.CSTNode],
    partners: Mapping[cst.CSTNode, cst.CSTNode],
    moved: Mapping[cst.CSTNode, cst.CSTNode],
) -> dict[int, int]:
    """Lines of the new text to those of the old one that they were.

    ``partners`` are the new nodes that stand for old ones, ``moved`` those that read as old ones do.  Any other node
    that both trees have is the same, with all of its lines, where it stands in what it stood in; a statement also
    elsewhere, if it stands there no longer.
    """
    found: dict[int, int] = {}
    in_place: list[bool] = []
    whole: list[bool] = []
    """Whether the node is an old one, unchanged, or in such a one."""
    elsewhere: list[_Written] = []
    known: set[cst.CSTNode] = set()
    for one in written:
        node = one.node
        if node in moved and (lines := extent(moved[node])) is not None:
            _take(found, one.line, lines)
            known.add(moved[node])
        around = written[one.within].node if one.within >= 0 else None
        old = partners.get(node, node)
        lines = extent(old)
        above = one.within < 0 or in_place[one.within]
        if lines is None:
            in_place.append(False)
            whole.append(False)
            continue
        parent = parents.get(old)
        here = (
            one.deep
            or old is not node
            or parent is None
            or parent is around
            or (around is not None and partners.get(around) is parent)
        )
        same = above and here
        if old is not node and not same and isinstance(old, (cst.BaseStatement, cst.BaseSmallStatement)):
            same = True  # said of a statement that was moved
        in_place.append(same)
        unchanged = same and old is node
        inside = one.within >= 0 and whole[one.within]
        whole.append(unchanged)
        if same:
            known.add(old)
            if not unchanged:
                if not isinstance(node, (cst.BaseSuite, cst.Module)):
                    found.setdefault(one.line, lines[0])
            elif not inside or isinstance(node, _ROWS):
                _take(found, one.line, lines)
        elif isinstance(node, cst.BaseStatement):
            elsewhere.append(one)
    for one in elsewhere:
        lines = extent(one.node)
        if one.node not in known and lines is not None:
            known.add(one.node)
            _take(found, one.line, lines)
    return found


def _take(found: dict[int, int], line: int, lines: tuple[int, int]) -> None:
    for at in range(lines[0], lines[1] + 1):
        found[line + at - lines[0]] = at


def filled(found: Mapping[int, int], before: Sequence[str], after: Sequence[str]) -> list[int]:
    """For each line *after*, the one *before* that it was; 0 for none.

    A row that follows one whose origin is known, and reads as the row that followed that one, is this row: a closing
    bracket, a blank line.
    """
    result = [0] * (len(after) + 1)
    taken = set(found.values())
    for number in range(1, len(after) + 1):
        origin = found.get(number, 0)
        if not origin:
            last = result[number - 1] if number > 1 else 0
            follows = last + 1 if last or number == 1 else 0
            if 0 < follows <= len(before) and follows not in taken and before[follows - 1] == after[number - 1]:
                origin = follows
                taken.add(origin)
        result[number] = origin if origin <= len(before) else 0
    return result[1:]
