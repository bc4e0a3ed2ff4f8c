"""Objects and classes of the program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import (
    attributes,
    calls,
    class_lookup,
    comparisons,
    cuts,
    definitions,
    elements,
    errors,
    frameworks,
    gradients,
    holding,
    mapping_keys,
    parametrized,
    python_classes,
    streams,
    unknown_calls,
    unpacking,
    written,
)
from autofix.codemods.interpreter.generators import Exhausted
from autofix.codemods.interpreter.kinds.kind import (
    CONTAINERS,
    ONLY_TENSORS,
    TENSORS,
    Assignment,
    Copied,
    Kind,
    kind,
    kind_of,
)
from autofix.codemods.interpreter.library import modules
from autofix.codemods.interpreter.state.environment import Frame
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import (
    Applied,
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Method,
    Name,
    Record,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


_KNOWN_BASES = re.compile(r"(builtins|abc|typing|types|collections|enum)\.|torch\.nn\.(modules\.module\.)?Module$")
"""Library classes of which it is known that they have no method of tensors."""
_OF_DATACLASSES = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
OF_EVERY_MODULE = frozenset(
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
"""Attributes of every ``nn.Module``, whatever else the program sets; ``attributes.OF_MODULES`` are those of some."""


@kind(Instance)
class InstanceKind(Kind[Instance]):
    """An object of a class of the program."""

    def call(
        self, interp: Interpreter, value: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return calls.call_hooked(interp, value, args, keywords, node)

    def call_method(
        self,
        interp: Interpreter,
        value: Instance,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if name in frameworks.STARTS and frameworks.step_of(value):
            frameworks.drive(interp, value, node)
            return None
        if name == "__setattr__" and len(args) == 2 and isinstance(args[0], str):
            target = ast.copy_location(ast.Attribute(node, args[0], ast.Store()), node)
            attributes.set_attribute(interp, value, args[0], args[1], target, None)
            return None
        if name in ("_replace", "_asdict") and class_lookup.is_named_tuple(value.cls):
            return _of_record(interp, value, name, keywords, node)
        owner = attributes.plain(interp, Method(value, name, node))
        if isinstance(owner, Symbol) and unknown_calls.is_model(interp, owner.key):  # of a base that was not read
            return unknown_calls.call_unknown(interp, owner, "", args, keywords, node)
        return modules.call_module_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Instance, name: str, node: ast.expr) -> Value:
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
        if base is not None and attributes.is_parameter(name):
            return interp.attribute(base, name, node)
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
            return attributes.unwrapped(interp, value, name)
        inherited = name in (attributes.OF_MODULES if base is not None else OF_EVERY_MODULE) and class_lookup.is_module(
            value
        )
        given = attributes.MISSING if inherited else attributes.by_getattr(interp, value, name, node)
        if given is not attributes.MISSING:
            return given
        if name in interp.sources.set_attributes and not inherited and class_lookup.find(value, "__getattr__") is None:
            # Told, and no more: what the tape does not see may have set it, but no patch may be the first to miss it.
            interp.crash(f"`{value.cls.name}` has no attribute {name!r} yet")
        if class_lookup.find(value, "__getattr__") is not None:
            interp.log.unresolved.add(name)
        _note_tensors_own(interp, value, name)
        return Method(class_lookup.exits_of(value) or value, name, node)

    def set_attribute(self, interp: Interpreter, value: Instance, name: str, slot: Binding, by: Assignment) -> None:
        value.whole, value.kept = False, ()
        if name == "__dict__" and (table := _table_of(slot.value)) is not None:
            value.names = table.items  # type: ignore[assignment]  # the very names, shared with whoever has them
            return
        former = value.names.get(name)
        if former is not None and former.value is not slot.value:
            holding.given_up(interp, former.value, slot.value)
            cuts.put_in_place(former.value, slot.value)
            if interp.statement in interp.incidents.asked and class_lookup.is_module(value):
                gradients.note_refused(interp, former.value, slot.value, by.expression, by.target)
        value.names[name] = slot
        attributes.put_in_place(interp, class_lookup.base_module(value), name, slot.value, by.target)

    def item(self, interp: Interpreter, value: Instance, index: Value, node: ast.expr) -> Value:
        found = class_lookup.find(value, "__getitem__")
        if found is not None:
            return interp.call(class_lookup.bind(found, value), [index], {}, node)
        held = class_lookup.base_module(value) or value.items
        return interp.fresh_symbol("item") if held is None else interp.item(held, index, node)

    def set_item(self, interp: Interpreter, value: Instance, index: Value, given: Value, by: Assignment) -> None:
        found = class_lookup.find(value, "__setitem__")
        held = class_lookup.base_module(value) if value.items is None else value.items
        if found is not None:
            interp.call(class_lookup.bind(found, value), [index, given], {}, by.target)
        elif held is not None:
            elements.set_item(interp, held, index, given, by.target, by.expression)

    def delete_item(self, interp: Interpreter, value: Instance, index: Value) -> None:
        held = class_lookup.base_module(value)
        if held is not None:
            kind_of(held).delete_item(interp, held, index)

    def iterate(self, interp: Interpreter, value: Instance, node: ast.expr) -> Stream | None:
        found = class_lookup.find(value, "__iter__")
        if found is None:
            base = class_lookup.base_module(value)
            return streams.stream(interp, base, node) if base is not None else None
        made = interp.call(class_lookup.bind(found, value), [], {}, node)
        if not isinstance(made, Instance):
            return streams.stream(interp, made, node)
        following = class_lookup.find(made, "__next__")
        if following is None:
            return streams.unknown(interp, made, node)
        bound = class_lookup.bind(following, made)
        return Stream(None, lambda at, exact: _next_of(interp, bound, node))

    def truth(self, interp: Interpreter, value: Instance, *, likely: bool, optional: bool) -> bool:
        held: Value = value.items
        if held is None and (asked := class_lookup.find(value, "__bool__")) is not None:
            held = interp.call(class_lookup.bind(asked, value), [], {}, comparisons.NOWHERE)
        elif held is None:
            return True
        return kind_of(held).truth(interp, held, likely=likely, optional=optional)

    def length(self, interp: Interpreter, value: Instance, node: ast.expr) -> Value:
        if (found := class_lookup.find(value, "__len__")) is not None:
            return interp.call(class_lookup.bind(found, value), [], {}, node)
        base = class_lookup.base_module(value)
        return super().length(interp, value, node) if base is None else kind_of(base).length(interp, base, node)

    def leaves(self, interp: Interpreter, value: Instance, seen: set[int]) -> Iterator[Leaf]:
        for slot in value.names.values():
            held = isinstance(slot.value, TensorRef) and slot.value.cell.leaf is not None
            if held or isinstance(slot.value, (Instance, TorchModule, Symbol)):
                yield from interp.leaves_of(slot.value, seen)

    def deep_copy(self, interp: Interpreter, value: Instance, copied: Copied, node: ast.expr) -> Value:
        if (own := class_lookup.find(value, "__deepcopy__")) is not None:
            return interp.call(class_lookup.bind(own, value), [Mapping(more=True)], {}, node)
        made = copied.known[id(value)] = Instance(value.cls)
        for name, slot in value.names.items():
            if name != "_buffers":
                made.names[name] = Binding(copied.of(slot.value))
        if "_buffers" in value.names:
            for name in class_lookup.registered(value):
                class_lookup.registered(made).add(name)
        return made

    def contains(self, interp: Interpreter, value: Instance, item: Value) -> Value:
        found = class_lookup.find(value, "__contains__")
        if found is None:
            return super().contains(interp, value, item)
        return interp.call(class_lookup.bind(found, value), [item], {}, comparisons.NOWHERE)

    def is_part(self, value: Instance) -> bool:
        return True

    def type_of(self, value: Instance) -> Value:
        return value.cls

    def is_instance(self, value: Instance, cls: Name | Class | Record) -> bool | None:
        if isinstance(cls, Name):
            derived = python_classes.is_derived(value.cls, cls.path)
            if derived is not None:
                return derived
            if cls.path.startswith("torch.nn.") and cls.last not in TENSORS | unknown_calls.PARALLEL:
                return class_lookup.is_layer(value.cls, cls)
            is_no_wrapper = cls.last in unknown_calls.PARALLEL and class_lookup.is_module(value)
            return False if is_no_wrapper or cls.last in CONTAINERS else super().is_instance(value, cls)
        if isinstance(cls, Class) and any(isinstance(base, Name) and base.last == "Protocol" for base in cls.bases):
            wanted = {*cls.names, *(one.name for one in class_lookup.fields_of(cls))}
            return all(name in value.names or class_lookup.find(value, name) is not None for name in wanted)
        known = class_lookup.is_of_class(value.cls, cls)
        return known if known or not (isinstance(cls, Class) and class_lookup.answers_itself(cls)) else None

    def has(self, interp: Interpreter, value: Instance, name: str) -> bool | None:
        """Whether the object has it; None where an unknown base may have it."""
        if name in value.names or class_lookup.find(value, name) is not None or hasattr(object, name):
            return True
        if name in _OF_DATACLASSES and class_lookup.is_dataclass(value.cls):
            return True
        if class_lookup.find(value, "__getattr__") is not None:
            is_item = isinstance(value.items, Mapping) and name in value.items.items
            given = attributes.by_getattr(interp, value, name, comparisons.NOWHERE)
            return True if is_item or not (given is attributes.MISSING or isinstance(given, Symbol)) else None
        bases = (base for base in class_lookup.lineage(value.cls) if isinstance(base, (Class, Name)))
        known = all(isinstance(base, Class) or base.path.endswith(("Module", "object")) for base in bases)
        return False if known else None

    def decorate(self, interp: Interpreter, decorator: Instance, value: Value, node: ast.expr) -> Value:
        """What a context manager decorates is called within it; a callable object is called with it."""
        bases = class_lookup.lineage(decorator.cls)
        is_manager = any(isinstance(base, Name) and base.path == "contextlib.ContextDecorator" for base in bases)
        if isinstance(value, Function) and is_manager:
            value.managers = (*value.managers, decorator)
            return value
        is_called = class_lookup.find(decorator, "__call__") is not None
        return definitions.applied(interp, decorator, value, node) if is_called else value

    def is_callable(self, value: Instance) -> bool:
        return True

    def copy(self, interp: Interpreter, value: Instance, node: ast.expr) -> Value:
        if (own := class_lookup.find(value, "__copy__")) is not None:
            return interp.call(class_lookup.bind(own, value), [], {}, node)
        if class_lookup.is_module(value):
            return super().copy(interp, value, node)
        made = Instance(value.cls)
        made.names = dict(value.names)
        return made


@kind(Class)
class ClassKind(Kind[Class]):
    """A class of the program."""

    def call(
        self, interp: Interpreter, value: Class, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        """A new object of the class, or what the ``__call__`` of its metaclass gives in its place."""
        if class_lookup.is_typed_dict(value):
            return interp.call(Name("builtins.dict"), args, keywords, node)
        own = class_lookup.find(Instance(value.metaclass), "__call__") if value.metaclass is not None else None
        if not isinstance(own, Function) or any(_is_called_for(frame, own, value) for frame in interp.frames):
            return calls.instantiate(interp, value, args, keywords, node)
        return calls.call_function(interp, own, [value, *args], keywords, node)

    def call_method(
        self,
        interp: Interpreter,
        value: Class,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if name == "register" and len(args) == 1 and isinstance(args[0], Class):
            if value not in args[0].registered:
                args[0].registered.append(value)
            return args[0]
        if name == "_make" and len(args) == 1:
            return interp.call(value, unpacking.unpacked(interp, args[0], None, node), {}, node)
        return super().call_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Class, name: str, node: ast.expr) -> Value:
        if name in ("__name__", "__qualname__"):
            return value.name
        if name == "register" and class_lookup.is_abstract(value) and class_lookup.find(Instance(value), name) is None:
            return Method(value, name, node)
        if name in ("__mro__", "__bases__", "__base__", "__module__"):
            return _of_every_class(interp, value, name)
        if name in ("_make", "_fields") and class_lookup.is_named_tuple(value):
            record = Record(tuple(one.name for one in class_lookup.fields_of(value)))
            return interp.attribute(record, name, node)
        for cls in class_lookup.lineage(value):
            if isinstance(cls, Class) and name in cls.names:
                slot = cls.names[name]
                if isinstance(slot.value, Function) and slot.value.flavour == "classmethod":
                    return Bound(slot.value, value)
                return interp.read(slot)
            if isinstance(cls, Name) and cls.path != "builtins.object":
                return (
                    Applied(value)
                    if name == "apply" and cls.path in class_lookup.FUNCTIONS
                    else Name(f"{cls.path}.{name}")
                )
        of_kind = class_lookup.find(Instance(value.metaclass), name) if value.metaclass is not None else None
        if isinstance(of_kind, (Sequence, Mapping)):
            return of_kind
        return interp.fresh_symbol("attr", name)

    def has(self, interp: Interpreter, value: Class, name: str) -> bool | None:
        """Whether the class has it; None where its bases or its metaclass may give it one."""
        if value.metaclass is not None or name in value.members or (name.startswith("__") and name.endswith("__")):
            return None
        return kind_of(Instance(value)).has(interp, Instance(value), name)

    def decorate(self, interp: Interpreter, decorator: Class, value: Value, node: ast.expr) -> Value:
        return definitions.applied(interp, decorator, value, node)

    def is_callable(self, value: Class) -> bool:
        return True

    def set_attribute(self, interp: Interpreter, value: Class, name: str, slot: Binding, by: Assignment) -> None:
        value.names[name] = slot

    def item(self, interp: Interpreter, value: Class, index: Value, node: ast.expr) -> Value:
        if isinstance(index, str) and index in value.members:
            return value.members[index]
        return value if class_lookup.is_generic(value) else super().item(interp, value, index, node)

    def iterate(self, interp: Interpreter, value: Class, node: ast.expr) -> Stream | None:
        members = list(value.members.values())
        return Stream(len(members), lambda at, exact: members[at], streams.PARTS) if members else None


_OBJECT = Name("builtins.object")


def _of_every_class(interp: Interpreter, cls: Class, name: str) -> Value:
    """``__mro__``, ``__bases__``, ``__base__`` or ``__module__`` of a class."""
    if name == "__module__":
        told = calls.outermost(cls.scope).names.get("__name__") if cls.scope is not None else None
        return interp.read(told) if told is not None else interp.symbol(("attr", interp.identity(cls.source), name))
    bases = class_lookup.lineage(cls) if name == "__mro__" else cls.bases
    classes = [*bases, *([_OBJECT] if name == "__mro__" or not bases else [])]
    return classes[0] if name == "__base__" else Sequence("tuple", [Binding(one) for one in classes])


def _given(interp: Interpreter, value: Instance, name: str, kept: Value, asked: Value | None, node: ast.expr) -> Value:
    """What an attribute, *kept* by an object, reads as: its class's ``__getattribute__``, the *asked*, is asked."""
    if not isinstance(asked, Function) or any(frame.function is asked for frame in interp.frames):
        return kept
    with errors.by_itself(interp):
        given = interp.call(Bound(asked, value), [name], {}, node)
    raised, interp.exceptions.raised = interp.exceptions.raised, False
    return interp.fresh_symbol("attr", name) if raised else given


