"""Devices: which values and expressions name one, and the choices between devices that the tape does not see."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable

from autofix.codemods.interpreter.values import Symbol, Value
from autofix.codemods.source.sources import dotted_name

_GPUS = ("cuda", "mps", "xpu", "hip")
_DEVICE = re.compile(r"(?:cpu|cuda|mps|xpu|hip|hpu|npu)(?::\d+)?")


def to_gpu(name: str, args: list[Value]) -> bool:
    """Whether ``tensor.to(...)``, or ``tensor.cuda()``, certainly goes to a GPU where the program finds one."""
    if name != "to":
        return name == "cuda"
    return any(map(_is_gpu, args))


def _is_gpu(device: Value) -> bool:
    """Whether a device is a GPU: ``"cuda:0"``, or ``torch.device("cuda")``."""
    if isinstance(device, Symbol) and isinstance(device.key, tuple):
        if device.key[1:2] == ("torch.device",):
            device = device.key[2] if len(device.key) > 3 else None
        else:
            return _is_chosen(device.key)
    return isinstance(device, str) and device.startswith(_GPUS)


def _is_chosen(key: Hashable) -> bool:
    """Whether a device is one that whoever runs the program chooses: ``args.device``, a parameter called ``device``.

    Not that of another tensor, which may well be the same.
    """
    match key:
        case ("attr", ("tensor" | "item", *_), _):
            return False
        case ("attr", _, str(name)) | (_, "parameter", str(name), *_):
            return "device" in name
    return False


def chooses_gpu(chosen: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions name devices, or types of tensors on them, and the *chosen* one a GPU.

    A tensor on the CPU may be the very one that it was made from, where a GPU's is a copy: the way with the GPU shows
    all that the other one does.
    """
    return _named(chosen) == "gpu" and bool(_named(other))


def sets_gpu(chosen: list[ast.stmt], other: list[ast.stmt]) -> bool:
    """Whether two branches do nothing but give one name its device, a GPU in the *chosen* one."""
    match chosen, other:
        case [ast.Assign(targets=[target], value=one)], [ast.Assign(targets=[second], value=two)]:
            return ast.dump(target) == ast.dump(second) and chooses_gpu(one, two)
    return False


def _named(node: ast.expr) -> str:
    """``gpu`` or ``cpu`` for an expression that names a device; empty for any other."""
    match node:
        case ast.Constant(value=str(text)) if _DEVICE.fullmatch(text):
            return "gpu" if text.startswith(_GPUS) else "cpu"
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), ast.FormattedValue()]) if text == "cuda:":
            return "gpu"
        case ast.Call(func=function, args=[device], keywords=[]) if dotted_name(function) == "torch.device":
            return _named(device)
        case ast.Call(func=function, args=[]) if dotted_name(function) == "torch.accelerator.current_accelerator":
            return "gpu"
        case ast.Attribute(attr=kind) if kind.endswith("Tensor"):
            return {"torch.cuda": "gpu", "torch": "cpu"}.get(dotted_name(node.value), "")
    return ""
