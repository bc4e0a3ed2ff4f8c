"""Methods of tensors, and the functions of the same names in ``torch`` and ``torch.nn.functional``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue, groups, layout
from autofix.codemods.autograd.catalogue import is_operation, operation
from autofix.codemods.autograd.graph import BackwardCall, Node, Operand, Storage
from autofix.codemods.autograd.walks import nodes_under
from autofix.codemods.interpreter import (
    attributes,
    cuts,
    devices,
    dtypes,
    escapes,
    extents,
    filled,
    finite,
    gradients,
    holding,
    outside,
    overwriting,
    unread_losses,
)
from autofix.codemods.interpreter.library.registry import DECLINED, Call, Models
from autofix.codemods.interpreter.state.incidents import GraphLeak, PartChange
from autofix.codemods.interpreter.values import BatchSize, Binding, GradMode, Name, Sequence, Symbol, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

# Methods that return no tensor, or nothing.
_PLAIN = frozenset(
    """item tolist numpy size dim numel stride storage_offset data_ptr element_size get_device is_contiguous
    is_floating_point is_complex register_hook retain_grad storage untyped_storage nelement ndimension type_ __len__
    is_sparse is_shared share_memory_ pin_memory_ has_names is_same_size allclose equal""".split()
)
_COPIES_OF_COMPLEX = frozenset(("conj_physical", "resolve_conj", "resolve_neg"))
"""Operations that give real numbers back as they are, and may copy complex ones."""
_MAY_ADD_DIMENSIONS = (catalogue.VIEW, catalogue.VIEWS, catalogue.JOIN)


def run_backward(
    interp: Interpreter,
    roots: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
    *,
    accumulate: bool = True,
    inputs: Value = None,
    given: bool = False,
) -> BackwardCall | None:
    """A backward pass from *roots*, with a gradient *given* to it or not; what it finds is written on the tape."""
    for tensor in interp.tensors(*roots):
        interp.renew(tensor.cell)
    operands = [
        Operand(tensor.cell.node, tensor.provenance)
        for tensor in interp.tensors(*roots)
        if tensor.cell.node is not None
    ]
    if not operands:
        for root in roots:
            unread_losses.note_sent(interp, root)
        cuts.sent_back(interp, roots, node)
        return None
    interp.passed()
    if interp.misses and accumulate:
        cuts.sent_back_in_part(interp, [operand.node for operand in operands], node)
    alone = not given and len(roots) == 1 and not (interp.goes_by_shape or unread_losses.are_behind(interp, roots))
    if alone and extents.extent_of(roots[0]).several > BatchSize.UNREDUCED:
        of_data = inputs is not None and not any(leaf in interp.tape.owned for leaf in interp.leaves_of(inputs))
        interp.incidents.unreduced.append((roots[0], interp.site(node), cuts.name_of(interp, node), of_data))
    elif alone and isinstance(roots[0], TensorRef) and roots[0].cell.scalar:
        interp.incidents.reduced.add(interp.site(node))
    create = keywords.get("create_graph", False)
    retain = keywords.get("retain_graph", keywords.get("retain_variables"))
    if "retain_variables" in keywords:
        site = interp.site(node)
        interp.log.legacy["backward(retain_variables=...)", site.line] = site
    if retain is None:
        retain = create
    if not isinstance(retain, (int, type(None))):
        retain = True  # `k < n - 1`: which pass is the last one, the source does not say
    only = None
    wanted = keywords.get("inputs", inputs)
    if wanted is not None:
        only = [tensor.cell.node for tensor in interp.tensors(wanted) if tensor.cell.node is not None]
        only += [leaf.node for leaf in interp.leaves_of(wanted) if leaf.node is not None]
        if not only and not isinstance(wanted, (TensorRef, Symbol)):  # something single may lie on any way, or on none
            only = None
    tape = interp.tape
    if only == []:  # whatever leads there is of use
        tape.reached |= holding.statements_under(operands)
    known = len(tape.stale), len(tape.clobbered)
    found = tape.backward(
        operands,
        interp.site(node),
        interp.loops,
        retain=bool(retain) or interp.retaining,
        inputs=only,
        accumulate=accumulate,
        stack=interp.stack,
    )
    for at in range(known[0], len(tape.stale)):
        tape.stale[at] = tape.stale[at]._replace(outside=outside.names(interp, tape.stale[at].provenance))
    for at in range(known[1], len(tape.clobbered)):
        tape.clobbered[at] = tape.clobbered[at]._replace(outside=outside.names(interp, tape.clobbered[at].provenance))
    for hook in list(interp.backward_hooks):
        interp.call(hook.function, [hook.module, interp.fresh_symbol("grad"), interp.fresh_symbol("grad")], {}, node)
    found.idle = accumulate and cuts.copied(interp, operands, node)
    return found


of_tensor = Models()
"""Models of the methods of tensors that are no operations on them."""


@of_tensor("backward")
def _backward(
    interp: Interpreter, call: Call, tensor: TensorRef, /, gradient: Value = None, *args: Value, **keywords: Value
) -> Value:
    options = {**dict(zip(("retain_graph", "create_graph"), args, strict=False)), **keywords}
    known = len(interp.tape.stale)
    run_backward(interp, [tensor], options, call.node, given=gradient is not None)
    if len(interp.tape.stale) > known and _made_of(gradient, tensor):
        del interp.tape.stale[known:]


@of_tensor("detach")
def _detach(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    return interp.detached(tensor, call.node)


@of_tensor("data")
def _data(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    return interp.detached(tensor, call.node, own_version=True)


@of_tensor("detach_")
def _detach_itself(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    made = tensor.cell.node
    if tensor.cell.base is not None and made is not None:
        interp.crash("a view cannot be detached in place")
        known = not (tensor.guessed or tensor.cell.unsure or isinstance(made.site.node, ast.Attribute))
        if known and made.operation not in catalogue.MAYBE_ITSELF and escapes.certainly_has_graph(tensor):
            interp.incidents.parts_changed.setdefault(
                interp.site(call.node), PartChange(made.site, None, detached=True)
            )
    if tensor.cell.leaf is not None:
        attributes.require_grad(interp, tensor, False, call.node)
    tensor.cell.detachment = cuts.dropped(interp, [tensor], call.node, "detach")
    if made is not None and isinstance(made.readings, list):
        made.readings.clear()  # whoever reads it again sees it detached
    tensor.cell.node = None
    return tensor


@of_tensor("view")
def _view(interp: Interpreter, call: Call, tensor: TensorRef, /, *args: Value, **keywords: Value) -> Value:
    of_type = keywords.get("dtype", args[0] if len(args) == 1 else None)
    return interp.detached(tensor, call.node) if dtypes.is_type(of_type) else DECLINED  # its bits have no derivative


@of_tensor("clone")
def _clone(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    cloned = interp.operation("clone", [tensor], call.node, scalar=tensor.cell.scalar)
    filled.copied(interp, tensor, cloned)
    cloned.cell.extent = tensor.cell.extent
    return cloned


@of_tensor("requires_grad_")
def _require_grad(
    interp: Interpreter, call: Call, tensor: TensorRef, /, requires_grad: Value = True, *_: Value, **__: Value
) -> Value:
    attributes.set_flag(interp, tensor, requires_grad, call.node)
    return tensor


@of_tensor("sample", "sample_n")
def _sample(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    drawn = interp.data()  # of a distribution; rsample keeps the graph
    drawn.cell.vague = True
    return drawn


@of_tensor("register_hook", "register_post_accumulate_grad_hook", "retain_grad")
def _hook(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    if tensor.cell.leaf is not None:
        tensor.cell.leaf.asked = True
    gradients.note_hook(interp, tensor, call.node)
    return interp.fresh_symbol(call.name)


@of_tensor("reinforce")
def _reinforce(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    site = interp.site(call.node)
    interp.log.legacy[interp.source.text_of(call.node), site.line] = site


@of_tensor("set_", "resize_")
def _given_back(interp: Interpreter, call: Call, tensor: TensorRef, /, *_: Value, **__: Value) -> Value:
    return tensor


def call_tensor_method(
    interp: Interpreter, tensor: TensorRef, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``tensor.name(...)``."""
    own = interp.tensor_methods.get(name) if interp.tensor_methods else None
    if own is not None:
        return interp.call(interp.read(own), [tensor, *args], keywords, node)
    name = _OPERATORS.get(name, name)
    result = of_tensor.call(interp, Call(node, name), tensor, given=args, keywords=keywords)
    if result is not DECLINED:
        return result
    if catalogue.kind(name) == catalogue.CAST or (name == "to_dense" and _is_dense(interp, tensor)):
        converted = cast(interp, tensor, name, args, keywords, node)
        filled.copied(interp, tensor, converted)
        return converted
    if name in _PLAIN:
        # Outside grad mode a tensor hands its array out whether or not it requires grad.
        if name == "numpy" and interp.grad and "force" not in keywords and escapes.certainly_has_graph(tensor):
            interp.incidents.escapes[interp.site(node)] = GraphLeak("numpy")
        number = filled.number_in(interp, tensor) if name == "item" else None
        if number is not None:
            return number
        if name == "numpy":  # an array that shares its memory
            filled.forget(interp, tensor)
        if name in ("item", "tolist", "numpy"):
            made = interp.fresh_symbol("number" if name == "item" else name)
            if tensor.cell.constant:
                interp.computed.add(made.key)
            return cuts.carry(interp, made, [tensor], node, name)
        asks = name in groups.SIZES and not keywords
        if asks and (not args or (tensor.cell.leaf is not None and all(type(one) is int for one in args))):
            # asked twice of one tensor, the same
            whose = "parameters" if tensor.cell.part else ("tensor", interp.identity(tensor.cell))
            return attributes.size_of(interp, tensor, ("~", name, whose, *args))
        found = interp.fresh_symbol(name)
        if name.startswith("is_"):  # the same for all that a network gives at this place
            interp.computed.add(found.key)
        return found
    if name.endswith("_") and not name.startswith("_"):
        if catalogue.is_left_out(operation(name[:-1]), [tensor, *args], keywords):
            return tensor
        return _in_place_method(interp, tensor, name[:-1], args, keywords, node)
    at = operation(name).at("self") or 0  # `x.where(condition, y)` is `torch.where(condition, x, y)`
    if len(args) < at:
        result = operate(interp, name, args, {"self": tensor, **keywords}, node)
    else:
        result = operate(interp, name, [*args[:at], tensor, *args[at:]], keywords, node)
    if isinstance(result, TensorRef) and not is_operation(name):  # `checkpoint.get("scale")`
        result.cell.loaded = tensor.cell.loaded
    of, new = tensor.cell.node, result.cell.node if isinstance(result, TensorRef) else None
    if of is not None and new is not None and not is_operation(name) and _may_be_of_object(of):
        for one in (of, new):
            one.opaque = one.doubtful = True
    return result


