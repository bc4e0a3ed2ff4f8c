"""Forward outside of the closure: an optimizer evaluates its closure several times, over one graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import compared_in_closure, is_begun, targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, is_item, only_part
from autofix.codemods.rewriting.roles import owner_of
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_MOST = 6
"""Statements that are moved at most."""


class ForwardInClosure(Codemod):
    """A closure calls backward on a loss that was computed outside of the closure.

    Error:
        RuntimeError: Trying to backward through the graph a second time, inside ``optimizer.step(closure)``. With
        ``retain_graph=True``: one of the variables needed for gradient computation has been modified by an inplace
        operation.

    Cause:
        ``torch.optim.LBFGS`` calls its closure several times in one step, and moves the parameters in between. A loss
        from outside is computed once: the second call finds its graph freed, and would find the old parameters.

    Fix:
        The forward pass moves into the closure, which then computes the loss anew each time it is called.

    When it is not what you want:
        An optimizer that evaluates its closure once does not need one: call ``backward()`` and then ``step()``.

    Source:
        "Taking an optimization step" in the documentation of torch.optim: ``optimizer.step(closure)``.
    """

    code = "AF108"
    name = "forward-outside-closure"
    answers = (StaleGraph, Overwritten)
    rank = 3

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        if isinstance(fact, StaleGraph) and _is_target(fact, tree):
            return  # it is to stay as it was while the closure's calls move the parameters
        failed = tree.expression(fact.failed)
        made = tree.statement_of(tree.expression(fact.saved if isinstance(fact, Overwritten) else fact.made))
        if failed is None or made is None:
            return
        closure = tree.function_of(failed)
        if isinstance(closure, cst.FunctionDef) and not closure.params.params and tree.function_of(made) is not closure:
            yield from _computed_inside(closure, tree.statement_of(failed), fact, tree)
        if fact.loop is None or fact.inside:
            return
        for carrier in fact.carriers:  # a function that makes the loss function: it computes something once for all
            kept = tree.statement(carrier.statement)
            block = tree.block_of(kept) if kept is not None else []
            for inner in block[block.index(kept) + 1 :] if kept in block else []:
                if isinstance(inner, cst.FunctionDef) and not isinstance(tree.function_of(inner), cst.Module):
                    yield from _computed_inside(inner, next(iter(tree.body_of(inner)), None), fact, tree)


def _is_target(fact: StaleGraph, tree: Tree) -> bool:
    """Whether the closure compares what it computes with what the same parameters gave before."""
    kept = tree.statement(fact.kept)
    if fact.target or kept is None or fact.outer is None:
        return fact.target
    made, used = tree.expression(fact.outer.made), tree.expression(fact.outer.used)
    return compared_in_closure(kept, made, used, tree)


def _computed_inside(
    closure: cst.FunctionDef, before: Statement | None, fact: StaleGraph | Overwritten, tree: Tree
) -> Iterator[Candidate]:
    """Candidates that move computations which *closure* needs into it, at last in front of the statement *before*."""
    moved: list[Statement] = []
    kept = tree.statement(fact.kept)
    for statement in _computing(closure, tree):
        moved.insert(0, statement)
        cause = tree.row_of(kept) if kept is not None and kept in moved else None
        for one in _moved(moved, closure, before, tree):
            yield replace(one, cause=cause)


def _computing(closure: cst.FunctionDef, tree: Tree) -> Iterator[Statement]:
    """The assignments before the closure that it depends on, from the nearest to the farthest."""
    block = tree.block_of(closure)
    needed = tree.paths_in(closure.body)
    own = set().union(*(_targets(one, tree) for one in tree.statements_in(closure)))
    found = 0
    for statement in reversed(block[: block.index(closure)] if closure in block else []):
        targets = _targets(statement, tree)
        if targets & own or is_begun(statement, tree):
            continue  # what the closure sets, or adds to, goes from call to call
        if targets & needed and found < _MOST:
            found += 1
            needed |= tree.paths_in(statement)
            yield statement


def _targets(statement: Statement, tree: Tree) -> set[str]:
    """The names, attributes and items that a statement assigns to, if that is all it does."""
    part = only_part(statement)
    if isinstance(part, cst.AugAssign):
        named = isinstance(part.target, (cst.Name, cst.Attribute)) or is_item(part.target)
        return {tree.code(part.target)} if named else set()
    return targets_of(statement, tree)


def _moved(
    moved: list[Statement], closure: cst.FunctionDef, before: Statement | None, tree: Tree
) -> Iterator[Candidate]:
    """The patch that moves these statements into the closure; what something behind it reads is computed there, too."""
    block, inside = tree.block_of(closure), tree.body_of(closure)
    if before is None or before not in inside:
        return
    names = set[str]().union(*(_targets(one, tree) for one in moved))
    later = block[block.index(closure) + 1 :]
    wanted = {path for statement in later for path in tree.paths_in(statement)} & names
    step = next((found for one in later if (found := _step(one, closure.name.value)) is not None), None)
    taken = step is not None and wanted == {_returned(closure, tree)}
    edit = Edit(tree)
    still = set() if taken else set(wanted)
    for statement in reversed(moved):
        if _targets(statement, tree) & still:
            still |= tree.paths_in(statement)  # what stays needs what it is computed from
        else:
            edit.remove(statement)
    uses = (at for at, one in enumerate(inside) if names & tree.paths_in(one))
    position = min(inside.index(before), next(uses, len(inside)))
    first = moved[0].with_changes(leading_lines=[]) if not position else moved[0]
    body = [*inside[:position], first, *moved[1:], *inside[position:]]
    edit.change(closure, lambda node: node.with_changes(body=node.body.with_changes(body=body)))  # type: ignore[attr-defined]
    if step is not None and wanted and taken:
        (name,) = wanted
        edit.change(step, lambda node: _assigned(name, node))
    yield Candidate(edit.patch(), f"compute the loss inside `{closure.name.value}`", Keeps.PARAMETERS)


def _step(statement: Statement, closure: str) -> cst.Expr | None:
    """``optimizer.step(closure)`` where a statement is just that."""
    part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    owner = owner_of(statement, "step")
    call = part.value if isinstance(part, cst.Expr) and owner is not None else None
    given = [one.value for one in call.args] if isinstance(call, cst.Call) else []
    takes = len(given) == 1 and isinstance(given[0], cst.Name) and given[0].value == closure
    return part if takes and isinstance(part, cst.Expr) else None


def _returned(closure: cst.FunctionDef, tree: Tree) -> str:
    """The name, or what else can be assigned to, that a function returns at its end."""
    last = tree.body_of(closure)[-1]
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return):
        value = last.body[-1].value
        return tree.code(value).strip() if isinstance(value, (cst.Name, cst.Attribute, cst.Subscript)) else ""
    return ""


def _assigned(name: str, node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Expr)
    target = cst.parse_expression(name)
    assert isinstance(target, (cst.Name, cst.Attribute, cst.Subscript))
    return cst.Assign(targets=[cst.AssignTarget(target)], value=node.value, semicolon=node.semicolon)
