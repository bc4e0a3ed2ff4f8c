"""The shapes of values, as far as a rewrite must know them: what is to be written for a value without its graphs."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator

from autofix.codemods.autograd import catalogue
from autofix.codemods.facts.parts import Form
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import (
    ENCLOSED,
    Binding,
    Distribution,
    Instance,
    Mapping,
    Sequence,
    TensorRef,
    Value,
    slots_of,
)

PARTS = 6
"""A container with more parts than these, of several kinds, is not written out part by part."""
NAME, ITEMS = "$x", ("$1", "$2", "$3")
"""Placeholders for the value's name, and for the names of items, in the text that :func:`whole_of` returns."""


def form_of(value: Value) -> Form:
    """The shape of a value; ``OTHER`` where it has no name of its own."""
    match value:
        case TensorRef():
            if value.cell.named:
                return Form.OTHER
            return Form.UNKNOWN if value.cell.unsure else Form.TENSOR
        case Sequence() if value.kind in ENCLOSED:
            return Form.OTHER
        case Sequence() if _tensors_only(value):
            if value.fields:
                return Form.RECORD
            return Form.TUPLE if value.kind == "tuple" else Form.LIST
        case Sequence(kind="list") if value.items and all(map(_is_state, value.items)):
            return Form.NESTED
        case Mapping() if value.items and all(isinstance(slot.value, TensorRef) for slot in value.items.values()):
            return Form.DICT
    return Form.OTHER


def _is_state(slot: Binding) -> bool:
    """Whether it is a tuple of tensors: one layer's."""
    value = slot.value
    return isinstance(value, Sequence) and value.kind == "tuple" and not value.fields and _tensors_only(value)


def _tensors_only(value: Sequence) -> bool:
    return bool(value.items) and all(isinstance(slot.value, TensorRef) for slot in value.items)


def whole_of(value: Value) -> str:
    """Statements that make a value of several kinds of parts one without graphs: ``$x = ($x[0].detach(), $x[1])``.

    Nothing where there are none in it, or where that cannot be written.
    """
    if isinstance(value, (Sequence, Mapping)) and not _has_graphs(value):
        return ""
    if _holds_itself(value):
        return ""
    if isinstance(value, Instance):
        return "\n".join(_object(value))
    made = _detached(value, NAME, ITEMS)
    return "" if made is None or made == NAME else f"{NAME} = {made}"


def _has_graphs(value: Value) -> bool:
    """Whether a container has a tensor with a graph, at any depth of containers."""
    pending, seen = [value], {id(value)}
    while pending:
        for slot in slots_of(pending.pop()):
            held = slot.value
            if isinstance(held, TensorRef):
                if held.cell.node is not None:
                    return True
            elif isinstance(held, (Sequence, Mapping)) and id(held) not in seen:
                seen.add(id(held))
                pending.append(held)
    return False


def _holds_itself(value: Value, above: tuple[int, ...] = (), done: set[int] | None = None) -> bool:
    """Whether a container is among its own parts, and theirs: ``metrics["history"] = history``, and an append.

    *above* has the identities of the containers around it, *done* those of which it is known that they do not.
    """
    done = set() if done is None else done
    slots: Iterable[Binding] = ()
    if isinstance(value, (Sequence, Mapping)):
        slots = slots_of(value)
    elif isinstance(value, Instance) and not above:  # no object within is taken apart
        slots = value.names.values()
    for slot in slots:
        inner = id(slot.value)
        if inner in above or slot.value is value:
            return True
        if inner not in done and _holds_itself(slot.value, (*above, id(value)), done):
            return True
    done.add(id(value))
    return False


def _detached(value: Value, code: str, items: tuple[str, ...]) -> str | None:
    """Source of *value*, which *code* spells, without its graphs; *code* if it has none, None if there is no way."""
    match value:
        case TensorRef():
            if value.cell.node is None:
                return code
            return None if value.cell.unsure else f"{code}.detach()"
        case Distribution():
            return _made_anew(value, code, items)
        case Sequence() if value.fields:
            return _replaced(zip(value.fields, (slot.value for slot in value.items), strict=False), code, items)
        case Sequence(kind="list" | "tuple") if value.items:
            return _sequence(value, code, items)
        case Mapping() if value.items:
            return _mapping(value, code, items)
        case Sequence() | Mapping() | Instance():
            return None if _may_hold_graphs(value) else code
    return code


def _may_hold_graphs(value: Value) -> bool:
    return isinstance(value, Instance) or bool(value.items)


