"""Reading and writing attributes."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from autofix.codemods.autograd import groups
from autofix.codemods.autograd.catalogue import VIEW_ATTRIBUTES, is_method, of_tensors, operation
from autofix.codemods.autograd.graph import Leaf, Storage
from autofix.codemods.interpreter import (
    class_lookup,
    cuts,
    distributions,
    errors,
    escapes,
    gradients,
    holding,
    module_tree,
    opaque_results,
    optimizers,
    parametrized,
)
from autofix.codemods.interpreter.generators import Generator
from autofix.codemods.interpreter.policy import varies
from autofix.codemods.interpreter.values import (
    NOTHING,
    Applied,
    Attributes,
    Binding,
    Bound,
    Class,
    Distribution,
    Exits,
    Function,
    GradMode,
    Hook,
    Instance,
    Mapping,
    Method,
    Module,
    Name,
    Optimizer,
    Record,
    Sequence,
    Super,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
    slots_of,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_NOT_TENSORS = frozenset(
    """shape ndim dtype device requires_grad is_leaf grad_fn is_cuda layout names itemsize nbytes _version
    output_nr""".split()
)
COMMAND_LINE = ("command line",)
"""The key of ``sys.argv``."""
TORCH = "2.13.0"
"""The release of PyTorch that programs are read for: what they do for older ones alone is not followed."""
_OF_DICTIONARIES = frozenset(dir(dict))
_ONLY_TENSORS = frozenset("detach detach_ backward clone".split())
_ONLY_LISTS = frozenset("append extend insert remove pop clear sort reverse copy".split())
_ONLY_CONTAINERS = frozenset("append extend clear pop popitem items keys setdefault".split())
_OF_LISTS = _ONLY_LISTS | _ONLY_CONTAINERS | frozenset("index count values get update".split())
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


_PARTS = frozenset(("real", "imag", "T", "flat"))
"""Attributes that are an array's numbers again."""


def get(interp: Interpreter, value: Value, name: str, node: ast.expr) -> Value:
    """The attribute *name* of *value*."""
    if name in _ONLY_CONTAINERS and _is_no_container(value, name):
        interp.crash(f"what has no items has no attribute {name!r}")
    getter = _GETTERS.get(type(value))
    return getter(interp, value, name, node) if getter is not None else interp.fresh_symbol("attr", name)


def _of_name(interp: Interpreter, value: Name, name: str, node: ast.expr) -> Value:
    if name == "__name__":
        return value.path.rpartition(".")[2]
    if value.path == "math" and isinstance(getattr(math, name, None), float):
        return float(getattr(math, name))
    path = f"{value.path}.{name}"
    if path in ("torch.__version__", "torch.version.__version__"):
        return TORCH
    return interp.symbol(COMMAND_LINE) if path == "sys.argv" else Name(path)


def _of_program_module(interp: Interpreter, value: Module, name: str, node: ast.expr) -> Value:
    if name == "__dict__":
        return Mapping(value.scope.names)  # type: ignore[arg-type]  # the very names
    slot = value.scope.names.get(name)
    return interp.read(slot) if slot is not None else interp.symbol(("module", value.source.path, name))


def _of_super(interp: Interpreter, value: Super, name: str, node: ast.expr) -> Value:
    instance = value.instance
    found = class_lookup.find(instance, name, value.after) if isinstance(instance, Instance) else None
    if found is not None:
        return class_lookup.bind(found, instance)
    return Method((name != "__init__" and class_lookup.exits_of(instance)) or value, name, node)


def _of_sequence(interp: Interpreter, value: Sequence, name: str, node: ast.expr) -> Value:
    if name in value.fields:
        return interp.item(value, value.fields.index(name), node)
    if name == "_fields" and value.fields:
        return _names(value.fields)
    if value.kind == "deque" and name == "maxlen":
        return value.length
    made = _method(interp, value, name, node)
    if name in _ONLY_LISTS and value.kind == "tuple":
        interp.crash(f"a tuple has no attribute {name!r}", "AttributeError")
    return made


def _of_record(interp: Interpreter, value: Record, name: str, node: ast.expr) -> Value:
    return _names(value.fields) if name == "_fields" else _method(interp, value, name, node)


def _names(fields: tuple[str, ...]) -> Sequence:
    return Sequence("tuple", [Binding(name) for name in fields])


def _of_optimizer(interp: Interpreter, value: Optimizer, name: str, node: ast.expr) -> Value:
    return optimizers.param_groups(value) if name == "param_groups" else _method(interp, value, name, node)


