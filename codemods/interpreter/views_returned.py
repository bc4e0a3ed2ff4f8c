"""The results of a function that certainly are views of other tensors, or its arguments as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autofix.codemods.autograd import catalogue

_TRANSPOSED = frozenset(("T", "mT"))
_TENSORS = (catalogue.VIEW, catalogue.SHAPED, "pointwise", "cast", "creation", "join")
"""Kinds of operations that return one tensor."""


def views_returned(function: ast.FunctionDef | ast.AsyncFunctionDef, tensors: Iterable[str]) -> tuple[int, ...]:
    """The numbers of those results of the last statement, where the function returns nowhere else.

    *tensors* are the names of the arguments that are some.
    """
    returns = [part for part in ast.walk(function) if isinstance(part, ast.Return)]
    *statements, last = function.body
    if returns != [last] or not isinstance(last, ast.Return) or last.value is None:
        return ()
    names = _Names(tensors)
    for statement in statements:
        names.execute(statement)
    results = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    return tuple(at for at, one in enumerate(results) if names.is_view(one))


class _Names:
    """The names that certainly are tensors in a function, and those among them that are views or arguments."""

    def __init__(self, tensors: Iterable[str]) -> None:
        self.tensors = set(tensors)
        self.views = set(self.tensors)

    def execute(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            return  # it is the tensor that it was
        single = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        value = statement.value if isinstance(statement, ast.Assign) and single else None
        is_tensor, is_view = value is not None and self.is_tensor(value), value is not None and self.is_view(value)
        stored = {
            part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
        }
        self.tensors -= stored
        self.views -= stored
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            self.tensors |= stored if is_tensor else set()
            self.views |= stored if is_view else set()

    def is_view(self, value: ast.expr) -> bool:
        """Whether an expression certainly gives a view of a tensor, or one of the views themselves."""
        match value:
            case ast.Name(id=name):
                return name in self.views
            case ast.Attribute(value=owner, attr=name):
                return name in _TRANSPOSED and self.is_tensor(owner)
            case ast.Subscript(value=owner, slice=index):
                indices = index.elts if isinstance(index, ast.Tuple) else [index]
                return self.is_tensor(owner) and all(map(_is_of_a_view, indices))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[owner, *_]):
                return catalogue.is_certainly_view(name) and self.is_tensor(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return (
                    catalogue.is_certainly_view(name) and self.is_tensor(owner) and not _is_perhaps_of_type(name, value)
                )
        return False

    def is_tensor(self, value: ast.expr) -> bool:
        match value:
            case ast.Name(id=name):
                return name in self.tensors
            case ast.BinOp(left=left, right=right):
                return self.is_tensor(left) or self.is_tensor(right)
            case ast.UnaryOp(operand=operand):
                return not isinstance(value.op, ast.Not) and self.is_tensor(operand)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
                return catalogue.kind(name) in _TENSORS
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return catalogue.kind(name) in _TENSORS and self.is_tensor(owner)
        return self.is_view(value)


def _is_of_a_view(index: ast.expr) -> bool:
    """Whether an index takes a view of a tensor, and no copy."""
    match index:
        case ast.Slice():
            return True
        case ast.Constant(value=value):
            return not isinstance(value, bool)
    return False


def _is_perhaps_of_type(name: str, call: ast.Call) -> bool:
    """Whether a call is ``x.view(dtype)``, or may be."""
    if name != "view":
        return False
    return bool(call.keywords) or (
        len(call.args) == 1
        and not isinstance(call.args[0], (ast.Tuple, ast.List, ast.Constant, ast.UnaryOp, ast.Call, ast.Starred))
        and not (isinstance(call.args[0], ast.Attribute) and call.args[0].attr == "shape")
    )
