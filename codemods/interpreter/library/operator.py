"""Operators as functions: ``operator``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import elements
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Function, TensorRef, Value
from autofix.codemods.interpreter.written import arguments

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "matmul": "@", "iadd": "+", "iconcat": "+"
}  # fmt: skip

_MAKERS = {"methodcaller": "lambda given: given.{}()", "attrgetter": "lambda given: given.{}"}


@model(*(f"operator.{name}" for name in _OPERATORS))
def _applied(interp: Interpreter, call: Call, left: Value, right: Value, /) -> Value:
    """``operator.add(a, b)`` is ``a + b``."""
    if call.last.startswith("i") and isinstance(left, TensorRef):
        return DECLINED
    function = _written_out(interp, f"lambda one, other: one {_OPERATORS[call.last]} other", call.node)
    return interp.call(function, [left, right], {}, call.node)


@model("operator.getitem")
def _picked(interp: Interpreter, call: Call, container: Value, index: Value, /) -> Value:
    return interp.item(container, index, call.node)


@model("operator.setitem")
def _set(interp: Interpreter, call: Call, container: Value, index: Value, value: Value, /) -> Value:
    """``operator.setitem(memory, key, h)`` is ``memory[key] = h``."""
    places = arguments(call.node)
    if len(places) != 3:
        return DECLINED
    target = ast.copy_location(ast.Subscript(places[0], places[1], ast.Store()), call.node)
    elements.set_item(interp, container, index, value, target, places[2])
    return None


@model(*(f"operator.{name}" for name in _MAKERS))
def _made(interp: Interpreter, call: Call, name: Value, /) -> Value:
    if not isinstance(name, str):
        return DECLINED
    return _written_out(interp, _MAKERS[call.last].format(name), call.node)


@model("operator.itemgetter")
def _itemgetter(interp: Interpreter, call: Call, index: Value, /) -> Value:
    if not isinstance(index, (int, str)):
        return DECLINED
    return _written_out(interp, f"lambda given: given[{index!r}]", call.node)


def _written_out(interp: Interpreter, text: str, node: ast.expr) -> Function:
    """A function of the standard library, as it would be written where it is used."""
    written = ast.parse(text, mode="eval").body
    for part in ast.walk(written):
        ast.copy_location(part, node)
    assert isinstance(written, ast.Lambda)
    return Function(written, interp.source, interp.globals, [], {}, "")