def _of_mapping(interp: Interpreter, value: Mapping, name: str, node: ast.expr) -> Value:
    if name in value.items and name not in _OF_DICTIONARIES:
        return interp.read(value.items[name], value)
    return _method(interp, value, name, node)


def _method(interp: Interpreter, value: Value, name: str, node: ast.expr) -> Value:
    """A method of what is no tensor."""
    if name in _ONLY_TENSORS:
        interp.crash(f"a container has no attribute {name!r}", "AttributeError")
    return Method(value, name, node)


def _of_symbol(interp: Interpreter, value: Symbol, name: str, node: ast.expr) -> Value:
    if name in _ONLY_TENSORS and value.key in interp.served:
        interp.crash(f"a loader has no attribute {name!r}", "AttributeError")
    if name in _ONLY_TENSORS and is_number(value.key):
        interp.crash(f"a number has no attribute {name!r}", "AttributeError")
    if name in _ONLY_TENSORS and _is_of_the_library(value.key):
        interp.crash(f"an object of the standard library has no attribute {name!r}", "AttributeError")
    slot = interp.attributes_of_opaque.get((value.key, name))
    if slot is None and name in _PARTS and value.detachment is not None:
        return cuts.carry(interp, interp.symbol(("attr", value.key, name)), [value], node)
    if slot is None and name == "module" and value.leaf is not None:
        return value
    if slot is None and name == "__dict__":
        return _table(interp, value, node)
    if slot is None and _is_supposed(interp, name, node):
        made = interp.parameter("parameter", node)
        assert made.cell.leaf is not None
        made.cell.leaf.supposed = True
        slot = interp.attributes_of_opaque[value.key, name] = Binding(made)
    return interp.read(slot) if slot is not None else Method(value, name, node)


def _is_of_the_library(key: Hashable) -> bool:
    """Whether a value was made by calling a class of Python's standard library: ``collections.ChainMap``."""
    match key:
        case ("new", "call", str(path), *_):
            package, _, name = path.partition(".")
            return package in sys.stdlib_module_names and name.rpartition(".")[2][:1].isupper()
    return False


def _table(interp: Interpreter, value: Symbol, node: ast.expr) -> Value:
    """What ``vars(value)`` gives: of the arguments of a command line, all that the parser was told of."""
    if value.key not in interp.options:
        return interp.fresh_symbol("vars")
    names = dict.fromkeys(interp.options[value.key])
    known: dict[Hashable, Binding] = {name: Binding(plain(interp, get(interp, value, name, node))) for name in names}
    return Mapping(Attributes(known, value, interp.attributes_of_opaque), more=True)


def _is_supposed(interp: Interpreter, name: str, node: ast.expr) -> bool:
    """Whether the program puts a parameter in the place of this attribute of an unknown object: it is one already."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    return _is_parameter(name) and isinstance(owner, ast.Name) and (owner.id, name) in interp.sources.parameters_set


def _of_function(interp: Interpreter, value: Function | Bound | Method, name: str, node: ast.expr) -> Value:
    function = value.function if isinstance(value, Bound) else value
    if isinstance(function, Function) and function.cache is not None and name == "cache_clear":
        return Method(value, name, node)
    slot = interp.attributes_of_opaque.get((_owner(interp, value), name))
    if slot is not None:
        return interp.read(slot)
    if name == "__name__" and isinstance(function, Function):
        return function.name
    if isinstance(value, Method) and isinstance(value.receiver, Symbol):
        return Method(interp.symbol(("attr", value.receiver.key, value.name)), name, node)
    return interp.fresh_symbol("attr", name)


def _of_none(interp: Interpreter, value: None, name: str, node: ast.expr) -> Value:
    interp.crash(f"None has no attribute {name!r}", "AttributeError")
    if isinstance(node, ast.Attribute):
        gradients.needed(interp, node.value)
    asked = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(asked, ast.Attribute) and asked.attr == "grad":
        interp.exceptions.exited = True  # no gradient is left in a result, so that nothing after this is reached
    return interp.fresh_symbol("attr", name)


def _of_number(interp: Interpreter, value: float, name: str, node: ast.expr) -> Value:
    if name in _ONLY_TENSORS:
        interp.crash(f"a number has no attribute {name!r}", "AttributeError")
    return interp.fresh_symbol("attr", name)


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


def _owner(interp: Interpreter, value: Value) -> Hashable:
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
            return found
        receiver = value.receiver
        made = receiver.cell.node if isinstance(receiver, TensorRef) else None
        if made is not None and made.leaf is None and not is_method(value.name):
            # An object made of tensors, such as a distribution or a result with names: what it holds is on its graph.
            part = interp.operation("select", [receiver], value.node)
            opaque_results.note_reading(interp, receiver, value.name, part)
            return part
    return value


def _given(interp: Interpreter, value: Instance, name: str, kept: Value, asked: Value | None, node: ast.expr) -> Value:
    """What an attribute, *kept* by an object, reads as: its class's ``__getattribute__``, the *asked*, is asked."""
    if not isinstance(asked, Function) or any(frame.function is asked for frame in interp.frames):
        return kept
    with errors.by_itself(interp):
        given = interp.call(Bound(asked, value), [name], {}, node)
    raised, interp.exceptions.raised = interp.exceptions.raised, False
    return interp.fresh_symbol("attr", name) if raised else given


