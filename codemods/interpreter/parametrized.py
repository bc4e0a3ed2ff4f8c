"""Tensors of modules that are computed of parameters: ``register_parametrization``, ``weight_norm``, ``prune``.

Source: torch/nn/utils/parametrize.py, parametrizations.py, weight_norm.py, spectral_norm.py and prune.py.  A
parametrized tensor is computed each time it is read; hooks (``nn.utils.weight_norm``) do so at each call of the module.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Name,
    Sequence,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_KEY = "~parametrized"
"""Name under which a module has what its parametrized tensors are computed by."""
_CURRENT = "~current"
"""Name under which it has those that a hook has computed last."""
_OF_TORCH = "torch.nn.utils."
_HOOKS = (f"{_OF_TORCH}weight_norm", f"{_OF_TORCH}spectral_norm")
_PRUNES = f"{_OF_TORCH}prune."
PRUNES = "identity random_unstructured l1_unstructured random_structured ln_structured custom_from_mask".split()
"""Functions that multiply a parameter with a mask."""


def register(interp: Interpreter, module: Value, name: Value, how: Value, node: ast.expr) -> None:
    """From now on a tensor of *module* is computed by *how*, a module or a function of torch's."""
    owner = _owner(module, name)
    if owner is None or not isinstance(name, str):
        return
    known = _table(owner, _KEY)
    if name in known.items:
        known.items[name].value.items.append(Binding(how))
        return
    known.items[name] = Binding(Sequence("list", [Binding(how)]))
    if isinstance(owner, Instance):
        owner.names[_original(name)] = owner.names.pop(name)
    elif owner.leaf is not None:
        owner.children.pop(name, None)
        owner.leaf.parts = {}  # they have other names now
    if isinstance(how, Name) and how.path == f"{_OF_TORCH}spectral_norm":  # the data, before the first call
        _table(owner, _CURRENT).items[name] = Binding(interp.fresh_symbol(name))
    elif _is_hook(how):
        _table(owner, _CURRENT).items[name] = Binding(_computed(interp, owner, name, node))


def remove(module: Value, name: Value) -> None:
    """A tensor is a parameter again."""
    for owner in (module, class_lookup.base_module(module) if isinstance(module, Instance) else None):
        if isinstance(owner, (TorchModule, Instance)) and isinstance(name, str):
            if name in _table(owner, _KEY).items and isinstance(owner, Instance):
                owner.names[name] = owner.names.pop(_original(name))
            _table(owner, _KEY).items.pop(name, None)
            _table(owner, _CURRENT).items.pop(name, None)


def get(interp: Interpreter, module: TorchModule | Instance, name: str, node: ast.expr) -> Value:
    """The parametrized tensor of this name; None where the module has none."""
    held = module.options if isinstance(module, TorchModule) else module.names
    if _KEY not in held or name not in _table(module, _KEY).items:
        return None
    current = _table(module, _CURRENT).items.get(name)
    if current is not None:
        return interp.read(current)
    if interp.parametrizations is None:
        return _computed(interp, module, name, node)
    place = interp.identity(module), name
    if place not in interp.parametrizations:
        interp.parametrizations[place] = Binding(_computed(interp, module, name, node))
    return interp.read(interp.parametrizations[place])


def called(interp: Interpreter, module: TorchModule, node: ast.expr) -> list[TensorRef]:
    """The parametrized tensors with which a call of a module computes."""
    if _KEY not in module.options:
        return []
    found = []
    for name in map(str, list(_table(module, _KEY).items)):
        current = _table(module, _CURRENT).items
        if name in current:
            current[name] = Binding(_computed(interp, module, name, node))
        found.append(get(interp, module, name, node))
    return [tensor for tensor in found if isinstance(tensor, TensorRef)]


def _computed(interp: Interpreter, owner: TorchModule | Instance, name: str, node: ast.expr) -> Value:
    made: Value
    if isinstance(owner, Instance):
        made = interp.read(owner.names[_original(name)], owner)
    else:
        leaf = owner.leaf
        assert leaf is not None
        made = TensorRef(TensorImpl(node=leaf.node, storage=leaf.storage, leaf=leaf, part=True, place=(name,)))
    for slot in _table(owner, _KEY).items[name].value.items:
        made = _by(interp, slot.value, made, node)
    return made


def _by(interp: Interpreter, how: Value, original: Value, node: ast.expr) -> Value:
    """What one parametrization makes of a tensor; those of torch save it."""
    if not isinstance(how, Name) or not how.path.startswith(_OF_TORCH):
        return interp.call(how, [original], {}, node)
    whole = interp.grad and not how.path.startswith(_PRUNES)  # of a product with a mask, the mask alone is saved
    saved = [tensor.cell.storage.as_saved() for tensor in interp.tensors(original)] if whole else []
    made = interp.operation(how.last, [original], node, opaque=True, extra_saved=saved)
    if made.cell.node is not None:
        made.cell.node.opaque = False
    return made


def _owner(module: Value, name: Value) -> TorchModule | Instance | None:
    """What holds the parameter: an object itself, or the module of torch's that it is by its class."""
    if isinstance(module, Instance) and name in module.names:
        return module if isinstance(module.names[name].value, TensorRef) else None
    found = class_lookup.base_module(module) if isinstance(module, Instance) else module
    return found if isinstance(found, TorchModule) and found.leaf is not None else None


def _table(module: TorchModule | Instance, key: str) -> Mapping:
    if isinstance(module, TorchModule):
        held: Mapping = module.options.setdefault(key, Mapping())
        return held
    own: Mapping = module.names.setdefault(key, Binding(Mapping())).value
    return own


def _original(name: str) -> str:
    return f"parametrizations.{name}.original"


def _is_hook(how: Value) -> bool:
    return isinstance(how, Name) and (how.path in _HOOKS or how.path.startswith(_PRUNES))
