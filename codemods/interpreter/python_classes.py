"""Classes of Python's own library, as ``isinstance`` knows them: ``tuple``, ``collections.abc.Sequence``."""

from __future__ import annotations

import builtins
import collections
import collections.abc
import numbers
import types
import typing
from collections import OrderedDict, defaultdict, deque

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Class, Instance, Mapping, Sequence, TensorRef, Value, is_constant

_PACKAGES = {
    "builtins": builtins,
    "collections": collections,
    "collections.abc": collections.abc,
    "numbers": numbers,
    "types": types,
    "typing": typing,
    "typing_extensions": typing,
}
_CONTAINERS = {one.__name__: one for one in (list, tuple, set, frozenset, dict, deque, OrderedDict, defaultdict)}
_PLAIN = (bool, int, float, str, bytes, types.NoneType)
_OF_TENSORS = frozenset("Iterable Sized Container Collection Reversible Hashable object".split())
"""Classes of Python's of which a tensor is an object."""


def found(path: str) -> type | None:
    """The class of this name; None for one of another package, or what is no class."""
    package, _, name = path.rpartition(".")
    one = getattr(_PACKAGES.get(package), name, None)
    if one is None and package == "collections":
        one = getattr(collections.abc, name, None)  # where older versions of Python had them
    one = getattr(one, "__origin__", one)  # `typing.Sequence`
    return one if isinstance(one, type) else None


def _of(value: Value) -> tuple[type, ...]:
    """The classes of Python's of which one is that of a value; none where it has another, or an unknown one."""
    if isinstance(value, Sequence):
        return (_CONTAINERS[value.kind],) if value.kind in _CONTAINERS else ()
    if isinstance(value, Mapping) and value.cls:
        return tuple(one for one in (found(value.cls),) if one is not None)
    if isinstance(value, Mapping):
        return (defaultdict,) if value.default is not None else (dict, OrderedDict)
    return (type(value),) if is_constant(value) else ()


def is_object_of(value: Value, path: str) -> bool | None:
    """Whether a value is an object of a class of Python's; None where that is not known, or the class is another's."""
    wanted = found(path)
    if wanted is None:
        return None
    if isinstance(value, TensorRef):
        return wanted.__name__ in _OF_TENSORS
    if isinstance(value, Instance):
        return is_derived(value.cls, path)
    answers = {issubclass(one, wanted) for one in _of(value)}
    return answers.pop() if len(answers) == 1 else None


def is_derived(cls: Class, path: str) -> bool | None:
    """Whether a class of the program is derived from one of Python's; None where its methods or its bases decide."""
    wanted = found(path)
    if wanted is None:
        return None
    containers = (one for name, one in _CONTAINERS.items() if class_lookup.is_container(cls, name))
    if wanted is object or any(issubclass(one, wanted) for one in containers):
        return True
    return False if wanted in _CONTAINERS.values() or wanted in _PLAIN else None


def is_subclass(path: str, wanted: str) -> bool | None:
    """Whether one class of Python's is derived from another; None where one of them is another's."""
    one, other = found(path), found(wanted)
    return None if one is None or other is None else issubclass(one, other)
