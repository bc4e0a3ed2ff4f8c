"""What each operation saves for its backward pass, from PyTorch's own table (see ``distil_saves``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_OF_NORMS = ("input", "running_mean", "running_var", "weight", "bias")
# Composite operations have no formula of their own: these are saved by what they are made of, and only where the
# other operand needs a gradient.  Source: aten's CompositeImplicit kernels (`linear` is addmm, `matmul` is mm or bmm).
_COMPOSITE: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "matmul": (("self", "other"), {"self": ("other",), "other": ("self",)}),
    "linear": (("input", "weight", "bias"), {"input": ("weight",), "weight": ("input",), "bias": ()}),
    "einsum": (
        ("equation", "first", "second", "third"),
        {"first": ("second", "third"), "second": ("first", "third"), "third": ("first", "second")},
    ),
    "tensordot": (("a", "b"), {"a": ("b",), "b": ("a",)}),
    "reshape": (("self",), {"self": ()}),
    "flatten": (("self",), {"self": ()}),
    "contiguous": (("self",), {"self": ()}),
    "chunk": (("self",), {"self": ()}),
    "narrow": (("self",), {"self": ()}),
    "movedim": (("self",), {"self": ()}),
    "type_as": (("self",), {"self": ()}),
    "to": (("self",), {"self": ()}),
    "float": (("self",), {"self": ()}),
    "double": (("self",), {"self": ()}),
    "half": (("self",), {"self": ()}),
    "cpu": (("self",), {"self": ()}),
    "cuda": (("self",), {"self": ()}),
    "vstack": (("tensors",), {"tensors": ()}),
    "hstack": (("tensors",), {"tensors": ()}),
    "square": (("self",), {"self": ("self",)}),
    "outer": (("self", "vec2"), {"self": ("vec2",), "vec2": ("self",)}),
    "ger": (("self", "vec2"), {"self": ("vec2",), "vec2": ("self",)}),
    "inv": (("A",), {"A": ("result",)}),
    "inverse": (("A",), {"A": ("result",)}),
    "inner": (("self", "other"), {"self": ("other",), "other": ("self",)}),
    "vecdot": (("x", "y"), {"x": ("y",), "y": ("x",)}),
    "chain_matmul": (("first", "second"), {"first": ("second",), "second": ("first",)}),
    "nanmean": (("self",), {"self": ("self",)}),
    "matrix_norm": (("A",), {"A": ("A", "result")}),
    "frobenius_norm": (("self",), {"self": ("self", "result")}),
    "float_power": (("self", "exponent"), {"self": ("copy",)}),
    "float_power_of_tensor": (("self", "exponent"), dict.fromkeys(("self", "exponent"), ("copy", "result"))),
    "pow_of_tensor": (("self", "exponent"), dict.fromkeys(("self", "exponent"), ("self", "exponent", "result"))),
    "gumbel_softmax": (("logits",), {"logits": ("result",)}),
    "kl_div": (("input", "target"), {"input": ("target",), "target": ("input", "target")}),
    "multilabel_soft_margin_loss": (("input", "target"), {"input": ("input",), "target": ("input",)}),
    "lp_pool1d": (("input",), {"input": ("input",)}),
    "lp_pool2d": (("input",), {"input": ("input",)}),
    "prelu": (("input", "weight"), dict.fromkeys(("input", "weight"), ("input", "weight"))),
    "softsign": (("input",), {"input": ("input",)}),
    "normalize": (("input",), {"input": ("input",)}),
    "cosine_similarity": (("x1", "x2"), {"x1": ("x1", "x2"), "x2": ("x1", "x2")}),
    "pairwise_distance": (("x1", "x2"), {"x1": ("result",), "x2": ("result",)}),
    "take_along_dim": (("self", "indices"), {"self": ("self",)}),
    # All ways of computing attention save the values; queries and keys are scaled first by some.
    "scaled_dot_product_attention": (("query", "key", "value"), {"query": ("value",), "key": ("value",)}),
    "batch_norm": (_OF_NORMS, dict.fromkeys(("input", "weight", "bias"), _OF_NORMS[:4])),
    "instance_norm": (_OF_NORMS, dict.fromkeys(("input", "weight", "bias"), _OF_NORMS[:4])),
    "layer_norm": (
        ("input", "normalized_shape", "weight", "bias"),
        dict.fromkeys(("input", "weight", "bias"), ("input", "weight", "bias")),
    ),
    "rms_norm": (("input", "normalized_shape", "weight"), dict.fromkeys(("input", "weight"), ("input", "weight"))),
    "group_norm": (
        ("input", "num_groups", "weight", "bias"),
        dict.fromkeys(("input", "weight", "bias"), ("input", "weight")),
    ),
}

_SYNONYMS = {
    "subtract": "sub",
    "rsub": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "concat": "cat",
    "concatenate": "cat",
    "absolute": "abs",
    "clip": "clamp",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "log_softmax": "_log_softmax",
    "softmax": "_softmax",
    "dropout": "native_dropout",
    "relu6": "hardtanh",
    "selu": "elu",
    "rrelu": "leaky_relu",
    "softmin": "_softmax",
    "logsigmoid": "log_sigmoid_forward",
    "log_sigmoid": "log_sigmoid_forward",
    "expit": "sigmoid",
    "pad": "constant_pad_nd",
    "logdet": "_linalg_slogdet",
    "slogdet": "_linalg_slogdet",
    "pinverse": "linalg_pinv",
    "pdist": "_pdist_forward",
    "gammaln": "lgamma",
    "psi": "digamma",
    "multigammaln": "mvlgamma",
    **{f"arc{name}": f"a{name}" for name in ("cos", "sin", "tan", "cosh", "sinh", "tanh", "tan2")},
    "adaptive_max_pool1d": "adaptive_max_pool2d",
    "max_pool1d": "max_pool2d",
    "max_pool3d": "max_pool2d",
    "local_response_norm": "avg_pool2d",
    "det": "_linalg_det",
    "cdist": "_cdist_forward",
    "cross": "linalg_cross",
    "grid_sample": "grid_sampler_2d",
    "nll_loss": "nll_loss_forward",
    **{f"avg_pool{n}d": "avg_pool2d" for n in (1, 3)},
    **{f"adaptive_avg_pool{n}d": "avg_pool2d" for n in (1, 2, 3)},
    **{f"conv{n}d": "convolution" for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": "convolution" for n in (1, 2, 3)},
}


class Saves(NamedTuple):
    """``args``: tensor arguments in order.  ``by_argument``: what is saved when that argument requires a gradient."""

    args: tuple[str, ...]
    by_argument: dict[str, tuple[str, ...]]
    known: bool


_UNKNOWN = Saves((), {}, known=False)


@cache
def _table() -> dict[str, Saves]:
    raw = json.loads(files("codemods.autograd").joinpath("saves.json").read_text(encoding="utf-8"))
    table = {
        name: Saves(tuple(entry["args"]), {k: tuple(v) for k, v in entry["saves"].items()}, known=True)
        for name, entry in raw.items()
    }
    table.update({name: Saves(args, by, known=True) for name, (args, by) in _COMPOSITE.items()})
    return table


def is_operation(name: str) -> bool:
    return name in _SYNONYMS or bool(_entry(name))


_FAMILIES = ("{}", "linalg_{}", "_linalg_{}", "_linalg_{}_ex", "special_{}")
"""What the table calls ``torch.linalg.solve`` and ``torch.special.entr``."""


def _entry(name: str) -> str:
    """The table's own name of an operation; empty where it has none."""
    return next((entry for family in _FAMILIES if (entry := family.format(name)) in _table()), "")


