"""The items of a value where several are wanted at once: ``a, b = value``, ``f(*value)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, elements, streams
from autofix.codemods.interpreter.generators import DRAINED, Generator, drained
from autofix.codemods.interpreter.values import Binding, Instance, Sequence, Symbol, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


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
        if isinstance(value, TensorRef):
            _note_rows(value, items)
        return items
    stream = streams.stream(interp, value, node)
    known = stream.count if stream.count is not None else (count or 2)
    return streams.first_of(stream, min(known, 16))


def _note_rows(tensor: TensorRef, rows: list[Value]) -> None:
    """Rows of a tensor that is unpacked are views that one call made: ``Tensor.__iter__`` calls ``unbind``."""
    made = tensor.cell.node
    for row in rows:
        if isinstance(row, TensorRef):
            row.cell.sibling = row.cell.sibling or elements.is_one_tensor(tensor)
            row.cell.unsure = row.cell.unsure or (made is not None and made.opaque)


def copy_of(interp: Interpreter, value: Value, kind: str, node: ast.expr) -> Sequence:
    """A new sequence of *value*'s items."""
    if isinstance(value, Generator):
        given, more = drained(value)
        return Sequence(kind, [Binding(interp.read(slot), None) for slot in given], more=more)
    if isinstance(value, Sequence):
        slots = [Binding(interp.read(slot, value), None) for slot in value.items]
        return Sequence(kind, slots, more=value.more, extended=(value,))
    items = streams.stream(interp, value, node)
    count = items.count if items.count is not None else DRAINED if items.lazy else 2
    slots = [Binding(one) for one in streams.first_of(items, count if items.lazy else min(count, items.whole))]
    return Sequence(kind, slots, more=items.count is None or count > items.whole)
