"""Classes of the program: the order of their bases, their attributes and fields, and the torch or Python base."""

from __future__ import annotations

import ast
from typing import NamedTuple, TypeGuard

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Exits,
    Function,
    Instance,
    Mapping,
    Name,
    Partial,
    Record,
    Registered,
    TorchModule,
    Value,
)
from autofix.codemods.source.sources import last_name

FUNCTIONS = frozenset(("torch.autograd.Function", "torch.autograd.function.Function"))


def lineage(cls: Class) -> list[Value]:
    """The class and its bases, in the order in which attributes are looked up in them.

    Source: "The Python 2.3 Method Resolution Order", which is Python's order still.
    """
    if cls.lineage is None:
        cls.lineage = _lineage(cls)
    return cls.lineage


def _lineage(cls: Class) -> list[Value]:
    if len(cls.bases) < 2:
        return [cls, *(one for base in cls.bases for one in (lineage(base) if isinstance(base, Class) else [base]))]
    ways = [list(lineage(base)) if isinstance(base, Class) else [base] for base in cls.bases]
    ways.append(list(cls.bases))
    found: list[Value] = [cls]
    while ways := [way for way in ways if way]:
        heads = (way[0] for way in ways if not any(way[0] in other[1:] for other in ways))
        following = next(heads, ways[0][0])  # where there is no such order, Python refuses the class
        found.append(following)
        ways = [[one for one in way if one != following] for way in ways]
    return found


ENUMERATIONS = frozenset(("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"))

_OF_PLAIN = frozenset(("IntEnum", "StrEnum", "IntFlag", "int", "str"))


def last_names(cls: Class) -> set[str]:
    """The last names of the classes behind *cls* that are not the program's own."""
    return {base.last for base in lineage(cls) if isinstance(base, Name)}


def is_generic(cls: Class) -> bool:
    """Whether ``cls[int]`` is the class itself."""
    return bool(last_names(cls) & {"Generic", "Protocol"})


def number_of(value: Value) -> Value:
    """The number, or the text, that a member of an ``IntEnum`` or a ``(str, Enum)`` is."""
    if isinstance(value, Instance) and value.cls.members and last_names(value.cls) & _OF_PLAIN:
        return value.names["value"].value
    return value


def is_named_tuple(cls: Class) -> bool:
    """Whether a class is derived from ``typing.NamedTuple``."""
    return any(isinstance(base, Name) and base.last == "NamedTuple" for base in cls.bases)


def is_typed_dict(cls: Class) -> bool:
    """Whether a class is derived from ``typing.TypedDict``: a call of it makes a plain dictionary."""
    return "TypedDict" in last_names(cls)


def is_container(cls: Class, name: str) -> bool:
    """Whether a class is derived from Python's own container *name*; a named tuple's is one of ``tuple``."""
    return name in last_names(cls) or (
        name == "tuple" and any(is_named_tuple(one) for one in lineage(cls) if isinstance(one, Class))
    )


def is_of_class(cls: Class | Record | None, wanted: Class | Record) -> bool:
    """Whether the objects of *cls* are those of the *wanted* one; the class of a plain list or tuple is None."""
    if cls is wanted or not isinstance(cls, Class):
        return cls is wanted
    if wanted in lineage(cls):
        return True
    return any(is_of_class(one, wanted) for one in registrations(cls) if isinstance(one, Class))


def registrations(cls: Class) -> list[Value]:
    """The abstract classes with which a class, or one that it is derived from, was registered."""
    return [one for base in lineage(cls) if isinstance(base, Class) for one in base.registered]


def is_abstract(cls: Class) -> bool:
    """Whether the metaclass of a class is ``ABCMeta``, so that other classes can be registered with it."""
    if last_names(cls) & {"ABC", "Protocol"}:
        return True
    written = [one.node for one in lineage(cls) if isinstance(one, Class)]
    return any(last_name(keyword.value) == "ABCMeta" for node in written for keyword in node.keywords)


_DECIDES = ("__subclasshook__", "__instancecheck__", "__subclasscheck__")


def answers_itself(cls: Class) -> bool:
    """Whether a class, or its metaclass, has a method that says which objects are its own."""
    kinds = [cls, *([cls.metaclass] if cls.metaclass is not None else [])]
    return any(find(Instance(one), name) is not None for one in kinds for name in _DECIDES)


def is_written_dataclass(node: ast.ClassDef) -> bool:
    """Whether ``@dataclass`` is written above a class: who makes its objects gives them all their parts."""
    names = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return any(last_name(name) == "dataclass" for name in names)


def is_dataclass(cls: Class) -> bool:
    """Whether ``@dataclass`` is written above a class, or one that it is derived from."""
    return any(is_written_dataclass(one.node) for one in lineage(cls) if isinstance(one, Class))


class Annotated(NamedTuple):
    """A name that the body of the class *owner* annotates, and its default."""

    name: str
    default: ast.expr | None
    owner: Class


def fields_of(cls: Class) -> list[Annotated]:
    """The names that a class's body annotates, and those of the classes that it is derived from."""
    return [
        Annotated(part.target.id, part.value, ancestor)
        for ancestor in reversed(lineage(cls))
        if isinstance(ancestor, Class)
        for part in ancestor.node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]


def is_module(instance: Instance) -> bool:
    """Whether it is a torch module (or a trainer's, or a layer of a library, which are modules too)."""
    return any(map(_is_called_module, (base for base in lineage(instance.cls) if isinstance(base, Name))))


