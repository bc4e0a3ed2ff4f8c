"""Context managers: what the program's own do when their block begins and ends, and ``ExitStack``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.tape import attributes, errors
from codemods.tape.generators import Exhausted, Generator
from codemods.tape.values import Exits, Function, GradMode, Instance, Partial, Value

if TYPE_CHECKING:
    from codemods.tape.machine import Machine


def enter(machine: Machine, manager: Value, node: ast.expr) -> Value:
    """What ``with manager as`` gives."""
    match manager:
        case Instance():
            found = attributes.find(manager, "__enter__")
            if isinstance(found, Function):
                return machine.call(attributes.bind(machine, found, manager), [], {}, node)
        case Generator():  # of a function that `contextlib.contextmanager` decorates
            try:
                return machine.read(manager.resume())
            except Exhausted:
                return None
    return manager


def leave(machine: Machine, manager: Value, node: ast.expr, error: Value = None) -> bool:
    """Run what the end of the block runs; whether that ends the *error* by which the block was left."""
    ended = False
    match manager:
        case Instance():
            found = attributes.find(manager, "__exit__")
            if isinstance(found, Function):
                kind = error.cls if isinstance(error, Instance) else error
                bound = attributes.bind(machine, found, manager)
                ended = machine.call(bound, [kind, error, None], {}, node) is True and error is not None
            leave(machine, attributes.exits_of(manager), node)
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
                    machine.call(one, [], {}, node)
                else:
                    leave(machine, one, node)
    return ended


def call_exits(
    machine: Machine, stack: Exits, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A method of an ``ExitStack``."""
    match name:
        case "callback" if args:
            stack.pending.append(Partial(args[0], args[1:], keywords))
            return args[0]
        case "enter_context" if args:
            if isinstance(args[0], GradMode):  # the block that the stack belongs to sets it back
                machine.set_grad(args[0].enabled is not False, machine.site(node))
            entered = enter(machine, args[0], node)
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
            leave(machine, stack, node)
    return None