def _sequence(value: Sequence, code: str, items: tuple[str, ...]) -> str | None:
    parts = [_detached(slot.value, f"{code}[{at}]", items) for at, slot in enumerate(value.items)]
    if all(part == f"{code}[{at}]" for at, part in enumerate(parts)):
        return code
    alike = {_detached(slot.value, items[0], items[1:]) for slot in value.items} if items else {None}
    if len(alike) == 1 and (each := alike.pop()) is not None and (value.more or len(parts) > 1):
        loop = f"{each} for {items[0]} in {code}"
        return f"[{loop}]" if value.kind == "list" else f"tuple({loop})"
    if value.more or len(parts) > PARTS or None in parts:
        return None
    inside = ", ".join(part for part in parts if part is not None)
    return f"[{inside}]" if value.kind == "list" else f"({inside}{',' if len(parts) == 1 else ''})"


def _mapping(value: Mapping, code: str, items: tuple[str, ...]) -> str | None:
    alike = {_detached(slot.value, items[0], items[1:]) for slot in value.items.values()} if items else {None}
    if len(alike) == 1 and (each := alike.pop()) is not None and (value.more or len(value.items) > 1):
        return code if each == items[0] else _by_key(each, items[0], code)
    if value.more or not all(isinstance(key, str) for key in value.items):
        return None
    changed = list(_changed(((str(key), slot.value) for key, slot in value.items.items()), code + "[{}]", items))
    if None in (part for _, part in changed) or len(changed) > PARTS:
        return None
    return f"{{**{code}, {', '.join(f'{key}: {part}' for key, part in changed)}}}" if changed else code


def _by_key(each: str, item: str, code: str) -> str:
    key = item.replace("$", "$key")
    return f"{{{key}: {each} for {key}, {item} in {code}.items()}}"


def _changed(
    parts: Iterator[tuple[str, Value]], place: str, items: tuple[str, ...]
) -> Iterator[tuple[str, str | None]]:
    """The parts that have graphs, each with what to write for it; *place* says how a part is read by its name."""
    for name, value in parts:
        name = json.dumps(name) if place.endswith("]") else name
        code = place.replace("{}", name)
        made = _detached(value, code, items)
        if made != code:
            yield name, made


def _replaced(fields: Iterator[tuple[str, Value]], code: str, items: tuple[str, ...]) -> str | None:
    changed = list(_changed(fields, f"{code}.{{}}", items))
    if None in (part for _, part in changed):
        return None
    return f"{code}._replace({', '.join(f'{name}={part}' for name, part in changed)})" if changed else code


def _made_anew(value: Distribution, code: str, items: tuple[str, ...]) -> str | None:
    """``type(old)(loc=old.loc.detach(), scale=old.scale)``: another one of its class."""
    fields = list(zip(value.fields, (slot.value for slot in value.items), strict=True))
    changed = dict(_changed(iter(fields), f"{code}.{{}}", items))
    row = catalogue.distribution(value.name)
    if None in changed.values() or row is None or not row.attributes.issuperset(value.fields):
        return None
    parts = {name: changed.get(name) or f"{code}.{name}" for name, _ in fields}
    return f"type({code})({', '.join(f'{name}={part}' for name, part in parts.items())})" if changed else code


def _object(value: Instance) -> Iterator[str]:
    """Statements that detach the parts of an object which its maker gave all its parts; none without a graph."""
    fields = ((name, slot.value) for name, slot in value.names.items())
    if class_lookup.is_named_tuple(value.cls):
        made = _replaced(fields, NAME, ITEMS)
        if made is not None and made != NAME:
            yield f"{NAME} = {made}"
        return
    changed = list(_changed(fields, f"{NAME}.{{}}", ITEMS))
    if None in (part for _, part in changed):
        return
    if changed and is_frozen(value.cls.node):
        parts = {name: f"{NAME}.{name}" for name in value.names} | dict(changed)
        yield f"{NAME} = type({NAME})({', '.join(f'{name}={part}' for name, part in parts.items())})"
        return
    yield from (f"{NAME}.{name} = {part}" for name, part in changed)


def is_frozen(node: ast.ClassDef) -> bool:
    """Whether the attributes of a dataclass can not be set."""
    return any(
        isinstance(one, ast.Call)
        and any(part.arg == "frozen" and getattr(part.value, "value", False) is True for part in one.keywords)
        for one in node.decorator_list
    )
