"""Reading and writing attributes."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from autofix.codemods.autograd.catalogue import is_method
from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import (
    class_lookup,
    cuts,
    errors,
    escapes,
    gradients,
    holding,
    module_tree,
    opaque_results,
    optimizers,
    replicas,
    written,
)
from autofix.codemods.interpreter.kinds.kind import Assignment, kind_of
from autofix.codemods.interpreter.policy import varies
from autofix.codemods.interpreter.state.incidents import Refused
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Method,
    Name,
    Optimizer,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
    slots_of,
)
from autofix.codemods.source.nodes import Nodes

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

COMMAND_LINE = ("command line",)
"""The key of ``sys.argv``."""
TORCH = "2.13.0"
"""The release of PyTorch that programs are read for: what they do for older ones alone is not followed."""
ONLY_LISTS = frozenset("append extend insert remove pop clear sort reverse copy".split())
_ONLY_CONTAINERS = frozenset("append extend clear pop popitem items keys setdefault".split())
OF_LISTS = ONLY_LISTS | _ONLY_CONTAINERS | frozenset("index count values get update".split())
_ARITHMETIC = frozenset("add sub mul div pow floor_divide remainder".split())


# Classes


def enumerate_members(interp: Interpreter, cls: Class, node: ast.expr) -> None:
    """The constants in the body of a class that is derived from ``Enum`` become its members."""
    bases = class_lookup.last_names(cls)
    if not bases & class_lookup.ENUMERATIONS:
        return
    for name, slot in list(cls.names.items()):
        if name.startswith("_") or isinstance(slot.value, (Function, Class, Bound, Instance)):
            continue
        value = slot.value
        if value == Name("enum.auto()"):
            value = name.lower() if "StrEnum" in bases else len(cls.members) + 1
        member = Instance(cls, {"name": Binding(name), "value": Binding(value), "_value_": Binding(value)})
        cls.members[name] = member
        cls.names[name] = Binding(member)
        begun = class_lookup.find(member, "__init__")
        if isinstance(begun, Function):
            parts = [part.value for part in value.items] if isinstance(value, Sequence) else [value]
            interp.call(Bound(begun, member), parts, {}, node)


# Attributes


def get(interp: Interpreter, value: Value, name: str, node: ast.expr) -> Value:
    """The attribute *name* of *value*."""
    if name in _ONLY_CONTAINERS and _is_no_container(value, name):
        interp.crash(f"what has no items has no attribute {name!r}")
    return kind_of(value).attribute(interp, value, name, node)


def _is_no_container(value: Value, name: str) -> bool:
    """Whether a value certainly has no method of lists or dictionaries with this name."""
    match value:
        case TensorRef() | Optimizer() | int() | float():
            return True
        case TorchModule():
            return name not in value.children and not value.kind.startswith(("Module", "Parameter", "Sequential"))
    return False


def is_number(key: Hashable) -> bool:
    """Whether an unknown value is certainly a number of Python's."""
    if not isinstance(key, tuple) or len(key) < 2:
        return False
    if key[0] in ("new", "~"):
        return key[1] in ("number", "dim", "numel", "nelement")
    return key[0] in ("int", "float", "len", "index") or (key[0] in _ARITHMETIC and all(map(is_number, key[1:])))


def shown(interp: Interpreter, values: Iterable[Value], node: ast.expr) -> None:
    """Values are made text: an object of the program says how."""
    for value in values:
        if isinstance(value, (Sequence, Mapping)):
            shown(interp, [slot.value for slot in slots_of(value) if isinstance(slot.value, Instance)], node)
        if isinstance(value, Instance) and not class_lookup.is_module(value):
            found = class_lookup.find(value, "__str__") or class_lookup.find(value, "__repr__")
            if isinstance(found, Function):
                interp.call(Bound(found, value), [], {}, node)


def owner_of(interp: Interpreter, value: Value) -> Hashable:
    """Key under which the loose attributes of a value without an attribute table of its own are kept."""
    match value:
        case Bound():
            return ("function", interp.identity(value.function))
        case Method():
            receiver = value.receiver
            key = receiver.key if isinstance(receiver, Symbol) else interp.identity(receiver)
            return ("method", key, value.name)
        case TensorRef():
            return ("tensor", interp.identity(value.cell))
    return ("function", interp.identity(value))


