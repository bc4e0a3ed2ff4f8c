"""Objects made of fields: ``dataclasses``, and plain namespaces."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, written
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import (
    Binding,
    Class,
    Instance,
    Mapping,
    Sequence,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("dataclasses.is_dataclass")
def _is_dataclass(interp: Interpreter, call: Call, value: Value, /) -> Value:
    cls = value.cls if isinstance(value, Instance) else value
    if isinstance(cls, Class) and class_lookup.is_dataclass(cls):
        return True
    return False if isinstance(value, (TensorRef, Sequence, Mapping, TorchModule)) else DECLINED


@model("dataclasses.fields")
def _fields(interp: Interpreter, call: Call, value: Value, /) -> Value:
    if not isinstance(value, (Instance, Class)):
        return DECLINED
    of = value if isinstance(value, Class) else value.cls
    names = [one.name for one in class_lookup.fields_of(of)]
    return Sequence("tuple", [Binding(Sequence("tuple", [Binding(name)], fields=("name",))) for name in names])


@model("dataclasses.replace")
def _replace(interp: Interpreter, call: Call, value: Value, /, **changes: Value) -> Value:
    if not isinstance(value, Instance):
        return DECLINED
    changed = Instance(value.cls, dict(value.names), whole=value.whole)
    for name, one in changes.items():
        changed.names[name] = interp.slot(one, name, written.keyword(call.node, name))
    return changed


@model("dataclasses.asdict", "dataclasses.astuple")
def _opened(interp: Interpreter, call: Call, value: Value, /, **_: Value) -> Value:
    return _as_container(value, call.last) if isinstance(value, Instance) else DECLINED


def _as_container(value: Value, name: str) -> Value:
    """``dataclasses.asdict(value)`` and ``astuple(value)``, what is in it opened as well."""
    if isinstance(value, Sequence):
        return replace(value, items=[Binding(_as_container(slot.value, name), slot.kept) for slot in value.items])
    if isinstance(value, Mapping):
        items = {key: Binding(_as_container(slot.value, name), slot.kept) for key, slot in value.items.items()}
        return replace(value, items=items)
    if not isinstance(value, Instance) or class_lookup.is_module(value) or value.cls.members:
        return value
    parts: dict[Hashable, Binding] = {
        one.name: Binding(_as_container(value.names[one.name].value, name), value.names[one.name].kept)
        for one in class_lookup.fields_of(value.cls)
        if one.name in value.names
    }
    return Mapping(parts) if name == "asdict" else Sequence("tuple", list(parts.values()))


@model("types.SimpleNamespace", "argparse.Namespace")
def _namespace(interp: Interpreter, call: Call, *_: Value, **names: Value) -> Value:
    """An object with nothing but the attributes that it is given."""
    node = call.node
    if node in interp.spread:
        return DECLINED
    body = ast.ClassDef("SimpleNamespace", [], [], [], [])
    ast.copy_location(body, node)
    slots = {name: interp.slot(value, name, written.keyword(node, name)) for name, value in names.items()}
    return Instance(Class("SimpleNamespace", [], {}, body, interp.source), slots, whole=True)
