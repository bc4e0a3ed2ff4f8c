"""Branches that compute a loss, which move with what is computed of it behind the steps that spoil its graph."""

from __future__ import annotations

import textwrap

import libcst as cst

from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.passing import changes
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.roles import steps
from autofix.codemods.rewriting.tree import Tree


def branches_moved(
    step: Statement, failed: Statement, made: cst.CSTNode | None, tree: Tree
) -> tuple[Patch, str] | None:
    """The ``if`` that holds *made*, and all that is computed of its names, go behind the last step before *failed*.

    With the names that the failed pass reads. None for a value that stands in no branch, and where a statement that
    they would pass by reads one of the names, or changes something that they read.
    """
    block = tree.block_of(step)
    while made is not None and made not in block:
        made = tree.parent_of(made)
    if not isinstance(made, cst.If) or failed not in block:
        return None
    first, last = block.index(made), block.index(failed)
    at = next((at for at in reversed(range(first, last)) if steps(block[at], tree)), first)
    run = _computed_of(made, block[first + 1 : at + 1], tree)
    passed = [one for one in block[first : at + 1] if one not in run]
    if step not in passed or not run or changes(passed, run, tree) or changes(run, passed, tree):
        return None
    edit = Edit(tree)
    for one in run:
        edit.remove(one)
    edit.insert_after(block[at], *(textwrap.dedent(tree.own_code(one)) for one in run))
    bound = set[str]().union(*(_bound(one, tree) for one in run))
    return edit.patch(), ", ".join(sorted(bound & {name.value for name in tree.names_in(failed)}))


def _computed_of(made: Statement, later: list[Statement], tree: Tree) -> list[Statement]:
    """*made*, and the *later* statements that compute with its names, or with theirs; none if one of them does more."""
    if not _computes(made, tree):
        return []
    run, names = [made], _bound(made, tree)
    for one in later:
        if names & {name.value for name in tree.names_in(one)}:
            if not _computes(one, tree):
                return []
            run.append(one)
            names |= _bound(one, tree)
    return run


def _computes(statement: Statement, tree: Tree) -> bool:
    """Whether a statement gives values to plain names, and nothing else, on all of its branches."""
    if isinstance(statement, cst.If):
        return all(_computes(one, tree) for one in tree.statements_in(statement) if one is not statement)
    part = only_part(statement)
    if isinstance(part, cst.Expr):
        return isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))  # a comment
    targets = [target.target for target in part.targets] if isinstance(part, cst.Assign) else []
    if isinstance(part, cst.AugAssign):
        targets = [part.target]
    return bool(targets) and all(isinstance(target, (cst.Name, cst.Tuple)) for target in targets)


def _bound(statement: Statement, tree: Tree) -> set[str]:
    """The names that a statement, or a statement in it, gives a value."""
    parts = [only_part(one) for one in (statement, *tree.statements_in(statement))]
    targets = [target.target for part in parts if isinstance(part, cst.Assign) for target in part.targets]
    targets += [part.target for part in parts if isinstance(part, cst.AugAssign)]
    return {name.value for target in targets for name in tree.names_in(target)}
