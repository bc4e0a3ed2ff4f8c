"""NumPy, Matplotlib and ``math``: what they compute has no graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter import cuts, escapes
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.library.unread import unread
from autofix.codemods.interpreter.values import Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("numpy.*")
def _numpy(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    escapes.handed(interp, "numpy", call.last, list(args), call.node)
    return _number(interp, call, *args, **keywords)


@model("matplotlib.*")
def _drawn(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    escapes.handed(interp, "matplotlib", call.last, list(args), call.node)
    return unread(interp, call.name, list(args), keywords, call.node)


@model("math.*")
def _number(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    values = [*args, *keywords.values()]
    return cuts.carry(interp, unread(interp, call.name, list(args), keywords, call.node), values, call.node, "numpy")
