"""Decorators that only enter a function in a registry and return it: ``@register_model``, ``@LOSSES.register()``.

A library decorates hundreds of functions so.  Where reading begins in one of its functions, such a decorator is
executed for the first of them; for each further one its registries are taken to hold more than is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.values import Bound, Function, Instance, Mapping, Sequence, Value, slots_of
from autofix.codemods.source.nodes import children

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def is_entered_again(interp: Interpreter, decorator: Value) -> bool:
    """Whether a *decorator* is such a one and has been executed before; its registries then hold more than is known."""
    function = decorator.function if isinstance(decorator, Bound) else decorator
    if not isinstance(function, Function) or not interp.policy.path.entry or function.node not in interp.log.called:
        return False
    mentioned = function.source.remembered(function.node, _mentioned)
    if not mentioned:
        return False
    slots = (function.scope.lookup(name) for name in mentioned)
    held = [slot.value for slot in slots if slot is not None]
    if isinstance(decorator, Bound):
        held.append(decorator.receiver)
    objects = [value for value in held if isinstance(value, Instance)]
    _open([*held, *(slot.value for one in objects for slot in one.names.values())])
    return True


def _open(values: Iterable[Value]) -> None:
    """Let the containers among *values*, and those within them, hold more than is known."""
    pending, seen = list(values), set[int]()
    while pending:
        value = pending.pop()
        if isinstance(value, (Sequence, Mapping)) and id(value) not in seen:
            seen.add(id(value))
            value.more = value.more or not (isinstance(value, Sequence) and value.kind == "tuple")
            pending += [slot.value for slot in slots_of(value)]


def _mentioned(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[str, ...]:
    """The names that a decorator loads which returns its last parameter as it was; none for any other function."""
    if not isinstance(node, ast.FunctionDef) or not node.args.args or not isinstance(node.body[-1], ast.Return):
        return ()
    given = node.args.args[-1].arg
    loaded: dict[str, None] = {}
    pending: list[ast.AST] = list(node.body)
    while pending:
        part = pending.pop()
        if _does_more(part, given):
            return ()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            loaded[part.id] = None
        pending += children(part)
    return tuple(loaded)


def _does_more(node: ast.AST, given: str) -> bool:
    """Whether a node of a decorator returns, binds or changes anything else than the function that it was *given*."""
    match node:
        case ast.Return(value=value):
            return not (isinstance(value, ast.Name) and value.id == given)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name == given
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name == given
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), *_]):
            return name == given
    return isinstance(node, (ast.Global, ast.Nonlocal, *_FUNCTIONS))
