"""Copies of objects: ``copy``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, escapes
from autofix.codemods.interpreter.kinds.kind import Copied
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.values import (
    Instance,
    Mapping,
    Sequence,
    Symbol,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("copy.copy")
def _copy(interp: Interpreter, call: Call, value: Value, /) -> Value:
    """Another container, or object, of the very same items."""
    if isinstance(value, (Sequence, Mapping)):
        return replace(value, items=value.items.copy())  # type: ignore[arg-type]
    if isinstance(value, Symbol):
        return value
    if isinstance(value, Instance) and (own := class_lookup.find(value, "__copy__")) is not None:
        return interp.call(class_lookup.bind(own, value), [], {}, call.node)
    if isinstance(value, Instance) and not class_lookup.is_module(value):
        other = Instance(value.cls)
        other.names = dict(value.names)
        return other
    return Copied(interp, call.node).of(value)


@model("copy.deepcopy")
def _deepcopy(interp: Interpreter, call: Call, value: Value, *memo: Value, **named: Value) -> Value:
    if not memo:  # a memo may say that tensors stay as they are
        escapes.copied(interp, value, call.node)
    return Copied(interp, call.node).of(value)