def _is_dense(interp: Interpreter, tensor: TensorRef) -> bool:
    """Whether a tensor certainly is no sparse one, of which ``to_dense`` makes a copy."""
    cell = tensor.cell
    known = cell.leaf is not None or (cell.node is not None and not cell.node.opaque)
    return known and not interp.sources.has_sparse


def _may_be_of_object(made: Node) -> bool:
    """Whether a value that has a method which tensors lack may be an object that was not read, or a product of such."""
    if made.operation in ("add", "sub", "mul", "div") and len(made.operands) > 1:
        return all(operand.node.opaque and operand.node.doubtful for operand in made.operands)
    return made.opaque


def cast(
    interp: Interpreter, tensor: TensorRef, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> TensorRef:
    """``tensor.to(...)`` and its kin: the tensor itself where there is nothing to convert or to move."""
    given = [*args, *keywords.values()]
    if any(map(extents.is_mask, given)):
        return interp.data()
    if any(map(dtypes.is_whole_type, given)) and not (tensor.cell.whole and tensor.cell.node is None):
        numbers = interp.data()  # autograd records no operation on whole numbers
        numbers.cell.whole, numbers.cell.extent = True, tensor.cell.extent
        return numbers
    if keywords.get("copy") is True or (name == "contiguous" and not (tensor.cell.dense and not given)):
        return interp.operation(name, [tensor], node, scalar=tensor.cell.scalar)
    computed = tensor.cell.node is not None and tensor.cell.node.leaf is None
    if computed and any(map(_is_dtype_of_another, given)):
        copy = interp.operation("to", [tensor], node, scalar=tensor.cell.scalar)
        copy.cell.extent = tensor.cell.extent
        return copy
    same = cuts.maybe_copied(tensor, name)
    of_data = tensor.cell.node is None and tensor.cell.leaf is None
    # Tensors are of single precision, if nothing else is said.
    copies = name in groups.OTHER_PRECISIONS or any(map(_is_other_precision, given))
    known = tensor.cell.single or (computed and not interp.sources.sets_precision)
    if copies and known and tensor.cell.node is not None and interp.grad:
        return interp.operation("to", [tensor], node, scalar=tensor.cell.scalar)
    copies = copies or (interp.sources.mixes_precision and name in ("float", "to", "type"))
    if of_data and (copies or dtypes.may_copy(tensor, name, given)):
        copied = replace(same.cell, storage=replace(same.cell.storage, changes=[]), base=None, writes=[], whole=False)
        return TensorRef(copied, tensor.provenance, tensor.guessed)
    if copies:
        return TensorRef(same.cell, same.provenance, guessed=True)
    to_gpu = devices.to_gpu(name, given)
    if of_data and to_gpu and not tensor.cell.on_gpu:
        moved = replace(tensor.cell, storage=Storage(), base=None, writes=[], on_cpu=False, on_gpu=True)
        return TensorRef(moved, tensor.provenance, tensor.guessed)
    if name in ("to", "cuda") and tensor.cell.node is None:
        same.cell.on_cpu = False
    moves = to_gpu and tensor.cell.node is not None and tensor.cell.on_cpu and interp.grad
    return TensorRef(same.cell, same.provenance, same.guessed, interp.site(node)) if moves else same


_OPERATORS = {
    **{
        f"__{name}__": name
        for name in ("add", "sub", "mul", "matmul", "pow", "neg", "eq", "ne", "lt", "le", "gt", "ge")
    },
    **{f"__{name}__": f"bitwise_{name}" for name in ("and", "or", "xor")},
    "__radd__": "add",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__abs__": "abs",
    "__invert__": "bitwise_not",
}
"""Methods behind Python's operators, by the operations that they are."""

_OTHER_TYPES = frozenset(("DoubleTensor", "HalfTensor", "BFloat16Tensor"))


def _is_other_precision(value: Value) -> bool:
    """Whether a value is a type of numbers that tensors do not have if nothing is said of it."""
    return isinstance(value, Name) and value.path.removeprefix("torch.") in groups.OTHER_PRECISIONS | _OTHER_TYPES


def _is_dtype_of_another(value: Value) -> bool:
    """Whether a value is the type of something else's numbers: in lower precision, ``x.to(layer.dtype)`` is a copy."""
    key = value.key if isinstance(value, Symbol) else None
    return isinstance(key, tuple) and len(key) == 3 and key[0] == "attr" and key[2] == "dtype"


def _made_of(gradient: Value, root: TensorRef) -> bool:
    """Whether a gradient that is given was computed of the root, by a call that was not read.

    Then the chain rule is written by hand, and what the call returned had no share in the root's graph.
    """
    if not isinstance(gradient, TensorRef) or gradient.cell.node is None or root.cell.node is None:
        return False
    graph = set(nodes_under([gradient.cell.node]))
    return root.cell.node in graph and any(node.opaque for node in graph)


def _in_place_method(
    interp: Interpreter,
    tensor: TensorRef,
    name: str,
    positional: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
) -> Value:
    args = [*positional, *keywords.values()]
    if name in ("copy", "index_copy", "scatter", "masked_scatter", "index_fill", "masked_fill", "index_add", "put"):
        places = _places(interp, name, [tensor, *positional], keywords)
        written = args[0] if name == "copy" and args else None
        name = "copy_slices" if name in ("copy", "put") else name
        number = filled.number_in(interp, written)
        overwriting.write_into(interp, tensor, args, node, name, places=places)
        filled.note(interp, tensor, written if number is None else number)
    elif name in ("zero", "fill", "normal", "uniform", "random", "bernoulli", "exponential"):
        # The former value gets a gradient of zeros, but its graph is walked.
        overwriting.in_place(interp, tensor, name, [], node)
        filled.note(interp, tensor, {"zero": 0, "fill": args[0] if args else None}.get(name))
    else:
        overwriting.in_place(interp, tensor, name, args, node)
    return tensor


def _places(interp: Interpreter, name: str, args: list[Value], keywords: dict[str, Value]) -> list[Value]:
    """The places at which an operation writes (an index, a mask), where it saves them for the backward pass."""
    row = operation(name)
    given = dict(zip(row.arguments, args, strict=False)) | keywords
    saved = {one for argument, names in row.saves.items() if interp.operands(given.get(argument)) for one in names}
    return [given[one] for one in ("index", "mask") if one in saved and one in given]


def _is_computed(tensor: TensorRef) -> bool:
    """Whether it has a graph, had one, or says something of such a tensor."""
    return tensor.cell.node is not None or tensor.cell.detachment is not None or tensor.cell.judged


def operate(interp: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A torch function or method that computes something of its tensor arguments."""
    values = [*args, *keywords.values()]
    first = args[0] if args else next(iter(keywords.values()), None)
    out = keywords.get("out")
    row = operation(name)
    if isinstance(first, TensorRef) and row.known and catalogue.kind(name) != catalogue.JOIN:
        first.cell.unsure = False
    if not row.differentiable:
        if isinstance(out, TensorRef):
            interp.change(out, node)
            return out
        found = interp.data()
        found.cell.whole = dtypes.is_whole(name)
        found.cell.counted = 0 if row.name in ("argmax", "argmin") and len(values) == 1 else -1
        found.cell.constant = all(tensor.cell.constant for tensor in interp.tensors(*values))
        found.cell.judged = any(map(_is_computed, interp.tensors(*values)))
        found.cell.usual = finite.usual_result(name, interp.tensors(*values))
        found.cell.detachment = cuts.dropped(interp, values, node, "integer") if catalogue.drops_graph(name) else None
        filled.computed(interp, name, values, found)
        cuts.note_inference(interp, found.cell)
        return found
    if isinstance(out, TensorRef):
        has_graph = any(map(escapes.certainly_has_graph, interp.tensors(*args)))
        has_graph = has_graph or (out.cell.leaf is None and escapes.certainly_has_graph(out))
        interp.change(out, node)
        if interp.grad and has_graph:
            interp.incidents.outs.add(interp.site(node))
            meant = operate(interp, name, args, {key: one for key, one in keywords.items() if key != "out"}, node)
            if isinstance(meant, TensorRef):  # PyTorch refuses; all who know the tensor were to see the result
                out.cell.node = meant.cell.node
        return out
    whole = len(args) <= 1 and not (keywords.keys() & {"dim", "axis", "keepdim"})
    if row.places and not whole and not (len(args) == 2 and isinstance(args[1], TensorRef)):
        picked = interp.operation(name, values, node)
        picked.cell.extent = extents.of_operation(name, values, keywords, None)
        places = cuts.whole_numbers(interp, values, node)
        if picked.cell.node is not None and not interp.packing:  # the gradient goes back to where it says
            picked.cell.node.saved = (*picked.cell.node.saved, places.cell.storage.as_saved())
        return Sequence("tuple", [Binding(picked), Binding(places)], fields=("values", "indices"))
    if name == "pad_packed_sequence":
        padded = interp.operation(name, values, node)
        padded.cell.extent = extents.of_operation(name, values, keywords, None)
        return Sequence("tuple", [Binding(padded), Binding(interp.data())])
    scalar: bool | None = None
    if row.kind == catalogue.REDUCTION:
        scalar = True if whole else None
    elif row.kind in (catalogue.LOSS, catalogue.NUMBER):
        scalar = reduces(keywords)
    elif isinstance(first, TensorRef) and all(isinstance(v, TensorRef) or not hasattr(v, "cell") for v in values):
        tensors = [value for value in values if isinstance(value, TensorRef)]
        of_scalars = all(value.cell.scalar for value in tensors)
        scalar = True if of_scalars and row.kind and row.kind not in _MAY_ADD_DIMENSIONS else None
    view = _viewed(interp, name, args, keywords, first)
    if catalogue.is_left_out(row, args, keywords) and isinstance(first, TensorRef):
        return first
    if catalogue.given(row, "inplace", args, keywords) is True and isinstance(first, TensorRef):
        overwriting.in_place(interp, first, name, [], node)
        return first
    names = _argument_names(name, args, keywords)
    result = interp.operation(name, values, node, names=names, scalar=scalar, view=view, opaque=not is_operation(name))
    result.cell.extent = extents.of_operation(name, values, keywords, scalar)
    result.cell.length = extents.length_of_operation(name, values)
    result.cell.in_one_piece = extents.is_in_one_piece(name, args, keywords)
    if view is not None and view.cell.dense and layout.takes_dense_part(name, args, keywords):
        result.cell.dense = True
    if view is not None:
        result.cell.dense_from = layout.dense_part_from(
            name, args, keywords, 0 if view.cell.dense else view.cell.dense_from
        )
    if result.cell.node is not None:
        result.cell.node.opaque = False
    elif not any(isinstance(value, TensorRef) for value in interp.tensors(*values)):
        return interp.fresh_symbol(name) if any(isinstance(value, Symbol) for value in values) else result
    return result


def _viewed(
    interp: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], first: Value
) -> TensorRef | None:
    """The tensor of which an operation's result certainly is a view."""
    if not catalogue.is_view(name) or not isinstance(first, TensorRef):
        return None
    cell = first.cell
    if name in layout.MAY_COPY and not (cell.dense or layout.joins_dense(name, args, keywords, cell.dense_from)):
        return None
    return None if name in _COPIES_OF_COMPLEX and interp.sources.has_complex else first


def reduces(options: Mapping[str, Value]) -> bool | None:
    """Whether a loss with these options is one number; None where it is not, or where that is not known."""
    how = options.get("reduction", "mean")
    return True if isinstance(how, str) and how != "none" and options.get("reduce") is not False else None


def _argument_names(name: str, args: list[Value], keywords: dict[str, Value]) -> tuple[str, ...]:
    """Names of the values passed, where keywords change the table's order."""
    if not keywords:
        return ()
    row = operation(name)
    table = row.arguments
    return (*table[: len(args)], *("" for _ in range(len(args) - len(table))), *map(row.argument, keywords))


def grad_mode(name: str, args: list[Value]) -> GradMode | None:
    """The grad mode that ``torch.<name>(...)`` sets."""
    match name:
        case "no_grad":
            return GradMode(False)
        case "inference_mode":
            return GradMode(not (not args or args[0] is True))
        case "enable_grad":
            return GradMode(True)
        case "set_grad_enabled":
            return GradMode(args[0] if args and isinstance(args[0], bool) else None)
    return None
