"""``torch.nn``, optimizers and datasets: what their constructors and functions make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter import datasets, module_calls, optimizers, parametrized, tensor_calls
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.library.torch import is_in_place
from autofix.codemods.interpreter.values import (
    Binding,
    CachedParametrizations,
    Mapping,
    Name,
    Sequence,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("torch.optim.*")
def _optimizer(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return optimizers.make(interp, call.last, list(args), keywords, call.node)


@model("torch.utils.data.*")
def _dataset(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return datasets.make(interp, call.last, list(args), keywords, call.node)


@model("torch.nn.*")
def _module(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    if not call.last[:1].isupper():
        return DECLINED
    return module_calls.make_module(interp, call.last, list(args), keywords, call.node)


@model("torch.nn.functional.*", "torch.nn.utils.rnn.*")
def _function(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    if is_in_place(call.last, args):
        return DECLINED
    return tensor_calls.operate(interp, catalogue.called(call.name), list(args), keywords, call.node)


@model("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
def _data_parallel(
    interp: Interpreter, call: Call, module: Value, inputs: Value = None, *_: Value, module_kwargs: Value = None
) -> Value:
    """The module with a part of the batch on each device: to autograd, one call with all of it."""
    return _called_with(interp, module, inputs, call)


@model("torch.nn.init.*")
def _initialised(interp: Interpreter, call: Call, tensor: Value = None, *_: Value, **__: Value) -> Value:
    """``torch.nn.init`` fills a tensor, whatever the grad mode."""
    if isinstance(tensor, TensorRef):
        with interp.grad_mode(False, interp.site(call.node)):
            interp.change(tensor, call.node)
    return tensor


_CONVERT = "torch.nn.utils.convert_parameters"


@model("torch.nn.utils.parameters_to_vector", f"{_CONVERT}.parameters_to_vector")
def _vector(interp: Interpreter, call: Call, parameters: Value, /) -> Value:
    """All parameters in one vector, which has their graph: ``torch.cat`` of their views."""
    leaves = list(interp.leaves_of(parameters))
    if not leaves and not any(interp.tensors(parameters)):
        return interp.opaque(call.name, [parameters], call.node)
    return interp.operation("cat", [parameters], call.node, leaves=leaves)


@model("torch.nn.utils.vector_to_parameters", f"{_CONVERT}.vector_to_parameters")
def _from_vector(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    """The parameters get other data, each by its ``data``: nothing that was saved is changed."""


@model("torch.nn.utils.*.register_parametrization")
def _register_parametrization(
    interp: Interpreter, call: Call, module: Value, tensor_name: Value, parametrization: Value, **_: Value
) -> Value:
    parametrized.register(interp, module, tensor_name, parametrization, call.node)
    return module


@model(*(f"torch.nn.utils.{norm}" for norm in ("weight_norm", "spectral_norm")))
@model(*(f"torch.nn.utils.parametrizations.{norm}" for norm in ("weight_norm", "spectral_norm", "orthogonal")))
def _normalised(
    interp: Interpreter, call: Call, module: Value, name: Value = "weight", *_: Value, **__: Value
) -> Value:
    """A weight that is computed of parameters: of its direction and length, divided by its norm, or orthogonal."""
    parametrized.register(interp, module, name, Name(call.name), call.node)
    return module


@model(*(f"torch.nn.utils.prune.{name}" for name in parametrized.PRUNES))
def _pruned(interp: Interpreter, call: Call, module: Value, name: Value, *_: Value, **__: Value) -> Value:
    """A weight that is computed of a parameter and a mask, at once and before each call."""
    parametrized.register(interp, module, name, Name(call.name), call.node)
    return module


@model("torch.nn.utils.prune.remove")
def _no_longer_pruned(interp: Interpreter, call: Call, module: Value, name: Value) -> Value:
    parametrized.remove(module, name)
    return module


@model("torch.nn.utils.*.remove_parametrizations")
def _remove_parametrizations(
    interp: Interpreter, call: Call, module: Value, tensor_name: Value, *_: Value, **__: Value
) -> Value:
    parametrized.remove(module, tensor_name)
    return module


@model("torch.nn.utils.remove_weight_norm", "torch.nn.utils.remove_spectral_norm")
def _remove_norm(interp: Interpreter, call: Call, module: Value, name: Value = "weight") -> Value:
    parametrized.remove(module, name)
    return module


@model("torch.nn.utils.parametrize.cached")
def _cached_parametrizations(interp: Interpreter, call: Call) -> Value:
    return CachedParametrizations()


@model("torch.nn.utils.*")
def _utility(interp: Interpreter, call: Call, value: Value = None, *_: Value, **__: Value) -> Value:
    return interp.fresh_symbol(call.last) if "clip" in call.last else value


@model("torch.*.functional_call")
def _functional_call(
    interp: Interpreter, call: Call, module: Value, parameters: Value, inputs: Value, *_: Value, **__: Value
) -> Value:
    """A call of a module with its own parameters, or with copies without a graph; with others it is not read."""
    loose = interp.grad and not interp.operands(parameters)
    if loose or not _are_its_own(interp, module, parameters):
        copies = isinstance(parameters, Mapping) and bool(parameters.items) and not interp.operands(parameters)
        return interp.opaque(call.name, [inputs], call.node, differentiable=True) if copies else DECLINED
    return _called_with(interp, module, inputs, call)


def _called_with(interp: Interpreter, module: Value, inputs: Value, call: Call) -> Value:
    """The output of a module for *inputs*, several where they are a tuple."""
    several = isinstance(inputs, Sequence) and inputs.kind == "tuple"
    given = inputs if several else Sequence("tuple", [Binding(inputs)])
    return interp.call(module, [interp.read(slot, given) for slot in given.items], {}, call.node)


def _are_its_own(interp: Interpreter, module: Value, parameters: Value) -> bool:
    """Whether a module is called with the parameters that it has."""
    given = {id(tensor.cell.leaf) for tensor in interp.tensors(parameters)}
    return bool(given) and given <= {id(leaf) for leaf in interp.leaves_of(module)}
