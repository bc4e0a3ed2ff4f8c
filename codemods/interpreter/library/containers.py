"""Methods of Python's own containers and of text."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import attributes, constants, elements, holding, mapping_keys, overridden, written
from autofix.codemods.interpreter.kinds.kind import MethodsKind, V, kind_of
from autofix.codemods.interpreter.library.builtins import dictionary
from autofix.codemods.interpreter.library.iterators import in_order
from autofix.codemods.interpreter.library.registry import DECLINED, Call, Models
from autofix.codemods.interpreter.unpacking import copy_of, unpacked
from autofix.codemods.interpreter.values import Binding, Mapping, Name, Sequence, Symbol, TensorRef, Value, is_constant

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


of_sequence, of_mapping = Models(), Models()
"""Models of the methods of lists, tuples, sets and deques, and of dictionaries."""
_TAKING = frozenset("pop popleft popitem remove discard clear".split())


def call_container_method(
    interp: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``receiver.name(...)`` for a list, deque, set, dict or string."""
    if not isinstance(receiver, (Sequence, Mapping)):
        return _of_text(interp, receiver, name, args, keywords, node)
    interp.activity += name not in _READING
    if name in _TAKING:
        holding.emptied(interp, receiver)
    models = of_sequence if isinstance(receiver, Sequence) else of_mapping
    result = models.call(interp, Call(node, name), receiver, given=args, keywords=keywords)
    return interp.opaque(name, [receiver, *args], node) if result is DECLINED else result


