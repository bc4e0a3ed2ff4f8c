"""Functions of ``torch``: grad modes, passes, new tensors, and whatever operates on tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue, derivatives, groups
from autofix.codemods.autograd.catalogue import is_operation
from autofix.codemods.autograd.graph import Node, Saved
from autofix.codemods.autograd.walks import operations_under
from autofix.codemods.facts.parts import TENSORS_AND_NUMBERS
from autofix.codemods.interpreter import (
    asked_again,
    attributes,
    cuts,
    dtypes,
    escapes,
    extents,
    filled,
    gradients,
    tensor_calls,
    written,
)
from autofix.codemods.interpreter.library import foreach
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import (
    Binding,
    Function,
    GradMode,
    Mapping,
    Method,
    SavedTensorHooks,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


_CREATED = catalogue.makers() | frozenset(
    "Tensor FloatTensor DoubleTensor LongTensor IntTensor ByteTensor BoolTensor HalfTensor normal load asarray".split()
)

_COPIES = frozenset("tensor as_tensor asarray from_numpy Tensor FloatTensor DoubleTensor HalfTensor".split())

_PACKERS = ("saved_tensors_hooks", "save_on_cpu", "allow_mutation_on_saved_tensors")
"""Context managers under which PyTorch does not ask whether what it saved was changed."""

_MISSING = object()
"""The value of an argument that was not given."""


# Grad mode and passes


@model(*(f"torch.*.{mode}" for mode in (*groups.GRAD_MODES, "enable_grad")))
def _grad_mode(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    mode = tensor_calls.grad_mode(call.last, [*args, *keywords.values()])
    assert mode is not None
    if len(args) == 1 and isinstance(args[0], Function) and mode.enabled is not None:
        args[0].grad_mode = mode.enabled
        return args[0]
    if call.last == "set_grad_enabled":
        if mode.enabled is None and args and isinstance(args[0], Symbol):
            mode = GradMode(interp.truth(args[0]))
        interp.set_grad(mode.enabled is not False, interp.site(call.node))
    return mode


@model("torch.equal", "torch.allclose", "torch.is_same_size", "torch.is_nonzero")
def _compared(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    """True or false, as Python's own."""
    return interp.fresh_symbol(call.last)


