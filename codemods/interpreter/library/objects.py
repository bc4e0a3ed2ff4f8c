"""Built-in functions that ask objects and classes: ``isinstance``, ``getattr``, ``super`` and their like."""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd.catalogue import is_operation
from autofix.codemods.interpreter import attributes, class_lookup, overridden, python_classes
from autofix.codemods.interpreter.comparisons import TENSOR_OR_PARAMETER
from autofix.codemods.interpreter.library import modules
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unknown_calls import PARALLEL
from autofix.codemods.interpreter.values import (
    Bound,
    Class,
    Distribution,
    Function,
    Instance,
    Mapping,
    Method,
    Module,
    Name,
    Record,
    Sequence,
    Super,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


_OF_TENSORS = frozenset("item tolist numpy cpu cuda to detach grad grad_fn requires_grad shape device dtype".split())
"""Attributes by which a program tells a tensor from other objects."""

_BUILT_IN = {kind.__name__: kind for kind in (list, tuple, set, frozenset, dict, deque)}


@model("builtins.type")
def _type(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    if len(args) != 1:
        return interp.fresh_symbol("type")
    return _type_of(args[0]) or interp.symbol(("type", interp.key(args[0])))


def _type_of(value: Value) -> Value:
    """The class of a value, where it is one of Python's or torch's own; None where that is not certain."""
    if isinstance(value, TensorRef) and not value.guessed:
        return Name("torch.Tensor" if value.cell.leaf is None else TENSOR_OR_PARAMETER)
    if isinstance(value, Sequence) and value.fields:
        return value.cls
    if isinstance(value, Sequence) and value.kind in _BUILT_IN:
        return Name(f"{'collections' if value.kind == 'deque' else 'builtins'}.{value.kind}")
    if isinstance(value, Distribution):
        return Name(f"torch.distributions.{value.name}")
    if isinstance(value, Mapping) and value.cls:
        return Name(value.cls)
    if value is None:
        return Name("types.NoneType")
    if isinstance(value, (bool, int, float, str)):
        return Name(f"builtins.{type(value).__name__}")
    return value.cls if isinstance(value, (Instance, TorchModule)) else None


@model("builtins.isinstance")
def _isinstance(interp: Interpreter, call: Call, value: Value, wanted: Value, /) -> Value:
    return is_instance(interp, value, wanted)


def is_instance(interp: Interpreter, value: Value, wanted: Value) -> Value:
    """``isinstance(value, wanted)``: an unknown value where that is not certain."""
    options = [slot.value for slot in wanted.items] if isinstance(wanted, Sequence) else [wanted]
    answers = [_is_parallel(interp, value, option) or _is_instance(value, option) for option in options]
    if True in answers:
        return True
    if None in answers:
        return interp.symbol(("isinstance", interp.key(value), interp.key(wanted)))
    return False


def _is_parallel(interp: Interpreter, value: Value, option: Value) -> bool:
    """Whether a model has been wrapped, where it is asked for: ``isinstance(model, DataParallel)``."""
    return isinstance(option, Name) and option.path.rpartition(".")[2] in PARALLEL and _is_wrapped(interp, value)


def _is_wrapped(interp: Interpreter, value: Value) -> bool:
    return class_lookup.is_any_module(value) and interp.identity(value) in interp.parallel


def _is_instance(value: Value, option: Value) -> bool | None:
    if isinstance(value, Distribution):
        return True if isinstance(option, Name) and option.path.rpartition(".")[2] == value.name else None
    if isinstance(value, Symbol) and isinstance(option, Name) and attributes.is_number(value.key):
        return False if option.path.rpartition(".")[2] in ("Tensor", "Variable", "Parameter") else None
    if isinstance(value, Sequence) and isinstance(option, (Class, Record)):
        return _is_of_class(value.cls, option) if value.cls is not None or not value.fields else None
    if isinstance(value, Symbol) or not isinstance(option, (Name, Class)):
        return None
    if isinstance(option, Name):
        known = python_classes.is_object_of(value, option.path)
        if known is not None:
            return known
    if isinstance(option, Class):
        if isinstance(value, Instance) and any(
            isinstance(base, Name) and base.path.rpartition(".")[2] == "Protocol" for base in option.bases
        ):
            return all(name in value.names or class_lookup.find(value, name) is not None for name in option.names)
        return isinstance(value, Instance) and option in class_lookup.lineage(value.cls)
    last = option.path.rpartition(".")[2]
    if last in ("Tensor", "Variable"):
        return isinstance(value, TensorRef)
    if last == "Parameter":
        return isinstance(value, TensorRef) and value.cell.leaf is not None
    if last in PARALLEL and isinstance(value, Instance) and class_lookup.is_module(value):
        return False
    if isinstance(value, TorchModule) and option.path.startswith("torch.nn."):
        return None if last.startswith("_") else last in (value.kind, "Module")
    if last in ("int", "float", "str", "bool", "bytes"):
        return type(value).__name__ == last or (last == "int" and isinstance(value, bool))
    if last in ("tuple", "list", "dict", "set", "deque", "ndarray"):
        return False if isinstance(value, (TensorRef, Instance, int, float, str, type(None))) else None
    return None


def _is_of_class(cls: Class | Record | None, option: Class | Record) -> bool:
    """Whether the objects of *cls* are those of *option*; the class of a plain list or tuple is None."""
    return cls is option or (isinstance(cls, Class) and option in class_lookup.lineage(cls))


@model("builtins.issubclass")
def _issubclass(interp: Interpreter, call: Call, cls: Value, wanted: Value, /) -> Value:
    options = [slot.value for slot in wanted.items] if isinstance(wanted, Sequence) else [wanted]
    answers = [_is_subclass(cls, option) for option in options]
    if True in answers:
        return True
    return interp.symbol(("issubclass", interp.site(call.node))) if None in answers else False


def _is_subclass(cls: Value, wanted: Value) -> bool | None:
    if isinstance(cls, (Class, Record)) and isinstance(wanted, (Class, Record)):
        return _is_of_class(cls, wanted)
    if not isinstance(wanted, Name):
        return None
    if isinstance(cls, Class):
        return python_classes.is_derived(cls, wanted.path) or None
    path = "builtins.tuple" if isinstance(cls, Record) else cls.path if isinstance(cls, Name) else ""
    return python_classes.is_subclass(path, wanted.path)


@model("builtins.callable")
def _callable(interp: Interpreter, call: Call, value: Value, /) -> Value:
    if is_constant(value) or isinstance(value, (TensorRef, Sequence, Mapping)):
        return False
    of_tensor = isinstance(value, Method) and isinstance(value.receiver, TensorRef)
    if of_tensor or isinstance(value, (Function, Bound, Class, Instance)):
        return True
    return interp.symbol(("callable", interp.site(call.node)))  # whatever it is, it is so in each iteration


@model("builtins.id")
def _id(interp: Interpreter, call: Call, value: Value, /) -> Value:
    return interp.identity(value.cell.itself if isinstance(value, TensorRef) else value)


_SOME_OPTIMIZER = Name("torch.optim.Optimizer")
"""``getattr(torch.optim, config["type"])``: whichever it is, its step changes the parameters that it is given."""


@model("builtins.getattr")
def _getattr(interp: Interpreter, call: Call, owner: Value, name: Value = None, *default: Value) -> Value:
    asked = name
    if isinstance(name, Symbol):
        name = interp.usual(name)
    if not isinstance(name, str):
        if isinstance(owner, Name) and owner.path == "torch.optim":
            return _SOME_OPTIMIZER
        if isinstance(owner, Instance):
            interp.log.handed.add(owner.cls.node)
        slot = modules.part_named(owner, asked) if class_lookup.is_any_module(owner) else None
        return slot.value if slot is not None else interp.fresh_symbol("getattr")
    if default and isinstance(owner, Instance) and name not in owner.names:
        if class_lookup.find(owner, name) is None:
            given = attributes.by_getattr(interp, owner, name, call.node)
            return default[0] if given is attributes.MISSING else given
    if default and isinstance(owner, TorchModule) and attributes.lacks(interp, owner, name):
        return default[0]
    if default and isinstance(owner, Class) and _class_has(owner, name) is False:
        return default[0]
    return attributes.plain(interp, attributes.get(interp, owner, name, call.node))


@model("builtins.setattr")
def _setattr(interp: Interpreter, call: Call, owner: Value, name: Value, value: Value, /) -> Value:
    if isinstance(name, str):
        node = call.node
        target = ast.Attribute(ast.Name("object", ast.Load()), name, ast.Store())
        ast.copy_location(target, node)
        expression = node.args[2] if isinstance(node, ast.Call) and len(node.args) == 3 else None
        attributes.set_attribute(interp, owner, name, value, target, expression)
    elif class_lookup.is_any_module(owner) and class_lookup.is_any_module(value):
        modules.register(interp, owner, name, value)
    elif isinstance(owner, TorchModule) and isinstance(value, TensorRef):
        attributes.put_parameter(interp, owner, name, value, call.node, None)
    else:
        overridden.attributes(interp, owner, name, value)


@model("builtins.object.__setattr__")
def _set_plainly(interp: Interpreter, call: Call, owner: Value, name: Value, value: Value, /) -> Value:
    if not isinstance(name, str):
        return DECLINED
    target = ast.copy_location(ast.Attribute(call.node, name, ast.Store()), call.node)
    attributes.set_plainly(interp, owner, name, value, target, None)
    return None


@model("builtins.object.__getattribute__")
def _get_plainly(interp: Interpreter, call: Call, owner: Value, name: Value, /) -> Value:
    return attributes.get(interp, owner, name, call.node) if isinstance(name, str) else DECLINED


@model("builtins.delattr")
def _delattr(interp: Interpreter, call: Call, owner: Value, name: Value, /) -> Value:
    if isinstance(owner, Instance) and isinstance(name, str):
        owner.names.pop(name, None)


@model("builtins.hasattr")
def _hasattr(interp: Interpreter, call: Call, owner: Value, name: Value, /) -> Value:
    if isinstance(name, str):
        known = _instance_has(owner, name) if isinstance(owner, Instance) else None
        if isinstance(owner, Class):
            known = _class_has(owner, name)
        if name == "module" and _is_wrapped(interp, owner):
            known = True
        if isinstance(owner, TorchModule) and attributes.lacks(interp, owner, name):
            known = False
        if known is None:
            known = _has(owner, name)
        if known is not None:
            return known
    return interp.symbol(("hasattr", interp.key(owner), interp.key(name)))


def _instance_has(owner: Instance, name: str) -> bool | None:
    """Whether an object of the program has an attribute; None where an unknown base may have it."""
    if name in owner.names or class_lookup.find(owner, name) is not None:
        return True
    bases = (base for base in class_lookup.lineage(owner.cls) if isinstance(base, (Class, Name)))
    known = all(isinstance(base, Class) or base.path.endswith(("Module", "object")) for base in bases)
    return False if known else None


def _class_has(owner: Class, name: str) -> bool | None:
    """Whether a class of the program has an attribute; None where its bases or its metaclass may give it one."""
    if owner.metaclass is not None or name in owner.members or (name.startswith("__") and name.endswith("__")):
        return None
    return _instance_has(Instance(owner), name)


def _has(value: Value, name: str) -> bool | None:
    """Whether a tensor, or a value of Python's own, has an attribute; None where that is not known."""
    if isinstance(value, TensorRef):
        opaque = value.guessed or (value.cell.node is not None and value.cell.node.opaque)
        return True if not opaque and (name in _OF_TENSORS or is_operation(name)) else None
    if value is None or isinstance(value, (bool, int, float, str)):
        return hasattr(value, name)
    if isinstance(value, Symbol) and attributes.is_number(value.key):
        return hasattr(1.0, name) if hasattr(1.0, name) == hasattr(1, name) else None
    if isinstance(value, Sequence) and not value.fields:
        return hasattr(_BUILT_IN[value.kind], name) if value.kind in _BUILT_IN else None
    return None


@model("builtins.vars")
def _vars(interp: Interpreter, call: Call, *args: Value) -> Value:
    if args and isinstance(args[0], (Instance, Module, Symbol)):
        return attributes.get(interp, args[0], "__dict__", call.node)
    return interp.fresh_symbol("vars")


@model("builtins.super")
def _super(interp: Interpreter, call: Call, *args: Value) -> Value:
    function = next((frame.function for frame in reversed(interp.frames) if frame.function is not None), None)
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0])
    slot = next(iter(interp.scope.names.values()), None)
    if function is not None and function.owner is not None and slot is not None:
        return Super(slot.value, function.owner)
    return interp.fresh_symbol("super")


@model("builtins.object.__new__")
def _new_object(interp: Interpreter, call: Call, of: Value, /, *_: Value, **__: Value) -> Value:
    return Instance(of) if isinstance(of, Class) else DECLINED


@model("builtins.staticmethod")
def _staticmethod(interp: Interpreter, call: Call, function: Value, /) -> Value:
    """``name = staticmethod(function)`` in the body of a class; what is no function of the program is bound to none."""
    return replace(function, flavour="staticmethod") if isinstance(function, Function) else function


@model("builtins.classmethod")
def _classmethod(interp: Interpreter, call: Call, function: Value, /) -> Value:
    return replace(function, flavour="classmethod") if isinstance(function, Function) else DECLINED


@model("builtins.property")
def _property(interp: Interpreter, call: Call, fget: Value, fset: Value = None, *_: Value, **__: Value) -> Value:
    if not isinstance(fget, Function):
        return DECLINED
    made = replace(fget, flavour="property")
    made.setter = fset if isinstance(fset, Function) else None
    return made