def _of_instance(interp: Interpreter, value: Instance, name: str, node: ast.expr) -> Value:
    intercepts = interp.sources.intercepts_attributes
    asked = class_lookup.find(value, "__getattribute__") if intercepts else None
    slot = value.names.get(name)
    if slot is not None and not _is_described(value, name):
        return _given(interp, value, name, interp.read(slot, value), asked, node)
    computed = parametrized.get(interp, value, name, node)
    if computed is not None:
        return computed
    if asked is not None:
        return interp.fresh_symbol("attr", name)
    found = class_lookup.find(value, name)
    if isinstance(found, Instance):
        getter = class_lookup.find(found, "__get__")
        if getter is not None:
            return interp.call(class_lookup.bind(getter, found), [value, value.cls], {}, node)
    if isinstance(found, Function) and found.flavour == "property":
        if found.cached_by is not None:
            return interp.cached_attribute(found, value, node)
        return interp.call(Bound(found, value), [], {}, node)
    if found is not None:
        return class_lookup.bind(found, value)
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return Mapping(value.names)  # type: ignore[arg-type]  # the very names, so that an update is one of them
    base = class_lookup.base_module(value)
    if base is not None and _is_parameter(name):
        return _of_module(interp, base, name, node)
    if class_lookup.is_module(value) and name == "training":
        return True  # until somebody says `eval()`
    if value.items is not None:
        if (
            isinstance(value.items, Mapping)
            and name in value.items.items
            and class_lookup.find(value, "__getattr__") is not None
        ):
            return interp.read(value.items.items[name], value.items)
        _note_tensors_own(interp, value, name)
        return Method(value.items, name, node)
    if class_lookup.is_module(value) and name in ("module", "_modules"):
        return _unwrapped(value, name)
    inherited = name in (OF_MODULES if base is not None else _OF_EVERY_MODULE) and class_lookup.is_module(value)
    given = MISSING if inherited else by_getattr(interp, value, name, node)
    if given is not MISSING:
        return given
    if name in interp.sources.set_attributes and not inherited and class_lookup.find(value, "__getattr__") is None:
        # Told, and no more: what the tape does not see may have set it, but no patch may be the first to miss it.
        interp.crash(f"`{value.cls.name}` has no attribute {name!r} yet")
    if class_lookup.find(value, "__getattr__") is not None:
        interp.log.unresolved.add(name)
    _note_tensors_own(interp, value, name)
    return Method(class_lookup.exits_of(value) or value, name, node)


def _note_tensors_own(interp: Interpreter, value: Instance, name: str) -> None:
    """Note that an object of the program is asked for a method that only tensors have, and that its class lacks."""
    if name not in _ONLY_TENSORS or value.cls.metaclass is not None:
        return
    bases = [base for base in class_lookup.lineage(value.cls) if isinstance(base, (Class, Name))]
    known = all(isinstance(base, Class) or _KNOWN_BASES.match(base.path) for base in bases)
    asked = class_lookup.find(value, "__getattr__")
    if isinstance(asked, Function) and _only_looks_up(asked.node) and value.items is not None:
        known, asked = known and not value.items.more, None  # it has what its items have
    if known and asked is None:
        interp.crash(f"`{value.cls.name}` has no attribute {name!r}")


_KNOWN_BASES = re.compile(r"(builtins|abc|typing|types|collections|enum)\.|torch\.nn\.(modules\.module\.)?Module$")
"""Library classes of which it is known that they have no method of tensors."""

MISSING = object()
"""What stands for an attribute that is not known."""


