"""Numbers, texts and ranges that are known, and ``None``."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import gradients, streams
from autofix.codemods.interpreter.kinds.kind import CONTAINERS, ONLY_TENSORS, PLAIN, Kind, V, kind
from autofix.codemods.interpreter.library.containers import ContainerKind
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import Class, Name, Record, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols


class _Constant(Kind[V]):
    """A value that is known."""

    def key(self, symbols: Symbols, value: V) -> Hashable:
        return (type(value).__name__, value)

    def truth(self, interp: Interpreter, value: V, *, likely: bool, optional: bool) -> bool:
        return bool(value)

    def type_of(self, value: V) -> Value:
        if value is None:
            return Name("types.NoneType")
        return Name(f"builtins.{type(value).__name__}") if isinstance(value, (bool, int, float, str)) else None

    def classes(self, value: V) -> tuple[type, ...]:
        return (type(value),)

    def is_instance(self, value: V, cls: Name | Class | Record) -> bool | None:
        if isinstance(cls, Name) and cls.last in PLAIN:  # also `np.int`, of old
            return type(value).__name__ == cls.last or (cls.last == "int" and isinstance(value, bool))
        known = super().is_instance(value, cls)
        return False if known is None and isinstance(cls, Name) and cls.last in CONTAINERS else known

    def has(self, interp: Interpreter, value: V, name: str) -> bool | None:
        return hasattr(value, name)

    def is_callable(self, value: V) -> bool:
        return False


@kind(type(None))
class NoneKind(_Constant[None]):
    """``None``."""

    def attribute(self, interp: Interpreter, value: None, name: str, node: ast.expr) -> Value:
        interp.crash(f"None has no attribute {name!r}", "AttributeError")
        if isinstance(node, ast.Attribute):
            gradients.needed(interp, node.value)
        asked = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(asked, ast.Attribute) and asked.attr == "grad":
            interp.exceptions.exited = True  # no gradient is left in a result, so that nothing after this is reached
        return interp.symbol(("attr", ("None",), name))  # of the object that is there in truth: the same each time

    def iterate(self, interp: Interpreter, value: None, node: ast.expr) -> None:
        interp.crash("None is not iterable")


@kind(bool, int, float, complex)
class NumberKind(_Constant[complex]):
    """A number that is known."""

    def attribute(self, interp: Interpreter, value: complex, name: str, node: ast.expr) -> Value:
        if name in ONLY_TENSORS:
            interp.crash(f"a number has no attribute {name!r}", "AttributeError")
        return interp.fresh_symbol("attr", name)


@kind(str, bytes)
class TextKind(_Constant[str | bytes], ContainerKind[str | bytes]):
    """A text that is known."""

    def item(self, interp: Interpreter, value: str | bytes, index: Value, node: ast.expr) -> Value:
        return _at(value, index, super().item(interp, value, index, node))

    def iterate(self, interp: Interpreter, value: str | bytes, node: ast.expr) -> Stream | None:
        return Stream(len(value), lambda at, exact: value[at]) if isinstance(value, str) else None

    def length(self, interp: Interpreter, value: str | bytes, node: ast.expr) -> Value:
        return len(value)

    def contains(self, interp: Interpreter, value: str | bytes, item: Value) -> Value:
        known = isinstance(value, str) and isinstance(item, str)
        return item in value if known else super().contains(interp, value, item)


@kind(range)
class RangeKind(_Constant[range]):
    """A range of numbers that are known."""

    def item(self, interp: Interpreter, value: range, index: Value, node: ast.expr) -> Value:
        return _at(value, index, super().item(interp, value, index, node))

    def iterate(self, interp: Interpreter, value: range, node: ast.expr) -> Stream:
        serial = interp.new_instance()
        return Stream(len(value), lambda at, exact: streams.number_at(value, serial, at, exact), streams.RANGE)

    def length(self, interp: Interpreter, value: range, node: ast.expr) -> Value:
        return len(value)

    def contains(self, interp: Interpreter, value: range, item: Value) -> Value:
        return item in value if isinstance(item, int) else super().contains(interp, value, item)


def _at(value: str | bytes | range, index: Value, otherwise: Value) -> Value:
    """``value[index]``, or *otherwise* where there is no such item."""
    if not isinstance(index, (int, slice)):
        return otherwise
    try:
        return value[index]
    except IndexError:
        return otherwise
