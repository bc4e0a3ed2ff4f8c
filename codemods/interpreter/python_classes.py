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
from autofix.codemods.interpreter.values import Class, Instance, Name

_PACKAGES = {
    "builtins": builtins,
    "collections": collections,
    "collections.abc": collections.abc,
    "numbers": numbers,
    "types": types,
    "typing": typing,
    "typing_extensions": typing,
}
CONTAINERS = {one.__name__: one for one in (list, tuple, set, frozenset, dict, deque, OrderedDict, defaultdict)}
_PLAIN = (bool, int, float, str, bytes, types.NoneType)


def found(path: str) -> type | None:
    """The class of this name; None for one of another package, or what is no class."""
    package, _, name = path.rpartition(".")
    one = getattr(_PACKAGES.get(package), name, None)
    if one is None and package == "collections":
        one = getattr(collections.abc, name, None)  # where older versions of Python had them
    one = getattr(one, "__origin__", one)  # `typing.Sequence`
    return one if isinstance(one, type) else None


_BY_METHODS = {
    "Hashable": ("__hash__",),
    "Callable": ("__call__",),
    "Container": ("__contains__",),
    "Sized": ("__len__",),
    "Iterable": ("__iter__",),
    "Iterator": ("__iter__", "__next__"),
    "Reversible": ("__iter__", "__reversed__"),
    "Collection": ("__len__", "__iter__", "__contains__"),
}
"""Abstract classes of which a class is one that has these methods, and the methods."""


def is_derived(cls: Class, path: str) -> bool | None:
    """Whether a class of the program is derived from one of Python's; None where its methods or its bases decide."""
    wanted = found(path)
    if wanted is None:
        return None
    containers: list[type] = [one for name, one in CONTAINERS.items() if class_lookup.is_container(cls, name)]
    given = [*class_lookup.lineage(cls), *class_lookup.registrations(cls)]
    containers += [one for base in given if isinstance(base, Name) and (one := found(base.path)) is not None]
    if wanted is object or any(issubclass(one, wanted) for one in containers):
        return True
    if wanted in CONTAINERS.values() or wanted in _PLAIN:
        return False
    by_methods = _BY_METHODS.get(wanted.__name__, ())
    if by_methods and all(class_lookup.find(Instance(cls), name) is not None for name in by_methods):
        return True
    return None


def is_subclass(path: str, wanted: str) -> bool | None:
    """Whether one class of Python's is derived from another; None where one of them is another's."""
    one, other = found(path), found(wanted)
    return None if one is None or other is None else issubclass(one, other)
