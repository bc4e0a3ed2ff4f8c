"""OpenMMLab's ``ConvModule``: a convolution, its normalisation and its activation in one layer.

Source: mmcv/cnn/bricks/conv_module.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter import module_calls
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Binding, Mapping, TorchModule, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_NEW_TENSORS = frozenset("Tanh PReLU Sigmoid HSigmoid Swish GELU".split())
"""Activations that a ``ConvModule`` does not tell to work in place."""
_NAMES = {"HSigmoid": "Hardsigmoid", "HSwish": "Hardswish", "Swish": "SiLU"}
"""The layers of torch's that compute what those of other names do."""
_GIVEN = object()
"""The default of ``act_cfg``, an activation."""


@model("mmcv.cnn.ConvModule", "mmcv.cnn.bricks.ConvModule", "mmcv.cnn.bricks.conv_module.ConvModule")
def _conv_module(
    interp: Interpreter,
    call: Call,
    in_channels: Value,
    out_channels: Value,
    kernel_size: Value,
    *_: Value,
    norm_cfg: Value = None,
    act_cfg: Value = _GIVEN,
    inplace: Value = True,
    order: Value = None,
    **__: Value,
) -> Value:
    """The three layers in their usual order; declined where the activation is not known."""
    name = _activation(interp, act_cfg)
    if order is not None or name is None:
        return DECLINED
    layers: dict[str, TorchModule] = {}
    layers["conv"] = _made(interp, call, "Conv2d", [in_channels, out_channels, kernel_size], {})
    if norm_cfg is not None:  # another normalisation saves its input, too
        layers["bn"] = _made(interp, call, "BatchNorm2d", [out_channels], {})
    if name:
        flags: dict[str, Value] = {} if name in _NEW_TENSORS else {"inplace": inplace}
        layers["activate"] = _made(interp, call, _NAMES.get(name, name), [], flags)
    return TorchModule(
        "Sequential", children={key: Binding(layer) for key, layer in layers.items()}, site=interp.site(call.node)
    )


def _made(interp: Interpreter, call: Call, kind: str, args: list[Value], options: dict[str, Value]) -> TorchModule:
    made = module_calls.make_module(interp, kind, args, options, call.node)
    assert isinstance(made, TorchModule)
    return made


def _activation(interp: Interpreter, given: Value) -> str | None:
    """The name of an activation by its configuration; empty for none, None where it is not known."""
    if given is _GIVEN:
        return "ReLU"
    if given is None:
        return ""
    kind = interp.read(given.items["type"], given) if isinstance(given, Mapping) and "type" in given.items else None
    if not isinstance(kind, str) or _NAMES.get(kind, kind) not in catalogue.modules():
        return None
    return kind