def plain(interp: Interpreter, value: Value) -> Value:
    """An attribute that is not in the program and was not called is an unknown value, the same each time."""
    if isinstance(value, Method):
        if isinstance(value.receiver, Symbol):
            found = interp.symbol(("attr", value.receiver.key, value.name))
            found.usual = interp.defaults.get(found.key)
            return found
        if isinstance(value.receiver, (Instance, TorchModule)):
            found = interp.symbol(("attr", interp.identity(value.receiver), value.name))
            if value.name == "_parameters" and class_lookup.is_any_module(value.receiver):
                interp.parameter_tables[found.key] = value.receiver
                if interp.source.nodes.once(_replaces_parameters):
                    cuts.replaced(interp.leaves_of(value.receiver))
            return found
        receiver = value.receiver
        made = receiver.cell.node if isinstance(receiver, TensorRef) else None
        if made is not None and made.leaf is None and not is_method(value.name):
            # An object made of tensors, such as a distribution or a result with names: what it holds is on its graph.
            part = interp.operation("select", [receiver], value.node)
            opaque_results.note_reading(interp, receiver, value.name, part)
            return part
    return value


MISSING = object()
"""What stands for an attribute that is not known."""


def by_getattr(interp: Interpreter, value: Instance, name: str, node: ast.expr) -> Value:
    """The attribute that the class's own ``__getattr__`` returns; ``MISSING`` where that is not known for certain."""
    found = class_lookup.find(value, "__getattr__")
    if not isinstance(found, Function) or name.startswith("__") or not only_looks_up(found.node):
        return MISSING
    if any(frame.function is found for frame in interp.frames):  # an attribute that it asks for itself
        return MISSING
    with errors.by_itself(interp):
        given = interp.call(Bound(found, value), [name], {}, node)
    raised, interp.exceptions.raised = interp.exceptions.raised, False
    if isinstance(given, Method) and isinstance(given.receiver, Optimizer) and given.name in optimizers.METHODS:
        return given
    if raised or isinstance(given, (Method, Name)):
        return MISSING
    return MISSING if isinstance(given, Symbol) and not _is_setting(given) else given


def _is_setting(value: Symbol) -> bool:
    """Whether an unknown value is what an object or a file of settings has under a name."""
    match value.key:
        case ("item", _, ("str", _)):
            return True
    return False


def only_looks_up(function: ast.AST) -> bool:
    """Whether a function is ``return self.parts[name]``, or another expression, or one of several.

    Where that fails, or a condition does not hold, it may look elsewhere, or raise an error.
    """
    if not isinstance(function, ast.FunctionDef):
        return False
    return all(map(_gives_back, function.body))


def _gives_back(statement: ast.stmt) -> bool:
    """Whether a statement returns what it looks up, or does so on a condition, or else in another place.

    A name of its own for a part of what it looks up changes nothing.
    """
    match statement:
        case ast.Return() | ast.Raise() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign(target=ast.Name()):
            return True
        case ast.If():
            return all(map(_gives_back, (*statement.body, *statement.orelse)))
        case ast.Try(finalbody=[]):
            handled = [one for handler in statement.handlers for one in handler.body]
            return all(map(_gives_back, (*statement.body, *handled, *statement.orelse)))
    return False


def size_of(interp: Interpreter, tensor: TensorRef, asked: tuple[Hashable, ...]) -> Symbol:
    """What a tensor answers when it is asked for its shape, or a part of it: ``("attr", None, "shape")``.

    The module's construction says what a parameter's is.  Of those that a loop goes over all are taken to answer alike.
    """
    cell = tensor.cell
    whose: Hashable = "parameters" if cell.part else interp.identity(cell)
    key = tuple(whose if one is None else one for one in asked)
    found = interp.symbol(key)
    if cell.leaf is not None:
        interp.computed.add(key)
    return found


def is_parameter(name: str) -> bool:
    """Whether torch's own modules call a parameter by this name."""
    return name in ("weight", "bias") or name.startswith(("weight_", "bias_"))


def _is_no_parameter(value: Value) -> bool:
    return isinstance(value, TensorRef) and value.cell.leaf is None and not value.guessed