def _note_tensors_own(interp: Interpreter, value: Instance, name: str) -> None:
    """Note that an object of the program is asked for a method that only tensors have, and that its class lacks."""
    if name not in ONLY_TENSORS or value.cls.metaclass is not None:
        return
    bases = [base for base in class_lookup.lineage(value.cls) if isinstance(base, (Class, Name))]
    known = all(isinstance(base, Class) or _KNOWN_BASES.match(base.path) for base in bases)
    asked = class_lookup.find(value, "__getattr__")
    if isinstance(asked, Function) and attributes.only_looks_up(asked.node) and value.items is not None:
        known, asked = known and not value.items.more, None  # it has what its items have
    if known and asked is None:
        interp.crash(f"`{value.cls.name}` has no attribute {name!r}")


def _is_described(value: Instance, name: str) -> bool:
    """Whether the class has a descriptor under this name that comes before what the object has."""
    found = class_lookup.find(value, name)
    return isinstance(found, Instance) and class_lookup.find(found, "__set__") is not None


def _table_of(value: Value) -> Mapping | None:
    """The dictionary that a value is, or that it is by its class."""
    table = value.items if isinstance(value, Instance) else value
    return table if isinstance(table, Mapping) and not table.more else None


def _next_of(interp: Interpreter, following: Value, node: ast.expr) -> Value:
    """The next item of an object with ``__next__``."""
    with errors.by_itself(interp):
        item = interp.call(following, [], {}, node)
    if interp.exceptions.raised:  # StopIteration
        interp.exceptions.raised = False
        raise Exhausted
    return item


def _is_called_for(frame: Frame, function: Function, cls: Class) -> bool:
    """Whether a frame is a call of a metaclass's method for a class: ``super().__call__(*args)`` makes the object."""
    first = next(iter(frame.scope.names.values()), None)
    return frame.function is function and first is not None and first.value is cls


def _of_record(
    interp: Interpreter, record: Instance, name: str, keywords: dict[str, Value], node: ast.expr
) -> Instance | Mapping:
    """``_replace`` and ``_asdict`` of a named tuple that has methods of its own."""
    if name == "_asdict":
        fields = [one.name for one in class_lookup.fields_of(record.cls) if one.name in record.names]
        return Mapping(
            {mapping_keys.mapping_key(interp, field): Binding(record.names[field].value) for field in fields}
        )
    changed = Instance(record.cls, dict(record.names), whole=True)
    for field, value in keywords.items():
        changed.names[field] = interp.slot(value, field, written.keyword(node, field))
    return changed
