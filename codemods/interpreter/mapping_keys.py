"""Keys under which mappings of the program hold what is stored for a value, and the way back."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Binding, Instance, Mapping, Sequence, Symbol, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def mapping_key(interp: Interpreter, value: Value) -> Hashable:
    """The key under which a mapping of the program holds what it stores for *value*."""
    if isinstance(value, (str, int, float, bool, bytes, type(None))):
        return value
    if isinstance(value, Sequence) and value.kind == "tuple":
        parts = tuple(slot.value for slot in value.items)
        if all(isinstance(part, (str, int, float, bool, bytes, type(None))) for part in parts):
            return Constants(parts)
    if isinstance(value, Instance) and class_lookup.find(value, "__eq__") is None:
        if class_lookup.is_module(value) or value.cls.members:
            return Itself(value)
    if isinstance(value, TorchModule):
        return Itself(value)
    return ("?", interp.key(value))


def key_in(interp: Interpreter, index: Value, mapping: Mapping) -> Hashable:
    """The key that *index* is in *mapping*: of an argument of the command line, its default, where there is one."""
    key = mapping_key(interp, index)
    if key in mapping.items or not isinstance(index, Symbol) or index.usual is None:
        return key
    known = mapping_key(interp, index.usual)
    return known if known in mapping.items and interp.usual(index) is not None else key


@dataclass(frozen=True)
class Constants:
    """The key of a mapping that is a tuple of constants."""

    parts: tuple[Value, ...]


@dataclass(frozen=True)
class Itself:
    """The key of a mapping that is an object equal to itself alone, as modules are."""

    value: Value


def key_value(interp: Interpreter, key: Hashable) -> Value:
    """The value for which a mapping holds something under *key*: what iterating over it gives."""
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "?":
        return interp.symbol(key[1])
    if isinstance(key, Constants):
        return Sequence("tuple", [Binding(part) for part in key.parts])
    if isinstance(key, Itself):
        return key.value
    return key
