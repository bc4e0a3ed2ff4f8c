"""An update of one network, from its pass to its step, that moves before what is computed with the network."""

from __future__ import annotations

import textwrap

import libcst as cst

from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement
from autofix.codemods.rewriting.passing import changes
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.roles import calls_of, empties_gradients, is_of_update, owner_of, uses_gradients
from autofix.codemods.rewriting.tree import Tree


def moved_ahead(step: Statement, made: cst.CSTNode | None, tree: Tree) -> Patch | None:
    """The pass, the *step* and what stands between them go before the statement of their block that holds *made*.

    None where the loss is not known there, or where a statement that they would pass by has to do with gradients.
    """
    block = tree.block_of(step)
    while made is not None and made not in block:
        made = tree.parent_of(made)
    if made is None or not is_of_update(step):
        return None
    first, last = block.index(made), block.index(step)  # type: ignore[arg-type]
    start = last
    while start > first and is_of_update(block[start - 1]):
        start -= 1
    update, passed = block[start : last + 1], block[first:start]
    if not passed or not any(True for one in update for _ in calls_of(one, "backward")):
        return None
    if any(uses_gradients(one, tree) or empties_gradients(one) for one in passed) or changes(passed, update, tree):
        return None
    stepped, behind = owner_of(step, "step"), block[last + 1 :]
    cleared = owner_of(behind[0], "zero_grad") if behind else None
    if stepped is not None and cleared is not None and cleared.deep_equals(stepped):
        update.append(behind[0])
    edit = Edit(tree)
    for one in update:
        edit.remove(one)
    return edit.insert_before(passed[0], *(textwrap.dedent(tree.own_code(one)) for one in update)).patch()
