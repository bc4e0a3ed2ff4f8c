"""Computed ahead: a list of outputs is computed before the loop that sends them backward one by one."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from codemods.base import Candidate, Codemod
from codemods.facts import Fact, Overwritten, StaleGraph
from codemods.proof import Keeps
from codemods.rewrite import Edit, Statement, Tree, only_part


class ComputeInTurn(Codemod):
    """Outputs are computed ahead, all of them, and then sent backward one by one with a step after each.

    Error:
        RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation, at
        the second of them; or, where they share a part of the graph: Trying to backward through the graph a second
        time.

    Cause:
        ``values = [net(x) for x in xs]`` saves the parameters as they are then. The step after the first backward
        changes them, and the second output's backward needs them as they were.

    Fix:
        Each output is computed in the loop, when its turn comes: ``for x, goal in zip(xs, goals)``, and then
        ``value = net(x)``.

    When it is not what you want:
        Where all outputs are meant to come from the same parameters, add up their losses, call ``backward()`` once and
        step once.

    Source:
        "In-place correctness checks" in PyTorch's autograd mechanics.
    """

    code = "AF111"
    name = "computed-ahead"
    answers = (StaleGraph, Overwritten)
    rank = 7

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        failed = tree.statement_of(tree.expression(fact.failed))
        for loop in tree.enclosing(failed) if failed is not None else ():
            if isinstance(loop, (cst.FunctionDef, cst.Module)):
                return
            if isinstance(loop, cst.For) and tree.block_of(loop) and tree.body_of(loop):
                yield from _in_turn(loop, tree)


def _in_turn(loop: cst.For, tree: Tree) -> Iterator[Candidate]:
    """The loop that computes what a comprehension before it computed."""
    block = tree.block_of(loop)
    for statement in reversed(block[: block.index(loop)]):
        name, made = _comprehension(statement)
        place = _place_of(name, loop.iter, loop.target) if made is not None else None
        if made is None or place is None:
            continue
        read, target = place
        around = made.for_in.target
        inner = {one.value for one in tree.names_in(around)}
        body = {one.value for part in (loop.target, loop.body) for one in tree.names_in(part)}
        if inner & body or not isinstance(target, cst.Name):
            return  # the comprehension's own name means something else in the loop
        code = f"{target.value} = {tree.code(made.elt)}"
        source = made.for_in.iter
        edit = Edit(tree).insert_before(tree.body_of(loop)[0], code)
        edit.change(read, lambda _, new=source: new).change(target, lambda _, new=around: new)  # type: ignore[misc]
        if tree.count_paths(tree.function_of(loop), {name}) == 2:
            edit.remove(statement)
        yield Candidate(edit.program(), f"`{target.value}` is computed when its turn comes", Keeps.PARAMETERS)
        return


def _comprehension(statement: Statement) -> tuple[str, cst.ListComp | None]:
    """The name and the comprehension of ``name = [f(x) for x in xs]``."""
    part = only_part(statement)
    if isinstance(part, cst.Assign) and len(part.targets) == 1 and isinstance(part.value, cst.ListComp):
        target, made = part.targets[0].target, part.value
        if isinstance(target, cst.Name) and not made.for_in.ifs and made.for_in.inner_for_in is None:
            return target.value, made
    return "", None


def _place_of(
    name: str, source: cst.BaseExpression, target: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Where a loop reads the list *name*, and the part of its target that takes the items."""
    if isinstance(source, cst.Name):
        return (source, target) if source.value == name else None
    if not isinstance(source, cst.Call) or not isinstance(source.func, cst.Name) or not isinstance(target, cst.Tuple):
        return None
    args = [arg.value for arg in source.args if arg.keyword is None and not arg.star]
    parts = [part.value for part in target.elements]
    if source.func.value == "enumerate" and len(parts) == 2 and args:
        return _place_of(name, args[0], parts[1])
    if source.func.value == "zip" and len(parts) == len(args) == len(source.args):
        for arg, part in zip(args, parts, strict=True):
            found = _place_of(name, arg, part)
            if found is not None:
                return found
    return None
