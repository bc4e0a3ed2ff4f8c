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
        ``value = net(x)``.  A dictionary of losses becomes one of functions: ``losses[name](batch)``.

    When it is not what you want:
        Where all outputs are meant to come from the same parameters, add up their losses, call ``backward()`` once and
        step once.

    Source:
        "In-place correctness checks" in PyTorch's autograd mechanics.
    """

    code = "AF111"
    name = "computed-ahead"
    answers = (StaleGraph, Overwritten)
    rank = 1

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        failed = tree.statement_of(tree.expression(fact.failed))
        for loop in tree.enclosing(failed) if failed is not None else ():
            if isinstance(loop, (cst.FunctionDef, cst.Module)):
                return
            if isinstance(loop, cst.For) and tree.block_of(loop) and tree.body_of(loop):
                yield from _in_turn(loop, tree)
                yield from _called_in_turn(fact, loop, tree)


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


def _called_in_turn(fact: StaleGraph | Overwritten, loop: cst.For, tree: Tree) -> Iterator[Candidate]:
    """``losses = {"d": f(x), "g": g(x)}`` keeps the functions, and the loop calls each: ``losses[name](x)``."""
    block = tree.block_of(loop)
    for statement in reversed(block[: block.index(loop)]):
        part = only_part(statement)
        if (
            not isinstance(part, cst.Assign)
            or len(part.targets) != 1
            or not isinstance(part.targets[0].target, cst.Name)
        ):
            continue
        name, display = part.targets[0].target.value, part.value
        if not isinstance(display, (cst.Dict, cst.List, cst.Tuple)) or len(display.elements) < 2:
            continue
        values = [getattr(element, "value", None) for element in display.elements]
        plain = all(isinstance(element, (cst.DictElement, cst.Element)) for element in display.elements)
        if not plain or not all(isinstance(value, cst.Call) for value in values):
            continue
        if tree.count_paths(tree.function_of(loop), {name}) != 2:  # where it is made, and where the loop reads it
            continue
        calls = [cst.ensure_type(value, cst.Call) for value in values]
        given = {", ".join(tree.code(arg).strip().rstrip(",") for arg in call.args) for call in calls}
        same = len(given) == 1 and all(isinstance(call.func, (cst.Name, cst.Attribute)) for call in calls)
        arguments = given.pop() if same else ""
        edit = Edit(tree)
        for call in calls:
            late = (
                call.func
                if same
                else cst.ensure_type(cst.parse_expression("lambda: x"), cst.Lambda).with_changes(body=call)
            )
            edit.change(call, lambda _, late=late: late)  # type: ignore[misc]
        if not _call_where_read(name, arguments, loop, edit, tree):
            continue
        made = tree.expression(fact.outer.made) if fact.outer is not None else None
        spoiled = [call for call in calls if made is call or (made is not None and call in tree.enclosing(made))]
        yield Candidate(
            edit.program(),
            f"each of `{name}` is computed when its turn comes",
            Keeps.LATER,
            blames=tree.line_of(spoiled[-1] if spoiled else calls[-1]),
        )
        return


def _call_where_read(name: str, arguments: str, loop: cst.For, edit: Edit, tree: Tree) -> bool:
    """Call what a loop takes out of the display *name*; False where it does not take one item in each iteration."""
    for statement in tree.body_of(loop):
        part = only_part(statement)
        value = part.value if isinstance(part, cst.Assign) else None
        if isinstance(value, cst.Subscript) and tree.code(value.value) == name:
            edit.change(value, lambda node: cst.parse_expression(f"{tree.code(node)}({arguments})"))
            return True
    source, target = loop.iter, loop.target
    taken: cst.BaseExpression | None = None
    if isinstance(source, cst.Call) and tree.code(source) == f"{name}.items()" and isinstance(target, cst.Tuple):
        taken = target.elements[-1].value if len(target.elements) == 2 else None
    elif tree.code(source) == f"{name}.values()":
        taken = target
    else:
        place = _place_of(name, source, target)
        taken = place[1] if place is not None else None
    if not isinstance(taken, cst.Name):
        return False
    late = tree.fresh_name("compute", "make")
    edit.change(taken, lambda _: cst.Name(late))
    edit.insert_before(tree.body_of(loop)[0], f"{taken.value} = {late}({arguments})")
    return True


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
