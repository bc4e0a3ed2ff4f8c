"""Keys under which mappings of the program hold what is stored for a value, and the way back."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, text_patterns
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


def may_be_one(key: Hashable, other: Hashable) -> bool:
    """Whether two keys may be the same, by what of them is written out: ``f"made{i}"`` and ``f"goal{j}"`` are not."""
    mine, theirs = _written(key), _written(other)
    if mine and theirs:
        return mine == theirs
    if (not mine and not theirs) or (isinstance(key, tuple) and isinstance(other, tuple)):
        return True
    unknown, known = (key, other) if mine else (other, key)
    assert isinstance(unknown, tuple)
    shape = text_patterns.pattern(unknown[1])
    return isinstance(known, str) and (not shape or re.fullmatch(shape, known, re.DOTALL) is not None)


def _written(key: Hashable) -> tuple[str, ...]:
    """The texts in an unknown key that begins with one, in their order; none for any other key."""
    match key:
        case ("?", ("add", ("str", str(text)), *_)):
            return (text,)
        case ("?", ("text" | "format", str(), *_) as parts):
            return tuple(part for part in parts[1:] if isinstance(part, str))
    return ()


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