def by_getattr(interp: Interpreter, value: Instance, name: str, node: ast.expr) -> Value:
    """The attribute that the class's own ``__getattr__`` returns; ``MISSING`` where that is not known for certain."""
    found = class_lookup.find(value, "__getattr__")
    if not isinstance(found, Function) or name.startswith("__") or not _only_looks_up(found.node):
        return MISSING
    if any(frame.function is found for frame in interp.frames):  # an attribute that it asks for itself
        return MISSING
    with errors.by_itself(interp):
        given = interp.call(Bound(found, value), [name], {}, node)
    raised, interp.exceptions.raised = interp.exceptions.raised, False
    if isinstance(given, Method) and isinstance(given.receiver, Optimizer) and given.name in optimizers.METHODS:
        return given
    return MISSING if raised or isinstance(given, (Symbol, Method, Name)) else given


def _only_looks_up(function: ast.AST) -> bool:
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


_OF_EVERY_MODULE = frozenset(
    (
        "add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval "
        "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict "
        "modules mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook "
        "register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook "
        "register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook "
        "register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ "
        "set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu zero_grad"
    ).split()
)
"""Attributes of every ``nn.Module``, whatever else the program sets; :data:`OF_MODULES` are those of some module."""


def _of_class(interp: Interpreter, value: Class, name: str, node: ast.expr) -> Value:
    if name in ("__name__", "__qualname__"):
        return value.name
    if name in ("_make", "_fields") and class_lookup.is_named_tuple(value):
        return _of_record(interp, Record(tuple(one.name for one in class_lookup.fields_of(value))), name, node)
    for cls in class_lookup.lineage(value):
        if isinstance(cls, Class) and name in cls.names:
            slot = cls.names[name]
            if isinstance(slot.value, Function) and slot.value.flavour == "classmethod":
                return Bound(slot.value, value)
            return interp.read(slot)
        if isinstance(cls, Name) and cls.path != "builtins.object":
            return (
                Applied(value) if name == "apply" and cls.path in class_lookup.FUNCTIONS else Name(f"{cls.path}.{name}")
            )
    of_kind = class_lookup.find(Instance(value.metaclass), name) if value.metaclass is not None else None
    if isinstance(of_kind, (Sequence, Mapping)):
        return of_kind
    return interp.fresh_symbol("attr", name)


def _of_tensor(interp: Interpreter, value: TensorRef, name: str, node: ast.expr) -> Value:
    unread = value.cell.unsure or (value.cell.node is not None and value.cell.node.opaque)
    if unread and not (name[0] == "_" or name in of_tensors() or name in interp.sources.set_attributes):
        note_part(interp, value.cell, name)
    elif name not in _OF_LISTS:
        value.cell.unsure = False
    if name == "detach":
        value.cell.detachable = True
        _require_one_kind(interp, value.cell)
    if name == "data":
        return interp.detached(value, node, own_version=True)
    made = value.cell.node
    field = operation(made.operation).saved_field(name) if made is not None else None
    if field is not None:
        return interp.item(value, field, node)
    if name in _ONLY_TENSORS and made is not None and len(operation(made.operation).fields) > 1:
        interp.crash(f"a tuple has no attribute {name!r}", "AttributeError")
    if name in ("grad", "_grad"):
        if value.cell.leaf is not None:
            value.cell.leaf.asked = True
            interp.tape.asked[interp.statement] = value.cell.leaf
        elif _has_no_gradient(interp, value):
            gradients.note_missing(interp, value, node)
            return None
        identity = interp.identity(value.cell.leaf or value.cell)
        return interp.symbol(("grad", identity) if interp.sources.keeps_derivatives else ("grad", identity, "data"))
    if name in groups.SHAPES:
        # Code that decides by the shape would not send back a tensor of several elements.
        if value.cell.node is None:
            value.cell.extent = NOTHING
        elif value.cell.extent.several:
            interp.measured.add(interp.identity(value.cell))
    if name in ("requires_grad", "grad_fn"):
        return _recorded(interp, value, name)
    if name == "is_leaf":
        made = _recorded(interp, value, "grad_fn")
        return made if isinstance(made, Symbol) else made is None
    if name == "_version":
        return value.cell.storage.version
    if name in _NOT_TENSORS:
        if name in groups.SHAPES:
            return size_of(interp, value, ("attr", None, name))
        return interp.symbol(("attr", interp.identity(value.cell), name))
    if name in VIEW_ATTRIBUTES:
        return interp.operation("transpose", [value], node, view=value)
    owners = _owners(interp, value.cell)
    slot = next(filter(None, (interp.attributes_of_opaque.get((owner, name)) for owner in owners)), None)
    return interp.read(slot) if slot is not None else Method(value, name, node)