class ContainerKind(MethodsKind[V]):
    """Behaviour of a container, or of a text, that has the methods of Python's own."""

    def call_method(
        self, interp: Interpreter, value: V, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return call_container_method(interp, value, name, args, keywords, node)


_READING = frozenset("get items keys values".split())
"""Methods that no later pass could notice."""


def _of_text(
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
        text = interp.symbol(("format", receiver, *map(interp.key, [*args, *keywords.values()])))
        if isinstance(receiver, str) and not keywords and not constants.is_wide(receiver):
            text.usual = constants.usual_text(interp, args, receiver.format)
        return text
    return interp.symbol(("text of", receiver, name, *map(interp.key, args)))


@of_sequence("__setitem__")
@of_mapping("__setitem__")
def _set_item(interp: Interpreter, call: Call, receiver: Sequence | Mapping, index: Value, value: Value, /) -> Value:
    node = call.node
    target = ast.copy_location(ast.Subscript(node, node, ast.Store()), node)
    elements.set_item(interp, receiver, index, value, target, written.argument(node, 1))


# Lists, tuples, sets and deques


@of_sequence("append", "add")
def _append(interp: Interpreter, call: Call, receiver: Sequence, value: Value, /, *_: Value, **__: Value) -> Value:
    node = call.node
    slot = elements.append(interp, receiver, value, written.receiver(interp, node), written.argument(node, 0))
    around = _around(interp, node) if interp.loops else None
    if isinstance(around, (Sequence, Mapping)):
        holding.added_beside(interp, around, receiver, slot)


def _around(interp: Interpreter, node: ast.expr) -> Value:
    """``seen`` of ``seen[k].append(x)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Name() | ast.Attribute() as whole))):
            return interp.eval(whole)
    return None


@of_sequence("appendleft")
def _append_left(interp: Interpreter, call: Call, receiver: Sequence, value: Value, /) -> Value:
    name, expression = written.receiver(interp, call.node), written.argument(call.node, 0)
    elements.append(interp, receiver, value, name, expression, at=0)


@of_sequence("insert")
def _insert(interp: Interpreter, call: Call, receiver: Sequence, index: Value, value: Value, /) -> Value:
    name, expression = written.receiver(interp, call.node), written.argument(call.node, 1)
    elements.append(interp, receiver, value, name, expression, at=index if isinstance(index, int) else 0)


@of_sequence("extend", "update", "extendleft")
def _extend(interp: Interpreter, call: Call, receiver: Sequence, values: Value, /, *_: Value) -> Value:
    node, expression = call.node, written.argument(call.node, 0)
    parts = expression.elts if isinstance(expression, (ast.List, ast.Tuple)) else []
    for at, value in enumerate(unpacked(interp, values, None, node)):
        part = parts[at] if at < len(parts) else expression
        elements.append(interp, receiver, value, written.receiver(interp, node), part)


@of_sequence("pop", "popleft")
def _pop(interp: Interpreter, call: Call, receiver: Sequence, index: Value = -1, /) -> Value:
    items = receiver.items
    at = 0 if call.name == "popleft" else (index if isinstance(index, int) else -1)
    if at == 0 and items and receiver.loses_an_unknown_one():
        return interp.read(items[0], receiver)
    if items and -len(items) <= at < len(items):
        return interp.read(items.pop(at), receiver)
    return interp.fresh_symbol("pop")


@of_sequence("remove", "discard")
def _remove(interp: Interpreter, call: Call, receiver: Sequence, value: Value, /) -> Value:
    items = receiver.items
    place = _place_of(value, items)
    if place is not None:
        items.pop(place)
    elif items and not all(is_constant(slot.value) for slot in items):
        items.pop(0)  # some one of them


def _place_of(wanted: Value, items: list[Binding]) -> int | None:
    """Index of a constant, or of this very object, among some items; None where it is not seen there."""
    for at, slot in enumerate(items):
        same = is_constant(wanted) and is_constant(slot.value) and slot.value == wanted
        if same or slot.value is wanted:
            return at
        if isinstance(wanted, TensorRef) and isinstance(slot.value, TensorRef) and slot.value.cell is wanted.cell:
            return at
    return None


@of_sequence("clear")
@of_mapping("clear")
def _clear(interp: Interpreter, call: Call, receiver: Sequence | Mapping, /) -> Value:
    receiver.items.clear()
    receiver.more = False


@of_sequence("__init__")
def _begin_anew(interp: Interpreter, call: Call, receiver: Sequence, items: Value = None, /, *_: Value) -> None:
    """``losses.__init__()`` empties a list, a set or a deque; a dictionary would keep its items."""
    receiver.items.clear()
    receiver.more = False
    if items is not None:
        _extend(interp, call, receiver, items)


@of_sequence("copy")
def _copy(interp: Interpreter, call: Call, receiver: Sequence, /) -> Value:
    return copy_of(interp, receiver, receiver.kind, call.node)


@of_sequence("reverse")
def _reverse(interp: Interpreter, call: Call, receiver: Sequence, /) -> Value:
    receiver.items.reverse()


@of_sequence("sort")
def _sort(interp: Interpreter, call: Call, receiver: Sequence, /, **keywords: Value) -> Value:
    receiver.items[:] = in_order(interp, receiver, keywords, call.node).items


@of_sequence("rotate")
def _rotate(interp: Interpreter, call: Call, receiver: Sequence, n: Value = 1, /) -> Value:
    items = receiver.items
    if isinstance(n, int) and items and not receiver.more:
        n %= len(items)
        items[:] = items[-n:] + items[:-n]


@of_sequence("_make")
def _make(interp: Interpreter, call: Call, receiver: Sequence, items: Value, /) -> Value:
    """A named tuple of the receiver's class."""
    made = receiver.cls
    return DECLINED if made is None else kind_of(made).call_method(interp, made, "_make", [items], {}, call.node)


@of_sequence("_replace")
def _replace(interp: Interpreter, call: Call, receiver: Sequence, /, **changes: Value) -> Value:
    """A named tuple with some of its items replaced."""
    changed = Sequence(receiver.kind, list(receiver.items), fields=receiver.fields, cls=receiver.cls)
    for name, value in changes.items():
        if name in receiver.fields[: len(changed.items)]:
            slot = interp.slot(value, name, written.keyword(call.node, name))
            changed.items[receiver.fields.index(name)] = slot
    if call.node in interp.spread:  # nobody knows which of them `**changes` replaces
        for at, name in enumerate(receiver.fields[: len(changed.items)]):
            if name not in changes:
                changed.items[at] = Binding(interp.fresh_symbol(name))
    return changed


@of_sequence("_asdict")
def _asdict(interp: Interpreter, call: Call, receiver: Sequence, /) -> Value:
    named = zip(receiver.fields, receiver.items, strict=False)
    return Mapping({mapping_keys.mapping_key(interp, field): Binding(slot.value) for field, slot in named})


@of_sequence("index", "count")
def _index(interp: Interpreter, call: Call, receiver: Sequence, /, *args: Value) -> Value:
    with suppress(constants.NotWritten):
        return constants.computed(interp, getattr(list, call.name), [replace(receiver, kind="list"), *args])
    return interp.fresh_symbol(call.name)


# Dictionaries


@of_mapping("get", "pop", "setdefault")
def _get(interp: Interpreter, call: Call, receiver: Mapping, key: Value, default: Value = None, /) -> Value:
    place = mapping_keys.key_in(interp, key, receiver)
    found = receiver.items.get(place) or elements.alias(interp, receiver, place, key)
    if found is None and call.name == "get":
        found = elements.one_of_functions(interp, receiver, key, may_be_missing=default is not None)
    if found is not None:
        if call.name == "pop":
            receiver.items.pop(place, None)
        return interp.read(found, receiver)
    elements.stood_in(interp, default, place)
    if call.name == "setdefault":
        name, expression = written.receiver(interp, call.node), written.argument(call.node, 1)
        receiver.items[place] = interp.slot(default, name, expression, receiver)
        return default
    open_question = receiver.more or (isinstance(place, tuple) and bool(receiver.items))
    if not open_question:
        return default
    of_constants = all(is_constant(slot.value) and slot.value is not None for slot in receiver.items.values())
    return interp.symbol(("constant" if of_constants else "get", interp.identity(receiver), place))


@of_mapping("update")
def _update(interp: Interpreter, call: Call, receiver: Mapping, /, *args: Value, **keywords: Value) -> Value:
    node = call.node
    if args:
        given = args[0]
        counts = isinstance(receiver.default, Name) and receiver.default.path == "builtins.int"
        if counts and isinstance(given, Sequence):  # of a `Counter`: each item is a key
            receiver.more = True
            return
        if not isinstance(given, (Mapping, Symbol)):  # pairs
            given = dictionary(interp, call, *args)
        if isinstance(given, Mapping):
            _take_over(interp, receiver, given, node)
        else:
            receiver.more = True
            overridden.flags(interp, receiver.items, receiver)
    if node in interp.spread:
        overridden.flags(interp, receiver.items, receiver)
    for name, value in keywords.items():
        slot = interp.slot(value, written.receiver(interp, node), written.keyword(node, name))
        receiver.items[name] = slot


def _take_over(interp: Interpreter, receiver: Mapping, given: Mapping, node: ast.expr) -> None:
    """All that a mapping has goes into the *receiver*."""
    expression = written.argument(node, 0)
    parts: dict[Any, ast.expr] = {}
    if isinstance(expression, ast.Dict):
        pairs = zip(expression.keys, expression.values, strict=True)
        parts = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
    for key, slot in list(given.items.items()):
        value = interp.read(slot, given)
        place = elements.put_at(interp, receiver, mapping_keys.key_value(interp, key))
        key = key if place is None else place
        receiver.items[key] = interp.slot(value, written.receiver(interp, node), parts.get(key))
    receiver.more = receiver.more or given.more


@of_mapping("items", "values", "keys")
def _items(interp: Interpreter, call: Call, receiver: Mapping, /) -> Value:
    slots = []
    for key, slot in receiver.items.items():
        value = interp.read(slot, receiver)
        plain = mapping_keys.key_value(interp, key)
        if call.name == "items":
            slots.append(Binding(Sequence("tuple", [Binding(plain), Binding(value)])))
        else:
            slots.append(Binding(value if call.name == "values" else plain))
    return Sequence("list", slots, more=receiver.more)


@of_mapping("copy")
def _copied(interp: Interpreter, call: Call, receiver: Mapping, /) -> Value:
    return Mapping(dict(receiver.items), receiver.more, receiver.kept, receiver.default, receiver.cls)


@of_mapping("popitem")
def _popitem(interp: Interpreter, call: Call, receiver: Mapping, /, last: Value = True) -> Value:
    if not receiver.items:
        return interp.fresh_symbol("item")
    key = next(iter(receiver.items) if last is False else reversed(receiver.items))
    taken = interp.read(receiver.items.pop(key), receiver)
    return Sequence("tuple", [Binding(mapping_keys.key_value(interp, key)), Binding(taken)])


@of_mapping("move_to_end")
def _move_to_end(interp: Interpreter, call: Call, receiver: Mapping, key: Value, /, last: Value = True) -> Value:
    place = mapping_keys.key_in(interp, key, receiver)
    if place in receiver.items and last is True:
        receiver.items[place] = receiver.items.pop(place)
