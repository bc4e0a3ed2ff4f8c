"""Tensors with a graph that go where none can: into NumPy and what draws with it, a deep copy, another process.

Only a graph that is certain counts, and only functions that are known to ask for the array behind a tensor: NumPy hands
``np.mean(t)`` back to the tensor's own method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from autofix.codemods.autograd import catalogue
from autofix.codemods.autograd.graph import StoreEvent
from autofix.codemods.autograd.walks import nodes_under
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.forms import form_of
from autofix.codemods.interpreter.state.incidents import GraphLeak
from autofix.codemods.interpreter.values import (
    Instance,
    Mapping,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
    slots_of,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

# Tried out with NumPy 2 and torch 2.13.
_OF_TENSORS = frozenset(
    """abs absolute acos acosh add allclose append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
    argmin argpartition argsort around array asanyarray asarray ascontiguousarray asin asinh atan atan2 atanh
    atleast_1d atleast_2d atleast_3d average bincount broadcast_to cbrt ceil choose clip column_stack convolve copy
    copysign corrcoef correlate cos cosh count_nonzero cov cross cumprod cumsum deg2rad degrees delete diag diagonal
    digitize divide dot dstack ediff1d einsum empty_like equal exp exp2 expand_dims expm1 fabs flatnonzero fliplr flipud
    float32 float_power floor floor_divide fmax fmin fmod full full_like geomspace greater greater_equal heaviside
    histogram histogram2d histogram_bin_edges hstack hypot inner insert interp isclose isfinite isinf isnan kron ldexp
    less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor logspace
    matmul maximum median meshgrid minimum mod multiply nanargmax nanargmin nancumsum nanmax nanmean nanmin
    nanpercentile nanprod nanquantile nanstd nansum nanvar negative not_equal ones_like outer pad partition percentile
    polyfit polyval power ptp quantile rad2deg radians ravel reciprocal remainder repeat reshape rint roll roots rot90
    round save searchsorted select sign signbit sin sinc sinh sort sqrt square stack subtract take tan tanh tensordot
    tile trace transpose trapezoid trapz true_divide trunc union1d unique unwrap vdot vstack where zeros_like
    savetxt norm inv pinv det eigh eigvalsh eig eigvals svd qr cholesky matrix_rank cond slogdet
    plot scatter bar hist imshow matshow semilogx semilogy loglog fill_between errorbar step stem""".split()
)
# NumPy's ``float64`` is a ``float``, which a tensor of one number can be made.
_OF_LISTS = frozenset(
    """float64 mean sum std var max min amax amin concatenate concat prod all any argwhere diff flip gradient isin
    nanmedian nonzero setdiff1d split squeeze vander""".split()
)
METHODS = frozenset(
    """put send put_nowait plot scatter bar hist imshow matshow semilogx semilogy loglog fill_between errorbar step
    stem map imap imap_unordered starmap map_async starmap_async submit""".split()
)
_POOLS = ("multiprocessing.Pool", "multiprocessing.get_context.Pool", "futures.ProcessPoolExecutor")
_PIPES = tuple(
    f"multiprocessing.{context}{kind}"
    for context in ("", "get_context.")
    for kind in ("SimpleQueue", "Pipe", "Queue", "JoinableQueue")
)


def certainly_has_graph(tensor: TensorRef, *, leaves: bool = True) -> bool:
    """Whether no doubt lies on the way from the tensor to its leaves; *leaves*: whether a leaf itself counts."""
    node = tensor.cell.node
    if node is None or tensor.cell.frozen or (node.leaf is not None and not leaves):
        return False
    return not any(
        ((one.opaque or one.is_one_of_several) and not one.was_walked) or (one.leaf is not None and one.leaf.frozen)
        for one in nodes_under([node])
    )


def certainly_is_result(tensor: TensorRef) -> bool:
    """Whether a tensor certainly is no leaf: the result of an operation that never returns its argument."""
    made = tensor.cell.node
    if made is None or made.leaf is not None or not certainly_has_graph(tensor):
        return False
    name = made.operation
    return not (name in catalogue.MAYBE_ITSELF or catalogue.kind(name) == "cast" or "dropout" in name)


def is_computed(value: Value) -> TypeGuard[TensorRef]:
    """Whether a value is a tensor with a graph, and no leaf."""
    return isinstance(value, TensorRef) and value.cell.node is not None and value.cell.node.leaf is None


def certainly_has_no_graph(tensor: TensorRef) -> bool:
    cell = tensor.cell
    return cell.node is None and not (cell.vague or cell.unsure or tensor.guessed)


def handed(interp: Interpreter, name: str, args: list[Value], node: ast.expr) -> bool:
    """A function of NumPy or of matplotlib is called; it asks each tensor for its ``numpy()``.

    Whether one of them certainly refuses.
    """
    if not interp.grad:
        return False
    for at, value in enumerate(args):
        if isinstance(value, TensorRef):
            escapes = name in _OF_TENSORS and certainly_has_graph(value)
        else:
            escapes = (name in _OF_TENSORS or name in _OF_LISTS) and _holds_graph(interp, value)
        if escapes:
            _note(interp, "numpy", value, at, node)
            return True
    return False


def called_on(interp: Interpreter, receiver: Symbol, name: str, args: list[Value], node: ast.expr) -> None:
    """A method of an unknown object is called: of a queue or pipe between processes, or of a drawing."""
    origin = _origin(receiver)
    if name in ("put", "send", "put_nowait"):
        if not origin.endswith(_PIPES) or not _holds_graph(interp, args[0], leaves=False):
            return
        _note(interp, "process", args[0], 0, node)
    elif name in ("map", "imap", "imap_unordered", "starmap", "map_async", "starmap_async", "submit"):
        if origin.endswith(_POOLS) and len(args) > 1 and _holds_graph(interp, args[1], leaves=False):
            _note(interp, "process", args[1], 1, node)
    elif origin.startswith("matplotlib."):
        handed(interp, name, args, node)


def _origin(value: Symbol) -> str:
    """The imported function whose result a value is, or is part of."""
    key, methods = value.key, ""
    for _ in range(6):
        if not isinstance(key, tuple) or len(key) < 3:
            return ""
        if key[0] in ("new", "~"):
            origin = key[2] if key[1] == "call" else key[1]
            if not isinstance(origin, tuple):
                return f"{origin}{methods}"
            key, methods = origin, f".{origin[-1]}{methods}"
        else:
            key = key[1]
    return ""


def _holds_graph(interp: Interpreter, value: Value, *, leaves: bool = True) -> bool:
    found = interp.tensors(value)
    return any(certainly_has_graph(tensor, leaves=leaves) for tensor in found)


def _note(interp: Interpreter, where: str, value: Value, at: int, node: ast.expr) -> None:
    written = node.args[at] if isinstance(node, ast.Call) and at < len(node.args) else None
    if isinstance(written, ast.Starred):
        written = None
    site = interp.site(written) if written is not None else None
    interp.incidents.escapes[interp.site(node)] = GraphLeak(where, site, form_of(value), _stored(value))


def copied(interp: Interpreter, value: Value, node: ast.expr) -> None:
    """``copy.deepcopy(value)``."""
    if isinstance(value, (TensorRef, Sequence, Mapping)):
        if _holds_graph(interp, value, leaves=False):
            _note(interp, "copy", value, 0, node)
        return
    for kept, path in _kept_in(value, "", set()):
        interp.incidents.escapes[interp.site(node)] = GraphLeak("copy", None, kept.form, (kept,), path)
        return


def _stored(value: Value) -> tuple[StoreEvent, ...]:
    """The statements and expressions that put tensors with graphs into a container."""
    if not isinstance(value, (Sequence, Mapping)):
        return ()
    tensors = [
        slot for slot in slots_of(value) if isinstance(slot.value, TensorRef) and certainly_has_graph(slot.value)
    ]
    found = [slot.kept for slot in tensors if slot.kept is not None and slot.kept.expression is not None]
    return tuple(found) if len(found) == len(tensors) else ()


def _kept_in(value: Value, path: str, seen: set[int]) -> Iterator[tuple[StoreEvent, str]]:
    """The statements that put tensors with graphs into attributes of an object, or of its parts, and their paths."""
    if not isinstance(value, (Instance, TorchModule)) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Instance):
        if any(class_lookup.find(value, name) is not None for name in ("__deepcopy__", "__getstate__", "__reduce__")):
            return
    slots = value.names if isinstance(value, Instance) else value.children
    for name, slot in list(slots.items()):
        place = f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}"
        if isinstance(slot.value, TensorRef):
            if slot.kept is not None and certainly_has_graph(slot.value, leaves=False):
                yield slot.kept, place
        elif isinstance(slot.value, (Sequence, Mapping)):
            for item in slots_of(slot.value):
                if isinstance(item.value, TensorRef) and item.kept is not None:
                    if certainly_has_graph(item.value, leaves=False):
                        yield item.kept, ""
        else:
            yield from _kept_in(slot.value, place, seen)
