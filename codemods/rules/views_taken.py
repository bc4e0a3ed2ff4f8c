"""Takes several views anew when their base was changed in place: ``x, y = points.unbind(1)`` once more."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.changed import PartChanged
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate


def taken_again(fact: PartChanged, tree: Tree) -> Iterator[Candidate]:
    """The views are taken once more before the first statement behind the change that reads them.

    So they see the change, as a slice does, and as they do where no graph is recorded.
    """
    taken = tree.statement_of(tree.expression(fact.made))
    changed = tree.statement(fact.changed)
    block = tree.block_of(changed) if changed is not None else []
    if taken is None or changed is None or taken not in block or block.index(taken) >= block.index(changed):
        return
    views = targets_of(taken, tree)
    behind = block[block.index(changed) + 1 :]
    reader = next((one for one in behind if views & tree.paths_in(one)), None)
    if not views or reader is None:
        return
    passed = block[block.index(taken) + 1 : block.index(reader)]
    if any(_rebound(one, tree) & (views | tree.paths_in(taken)) for one in passed):
        return
    edit = Edit(tree).insert_before(reader, tree.own_code(taken))
    if not any(views & tree.paths_in(one) for one in passed):
        edit = edit.remove(taken)
    listed = " and ".join(f"`{name}`" for name in sorted(views))
    yield Candidate(edit.patch(), f"take {listed} when the base has been changed", Keeps.PARAMETERS)


def _rebound(statement: Statement, tree: Tree) -> set[str]:
    """Names and paths that a statement, or one inside of it, binds anew."""
    found: set[str] = set()
    for one in (statement, *tree.statements_in(statement)):
        if isinstance(one, cst.For):
            found |= tree.paths_in(one.target)
        found |= targets_of(one, tree)
    return found
