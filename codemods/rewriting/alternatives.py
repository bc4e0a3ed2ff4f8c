"""A value that every side of an ``if`` computes: which statement computes it on every path."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.nodes import Statement, children
from autofix.codemods.rewriting.tree import Tree


def on_every_path(kept: Statement, reader: cst.CSTNode, tree: Tree) -> tuple[Statement, list[Statement]]:
    """The statement that computes what *kept* computes, whichever side is taken, and the assignments in it.

    This is *kept* itself, or the outermost ``if`` around it that is not around *reader* and each side of which assigns
    the same: reduced to these assignments.
    """
    beside = set(tree.enclosing(reader))
    names = targets_of(kept, tree)
    found: tuple[Statement, list[Statement]] = (kept, [kept])
    for around in tree.enclosing(kept):
        if around in beside or isinstance(around, (cst.FunctionDef, cst.For, cst.While)):
            break
        if isinstance(around, cst.If) and names and not isinstance(tree.parent_of(around), cst.If):
            reduced = _reduced(around, names, tree)
            if reduced is not None:
                found = reduced, list(_assignments(reduced, tree))
    return found


def _reduced(choice: cst.If, names: set[str], tree: Tree) -> cst.If | None:
    """*choice* with nothing but one assignment to *names* on each of its sides; None where a side has none, or two."""
    body = _side(choice.body, names, tree)
    if body is None or tree.paths_in(choice.test) & names:
        return None
    other: cst.If | cst.Else
    match choice.orelse:
        case cst.If() as following:
            inner = _reduced(following, names, tree)
            if inner is None:
                return None
            other = inner
        case cst.Else(body=block) as last:
            reduced = _side(block, names, tree)
            if reduced is None:
                return None
            other = last.with_changes(body=reduced, leading_lines=[])
        case _:
            return None
    return choice.with_changes(body=body, orelse=other, leading_lines=[])


def _side(block: cst.BaseSuite, names: set[str], tree: Tree) -> cst.BaseSuite | None:
    binding = [one for one in block.body if _binds(one, names, tree)]
    if len(binding) != 1:
        return None
    only = binding[0]
    if isinstance(only, cst.If):
        inner = _reduced(only, names, tree)
        return None if inner is None else block.with_changes(body=[inner], footer=[])
    if not isinstance(only, cst.SimpleStatementLine) or targets_of(only, tree) != names:
        return None
    return block.with_changes(body=[only.with_changes(leading_lines=[])], footer=[])


def _binds(statement: cst.CSTNode, names: set[str], tree: Tree) -> bool:
    """Whether a statement, or one inside of it, gives one of *names* another value."""
    inner = [statement, *tree.statements_in(statement)]
    return any(_stored(one, tree) & names for one in inner)


def _stored(statement: cst.CSTNode, tree: Tree) -> set[str]:
    """Names and paths that a statement binds or changes itself, without the statements inside it."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return {tree.code(statement.target)} if isinstance(statement, cst.For) else set()
    found: set[str] = set()
    for part in statement.body:
        match part:
            case cst.Assign():
                for target in part.targets:
                    found |= tree.paths_in(target.target)
            case cst.AugAssign(target=target) | cst.AnnAssign(target=target):
                found |= tree.paths_in(target)
            case cst.Del():
                found |= tree.paths_in(part)
    return found


def _assignments(choice: cst.CSTNode, tree: Tree) -> Iterator[Statement]:
    for child in children(choice):
        if isinstance(child, cst.SimpleStatementLine):
            yield child
        else:
            yield from _assignments(child, tree)
