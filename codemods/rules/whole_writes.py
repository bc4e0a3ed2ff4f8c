"""Writes into all of a tensor, ``x[:] = cell(u, x)`` and ``x.copy_(0.9 * x + u)``, which an assignment can replace."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
from autofix.codemods.rewriting.stores import ADDING
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.other_names import Place


def whole_write(statement: Statement | None, tree: Tree) -> tuple[Place, cst.BaseExpression] | None:
    """The tensor that a statement writes all of, and what it writes; None where that may be of another shape.

    What is computed of the tensor itself, element by element or by a layer, has the tensor's own shape: a
    larger one could not be written.
    """
    part = only_part(statement)
    place: cst.BaseExpression | None = None
    value: cst.BaseExpression | None = None
    match part:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as item)]) if _is_all(item):
            place, value = item.value, part.value
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("copy_")), args=[one])):
            place, value = owner, one.value
    if not isinstance(place, (cst.Name, cst.Attribute)) or value is None:
        return None
    return (place, value) if _keeps_shape(value, tree.code(place), tree) else None


def _is_all(item: cst.Subscript) -> bool:
    """``x[:]``, ``x[:, :]`` and ``x[...]``."""
    for one in item.slice:
        index = one.slice
        if isinstance(index, cst.Slice):
            if index.lower is not None or index.upper is not None or index.step is not None:
                return False
        elif not (isinstance(index, cst.Index) and isinstance(index.value, cst.Ellipsis)):
            return False
    return True


def _keeps_shape(value: cst.BaseExpression, name: str, tree: Tree) -> bool:
    if tree.code(value) == name:
        return True
    match value:
        case cst.BinaryOperation(operator=cst.MatrixMultiply()):
            return False
        case cst.BinaryOperation(left=left, right=right):
            return _keeps_shape(left, name, tree) or _keeps_shape(right, name, tree)
        case cst.UnaryOperation(expression=inner):
            return _keeps_shape(inner, name, tree)
        case cst.Call():
            given = [argument.value for argument in value.args]
            if catalogue.operation(tree.called(value)).kind == "":  # a layer or a cell, which is given the old state
                return any(tree.code(one) == name for one in given)
            owner = value.func.value if isinstance(value.func, cst.Attribute) else None
            operands = given if owner is None or tree.is_of_torch(value.func) else [owner, *given]
            return catalogue.keeps_shape(tree.called(value)) and any(_keeps_shape(one, name, tree) for one in operands)
    return False


def is_collected(place: cst.CSTNode | None, tree: Tree) -> bool:
    """Whether a loop around *place* adds the tensor itself to a container in each of its iterations.

    All items are the one tensor then, as it is after its last change: no copy that another operation reads helps them.
    """
    if isinstance(place, cst.Subscript):
        place = place.value
    name = tree.code(place) if place is not None else ""
    loop = next(iter(tree.loops_around(place)), None)
    if loop is None or any(tree.given(one, name) is not None for one in tree.statements_in(loop)):
        return False
    return any(_adds(call, name, tree) for call in calls_in(loop.body)) or any(
        isinstance(part := only_part(one), cst.AugAssign) and _holds(part.value, name, tree)
        for one in tree.statements_in(loop)
    )


def _adds(call: cst.Call, name: str, tree: Tree) -> bool:
    """Whether a call adds what has the *name* to a container, by itself or in a tuple with others."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ADDING or not call.args:
        return False
    value = call.args[-1].value
    return tree.code(value) == name or _holds(value, name, tree)


def _holds(value: cst.BaseExpression, name: str, tree: Tree) -> bool:
    """Whether a tuple or list has an item of this *name*."""
    return isinstance(value, (cst.Tuple, cst.List)) and any(tree.code(one.value) == name for one in value.elements)
