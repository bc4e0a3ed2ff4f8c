"""The tensor that an in-place operation changes."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.rewriting.nodes import children
from autofix.codemods.rewriting.tree import Tree


def root_of(change: cst.CSTNode | None, tree: Tree) -> cst.CSTNode | None:
    """``x`` of ``x *= 2``, of ``x.mul_(2).add_(1)`` and of ``F.relu_(x)``."""
    root = change.target if isinstance(change, cst.AugAssign) else change
    while isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
        handed = root.args[0].value if root.args else None
        of_module = is_function_of_a_module(root, tree)
        if not of_module and not _is_of_tensors(root.func.attr.value):
            return root  # `box.get().mul_(2)` changes what the method of an object gives
        root = handed if of_module else root.func.value
    return root


def _is_of_tensors(name: str) -> bool:
    """Whether tensors have a method of this name."""
    return name in catalogue.of_tensors() or name.startswith("_") or catalogue.is_method(name)


def is_function_of_a_module(call: cst.Call, tree: Tree) -> bool:
    """``F.relu_(x)`` or ``torch.nn.functional.relu_(x)``, where the name before the first dot is imported."""
    above = call.func.value if isinstance(call.func, cst.Attribute) else None
    while isinstance(above, cst.Attribute):
        above = above.value
    return isinstance(above, cst.Name) and tree.is_imported(above)


def base_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` for ``x[0]``."""
    return node.value if isinstance(node, cst.Subscript) else node


def is_place(node: cst.CSTNode) -> bool:
    """Whether an expression names something that may be read a second time: no call stands in it."""
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, (cst.Call, cst.NamedExpr, cst.Await)):
            return False
        pending.extend(children(part))
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))
