"""Context managers: what the program's own do when their block begins and ends, and ``ExitStack``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, errors
from autofix.codemods.interpreter.generators import Exhausted, Generator
from autofix.codemods.interpreter.values import (
    CachedParametrizations,
    Exits,
    Function,
    GradMode,
    Instance,
    Partial,
    SavedTensorHooks,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def enter(interp: Interpreter, manager: Value, node: ast.expr) -> Value:
    """The value that ``with manager as`` binds; the manager itself where its ``__enter__`` is not known."""
    match manager:
        case Instance():
            found = class_lookup.find(manager, "__enter__")
            if isinstance(found, Function):
                return interp.call(class_lookup.bind(found, manager), [], {}, node)
        case SavedTensorHooks():
            interp.packing += 1
        case CachedParametrizations():
            manager.outer = interp.parametrizations
            interp.parametrizations = {} if manager.outer is None else manager.outer
        case Generator():  # of a function that `contextlib.contextmanager` decorates
            try:
                return interp.read(manager.resume())
            except Exhausted:
                return None
    return manager


def leave(interp: Interpreter, manager: Value, node: ast.expr, error: Value = None) -> bool:
    """Run what the end of the block runs; whether that ends the *error* by which the block was left."""
    ended = False
    match manager:
        case Instance():
            found = class_lookup.find(manager, "__exit__")
            if isinstance(found, Function):
                kind = error.cls if isinstance(error, Instance) else error
                bound = class_lookup.bind(found, manager)
                ended = interp.call(bound, [kind, error, None], {}, node) is True and error is not None
            leave(interp, class_lookup.exits_of(manager), node)
        case SavedTensorHooks():
            interp.packing -= 1
        case CachedParametrizations():
            interp.parametrizations = manager.outer
        case Generator():
            try:
                manager.resume(error=error)
            except Exhausted:
                ended = error is not None
            except errors.Raised as raised:
                if raised.error is not error:
                    raise
        case Exits():
            while manager.pending:
                one = manager.pending.pop()
                if isinstance(one, Partial):
                    interp.call(one, [], {}, node)
                else:
                    leave(interp, one, node)
    return ended


def call_exits(
    interp: Interpreter, stack: Exits, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A method of an ``ExitStack``."""
    match name:
        case "callback" if args:
            stack.pending.append(Partial(args[0], args[1:], keywords))
            return args[0]
        case "enter_context" if args:
            if isinstance(args[0], GradMode):  # the block that the stack belongs to sets it back
                interp.set_grad(args[0].enabled is not False, interp.site(node))
            entered = enter(interp, args[0], node)
            stack.pending.append(args[0])
            return entered
        case "push" if args:
            stack.pending.append(args[0] if isinstance(args[0], Instance) else Partial(args[0], [None, None, None], {}))
            return args[0]
        case "pop_all":
            taken = Exits(stack.pending)
            stack.pending = []
            return taken
        case "close":
            leave(interp, stack, node)
    return None


def call_grad_mode(interp: Interpreter, mode: GradMode, name: str, node: ast.expr) -> Value:
    """``__enter__`` and ``__exit__`` of ``torch.no_grad()`` and its kin, called by the program itself."""
    if name == "__enter__":
        mode.before.append(interp.grad)
        if mode.enabled is not None:
            interp.set_grad(mode.enabled, interp.site(node))
    elif name == "__exit__" and mode.before:
        interp.set_grad(mode.before.pop(), interp.site(node))
    return None
