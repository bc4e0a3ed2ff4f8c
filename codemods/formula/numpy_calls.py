"""Calls of NumPy's functions and of arrays' methods, as calls of torch's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from autofix.codemods.formula.rewrites import renamed, worded
from autofix.codemods.formula.twins import (
    ALONG,
    BIASED,
    BOUNDS,
    CONSTANTS,
    DTYPES,
    FUNCTIONS,
    METHODS,
    REDUCTION_WORDS,
    REDUCTIONS,
    SCALARS,
    TYPES,
    WINDOWS,
    Takes,
    Twin,
    reduction,
)
from autofix.codemods.formula.values import NUMBER, OTHER, Change, Kind, Value
from autofix.codemods.rewriting.nodes import method_call, parenthesised, with_keyword

if TYPE_CHECKING:
    from autofix.codemods.formula.marks import Marks

_ARITHMETIC = frozenset(("add", "subtract", "multiply", "divide", "true_divide"))
_MANY_AXES = frozenset(("sum", "mean", "std", "var", "amax", "amin", "max", "min"))
_READ = frozenset("median percentile quantile argsort sort round isclose allclose array_equal save savetxt".split())
"""Functions that only read an array, and have no twin: what they say of a tensor is said of its values."""
_SLIDING = "lib.stride_tricks.sliding_window_view"


def call_function(reader: Marks, node: cst.Call, name: str, args: list[Value]) -> Value:
    """``np.name(...)``."""
    plain = all(arg.star == "" for arg in node.args)
    if not plain:
        return reader.unknown(args)
    if name in ("array", "asarray", "ascontiguousarray", "asfarray"):
        return _made_array(reader, node, args)
    if name in CONSTANTS:
        return _constant(reader, node, CONSTANTS[name], args, window=name in WINDOWS)
    if args and all(value.kind in (Kind.NUMBER, Kind.SHAPE) for value in args):
        return NUMBER if name in SCALARS else reader.unknown(args)
    if name in REDUCTIONS and args and args[0].kind is Kind.LIST:
        return _of_list(reader, node, name, args)
    if name == "average" and len(node.args) == 1:
        name = "mean"
    if name in REDUCTIONS:
        return _reduced(reader, node, name, args[0] if args else OTHER, args[1:], method=False)
    if name in BOUNDS and len(args) == 2:
        return _bounded(reader, node, name, args)
    if name == "dot" and len(args) == 2 and _is_product(reader, node.args[0].value, node.args[1].value, args[1]):
        return reader.array(node, args, [(node, renamed(reader.tree, node, "matmul", {}))])
    if name == "where" and len(args) == 3 and _no_words(node):
        return _where(reader, node, args)
    if name == "transpose":
        return _transposed(reader, node, args)
    if name == "flip" and len(args) == 2:
        return _flipped(reader, node, args)
    if name == "outer" and len(args) == 2 and args[0].rank == args[1].rank == 1 and _no_words(node):
        return reader.array(node, args, [(node, renamed(reader.tree, node, "outer", {}))], rank=2)
    if name == "einsum" and len(args) > 1 and _no_words(node) and isinstance(node.args[0].value, cst.SimpleString):
        return reader.array(node, args[1:], [(node, renamed(reader.tree, node, "einsum", {}))])
    if name == _SLIDING and args:
        return _windows(reader, node, args)
    if name in ("corrcoef", "cov") and len(args) == 2 and _no_words(node):
        return _of_both(reader, node, name, args)
    if name in ALONG:
        return _along(reader, node, ALONG[name], args)
    twin = FUNCTIONS.get(name)
    if twin is not None:
        args = reader.met(args) if name in _ARITHMETIC and len(args) == 2 else args
        return _twin(reader, node, twin, args, method=False)
    return reader.unknown(args, reads=name in _READ)


def call_method(reader: Marks, node: cst.Call, name: str, array: Value, args: list[Value]) -> Value:
    """``array.name(...)``."""
    values = [array, *args]
    if any(arg.star != "" for arg in node.args):
        return reader.unknown(values)
    if name in REDUCTIONS:
        return _reduced(reader, node, name, array, args, method=True)
    if name == "astype" and len(node.args) == 1:
        return _converted(reader, node, array)
    if name == "dot" and len(args) == 1:
        assert isinstance(node.func, cst.Attribute)
        if _is_product(reader, node.func.value, node.args[0].value, args[0]):
            return reader.array(node, values, [(node, _method("matmul", {}))])
    if name == "transpose" and _no_words(node) and args:
        return reader.array(node, [array], [(node, _method("permute", {}))], rank=array.rank)
    if name == "transpose" and not node.args:
        return reader.array(node, [array], [(node, _transposed_self)], rank=array.rank)
    twin = METHODS.get(name)
    if twin is not None:
        return _twin(reader, node, twin, values, method=True)
    return reader.unknown(values, reads=name in ("argsort", "round"))


def _along(reader: Marks, node: cst.Call, name: str, args: list[Value]) -> Value:
    """``np.logaddexp.accumulate(x)`` as ``torch.logcumsumexp(x, dim=0)``: the first axis where none is named."""
    array, *axes = args
    words = [arg.keyword.value if arg.keyword is not None else "axis" for arg in node.args[1:]]
    plain = array.kind in (Kind.ARRAY, Kind.TENSOR) and not array.loose and not array.truth
    if not plain or node.args[0].keyword is not None or any(axis.kind is not Kind.NUMBER for axis in axes):
        return reader.unknown(args)
    if words not in ([], ["axis"]):
        return reader.unknown(args)
    axis = reader.tree.code(node.args[1].value) if axes else "0"
    if axis == "None":
        return reader.unknown(args)
    rename = renamed(reader.tree, node, name, {})

    def change(found: cst.CSTNode) -> cst.CSTNode:
        found = rename(found)
        assert isinstance(found, cst.Call)
        return with_keyword(found.with_changes(args=found.args[:1]), "dim", axis)

    rank = array.rank if "cum" in name else array.rank and array.rank - 1
    return reader.array(node, [array], [(node, change)], rank=rank)


def _of_both(reader: Marks, node: cst.Call, name: str, args: list[Value]) -> Value:
    """``np.corrcoef(x, y)`` as ``torch.corrcoef(torch.vstack((x, y)))``: NumPy takes them for rows, or sets of rows."""
    if any(value.kind is not Kind.ARRAY or value.truth or value.whole for value in args):
        return reader.unknown(args)
    torch = reader.tree.torch_name(node)

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        rows = cst.Tuple([cst.Element(arg.value) for arg in found.args])
        stacked = cst.Call(cst.parse_expression(f"{torch}.vstack"), [cst.Arg(rows)])
        return found.with_changes(func=cst.parse_expression(f"{torch}.{name}"), args=[cst.Arg(stacked)])

    return reader.array(node, args, [(node, change)], rank=2)


def _no_words(node: cst.Call) -> bool:
    return all(arg.keyword is None for arg in node.args)


def _method(name: str, words: dict[str, str]) -> Change:
    """Rewrite of a method call to the tensor method *name*, its keywords renamed by *words*."""

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call) and isinstance(found.func, cst.Attribute)
        function = found.func.with_changes(attr=cst.Name(name))
        return found.with_changes(func=function, args=[worded(arg, words) for arg in found.args])

    return change


def _transposed_self(found: cst.CSTNode) -> cst.CSTNode:
    """``x.transpose()`` as ``x.T``."""
    assert isinstance(found, cst.Call) and isinstance(found.func, cst.Attribute)
    return found.func.with_changes(attr=cst.Name("T"))


def _twin(reader: Marks, node: cst.Call, twin: Twin, values: list[Value], *, method: bool) -> Value:
    """A call that is the same in torch but for names, if all that it is called with is what the twin takes."""
    first = 1 if method else 0
    words, arrays, given = dict(twin.words), values[:first], {"axis"} if len(values) > first else set()
    place = first
    for argument, value in zip(node.args, values[first:], strict=True):
        if argument.keyword is not None:
            mode = argument.keyword.value == "norm" and isinstance(argument.value, cst.SimpleString)
            if argument.keyword.value not in words or not (_is_plain(value) or mode):
                return reader.unknown(values)
            given.add(argument.keyword.value)
            continue
        if place >= len(twin.takes) or not _fits(value, argument.value, twin.takes[place]):
            return reader.unknown(values)
        if twin.takes[place] in (Takes.ARRAY, Takes.OPERAND, Takes.ARRAYS):
            arrays.append(value)
        place += 1
    if not twin.wanted <= given or not arrays or place == 0:
        return reader.unknown(values)
    if twin.name in ("reshape", "broadcast_to") and not method and not _is_shape(node.args[-1].value, values[-1]):
        return reader.unknown(values)
    if twin.name in ("add", "sub", "mul", "div", "pow") and any(value.truth for value in arrays):
        return reader.unknown(values)
    change = _method(twin.name, words) if method else renamed(reader.tree, node, twin.name, words)
    edits = [] if method and node.func.attr.value == twin.name and not words else [(node, change)]  # type: ignore[attr-defined]
    rank = twin.rank if twin.rank is not None else _rank_of(twin.name, node, arrays, place)
    found = reader.array(node, arrays, edits, rank=rank, truth=twin.truth)
    if twin.takes[0] is Takes.ARRAY and twin.name in METHODS_OF_SHAPE:
        found = replace(found, truth=arrays[0].truth, whole=arrays[0].whole)
    return found


METHODS_OF_SHAPE = frozenset("reshape ravel flatten squeeze swapaxes clone unsqueeze permute".split())
MAKE_ARRAYS = frozenset(
    """exp log log1p sqrt square abs tanh sin cos add sub mul div pow clamp stack cat where clone linalg.norm""".split()
)
_SAME_RANK = frozenset(
    """exp log log1p expm1 log2 log10 sqrt square abs absolute sign negative sin cos tan tanh clamp clone roll cumsum
    flipud fliplr fft.rfft fft.fft""".split()
)


def _rank_of(name: str, node: cst.Call, arrays: Sequence[Value], places: int) -> int | None:
    if name in _SAME_RANK:
        return arrays[0].rank
    if name == "linalg.norm" and places == 1 and not any(arg.keyword is not None for arg in node.args):
        return 0
    if name == "reshape" and isinstance(node.func, cst.Attribute):
        last = node.args[-1].value
        if isinstance(last, cst.Tuple):
            return len(last.elements)
        return places - 1 if not isinstance(last, (cst.Name, cst.Attribute)) or places > 2 else None
    return None


def _is_plain(value: Value) -> bool:
    return value.kind in (Kind.NUMBER, Kind.SHAPE)


def _is_shape(node: cst.BaseExpression, value: Value) -> bool:
    return isinstance(node, (cst.Tuple, cst.List)) or value.kind is Kind.SHAPE


def _fits(value: Value, node: cst.BaseExpression, wanted: Takes) -> bool:
    match wanted:
        case Takes.ARRAY:
            return value.kind in (Kind.ARRAY, Kind.TENSOR) and not value.loose
        case Takes.OPERAND:
            return value.kind in (Kind.ARRAY, Kind.TENSOR, Kind.NUMBER)
        case Takes.ARRAYS:
            return value.kind is Kind.LIST and all(item.kind is Kind.ARRAY and not item.loose for item in value.items)
        case Takes.PLAIN:
            return _is_plain(value)
    return isinstance(node, cst.Tuple) and _is_plain(value)


def _axis(node: cst.Call, args: list[Value], name: str, place: int) -> bool | None:
    """Whether a reduction has an axis; None where it has something that torch has not."""
    found = False
    for at, (argument, value) in enumerate(zip(node.args[place:], args, strict=True)):
        keyword = argument.keyword.value if argument.keyword is not None else "axis" if at == 0 else ""
        if keyword == "axis":
            several = value.kind is Kind.SHAPE
            empty = isinstance(argument.value, cst.Name) and argument.value.value == "None"
            if not _is_plain(value) or empty or (several and name not in _MANY_AXES):
                return None
            found = True
        elif keyword == "ddof" and name in BIASED:
            if not _is_plain(value):
                return None
        elif keyword != "keepdims" or not isinstance(argument.value, cst.Name):
            return None
    if not found and len(args) > 0 and any(arg.keyword and arg.keyword.value == "keepdims" for arg in node.args):
        return None
    return found


def _reduced(reader: Marks, node: cst.Call, name: str, array: Value, args: list[Value], *, method: bool) -> Value:
    """A sum, a mean, a maximum and so on, of all elements or along an axis."""
    values = [array, *args]
    along = _axis(node, args, name, 0 if method else 1)
    if array.kind not in (Kind.ARRAY, Kind.TENSOR) or array.loose or along is None:
        return reader.unknown(values)
    if (name in BIASED and array.truth) or (array.whole and name in ("mean", *BIASED)):
        return reader.unknown(values)
    mine, words = reduction(name, along=along), REDUCTION_WORDS
    rename = _method(mine, words) if method else renamed(reader.tree, node, mine, words)
    biased = name in BIASED and not any(arg.keyword and arg.keyword.value == "ddof" for arg in node.args)
    as_floats = name == "mean" and array.truth

    def change(found: cst.CSTNode) -> cst.CSTNode:
        found = rename(found)
        assert isinstance(found, cst.Call)
        if as_floats and isinstance(found.func, cst.Attribute):
            if method:
                found = found.with_changes(func=found.func.with_changes(value=_as_float(found.func.value)))
            else:
                floats = found.args[0].with_changes(value=_as_float(found.args[0].value))
                found = found.with_changes(args=[floats, *found.args[1:]])
        return with_keyword(found, "correction", "0") if biased else found

    kept = any(arg.keyword is not None and arg.keyword.value == "keepdims" for arg in node.args)
    rank: int | None = 0
    if along:
        rank = array.rank if kept else array.rank - 1 if array.rank else None
        if any(value.kind is Kind.SHAPE for value in args):
            rank = None
    if not along and not array.live and not array.sources:
        return replace(NUMBER, node=node)
    whole = name in ("argmax", "argmin") or (name == "sum" and (array.truth or array.whole))
    changed = [] if method and not node.args and mine == name and not (biased or as_floats) else [(node, change)]
    found = reader.array(node, [array], changed, rank=rank)
    return replace(found, whole=whole or (array.whole and name != "mean"))


def _as_float(node: cst.BaseExpression) -> cst.BaseExpression:
    found = method_call(node, "float")
    assert isinstance(found, cst.BaseExpression)
    return found


def _of_list(reader: Marks, node: cst.Call, name: str, args: list[Value]) -> Value:
    """``np.mean(losses)`` of a list of arrays as ``torch.stack(losses).mean()``."""
    items = args[0].items
    along = _axis(node, args[1:], name, 1)
    if name not in ("mean", "sum") or along is None or not items or any(item.kind is not Kind.ARRAY for item in items):
        return reader.unknown(args)
    torch = reader.tree.torch_name(node)
    rename = _method(name, {"axis": "dim", "keepdims": "keepdim"})

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        bare = found.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        stacked = cst.Call(cst.Attribute(cst.Name(torch), cst.Name("stack")), [bare])
        return rename(found.with_changes(func=cst.Attribute(stacked, cst.Name(name)), args=found.args[1:]))

    return reader.array(node, [args[0]], [(node, change)], rank=None if along else 0)


def _bounded(reader: Marks, node: cst.Call, name: str, args: list[Value]) -> Value:
    """``np.maximum(0, x)`` as ``torch.clamp(x, min=0)``; of two arrays as ``torch.maximum``."""
    if not _no_words(node) or not all(value.kind in (Kind.ARRAY, Kind.NUMBER) and not value.loose for value in args):
        return reader.unknown(args)
    if args[0].kind is args[1].kind:
        return reader.array(node, args, [(node, renamed(reader.tree, node, name, {}))])
    number = 0 if args[0].kind is Kind.NUMBER else 1
    torch = reader.tree.torch_name(node)

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        array, bound = found.args[1 - number].value, found.args[number].value
        function = cst.Attribute(cst.Name(torch), cst.Name("clamp"))
        return with_keyword(
            found.with_changes(func=function, args=[cst.Arg(array)]), BOUNDS[name], reader.tree.code(bound)
        )

    array = args[1 - number]
    return reader.array(node, [array], [(node, change)], rank=array.rank)


def _is_product(reader: Marks, left: cst.BaseExpression, right: cst.BaseExpression, value: Value) -> bool:
    """Whether ``np.dot`` of these two is what matmul computes: the second has one or two dimensions."""
    transposed = isinstance(right, cst.Attribute) and right.attr.value == "T"
    return value.rank in (1, 2) or transposed or reader.tree.code(left) == reader.tree.code(right)


def _where(reader: Marks, node: cst.Call, args: list[Value]) -> Value:
    condition = args[0]
    if condition.kind is not Kind.ARRAY or not condition.truth:
        return reader.unknown(args)
    if not all(value.kind in (Kind.ARRAY, Kind.NUMBER) for value in args[1:]):
        return reader.unknown(args)
    return reader.array(node, args, [(node, renamed(reader.tree, node, "where", {}))])


def _transposed(reader: Marks, node: cst.Call, args: list[Value]) -> Value:
    """``np.transpose(x, axes)`` as ``torch.permute``; without axes as ``x.T``."""
    if len(args) == 2 and args[0].kind is Kind.ARRAY and isinstance(node.args[1].value, (cst.Tuple, cst.List)):
        if node.args[0].keyword is None and (node.args[1].keyword is None or node.args[1].keyword.value == "axes"):
            return reader.array(node, args[:1], [(node, renamed(reader.tree, node, "permute", {"axes": "dims"}))])
    if len(args) != 1 or not _no_words(node) or args[0].kind is not Kind.ARRAY:
        return reader.unknown(args)

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        return cst.Attribute(parenthesised(found.args[0].value), cst.Name("T"))

    return reader.array(node, args, [(node, change)], rank=args[0].rank)


def _flipped(reader: Marks, node: cst.Call, args: list[Value]) -> Value:
    """``np.flip(x, axis=0)`` as ``torch.flip(x, dims=(0,))``."""
    axis = node.args[1]
    named = axis.keyword is None or axis.keyword.value == "axis"
    if args[0].kind is not Kind.ARRAY or not named or args[1].kind is not Kind.NUMBER or node.args[0].keyword:
        return reader.unknown(args)
    rename = renamed(reader.tree, node, "flip", {"axis": "dims"})

    def change(found: cst.CSTNode) -> cst.CSTNode:
        found = rename(found)
        assert isinstance(found, cst.Call)
        one = cst.parse_expression(f"({reader.tree.code(found.args[1].value)},)")
        return found.with_changes(args=[found.args[0], found.args[1].with_changes(value=one)])

    return reader.array(node, args[:1], [(node, change)], rank=args[0].rank)


def _windows(reader: Marks, node: cst.Call, args: list[Value]) -> Value:
    """``sliding_window_view(x, 256)[::128]`` of one dimension as ``x.unfold(0, 256, 128)``."""
    words = [arg.keyword.value if arg.keyword is not None else "" for arg in node.args]
    if args[0].kind is not Kind.ARRAY or any(value.kind is not Kind.NUMBER for value in args[1:]):
        return reader.unknown(args)
    if words not in (["", ""], ["", "", ""], ["", "", "axis"]):
        return reader.unknown(args)
    axis = reader.tree.code(node.args[2].value) if len(args) == 3 else "0"
    step = reader.step_after(node) if len(args) == 2 else None
    taken = step[0] if step is not None else None

    def change(found: cst.CSTNode) -> cst.CSTNode:
        call = found.value if isinstance(found, cst.Subscript) else found
        assert isinstance(call, cst.Call)
        by = step[1] if step is not None else "1"
        rest = cst.parse_expression(f"x.unfold({axis}, {reader.tree.code(call.args[1].value)}, {by})")
        assert isinstance(rest, cst.Call) and isinstance(rest.func, cst.Attribute)
        return rest.with_changes(func=rest.func.with_changes(value=parenthesised(call.args[0].value)))

    return reader.array(node, args[:1], [(taken if taken is not None else node, change)])


def dtype_of(reader: Marks, node: cst.BaseExpression) -> str:
    """The method that converts to a type of NumPy's or torch's with a gradient; empty where it is none of them."""
    path = reader.path(node) or (node.evaluated_value if isinstance(node, cst.SimpleString) else "")
    head, _, last = str(path).rpartition(".")
    if path == "float":
        return "double"
    if isinstance(node, cst.SimpleString) or head in ("numpy", "torch"):
        return DTYPES.get(last, last if head == "torch" and last in TYPES else "")
    return ""


def _converted(reader: Marks, node: cst.Call, array: Value) -> Value:
    """``x.astype(np.float32)`` as ``x.float()``; what is true and false, or whole, may also become whole."""
    wanted = node.args[0].value
    name = dtype_of(reader, wanted)
    path = str(reader.path(wanted))
    if not name and (array.truth or array.whole) and path in ("int", "numpy.int64"):
        name = "long"
    if not name or array.kind is not Kind.ARRAY or array.loose or node.args[0].keyword is not None:
        return reader.unknown([array])

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call) and isinstance(found.func, cst.Attribute)
        return found.with_changes(func=found.func.with_changes(attr=cst.Name(name)), args=[])

    made = reader.array(node, [array], [(node, change)], rank=array.rank)
    return replace(made, whole=name == "long", single=name == "float")


def _made_array(reader: Marks, node: cst.Call, args: list[Value]) -> Value:
    """``np.array(...)``: of numbers a constant, of arrays a stack, of one array or tensor the same again."""
    if not args or any(arg.keyword is not None and arg.keyword.value != "dtype" for arg in node.args):
        return reader.unknown(args)
    typed = next((arg for arg in node.args if arg.keyword is not None), None)
    positional = [arg for arg in node.args if arg.keyword is None]
    name = dtype_of(reader, typed.value) if typed is not None else ""
    if len(positional) != 1 or (typed is not None and not name):
        return reader.unknown(args)
    first = args[0]
    if first.kind in (Kind.ARRAY, Kind.TENSOR) and not first.loose:

        def change(found: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(found, cst.Call)
            value = found.args[0].value
            return method_call(value, name) if name else reader.placed(node, value)

        if first.kind is Kind.TENSOR:
            return reader.entry(node, positional[0].value, change)
        return replace(reader.array(node, [first], [(node, change)], rank=first.rank), truth=first.truth and not name)
    if first.kind is Kind.LIST and first.items and all(item.kind is Kind.ARRAY for item in first.items) and not name:
        return reader.array(node, [first], [(node, renamed(reader.tree, node, "stack", {}))])
    depth = _depth(positional[0].value)
    if depth is None or first.kind not in (Kind.SHAPE, Kind.LIST, Kind.TUPLE):
        return reader.unknown(args)
    torch = reader.tree.torch_name(node)

    def made(found: cst.CSTNode) -> cst.CSTNode:
        changed = renamed(reader.tree, node, "tensor", {})(found)
        return with_keyword(changed, "dtype", f"{torch}.{TYPES[name]}") if name else changed

    return replace(reader.array(node, [], [(node, made)], rank=depth), single=name == "float")


def _depth(node: cst.BaseExpression) -> int | None:
    """Depth of a nested list of written numbers; None for anything else."""
    if isinstance(node, (cst.List, cst.Tuple)) and node.elements:
        depths = {_depth(element.value) for element in node.elements}
        depth = depths.pop()
        return None if depths or depth is None else depth + 1
    while isinstance(node, cst.UnaryOperation):
        node = node.expression
    return 0 if isinstance(node, (cst.Float, cst.Integer)) else None


def _constant(reader: Marks, node: cst.Call, twin: Twin, args: list[Value], *, window: bool) -> Value:
    """``np.arange(n)`` and the like, which the formula meets as tensors."""
    torch = reader.tree.torch_name(node)
    given, types, whole = len([arg for arg in node.args if arg.keyword is None]), "", twin.name == "arange"
    for argument, value in zip(node.args, args, strict=True):
        keyword = argument.keyword.value if argument.keyword is not None else ""
        if keyword == "dtype":
            types = dtype_of(reader, argument.value)
            whole = False
            if not types:
                return _as_it_is(reader, node)
        elif (keyword and keyword not in twin.words) or not _is_plain(value):
            return _as_it_is(reader, node)
    named = {arg.keyword.value for arg in node.args if arg.keyword is not None}
    sized = node.args[0].value if node.args else node
    if (twin.name == "linspace" and given < 3 and "num" not in named) or given > len(twin.takes):
        return _as_it_is(reader, node)
    if twin.name == "full" and not (args and _is_shape(sized, args[0])):
        return _as_it_is(reader, node)
    rename = renamed(reader.tree, node, twin.name, dict(twin.words))

    def change(found: cst.CSTNode) -> cst.CSTNode:
        found = rename(found)
        if window:
            return with_keyword(found, "periodic", "False")
        return with_keyword(found, "dtype", f"{torch}.{TYPES[types]}") if types else found

    return replace(reader.array(node, [], [(node, change)], rank=twin.rank), whole=whole, single=types == "float")


def _as_it_is(reader: Marks, node: cst.Call) -> Value:
    """An array that NumPy goes on making, and torch takes over."""
    return reader.array(node, [], [(node, reader.taken_over(node, exact=False))])
