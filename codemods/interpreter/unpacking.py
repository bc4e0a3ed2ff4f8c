"""The items of a value where several are wanted at once: ``a, b = value``, ``f(*value)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.interpreter import class_lookup, elements, loops
from codemods.interpreter.generators import Generator, drained
from codemods.interpreter.values import Instance, Sequence, Symbol, TensorRef, Value

if TYPE_CHECKING:
    from codemods.interpreter.protocol import Interpreter


def unpacked(interp: Interpreter, value: Value, count: int | None, node: ast.expr) -> list[Value]:
    """The items of *value*, *count* of them where that is known."""
    if isinstance(value, Sequence):
        return [interp.read(slot, value) for slot in value.items]
    if isinstance(value, Generator):
        return [interp.read(slot) for slot in drained(value)[0]]
    if isinstance(value, Instance) and value.names and class_lookup.find(value, "__iter__") is None:
        return [interp.read(slot) for slot in value.names.values()]
    if isinstance(value, (TensorRef, Symbol)):
        items = [elements.item(interp, value, position, node) for position in range(count or 2)]
        if isinstance(value, TensorRef) and value.cell.node is not None and value.cell.node.opaque:
            for item in items:
                item.cell.unsure = True
        return items
    stream = loops.stream(interp, value, node)
    known = stream.count if stream.count is not None else (count or 2)
    return loops.first_of(stream, min(known, 16))