def _is_called_module(base: Name) -> bool:
    return base.path.endswith(("Module", "MessagePassing")) or base.path.startswith("torch.nn.")


def is_any_module(value: Value) -> TypeGuard[TorchModule | Instance]:
    """Whether a value is a module, of torch's own classes or of the program's."""
    return isinstance(value, TorchModule) or (isinstance(value, Instance) and is_module(value))


def is_layer(cls: Class, wanted: Name) -> bool | None:
    """Whether the objects of a class are those of the *wanted* one of ``torch.nn``; None where a library may say so."""
    libraries = [base for base in lineage(cls) if not isinstance(base, Class) and base != Name("builtins.object")]
    answers = [_is_derived(base, wanted) for base in libraries]
    return True if True in answers else None if None in answers else False


def _is_derived(base: Value, wanted: Name) -> bool | None:
    if not isinstance(base, Name):
        return None
    if base.path.startswith("torch.nn."):
        return catalogue.is_derived(base.last, wanted.last)
    return True if wanted.last == "Module" and _is_called_module(base) else None


def torch_base(instance: Instance) -> str:
    """The class of ``torch.nn`` that an object's class is derived from; empty for plain ``Module`` and others."""
    for base in lineage(instance.cls):
        if isinstance(base, Name) and base.path.startswith("torch.nn."):
            kind = base.last
            return "" if kind == "Module" else kind
    return ""


def legacy_forward(instance: Instance) -> Function | None:
    """The ``forward`` of an object of a ``torch.autograd.Function``, where it is a method as before PyTorch 0.4."""
    found = find(instance, "forward")
    if not isinstance(found, Function) or found.flavour == "staticmethod" or found.source is None:
        return None
    if any(isinstance(base, Name) and base.path in FUNCTIONS for base in lineage(instance.cls)):
        return None if find(instance, "__call__") is not None else found
    return None


BASE = "~base"
"""The name of the torch module part of an object among its attributes: none that a program can write."""


def base_module(instance: Instance) -> TorchModule | None:
    """The torch module part of an object whose class derives from ``nn.Sequential``, ``nn.GRU`` or others, or None."""
    slot = instance.names.get(BASE)
    return slot.value if slot is not None else None


def set_base_module(instance: Instance, module: TorchModule) -> None:
    """Make *module* the torch module part of *instance* (``super().__init__(...)``); its children become attributes."""
    instance.names[BASE] = Binding(module)
    for name, slot in module.children.items():
        instance.names.setdefault(str(name), slot)


def find(instance: Instance, name: str, after: Class | None = None) -> Value | None:
    """A class attribute of *instance*, looked up behind class *after* where that is given."""
    classes = lineage(instance.cls)
    if after is not None and after in classes:
        classes = classes[classes.index(after) + 1 :]
    for cls in classes:
        if isinstance(cls, Class) and name in cls.names:
            return cls.names[name].value
    return None


_CONTAINERS = {
    **dict.fromkeys(("list", "UserList"), "builtins.list"),
    **dict.fromkeys(("dict", "OrderedDict", "UserDict"), "builtins.dict"),
    **{name: f"collections.{name}" for name in ("deque", "defaultdict", "Counter")},
}
"""The containers that classes are derived from, by their names."""


def base_container(cls: Class) -> Name | None:
    """The container that a class of the program is derived from, if it is one: ``list``, ``dict``, ``deque``."""
    for base in lineage(cls):
        if isinstance(base, Name) and base.path.partition(".")[0] in ("builtins", "collections"):
            kind = base.last
            if kind in _CONTAINERS:
                return Name(_CONTAINERS[kind])
    return None


def opened(value: Value) -> Value:
    """The container that an object is by its class, where that class does not say itself what its items are."""
    if isinstance(value, Instance) and value.items is not None and find(value, "__iter__") is None:
        return value.items
    return value


def has_own_length(value: Value, function: str) -> bool:
    """Whether it is the length of an object that is asked for, and its class says what that is."""
    return function == "len" and isinstance(value, Instance) and find(value, "__len__") is not None


def registered(instance: Instance) -> Registered:
    """The buffers of a module, as its ``_buffers``."""
    slot = instance.names.get("_buffers")
    if slot is None or not isinstance(slot.value, Mapping) or not isinstance(slot.value.items, Registered):
        known = Registered(instance.names)
        instance.names["_buffers"] = Binding(Mapping(known))  # type: ignore[arg-type]
        return known
    return slot.value.items


def bind(function: Value, receiver: Value) -> Value:
    """An attribute of a class as seen by *receiver*: a function is bound to it, unless it is a static method."""
    if isinstance(function, Function):
        if function.flavour == "staticmethod":
            return function
        if function.flavour == "classmethod":
            return Bound(function, receiver.cls if isinstance(receiver, Instance) else receiver)
        return Bound(function, receiver)
    if isinstance(function, Partial) and function.method:
        return Partial(bind(function.function, receiver), function.args, function.keywords)
    return function


EXITS = "~exits"
"""Name under which an object of a class derived from ``ExitStack`` has its exit stack part."""


def exits_of(value: Value) -> Exits | None:
    """The stack of context managers that a value is, also by its class."""
    if isinstance(value, Instance) and EXITS in value.names:
        value = value.names[EXITS].value
    return value if isinstance(value, Exits) else None