@model(*(f"torch.autograd.graph.{manager}" for manager in _PACKERS))
def _packed(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return SavedTensorHooks()


@model("torch.*.is_grad_enabled")
def _is_grad_enabled(interp: Interpreter, call: Call) -> Value:
    return interp.grad


@model(
    "torch.jit.is_tracing",
    "torch.jit.is_scripting",
    "torch._jit_internal.is_scripting",
    "torch._C._is_tracing",
    "torch._C._get_tracing_state",
    "torch.onnx.is_in_onnx_export",
    "torch.compiler.is_exporting",
)
def _is_exported(interp: Interpreter, call: Call) -> Value:
    """Nobody trains a network while it is traced or exported."""
    return False if call.last.startswith("is_") or call.last == "_is_tracing" else None


@model("torch.autograd.backward")
def _backward(
    interp: Interpreter,
    call: Call,
    tensors: Value = None,
    grad_tensors: Value = _MISSING,
    retain_graph: Value = _MISSING,
    *_: Value,
    **keywords: Value,
) -> Value:
    if retain_graph is not _MISSING:
        keywords["retain_graph"] = retain_graph
    if tensors is None and "variables" in keywords:
        tensors, site = keywords.pop("variables"), interp.site(call.node)
        interp.log.legacy["backward(variables=...)", site.line] = site
    given = grad_tensors is not _MISSING or "grad_variables" in keywords
    tensor_calls.run_backward(interp, [tensors], keywords, call.node, given=given)


@model("torch.autograd.grad")
def _grad(
    interp: Interpreter,
    call: Call,
    outputs: Value = None,
    inputs: Value = None,
    *others: Value,
    **keywords: Value,
) -> Value:
    node, given = call.node, bool(others) or "grad_outputs" in keywords
    fails = any(escapes.certainly_has_no_graph(one) for one in interp.tensors(inputs))
    if fails:
        interp.crash("one of the differentiated tensors does not require grad")
        gradients.note_unflagged(interp, outputs, inputs, node)
    taken = tensor_calls.run_backward(interp, [outputs], keywords, node, accumulate=False, inputs=inputs, given=given)
    allowed = keywords.keys() & {"allow_unused", "materialize_grads"} or _may_have_more_options(interp, node)
    if not allowed and len(others) < 4:
        cuts.part_beside(interp, [outputs], inputs, node)
    count = len(inputs.items) if isinstance(inputs, Sequence) else 1
    create = keywords.get("create_graph")
    if create not in (None, False):
        made = interp.operation("grad", [outputs], node, opaque=True)
        if made.cell.node is not None:
            made.cell.node.opaque = False
            made.cell.node.doubtful = create is not True
            if taken is not None and not derivatives.differentiate(made.cell.node, taken, interp.tape.tick):
                fails = True
            if fails:
                made = TensorRef(TensorImpl(vague=True))
        results: list[Value] = [made] * count
    else:
        results = [interp.data() for _ in range(count)]
        for result in results:
            result.cell.detachment = cuts.dropped(interp, [outputs], node, "grad")
    return Sequence(
        "tuple", [Binding(result) for result in results], more=not isinstance(inputs, (Sequence, TensorRef))
    )


def _may_have_more_options(interp: Interpreter, node: ast.expr) -> bool:
    """Whether a call is given ``**options`` of which not all are known."""
    if node in interp.spread:
        return True
    keywords = node.keywords if isinstance(node, ast.Call) else ()
    spread = (one.value for one in keywords if one.arg is None)
    given = (interp.scope.lookup(one.id) for one in spread if isinstance(one, ast.Name))
    return any(slot is not None and isinstance(slot.value, Mapping) and slot.value.of_callers for slot in given)


@model("torch.*.checkpoint")
def _checkpoint(interp: Interpreter, call: Call, function: Value, /, *args: Value, **keywords: Value) -> Value:
    """``checkpoint(function, *inputs)``; a reentrant one records nothing where no input requires grad."""
    reentrant = keywords.get("use_reentrant") is True
    own = {key: value for key, value in keywords.items() if key not in _OF_CHECKPOINTS}
    clock = interp.tape.clock
    inputs = [one.cell.storage.as_saved() for one in args if isinstance(one, TensorRef)]
    made = interp.call(function, list(args), own, call.node)
    _save_inputs(interp, made, tuple(one for one in inputs if one.storage.version == one.version), clock)
    sure = all(isinstance(value, TensorRef) and not value.cell.vague for value in args)
    if not reentrant or not sure or not isinstance(made, TensorRef) or made.cell.node is None:
        return made
    if any(interp.operands(value) for value in args):
        return _returned_by_checkpoint(interp, made, args, call.node)
    return TensorRef(TensorImpl(detachment=cuts.dropped(interp, [made], call.node, "reentrant")))


def _returned_by_checkpoint(interp: Interpreter, made: TensorRef, args: tuple[Value, ...], node: ast.expr) -> TensorRef:
    """The result of a reentrant checkpoint, which is an autograd Function: perhaps a view, or an input as it is."""
    assert made.cell.node is not None
    is_view = made.cell.base is not None and catalogue.is_certainly_view(made.cell.node.operation)
    if not is_view and not any(isinstance(one, TensorRef) and one.cell is made.cell for one in args):
        return made
    view = interp.operation("view_as", [made], node, scalar=made.cell.scalar, view=made)
    view.cell.extent, view.cell.dense, view.cell.applied = made.cell.extent, made.cell.dense, interp.site(node)
    return view


def _save_inputs(interp: Interpreter, made: Value, inputs: tuple[Saved, ...], clock: int) -> None:
    """Replace what the operations after *clock* have saved by the *inputs*, of which it is computed again.

    Source: ``_CheckpointFrame.save_inputs`` in torch/utils/checkpoint.py: only arguments that are tensors themselves,
    and neither parameters nor results.
    """

    def is_inside(node: Node) -> bool:
        return node.clock > clock

    results = [tensor.cell.node for tensor in interp.tensors(made) if tensor.cell.node is not None]
    for node in filter(is_inside, operations_under(results, is_inside)):
        node.saved = inputs if node.saved else ()


_OF_CHECKPOINTS = frozenset("use_reentrant preserve_rng_state context_fn determinism_check debug early_stop".split())


# New tensors


@model("torch.*.Parameter", "torch.*.UninitializedParameter")
def _parameter(
    interp: Interpreter, call: Call, data: Value = None, requires_grad: Value = True, *_: Value, **__: Value
) -> Value:
    scalar = data.cell.scalar if isinstance(data, TensorRef) else None
    single = isinstance(data, TensorRef) and data.cell.single
    rank = data.cell.rank if isinstance(data, TensorRef) else None
    cell = TensorImpl(scalar=scalar, on_cpu=interp.on_cpu(data), single=single, rank=rank)
    if requires_grad is True:
        gradients.note_whole(interp, data, call.node, _data_of(call.node))
    tensor = interp.parameter("Parameter", call.node, cell=cell)
    if requires_grad is False and tensor.cell.leaf is not None:
        tensor.cell.leaf.frozen = True
    filled.note(interp, tensor, filled.number_in(interp, data))
    return tensor


def _data_of(node: ast.expr) -> ast.expr | None:
    """The expression written for the data of a parameter or a variable."""
    return written.argument(node, 0) or written.keyword(node, "data")


@model("torch.*.Variable")
def _variable(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    """``Variable(x)``: the data of *x* without its graph; a new leaf where it is told to require grad.

    Source: ``torch.autograd.Variable`` in PyTorch 2.13, which shares storage and version with *x*.
    """
    node = call.node
    if keywords.get("volatile") is True:
        interp.log.legacy["Variable(..., volatile=True)", interp.site(node).line] = interp.site(node)
    value = args[0] if args else keywords.get("data", interp.fresh_symbol("Variable"))
    wanted = keywords.get("requires_grad", args[1] if len(args) > 1 else False)
    if wanted is True:
        gradients.note_whole(interp, value, node, _data_of(node))
        cell = (
            TensorImpl(storage=value.cell.storage, scalar=value.cell.scalar, on_cpu=interp.on_cpu(value))
            if isinstance(value, TensorRef)
            else TensorImpl()
        )
        leaf = interp.parameter("tensor", node, cell=cell)
        if leaf.cell.leaf is not None:
            leaf.cell.leaf.copied = cuts.dropped(interp, [value], node, "variable")
        return leaf
    made = interp.detached(value, node, how="variable") if isinstance(value, TensorRef) else interp.data()
    made.cell.vague = made.cell.vague or wanted is not False
    return made


@model(*(f"torch.{name}" for name in _CREATED), "torch.jit.load", "torch.hub.load", "torch.export.load")
@model(*(f"torch.{kind}.{name}" for kind in ("sparse", "cuda") for name in _CREATED if name.endswith("Tensor")))
def _create(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    filled = keywords.get("out")
    if isinstance(filled, TensorRef):  # `torch.randn(8, out=noise)`
        interp.change(filled, call.node)
        return filled
    made = _created(interp, call.last, list(args), keywords, call.node)
    if call.name.startswith("torch.cuda.") and isinstance(made, TensorRef):
        made.cell.on_cpu = False
    return made


@tensor_calls.of_tensor("new_tensor")
def _new_tensor(interp: Interpreter, call: Call, like: TensorRef, /, data: Value = None, **keywords: Value) -> Value:
    """``like.new_tensor(data)``: ``torch.tensor(data)`` with the type and the device of another tensor."""
    made = _created(interp, "tensor", [data], keywords, call.node)
    if isinstance(made, TensorRef):
        made.cell.on_cpu = like.cell.on_cpu and "device" not in keywords
        made.cell.whole = like.cell.whole and "dtype" not in keywords
    return made


def _created(interp: Interpreter, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A new tensor of data; a leaf where ``requires_grad=True`` asks for it."""
    scalar = None
    if last in ("tensor", "as_tensor") and args and isinstance(args[0], (int, float)):
        scalar = True
    if last in ("zeros", "ones", "rand", "randn") and args and isinstance(args[0], Sequence) and not args[0].items:
        scalar = True
    if last in ("as_tensor", "asarray") and args and isinstance(args[0], TensorRef):
        return tensor_calls.cast(interp, args[0], "to", args[1:], keywords, node)
    if last == "from_numpy" and args and isinstance(args[0], TensorRef) and args[0].cell.node is not None:
        return args[0]  # no array has a graph: a path that comes here with a tensor is one that no run takes
    extent, length = extents.of_created(last, args, keywords), extents.length_created(last, args, keywords)
    like = last.endswith("_like")
    on_cpu = interp.on_cpu(args[0]) if like and args else last != "load" and not interp.sources.sets_device
    on_cpu = on_cpu and keywords.get("device", "cpu") == "cpu"
    single = not interp.sources.sets_precision and dtypes.is_single(last, args, keywords)
    if keywords.get("requires_grad") is True:
        if dtypes.of_created(last, args, keywords):
            gradients.note_whole_created(interp, node, node)
        rank = extents.rank_created(last, args, keywords)
        cell = TensorImpl(scalar=scalar, extent=extent, length=length, on_cpu=on_cpu, single=single, rank=rank)
        cell.has_ones = extents.has_ones(last, args, keywords)
        leaf = interp.parameter("tensor", node, cell=cell)
        return _copy(interp, leaf, args, node)
    made = interp.data(scalar=scalar)
    made.cell.detachment = cuts.dropped(interp, args, node, _how_copied(args)) if last in _COPIES else None
    if last == "full":
        made.cell.detachment = cuts.dropped(interp, args[1:2] or [keywords.get("fill_value")], node, "full")
    made.cell.extent, made.cell.on_cpu = extent, on_cpu
    made.cell.rows = extents.of_rows_created(last, args, keywords)
    made.cell.length, made.cell.rank = length, extents.rank_created(last, args, keywords)
    made.cell.has_ones = extents.has_ones(last, args, keywords)
    made.cell.whole, made.cell.single = dtypes.of_created(last, args, keywords), single
    made.cell.constant = dtypes.is_written_out(last, args)
    made.cell.counted = dtypes.dimensions_of_numbers(last, args, keywords)
    made.cell.vague = keywords.get("requires_grad", False) is not False
    made.cell.loaded = last == "load"
    filled.note(interp, made, filled.of_created(last, args))
    cuts.note_inference(interp, made.cell)
    return made


def _how_copied(values: list[Value]) -> str:
    """``tensors`` for a list of some, ``tensors and numbers`` for one of both."""
    if not values or not isinstance(values[0], Sequence):
        return "tensor"
    pending: list[Value] = [values[0]]
    while pending:
        value = pending.pop()
        if isinstance(value, Sequence):
            pending += [slot.value for slot in value.items]
        elif isinstance(value, (int, float)):
            return TENSORS_AND_NUMBERS
    return "tensors"


def _copy(interp: Interpreter, made: TensorRef, values: list[Value], node: ast.expr) -> TensorRef:
    """A new leaf: where it is a copy of something that had a graph, it knows that."""
    if made.cell.leaf is not None:
        made.cell.leaf.copied = cuts.dropped(interp, values, node, _how_copied(values))
    return made


# Functions that return no tensor


@model(
    "torch.manual_seed",
    "torch.seed",
    "torch.random.manual_seed",
    "torch.random.seed",
    "torch.mps.manual_seed",
    "torch.xpu.manual_seed",
    "torch.save",
    "torch.jit.save",
    "torch.export.save",
    "torch.set_num_threads",
    "torch.use_deterministic_algorithms",
    "torch.set_default_dtype",
    "torch.set_printoptions",
)
def _nothing(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return None


@model("torch.jit.annotate", "typing.cast", "typing_extensions.cast")
def _of_a_type(interp: Interpreter, call: Call, kind: Value, value: Value, /) -> Value:
    """``torch.jit.annotate(torch.Tensor, x)`` is ``x``, and says so to a compiler or a type checker."""
    return value


@model("torch.is_tensor")
def _is_tensor(interp: Interpreter, call: Call, value: Value, /) -> Value:
    known = not isinstance(value, (Symbol, Method))
    known |= isinstance(value, Symbol) and attributes.is_number(value.key)
    return isinstance(value, TensorRef) if known else interp.fresh_symbol("is_tensor")


@model("torch.device")
def _device(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    return interp.fresh_symbol(call.name, *(args[:1] if args and isinstance(args[0], str) else ()))


@model("torch.*.is_available", "torch.*.device_count")
def _of_machine(interp: Interpreter, call: Call, *_: Value, **__: Value) -> Value:
    return interp.symbol(("new", call.name))  # whoever asks twice gets one answer


_WITHOUT_TENSORS = (
    "amp backends compiler cuda distributed futures hub monitor mps multiprocessing onnx package profiler xpu"
)


@model(*(f"torch.{package}.*" for package in _WITHOUT_TENSORS.split()), "torch.autocast", "torch.Generator")
def _unknown(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    found = interp.fresh_symbol(call.name)
    asked_again.note(interp, found, call.name, [*args, *keywords.values()])
    return found


# Operations


@model("torch.stack", "torch.cat", "torch.concat")
def _join(interp: Interpreter, call: Call, tensors: Value, *others: Value, **keywords: Value) -> Value:
    if isinstance(tensors, Sequence) and not tensors.items and not tensors.more:
        interp.crash(f"{call.last} expects a list that is not empty")
    return tensor_calls.operate(interp, call.last, [tensors, *others], keywords, call.node)


@model("torch.einsum")
def _einsum(interp: Interpreter, call: Call, equation: Value, *operands: Value, **keywords: Value) -> Value:
    """``torch.einsum("ij,jk->ik", a, b)``, with the operands in a list as well."""
    return tensor_calls.operate(interp, call.last, [equation, *_spread(operands)], keywords, call.node)


def _spread(operands: tuple[Value, ...]) -> list[Value]:
    """*operands*, or the items of the one list that is given in their place."""
    match operands:
        case (Sequence(items=items, more=False),):
            return [slot.value for slot in items]
    return list(operands)


@model("torch.linalg.norm")
def _norm(interp: Interpreter, call: Call, tensor: Value, *args: Value, **keywords: Value) -> Value:
    """The largest or smallest singular value of a matrix (``ord=2``, ``-2``); any other norm is as ``torch.norm``.

    Source: ``linalg_norm`` and ``linalg_matrix_norm`` in aten/src/ATen/native/LinearAlgebra.cpp.
    """
    order, along, *_ = (*args, None, None)
    order, along = keywords.get("ord", order), keywords.get("dim", along)
    is_vector = isinstance(along, int) or (isinstance(tensor, TensorRef) and tensor.cell.rank == 1)
    if order in (2, -2) and not is_vector:
        return tensor_calls.operate(interp, "linalg_matrix_norm", [tensor, order], {}, call.node)
    return DECLINED


@model("torch.linalg.multi_dot", "torch.chain_matmul")
def _multi_dot(interp: Interpreter, call: Call, *matrices: Value, **keywords: Value) -> Value:
    """``torch.linalg.multi_dot([a, b])``: one product of two; of more, the order depends on their sizes."""
    factors = _spread(matrices)
    name = "matmul" if len(factors) == 2 else "multi_dot"
    return tensor_calls.operate(interp, name, factors, keywords, call.node)


@model("torch.broadcast_tensors", "torch.meshgrid", "torch.atleast_1d", "torch.atleast_2d", "torch.atleast_3d")
def _views(interp: Interpreter, call: Call, *tensors: Value, **keywords: Value) -> Value:
    """A view of each of the tensors, with the graph of that one alone; ``atleast_2d`` of one tensor is a tensor."""
    operands = _spread(tensors)
    is_single = call.last.startswith("atleast") and len(tensors) == 1 and isinstance(tensors[0], TensorRef)
    if is_single or not operands or not all(isinstance(one, TensorRef) for one in operands):
        return _operation(interp, call, *tensors, **keywords)
    views = [interp.operation("expand", [one], call.node, view=one) for one in operands]
    return Sequence("tuple", [Binding(one) for one in views])


@model("torch.Tensor.*", "torch.detach", "torch.detach_", "torch.is_floating_point", "torch.is_complex", "torch.numel")
def _method(interp: Interpreter, call: Call, tensor: Value, /, *args: Value, **keywords: Value) -> Value:
    """``torch.Tensor.add(x, 1)``: the method."""
    if not isinstance(tensor, TensorRef):
        return DECLINED
    return tensor_calls.call_tensor_method(interp, tensor, call.last, list(args), keywords, call.node)


@model("torch.*", "torch.optim.lr_scheduler.*", "torch.optim.swa_utils.*")
def _operation(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    last, node = call.last, call.node
    if last.startswith(foreach.PREFIX):
        return foreach.applied(interp, call, args, keywords)
    if is_in_place(last, args):
        return tensor_calls.call_tensor_method(interp, args[0], last, list(args[1:]), keywords, node)
    is_plain = call.name.count(".") <= 2 or is_operation(last)
    if is_plain and not call.name.startswith("torch.masked."):  # `torch.masked.var` is no `torch.var`
        return tensor_calls.operate(interp, last, list(args), keywords, node)
    return interp.opaque(call.name, [*args, *keywords.values()], node, differentiable=True)


def is_in_place(name: str, args: tuple[Value, ...]) -> bool:
    """Whether a function of torch's changes its first argument: ``torch.relu_(x)``, ``F.elu_(x)``."""
    return name.endswith("_") and not name.startswith("_") and bool(args) and isinstance(args[0], TensorRef)
