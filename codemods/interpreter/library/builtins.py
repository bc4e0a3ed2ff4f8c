"""Python's built-in functions."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codemods.autograd.catalogue import is_operation
from codemods.interpreter import (
    attributes,
    class_lookup,
    constants,
    cuts,
    errors,
    extents,
    loops,
    mapping_keys,
    written,
)
from codemods.interpreter.generators import Exhausted, Generator
from codemods.interpreter.library.registry import DECLINED, Call, model
from codemods.interpreter.loops import LazyStream, Stream
from codemods.interpreter.unpacking import copy_of, unpacked
from codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Name,
    Sequence,
    Super,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from codemods.interpreter.protocol import Interpreter


_OF_TENSORS = frozenset("item tolist numpy cpu cuda to detach grad grad_fn requires_grad shape device dtype".split())
"""What a program asks for to tell a tensor from what is none."""

_BUILT_IN = {kind.__name__: kind for kind in (list, tuple, set, frozenset, dict, deque)}


@model("builtins.compile", "builtins.*")
def _unread(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return interp.opaque(call.name.removeprefix("builtins."), [*args, *keywords.values()], call.node)


# Containers


@model("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")
def _container(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    kind = "set" if call.last == "frozenset" else call.last
    return copy_of(interp, args[0], kind, call.node) if args else Sequence(kind)


@model("builtins.dict")
def dictionary(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Mapping:
    """``dict(pairs, name=value)``."""
    node = call.node
    mapping = Mapping({name: interp.slot(value, name, written.keyword(node, name)) for name, value in keywords.items()})
    if args:
        if isinstance(args[0], Mapping):
            mapping.items = {**args[0].items, **mapping.items}
            mapping.more = args[0].more
        else:
            items = loops.stream(interp, args[0], node)
            mapping.more = items.cut
            for at in range(min(items.limit or items.count or 0, 16)):
                try:
                    pair = items.at(at, True)
                except Exhausted:
                    break
                if isinstance(pair, Sequence) and len(pair.items) == 2:
                    key = mapping_keys.mapping_key(interp, interp.read(pair.items[0], pair))
                    mapping.items[key] = Binding(interp.read(pair.items[1], pair))
    return mapping


@model("builtins.dict.fromkeys")
def _from_keys(interp: Interpreter, call: Call, iterable: Value, value: Value = None, /) -> Value:
    keys = loops.stream(interp, iterable, call.node)
    items = loops.first_of(keys, min(keys.limit or keys.count or 2, 16))
    return Mapping({mapping_keys.mapping_key(interp, key): Binding(value) for key in items}, more=keys.cut)


@model("builtins.slice")
def _slice(interp: Interpreter, call: Call, *args: Value) -> Value:
    return slice(*args) if args and all(arg is None or isinstance(arg, int) for arg in args) else DECLINED


@model("builtins.sorted")
def _sorted(interp: Interpreter, call: Call, iterable: Value, /, **keywords: Value) -> Value:
    return in_order(interp, copy_of(interp, iterable, "list", call.node), keywords, call.node)


def in_order(interp: Interpreter, items: Sequence, keywords: dict[str, Value], node: ast.expr) -> Sequence:
    """A list sorted by what is known of its items, or of their keys; as it is where that does not decide."""
    by = keywords.get("key")
    backwards = keywords.get("reverse", False)
    if items.more or len(items.items) > constants.ITEMS or not isinstance(backwards, bool):
        return items
    try:
        keys = [
            constants.as_python(slot.value if by is None else interp.call(by, [interp.read(slot, items)], {}, node))
            for slot in items.items
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=backwards)
    except (constants.NotWritten, TypeError):
        return items
    return replace(items, items=[items.items[at] for at in order])


def is_empty(value: Value) -> bool:
    """Whether a container is known to have no items."""
    return isinstance(value, (Sequence, Mapping)) and not value.items and not value.more


@model("builtins.len")
def _len(interp: Interpreter, call: Call, value: Value, /) -> Value:
    if isinstance(value, (Sequence, Mapping)):
        known = len(value.items)
        if not value.more:
            return known
        high = value.limit if isinstance(value, Sequence) else None
        return Symbol(("len", interp.identity(value), known, interp.new_instance()), low=known, high=high)
    if isinstance(value, (str, bytes, range)):
        return len(value)
    if isinstance(value, Instance) and class_lookup.find(value, "__len__") is not None:
        return interp.call(class_lookup.bind(interp, class_lookup.find(value, "__len__"), value), [], {}, call.node)
    if isinstance(value, TorchModule):
        return len(value.children)
    return Symbol(("len", interp.key(value)), low=0)


# Iterators


@model("builtins.range")
def range_(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    """``range(start, stop, step)``."""
    if args and all(isinstance(arg, int) for arg in args):
        try:
            return range(*args)
        except (TypeError, ValueError):
            pass
    return interp.symbol(("range", *(interp.key(arg) for arg in args), interp.new_instance()))


@model("builtins.enumerate")
def _enumerate(interp: Interpreter, call: Call, iterable: Value, start: Value = 0) -> Value:
    inner = loops.stream(interp, iterable, call.node)
    first = start if isinstance(start, int) else 0
    serial = interp.new_instance()

    def at(position: int, exact: bool) -> Value:
        high = None if inner.count is None else inner.count - 1 + first
        number: Value = position + first if exact else Symbol(("index", serial, position), position + first, high)
        return Sequence("tuple", [Binding(number), Binding(inner.at(position, exact))])

    return LazyStream(Stream(inner.count, at, inner.whole, inner.limit))


@model("builtins.zip")
def _zip(interp: Interpreter, call: Call, first: Value, *others: Value, **_: Value) -> Value:
    inner = [loops.stream(interp, arg, call.node) for arg in (first, *others)]
    counts = [part.count for part in inner if part.count is not None]

    def at(position: int, exact: bool) -> Value:
        return Sequence("tuple", [Binding(part.at(position, exact)) for part in inner])

    # `for p, flag in zip(params, flags): p.requires_grad = flag` must reach them all.
    whole = max((part.whole for part in inner if part.whole == loops.PARTS), default=0)
    whole = whole or min((part.whole for part in inner), default=loops.ITEMS)
    limits = [part.limit for part in inner if part.limit is not None]
    return LazyStream(Stream(min(counts) if counts else None, at, whole, min(limits) if limits else None))


@model("builtins.reversed")
def _reversed(interp: Interpreter, call: Call, value: Value, /) -> Value:
    if isinstance(value, range):
        return value[::-1]
    if isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("range",):
        numbers = value.key[1:-1]
        if len(numbers) == 1:  # `reversed(range(count))` is `range(count - 1, -1, -1)`
            ends = (numbers[0], *map(interp.key, (-1, -1)))
            return interp.symbol(("range", *ends, interp.new_instance()))
    if isinstance(value, Mapping):
        value = copy_of(interp, value, "list", call.node)
    if isinstance(value, Sequence):
        return Sequence("list", list(reversed(copy_of(interp, value, "list", call.node).items)), more=value.more)
    return value


@model("builtins.next")
def _next(interp: Interpreter, call: Call, value: Value, *default: Value) -> Value:
    if isinstance(value, Generator) or (
        isinstance(value, LazyStream) and (value.stream.count is not None or not value.stream.lazy)
    ):
        try:
            if isinstance(value, Generator):
                return interp.read(value.resume())
            interp.unrolling.streams.append(value)
            return value.following()
        except Exhausted:
            if default:
                return default[0]
            errors.happen(interp, "StopIteration")
            return interp.fresh_symbol("exhausted")
    if isinstance(value, Sequence) and value.items and not value.more:
        return interp.read(value.items[0], value)
    if default and is_empty(value):
        return default[0]
    stream = loops.stream(interp, value, call.node)
    if isinstance(value, Sequence):
        return interp.fresh_symbol("next")
    return next(iter(loops.first_of(stream, 1)), interp.fresh_symbol("exhausted"))


@model("builtins.iter")
def _iter(interp: Interpreter, call: Call, value: Value, *_: Value) -> Value:
    """What goes over a container once; of anything else, itself."""
    listed = isinstance(value, Sequence) and not value.more and not value.fields
    listed = listed or (isinstance(value, Mapping) and not value.more)
    if listed or isinstance(value, range) or (isinstance(value, TorchModule) and value.kind in attributes.CONTAINERS):
        return LazyStream(loops.stream(interp, value, call.node))
    return value


@model("builtins.map")
def _map(interp: Interpreter, call: Call, function: Value, /, *iterables: Value) -> Value:
    inner = [loops.stream(interp, arg, call.node) for arg in iterables]
    if not inner:
        return interp.fresh_symbol("map")
    counts = [part.count for part in inner if part.count is not None]

    def at(position: int, exact: bool) -> Value:
        return interp.call(function, [part.at(position, exact) for part in inner], {}, call.node)

    limits = [part.limit for part in inner if part.limit is not None]
    return LazyStream(Stream(min(counts) if counts else None, at, limit=min(limits) if limits else None))


@model("builtins.filter")
def _filter(interp: Interpreter, call: Call, wanted: Value, items: Value, /) -> Value:
    """``filter(wanted, items)``, where of each item it is known whether it is; else any of them may be."""
    if not isinstance(items, Sequence) or items.more or len(items.items) > loops.ITEMS:
        return items
    kept = []
    for slot in items.items:
        value = interp.read(slot, items)
        answer = value if wanted is None else interp.call(wanted, [value], {}, call.node)
        if not is_constant(answer):
            return items
        if answer:
            kept.append(Binding(value))
    return Sequence("list", kept)


# Numbers


@model("builtins.sum")
def _sum(interp: Interpreter, call: Call, iterable: Value, *start: Value, **keywords: Value) -> Value:
    node, args = call.node, [iterable, *start, *keywords.values()]
    values = unpacked(interp, iterable, None, node) if not isinstance(iterable, TensorRef) else [iterable]
    if any(isinstance(value, TensorRef) for value in values):
        total = interp.operation("sum_of", values, node, scalar=_all_scalar(values), opaque=False)
        if isinstance(iterable, TensorRef):  # over its rows
            total.cell.extent = extents.of_item(interp, extents.extent_of(iterable), 0)
        else:
            total.cell.extent = extents.of_operation("sum_of", values, {}, total.cell.scalar)
        return total
    if values and all(isinstance(value, (int, float)) for value in values) and not isinstance(iterable, Symbol):
        return sum(values)
    return cuts.carry(interp, interp.opaque("sum", args, node), args, node)


def _all_scalar(values: list[Value]) -> bool | None:
    return True if all(not isinstance(value, TensorRef) or value.cell.scalar for value in values) else None


@model("builtins.all", "builtins.any")
def _holds_for(interp: Interpreter, call: Call, items: Value, /) -> Value:
    """``all`` and ``any`` of items that are known: of one, what that one is."""
    every = call.last == "all"
    if not isinstance(items, Sequence) or items.more or len(items.items) > loops.ITEMS:
        return interp.fresh_symbol(call.last)
    values = [interp.read(slot) for slot in items.items]
    if any(isinstance(value, TensorRef) for value in values):
        return interp.fresh_symbol(call.last)
    decided = (interp.truth(value) is every for value in values)
    return every if all(decided) else not every


@model("builtins.int", "builtins.float")
def _number(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    kind: Callable[..., Any] = int if call.last == "int" else float
    if not args:
        return kind()
    value = args[0]
    if isinstance(value, (int, float, str)):
        try:
            return kind(value)
        except ValueError:
            return interp.fresh_symbol("number")
    if isinstance(value, Symbol):
        opaque = isinstance(value.key, tuple) and value.key[:1] == ("~",)
        # What nobody knows may be a tensor, and then has a `detach()` that its number has not.
        return replace(value, key=("float", value.key)) if opaque and kind is float else value
    return cuts.carry(interp, interp.fresh_symbol("number"), args, call.node, "number")


@model("builtins.bool")
def _bool(interp: Interpreter, call: Call, value: Value = False, /) -> Value:
    return value if isinstance(value, (bool, Symbol)) else interp.truth(value)


@model("builtins.round")
def _round(interp: Interpreter, call: Call, value: Value, *digits: Value, **_: Value) -> Value:
    if is_constant(value):
        return value
    return cuts.carry(interp, interp.fresh_symbol("round"), [value, *digits], call.node)


@model("builtins.abs")
def _abs(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return abs(value) if isinstance(value, (int, float)) else interp.opaque("abs", [value], call.node)


@model("builtins.max", "builtins.min")
def _extreme(interp: Interpreter, call: Call, first: Value, *others: Value, **keywords: Value) -> Value:
    args, node = [first, *others], call.node
    if "default" in keywords and not others and is_empty(first):
        return keywords["default"]
    if others and all(isinstance(arg, (int, float)) for arg in args):
        return max(args) if call.last == "max" else min(args)
    keys = [interp.key(arg) for arg in args]
    if others and all(map(cuts.plain_number, keys)):
        return cuts.carry(interp, interp.symbol((call.last, *keys)), args, node)
    return cuts.carry(interp, interp.opaque("extreme", args, node), args, node)


# Text and input


@model("builtins.print")
def _print(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    attributes.shown(interp, args, call.node)


@model("builtins.str")
def _str(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    if not args:
        return ""
    return str(args[0]) if is_constant(args[0]) else _text(interp, call, *args)


@model("builtins.repr", "builtins.format")
def _text(interp: Interpreter, call: Call, *args: Value) -> Value:
    attributes.shown(interp, args, call.node)
    return interp.fresh_symbol(call.last)


@model("builtins.input", "builtins.open", "builtins.hash", "builtins.dir")
def _unknown(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return interp.fresh_symbol(call.last)


@model("builtins.breakpoint")
def _nothing(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return None


@model("builtins.exit", "builtins.quit")
def _exit(interp: Interpreter, call: Call, *_: Value) -> Value:
    interp.exceptions.exited = True


# Classes and objects


@model("builtins.type")
def _type(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    return (_type_of(args[0]) if len(args) == 1 else None) or interp.fresh_symbol("type")


def _type_of(value: Value) -> Value:
    """The class of a value, where it is one of Python's or torch's own; None where that is not certain."""
    if isinstance(value, TensorRef) and value.cell.leaf is None and not value.guessed:
        return Name("torch.Tensor")
    if isinstance(value, Sequence) and value.kind in ("list", "tuple", "set"):
        return Name(f"builtins.{value.kind}")
    if isinstance(value, (bool, int, float, str)):
        return Name(f"builtins.{type(value).__name__}")
    return value.cls if isinstance(value, Instance) else None


@model("builtins.isinstance")
def _isinstance(interp: Interpreter, call: Call, value: Value, wanted: Value, /) -> Value:
    return is_instance(interp, value, wanted)


def is_instance(interp: Interpreter, value: Value, wanted: Value) -> Value:
    """``isinstance(value, wanted)``: an unknown value where that is not certain."""
    options = [slot.value for slot in wanted.items] if isinstance(wanted, Sequence) else [wanted]
    answers = [_is_instance(value, option) for option in options]
    if True in answers:
        return True
    if None in answers:
        return interp.symbol(("isinstance", interp.key(value), interp.key(wanted)))
    return False


def _is_instance(value: Value, option: Value) -> bool | None:
    if isinstance(value, Symbol) and isinstance(option, Name) and attributes.is_number(value.key):
        return False if option.path.rpartition(".")[2] in ("Tensor", "Variable", "Parameter") else None
    if isinstance(value, Symbol) or not isinstance(option, (Name, Class)):
        return None
    if isinstance(option, Class):
        if isinstance(value, Instance) and any(
            isinstance(base, Name) and base.path.rpartition(".")[2] == "Protocol" for base in option.bases
        ):
            return all(name in value.names or class_lookup.find(value, name) is not None for name in option.names)
        return isinstance(value, Instance) and option in class_lookup.lineage(value.cls)
    last = option.path.rpartition(".")[2]
    if last in ("Tensor", "Variable"):
        return isinstance(value, TensorRef)
    if last == "Parameter":
        return isinstance(value, TensorRef) and value.cell.leaf is not None
    if isinstance(value, TorchModule) and option.path.startswith("torch.nn."):
        return None if last.startswith("_") else last in (value.kind, "Module")
    if isinstance(value, Sequence):
        return value.kind == last
    if isinstance(value, Mapping):
        return last in ("dict", "Mapping", "OrderedDict")
    if last in ("int", "float", "str", "bool", "bytes"):
        return type(value).__name__ == last or (last == "int" and isinstance(value, bool))
    if last in ("tuple", "list", "dict", "set", "deque", "ndarray"):
        return False if isinstance(value, (TensorRef, Instance, int, float, str, type(None))) else None
    return None


@model("builtins.issubclass")
def _issubclass(interp: Interpreter, call: Call, cls: Value, wanted: Value, /) -> Value:
    if isinstance(cls, Class) and isinstance(wanted, Class):
        return wanted in class_lookup.lineage(cls)
    return interp.fresh_symbol("issubclass")


@model("builtins.callable")
def _callable(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return True if isinstance(value, (Function, Bound, Class, Instance)) else interp.fresh_symbol("callable")


@model("builtins.id")
def _id(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return interp.identity(value.cell.itself if isinstance(value, TensorRef) else value)


@model("builtins.getattr")
def _getattr(interp: Interpreter, call: Call, owner: Value, name: Value = None, *default: Value) -> Value:
    if isinstance(name, Symbol):
        name = interp.usual(name)
    if not isinstance(name, str):
        return interp.fresh_symbol("getattr")
    if default and isinstance(owner, Instance) and name not in owner.names:
        if class_lookup.find(owner, name) is None:
            return default[0]
    if default and isinstance(owner, TorchModule) and attributes.lacks(interp, owner, name):
        return default[0]
    return attributes.plain(interp, attributes.get(interp, owner, name, call.node))


@model("builtins.setattr")
def _setattr(interp: Interpreter, call: Call, owner: Value, name: Value, value: Value, /) -> Value:
    if isinstance(name, str):
        node = call.node
        target = ast.Attribute(ast.Name("object", ast.Load()), name, ast.Store())
        ast.copy_location(target, node)
        expression = node.args[2] if isinstance(node, ast.Call) and len(node.args) == 3 else None
        attributes.set_attribute(interp, owner, name, value, target, expression)


@model("builtins.object.__setattr__")
def _set_plainly(interp: Interpreter, call: Call, owner: Value, name: Value, value: Value, /) -> Value:
    if not isinstance(name, str):
        return DECLINED
    target = ast.copy_location(ast.Attribute(call.node, name, ast.Store()), call.node)
    attributes.set_plainly(interp, owner, name, value, target, None)
    return None


@model("builtins.delattr")
def _delattr(interp: Interpreter, call: Call, owner: Value, name: Value, /) -> Value:
    if isinstance(owner, Instance) and isinstance(name, str):
        owner.names.pop(name, None)


@model("builtins.hasattr")
def _hasattr(interp: Interpreter, call: Call, owner: Value, name: Value, /) -> Value:
    if isinstance(name, str):
        known = _instance_has(owner, name) if isinstance(owner, Instance) else None
        if isinstance(owner, TorchModule) and attributes.lacks(interp, owner, name):
            known = False
        if known is None:
            known = _has(owner, name)
        if known is not None:
            return known
    return interp.symbol(("hasattr", interp.key(owner), interp.key(name)))


def _instance_has(owner: Instance, name: str) -> bool | None:
    """Whether an object of the program has an attribute; None where an unknown base may have it."""
    if name in owner.names or class_lookup.find(owner, name) is not None:
        return True
    bases = (base for base in class_lookup.lineage(owner.cls) if isinstance(base, (Class, Name)))
    known = all(isinstance(base, Class) or base.path.endswith(("Module", "object")) for base in bases)
    return False if known else None


def _has(value: Value, name: str) -> bool | None:
    """Whether a tensor, or a value of Python's own, has an attribute; None where that is not known."""
    if isinstance(value, TensorRef):
        opaque = value.guessed or (value.cell.node is not None and value.cell.node.opaque)
        return True if not opaque and (name in _OF_TENSORS or is_operation(name)) else None
    if value is None or isinstance(value, (bool, int, float, str)):
        return hasattr(value, name)
    if isinstance(value, Symbol) and attributes.is_number(value.key):
        return hasattr(1.0, name) if hasattr(1.0, name) == hasattr(1, name) else None
    if isinstance(value, Sequence) and not value.fields:
        return hasattr(_BUILT_IN[value.kind], name) if value.kind in _BUILT_IN else None
    return None


