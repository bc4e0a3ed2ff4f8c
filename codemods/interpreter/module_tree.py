"""Modules inside modules: children, paths with dots, parameters and buffers by their names."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter.values import Binding, Instance, Sequence, TensorRef, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def named_children(module: TorchModule | Instance) -> list[tuple[Hashable, TorchModule | Instance]]:
    slots: dict[Any, Binding] = dict(module.children if isinstance(module, TorchModule) else module.names)
    return [(key, slot.value) for key, slot in slots.items() if isinstance(slot.value, (TorchModule, Instance))]


def children(module: TorchModule | Instance) -> list[Binding]:
    return [Binding(value) for _, value in named_children(module)]


def pair(first: Value, second: Value) -> Binding:
    return Binding(Sequence("tuple", [Binding(first), Binding(second)]))


def modules(module: TorchModule | Instance) -> list[Binding]:
    """The module and all modules under it."""
    return [Binding(one) for _, one in paths(module, "", [])]


def paths(
    module: TorchModule | Instance, path: str, found: list[tuple[str, TorchModule | Instance]]
) -> list[tuple[str, TorchModule | Instance]]:
    """The module and all modules under it, by their names with dots."""
    if all(one is not module for _, one in found):
        found.append((path, module))
        for name, child in named_children(module):
            paths(child, f"{path}.{name}" if path else str(name), found)
    return found


def parameter_called(interp: Interpreter, module: Value, name: str, node: ast.expr) -> TensorRef | None:
    """The parameter that has this name, with dots, in a module; None where there is none to be seen."""
    path, _, last = name.rpartition(".")
    owner = next((one for place, one in paths(module, "", []) if place == path), None)
    found = interp.attribute(owner, last, node) if owner is not None else None
    return found if isinstance(found, TensorRef) and found.cell.leaf is not None else None


def buffers(module: TorchModule | Instance) -> Iterator[tuple[Hashable, Binding]]:
    """The tensors that a module and those under it hold and that are no parameters, by their names there."""
    for one in modules(module):
        held = one.value.names if isinstance(one.value, Instance) else one.value.children
        for name, slot in held.items():
            if isinstance(slot.value, TensorRef) and slot.value.cell.leaf is None:
                yield name, slot


def holds(module: TorchModule | Instance, wanted: Instance) -> bool:
    """Whether *wanted* is one of the modules under *module*."""
    return any(slot.value is wanted for slot in modules(module))
