"""Roles of a statement in training, by its syntax tree: it steps, sends backward, empties, detaches, reports."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
from autofix.codemods.rewriting.tree import Tree

_GRADIENTS = frozenset(("grad", "backward", "autograd", "unscale_"))
"""Names of what reads or makes gradients."""


def calls_of(node: cst.CSTNode, *methods: str) -> Iterator[cst.Call]:
    """The calls in *node* of a method with one of these names."""
    for call in calls_in(node):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in methods:
            yield call


def owner_of(statement: Statement | None, method: str) -> cst.BaseExpression | None:
    """``optimizer`` where a statement is ``optimizer.step()``, for the method ``step``; None for any other."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == method:
        return call.func.value
    return None


def steps(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether an optimizer steps in *node*: with no argument, with a closure, or by the scaler that is given it.

    ``env.step(action)`` is no such step.
    """
    return any(_is_step(call, tree) for call in calls_of(node, "step", "update"))


def _is_step(call: cst.Call, tree: Tree) -> bool:
    if tree.called(call) == "update":  # a scaler's
        return not call.args
    if len(call.args) > 1:
        return False
    value = call.args[0].value if call.args else None
    return value is None or isinstance(value, cst.Lambda) or _is_function(value, tree) or is_optimizer(value, tree)


def _is_function(value: cst.BaseExpression, tree: Tree) -> bool:
    names = {function.name.value for function in tree.every(cst.FunctionDef, tree.module_of(value))}
    return isinstance(value, cst.Name) and value.value in names


def is_optimizer(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a name stands for what is told to forget gradients, or is made by a class of ``torch.optim``."""
    code = tree.code(value)
    for call in tree.every(cst.Call, tree.module_of(value)):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad":
            if tree.code(call.func.value) == code:
                return True
    return False


def keeps_graph(call: cst.CSTNode | None, keyword: str = "retain_graph") -> bool:
    """Whether a call says ``retain_graph=True``, or the like by another *keyword*."""
    arguments = call.args if isinstance(call, cst.Call) else ()
    given = (one.value for one in arguments if one.keyword is not None and one.keyword.value == keyword)
    return any(isinstance(value, cst.Name) and value.value == "True" for value in given)


def uses_gradients(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether *node* has a use for the gradients as they are between two passes, or changes the parameters."""
    return any(one in _GRADIENTS or one.startswith("clip_grad") for one in _words(node, tree)) or steps(node, tree)


def reads_gradients(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether *node* reads the gradients of tensors, itself or by a function of the program.

    ``torch.autograd.grad(...)`` computes others, and reads none.
    """
    functions = (tree.function_called(call) for call in calls_in(node))
    return any(_reads_grad(one, tree) for one in (node, *(found.body for found in functions if found is not None)))


def _reads_grad(node: cst.CSTNode, tree: Tree) -> bool:
    called = {id(call.func) for call in calls_in(node)}
    read = (one for one in tree.inside(node) if isinstance(one, cst.Attribute) and id(one) not in called)
    return any(one.attr.value == "grad" for one in read)


def empties_gradients(node: cst.CSTNode) -> bool:
    """Whether gradients are set to zero in *node*."""
    return next(calls_of(node, "zero_grad"), None) is not None


def clips_gradients(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether *node* limits the size of gradients: ``clip_grad_norm_``, ``clip_grad_value_``."""
    return any(tree.called(call).startswith("clip_grad") for call in calls_in(node))


def _words(node: cst.CSTNode, tree: Tree) -> Iterator[str]:
    """The attributes in *node*, and the names that are called or of which an attribute is taken."""
    for one in tree.inside(node):
        if isinstance(one, cst.Attribute):
            yield one.attr.value
        if isinstance(one, (cst.Call, cst.Attribute)):
            inner = one.func if isinstance(one, cst.Call) else one.value
            if isinstance(inner, cst.Name):
                yield inner.value


def cuts_graph(node: cst.CSTNode) -> bool:
    """Whether something is detached in *node*."""
    return next(calls_of(node, "detach", "detach_"), None) is not None


_UPDATES = frozenset("backward zero_grad step clip_grad_norm_ clip_grad_norm clip_grad_value_".split())


def is_of_update(statement: Statement) -> bool:
    """Whether a line does nothing but empty gradients, send back, clip and step, one after the other."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    calls = [part.value for part in parts if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call)]
    functions = [call.func.attr if isinstance(call.func, cst.Attribute) else call.func for call in calls]
    called = {one.value for one in functions if isinstance(one, cst.Name)}
    return 0 < len(parts) == len(functions) and called <= _UPDATES


def end_of_step(statement: Statement, tree: Tree) -> Statement | None:
    """The last of the statements that belong to a backward: clipping, the optimizer's and the scheduler's step."""
    block = tree.block_of(statement)
    if not block:
        return None
    last = statement
    for following in block[block.index(statement) + 1 :]:
        ends = any(owner_of(following, method) is not None for method in ("step", "zero_grad", "update"))
        if not ends and not clips_gradients(following, tree):
            break
        last = following
    return last
