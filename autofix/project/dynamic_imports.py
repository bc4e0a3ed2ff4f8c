"""Modules that a program loads by a name it makes from an option: ``import_module("models." + options.model)``.

Most scripts are run with the defaults of their parsers, so that a default in the place of the option names the module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from autofix.codemods.source import sources
from autofix.codemods.source.nodes import Nodes
from autofix.project.imports import Imported

_LOADERS = ("import_module", "__import__")


class Pattern(NamedTuple):
    """A module's name with one unknown part: the text before it, and the text behind it."""

    before: str
    behind: str

    def filled(self, option: str) -> Imported | None:
        """The import that this is, with *option* in the place of the unknown part; None where that is no name."""
        name = f"{self.before}{option}{self.behind}".removesuffix(".py").replace("/", ".")
        path = name.lstrip(".")
        if not all(part.isidentifier() for part in path.split(".")):
            return None
        return Imported(path, len(name) - len(path), ())


def patterns(nodes: Nodes) -> tuple[Pattern, ...]:
    """The names by which a source loads modules, as far as one part of them is unknown."""
    return tuple(dict.fromkeys(_patterns(nodes)))


def _patterns(nodes: Nodes) -> Iterator[Pattern]:
    for call in nodes.of(ast.Call):
        if not call.args or sources.last_name(call.func) not in _LOADERS:
            continue
        parts = _parts(call.args[0], nodes, 0)
        match call.args[1:]:
            case [ast.Constant(value=str(package))] if isinstance(parts[0], str) and parts[0].startswith("."):
                parts = [package, *parts]
        if parts.count(None) == 1:
            at = parts.index(None)
            yield Pattern("".join(filter(None, parts[:at])), "".join(filter(None, parts[at + 1 :])))


def _parts(expression: ast.expr, nodes: Nodes, depth: int) -> list[str | None]:
    """The written parts of a text, with None for each unknown one."""
    match expression:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return [part for value in values for part in _parts(value, nodes, depth)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_parts(left, nodes, depth), *_parts(right, nodes, depth)]
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return _between(text, r"%s")
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return _between(text, r"\{[^{}]*\}")
        case ast.Name(id=name) if depth < 2:
            given = [node.value for node in nodes.of(ast.Assign) if _binds(node, name)]
            if len(given) == 1:
                return _parts(given[0], nodes, depth + 1)
    return [None]


def _between(text: str, hole: str) -> list[str | None]:
    first, *others = re.split(hole, text)
    return [first, *(part for other in others for part in (None, other))]


def _binds(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def defaults(nodes: Nodes) -> tuple[str, ...]:
    """The texts that the options of a source's command line are by default."""
    return tuple(dict.fromkeys(_defaults(nodes)))


def _defaults(nodes: Nodes) -> Iterator[str]:
    for call in nodes.of(ast.Call):
        if sources.last_name(call.func) == "add_argument":
            for keyword in call.keywords:
                match keyword:
                    case ast.keyword(arg="default", value=ast.Constant(value=str(text))) if text:
                        yield text
