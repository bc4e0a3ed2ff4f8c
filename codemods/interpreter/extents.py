"""Whether a tensor has several elements: as much of shapes as it takes to know that a loss is no scalar.

Only what is certain, or nearly so, is said: a batch is several rows where its size is written as a number above one,
where a ``DataLoader`` was told to make batches, or where sequences were padded to one length.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from autofix.codemods.autograd import catalogue, groups
from autofix.codemods.interpreter.values import NOTHING, BatchSize, Name, Sequence, Shape, Symbol, TensorRef, Value

_MANY = Shape(BatchSize.CERTAIN, 1)
_PADDED = Shape(BatchSize.LIKELY, 2)

_PER_ROW = frozenset(
    """cross_entropy nll_loss CrossEntropyLoss NLLLoss ctc_loss cosine_embedding_loss CosineSimilarity
    PairwiseDistance cosine_similarity pairwise_distance""".split()
)
_OF_ROWS = ("CosineSimilarity", "PairwiseDistance", "cosine_similarity", "pairwise_distance")
_BY_SIZES = frozenset("zeros ones rand randn empty".split())
"""Functions that make a tensor of the sizes that they are given."""
_OF_VALUES = ("tensor", "as_tensor")
_JOINING = frozenset("stack cat concat concatenate hstack vstack".split())
_ROW_BY_ROW = frozenset(("Linear", "Conv1d", "Conv2d", "Conv3d", "Bilinear"))


def extent_of(value: Value) -> Shape:
    if isinstance(value, TensorRef):
        return value.cell.extent
    return _MANY if isinstance(value, Symbol) and _is_batch(value.key) else NOTHING


def _is_batch(key: Hashable) -> bool:
    """Whether an unknown value is a batch of a loader, or a part of one."""
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
    return size > 1 if isinstance(size, int) else isinstance(size, Symbol)


def of_created(name: str, args: list[Value], keywords: Mapping[str, Value]) -> Shape:
    """Extent of ``torch.randn(8, 4)`` and its like.  Masks have none: they may pick a single element."""
    if is_mask(keywords.get("dtype")):
        return NOTHING
    if name.endswith("_like") and args:
        return extent_of(args[0])
    if name in _OF_VALUES and args:
        return _of_display(args[0])
    return _of_sizes(_sizes_created(name, args, keywords))


def of_rows_created(name: str, args: list[Value], keywords: Mapping[str, Value]) -> Shape:
    """Extent of each of the rows of ``torch.randn(100, 8, 4)``: of the first dimension it does not matter how long."""
    sized = name in _BY_SIZES and not is_mask(keywords.get("dtype"))
    return _of_sizes(_sizes_created(name, args, keywords)[1:]) if sized else NOTHING


def length_created(name: str, args: list[Value], keywords: Mapping[str, Value]) -> int | None:
    """Number of rows of ``torch.randn(4, 3)`` and its like; None where it is not written."""
    first = args[0] if args else None
    if name.endswith("_like"):
        return _length_of(first)
    if name in _OF_VALUES:
        return len(first.items) if isinstance(first, Sequence) and not first.more else None
    sizes = _sizes_created(name, args, keywords)
    return sizes[0] if sizes and type(sizes[0]) is int else None


def rank_created(name: str, args: list[Value], keywords: Mapping[str, Value]) -> int | None:
    """Number of dimensions of ``torch.randn(4, 3)`` and its like; None where it is not written."""
    first = args[0] if args else None
    if name.endswith("_like"):
        return first.cell.rank if isinstance(first, TensorRef) else None
    if name in _OF_VALUES:
        return _depth(first)
    if name in ("linspace", "arange", "randperm"):
        return 1
    sizes = _sizes_created(name, args, keywords)
    given = keywords.get("size", args[-1] if name == "randint" and args else first)
    if isinstance(given, Sequence) and given.more:
        return None
    written = len(sizes) > 1 or all(isinstance(one, int) for one in sizes) or isinstance(given, Sequence)
    return len(sizes) if sizes and written and all(isinstance(one, (int, Symbol)) for one in sizes) else None


def has_ones(name: str, args: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether a new tensor has a dimension with a single element, as its sizes are written."""
    first = args[0] if args else None
    if name.endswith("_like"):
        return isinstance(first, TensorRef) and first.cell.has_ones
    if name in _OF_VALUES:
        return _has_single(first)
    return any(type(size) is int and size == 1 for size in _sizes_created(name, args, keywords))


