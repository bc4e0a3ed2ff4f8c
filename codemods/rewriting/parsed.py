"""One parsed file: its nodes by place, name and kind, and its lines after a change, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import libcst as cst

from autofix.codemods.rewriting import one_line
from autofix.codemods.rewriting.nodes import COMPOUND, Statement, children, names_below
from autofix.codemods.rewriting.origins import Place, filled, origins, places_in, render
from autofix.codemods.rewriting.patch import Line, lines_of
from autofix.codemods.rewriting.tabs import Indents

_LINES = 4_000
"""Lines of files that are kept parsed: the scripts of a project have its library in common."""


def parsed(text: str) -> ParsedModule:
    """A file, parsed unless it is one of those that were asked for last."""
    found = _latest.pop(text, None) or ParsedModule(text)
    _latest[text] = found
    while len(_latest) > 1 and sum(one.length for one in _latest.values()) > _LINES:
        del _latest[next(iter(_latest))]
    return found


class ParsedModule:
    """One parsed file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.length = text.count("\n")
        self._indents: Indents | None = None
        try:
            self.node = one_line.parse(text)
        except cst.ParserSyntaxError:
            if "\t" not in text:
                raise
            self._indents = Indents(text)
            self.node = one_line.parse(self._indents.spaced)
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.children: dict[cst.CSTNode, Sequence[cst.CSTNode]] = {}
        stack: list[cst.CSTNode] = [self.node]
        while stack:
            node = stack.pop()
            self.children[node] = below = children(node)
            for child in below:
                self.parents[child] = node
            stack.extend(below)

    def written(
        self,
        changed: cst.Module,
        partners: Mapping[cst.CSTNode, cst.CSTNode],
        moved: Mapping[cst.CSTNode, cst.CSTNode],
    ) -> list[Line]:
        """The lines of a *changed* module, each with the line of the file that it was.

        ``partners`` are its nodes that stand for nodes of this one, ``moved`` those that read as these.  LibCST
        does not keep every byte: an ``else`` that is indented otherwise than its ``if``, a form feed, the end of a
        file with old line ends.  Lines that no change is about are the file's own; where the lines cannot be told
        apart, all of them are.
        """
        own, text = lines_of(self._own), lines_of(self._text)
        if len(own) != len(text):
            return [Line(line, number) for number, line in enumerate(text, 1)]
        code, nodes = render(changed, self.parents)
        after = lines_of(code)
        came = filled(origins(nodes, self._extent, self.parents, partners, moved), own, after)
        if self._indents is not None:
            return self._indents.restored([Line(*one) for one in zip(after, came, strict=True)])
        return [
            Line(text[origin - 1] if origin and own[origin - 1] == line else line, origin)
            for line, origin in zip(after, came, strict=True)
        ]

    def _extent(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The first and the last line of a node of this file."""
        place = self.places.get(node)
        if place is None:
            return None
        first, _, last, column = place
        return first, last - (column == 0 and last > first)

    @cached_property
    def _own(self) -> str:
        """The text that LibCST renders for the unchanged file."""
        return self.node.code

    @cached_property
    def places(self) -> dict[cst.CSTNode, Place]:
        places = places_in(self.node)
        return {node: self._indents.in_file(place) for node, place in places.items()} if self._indents else places

    @cached_property
    def by_place(self) -> dict[Place, list[cst.CSTNode]]:
        found: dict[Place, list[cst.CSTNode]] = {}
        for node, place in self.places.items():
            found.setdefault(place, []).append(node)
        return found

    @cached_property
    def names(self) -> set[str]:
        """All names that are used anywhere in the file."""
        return {name.value for name in names_below(self.node, self.children.__getitem__)}

    @cached_property
    def by_kind(self) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
        found: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        for node in self.parents:
            found.setdefault(type(node), []).append(node)
        return found

    @cached_property
    def compound(self) -> dict[Statement, Place]:
        return {node: place for node, place in self.places.items() if isinstance(node, COMPOUND)}


_latest: dict[str, ParsedModule] = {}
"""The files that were asked for last, by their texts, the latest at the end."""
