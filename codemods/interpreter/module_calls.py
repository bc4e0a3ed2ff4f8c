"""Modules of ``torch.nn``: what their constructors make, what a call of one computes, and the methods that all have."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.autograd.graph import Leaf, Saved
from codemods.interpreter import (
    class_lookup,
    extents,
    overwriting,
    tensor_calls,
    unpacking,
)
from codemods.interpreter.values import (
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
    from codemods.interpreter.protocol import Interpreter

_WITHOUT_PARAMETERS = re.compile(
    r"(ReLU6?|LeakyReLU|RReLU|ELU|SELU|CELU|GELU|SiLU|Mish|Sigmoid|Tanh|Softplus|Softmax|Softmax2d|Softmin|LogSoftmax|"
    r"Hardtanh|Hardswish|Hardsigmoid|Hardshrink|Softshrink|Softsign|Tanhshrink|LogSigmoid|Threshold|GLU|Dropout\w*|"
    r"AlphaDropout|FeatureAlphaDropout|Flatten|Unflatten|Identity|\w*Pool\w*|MaxUnpool\w*|Upsampl\w*|\w*Pad[123]d|"
    r"PixelShuffle|PixelUnshuffle|ChannelShuffle|Fold|Unfold|CosineSimilarity|PairwiseDistance|LocalResponseNorm|"
    r"CrossMapLRN2d)$"
)
_LOSSES_WITH_PARAMETERS = frozenset(("AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"))
# Whether a norm scales what it has normalised is said by an argument: where that stands, and what it is if not given.
_AFFINE = {
    **dict.fromkeys((f"BatchNorm{n}d" for n in (1, 2, 3)), ("affine", 3, True)),
    **dict.fromkeys((f"InstanceNorm{n}d" for n in (1, 2, 3)), ("affine", 3, False)),
    **dict.fromkeys((f"LazyInstanceNorm{n}d" for n in (1, 2, 3)), ("affine", 2, False)),
    "SyncBatchNorm": ("affine", 3, True),
    "GroupNorm": ("affine", 3, True),
    "LayerNorm": ("elementwise_affine", 2, True),
    "RMSNorm": ("elementwise_affine", 2, True),
}
_OPERATION = {
    **{
        kind: kind.lower()
        for kind in (
            "ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Softplus Softmax Softmin Hardtanh Hardswish "
            "Hardsigmoid Hardshrink Softshrink Softsign Tanhshrink Threshold GLU RReLU Flatten"
        ).split()
    },
    **{f"{kind}Pool{n}d": f"{kind.lower()}_pool{n}d" for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **{f"AdaptiveAvgPool{n}d": f"adaptive_avg_pool{n}d" for n in (1, 2, 3)},
    **{f"{kind}Pad{n}d": f"{kind.lower()}_pad2d" for kind in ("Replication", "Reflection") for n in (1, 2, 3)},
    **{f"{kind}Pad{n}d": "constant_pad_nd" for kind in ("Constant", "Zero") for n in (1, 2, 3)},
    "LeakyReLU": "leaky_relu",
    "LogSoftmax": "log_softmax",
    "Softmax2d": "softmax",
    "LogSigmoid": "log_sigmoid",
    "Dropout": "native_dropout",
    "MSELoss": "mse_loss",
    "CosineSimilarity": "cosine_similarity",
    "PairwiseDistance": "pairwise_distance",
    "LocalResponseNorm": "local_response_norm",
}
_SAVES_WEIGHT_FOR_INPUT = re.compile(
    r"(Linear|Bilinear|Conv\w*|LSTM|GRU|RNN|\w+Cell|MultiheadAttention|Transformer\w*)$"
)
_RECURRENT = frozenset(("RNN", "GRU", "LSTM"))
_CELLS = frozenset(("RNNCell", "GRUCell", "LSTMCell"))


def become_base(
    interp: Interpreter, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> None:
    """Run the constructor that an object inherits from one of torch's modules, or from a list or a dictionary."""
    if instance.items is not None and (args or keywords):
        filled = interp.call(class_lookup.base_container(instance.cls), args, keywords, node)
        if isinstance(filled, (Sequence, Mapping)):
            instance.items = filled
        else:
            instance.items.more = True
    kind = class_lookup.torch_base(instance)
    if kind:
        class_lookup.set_base_module(instance, make_module(interp, kind, args, keywords, node))


# Where ``inplace`` stands among the arguments.
_INPLACE_AT = {
    **dict.fromkeys(("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid"), 0),
    **dict.fromkeys(("LeakyReLU", "ELU", "CELU"), 1),
    **dict.fromkeys(("Hardtanh", "RReLU", "Threshold"), 2),
}