def _has_single(display: Value) -> bool:
    """Whether one of the lists of a nested list of numbers has a single item."""
    while isinstance(display, Sequence) and display.items and not display.more:
        if len(display.items) == 1:
            return True
        display = display.items[0].value
    return False


def _depth(display: Value) -> int | None:
    """How deep a list of numbers is nested."""
    depth = 0
    while isinstance(display, Sequence) and display.items and not display.more:
        depth, display = depth + 1, display.items[0].value
    return depth if isinstance(display, (int, float)) else None


def _sizes_created(name: str, args: list[Value], keywords: Mapping[str, Value]) -> list[Value]:
    """The sizes of a new tensor as its call gives them; empty where it gives none."""
    if name == "linspace":
        return [keywords.get("steps", args[2] if len(args) > 2 else None)]
    if name in ("arange", "randperm", "eye"):
        return args[:1] if len(args) == 1 else []
    if "size" in keywords:
        return _sizes([keywords["size"]])
    if name == "randint":
        return _sizes(args[-1:])
    if name == "full":
        return _sizes(args[:1])
    return _sizes(args) if name in _BY_SIZES else []


def length_of_operation(name: str, values: list[Value]) -> int | None:
    """Number of rows of an elementwise result: that of its operands, where all of them have as many, or no rows.

    ``atleast_2d`` makes one row of a vector, and a vector is what is not known to have two dimensions.
    """
    if name in ("atleast_2d", "atleast_3d"):
        return _length_of(values[0]) if extent_of(values[0]).dims > 1 else 1
    found: int | None = None
    for value in values:
        if isinstance(value, Symbol):
            return None
        if not isinstance(value, TensorRef) or value.cell.scalar:
            continue
        length = value.cell.length
        if length is None or found not in (None, length):
            return None
        found = length
    return found if found is not None and catalogue.keeps_shape(name) else None


def _length_of(value: Value) -> int | None:
    return value.cell.length if isinstance(value, TensorRef) else None


def length_of_module(kind: str, values: list[Value]) -> int | None:
    """Number of rows of a layer's output: a layer that keeps the batch maps it row by row."""
    length = _length_of(values[0]) if values else None
    if length is None or extent_of(values[0]).dims < 2:
        return None
    return length if kind in _ROW_BY_ROW or "Norm" in kind or catalogue.keeps_shape(catalogue.form(kind)) else None


