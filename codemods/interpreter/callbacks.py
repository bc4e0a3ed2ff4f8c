"""Functions of the program that code which was not read calls, and nobody else.

``Engine(update)`` of a framework calls ``update`` for each batch.  Such a function is called when the path ends.  The
methods of an object that a path enters, ``agent.learn(batch)``, have callers elsewhere as well.  Each is called in a
loop where it makes a whole training step, since nobody trains with a single batch, and once elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import frameworks
from autofix.codemods.interpreter.values import Bound, Function, Instance, Scope, Value
from autofix.codemods.source.nodes import children

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_FOR_EACH_BATCH = "def run(function, batches):\n    for batch in batches:\n        function()\n"
_METHODS = "def run(instance, batches):\n    for batch in batches:\n        {}\n    return outcome\n"
_MOST = 8
"""Number of such functions that are called on a path."""
_STEP = frozenset(("backward", "step", "zero_grad"))
"""Methods that a training step calls."""


def note(interp: Interpreter, values: Iterable[Value], node: ast.expr) -> None:
    """Remember the functions among *values*, which are handed over at *node*, that lead to a pass."""
    for value in values:
        function = value.function if isinstance(value, Bound) else value
        written = function.node if isinstance(function, Function) else None
        if not isinstance(written, ast.FunctionDef) or written in interp.callbacks or len(interp.callbacks) >= _MOST:
            continue
        if interp.policy.ways().begin_in([written]):
            interp.callbacks[written] = value, interp.source, node


def call(interp: Interpreter) -> None:
    """Call those that no path has entered so far on this run."""
    while interp.callbacks and not interp.exceptions.exited:
        node, (value, source, place) = next(iter(interp.callbacks.items()))
        del interp.callbacks[node]
        if node in interp.log.called:
            continue
        here, interp.source = interp.source, source
        try:
            if _called_once(node) >= _STEP:
                _drive(interp, _FOR_EACH_BATCH, value, place)
            else:
                interp.call(value, [], {}, place)
        finally:
            interp.source = here


def repeat(
    interp: Interpreter,
    instance: Instance,
    names: Sequence[str],
    optional: Iterable[str],
    begun: Collection[ast.AST],
    place: ast.expr,
) -> Value:
    """Call the methods *names* of an object for each batch, as if the loop stood at *place*.

    The last one is given *optional* arguments as well; *begun* are the methods that were called before, once.  Returns
    the result of the last one.
    """
    given = ", ".join(f"{name}=batch.{name}" for name in optional)
    calls = "; ".join(f"outcome = instance.{name}({given if name == names[-1] else ''})" for name in names)
    before, interp.log.called = interp.log.called, set(begun)
    try:
        return _drive(interp, _METHODS.format(calls), instance, place, interp.log.called)
    finally:
        interp.log.called = interp.log.called | before


def _drive(
    interp: Interpreter, code: str, value: Value, place: ast.expr, called: Collection[ast.AST] | None = None
) -> Value:
    """Run a loop that calls a value for each batch, as if it stood at *place*.

    *called* are the functions that the loop calls, where nothing is known of its surroundings.
    """
    loop = frameworks.loop_at(code, place)
    interp.log.driven[interp.site(loop.body[0]).span] = called
    return interp.call(Function(loop, interp.source, Scope({}), [], {}, loop.name), [value], {}, place)


def is_training_step(function: Function, methods: Mapping[str, Function]) -> bool:
    """Whether a method makes one whole training step, with the *methods* of its object, outside of any loop."""
    found: set[str] = set()
    pending, seen = [function], {function}
    while pending:
        called = _called_once(pending.pop().node)
        found |= called
        further = {methods[name] for name in called if name in methods} - seen
        seen |= further
        pending += further
    return found >= _STEP


def _called_once(function: ast.AST) -> set[str]:
    """The names of the methods that a call of a function calls outside of any loop of its own."""
    calls = (part.func for part in _once(function) if isinstance(part, ast.Call))
    return {called.attr for called in calls if isinstance(called, ast.Attribute)}


def _once(function: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function that a call of it executes once."""
    pending = list(children(function))
    while pending:
        part = pending.pop()
        if not isinstance(part, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield part
            pending += children(part)
