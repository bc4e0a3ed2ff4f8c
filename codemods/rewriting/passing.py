"""Whether statements may pass by one another: what the ones change, and what the others read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.rewriting.nodes import Statement, calls_in
from autofix.codemods.rewriting.tree import Tree


def changes(statements: list[Statement], others: list[Statement], tree: Tree) -> bool:
    """Whether one of the *statements* gives another value to what the *others* read, or may change it by a method."""
    read = set[str]().union(*(tree.paths_in(one) for one in others))
    whole = {path for path in read if not any(_is_part(other, path) for other in read)}
    changed = {path for one in statements for target in _targets(one, tree) for path in _paths(target, tree)}
    return any(
        path in read or any(_is_part(one, path) for one in read) or any(_is_part(path, one) for one in whole)
        for path in changed
    )


def _is_part(path: str, owner: str) -> bool:
    """Whether a path is an attribute or an item of another one: ``losses["judge"]`` of ``losses``."""
    return path.startswith((f"{owner}.", f"{owner}["))


def _paths(target: cst.BaseExpression, tree: Tree) -> Iterator[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _paths(element.value, tree)
    else:
        yield tree.code(target).strip("()")


def _targets(statement: Statement, tree: Tree) -> Iterator[cst.BaseExpression]:
    """What a statement, and all statements in it, give a value, or what they call a method of."""
    for one in (statement, *tree.statements_in(statement)):
        if isinstance(one, cst.For):
            yield one.target
        if isinstance(one, cst.With):
            yield from (item.asname.name for item in one.items if item.asname is not None)
        for part in one.body if isinstance(one, cst.SimpleStatementLine) else ():
            if isinstance(part, (cst.AugAssign, cst.AnnAssign)):
                yield part.target
            elif isinstance(part, cst.Assign):
                yield from (target.target for target in part.targets)
            elif isinstance(part, cst.Expr):
                functions = (call.func for call in calls_in(part))
                yield from (function.value for function in functions if isinstance(function, cst.Attribute))
