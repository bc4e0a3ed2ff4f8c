"""Whether a tensor certainly has several elements: as much of shapes as it takes to know that a loss is no scalar.

Only what is certain is said: a batch is several rows where its size is written as a number above one, or where a
``DataLoader`` was told to make batches.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from codemods.tape.values import Sequence, Tensor, Unknown, Value

if TYPE_CHECKING:
    from codemods.tape.machine import Machine


class Extent(IntEnum):
    UNKNOWN = 0
    UNREDUCED = 1
    """A loss that was told not to reduce: one element where there is one example."""
    WEIGHTED = 2
    """Such a loss, with weights that are tensors: nobody weights a single example."""
    MANY = 3
    """Several elements."""
    ROWS = 4
    """Several elements along the first dimension, and a second dimension: what a layer maps row by row."""


_ELEMENTWISE = frozenset(
    """neg exp log log1p sqrt rsqrt abs pow square sigmoid tanh relu leaky_relu elu gelu silu softplus logsigmoid
    softmax log_softmax clamp clamp_min clamp_max sin cos erf reciprocal native_dropout dropout native_layer_norm
    native_batch_norm layer_norm batch_norm add sub mul div minimum maximum where lerp clone normalize hardtanh
    log_sigmoid""".split()
)
_FLAT = frozenset("view reshape flatten squeeze unsqueeze transpose permute ravel t contiguous".split())
_REDUCING = frozenset("sum mean norm logsumexp amax amin std var prod".split())
_PER_ROW = frozenset(
    """cross_entropy nll_loss CrossEntropyLoss NLLLoss ctc_loss cosine_embedding_loss CosineSimilarity
    PairwiseDistance""".split()
)
_ROW_BY_ROW = frozenset(("Linear", "Conv1d", "Conv2d", "Conv3d", "Bilinear"))


def extent_of(value: Value) -> Extent:
    if isinstance(value, Tensor):
        return Extent(value.cell.extent)
    return Extent.MANY if isinstance(value, Unknown) and _is_batch(value.key) else Extent.UNKNOWN


def _is_batch(key: Hashable) -> bool:
    """Whether an unknown value is what a loader of batches yields, or a part of it."""
    for _ in range(4):
        if not isinstance(key, tuple) or len(key) < 3:
            return False
        if key[0] in ("new", "~"):
            return key[1:3] == ("torch.utils.data.DataLoader", True)
        if key[0] != "item":
            return False
        key = key[1]
    return False


def makes_batches(args: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether a ``DataLoader`` is told to make batches of several items."""
    size = keywords.get("batch_size", args[1] if len(args) > 1 else 1)
    return size > 1 if isinstance(size, int) else isinstance(size, Unknown)


def of_created(args: list[Value]) -> Extent:
    """Of ``torch.randn(8, 4)`` and its like."""
    sizes = [slot.value for slot in args[0].items] if args and isinstance(args[0], Sequence) else args
    if not sizes or not all(isinstance(size, int) for size in sizes):
        return Extent.UNKNOWN
    if len(sizes) > 1 and sizes[0] > 1:
        return Extent.ROWS if 0 not in sizes else Extent.UNKNOWN
    return Extent.MANY if max(sizes) > 1 and 0 not in sizes else Extent.UNKNOWN


