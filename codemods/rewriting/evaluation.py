"""Passes that an evaluation reaches: it runs the training's code with recording switched off."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.autograd import groups
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.no_grad import under
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.roles import end_of_step, steps
from autofix.codemods.rewriting.tree import Tree

_RECORDS = frozenset(("enable_grad", "nullcontext"))


def condition_of(guard: Statement | None, tree: Tree) -> str:
    """The condition under which *guard* lets autograd record: ``phase == "train"``; empty where it has none.

    It is the argument of ``set_grad_enabled``, or the test of ``enable_grad() if training else no_grad()``.
    """
    return next((code for mode in _modes(guard) if (code := _condition(mode, tree))), "")


def _modes(guard: Statement | None) -> Iterator[cst.BaseExpression]:
    if isinstance(guard, cst.With):
        yield from (item.item for item in guard.items)
    elif isinstance(part := only_part(guard), cst.Expr):
        yield part.value


def _condition(mode: cst.BaseExpression, tree: Tree) -> str:
    match mode:
        case cst.Call(args=[cst.Arg(value=value)]) if tree.called(mode) == "set_grad_enabled":
            return "" if isinstance(value, cst.Name) and value.value in ("True", "False") else tree.code(value)
        case cst.IfExp(test=test, body=body, orelse=other) if _is_one_of(other, groups.WITHOUT_GRAPH, tree):
            return tree.code(test) if _is_one_of(body, _RECORDS, tree) else ""
        case cst.IfExp(test=test, body=body, orelse=other) if _is_one_of(body, groups.WITHOUT_GRAPH, tree):
            return _negated(test, tree) if _is_one_of(other, _RECORDS, tree) else ""
    return ""


def _is_one_of(value: cst.BaseExpression, names: frozenset[str] | tuple[str, ...], tree: Tree) -> bool:
    return isinstance(value, cst.Call) and tree.called(value) in names


def _negated(test: cst.BaseExpression, tree: Tree) -> str:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return tree.code(test.expression)
    return (
        f"not {tree.code(test)}"
        if isinstance(test, (cst.Name, cst.Attribute, cst.Call))
        else f"not ({tree.code(test)})"
    )


def is_training_elsewhere(guard: Statement | None, sent: cst.BaseExpression | None, tree: Tree) -> bool:
    """Whether *guard* stands around a call of a function that trains where it is called without the guard.

    ``with torch.no_grad(): run_epoch(validation)``: to record there would train on the validation data.
    """
    function = tree.function_of(sent) if sent is not None else None
    if not isinstance(guard, (cst.With, cst.FunctionDef)) or not isinstance(function, cst.FunctionDef):
        return False
    if not steps(function.body, tree) or function is guard or function not in _run_by(guard, tree):
        return False
    return _is_run_outside(function, guard, tree, {function})


def _run_by(node: cst.CSTNode, tree: Tree) -> set[cst.FunctionDef]:
    """The functions of the program that *node* calls, and those that these call in turn."""
    found: set[cst.FunctionDef] = set()
    pending = [node]
    while pending:
        called = {one for call in calls_in(pending.pop()) if (one := tree.function_called(call)) is not None}
        pending.extend(called - found)
        found |= called
    return found


def _is_run_outside(function: cst.FunctionDef, guard: Statement, tree: Tree, seen: set[cst.FunctionDef]) -> bool:
    """Whether the module itself, or a function that nobody calls, calls *function* on a way without *guard*."""
    for call in (call for module in tree.modules() for call in calls_in(module)):
        if tree.function_called(call) is not function or _is_in(call, guard, tree):
            continue
        caller = tree.function_of(call)
        if not isinstance(caller, cst.FunctionDef):
            return True
        if caller not in seen and (
            _is_run_outside(caller, guard, tree, {*seen, caller}) or not _is_called(caller, tree)
        ):
            return True
    return False


def _is_called(function: cst.FunctionDef, tree: Tree) -> bool:
    return any(tree.function_called(call) is function for module in tree.modules() for call in calls_in(module))


def _is_in(node: cst.CSTNode, around: cst.CSTNode, tree: Tree) -> bool:
    return around in tree.enclosing(node)


def sent_where_recorded(
    guard: Statement | None, sent: cst.BaseExpression | None, tree: Tree
) -> Iterator[tuple[Patch, str]]:
    """Patches that send the loss backward, and make the step, only where *guard* lets autograd record."""
    statement = tree.statement_of(sent)
    last = end_of_step(statement, tree) if statement is not None else None
    if statement is None or last is None or guard is None:
        return
    block = tree.block_of(statement)
    run = block[block.index(statement) : block.index(last) + 1]
    for test in _tests(guard, statement, tree):
        edit = Edit(tree)
        under(edit, f"if {test}:", run, tree)
        yield edit.patch(), test


def _tests(guard: Statement, sent: Statement, tree: Tree) -> Iterator[str]:
    condition = condition_of(guard, tree)
    if condition and tree.function_of(guard) is tree.function_of(sent):
        yield condition
    if tree.imports_torch(sent):
        yield f"{tree.torch_name(sent)}.is_grad_enabled()"
