"""Built-in functions that ask objects and classes: ``isinstance``, ``getattr``, ``super`` and their like."""

from __future__ import annotations

import ast
import collections.abc
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import attributes, class_lookup, overridden, python_classes
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.library import modules
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unknown_calls import PARALLEL
from autofix.codemods.interpreter.values import (
    Class,
    Function,
    Instance,
    Module,
    Name,
    Record,
    Sequence,
    Super,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("builtins.type")
def _type(interp: Interpreter, call: Call, *args: Value, **_: Value) -> Value:
    if len(args) != 1:
        return interp.fresh_symbol("type")
    return kind_of(args[0]).type_of(args[0]) or interp.symbol(("type", interp.key(args[0])))


@model("builtins.isinstance")
def _isinstance(interp: Interpreter, call: Call, value: Value, wanted: Value, /) -> Value:
    return is_instance(interp, value, wanted)


def is_instance(interp: Interpreter, value: Value, wanted: Value) -> Value:
    """``isinstance(value, wanted)``: an unknown value where that is not certain."""
    options = [slot.value for slot in wanted.items] if isinstance(wanted, Sequence) else [wanted]
    answers = [_is_of(interp, value, cls) if isinstance(cls, (Name, Class, Record)) else None for cls in options]
    if True in answers:
        return True
    if None in answers:
        return interp.symbol(("isinstance", interp.key(value), interp.key(wanted)))
    return False


def _is_of(interp: Interpreter, value: Value, cls: Name | Class | Record) -> bool | None:
    return _is_parallel(interp, value, cls) or kind_of(value).is_instance(value, cls)


def _is_parallel(interp: Interpreter, value: Value, option: Value) -> bool:
    """Whether a model has been wrapped, where it is asked for: ``isinstance(model, DataParallel)``."""
    return isinstance(option, Name) and option.last in PARALLEL and _is_wrapped(interp, value)


def _is_wrapped(interp: Interpreter, value: Value) -> bool:
    return class_lookup.is_any_module(value) and interp.identity(value) in interp.parallel


@model("builtins.issubclass")
def _issubclass(interp: Interpreter, call: Call, cls: Value, wanted: Value, /) -> Value:
    options = [slot.value for slot in wanted.items] if isinstance(wanted, Sequence) else [wanted]
    answers = [_is_subclass(cls, option) for option in options]
    if True in answers:
        return True
    return interp.symbol(("issubclass", interp.site(call.node))) if None in answers else False


def _is_subclass(cls: Value, wanted: Value) -> bool | None:
    if isinstance(cls, (Class, Record)) and isinstance(wanted, (Class, Record)):
        return class_lookup.is_of_class(cls, wanted)
    if not isinstance(wanted, Name):
        return None
    if isinstance(cls, Class):
        return python_classes.is_derived(cls, wanted.path) or None
    path = "builtins.tuple" if isinstance(cls, Record) else cls.path if isinstance(cls, Name) else ""
    return python_classes.is_subclass(path, wanted.path)


@model(*(f"collections.abc.{name}.register" for name in collections.abc.__all__))
def _register(interp: Interpreter, call: Call, cls: Value, /) -> Value:
    """``collections.abc.Sequence.register(State)``, also as a decorator."""
    if isinstance(cls, Class):
        cls.registered.append(Name(call.name.removesuffix(".register")))
    return cls


@model("builtins.callable")
def _callable(interp: Interpreter, call: Call, value: Value, /) -> Value:
    known = kind_of(value).is_callable(value)
    # Whatever it is, it is so in each iteration.
    return interp.symbol(("callable", interp.site(call.node))) if known is None else known


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
    if default and isinstance(owner, (TorchModule, Class)) and kind_of(owner).has(interp, owner, name) is False:
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
        wrapped = name == "module" and _is_wrapped(interp, owner)
        known = True if wrapped else kind_of(owner).has(interp, owner, name)
        if known is not None:
            return known
    return interp.symbol(("hasattr", interp.key(owner), interp.key(name)))


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