OF_MODULES = frozenset(
    """
T_destination activation add_bias_kv add_module add_zero_attn affine align_corners all_weights alpha append apply
approximate batch_first beta bfloat16 bias bias_k bias_v bidirectional blank buffers call_super_init ceil_mode
check_forward_args check_hidden_size check_input children clear cls_to_become compile convert_sync_batchnorm copy
count_include_pad cpu cuda custom_decoder custom_encoder cutoffs d_model decoder_layer delta device device_ids
dilation dim dim_feedforward distance_function div_value divisor_override double downscale_factor dropout dtype
dump_patches elementwise_affine embed_dim embedding_dim enable_nested_tensor encoder_layer end_dim eps eval extend
extra_repr flatten_parameters float forward freeze from_pretrained fromkeys full gather
generate_square_subsequent_mask get get_buffer get_expected_cell_size get_expected_hidden_size get_extra_state
get_parameter get_submodule groups half has_uninitialized_params head head_bias hidden_size ignore_index in1_features
in2_features in_channels in_features include_last_offset init initialize_parameters inplace input_size insert ipu
items k kdim keepdim kernel_size keys label_smoothing lambd layer_norm_eps load_state_dict log_input log_prob
log_target lower margin mask_check max_norm max_val max_value merge_masks min_val min_value mode module modules
momentum mtia n_classes name named_buffers named_children named_modules named_parameters negative_slope nhead
nonlinearity norm norm_first norm_type normalized_shape num_batches_tracked num_channels num_chunks num_classes
num_decoder_layers num_embeddings num_encoder_layers num_features num_groups num_heads num_layers num_parameters
options out_channels out_features output_device output_padding output_ratio output_size p padding padding_idx
padding_mode parallel_apply parameters permute_hidden pop popitem pos_weight predict process_group proj_size
recompute_scale_factor reduce reduction register_backward_hook register_buffer register_forward_hook
register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
register_state_dict_post_hook register_state_dict_pre_hook replicate requires_grad_ reset_parameters
reset_running_stats return_indices running_mean running_var scale_factor scale_grad_by_freq scatter set_extra_state
set_submodule setdefault share_memory size size_average sparse start_dim state_dict stride swap tail threshold to
to_empty track_running_stats train training transposed type unflattened_size update upper upscale_factor value values
vdim weight weight_hh weight_ih xpu zero_grad zero_infinity
""".split()
)
"""Attributes, methods and options of the classes in torch.nn, as PyTorch 2.13 has them."""


CONTAINERS = frozenset(("Sequential", "ModuleList", "ModuleDict"))


def lacks(interp: Interpreter, module: TorchModule, name: str) -> bool:
    """Whether a module of torch's has no attribute of that name, for nobody has set it."""
    own = (
        name in module.children
        or name in module.options
        or (owner_of(interp, module), name) in interp.attributes_of_opaque
    )
    return not own and not name.startswith("_") and name not in OF_MODULES and not is_parameter(name)


def unwrapped(interp: Interpreter, module: Instance | TorchModule, name: str) -> Value:
    """``model.module``: the model itself, for which ``DataParallel(model)`` stands; ``_modules`` are its children."""
    if name == "module":
        replicas.unwrapped(interp, module)
        return module
    return Mapping({str(key): Binding(child) for key, child in module_tree.named_children(module)})


def set_attribute(
    interp: Interpreter, receiver: Value, name: str, value: Value, target: ast.Attribute, expression: ast.expr | None
) -> None:
    """``receiver.name = value``."""
    receiver = plain(interp, receiver)
    if isinstance(receiver, Sequence) and name in receiver.fields:
        interp.crash(f"{name!r} is a read-only attribute of a named tuple", "AttributeError")
    if isinstance(receiver, Instance) and _set_by_the_class(interp, receiver, name, value, target, expression):
        return
    set_plainly(interp, receiver, name, value, target, expression)


def _set_by_the_class(
    interp: Interpreter,
    receiver: Instance,
    name: str,
    value: Value,
    target: ast.expr,
    expression: ast.expr | None,
) -> bool:
    """Whether a property, a descriptor or the class's own ``__setattr__`` takes care of ``receiver.name = value``."""
    known, own = class_lookup.find(receiver, name), class_lookup.find(receiver, "__setattr__")
    if isinstance(own, Function) and all(frame.function is not own for frame in interp.frames):
        interp.call(Bound(own, receiver), [name, value], {}, target)
        return True
    if isinstance(own, Name) and own.path.endswith("dict.__setitem__") and isinstance(receiver.items, Mapping):
        receiver.items.items[name] = interp.slot(value, interp.source.text_of(target), expression, receiver)
        return True
    if isinstance(known, Function) and known.setter is not None:
        interp.call(Bound(known.setter, receiver), [value], {}, target)
        return True
    setter = class_lookup.find(known, "__set__") if isinstance(known, Instance) else None
    if setter is not None:
        interp.call(class_lookup.bind(setter, known), [receiver, value], {}, target)
    return setter is not None


def set_plainly(
    interp: Interpreter,
    receiver: Value,
    name: str,
    value: Value,
    target: ast.expr,
    expression: ast.expr | None,
    *,
    checked: bool = True,
) -> None:
    """Set an attribute on the receiver itself, bypassing the properties and descriptors of its class.

    Unless that is *checked*, a layer takes any tensor in the place of a parameter.
    """
    owner = receiver if isinstance(receiver, Instance) else None
    slot = interp.slot(value, interp.source.text_of(target), expression, owner)
    if interp.policy.path.entry:
        holding.given_away(interp, value)  # the caller may look at an object
    kind_of(receiver).set_attribute(interp, receiver, name, slot, Assignment(target, expression, checked))


