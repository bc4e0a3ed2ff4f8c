"""Element types: tensors that certainly hold whole numbers or truth values, of which a cast to floats is a copy.

Of other tensors nothing is known, and they are taken for floats of single precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from autofix.codemods.autograd import catalogue, groups
from autofix.codemods.interpreter.values import Name, Sequence, Symbol, TensorRef, Value

_WHOLE_TENSORS = frozenset("LongTensor IntTensor ShortTensor ByteTensor CharTensor BoolTensor".split())
_CREATED = _WHOLE_TENSORS | {"randperm", "tril_indices", "triu_indices"}
_NUMBERED = frozenset(("arange", "tensor", "as_tensor"))
"""Functions whose results have the type of the numbers that they are given."""
_NUMBER_TYPES = groups.WHOLE_TYPES - {"bool", "uint8"}


def _type_named(value: Value, names: frozenset[str]) -> bool:
    """Whether a value is one of torch's types of elements, by its name."""
    return isinstance(value, Name) and value.path.startswith("torch.") and value.path[len("torch.") :] in names


def is_whole_type(value: Value) -> bool:
    """Whether a value is a type of whole numbers or truth values: ``torch.long``, ``torch.LongTensor``, or its name."""
    name = value.path if isinstance(value, Name) else value if isinstance(value, str) else ""
    last = name.rpartition(".")[2]
    return _type_named(value, groups.WHOLE_TYPES) or (name.startswith("torch.") and last in _WHOLE_TENSORS)


def is_type(value: Value) -> bool:
    """Whether a value is one of torch's types of elements, written out: ``torch.float32``."""
    return _type_named(value, groups.WHOLE_TYPES | groups.FLOATING_TYPES)


def is_whole(name: str) -> bool:
    """Whether the result of an operation certainly holds whole numbers or truth values."""
    return catalogue.operation(name).whole


def of_created(name: str, args: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether a new tensor certainly holds whole numbers or truth values: ``torch.arange(4)``."""
    if "dtype" in keywords:
        return _type_named(keywords["dtype"], groups.WHOLE_TYPES)
    if name.endswith("_like"):
        return bool(args) and isinstance(args[0], TensorRef) and args[0].cell.whole
    return name in _CREATED or name == "randint" or (name in _NUMBERED and bool(args) and all(map(_all_whole, args)))


def dimensions_of_numbers(name: str, args: list[Value], keywords: Mapping[str, Value]) -> int:
    """Number of dimensions of a new tensor that certainly holds whole numbers, and no truth values; -1 of others."""
    if "dtype" in keywords and not _type_named(keywords["dtype"], _NUMBER_TYPES):
        return -1
    if name == "randint":
        size = keywords.get("size", args[-1] if args else None)
        return len(size.items) if isinstance(size, Sequence) and not size.more else -1
    if name == "randperm" or (name == "arange" and args and all(type(one) is int for one in args)):
        return 1
    data = args[0] if args and name in ("tensor", "as_tensor") else None
    if isinstance(data, Sequence) and data.items and not data.more:
        return 1 if all(type(slot.value) is int for slot in data.items) else -1
    return 0 if type(data) is int else -1


_WRITTEN_OUT = frozenset("zeros ones full eye arange linspace zeros_like ones_like full_like".split())


def is_written_out(name: str, args: list[Value]) -> bool:
    """Whether the numbers in a new tensor follow from what is written: ``torch.zeros(n)``, ``torch.tensor([1, 0])``."""
    if name in ("tensor", "as_tensor"):
        return bool(args) and _is_written(args[0])
    return name in _WRITTEN_OUT


def _is_written(value: Value) -> bool:
    if isinstance(value, Sequence):
        return not value.more and all(_is_written(slot.value) for slot in value.items)
    return isinstance(value, (int, float))


_OF_FLOATS = frozenset("zeros ones empty rand randn eye linspace logspace normal".split())
"""Functions whose results are of the type that floats have by default."""


def is_single(name: str, args: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether a new tensor certainly holds floats of the default type: ``torch.zeros(4)``, ``torch.tensor(0.5)``."""
    if "dtype" in keywords or (name == "normal" and any(isinstance(one, TensorRef) for one in args)):
        return False
    if name.endswith("_like"):
        return bool(args) and isinstance(args[0], TensorRef) and args[0].cell.single
    return name in _OF_FLOATS or (name in _NUMBERED and len(args) == 1 and _holds_floats(args[0]))


def _holds_floats(value: Value) -> bool:
    """Whether a value is a float, or a list of numbers that has one in it."""
    if isinstance(value, Sequence):
        return not value.more and any(_holds_floats(slot.value) for slot in value.items)
    return isinstance(value, float)


def _all_whole(value: Value) -> bool:
    """Whether a value is a whole number, or a list of such numbers."""
    if isinstance(value, Sequence):
        return bool(value.items) and not value.more and all(_all_whole(slot.value) for slot in value.items)
    return isinstance(value, int)


@cache
def keeps(name: str) -> bool:
    """Whether the result of an operation has the elements, and the type, of its first argument."""
    return catalogue.picks(name) and catalogue.kind(name) != catalogue.CAST


_SHORTER = frozenset("bool uint8 int8 int16 int32 short int byte char".split())
"""Types of whole numbers, and casts to them, that the places of elements do not have."""


def may_copy(tensor: TensorRef, name: str, args: list[Value]) -> bool:
    """Whether a cast of *tensor*, of whole numbers, copies it, or may do so: to a type that these may not have."""
    if not tensor.cell.whole:
        return False
    if name in groups.FLOATING_TYPES or any(_type_named(one, groups.FLOATING_TYPES) for one in args):
        return True
    if name in _SHORTER or any(_type_named(one, _SHORTER) for one in args):
        return True
    return any(_is_unknown_type(one) or (isinstance(one, TensorRef) and not one.cell.whole) for one in args)


def _is_unknown_type(value: Value) -> bool:
    """Whether a value is a type of elements that is not known: ``x.dtype``, ``args.dtype``."""
    key = value.key if isinstance(value, Symbol) else None
    return isinstance(key, tuple) and len(key) == 3 and key[0] == "attr" and key[2] == "dtype"