def note_part(interp: Interpreter, cell: TensorImpl, part: Value) -> None:
    """What was taken for a tensor is asked for a *part*; if by a name, it is the record that a model returns."""
    if isinstance(part, str):
        cell.named = True
        _require_one_kind(interp, cell)


def _require_one_kind(interp: Interpreter, cell: TensorImpl) -> None:
    """A record has no ``detach``, before or behind the place where its parts are asked for."""
    if cell.named and cell.detachable:
        interp.crash("a record of tensors has no detach")


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


def _owners(interp: Interpreter, cell: TensorImpl) -> tuple[Hashable, ...]:
    """Keys under which the attributes of a tensor are kept, the first of which has them.

    A parameter is a new reference for whoever goes through ``parameters()``, where it stands for all those of a layer.
    """
    if cell.leaf is None or cell.node is not cell.leaf.node:
        return (("tensor", interp.identity(cell)),)
    leaf = interp.identity(cell.leaf)
    return (("leaf", leaf, cell.place if cell.part else "last part"), ("leaf", leaf, "all"))


def _set_on_parameter(interp: Interpreter, cell: TensorImpl, name: str, slot: Binding) -> None:
    """Set an attribute of a parameter, or of all those that a leaf stands for."""
    kept = interp.attributes_of_opaque
    own, of_all = _owners(interp, cell)
    if cell.part:
        kept[own, name] = kept[("leaf", interp.identity(cell.leaf), "last part"), name] = slot
        return
    for owner, other in [key for key in kept if key[1] == name]:
        if isinstance(owner, tuple) and owner[:2] == ("leaf", interp.identity(cell.leaf)):
            del kept[owner, other]
    kept[of_all, name] = slot


def _has_no_gradient(interp: Interpreter, value: TensorRef) -> bool:
    """Whether no pass leaves a gradient in a tensor: in data, and in a result unless it is told to retain it."""
    if value.guessed or interp.sources.retains_gradients:
        return False
    return escapes.certainly_has_no_graph(value) or escapes.certainly_has_graph(value, leaves=False)


def _recorded(interp: Interpreter, value: TensorRef, name: str) -> Value:
    """``requires_grad``, and ``grad_fn``, of which only the None of a leaf or of data says something."""
    cell = value.cell
    if cell.node is None and not (cell.vague or cell.unsure):
        return False if name == "requires_grad" else None
    if escapes.certainly_has_graph(value):
        if name == "requires_grad":
            return True
        return Name("torch.autograd.Node") if cell.node is not None and cell.node.leaf is None else None
    return interp.symbol(("attr", interp.identity(cell), name))


def _is_parameter(name: str) -> bool:
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
        or (_owner(interp, module), name) in interp.attributes_of_opaque
    )
    return not own and not name.startswith("_") and name not in OF_MODULES and not _is_parameter(name)


def _of_module(interp: Interpreter, value: TorchModule, name: str, node: ast.expr) -> Value:
    slot = value.children.get(name) or interp.attributes_of_opaque.get((_owner(interp, value), name))
    if slot is not None:
        return interp.read(slot)
    computed = parametrized.get(interp, value, name, node)
    if computed is not None:
        return computed
    if value.leaf is not None and _is_parameter(name):
        # A bias is added: only a norm saves it.
        storage = Storage() if name.startswith("bias") and "Norm" not in value.kind else value.leaf.storage
        cell = TensorImpl(node=value.leaf.node, storage=storage, leaf=value.leaf, part=True, place=(name,))
        tensor = TensorRef(cell)
        value.children[name] = Binding(tensor)
        return tensor
    if name in value.options:
        return value.options[name]
    if name == "__class__":
        return value.cls
    if name in ("module", "_modules"):
        return _unwrapped(value, name)
    return Method(value, name, node)


def _unwrapped(module: Instance | TorchModule, name: str) -> Value:
    """``model.module``: the model itself, for which ``DataParallel(model)`` stands; ``_modules`` are its children."""
    if name == "module":
        return module
    return Mapping({str(key): Binding(child) for key, child in module_tree.named_children(module)})


