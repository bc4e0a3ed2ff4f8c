"""Modules that are lists or dictionaries of others: ``Sequential``, ``ModuleList``, ``ParameterDict`` and others."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Binding, Instance, Name, TensorRef, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

LISTS = frozenset(("Sequential", "ModuleList", "ParameterList"))
DICTIONARIES = frozenset(("ModuleDict", "ParameterDict"))
_OF_PARAMETERS = frozenset(("ParameterList", "ParameterDict"))
_REPEATED = 4
"""Times that ``Sequential(...) * n`` is followed: what is behind them is the same again."""


def holder(value: Value, kinds: frozenset[str] = LISTS) -> TorchModule | None:
    """The module of torch's that has the items, where *value* is one of these *kinds*, also by its class."""
    module = class_lookup.base_module(value) if isinstance(value, Instance) else value
    return module if isinstance(module, TorchModule) and module.kind in kinds else None


def values(module: TorchModule) -> list[Value]:
    return [slot.value for slot in module.children.values()]


def filled(interp: Interpreter, kind: str, items: Iterable[Value], node: ast.expr) -> TorchModule:
    """A new list of modules, or of parameters."""
    made = TorchModule(kind, site=interp.site(node))
    _hold(made, [as_item(interp, made, item, node) for item in items])
    return made


def as_item(interp: Interpreter, module: TorchModule, value: Value, node: ast.expr) -> Value:
    """*value* as *module* holds it: lists and dictionaries of parameters make one of each tensor that is none yet."""
    plain = isinstance(value, TensorRef) and (value.cell.leaf is None or value.cell.leaf.plain)
    if module.kind in _OF_PARAMETERS and plain:
        return interp.call(Name("torch.nn.Parameter"), [value], {}, node)
    return value


def extend(interp: Interpreter, module: TorchModule, items: Iterable[Value], node: ast.expr) -> None:
    interp.activity += 1
    for item in items:
        module.children[_next_key(module)] = Binding(as_item(interp, module, item, node))


def insert(interp: Interpreter, module: TorchModule, index: int, item: Value, node: ast.expr) -> None:
    interp.activity += 1
    items = values(module)
    items.insert(index, as_item(interp, module, item, node))
    _hold(module, items)


def put(interp: Interpreter, module: TorchModule, index: int | str, item: Value, node: ast.expr) -> None:
    """``module[index] = item``."""
    key = _key_at(module, index)
    module.children[index if key is None else key] = Binding(as_item(interp, module, item, node))


def item(module: TorchModule, index: int | str) -> Binding | None:
    """The slot of ``module[index]``, where it is known."""
    key = _key_at(module, index)
    return None if key is None else module.children[key]


def remove(interp: Interpreter, module: TorchModule, index: int | str | slice) -> Value | None:
    """Take an item, or a slice of them, out of *module*; the item, None where it is not known."""
    interp.activity += 1
    if isinstance(index, slice):
        gone = list(module.children)[index]
        taken: Value = TorchModule(module.kind, children={at: module.children[key] for at, key in enumerate(gone)})
    else:
        key = _key_at(module, index)
        if key is None:
            return None
        gone, taken = [key], module.children[key].value
    for key in gone:
        del module.children[key]
    if module.kind in LISTS and all(isinstance(key, int) for key in module.children):
        _hold(module, values(module))
    return taken


def repeated(interp: Interpreter, module: TorchModule, times: Value, node: ast.expr) -> TorchModule | None:
    """``module * times``: the very same modules again, where *module* is a ``Sequential``."""
    if module.kind != "Sequential" or not isinstance(times, int):
        return None
    return filled(interp, module.kind, values(module) * min(times, _REPEATED), node)


def _hold(module: TorchModule, items: list[Value]) -> None:
    module.children = {at: Binding(one) for at, one in enumerate(items)}


def _next_key(module: TorchModule) -> int:
    """The number that the next item gets: that of the items, as PyTorch has it, unless another one has it."""
    at = len(module.children)
    while at in module.children:
        at += 1
    return at


def _key_at(module: TorchModule, index: int | str) -> Hashable:
    """The name of the item ``module[index]``: in a list it goes by the place; None where there is none."""
    if module.kind in LISTS and isinstance(index, int):
        keys = list(module.children)
        return keys[index] if -len(keys) <= index < len(keys) else None
    return index if index in module.children else None