def make_module(interp: Interpreter, kind: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """An instance of a class of ``torch.nn``."""
    module = TorchModule(kind, options=dict(keywords), site=interp.site(node))
    if kind in ("Sequential", "ModuleList", "ParameterList"):
        parts: list[Value] = args
        if len(args) == 1 and not isinstance(args[0], (TorchModule, Instance, Symbol, TensorRef)):
            if isinstance(args[0], Mapping):
                module.children = {name: Binding(slot.value) for name, slot in args[0].items.items()}
                return module
            parts = [slot.value for slot in unpacking.copy_of(interp, args[0], "list", node).items]
        module.children = {at: Binding(part) for at, part in enumerate(parts)}
    elif kind in ("ModuleDict", "ParameterDict"):
        if args and isinstance(args[0], Mapping):
            module.children = {name: Binding(slot.value) for name, slot in args[0].items.items()}
    elif kind == "Module" or not _has_parameters(kind, args, keywords):
        at = _INPLACE_AT.get(kind, 1 if "Dropout" in kind else None)
        if at is not None and args[at : at + 1] == [True]:
            module.options["inplace"] = True
        if kind.startswith("AdaptiveAvgPool") and args:
            module.options["output_size"] = args[0]
    else:
        module.leaf = interp.leaf(kind, node)
        module.leaf.parts = dict.fromkeys(_parameters_of(kind, args, keywords), False)
    return module


_BIAS_AT = {"Linear": 2, "Conv": 7, "ConvTranspose": 7}
"""Where the constructors of layers with a weight take ``bias``."""


def _parameters_of(kind: str, args: list[Value], keywords: dict[str, Value]) -> tuple[str, ...]:
    """The names of a layer's parameters; none where they are not known."""
    plain = kind.removeprefix("Lazy").rstrip("123d")
    if plain in ("Embedding", "EmbeddingBag"):
        return ("weight",)
    if plain in ("BatchNorm", "InstanceNorm", "GroupNorm", "SyncBatchNorm") or kind == "LayerNorm":
        return ("weight",) if keywords.get("bias") is False else ("weight", "bias")
    if plain not in _BIAS_AT:
        return ()
    at = _BIAS_AT[plain]
    bias = keywords.get("bias", args[at] if len(args) > at else True)
    return ("weight", "bias") if bias is True else ("weight",) if bias is False else ()


def _has_parameters(kind: str, args: list[Value], keywords: dict[str, Value]) -> bool:
    """Whether a layer or a loss of torch's that is made so has something to train."""
    if kind in _AFFINE:
        name, at, usual = _AFFINE[kind]
        given = keywords.get(name, args[at] if len(args) > at else usual)
        return given is not False
    if kind.endswith("Loss"):
        return kind in _LOSSES_WITH_PARAMETERS
    return _WITHOUT_PARAMETERS.match(kind) is None


def call_module(
    interp: Interpreter, module: TorchModule, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """The output of ``module(...)``."""
    kind = module.kind
    values = [*args, *keywords.values()]
    first = values[0] if values else None
    if kind == "Sequential":
        for slot in module.children.values():
            first = interp.call(slot.value, [first], {}, node)
        return first
    if kind == "Identity":
        return first
    leaves = [module.leaf] if module.leaf is not None else []
    if kind.endswith("Loss"):
        name = _OPERATION.get(kind, kind)
        scalar = tensor_calls.reduces(module.options)
        detachment = interp.operation(name, values, node, scalar=scalar, leaves=leaves)
        detachment.cell.extent = extents.of_module(kind, values, module.options)
        return _or_unknown(interp, detachment, values)
    if _WITHOUT_PARAMETERS.match(kind):
        if module.options.get("inplace") is True and isinstance(first, TensorRef):
            overwriting.in_place(interp, first, _OPERATION.get(kind, kind), [], node, module.site)
            return first
        view = first if kind in ("Flatten", "Unflatten") and isinstance(first, TensorRef) else None
        size = [module.options["output_size"]] if "output_size" in module.options else []
        made = interp.operation(_OPERATION.get(kind, kind), [*values, *size], node, view=view)
        made.cell.extent = extents.of_module(kind, values, module.options)
        return _or_unknown(interp, made, values)
    result = interp.operation(
        kind, values, node, leaves=leaves, extra_saved=_saved_by_module(interp, kind, module.leaf, values)
    )
    result.cell.extent = extents.of_module(kind, values, module.options)
    if kind in _RECURRENT:
        state: Value = _part(interp, result, node)
        if kind == "LSTM":
            state = Sequence("tuple", [Binding(state), Binding(_part(interp, result, node))])
        return Sequence("tuple", [Binding(result), Binding(state)])
    if kind == "LSTMCell":
        return Sequence("tuple", [Binding(result), Binding(_part(interp, result, node))])
    if kind == "MultiheadAttention":
        return Sequence("tuple", [Binding(result), Binding(_part(interp, result, node))])
    return result


def _or_unknown(interp: Interpreter, result: TensorRef, values: list[Value]) -> Value:
    """A loss of values about which nothing is known is not known to be without a graph."""
    if result.cell.node is None and any(isinstance(value, Symbol) for value in values):
        if not any(isinstance(value, TensorRef) for value in values):
            return interp.fresh_symbol("loss")
    return result


def _part(interp: Interpreter, whole: TensorRef, node: ast.expr) -> TensorRef:
    """Another output of the same operation: a node of its own over the operation's, saving nothing itself."""
    return interp.operation("select", [whole], node)


def _saved_by_module(interp: Interpreter, kind: str, leaf: Leaf | None, values: list[Value]) -> list[Saved]:
    """The input for the weight's gradient, the weight for the input's (a norm saves both in any case)."""
    if not interp.grad:
        return []
    saved: list[Saved] = []
    tensors = list(interp.tensors(*values))
    if leaf is None:
        return [Saved(one.cell.storage, one.cell.storage.version) for one in tensors if "Norm" in kind]
    if kind != "Embedding" and not leaf.frozen:
        saved += [Saved(tensor.cell.storage, tensor.cell.storage.version) for tensor in tensors]
    needs_input = any(tensor.cell.node is not None for tensor in tensors)
    if "Norm" in kind or kind in _RECURRENT or (_SAVES_WEIGHT_FOR_INPUT.match(kind) and needs_input):
        saved.append(Saved(leaf.storage, leaf.storage.version))
    return saved
