"""Models that keep nothing of what they are called with: evaluated without a graph, they leave everything as it was."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, module_tree
from autofix.codemods.interpreter.told_names import CHANGING
from autofix.codemods.interpreter.values import Class, Instance, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def is_stateless(interp: Interpreter, value: Value) -> bool:
    """Whether a value is a model whose classes set nothing outside of their constructors, with all of its parts."""
    if not isinstance(value, TorchModule) and not (isinstance(value, Instance) and class_lookup.is_module(value)):
        return False
    if interp.hooks or interp.backward_hooks:
        return False
    parts = (slot.value for slot in module_tree.modules(value))
    return all(
        cls.source.remembered(cls.node, _sets_nothing)
        for part in parts
        if isinstance(part, Instance)
        for cls in class_lookup.lineage(part.cls)
        if isinstance(cls, Class)
    )


def _sets_nothing(node: ast.ClassDef) -> bool:
    """Whether no method but the constructor changes an attribute, or what one holds."""
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name != "__init__"]
    return not any(_changes(part) for method in methods for part in ast.walk(method))


def _changes(node: ast.AST) -> bool:
    match node:
        case ast.Global() | ast.Nonlocal():
            return True
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Subscript(value=ast.Attribute(), ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute() as owner, attr=name)):
            return _is_own(owner) and (name in CHANGING or name.endswith("_"))
    return False


def _is_own(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"
