"""What each operation saves for its backward pass, from PyTorch's own table (see ``distil_saves``)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

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
    "layer_norm": "native_layer_norm",
    "batch_norm": "native_batch_norm",
    "group_norm": "native_group_norm",
}


class Saves(NamedTuple):
    """``args``: tensor arguments in order.  ``by_argument``: what is saved when that argument requires a gradient."""

    args: tuple[str, ...]
    by_argument: dict[str, tuple[str, ...]]
    known: bool


_UNKNOWN = Saves((), {}, known=False)


@cache
def _table() -> dict[str, Saves]:
    raw = json.loads(files("codemods.tape").joinpath("saves.json").read_text(encoding="utf-8"))
    table = {
        name: Saves(tuple(entry["args"]), {k: tuple(v) for k, v in entry["saves"].items()}, known=True)
        for name, entry in raw.items()
    }
    table.update({name: Saves(args, by, known=True) for name, (args, by) in _COMPOSITE.items()})
    return table


def is_operation(name: str) -> bool:
    return name in _table() or name in _SYNONYMS


def saves_of(operation: str) -> Saves:
    """What *operation* (``mul``, ``sigmoid``, an in-place ``mul_``) saves; not ``known`` where the table lacks it."""
    name = operation.rstrip("_") if not operation.startswith("__") else operation
    return _table().get(_SYNONYMS.get(name, name), _UNKNOWN)


_PLACES = frozenset("topk sort kthvalue mode cummax cummin".split())
_PLACES_ALONG = frozenset("max min median nanmedian".split())


def gives_places(operation: str, arguments: int) -> bool:
    """Whether an operation gives values and their places, and saves only the places, which nobody changes."""
    return operation in _PLACES or (operation in _PLACES_ALONG and arguments > 1)