def _replaces_parameters(nodes: Nodes) -> bool:
    """Whether a file puts tensors in the place of parameters: ``module._parameters[key] = p + update``."""
    return any(
        isinstance(target, ast.Subscript)
        and isinstance(target.value, ast.Attribute)
        and target.value.attr == "_parameters"
        for statement in nodes.of(ast.Assign)
        for target in statement.targets
    )


def put_parameter(
    interp: Interpreter, module: Value, name: Value, value: Value, target: ast.expr, expression: ast.expr | None
) -> None:
    """Put a tensor in the place of a module's parameter; of a layer's, under a name that is not known, of the first."""
    if isinstance(name, str):
        set_plainly(interp, module, name, value, target, expression, checked=False)
    elif isinstance(module, TorchModule) and module.leaf is not None and escapes.is_computed(value):
        set_plainly(interp, module, next(iter(module.leaf.parts), "weight"), value, target, expression, checked=False)
    else:
        cuts.replaced(interp.leaves_of(module))


def require_grad(interp: Interpreter, tensor: TensorRef, wanted: Value, node: ast.expr) -> None:
    """``requires_grad_(wanted)``."""
    if isinstance(wanted, Symbol) and not varies(wanted.key, interp.looked_up):
        wanted = interp.truth(wanted)
    cell = tensor.cell
    interp.activity += 1
    if cell.node is None:
        if wanted is True:
            made = interp.parameter("tensor", node, cell=cell)
            if made.cell.leaf is not None and not cell.vague and not cuts.is_unflagged(cell):
                made.cell.leaf.copied = cuts.dropped(
                    interp, [TensorRef(TensorImpl(detachment=cell.detachment))], node, "flag"
                )
        elif wanted is not False:
            cell.vague = True
    elif cell.part:
        cell.frozen = wanted is False
        if cell.leaf is not None:
            for name in cell.place:
                _freeze_part(interp, cell.leaf, str(name), cell.frozen, node)
    elif cell.node.leaf is not None:
        cuts.freeze(interp, cell.node.leaf, wanted, node)
        if cell.node.leaf.within is not None:
            _freeze_part(interp, *cell.node.leaf.within, cell.node.leaf.frozen, node)


def set_flag(interp: Interpreter, tensor: TensorRef, wanted: Value, node: ast.expr) -> None:
    """The program sets ``requires_grad``, which PyTorch refuses to change of a tensor that is no leaf.

    The method ``requires_grad_()`` may repeat that it is True.

    Source: ``THPVariable_set_requires_grad`` in torch/csrc/autograd/python_variable.cpp.
    """
    made = tensor.cell.node
    if wanted is True:
        gradients.note_whole(interp, tensor, node, written.owner(node))
    known = not (tensor.guessed or tensor.cell.unsure or tensor.cell.part)
    granted = wanted is True and isinstance(node, ast.Attribute)
    refused = (wanted is False or granted) and known and escapes.certainly_is_result(tensor)
    if made is None or not refused or interp.exceptions.may_be_handled:
        require_grad(interp, tensor, wanted, node)
        return
    site = interp.site(node)
    data = granted and gradients.is_of_data(interp, made)
    if granted:
        interp.incidents.leaves_refused.setdefault(site, Refused(bool(interp.policy.asked), made.site, data))
    else:
        interp.incidents.flags_refused.setdefault(site, made.site)
    if data or not granted:  # as it was meant
        tensor.cell.detachment = cuts.dropped(interp, [tensor], node, "detach")
        tensor.cell.node = None
    if data:
        require_grad(interp, tensor, wanted, node)


def put_in_place(interp: Interpreter, module: TorchModule | None, name: str, value: Value, node: ast.expr) -> None:
    """A parameter of torch's own module is replaced by another, which may be frozen."""
    own = module.leaf if module is not None else None
    leaf = value.cell.leaf if isinstance(value, TensorRef) else None
    if own is not None and leaf is not None and leaf is not own:
        leaf.within = own, name
        _freeze_part(interp, own, name, leaf.frozen or value.cell.frozen, node)


def _freeze_part(interp: Interpreter, leaf: Leaf, name: str, frozen: bool, node: ast.expr) -> None:
    """One parameter of a module is frozen, or not; the module is where all of them are."""
    if name not in leaf.parts:
        return
    leaf.parts[name] = frozen
    if all(leaf.parts.values()) if frozen else leaf.frozen:
        cuts.freeze(interp, leaf, not frozen, node)