@model("builtins.vars")
def _vars(interp: Interpreter, call: Call, *args: Value) -> Value:
    if args and isinstance(args[0], Instance):
        return attributes.get(interp, args[0], "__dict__", call.node)
    return interp.fresh_symbol("vars")


@model("builtins.globals")
def _globals(interp: Interpreter, call: Call) -> Value:
    return Mapping(dict((interp.scope.globals or interp.scope).names.items()))


@model("builtins.super")
def _super(interp: Interpreter, call: Call, *args: Value) -> Value:
    function = next((frame.function for frame in reversed(interp.frames) if frame.function is not None), None)
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0])
    slot = next(iter(interp.scope.names.values()), None)
    if function is not None and function.owner is not None and slot is not None:
        return Super(slot.value, function.owner)
    return interp.fresh_symbol("super")


@model("builtins.property")
def _property(interp: Interpreter, call: Call, fget: Value, fset: Value = None, *_: Value, **__: Value) -> Value:
    if not isinstance(fget, Function):
        return DECLINED
    made = replace(fget, flavour="property")
    made.setter = fset if isinstance(fset, Function) else None
    return made


@model("builtins.__import__")
def _import(interp: Interpreter, call: Call, name: Value, *_: Value, **__: Value) -> Value:
    return imported(interp, name.partition(".")[0]) if isinstance(name, str) else DECLINED


def imported(interp: Interpreter, name: str) -> Value:
    """What a call imports by *name*: ``importlib.import_module("functools")``."""
    source = interp.sources.module(name, 0, interp.source)
    return interp.module(source) if source is not None else Name(name)
