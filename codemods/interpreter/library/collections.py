"""Containers of the standard library: ``collections``, and those of ``weakref``."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, constants
from autofix.codemods.interpreter.library.builtins import dictionary
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unpacking import copy_of
from autofix.codemods.interpreter.values import Chain, Mapping, Name, Partial, Record, Sequence, Symbol, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("collections.deque")
def _deque(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    found = copy_of(interp, args[0], "deque", call.node) if args else Sequence("deque")
    found.length = keywords.get("maxlen", args[1] if len(args) > 1 else None)
    limit = interp.usual(found.length) if isinstance(found.length, Symbol) else found.length
    # A window of unknown length certainly holds its newest item, and no more.
    found.limit = limit if isinstance(limit, int) else None if found.length is None else 1
    if found.limit is not None and len(found.items) > found.limit:
        del found.items[: len(found.items) - found.limit]
    return found


@model("collections.UserList")
def _user_list(interp: Interpreter, call: Call, *args: Value) -> Value:
    return copy_of(interp, args[0], "list", call.node) if args else Sequence("list")


@model("types.MappingProxyType")
def _view_of_mapping(interp: Interpreter, call: Call, mapping: Value, /) -> Value:
    return mapping


@model("collections.defaultdict")
def _defaultdict(interp: Interpreter, call: Call, factory: Value = None, *items: Value, **keywords: Value) -> Value:
    made = dictionary(interp, call, *items, **keywords)
    made.default = factory
    return made


@model("collections.ChainMap")
def _chain_map(interp: Interpreter, call: Call, *maps: Value) -> Value:
    return Chain(list(maps) or [Mapping()])


@model("typing.TypedDict", "typing_extensions.TypedDict")
def _typed_dict(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    """``TypedDict("State", {"h": Tensor})``: what makes plain dictionaries."""
    return Name("builtins.dict")


@model("collections.namedtuple")
def _namedtuple(
    interp: Interpreter, call: Call, typename: Value, field_names: Value, *, defaults: Value = None, **_: Value
) -> Value:
    return DECLINED if defaults else Record(_field_names(field_names), typename)


def _field_names(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    return tuple(str(slot.value) for slot in value.items) if isinstance(value, Sequence) else ()


@model("collections.Counter")
def _counter(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    counted: Value = None
    if args and not isinstance(args[0], Mapping):
        with suppress(constants.NotWritten):
            counted = constants.computed(interp, lambda items: dict(Counter(items)), list(args[:1]))
        if counted is None:
            return Mapping(more=True, default=Name("builtins.int"))
    counts = dictionary(interp, call, *([counted] if counted is not None else args), **keywords)
    counts.default = Name("builtins.int")
    return counts


@model("collections.OrderedDict", "weakref.WeakKeyDictionary", "weakref.WeakValueDictionary")
def _dictionary(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    made = dictionary(interp, call, *args, **keywords)
    if call.last == "WeakValueDictionary":
        interp.weak.add(interp.identity(made))
    return made


@model("weakref.WeakSet")
def _weak_set(interp: Interpreter, call: Call, *args: Value) -> Value:
    items = [class_lookup.opened(arg) for arg in args]
    made = copy_of(interp, items[0], "set", call.node) if items else Sequence("set")
    interp.weak.add(interp.identity(made))
    return made


@model("weakref.proxy")
def _proxy(interp: Interpreter, call: Call, value: Value, *_: Value) -> Value:
    return value


@model("weakref.ref")
def _reference(interp: Interpreter, call: Call, value: Value, *_: Value) -> Value:
    return Partial(Name("weakref.proxy"), [value], {})  # what calling it gives
