"""Expressions that are written for the parts of a call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def argument(node: ast.expr, position: int) -> ast.expr | None:
    """The expression written for an argument of a call."""
    if isinstance(node, ast.Call) and position < len(node.args):
        return node.args[position]
    return None


def receiver(interp: Interpreter, node: ast.expr) -> str:
    """The user's text of what a method is called on."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return interp.source.text_of(node.func.value)
    return ""


def owner(node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
    """The expression whose attribute *node* is, or whose method it calls."""
    place = node.func if isinstance(node, ast.Call) else node
    return place.value if isinstance(place, ast.Attribute) else place


def keyword(node: ast.expr, name: str) -> ast.expr | None:
    """The expression written for a keyword argument of a call."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return next((one.value for one in keywords if one.arg == name), None)


def arguments(node: ast.expr) -> list[ast.expr]:
    """The expressions written for a call's arguments, in order; none where some are unpacked."""
    if not isinstance(node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in node.args):
        return []
    return [*node.args, *(keyword.value for keyword in node.keywords)]
