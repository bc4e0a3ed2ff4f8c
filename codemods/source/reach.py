"""Which backward passes of a program were reached by the paths that were followed, and why the others were not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from autofix.codemods.facts.base import Span
from autofix.codemods.source.nodes import Nodes
from autofix.codemods.source.sources import Source, last_name

NOT_READ = "its loss comes from code that was not read"
NOT_ENTERED = "no path that was followed comes here"
TOO_LARGE = "the program is too large to be followed to here"


class Missed(NamedTuple):
    """A backward pass that was not reached: its line in the program, and the reason."""

    line: int
    reason: str


def written(sources: Iterable[Source]) -> Iterator[tuple[Source, ast.Call]]:
    """Every call in a program that runs a backward pass, by its text."""
    for source in sources:
        for call in source.nodes.once(_calls):
            yield source, call


def _calls(nodes: Nodes) -> list[ast.Call]:
    imported = nodes.once(imported_passes)
    return nodes.levelled(call for call in nodes.of(ast.Call) if _is_pass(call, imported))


def _is_pass(call: ast.Call, imported: ImportedPasses) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in imported.functions
        case ast.Attribute(value=ast.Name(id="self" | "ctx" | "cls"), attr="backward"):
            return False  # a method of the program's own, which has the pass inside
        case ast.Attribute(attr="backward" | "manual_backward"):
            return True
        case ast.Attribute(value=owner, attr="grad"):
            return last_name(owner) in imported.modules
    return False


class ImportedPasses(NamedTuple):
    """The names by which a file calls the functions of ``torch.autograd`` that run a backward pass."""

    functions: frozenset[str] = frozenset()
    """``gradient`` after ``from torch.autograd import grad as gradient``."""
    modules: frozenset[str] = frozenset(("autograd",))
    """``autograd``, and ``ag`` after ``from torch import autograd as ag`` or ``import torch.autograd as ag``."""


def imported_passes(nodes: Nodes) -> ImportedPasses:
    """The names by which a file calls torch's functions that run a backward pass, wherever it imports them."""
    functions: set[str] = set()
    modules = {"autograd"}
    for node in nodes.of(ast.ImportFrom):
        for name in node.names:
            if node.module == "torch.autograd" and name.name in ("grad", "backward"):
                functions.add(name.asname or name.name)
            elif node.module == "torch" and name.name == "autograd":
                modules.add(name.asname or name.name)
    for statement in nodes.of(ast.Import):
        modules |= {name.asname for name in statement.names if name.name == "torch.autograd" and name.asname}
    return ImportedPasses(frozenset(functions), frozenset(modules))


def missed(
    sources: Iterable[Source], reached: Collection[int], executed: Collection[ast.stmt], *, complete: bool
) -> Iterator[Missed]:
    """The written passes that are not among the *reached* lines."""
    left = [(source, call) for source, call in written(sources) if call.lineno + source.start not in reached]
    ran = {(id(source), line) for source, line in _lines(sources, executed)} if left else set()
    for source, call in left:
        line = call.lineno + source.start
        if (id(source), call.lineno) in ran:
            yield Missed(line, NOT_READ)
        else:
            yield Missed(line, NOT_ENTERED if complete else TOO_LARGE)


def _lines(sources: Iterable[Source], executed: Collection[ast.stmt]) -> Iterator[tuple[Source, int]]:
    """The lines of simple statements that were executed; a compound one's are those of its head."""
    known = set(executed)
    for source in sources:
        for statement in source.nodes.once(Nodes.statements):
            if statement in known:
                body = getattr(statement, "body", None)
                end = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or 0
                yield from ((source, line) for line in range(statement.lineno, max(end, statement.lineno) + 1))


def statement_at(sources: Iterable[Source], span: Span) -> ast.stmt | None:
    """The innermost statement that a place of the program, whose lines are counted through all *sources*, is in."""
    source = max((one for one in sources if one.start < span.line), key=lambda one: one.start)
    line = span.line - source.start
    found = [
        statement
        for statement in source.nodes.once(Nodes.statements)
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno)
    ]
    return max(found, key=lambda statement: (statement.lineno, statement.col_offset), default=None)
