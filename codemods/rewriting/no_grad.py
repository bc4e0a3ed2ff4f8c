"""Statements put under ``torch.no_grad()``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree


def guarded(tree: Tree, run: list[Statement], instead: Sequence[Statement] = ()) -> Patch:
    """The program with neighbouring statements under ``with torch.no_grad():``, or in one that stands before them.

    Others may be written *instead* of them there.
    """
    block = tree.block_of(run[0])
    at = block.index(run[0])
    previous = block[at - 1] if at else None
    edit = Edit(tree)
    if isinstance(previous, cst.With) and is_no_grad(previous, tree) and tree.body_of(previous):
        edit.change(previous, lambda node: _with_body(node, [*tree.body_of(node), *(instead or run)]))
        for statement in run:
            edit.remove(statement)
        return edit.patch()
    under(edit, f"with {tree.torch_name(run[0])}.no_grad():", run, tree, instead)
    if not tree.imports_torch(run[0]):
        _import_torch(edit, tree, run[0])
    return edit.patch()


def under(edit: Edit, header: str, run: list[Statement], tree: Tree, instead: Sequence[Statement] = ()) -> None:
    """Put neighbouring statements, or others *instead* of them, into the block of a compound statement's *header*."""
    module = tree.module_of(run[0])
    empty = cst.parse_statement(f"{header}\n{module.default_indent}pass\n", config=module.config_for_parsing)
    headed = empty.with_changes(leading_lines=run[0].leading_lines)
    first, *rest = instead or run
    inside = first.with_changes(leading_lines=[])
    edit.change(run[0], lambda _: _with_body(headed, [inside, *rest])).stands_for(inside, run[0])
    for statement in run[1:]:
        edit.remove(statement)


def _with_body(node: cst.CSTNode, body: list[Statement]) -> cst.CSTNode:
    assert isinstance(node, cst.BaseCompoundStatement)
    return node.with_changes(body=node.body.with_changes(body=body))


def is_no_grad(statement: cst.With, tree: Tree) -> bool:
    """Whether a block is ``with torch.no_grad():``, and nothing else."""
    call = statement.items[0].item if len(statement.items) == 1 else None
    return (
        isinstance(call, cst.Call) and not call.args and tree.called(call) == "no_grad" and tree.is_of_torch(call.func)
    )


def _import_torch(edit: Edit, tree: Tree, near: cst.CSTNode) -> None:
    """``import torch`` before the first other import of it."""
    for statement in tree.module_of(near).body:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.ImportFrom) and part.module is not None:
                if tree.code(part.module).startswith("torch"):
                    edit.insert_before(statement, "import torch")
                    return