def variant(name: str, values: Sequence[object], is_tensor: Callable[[object], bool]) -> str:
    """The operation that a function of torch's carries out on these arguments, where it has several to choose from."""
    second = values[1] if len(values) > 1 else None
    match name:
        case "max" | "min" if is_tensor(second):
            return f"{name}imum"
        case "pow" | "float_power" if is_tensor(second):
            return f"{name}_of_tensor"
        case "pad":
            modes = {"replicate": "replication_pad2d", "reflect": "reflection_pad2d"}
            return next((modes[one] for one in values if isinstance(one, str) and one in modes), "constant_pad_nd")
        case "gumbel_softmax" | "kl_div" if any(one is True for one in values):  # hard samples; a logarithmic target
            return "?"
        case "matrix_norm" if second is not None:
            return "?"
        case _ if name.startswith("adaptive_avg_pool") and second == 1:
            return "mean"
    return name


def saves_of(operation: str) -> Saves:
    """What *operation* (``mul``, ``sigmoid``, an in-place ``mul_``) saves; not ``known`` where the table lacks it."""
    special = operation.startswith("__")
    name = operation if special else operation.rstrip("_")
    name = _SYNONYMS.get(name, name)
    name = _entry(name) or name
    if operation.endswith("_") and not special and f"{name}_" in _table():
        return _table()[f"{name}_"]
    return _table().get(name, _UNKNOWN)


def operand_names(operation: str) -> tuple[str, str]:
    """What the table calls the two operands of an operator."""
    return ("self", "exponent" if operation == "pow" else "other")


_PLACES = frozenset("topk sort kthvalue mode".split())
_PLACES_ALONG = frozenset("max min median nanmedian".split())


def gives_places(operation: str, arguments: int) -> bool:
    """Whether an operation gives values and their places, and saves only the places, which nobody changes."""
    return operation in _PLACES or (operation in _PLACES_ALONG and arguments > 1)