_GETTERS: dict[type, Callable[[Interpreter, Any, str, ast.expr], Value]] = {
    Instance: _of_instance,
    TensorRef: _of_tensor,
    Name: _of_name,
    Module: _of_program_module,
    Super: _of_super,
    Class: _of_class,
    TorchModule: _of_module,
    Sequence: _of_sequence,
    Distribution: distributions.attribute,
    Mapping: _of_mapping,
    Record: _of_record,
    Optimizer: _of_optimizer,
    **dict.fromkeys((str, bytes, Hook, Generator, Exits, GradMode), _method),
    Symbol: _of_symbol,
    **dict.fromkeys((Function, Bound, Method), _of_function),
    type(None): _of_none,
    **dict.fromkeys((bool, int, float), _of_number),
}


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


def _is_described(value: Instance, name: str) -> bool:
    """Whether the class has a descriptor under this name that comes before what the object has."""
    found = class_lookup.find(value, name)
    return isinstance(found, Instance) and class_lookup.find(found, "__set__") is not None


def _table_of(value: Value) -> Mapping | None:
    """The dictionary that a value is, or that it is by its class."""
    table = value.items if isinstance(value, Instance) else value
    return table if isinstance(table, Mapping) and not table.more else None


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
    match receiver:
        case Instance() if name == "__dict__" and (table := _table_of(value)) is not None:
            receiver.names = table.items  # type: ignore[assignment]  # the very names, shared with whoever has them
            receiver.whole, receiver.kept = False, ()
        case Instance():
            former = receiver.names.get(name)
            if former is not None and former.value is not value:
                holding.given_up(interp, former.value)
                if interp.statement in interp.tape.asked and class_lookup.is_module(receiver):
                    gradients.note_refused(interp, former.value, value, expression, target)
            receiver.names[name] = slot
            receiver.whole, receiver.kept = False, ()
            _put_in_place(interp, class_lookup.base_module(receiver), name, value, target)
        case TorchModule():
            if checked and receiver.leaf is not None and _is_parameter(name) and _is_no_parameter(value):
                interp.crash(f"`{name}` of a layer is a parameter, and takes no other tensor")
                if interp.statement in interp.tape.asked and name in receiver.children:
                    gradients.note_refused(interp, receiver.children[name].value, value, expression, target)
            if name == "inplace":
                receiver.options[name] = value
                receiver.site = interp.site(target)
            elif receiver.kind in CONTAINERS and not isinstance(value, (Instance, TorchModule)):
                interp.attributes_of_opaque[_owner(interp, receiver), name] = slot  # not one of its modules
            else:
                receiver.children[name] = slot
                _put_in_place(interp, receiver, name, value, target)
        case Class():
            receiver.names[name] = slot
        case Module():
            receiver.scope.names[name] = slot
        case Name(path="torch.Tensor"):
            interp.tensor_methods[name] = slot
        case TensorRef():
            _set_on_tensor(interp, receiver, name, value, slot, target)
        case Symbol():
            interp.attributes_of_opaque[receiver.key, name] = slot
        case Function() | Bound():
            interp.attributes_of_opaque[_owner(interp, receiver), name] = slot
        case Mapping():
            receiver.items[name] = slot


def put_parameter(
    interp: Interpreter, module: Value, name: Value, value: Value, target: ast.expr, expression: ast.expr | None
) -> None:
    """Put a tensor in the place of a module's parameter; of a layer's, under a name that is not known, of the first."""
    if isinstance(name, str):
        set_plainly(interp, module, name, value, target, expression, checked=False)
    elif isinstance(module, TorchModule) and module.leaf is not None and escapes.is_computed(value):
        set_plainly(interp, module, next(iter(module.leaf.parts), "weight"), value, target, expression, checked=False)


def _set_on_tensor(
    interp: Interpreter, tensor: TensorRef, name: str, value: Value, slot: Binding, target: ast.expr
) -> None:
    cell = tensor.cell
    if name == "requires_grad":
        require_grad(interp, tensor, value, target)
    elif name == "grad":
        if cell.leaf is not None:
            cell.leaf.given = value is not None
            if value is None:
                cell.leaf.grads.clear()
    elif name == "data":
        cell.single = False
        interp.change_by_hand(tensor)
    elif cell.leaf is not None and cell.node is cell.leaf.node:
        _set_on_parameter(interp, cell, name, slot)
    else:
        interp.attributes_of_opaque[("tensor", interp.identity(cell)), name] = slot


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


def _put_in_place(interp: Interpreter, module: TorchModule | None, name: str, value: Value, node: ast.expr) -> None:
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