def is_in_one_piece(name: str, args: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether ``x.split(4)``, or ``x.chunk(1)``, certainly gives one piece: ``x`` has no more than four rows."""
    options = ("split_size_or_sections", "split_size") if name == "split" else ("chunks",)
    if name not in ("split", "chunk") or not args or not isinstance(args[0], TensorRef):
        return False
    size = args[1] if len(args) > 1 else next((keywords[one] for one in options if one in keywords), None)
    if type(size) is not int:
        return False
    if name == "chunk" and size == 1:
        return True
    length = args[0].cell.length
    along_rows = keywords.get("dim", args[2] if len(args) > 2 else 0) == 0
    return along_rows and length is not None and (length == 1 or (name == "split" and size >= length))


def _sizes(args: list[Value]) -> list[Value]:
    return [slot.value for slot in args[0].items] if args and isinstance(args[0], Sequence) else args


def is_mask(dtype: Value) -> bool:
    return isinstance(dtype, Name) and dtype.last in ("bool", "uint8")


def _of_sizes(sizes: list[Value]) -> Shape:
    if not sizes or not isinstance(sizes[0], int) or 0 in sizes:
        return NOTHING
    if not all(isinstance(size, (int, Symbol)) for size in sizes):
        return NOTHING
    # One row of several elements is not followed: a mean over the elements makes one number of it.
    return Shape(BatchSize.CERTAIN if sizes[0] > 1 else BatchSize.UNKNOWN, len(sizes))


def _of_display(value: Value) -> Shape:
    """Extent of ``torch.tensor([[0.1, 0.2], [0.3, 0.4]])``."""
    if not isinstance(value, Sequence) or value.more or not value.items:
        return NOTHING
    items = [slot.value for slot in value.items]
    several = BatchSize.CERTAIN if len(items) > 1 else BatchSize.UNKNOWN
    if all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in items):
        return Shape(several, 1)
    inner = [item for item in items if isinstance(item, Sequence) and item.items]
    numbers = all(isinstance(slot.value, (int, float)) for item in inner for slot in item.items)
    return Shape(several, 2) if len(inner) == len(items) and numbers else NOTHING


def of_operation(name: str, args: list[Value], keywords: Mapping[str, Value], scalar: bool | None) -> Shape:
    """Extent of the result of a torch operation."""
    first = extent_of(args[0]) if args else NOTHING
    if scalar or not args:
        return NOTHING
    if name in _PER_ROW or name.endswith(("_loss", "_entropy", "_logits", "kl_div")):
        return of_loss(name, args, keywords)
    if name == "sum_of" or catalogue.keeps_shape(name):
        found = _broadcast(args)
        weighted = found.several is BatchSize.UNREDUCED and name in ("mul", "div") and all(map(_is_array, args))
        return found._replace(several=BatchSize.CERTAIN) if weighted else found
    if name in ("pad_sequence", "pad_packed_sequence"):
        return _PADDED
    if name in _JOINING:
        return _joined(name, args[0], 0 if name == "vstack" else _dim(args, keywords, 1))
    if name in ("split", "chunk") and _is_inner(_dim(args, keywords, 2), first):
        return first._replace(each=True)
    if name == "split":
        return _of_pieces(first, args[1:], keywords)
    if name == "einsum" and isinstance(args[0], str):
        return _of_einsum(args[0], args[1:])
    if not first.several or first.inner:
        return NOTHING
    if name in groups.RESHAPES:
        return _reshaped(name, args, first)
    if name in ("sort", "cummax", "cummin", "bmm", "cdist"):
        return first
    if name == "topk":
        return _best(first, _dim(args, keywords, 2), keywords.get("k", args[1] if len(args) > 1 else None))
    if catalogue.reduces(name):
        return _reduced(first, _dim(args, keywords, catalogue.operation(name).at("dim") or 1), keywords)
    if name == "gather":
        return first if first.dims > 1 and _is_inner(_dim(args, keywords, 1), first) else NOTHING
    if name == "linear":
        return first if first.dims > 1 else NOTHING
    if name in ("matmul", "mm"):
        return _of_product(first, args)
    if name == "diff":
        return first if _is_inner(_dim(args, keywords, 2), first) else NOTHING
    if name == "index":
        return _picked(first, extent_of(args[1])) if len(args) > 1 else NOTHING
    return NOTHING


def _dim(args: list[Value], keywords: Mapping[str, Value], at: int) -> Value:
    """The dimension that an operation is told, by its name or at this position."""
    return keywords.get("dim", args[at] if len(args) > at else None)


def _broadcast(args: list[Value]) -> Shape:
    """Extent of the result of an elementwise operation: the largest among its arguments.

    A vector lies along the last dimension of the result, which is the first one only beside vectors and numbers.
    """
    most = max(extent_of(value) for value in args)
    wider = [extent_of(value) for value in args if not _is_vector(value) and not _is_number(value)]
    if len(wider) == len(args) or not wider:
        return most
    return max(wider) if max(wider).several >= most.several else most._replace(inner=True)


def _is_vector(value: Value) -> bool:
    return isinstance(value, TensorRef) and value.cell.rank == 1


def _is_number(value: Value) -> bool:
    return value.cell.scalar is True if isinstance(value, TensorRef) else not isinstance(value, Symbol)


def _picked(extent: Shape, index: Shape) -> Shape:
    """Extent of the rows selected by an index tensor."""
    several = index.several  # masks, which may pick a single element or none, have no extent
    return Shape(several, index.dims + max(extent.dims, 1) - 1) if several else NOTHING


def _joined(name: str, parts: Value, dim: Value) -> Shape:
    """Extent of several values joined side by side in a dimension."""
    slots = parts.items if isinstance(parts, Sequence) else []
    computed = [slot for slot in slots if isinstance(slot.value, TensorRef) and slot.value.cell.node is not None]
    if not isinstance(parts, Sequence) or not slots:
        return NOTHING
    most = max(extent_of(slot.value) for slot in slots)
    if name != "stack" and most.several is BatchSize.CERTAIN and not most.each:
        return most  # its rows are in the result, on whatever side of the others
    if len(computed) < 2:
        return NOTHING
    several = BatchSize.LIKELY if parts.more and parts.least < len(computed) else BatchSize.CERTAIN
    return Shape(several, 1, inner=name == "hstack" or dim not in (None, 0))


def _of_product(first: Shape, args: list[Value]) -> Shape:
    """Extent of a product with a matrix, or with a vector."""
    if _is_vector(args[0]):
        return NOTHING
    if len(args) > 1 and extent_of(args[1]).dims > 1:
        return first
    return first._replace(dims=first.dims - 1) if first.dims > 1 else NOTHING


def _of_einsum(equation: str, operands: list[Value]) -> Shape:
    """Extent of ``torch.einsum("bi,bi->b", x, y)``: rows of an operand whose first letter is the result's first."""
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow or not result.isalpha():
        return NOTHING
    for letters, operand in zip(inputs.split(","), operands, strict=False):
        extent = extent_of(operand)
        if extent.several and not extent.inner and letters[:1] == result[0]:
            return Shape(extent.several, len(result))
    return NOTHING


def _of_pieces(first: Shape, args: list[Value], keywords: Mapping[str, Value]) -> Shape:
    """Extent of each piece of ``x.split(size)``: nobody cuts batches of one row."""
    size = args[0] if args else keywords.get("split_size_or_sections", keywords.get("split_size"))
    along_rows = keywords.get("dim", args[1] if len(args) > 1 else 0) == 0
    several = size > 1 if isinstance(size, int) else isinstance(size, Symbol)
    return Shape(BatchSize.CERTAIN, max(first.dims, 1), each=True) if along_rows and several else NOTHING


def _is_array(value: Value) -> bool:
    return isinstance(value, TensorRef) and value.cell.scalar is not True


def _is_inner(dim: Value, extent: Shape) -> bool:
    """Whether a dimension is certainly not the one that has several elements."""
    return isinstance(dim, int) and (dim > 0 or -extent.dims < dim < 0) and not extent.inner


def _reduced(first: Shape, dim: Value, options: Mapping[str, Value]) -> Shape:
    """Extent of the result of a reduction over some dimensions."""
    dims = [slot.value for slot in dim.items] if isinstance(dim, Sequence) else [dim]
    if not all(_is_inner(one, first) for one in dims):
        return NOTHING
    if options.get("keepdim") is True:
        return first
    return first._replace(dims=max(first.dims - len(dims), 1))


def _best(first: Shape, dim: Value, wanted: Value) -> Shape:
    """Extent of the values of ``topk``: nobody asks for the single largest element in this way."""
    if first.dims > 1 and (dim is None or _is_inner(dim, first)):
        return first
    if isinstance(wanted, int):
        return first._replace(several=BatchSize.CERTAIN) if wanted > 1 else NOTHING
    return first._replace(several=min(first.several, BatchSize.LIKELY))


def _reshaped(name: str, args: list[Value], first: Shape) -> Shape:
    rest = _sizes(args[1:])
    if name in ("view", "reshape"):
        return _of_view(rest, first)
    match name, rest:
        case ("contiguous", _) | ("permute", [0, *_]):
            return first
        case "flatten", [1, *_]:
            return first._replace(dims=min(first.dims, 2))
        case ("flatten" | "ravel", []):
            return first._replace(dims=min(first.dims, 1))
        case "unsqueeze", [int(dim)] if dim > 0 or dim == -1:
            return first._replace(dims=first.dims + 1)
        case "squeeze", [int(dim)] if _is_inner(dim, first):
            return first._replace(dims=max(first.dims - 1, 1))
        case "squeeze", _:
            return first._replace(dims=min(first.dims, 1))
        case "transpose", [one, other] if _is_inner(one, first) and _is_inner(other, first):
            return first
    return first._replace(dims=min(first.dims, 1), inner=True)


def _of_view(sizes: list[Value], first: Shape) -> Shape:
    """Extent of ``x.view(*sizes)``: what is one vector, or a few numbers side by side, may become one row."""
    match sizes:
        case [1, *_]:
            return NOTHING
        case [-1] | [-1, 1]:
            return first._replace(dims=len(sizes))
        case [int(rows), *_] if rows > 1:
            return Shape(BatchSize.CERTAIN, len(sizes))
        case [Symbol(key=key), -1] if _counts_a_batch(key):
            return first._replace(dims=min(first.dims, 2))
    return first._replace(dims=min(first.dims, 1), inner=True)


def _counts_a_batch(key: Hashable) -> bool:
    """Whether an unknown number is one that a batch of a loader tells of itself: ``len(images)``."""
    return _is_batch(key) or (isinstance(key, tuple) and any(_counts_a_batch(part) for part in key))


def _unreduced(options: Mapping[str, Value]) -> bool:
    """Whether a loss was told not to reduce."""
    return options.get("reduction") == "none" or options.get("reduce") is False


def of_loss(kind: str, values: list[Value], options: Mapping[str, Value]) -> Shape:
    """Extent of a torch loss, as an operation or a module: several elements if it was told not to reduce."""
    if kind in _OF_ROWS:
        return _of_pairs(kind, values, options)
    if not _unreduced(options) or not values:
        return NOTHING
    most = _of_rows(values[0]) if kind in _PER_ROW else _broadcast(values)
    return max(most, Shape(BatchSize.UNREDUCED, most.dims))


def _of_pairs(kind: str, values: list[Value], options: Mapping[str, Value]) -> Shape:
    """Extent of similarities, or distances: one for each row, and of two vectors along the last dimension one only."""
    last = kind in ("PairwiseDistance", "pairwise_distance")
    dim = -1 if last else options.get("dim", values[2] if len(values) > 2 else 1)
    if dim == -1 and max(extent_of(value).dims for value in values[:2]) < 2:
        return NOTHING
    return _of_rows(values[0]) if dim in (1, -1) else NOTHING


def _of_rows(value: Value) -> Shape:
    """Extent of a tensor with one number for each row of *value*."""
    first = extent_of(value)
    if first.dims > 1:
        return first._replace(dims=first.dims - 1)
    likely = first if isinstance(value, Symbol) else first._replace(several=min(first.several, BatchSize.LIKELY))
    return likely if first.several else NOTHING


def of_module(kind: str, values: list[Value], options: Mapping[str, Value]) -> Shape:
    """Extent of the output of a torch module."""
    if not values:
        return NOTHING
    if kind.endswith("Loss") or kind in _PER_ROW:
        return of_loss(kind, values, options)
    first = extent_of(values[0])
    if first.inner and not catalogue.keeps_shape(catalogue.form(kind)):
        return NOTHING
    if kind == "Embedding":
        return first._replace(dims=first.dims + 1) if first.several else NOTHING
    if kind in _ROW_BY_ROW or "Norm" in kind or kind in groups.RECURRENT | {"Flatten", "Unflatten"}:
        # A layer takes no batch without a second dimension; of a single vector it may make a single number.
        if first.several and isinstance(values[0], Symbol):
            return first._replace(dims=max(first.dims, 2))
        if kind == "Flatten":
            return first._replace(dims=min(first.dims, 2)) if first.dims > 1 else NOTHING
        return first if first.dims > 1 else NOTHING
    return first


def of_item(extent: Shape, index: Value) -> Shape:
    """Extent of ``x[index]``."""
    if extent.each:
        return NOTHING if isinstance(index, slice) else extent._replace(each=False)
    if isinstance(index, TensorRef):
        return _picked(extent, extent_of(index))
    parts = [slot.value for slot in index.items] if isinstance(index, Sequence) else [index]
    if len(parts) > 1 and isinstance(parts[0], (TensorRef, range)):
        rows = extent_of(parts[0]) if isinstance(parts[0], TensorRef) else _of_sizes([len(parts[0])])
        return Shape(rows.several, 1) if extent.several and rows.several else NOTHING
    if not parts or extent.inner or not _is_wide(parts[0]):
        return NOTHING
    if not extent.several and is_slice(parts[0]):
        extent = _MANY  # a window that moves over the rows: nobody cuts batches out of a single one
    dims = extent.dims
    for part in parts[1:]:
        if part is Ellipsis:
            return extent._replace(dims=min(dims, 1))
        if not isinstance(part, (slice, TensorRef)) and not is_slice(part):
            dims += 1 if part is None else -1
    return extent._replace(dims=dims) if dims > 0 else NOTHING


def is_slice(index: Value) -> bool:
    return isinstance(index, Symbol) and isinstance(index.key, tuple) and index.key[1:2] == ("slice",)


def _is_wide(index: Value) -> bool:
    """Whether a slice certainly leaves several items."""
    if isinstance(index, slice):
        if index.step not in (None, 1, -1):
            return False
        if isinstance(index.start, int) and isinstance(index.stop, int):
            return index.stop - index.start > 1 and index.start * index.stop >= 0
        return (index.start is None and index.stop is None) or (index.start in (0, None) and (index.stop or 0) > 1)
    return is_slice(index) and index.key[2] is True


def is_wide_slice(lower: Value, upper: Value, step: Value) -> bool:
    """Whether ``lower : upper``, not both of them known, spans several items: ``start : start + 16``."""
    if step is not None or not isinstance(upper, Symbol) or not isinstance(lower, Symbol):
        return False
    key = upper.key
    return isinstance(key, tuple) and len(key) == 3 and key[0] == "plus" and key[1] == lower.key and key[2] > 1
