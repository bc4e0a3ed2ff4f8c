"""Python's built-in functions and containers."""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codemods.autograd.saves import is_operation
from codemods.interpreter import (
    attributes,
    class_lookup,
    constants,
    cuts,
    elements,
    errors,
    extents,
    holding,
    loops,
    mapping_keys,
    unpacking,
)
from codemods.interpreter.generators import Exhausted, Generator, drained
from codemods.interpreter.loops import LazyStream, Stream
from codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Name,
    Record,
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


def copy_of(interp: Interpreter, value: Value, kind: str, node: ast.expr) -> Sequence:
    """A new sequence of *value*'s items."""
    if isinstance(value, Generator):
        given, more = drained(value)
        return Sequence(kind, [Binding(interp.read(slot), None) for slot in given], more=more)
    items = loops.stream(interp, value, node)
    count = items.count if items.count is not None else 2
    if isinstance(value, Sequence):
        slots = [Binding(interp.read(slot, value), None) for slot in value.items]
    else:
        slots = [Binding(one) for one in loops.first_of(items, min(count, items.whole))]
    return Sequence(kind, slots, more=items.count is None or count > items.whole)


def _range(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    if args and all(isinstance(arg, int) for arg in args):
        try:
            return range(*args)
        except (TypeError, ValueError):
            pass
    return interp.symbol(("range", *(interp.key(arg) for arg in args), interp.new_instance()))


def _enumerate(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    inner = loops.stream(interp, args[0], node)
    start = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
    serial = interp.new_instance()

    def at(position: int, exact: bool) -> Value:
        high = None if inner.count is None else inner.count - 1 + start
        number: Value = position + start if exact else Symbol(("index", serial, position), position + start, high)
        return Sequence("tuple", [Binding(number), Binding(inner.at(position, exact))])

    return LazyStream(Stream(inner.count, at, inner.whole, inner.limit))


def _zip(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    inner = [loops.stream(interp, arg, node) for arg in args]
    counts = [part.count for part in inner if part.count is not None]

    def at(position: int, exact: bool) -> Value:
        return Sequence("tuple", [Binding(part.at(position, exact)) for part in inner])

    # `for p, flag in zip(params, flags): p.requires_grad = flag` must reach them all.
    whole = max((part.whole for part in inner if part.whole == loops.PARTS), default=0)
    whole = whole or min((part.whole for part in inner), default=loops.ITEMS)
    limits = [part.limit for part in inner if part.limit is not None]
    return LazyStream(Stream(min(counts) if counts else None, at, whole, min(limits) if limits else None))


def _reversed(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    if isinstance(args[0], range):
        return args[0][::-1]
    if isinstance(args[0], Symbol) and isinstance(args[0].key, tuple) and args[0].key[:1] == ("range",):
        numbers = args[0].key[1:-1]
        if len(numbers) == 1:  # `reversed(range(count))` is `range(count - 1, -1, -1)`
            ends = (numbers[0], *map(interp.key, (-1, -1)))
            return interp.symbol(("range", *ends, interp.new_instance()))
    if isinstance(args[0], Mapping):
        return _reversed(interp, [copy_of(interp, args[0], "list", node)], node)
    if isinstance(args[0], Sequence):
        return Sequence("list", list(reversed(copy_of(interp, args[0], "list", node).items)), more=args[0].more)
    return args[0]


def _len(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    value = args[0]
    if isinstance(value, (Sequence, Mapping)):
        known = len(value.items)
        if not value.more:
            return known
        high = value.limit if isinstance(value, Sequence) else None
        return Symbol(("len", interp.identity(value), known, interp.new_instance()), low=known, high=high)
    if isinstance(value, (str, bytes, range)):
        return len(value)
    if isinstance(value, Instance) and class_lookup.find(value, "__len__") is not None:
        return interp.call(class_lookup.bind(interp, class_lookup.find(value, "__len__"), value), [], {}, node)
    if isinstance(value, TorchModule):
        return len(value.children)
    return Symbol(("len", interp.key(value)), low=0)


def _sum(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    values = unpacking.unpacked(interp, args[0], None, node) if not isinstance(args[0], TensorRef) else [args[0]]
    if any(isinstance(value, TensorRef) for value in values):
        total = interp.operation("sum_of", values, node, scalar=_all_scalar(values), opaque=False)
        if isinstance(args[0], TensorRef):  # over its rows
            total.cell.extent = extents.of_item(interp, extents.extent_of(args[0]), 0)
        else:
            total.cell.extent = extents.of_operation("sum_of", values, {}, total.cell.scalar)
        return total
    if values and all(isinstance(value, (int, float)) for value in values) and not isinstance(args[0], Symbol):
        return sum(values)
    return cuts.carry(interp, interp.opaque("sum", args, node), args, node)


def _holds_for(interp: Interpreter, args: list[Value], node: ast.expr, *, every: bool) -> Value:
    """``all`` and ``any`` of items that are known: of one, what that one is."""
    if not isinstance(args[0], Sequence) or args[0].more or len(args[0].items) > loops.ITEMS:
        return interp.fresh_symbol("all" if every else "any")
    values = [interp.read(slot) for slot in args[0].items]
    if any(isinstance(value, TensorRef) for value in values):
        return interp.fresh_symbol("all" if every else "any")
    decided = (interp.truth(value) is every for value in values)
    return every if all(decided) else not every


def _all_scalar(values: list[Value]) -> bool | None:
    return True if all(not isinstance(value, TensorRef) or value.cell.scalar for value in values) else None


def _type_of(value: Value) -> Value:
    """The class of a value, where it is one of Python's or torch's own; None where that is not certain."""
    if isinstance(value, TensorRef) and value.cell.leaf is None and not value.guessed:
        return Name("torch.Tensor")
    if isinstance(value, Sequence) and value.kind in ("list", "tuple", "set"):
        return Name(f"builtins.{value.kind}")
    if isinstance(value, (bool, int, float, str)):
        return Name(f"builtins.{type(value).__name__}")
    return value.cls if isinstance(value, Instance) else None


def _isinstance(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    if len(args) < 2:
        return interp.fresh_symbol("isinstance")
    value, wanted = args[0], args[1]
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


def _number(interp: Interpreter, args: list[Value], node: ast.expr, kind: Callable[[Any], Any]) -> Value:
    if args and isinstance(args[0], (int, float, str)):
        try:
            return kind(args[0])
        except ValueError:
            return interp.fresh_symbol("number")
    if args and isinstance(args[0], Symbol):
        known = args[0]
        opaque = isinstance(known.key, tuple) and known.key[:1] == ("~",)
        # What nobody knows may be a tensor, and then has a `detach()` that its number has not.
        return replace(known, key=("float", known.key)) if opaque and kind is float else known
    return cuts.carry(interp, interp.fresh_symbol("number"), args, node, "number")


def _extreme(interp: Interpreter, args: list[Value], node: ast.expr, kind: Callable[..., Any]) -> Value:
    if len(args) > 1 and all(isinstance(arg, (int, float)) for arg in args):
        return kind(args)
    keys = [interp.key(arg) for arg in args]
    if len(args) > 1 and all(map(cuts.plain_number, keys)):
        return cuts.carry(interp, interp.symbol((kind.__name__, *keys)), args, node)
    return cuts.carry(interp, interp.opaque("extreme", args, node), args, node)


def _getattr(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    name = args[1] if len(args) >= 2 else None
    if isinstance(name, Symbol):
        name = interp.usual(name)
    if isinstance(name, str):
        if isinstance(args[0], Instance) and name not in args[0].names and len(args) > 2:
            if class_lookup.find(args[0], name) is None:
                return args[2]
        if isinstance(args[0], TorchModule) and len(args) > 2 and attributes.lacks(interp, args[0], name):
            return args[2]
        return attributes.plain(interp, attributes.get(interp, args[0], name, node))
    return interp.fresh_symbol("getattr")


def _setattr(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    if len(args) == 3 and isinstance(args[1], str):
        target = ast.Attribute(ast.Name("object", ast.Load()), args[1], ast.Store())
        ast.copy_location(target, node)
        written = node.args[2] if isinstance(node, ast.Call) and len(node.args) == 3 else None
        attributes.set_attribute(interp, args[0], args[1], args[2], target, written)
    return None


def _delattr(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], str):
        args[0].names.pop(args[1], None)
    return None


def _hasattr(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], str):
        if args[1] in args[0].names or class_lookup.find(args[0], args[1]) is not None:
            return True
        if all(
            isinstance(base, Class) or base.path.endswith(("Module", "object"))
            for base in class_lookup.lineage(args[0].cls)
            if isinstance(base, (Class, Name))
        ):
            return False
    if len(args) == 2 and isinstance(args[1], str):
        if isinstance(args[0], TorchModule) and attributes.lacks(interp, args[0], args[1]):
            return False
        known = _has(args[0], args[1])
        if known is not None:
            return known
    return interp.symbol(("hasattr", *(interp.key(arg) for arg in args)))


_OF_TENSORS = frozenset("item tolist numpy cpu cuda to detach grad grad_fn requires_grad shape device dtype".split())
"""What a program asks for to tell a tensor from what is none."""
_BUILT_IN = {kind.__name__: kind for kind in (list, tuple, set, frozenset, dict, deque)}


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


def _super(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    function = next((frame.function for frame in reversed(interp.frames) if frame.function is not None), None)
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0])
    slot = next(iter(interp.scope.names.values()), None)
    if function is not None and function.owner is not None and slot is not None:
        return Super(slot.value, function.owner)
    return interp.fresh_symbol("super")


def _next(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    value = args[0]
    if isinstance(value, Generator) or (
        isinstance(value, LazyStream) and (value.stream.count is not None or not value.stream.lazy)
    ):
        try:
            if isinstance(value, Generator):
                return interp.read(value.resume())
            interp.streams.append(value)
            return value.following()
        except Exhausted:
            if len(args) > 1:
                return args[1]
            errors.happen(interp, "StopIteration")
            return interp.fresh_symbol("exhausted")
    if isinstance(value, Sequence) and value.items and not value.more:
        return interp.read(value.items[0], value)
    if len(args) > 1 and _is_empty(value):
        return args[1]
    stream = loops.stream(interp, value, node)
    if isinstance(value, Sequence):
        return interp.fresh_symbol("next")
    return next(iter(loops.first_of(stream, 1)), interp.fresh_symbol("exhausted"))


def _iter(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    """What goes over a container once; of anything else, itself."""
    value = args[0]
    listed = isinstance(value, Sequence) and not value.more and not value.fields
    listed = listed or (isinstance(value, Mapping) and not value.more)
    if listed or isinstance(value, range) or (isinstance(value, TorchModule) and value.kind in attributes.CONTAINERS):
        return LazyStream(loops.stream(interp, value, node))
    return value


def _map(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    inner = [loops.stream(interp, arg, node) for arg in args[1:]]
    if not inner:
        return interp.fresh_symbol("map")
    counts = [part.count for part in inner if part.count is not None]

    def at(position: int, exact: bool) -> Value:
        return interp.call(args[0], [part.at(position, exact) for part in inner], {}, node)

    limits = [part.limit for part in inner if part.limit is not None]
    return LazyStream(Stream(min(counts) if counts else None, at, limit=min(limits) if limits else None))


def _dict(interp: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    mapping = Mapping({name: interp.slot(value, name, written_keyword(node, name)) for name, value in keywords.items()})
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


def _is_empty(value: Value) -> bool:
    return isinstance(value, (Sequence, Mapping)) and not value.items and not value.more


def _place_of(wanted: Value, items: list[Binding]) -> int | None:
    """Where a constant, or this very object, stands among some items; None where it is not seen there."""
    for at, slot in enumerate(items):
        same = is_constant(wanted) and is_constant(slot.value) and slot.value == wanted
        if same or slot.value is wanted:
            return at
        if isinstance(wanted, TensorRef) and isinstance(slot.value, TensorRef) and slot.value.cell is wanted.cell:
            return at
    return None


def _in_order(interp: Interpreter, items: Sequence, keywords: dict[str, Value], node: ast.expr) -> Sequence:
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


def _filter(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    """``filter(wanted, items)``, where of each item it is known whether it is; else any of them may be."""
    items = args[-1]
    if len(args) != 2 or not isinstance(items, Sequence) or items.more or len(items.items) > loops.ITEMS:
        return items
    kept = []
    for slot in items.items:
        value = interp.read(slot, items)
        answer = value if args[0] is None else interp.call(args[0], [value], {}, node)
        if not is_constant(answer):
            return items
        if answer:
            kept.append(Binding(value))
    return Sequence("list", kept)


def imported(interp: Interpreter, name: str) -> Value:
    """What a call imports by *name*: ``importlib.import_module("functools")``."""
    source = interp.sources.module(name, 0, interp.source)
    return interp.module(source) if source is not None else Name(name)


def call_builtin(
    interp: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A call of one of Python's built-in functions."""
    if name not in ("isinstance", "type", "id", "getattr", "hasattr", "setattr", "super", "vars"):
        args = [arg if class_lookup.has_own_length(arg, name) else class_lookup.opened(arg) for arg in args]
    if f"builtins.{name}" in constants.FUNCTIONS:
        with suppress(constants.NotWritten):
            return constants.computed(interp, constants.FUNCTIONS[f"builtins.{name}"], args, keywords)
    if name == "sorted" and args:
        return _in_order(interp, copy_of(interp, args[0], "list", node), keywords, node)
    if name in ("max", "min") and "default" in keywords and len(args) == 1 and _is_empty(args[0]):
        return keywords["default"]
    if name == "slice" and args and all(arg is None or isinstance(arg, int) for arg in args):
        return slice(*args)
    if name in ("int", "float", "str", "bool") and not args:
        return {"int": 0, "float": 0.0, "str": "", "bool": False}[name]
    if name in ("list", "tuple", "set", "frozenset"):
        kind = "set" if name == "frozenset" else name
        return copy_of(interp, args[0], kind, node) if args else Sequence(kind)
    if name == "dict.fromkeys" and args:
        keys = loops.stream(interp, args[0], node)
        each = args[1] if len(args) > 1 else None
        items = loops.first_of(keys, min(keys.limit or keys.count or 2, 16))
        return Mapping({mapping_keys.mapping_key(interp, key): Binding(each) for key in items}, more=keys.cut)
    if name == "dict":
        return _dict(interp, args, keywords, node)
    if name in ("exit", "quit"):
        interp.exited = True
        return None
    if name == "object.__setattr__" and len(args) == 3 and isinstance(args[1], str):
        target = ast.copy_location(ast.Attribute(node, args[1], ast.Store()), node)
        attributes.set_plainly(interp, args[0], args[1], args[2], target, None)
        return None
    if name == "property" and args and isinstance(args[0], Function):
        made = replace(args[0], flavour="property")
        setter = args[1] if len(args) > 1 else keywords.get("fset")
        made.setter = setter if isinstance(setter, Function) else None
        return made
    if name == "__import__" and args and isinstance(args[0], str):
        return imported(interp, args[0].partition(".")[0])
    if name == "id" and args:
        return interp.identity(args[0].cell.itself if isinstance(args[0], TensorRef) else args[0])
    if name == "globals":
        return Mapping(dict((interp.scope.globals or interp.scope).names.items()))
    if name == "vars" and args and isinstance(args[0], Instance):
        return attributes.get(interp, args[0], "__dict__", node)
    if name in ("print", "input", "breakpoint", "open", "id", "hash", "repr", "str", "format", "type", "vars", "dir"):
        if name == "str" and args and is_constant(args[0]):
            return str(args[0])
        if name == "type" and len(args) == 1:
            return _type_of(args[0]) or interp.fresh_symbol(name)
        if name in ("print", "str", "repr", "format"):
            attributes.shown(interp, args, node)
        return None if name in ("print", "breakpoint") else interp.fresh_symbol(name)
    simple = _BUILTINS.get(name)
    if simple is not None and (args or name in ("super", "range")):
        if name == "enumerate" and "start" in keywords:
            args = [*args, keywords["start"]]
        if name == "sum" and "start" in keywords:
            args = [*args, keywords["start"]]
        return simple(interp, args, node)
    return interp.opaque(name, [*args, *keywords.values()], node)


_BUILTINS: dict[str, Callable[[Interpreter, list[Value], ast.expr], Value]] = {
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
    "len": _len,
    "sum": _sum,
    "isinstance": _isinstance,
    "issubclass": lambda interp, args, node: (
        args[1] in class_lookup.lineage(args[0])
        if len(args) == 2 and isinstance(args[0], Class) and isinstance(args[1], Class)
        else interp.fresh_symbol("issubclass")
    ),
    "int": lambda interp, args, node: _number(interp, args, node, int),
    "float": lambda interp, args, node: _number(interp, args, node, float),
    "bool": lambda interp, args, node: args[0] if isinstance(args[0], (bool, Symbol)) else interp.truth(args[0]),
    "round": lambda interp, args, node: (
        args[0] if is_constant(args[0]) else cuts.carry(interp, interp.fresh_symbol("round"), args, node)
    ),
    "max": lambda interp, args, node: _extreme(interp, args, node, max),
    "min": lambda interp, args, node: _extreme(interp, args, node, min),
    "abs": lambda interp, args, node: (
        abs(args[0]) if isinstance(args[0], (int, float)) else interp.opaque("abs", args, node)
    ),
    "getattr": _getattr,
    "setattr": _setattr,
    "hasattr": _hasattr,
    "delattr": _delattr,
    "callable": lambda interp, args, node: (
        True if isinstance(args[0], (Function, Bound, Class, Instance)) else interp.fresh_symbol("callable")
    ),
    "super": _super,
    "iter": _iter,
    "next": _next,
    "map": _map,
    "filter": _filter,
    "all": lambda interp, args, node: _holds_for(interp, args, node, every=True),
    "any": lambda interp, args, node: _holds_for(interp, args, node, every=False),
}


# Methods of containers


def call_container_method(
    interp: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``receiver.name(...)`` for a list, deque, set, dict or string."""
    if name == "__setitem__" and len(args) == 2 and isinstance(receiver, (Sequence, Mapping)):
        target = ast.copy_location(ast.Subscript(node, node, ast.Store()), node)
        elements.set_item(interp, receiver, args[0], args[1], target, _written(node, 1))
        return None
    if isinstance(receiver, Sequence):
        return _sequence_method(interp, receiver, name, args, keywords, node)
    if isinstance(receiver, Mapping):
        return _mapping_method(interp, receiver, name, args, keywords, node)
    return _string_method(interp, receiver, name, args, keywords, node)


def _string_method(
    interp: Interpreter,
    receiver: str | bytes,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
) -> Value:
    if isinstance(receiver, str):
        with suppress(constants.NotWritten):
            return constants.of_text(interp, receiver, name, args, keywords)
    if name == "format":
        attributes.shown(interp, args, node)
    return interp.symbol(("text", receiver, name, *(interp.key(arg) for arg in args)))


def _written(node: ast.expr, position: int) -> ast.expr | None:
    """The expression written for an argument of a call."""
    if isinstance(node, ast.Call) and position < len(node.args):
        return node.args[position]
    return None


def _owner(interp: Interpreter, node: ast.expr) -> str:
    """The user's text of what a method is called on."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return interp.source.text_of(node.func.value)
    return ""


def _replaced(interp: Interpreter, receiver: Sequence, keywords: dict[str, Value], node: ast.expr) -> Sequence:
    """A named tuple with some of its items replaced."""
    changed = Sequence(receiver.kind, list(receiver.items), fields=receiver.fields)
    for name, value in keywords.items():
        if name in receiver.fields[: len(changed.items)]:
            changed.items[receiver.fields.index(name)] = interp.slot(value, name, written_keyword(node, name))
    return changed


def written_keyword(node: ast.expr, name: str) -> ast.expr | None:
    """The expression written for a keyword argument of a call."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return next((keyword.value for keyword in keywords if keyword.arg == name), None)


def _around(interp: Interpreter, node: ast.expr) -> Value:
    """``seen`` of ``seen[k].append(x)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Name() | ast.Attribute() as whole))):
            return interp.eval(whole)
    return None


_TAKING = frozenset("pop popleft popitem remove discard clear".split())


def _sequence_method(
    interp: Interpreter, receiver: Sequence, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    items = receiver.items
    interp.activity += 1
    if name in _TAKING:
        holding.emptied(interp, receiver)
    match name:
        case "append" | "add" if args:
            slot = elements.append(interp, receiver, args[0], _owner(interp, node), _written(node, 0))
            around = _around(interp, node) if interp.loops else None
            if isinstance(around, (Sequence, Mapping)):
                holding.added_beside(interp, around, receiver, slot)
        case "appendleft" if args:
            elements.append(interp, receiver, args[0], _owner(interp, node), _written(node, 0), at=0)
        case "insert" if len(args) > 1:
            position = args[0] if isinstance(args[0], int) else 0
            elements.append(interp, receiver, args[1], _owner(interp, node), _written(node, 1), at=position)
        case "extend" | "update" | "extendleft" if args:
            written = _written(node, 0)
            parts = written.elts if isinstance(written, (ast.List, ast.Tuple)) else []
            for at, value in enumerate(unpacking.unpacked(interp, args[0], None, node)):
                elements.append(
                    interp, receiver, value, _owner(interp, node), parts[at] if at < len(parts) else written
                )
        case "pop" | "popleft":
            at = 0 if name == "popleft" else (args[0] if args and isinstance(args[0], int) else -1)
            if at == 0 and items and receiver.loses_an_unknown_one():
                return interp.read(items[0], receiver)
            if items and -len(items) <= at < len(items):
                return interp.read(items.pop(at), receiver)
            return interp.fresh_symbol("pop")
        case "remove" | "discard":
            place = _place_of(args[0], items) if args else None
            if place is not None:
                items.pop(place)
            elif items and not all(is_constant(slot.value) for slot in items):
                items.pop(0)  # some one of them
        case "clear":
            items.clear()
            receiver.more = False
        case "copy":
            return copy_of(interp, receiver, receiver.kind, node)
        case "reverse":
            items.reverse()
        case "sort":
            items[:] = _in_order(interp, receiver, keywords, node).items
        case "rotate":
            by = args[0] if args else 1
            if isinstance(by, int) and items and not receiver.more:
                by %= len(items)
                items[:] = items[-by:] + items[:-by]
        case "_replace":
            return _replaced(interp, receiver, keywords, node)
        case "_asdict":
            named = zip(receiver.fields, items, strict=False)
            return Mapping({mapping_keys.mapping_key(interp, field): Binding(slot.value) for field, slot in named})
        case "index" | "count":
            with suppress(constants.NotWritten):
                return constants.computed(interp, getattr(list, name), [replace(receiver, kind="list"), *args])
            return interp.fresh_symbol(name)
        case _:
            return interp.opaque(name, [receiver, *args], node)
    return None


def _mapping_method(
    interp: Interpreter, receiver: Mapping, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    items = receiver.items
    interp.activity += name not in ("get", "items", "keys", "values")
    if name in _TAKING:
        holding.emptied(interp, receiver)
    match name:
        case "get" | "pop" | "setdefault" if args:
            key = mapping_keys.key_in(interp, args[0], receiver)
            found = items.get(key) or elements.alias(interp, receiver, key)
            if found is not None:
                if name == "pop":
                    items.pop(key, None)
                return interp.read(found, receiver)
            default = args[1] if len(args) > 1 else None
            elements.stood_in(interp, default, key)
            if name == "setdefault":
                items[key] = interp.slot(default, _owner(interp, node), _written(node, 1))
                return default
            open_question = receiver.more or (isinstance(key, tuple) and bool(items))
            return interp.symbol(("get", interp.identity(receiver), key)) if open_question else default
        case "update":
            written = _written(node, 0)
            parts: dict[Any, ast.expr] = {}
            if isinstance(written, ast.Dict):
                parts = {
                    key.value: value
                    for key, value in zip(written.keys, written.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
            given = args[0] if args else None
            if args and not isinstance(given, (Mapping, Symbol)):  # pairs
                given = _dict(interp, args, {}, node)
            if isinstance(given, Mapping):
                for key, slot in list(given.items.items()):
                    value = interp.read(slot, given)
                    place = elements.put_at(interp, receiver, mapping_keys.key_value(interp, key))
                    key = key if place is None else place
                    items[key] = interp.slot(value, _owner(interp, node), parts.get(key))
                receiver.more = receiver.more or given.more
            elif args:
                receiver.more = True
            named = {keyword.arg: keyword.value for keyword in node.keywords} if isinstance(node, ast.Call) else {}
            for keyword, value in keywords.items():
                items[keyword] = interp.slot(value, _owner(interp, node), named.get(keyword))
        case "items" | "values" | "keys":
            slots = []
            for key, slot in items.items():
                value = interp.read(slot, receiver)
                plain = mapping_keys.key_value(interp, key)
                if name == "items":
                    slots.append(Binding(Sequence("tuple", [Binding(plain), Binding(value)])))
                else:
                    slots.append(Binding(value if name == "values" else plain))
            return Sequence("list", slots, more=receiver.more)
        case "clear":
            items.clear()
            receiver.more = False
        case "copy":
            return Mapping(dict(items), receiver.more, receiver.kept, receiver.default)
        case "popitem":
            if not items:
                return interp.fresh_symbol("item")
            first = (args[0] if args else keywords.get("last", True)) is False
            key = next(iter(items) if first else reversed(items))
            taken = interp.read(items.pop(key), receiver)
            return Sequence("tuple", [Binding(mapping_keys.key_value(interp, key)), Binding(taken)])
        case "move_to_end":
            key = mapping_keys.key_in(interp, args[0], receiver) if args else None
            if key in items and keywords.get("last", True) is True and len(args) == 1:
                items[key] = items.pop(key)
        case _:
            return interp.opaque(name, [receiver, *args], node)
    return None


def _field_names(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    return tuple(str(slot.value) for slot in value.items) if isinstance(value, Sequence) else ()


def call_collection(
    interp: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value | None:
    """Containers of the standard library."""
    if name == "deque":
        found = copy_of(interp, args[0], "deque", node) if args else Sequence("deque")
        found.length = keywords.get("maxlen", args[1] if len(args) > 1 else None)
        limit = interp.usual(found.length) if isinstance(found.length, Symbol) else found.length
        # Of a window whose length is not known, the newest item is all that is certainly in it.
        found.limit = limit if isinstance(limit, int) else None if found.length is None else 1
        if found.limit is not None and len(found.items) > found.limit:
            del found.items[: len(found.items) - found.limit]
        return found
    if name == "defaultdict":
        return Mapping(default=args[0] if args else None)
    if name == "namedtuple" and len(args) > 1 and not keywords.get("defaults"):
        return Record(_field_names(args[1]))
    if name == "Counter":
        counted: Value = None
        if args and not isinstance(args[0], Mapping):
            with suppress(constants.NotWritten):
                counted = constants.computed(interp, lambda items: dict(Counter(items)), args[:1])
            if counted is None:
                return Mapping(more=True, default=Name("builtins.int"))
        found_counts = _dict(interp, [counted] if counted is not None else args, keywords, node)
        found_counts.default = Name("builtins.int")
        return found_counts
    if name in ("OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"):
        return _dict(interp, args, keywords, node)
    if name == "WeakSet":
        return call_builtin(interp, "set", args, keywords, node)
    return None
