"""Statements that say of a tensor, or of a model, whether it requires grad."""

from __future__ import annotations

import ast


def flag_given(node: ast.AST) -> ast.expr | None:
    """The value to which a statement or a call sets ``requires_grad``; None for others.

    ``p.requires_grad = False``, ``model.requires_grad_(False)``, ``setattr(p, "requires_grad", False)``.
    """
    match node:
        case ast.Expr(value=call):
            return flag_given(call)
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return value
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=args, keywords=keywords):
            given = [*args, *(word.value for word in keywords)]
            return given[0] if given else ast.Constant(True)
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="requires_grad"), value]):
            return value
    return None


def is_false(value: ast.expr | None) -> bool:
    """Whether an expression is ``False``."""
    return isinstance(value, ast.Constant) and value.value is False