def of_operation(name: str, args: list[Value], keywords: Mapping[str, Value], scalar: bool | None) -> Extent:
    """Of the result of an operation of torch's."""
    extents = [extent_of(value) for value in args]
    first = extents[0] if extents else Extent.UNKNOWN
    if scalar or not extents:
        return Extent.UNKNOWN
    if name in _PER_ROW:
        return max(min(first, Extent.MANY), unreduced(keywords))
    if name in _ELEMENTWISE or name.endswith(("_loss", "_entropy", "_logits")):
        most = max(*extents, unreduced(keywords))
        weights = most is Extent.UNREDUCED and name in ("mul", "div") and all(map(_is_array, args))
        return Extent.WEIGHTED if weights else most
    if name in _FLAT:
        return _reshaped(name, args, first)
    if name in _REDUCING or name in ("gather", "linear"):
        dim = keywords.get("dim", args[1] if len(args) > 1 else None)
        if name == "linear":
            return first if first is Extent.ROWS else Extent.UNKNOWN
        if name == "norm":
            dim = keywords.get("dim", args[2] if len(args) > 2 else None)
        return Extent.MANY if first is Extent.ROWS and dim in (1, -1) else Extent.UNKNOWN
    if name == "index":
        return extents[1] if len(extents) > 1 else Extent.UNKNOWN
    return Extent.UNKNOWN


def _is_array(value: Value) -> bool:
    return isinstance(value, Tensor) and value.cell.scalar is not True


def _reshaped(name: str, args: list[Value], first: Extent) -> Extent:
    if name == "flatten" and len(args) > 1 and args[1] == 1:
        return first
    if name == "unsqueeze" and len(args) > 1 and args[1] in (1, -1):
        return Extent.ROWS if first is Extent.MANY else first
    if name in ("view", "reshape") and len(args) == 3 and args[2] == -1 and not isinstance(args[1], int):
        return first
    return min(first, Extent.MANY)


def unreduced(options: Mapping[str, Value]) -> Extent:
    """What a loss is at least that was told not to reduce."""
    return Extent.UNREDUCED if options.get("reduction") == "none" or options.get("reduce") is False else Extent.UNKNOWN


def of_module(kind: str, values: list[Value], scalar: bool | None, options: Mapping[str, Value]) -> Extent:
    """Of the output of a module of torch's."""
    first = extent_of(values[0]) if values else Extent.UNKNOWN
    if scalar or not values:
        return Extent.UNKNOWN
    if kind in _PER_ROW:
        return max(min(first, Extent.MANY), unreduced(options))
    if kind.endswith("Loss"):
        return max(*map(extent_of, values), unreduced(options))
    if kind in _ROW_BY_ROW or "Norm" in kind or kind in ("RNN", "GRU", "LSTM", "Flatten", "Unflatten"):
        # A layer takes no batch without a second dimension; of a single vector it may make a single number.
        return Extent.ROWS if first is Extent.ROWS or (first and isinstance(values[0], Unknown)) else Extent.UNKNOWN
    return first


def of_item(machine: Machine, extent: Extent, index: Value) -> Extent:
    """Of ``x[index]``."""
    if isinstance(index, Tensor):
        return min(extent_of(index), extent) if extent_of(index) else Extent.UNKNOWN
    parts = [slot.value for slot in index.items] if isinstance(index, Sequence) else [index]
    if not _is_wide(parts[0]):
        return Extent.UNKNOWN
    if len(parts) == 1:
        return extent
    return Extent.MANY if extent is Extent.ROWS and len(parts) == 2 else Extent.UNKNOWN


def _is_wide(index: Value) -> bool:
    """Whether a slice certainly leaves several items."""
    if isinstance(index, slice):
        if index.step not in (None, 1, -1):
            return False
        if isinstance(index.start, int) and isinstance(index.stop, int):
            return index.stop - index.start > 1 and index.start * index.stop >= 0
        return (index.start is None and index.stop is None) or (index.start in (0, None) and (index.stop or 0) > 1)
    return isinstance(index, Unknown) and isinstance(index.key, tuple) and index.key[1:3] == ("slice", True)


def is_wide_slice(lower: Value, upper: Value, step: Value) -> bool:
    """Whether ``lower : upper``, not both of them known, spans several items: ``start : start + 16``."""
    if step is not None or not isinstance(upper, Unknown) or not isinstance(lower, Unknown):
        return False
    key = upper.key
    return isinstance(key, tuple) and len(key) == 3 and key[0] == "plus" and key[1] == lower.key and key[2] > 1
