"""``DataParallel``: a model that returns one number, such as its loss, gives one for each GPU.

The wrapper is the model itself to the interpreter.  So that ``par(x)`` can be told from ``model(x)``, the names are
noted that were given the wrapper.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Node
from autofix.codemods.interpreter.values import (
    BatchSize,
    Binding,
    Instance,
    Mapping,
    Sequence,
    Shape,
    TensorRef,
    TorchModule,
    Value,
)
from autofix.codemods.source.sources import last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_SELF = frozenset(("cuda", "to", "train", "float", "half", "double"))
"""Methods of a module that return it."""
_STEPS = 16
"""Nodes above a loss that are looked at."""


def wrapped(interp: Interpreter, module: Value, node: ast.expr, devices: Value) -> None:
    """Note the name that a ``DataParallel`` of *module* is given, made by the call *node* for these *devices*."""
    statement = interp.statement.node
    if not _are_several(devices) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    value = statement.value
    while value is not node:
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in _SELF:
            return
        value = value.func.value
    if name := last_name(statement.targets[0]):
        interp.replicated.setdefault(interp.identity(module), set()).add(name)


def _are_several(devices: Value) -> bool:
    """Whether there may be several devices: all of the machine, or those of a list that is written out."""
    if not isinstance(devices, Sequence):
        return devices is None
    return len(devices.items) > 1 and all(isinstance(one.value, (int, str)) for one in devices.items)


def unwrapped(interp: Interpreter, module: Value) -> None:
    """Forget the names of a wrapper whose ``module`` is handed on: ``model = model.module``, ``train(par.module)``."""
    statement = interp.statement.node
    if not interp.replicated or not isinstance(statement, (ast.Assign, ast.Expr, ast.Return)):
        return
    nodes = list(ast.walk(statement))
    owners = {id(one.value) for one in nodes if isinstance(one, ast.Attribute)}
    if any(isinstance(one, ast.Attribute) and one.attr == "module" and id(one) not in owners for one in nodes):
        interp.replicated.pop(interp.identity(module), None)


def gathered(interp: Interpreter, function: Value, node: ast.Call, result: Value) -> Value:
    """The *result* of a call, where a wrapper is called: single numbers are vectors of as many as there are GPUs."""
    if not interp.replicated or not isinstance(function, (Instance, TorchModule)):
        return result
    if last_name(node.func) not in interp.replicated.get(interp.identity(function), ()):
        return result
    if isinstance(result, Sequence) and result.kind in ("tuple", "list"):
        return replace(result, items=[_gathered_in(interp, one, node) for one in result.items])
    if isinstance(result, Mapping):
        return replace(result, items={key: _gathered_in(interp, one, node) for key, one in result.items.items()})
    return _gathered(interp, result, node)


def _gathered_in(interp: Interpreter, slot: Binding, node: ast.Call) -> Binding:
    value = _gathered(interp, slot.value, node)
    return slot if value is slot.value else Binding(value)


def _gathered(interp: Interpreter, value: Value, node: ast.Call) -> Value:
    if not isinstance(value, TensorRef) or not value.cell.scalar or value.cell.node is None:
        return value
    vector = interp.operation("stack", [Sequence("list", [Binding(value)])], node)
    if vector.cell.node is not None:
        interp.gathered.add(vector.cell.node)
    vector.cell.scalar, vector.cell.extent = False, Shape(BatchSize.LIKELY, 1)
    return vector


def is_of_several(interp: Interpreter, node: Node) -> bool:
    """Whether the elements of a tensor are those of a vector with one for each GPU."""
    pending, seen = [node], set[Node]()
    while pending and interp.gathered and len(seen) < _STEPS:
        one = pending.pop(0)
        if one in interp.gathered:
            return True
        seen.add(one)
        pending.extend(operand.node for operand in one.operands if not operand.node.scalar)
    return False
