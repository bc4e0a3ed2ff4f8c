"""Copies of objects: ``copy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter import escapes
from autofix.codemods.interpreter.kinds.kind import Copied, kind_of
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.values import (
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("copy.copy")
def _copy(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return kind_of(value).copy(interp, value, call.node)


@model("copy.deepcopy")
def _deepcopy(interp: Interpreter, call: Call, value: Value, *memo: Value, **named: Value) -> Value:
    if not memo:  # a memo may say that tensors stay as they are
        escapes.copied(interp, value, call.node)
    return Copied(interp, call.node).of(value)
