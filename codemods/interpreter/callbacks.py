"""Functions of the program that are handed to code which was not read, and that nobody else calls.

``Engine(update)`` of a framework calls ``update`` for each batch.  Such a function is called when the path ends: in a
loop where it makes a whole training step, since nobody trains with a single batch, and once elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import frameworks
from autofix.codemods.interpreter.values import Bound, Function, Scope, Value
from autofix.codemods.source.nodes import children

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_FOR_EACH_BATCH = "def run(function, batches):\n    for batch in batches:\n        function()\n"
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
            if _is_training_step(node):
                loop = frameworks.loop_at(_FOR_EACH_BATCH, place)
                interp.log.driven.add(interp.site(loop.body[0]).span)
                interp.call(Function(loop, source, Scope({}), [], {}, loop.name), [value], {}, place)
            else:
                interp.call(value, [], {}, place)
        finally:
            interp.source = here


def _is_training_step(function: ast.AST) -> bool:
    """Whether a function makes one whole training step, outside of any loop of its own."""
    calls = (part.func for part in _once(function) if isinstance(part, ast.Call))
    return {called.attr for called in calls if isinstance(called, ast.Attribute)} >= _STEP


def _once(function: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function that a call of it executes once."""
    pending = list(children(function))
    while pending:
        part = pending.pop()
        if not isinstance(part, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield part
            pending += children(part)
