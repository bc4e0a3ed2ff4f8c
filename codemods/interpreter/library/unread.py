"""Functions of libraries that no model covers, and those that give back what they are given."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import class_lookup, cuts, optimizers, replicas
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unknown_calls import PARALLEL, PASSED_THROUGH
from autofix.codemods.interpreter.values import Binding, Instance, Sequence, Symbol, TorchModule, Value, is_constant

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


# Libraries whose functions of tensors are made of torch's own operations.
_DIFFERENTIABLE = frozenset("torchvision einops kornia torch_geometric torch_scatter torchaudio pytorch3d timm".split())

# Classes of libraries that are layers with parameters, or neurons that compute on the graph of their input and state.
_LAYER = re.compile(r"(torch_geometric|torch_geometric_temporal|dgl|snntorch|norse)\.([a-z_]+\.)*[A-Z]\w*$")

# Classes and functions of the same libraries that are no layers.
_IS_DATA = re.compile(r"\b(data|datasets|loader|sampler|transforms|utils|explain|profile)\.|Loader$|Data$|Dataset$")


def unread(interp: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """The result of a function whose source was not read and of which nothing is known."""
    head, last = path.partition(".")[0], path.rpartition(".")[2]
    values = [*args, *keywords.values()]
    if _LAYER.match(path) and not interp.operands(*values) and not _IS_DATA.search(path):
        layer = interp.fresh_symbol("call", path)
        layer.leaf = interp.leaf(last, node)
        return layer
    optimizer = optimizers.guessed(interp, args, keywords, node)
    if optimizer is not None:
        return optimizer
    if _ENVIRONMENT.match(path) and all(map(is_constant, values)):
        return interp.symbol(("call", path, *map(interp.key, values)))
    found = interp.opaque(path, values, node, differentiable=head in _DIFFERENTIABLE)
    if head in _OF_NUMBERS:
        if head == "statistics" and interp.tensors(*values):
            interp.crash("statistics are taken of numbers, not of tensors")
        found = cuts.carry(interp, found, values, node)
    for value in values:
        _forget_state(interp, value, set())
    if isinstance(found, Symbol):
        _note_settings(interp, found, keywords)
    return found


def _note_settings(interp: Interpreter, made: Symbol, keywords: dict[str, Value]) -> None:
    """Constants that are given by name are what an object has under these names by default: ``HParams(fp16=False)``.

    They may be set otherwise later, from a file or from the command line.
    """
    for name, value in keywords.items():
        if isinstance(value, (str, int, float)):
            for key in {made.key, interp.getters.get(made.key, made.key)}:
                interp.defaults["attr", key, name] = value


_OF_NUMBERS = frozenset(("math", "statistics"))
"""Modules whose functions compute numbers of numbers."""
_ENVIRONMENT = re.compile(
    r"(platform|os\.path|sys|inspect|shutil|socket|math|statistics|struct|gc)\.|builtins\.(hash|callable)$"
    r"|(os|multiprocessing)\.cpu_count$|importlib\.util\.find_spec$"
    r"|torch\.(\w+\.)?(is_available|device_count|current_device)$|torch\.(distributed|backends|version)\."
)
"""Functions that tell of the machine and of how a script is run, the same all along."""


def _forget_state(interp: Interpreter, value: Value, seen: set[int]) -> None:
    """Forget the state of an object that was handed to an unread function: it may have been reset there."""
    if not isinstance(value, (Instance, TorchModule)) or id(value) in seen:
        return
    seen.add(id(value))
    names: dict[Any, Binding] = value.names if isinstance(value, Instance) else value.children
    for name, slot in names.items():
        if isinstance(slot.value, (Instance, TorchModule)):
            _forget_state(interp, slot.value, seen)
        elif any(tensor.cell.node is not None and tensor.cell.leaf is None for tensor in interp.tensors(slot.value)):
            names[name] = Binding(interp.fresh_symbol("state", str(name)))


@model(*(f"*.{name}" for name in PASSED_THROUGH))
def _passed_through(interp: Interpreter, call: Call, value: Value, /, *others: Value, **keywords: Value) -> Value:
    """``torch.compile(model)``, ``DataParallel(model)``: as the model behaves."""
    if call.last in PARALLEL and class_lookup.is_any_module(value):
        interp.parallel.add(interp.identity(value))
    if call.last == "DataParallel" and class_lookup.is_any_module(value):
        replicas.wrapped(interp, value, call.node, keywords.get("device_ids", others[0] if others else None))
    return value


@model("apex.amp.initialize")
def _of_mixed_precision(
    interp: Interpreter, call: Call, models: Value, optimizers: Value = None, *_: Value, **__: Value
) -> Value:
    """``model, optimizer = amp.initialize(model, optimizer)``: as they are."""
    return models if optimizers is None else Sequence("tuple", [Binding(models), Binding(optimizers)])


@model("deepspeed.initialize")
def _of_deepspeed(
    interp: Interpreter, call: Call, /, args: Value = None, model: Value = None, optimizer: Value = None, **_: Value
) -> Value:
    """``engine, optimizer, loader, scheduler = deepspeed.initialize(...)``: the engine behaves as the model.

    Source: ``deepspeed.initialize`` in DeepSpeed's documentation.
    """
    if not class_lookup.is_any_module(model):
        return DECLINED
    interp.parallel.add(interp.identity(model))
    known = optimizer if optimizer is not None else interp.fresh_symbol("optimizer")
    others = [interp.fresh_symbol(name) for name in ("loader", "scheduler")]
    return Sequence("tuple", [Binding(one) for one in (model, known, *others)])


@model("apex.amp.scale_loss")
def _scaled(interp: Interpreter, call: Call, loss: Value, *_: Value, **__: Value) -> Value:
    """``with amp.scale_loss(loss, optimizer) as scaled_loss``: the loss times a number."""
    if not any(True for _ in interp.tensors(loss)):
        return DECLINED
    return interp.operation("mul", [loss], call.node, scalar=True)
