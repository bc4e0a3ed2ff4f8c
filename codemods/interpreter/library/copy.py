"""Copies of objects: ``copy``."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import class_lookup, escapes
from autofix.codemods.interpreter.library.registry import Call, model
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("copy.copy")
def _copy(interp: Interpreter, call: Call, value: Value, /) -> Value:
    """Another container, or object, of the very same items."""
    if isinstance(value, (Sequence, Mapping)):
        return replace(value, items=value.items.copy())  # type: ignore[arg-type]
    if isinstance(value, Symbol):
        return value
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
            return _other_tensor(interp, value, node)
        case Symbol(leaf=Leaf() as leaf):
            made_model = known[id(value)] = _other_model(interp, leaf, node)
            for (owner, name), slot in list(interp.attributes_of_opaque.items()):
                if owner == value.key:
                    interp.attributes_of_opaque[made_model.key, name] = inner(slot)
            return made_model
        case Symbol():  # equal in all that is asked of it, but parameters of its own should it turn out to be a model
            same = known[id(value)] = replace(value)
            return same
    return value


def _other_tensor(interp: Interpreter, value: TensorRef, node: ast.expr) -> TensorRef:
    """A copy of a tensor: a parameter of its own, or data."""
    if value.cell.leaf is None or value.cell.node is not value.cell.leaf.node:
        return interp.data(scalar=value.cell.scalar)
    copied = interp.parameter("tensor", node)
    if copied.cell.leaf is not None:
        copied.cell.leaf.frozen, copied.cell.leaf.plain = value.cell.leaf.frozen, value.cell.leaf.plain
    return copied


def _other_model(interp: Interpreter, leaf: Leaf, node: ast.expr) -> Symbol:
    """A copy of a model that was not read, with parameters of its own, frozen as those in *leaf* are."""
    made = interp.fresh_symbol("copy")
    made.leaf = interp.leaf("model", node)
    made.leaf.frozen, made.leaf.parts, made.leaf.doubtful = leaf.frozen, dict(leaf.parts), leaf.doubtful
    return made
