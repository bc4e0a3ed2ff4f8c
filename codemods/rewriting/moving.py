"""Statements that move, or are copied, into the body of a loop behind them."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.rewriting.computations import draws_in, parted
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, comments_of, is_heading
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree


def moved_before(first: Statement, moved: list[Statement], tree: Tree) -> Patch:
    """*moved* go before *first*, the first statement of a loop's body; a block that holds nothing else goes with them.

    Random input is drawn once, as before.
    """
    edit = Edit(tree)
    codes: list[str] = []
    moved = _with_their_block(moved, first, tree)
    draws = draws_in(moved, tree)
    for statement in moved:
        code, stays = parted(statement, tree)
        drawn = next((call for call in draws if tree.statement_of(call) is statement), None)
        if drawn is not None:  # once, as before
            noise = tree.fresh_name("noise", "drawn", "random_input")
            stays = f"{noise} = {tree.code(drawn)}"
            code = tree.own_code(cst.ensure_type(statement.deep_replace(drawn, cst.Name(noise)), type(statement)))
        if stays:
            edit.change(statement, lambda node, stays=stays: spelled(node, stays))  # type: ignore[misc]
        else:
            edit.remove(statement)
            code = tree.code(statement.with_changes(leading_lines=comments_of(statement)))
        codes.append(code)
    _keep_headings(moved, edit, tree)
    edit.insert_before(first, *(_dedented(code) for code in codes))
    return edit.patch()


def copied_before(first: Statement, run: list[Statement], tree: Tree) -> Patch:
    """*run* stands before *first*, too, for something else reads it where it is."""
    run = _with_their_block(run, first, tree)
    return Edit(tree).insert_before(first, *(_dedented(tree.own_code(one)) for one in run)).patch()


def _with_their_block(run: list[Statement], first: Statement, tree: Tree) -> list[Statement]:
    """The block ``with torch.autocast("cuda"):`` that holds *run* alone, and not the loop that begins with *first*."""
    while isinstance(around := tree.parent_of(tree.parent_of(run[0]) or run[0]), cst.With):
        if tree.body_of(around) != run or around in tree.enclosing(first):
            break
        run = [around]
    return run


def spelled(statement: cst.CSTNode, code: str) -> cst.CSTNode:
    """A line of code in the place of a simple statement."""
    line = cst.ensure_type(cst.parse_statement(code), cst.SimpleStatementLine)
    return statement.with_changes(body=line.body)


def _keep_headings(moved: list[Statement], edit: Edit, tree: Tree) -> None:
    """Headings above what is moved stay above what comes next."""
    for statement in moved:
        block = tree.block_of(statement)
        rest = [one for one in block[block.index(statement) + 1 :] if one not in moved] if statement in block else []
        lines = list(statement.leading_lines)
        headings = lines[: 1 + max((at for at, line in enumerate(lines) if is_heading(line)), default=-1)]
        if headings and rest:
            edit.change(
                rest[0],
                lambda node, lines=headings: node.with_changes(leading_lines=[*lines, *node.leading_lines]),  # type: ignore[misc]
            )


def _dedented(code: str) -> str:
    lines = code.split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[margin:] if line[:margin].isspace() else line for line in lines)
