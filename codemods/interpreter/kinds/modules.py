"""Modules of torch's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue
from autofix.codemods.autograd.graph import Leaf, Storage
from autofix.codemods.interpreter import (
    attributes,
    calls,
    gradients,
    module_calls,
    module_lists,
    numbered,
    parametrized,
    streams,
)
from autofix.codemods.interpreter.kinds.kind import TENSORS, Assignment, Copied, Kind, kind
from autofix.codemods.interpreter.library import modules
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import (
    Binding,
    Class,
    Instance,
    Method,
    Name,
    Record,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@kind(TorchModule)
class ModuleKind(Kind[TorchModule]):
    """A module of torch's own: a layer, or a container of modules."""

    def call(
        self, interp: Interpreter, value: TorchModule, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return calls.call_hooked(interp, value, args, keywords, node)

    def call_method(
        self,
        interp: Interpreter,
        value: TorchModule,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        return modules.call_module_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: TorchModule, name: str, node: ast.expr) -> Value:
        slot = value.children.get(name) or interp.attributes_of_opaque.get((attributes.owner_of(interp, value), name))
        if slot is not None:
            return interp.read(slot)
        computed = parametrized.get(interp, value, name, node)
        if computed is not None:
            return computed
        if module_calls.is_left_out(value, name):
            return None
        if value.leaf is not None and attributes.is_parameter(name) and not module_calls.is_flag(value, name):
            # A bias is added: only a norm saves it.
            storage = Storage() if name.startswith("bias") and "Norm" not in value.kind else value.leaf.storage
            cell = TensorImpl(node=value.leaf.node, storage=storage, leaf=value.leaf, part=True, place=(name,))
            tensor = TensorRef(cell)
            value.children[name] = Binding(tensor)
            return tensor
        if name in value.options:
            return value.options[name]
        if name == "__class__":
            return value.cls
        if name in ("module", "_modules"):
            return attributes.unwrapped(interp, value, name)
        return Method(value, name, node)

    def set_attribute(self, interp: Interpreter, value: TorchModule, name: str, slot: Binding, by: Assignment) -> None:
        if by.checked and value.leaf is not None and attributes.is_parameter(name) and _is_no_parameter(slot.value):
            interp.crash(f"`{name}` of a layer is a parameter, and takes no other tensor")
            if interp.statement in interp.incidents.asked and name in value.children:
                gradients.note_refused(interp, value.children[name].value, slot.value, by.expression, by.target)
        if name == "inplace":
            value.options[name] = slot.value
            value.site = interp.site(by.target)
        elif value.kind in attributes.CONTAINERS and not isinstance(slot.value, (Instance, TorchModule)):
            interp.attributes_of_opaque[attributes.owner_of(interp, value), name] = slot  # not one of its modules
        else:
            value.children[name] = slot
            attributes.put_in_place(interp, value, name, slot.value, by.target)

    def item(self, interp: Interpreter, value: TorchModule, index: Value, node: ast.expr) -> Value:
        slots = list(value.children.values())
        if isinstance(index, slice):
            picked = dict(list(value.children.items())[index])
            return TorchModule(value.kind, children=picked)
        if isinstance(index, (int, str)):
            slot = module_lists.item(value, index)
            if slot is not None:
                return slot.value
        if (
            slots
            and value.kind == "Sequential"
            and isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Slice)
        ):
            first, *rest = value.children.items()
            return TorchModule(value.kind, children=dict([first]), rest=tuple(slot for _, slot in rest))
        module_there = numbered.in_module(interp, value, index)
        if module_there is not None:
            return module_there
        return slots[0].value if slots else interp.fresh_symbol("module")

    def set_item(self, interp: Interpreter, value: TorchModule, index: Value, given: Value, by: Assignment) -> None:
        if isinstance(index, (int, str)):
            module_lists.put(interp, value, index, given, by.target)

    def delete_item(self, interp: Interpreter, value: TorchModule, index: Value) -> None:
        """``del self.layers[-1]``, where the layers are a list or a dictionary of modules."""
        modules_there = module_lists.holder(value, module_lists.LISTS | module_lists.DICTIONARIES)
        if modules_there is not None and isinstance(index, (int, str, slice)):
            module_lists.remove(interp, modules_there, index)

    def iterate(self, interp: Interpreter, value: TorchModule, node: ast.expr) -> Stream:
        parts: list[Value] = [
            key if value.kind in module_lists.DICTIONARIES else slot.value for key, slot in value.children.items()
        ]
        return Stream(len(parts), lambda at, exact: parts[at], streams.PARTS)

    def length(self, interp: Interpreter, value: TorchModule, node: ast.expr) -> Value:
        return len(value.children)

    def leaves(self, interp: Interpreter, value: TorchModule, seen: set[int]) -> Iterator[Leaf]:
        if value.leaf is not None:
            yield value.leaf
        for slot in value.children.values():
            yield from interp.leaves_of(slot.value, seen)

    def deep_copy(self, interp: Interpreter, value: TorchModule, copied: Copied, node: ast.expr) -> TorchModule:
        leaf = interp.leaf(value.kind, node) if value.leaf is not None else None
        if leaf is not None and value.leaf is not None:
            leaf.frozen, leaf.parts = value.leaf.frozen, dict(value.leaf.parts)
        made = copied.known[id(value)] = TorchModule(value.kind, leaf, {}, dict(value.options), value.site)
        for key, slot in value.children.items():
            if not isinstance(slot.value, TensorRef):
                made.children[key] = Binding(copied.of(slot.value))
        made.rest = tuple(Binding(copied.of(slot.value)) for slot in value.rest)
        return made

    def is_part(self, value: TorchModule) -> bool:
        return True

    def type_of(self, value: TorchModule) -> Value:
        return value.cls

    def is_instance(self, value: TorchModule, cls: Name | Class | Record) -> bool | None:
        if isinstance(cls, Name) and cls.path.startswith("torch.nn.") and cls.last not in TENSORS:
            return catalogue.is_derived(value.kind, cls.last)
        return super().is_instance(value, cls)

    def has(self, interp: Interpreter, value: TorchModule, name: str) -> bool | None:
        return False if attributes.lacks(interp, value, name) else None


def _is_no_parameter(value: Value) -> bool:
    return isinstance(value, TensorRef) and value.cell.leaf is None and not value.guessed
