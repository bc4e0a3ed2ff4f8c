"""Transport of frozen data from one process to another: dataclasses as JSON, written and read by their fields' types.

A field that has its default is left out; a key that no field has is an error, because the two sides must agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(value: Any, **further: Any) -> str:
    """The text of a dataclass, with *further* keys, from which :func:`decode` makes it again."""
    return json.dumps({**further, **_plain(value)}, default=_plain)


def decode(kind: type[T], data: Mapping[str, Any] | str) -> T:
    """The dataclass *kind* from a text that :func:`encode` made.  Raises :class:`ValueError` for any other text."""
    hint: Any = kind
    read: T = _reader(hint)(json.loads(data) if isinstance(data, str) else data)
    return read


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return {one.name: own for one in fields(value) if (own := getattr(value, one.name)) != _default(one)}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Function that makes a value of the type *hint* from JSON's data."""
    if is_dataclass(hint):
        return _reader_of_fields(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (kind,) = (one for one in args if one is not NoneType)
        read = _reader(kind)
        return lambda value: None if value is None else read(value)
    if origin is tuple and args[-1] is not Ellipsis:
        readers = [_reader(one) for one in args]
        return lambda values: tuple(read(one) for read, one in zip(readers, values, strict=True))
    if origin in (tuple, frozenset):
        each = _reader(args[0])
        return lambda values: origin(map(each, values))
    if origin is Mapping:
        key, each = (int if args[0] is int else str), _reader(args[1])
        return lambda values: {key(name): each(value) for name, value in values.items()}
    return lambda value: value


def _reader_of_fields(kind: Any) -> Callable[[Any], Any]:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}

    def read(values: Mapping[str, Any]) -> Any:
        if unknown := values.keys() - readers.keys():
            raise ValueError(f"unknown keys of a {kind.__name__}: {sorted(unknown)}")
        return kind(**{name: readers[name](value) for name, value in values.items()})

    return read
