"""Copies of objects: ``copy``."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, escapes
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.values import Binding, Instance, Mapping, Sequence, TensorRef, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("copy.copy")
def _copy(interp: Interpreter, call: Call, value: Value, /) -> Value:
    """Another container, or object, of the very same items."""
    if isinstance(value, (Sequence, Mapping)):
        return replace(value, items=value.items.copy())  # type: ignore[arg-type]
    if isinstance(value, Instance) and (own := class_lookup.find(value, "__copy__")) is not None:
        return interp.call(class_lookup.bind(own, value), [], {}, call.node)
    if isinstance(value, Instance) and not class_lookup.is_module(value):
        other = Instance(value.cls)
        other.names = dict(value.names)
        return other
    return _deep_copy(interp, value, call.node)


@model("copy.deepcopy")
def _deepcopy(interp: Interpreter, call: Call, value: Value, *memo: Value, **named: Value) -> Value:
    if not memo:  # a memo may say that tensors stay as they are
        escapes.copied(interp, value, call.node)
    return _deep_copy(interp, value, call.node)


def _deep_copy(interp: Interpreter, value: Value, node: ast.expr, known: dict[int, Value] | None = None) -> Value:
    """``copy.deepcopy``; *known* are the copies that were made, by the identity of what they are of."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]

    def inner(slot: Binding, owner: Sequence | Mapping | None = None) -> Binding:
        return Binding(_deep_copy(interp, interp.read(slot, owner) if owner is not None else slot.value, node, known))

    match value:
        case TorchModule():
            leaf = interp.leaf(value.kind, node) if value.leaf is not None else None
            if leaf is not None and value.leaf is not None:
                leaf.frozen, leaf.parts = value.leaf.frozen, dict(value.leaf.parts)
            module = known[id(value)] = TorchModule(value.kind, leaf, {}, dict(value.options))
            for key, slot in value.children.items():
                if not isinstance(slot.value, TensorRef):
                    module.children[key] = inner(slot)
            return module
        case Instance() if (own := class_lookup.find(value, "__deepcopy__")) is not None:
            return interp.call(class_lookup.bind(own, value), [Mapping(more=True)], {}, node)
        case Instance():
            other = known[id(value)] = Instance(value.cls)
            for name, slot in value.names.items():
                if name != "_buffers":
                    other.names[name] = inner(slot)
            if "_buffers" in value.names:
                for name in class_lookup.registered(value):
                    class_lookup.registered(other).add(name)
            return other
        case Sequence():
            made = known[id(value)] = replace(value, items=[], kept=())
            made.items = [inner(slot, value) for slot in value.items]
            return made
        case Mapping() if type(value.items) is dict:
            mapping = known[id(value)] = replace(value, items={}, kept=())
            mapping.items = {key: inner(slot, value) for key, slot in value.items.items()}
            return mapping
        case TensorRef():
            if value.cell.leaf is not None and value.cell.node is value.cell.leaf.node:
                copied = interp.parameter("tensor", node)
                if copied.cell.leaf is not None:
                    copied.cell.leaf.frozen = value.cell.leaf.frozen
                return copied
            return interp.data(scalar=value.cell.scalar)
    return value
