"""Calls: into the program's own functions, methods, classes and ``forward``s, and out of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd import groups
from autofix.codemods.interpreter import (
    class_lookup,
    effects,
    errors,
    managers,
    module_calls,
    optimizers,
    overridden,
    written,
)
from autofix.codemods.interpreter.generators import LAZY, Generator, drained
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.state.environment import Frame
from autofix.codemods.interpreter.values import (
    Binding,
    Class,
    Exits,
    Function,
    Instance,
    Mapping,
    Method,
    Name,
    Partial,
    Scope,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
    is_constant,
)
from autofix.codemods.source.nodes import walk
from autofix.codemods.source.sources import Site

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

DEPTH = 24
"""Calls inside calls that are entered."""
_RECURSION = 3
"""Number of times that a function may stand on the stack of calls."""


def call(interp: Interpreter, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """The result of ``function(*args, **keywords)`` written at *node*."""
    if interp.generators and isinstance(function, (Name, Method)):
        path = function.path if isinstance(function, Name) else function.name
        if path.rpartition(".")[2] not in LAZY:
            args = [_used_up(value) for value in args]
            keywords = {name: _used_up(value) for name, value in keywords.items()}
    return kind_of(function).call(interp, function, args, keywords, node)


def _used_up(value: Value) -> Value:
    """*value* as the argument of a function that takes all its items at once: a generator is drained to a list."""
    if not isinstance(value, Generator):
        return value
    items, more = drained(value)
    return Sequence("list", items, more=more)


def call_function(
    interp: Interpreter, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """Enter a function of the program; one that is cached only where it was not called alike before."""
    if function.cache is None:
        return _enter(interp, function, args, keywords, node)
    key: Hashable = (
        tuple(_recurring(interp.key(value)) for value in args),
        tuple((name, _recurring(interp.key(keywords[name]))) for name in keywords),
    )
    if key not in function.cache:
        function.cache[key] = _cached(interp, function, _enter(interp, function, args, keywords, node))
    return interp.read(function.cache[key])


def _recurring(key: Hashable) -> Hashable:
    """The key of an argument, where the sizes of a batch are taken to come again in a later one."""
    if not isinstance(key, tuple):
        return key
    if len(key) == 3 and key[0] == "attr" and key[2] == "shape":
        return "shape"
    return tuple(_recurring(part) for part in key)


def _cached(interp: Interpreter, function: Function, value: Value) -> Binding:
    """The binding of a function's result in the cache of its decorator."""
    statement = interp.statement
    interp.statement = function.cached_by or statement
    try:
        return interp.slot(value, function.name, None)
    finally:
        interp.statement = statement


def cached_attribute(interp: Interpreter, function: Function, receiver: Instance, node: ast.expr) -> Value:
    """The value of a ``cached_property``: an attribute of the object from the first time on."""
    slot = _cached(interp, function, _enter(interp, function, [receiver], {}, node))
    receiver.names[function.name] = slot
    return interp.read(slot)


def _enter(
    interp: Interpreter, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """Run a function of the program."""
    standing = sum(1 for frame in interp.frames if frame.function and frame.function.node is function.node)
    if standing >= _RECURSION or len(interp.frames) >= DEPTH:
        interp.log.unentered.add(function.node)
        result = interp.opaque("recursion", [*args, *keywords.values()], node)
        if isinstance(result, Symbol) and args and all(map(is_constant, args)):  # the same for the same numbers
            return interp.symbol(("recursion", id(function.node), *map(interp.key, args)))
        return result
    interp.log.called.add(function.node)
    caller, interp.policy.function = interp.policy.function, function.node
    scope = Scope(
        _bound_names(interp, function, args, keywords, node), parent=function.scope, globals=outermost(function.scope)
    )
    frame = Frame(function, scope)
    outer, statement, source, stack = interp.scope, interp.statement, interp.source, interp.stack
    interp.stack = (*stack, interp.site(node))
    interp.scope, interp.source = scope, function.source
    interp.frames.append(frame)
    try:
        if function.generator:
            return Generator(interp, lambda: _run_body(interp, function, frame), frame, interp.stack[-1])
        consultations = interp.policy.consultations
        _run_body(interp, function, frame)
        if interp.policy.may_idle_since(consultations) and effects.computes_number(interp, function):
            interp.policy.idle_since(consultations)
    finally:
        interp.frames.pop()
        interp.scope, interp.statement, interp.source, interp.stack = outer, statement, source, stack
        interp.policy.function = caller
    return frame.result


def _run_body(interp: Interpreter, function: Function, frame: Frame) -> None:
    """Run a function's own code, in the grad mode of its decorator."""
    if function.managers:
        _run_managed(interp, function, frame)
        return
    if function.grad_mode is None:
        _run_in_mode(interp, function, frame)
        return
    with interp.grad_mode(function.grad_mode, Site(function.source, function.node)):
        _run_in_mode(interp, function, frame)


def _run_managed(interp: Interpreter, function: Function, frame: Frame) -> None:
    """Run a function that context managers decorate: in a block of theirs."""
    node = interp.stack[-1].node
    assert isinstance(node, ast.expr)
    entered: list[Value] = []
    try:
        for one in reversed(function.managers):
            entered.append(interp.call(one, [], {}, node) if isinstance(one, Partial) else one)
            managers.enter(interp, entered[-1], node)
        with interp.grad_mode(function.grad_mode, Site(function.source, function.node)):
            _run_in_mode(interp, function, frame)
    finally:
        for one in reversed(entered):
            managers.leave(interp, one, node)


def _run_in_mode(interp: Interpreter, function: Function, frame: Frame) -> None:
    """Run a function's own code in the grad mode that is set."""
    if isinstance(function.node, ast.Lambda):
        interp.statement = function.statement or interp.statement
        frame.result = interp.eval(function.node.body)
    else:
        interp.exceptions.raised = interp.run(function.node.body) == "raise"
        if interp.exceptions.raised:
            errors.raise_awaited(interp, interp.exceptions.error)


def outermost(scope: Scope) -> Scope:
    """The names of the module that a scope is in."""
    while scope.parent is not None:
        scope = scope.parent
    return scope


def _bound_names(
    interp: Interpreter, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> dict[str, Binding]:
    """The parameters of a call, bound as Python binds them; what was not given and has no default is unknown."""
    spec = function.node.args
    names: dict[str, Binding] = {}
    positional = [*spec.posonlyargs, *spec.args]
    rest = dict(keywords)
    for parameter, value in zip(positional, args, strict=False):
        names[parameter.arg] = Binding(value)
    first_default = len(positional) - len(function.defaults)
    for at, parameter in enumerate(positional):
        if parameter.arg in names:
            if parameter.arg in rest and spec.kwarg is None and node not in interp.spread:
                interp.crash(f"{parameter.arg!r} is given twice", "TypeError")
                names[parameter.arg] = Binding(rest.pop(parameter.arg))
            continue
        if parameter.arg in rest:
            names[parameter.arg] = Binding(rest.pop(parameter.arg))
        elif at >= first_default and node not in interp.spread:
            names[parameter.arg] = Binding(function.defaults[at - first_default])
        elif at >= first_default and _is_code(function.defaults[at - first_default]):
            # An activation, or the class of a layer: each ``Net(**config)`` may have another one.
            number = interp.fresh_symbol(parameter.arg).key
            names[parameter.arg] = Binding(interp.symbol(("parameter", id(function.node), parameter.arg, number)))
        else:
            unknown = interp.symbol(("parameter", id(function.node), parameter.arg))
            if unknown.leaf is None and parameter.arg in function.source.remembered(function.node, _models_in):
                unknown.leaf = interp.leaf("model", node)
                unknown.leaf.doubtful = True
            names[parameter.arg] = Binding(unknown)
    for parameter in spec.kwonlyargs:
        if parameter.arg in rest:
            names[parameter.arg] = Binding(rest.pop(parameter.arg))
        else:
            default = interp.fresh_symbol("parameter", parameter.arg)
            if node not in interp.spread:
                default = function.keyword_defaults.get(parameter.arg, default)
            names[parameter.arg] = Binding(default)
    if spec.vararg is not None:
        names[spec.vararg.arg] = Binding(Sequence("tuple", [Binding(value) for value in args[len(positional) :]]))
    if spec.kwarg is not None:
        given: dict[Hashable, Binding] = {
            name: interp.slot(value, "", written.keyword(node, name)) for name, value in rest.items()
        }
        names[spec.kwarg.arg] = Binding(Mapping(given, of_callers=isinstance(node, ast.Name)))
    return names


def _is_code(value: Value) -> bool:
    """Whether a value is a function or a class, of the program or of a library."""
    return isinstance(value, (Function, Class, Name))


_OF_MODULES = frozenset("parameters named_parameters modules named_modules training".split())


def _models_in(function: ast.AST) -> frozenset[str]:
    """The names that a function calls, and of which it asks what modules alone have, before or after that."""
    parts = walk(function)
    called = {part.func.id for part in parts if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}
    asked = {
        part.value.id
        for part in parts
        if isinstance(part, ast.Attribute) and part.attr in _OF_MODULES and isinstance(part.value, ast.Name)
    }
    return frozenset(called & asked)


def _is_value(member: Instance, value: Value) -> bool:
    own = member.names["value"].value
    return bool(is_constant(own) and own == value)


def instantiate(
    interp: Interpreter, cls: Class, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A new object of a class of the program."""
    if cls.members:
        found = (one for one in cls.members.values() if args and is_constant(args[0]) and _is_value(one, args[0]))
        return next(found, interp.fresh_symbol(cls.name))
    if _is_record(cls):
        return _record(interp, cls, args, keywords, node)
    libraries = [one for one in class_lookup.lineage(cls) if isinstance(one, Name)]
    mode = next((one for one in libraries if _GRAD_MODES.match(one.path)), None)
    if mode is not None:
        return interp.call(mode, [], {}, node)
    if any(not _CALLS_NOTHING.match(base.path) for base in libraries):
        interp.log.handed.add(cls.node)
    instance = Instance(cls)
    maker = class_lookup.find(instance, "__new__")
    if isinstance(maker, Function) and all(base.path == "builtins.object" for base in libraries):
        return _made_by(interp, maker, cls, args, keywords, node)
    if any(isinstance(base, Name) and base.path == "contextlib.ExitStack" for base in class_lookup.lineage(cls)):
        instance.names[class_lookup.EXITS] = Binding(Exits())
    inherited = class_lookup.base_container(cls)
    instance.items = interp.call(inherited, [], {}, node) if inherited is not None else None
    init = class_lookup.find(instance, "__init__")
    if isinstance(init, Function):
        call_function(interp, init, [instance, *args], keywords, node)
        return instance
    if optimizers.become(interp, instance, args, keywords, node):
        return instance
    module_calls.become_base(interp, instance, args, keywords, node)
    fields = class_lookup.fields_of(cls)
    if instance.items is not None and not fields:  # the keywords of a dictionary are its items
        return instance
    parts = written.arguments(node)
    for at, (one, value) in enumerate(zip(fields, args, strict=False)):
        instance.names[one.name] = interp.slot(value, one.name, parts[at] if at < len(parts) else None)
    for name, value in keywords.items():
        instance.names[name] = interp.slot(value, name, written.keyword(node, name))
    left = [one for one in fields if one.name not in instance.names and one.default is not None]
    defaults = {one.name: Binding(_default_of(interp, one, node)) for one in left}
    if node in interp.spread:
        overridden.flags(interp, defaults, instance)
    instance.names.update(defaults)
    if isinstance(class_lookup.find(instance, "__post_init__"), Function):
        call_method_of(interp, instance, "__post_init__", [], node)
    instance.whole = class_lookup.is_written_dataclass(cls.node) or class_lookup.is_named_tuple(cls)
    return instance


def _made_by(
    interp: Interpreter, maker: Function, cls: Class, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """What ``__new__`` of a class returns, begun by ``__init__`` if it is an object of the class."""
    made = call_function(interp, maker, [cls, *args], keywords, node)
    if isinstance(made, Instance) and cls in class_lookup.lineage(made.cls):
        init = class_lookup.find(made, "__init__")
        if isinstance(init, Function):
            call_function(interp, init, [made, *args], keywords, node)
    return made


_CALLS_NOTHING = re.compile(r"torch\.(nn|autograd|utils\.data)\.|(builtins|abc|typing|enum|collections|dataclasses)\b")
"""Classes whose own code calls no methods of derived classes but those that are followed."""
_GRAD_MODES = re.compile(rf"torch\.(\w+\.)*({'|'.join(groups.WITHOUT_GRAPH)}|enable_grad)$")


def _is_record(cls: Class) -> bool:
    """Whether a class is a named tuple whose objects have no methods of their own."""
    of_objects = (
        isinstance(slot.value, Function) and slot.value.flavour not in ("classmethod", "staticmethod")
        for slot in cls.names.values()
    )
    return class_lookup.is_named_tuple(cls) and not any(of_objects)


def _record(interp: Interpreter, cls: Class, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A named tuple of a class of the program."""
    fields, parts = class_lookup.fields_of(cls), written.arguments(node)
    slots = [
        interp.slot(value, "", parts[at] if at < len(parts) else None) for at, value in enumerate(args[: len(fields)])
    ]
    for one in fields[len(slots) :]:
        if one.name in keywords:
            slots.append(interp.slot(keywords[one.name], "", written.keyword(node, one.name)))
        else:
            slots.append(
                Binding(_default_of(interp, one, node) if one.default is not None else interp.fresh_symbol(one.name))
            )
    return Sequence("tuple", slots, fields=tuple(one.name for one in fields), cls=cls)


def _default_of(interp: Interpreter, field: class_lookup.Annotated, node: ast.expr) -> Value:
    """A field's default, by the names of its own module; ``field(default_factory=list)`` makes a new one each time."""
    written = field.default
    assert written is not None
    factory = False
    for keyword in written.keywords if isinstance(written, ast.Call) else ():
        if keyword.arg in ("default_factory", "default"):
            written, factory = keyword.value, keyword.arg == "default_factory"
            break
    here = interp.scope, interp.source
    around = field.owner.scope
    if around is not None:
        interp.scope = Scope(field.owner.names, parent=around, globals=around.globals)
    interp.source = field.owner.source
    try:
        value = interp.eval(written)
    finally:
        interp.scope, interp.source = here
    return interp.call(value, [], {}, node) if factory else value


def call_method_of(interp: Interpreter, instance: Instance, name: str, args: list[Value], node: ast.expr) -> Value:
    found = class_lookup.find(instance, name)
    return interp.call(class_lookup.bind(found, instance), args, {}, node)


def call_hooked(
    interp: Interpreter, module: Instance | TorchModule, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A call of a module, with the hooks that were registered on it."""
    hooks = [hook for hook in interp.hooks if hook.module is module]
    for hook in hooks:
        if hook.before:
            changed = call(interp, hook.function, [module, _packed(args)], {}, node)
            if isinstance(changed, Sequence):
                args = [slot.value for slot in changed.items]
            elif changed is not None and not isinstance(changed, Symbol):
                args = [changed]
    watched = interp.grad and any(hook.module is module for hook in interp.backward_hooks)
    if watched:
        args = _watched(interp, args, node)
    if isinstance(module, Instance):
        result = call_instance(interp, module, args, keywords, node)
    elif (replaced := module.children.get("forward")) is not None:
        result = interp.call(interp.read(replaced), args, keywords, node)
    else:
        result = module_calls.call_module(interp, module, args, keywords, node)
    if watched:
        result = _watched_result(interp, result, node)
    for hook in hooks:
        if not hook.before:
            changed = call(interp, hook.function, [module, _packed(args), result], {}, node)
            result = result if changed is None or isinstance(changed, Symbol) else changed
    return result


def _watched(interp: Interpreter, values: list[Value], node: ast.expr) -> list[Value]:
    """Views of the tensors with a graph that a module with a backward hook is given, or returns.

    Source: ``BackwardHook`` in torch/utils/hooks.py.
    """
    return [
        _view_of(interp, value, node) if isinstance(value, TensorRef) and value.cell.node is not None else value
        for value in values
    ]


def _watched_result(interp: Interpreter, result: Value, node: ast.expr) -> Value:
    """The output of a module with a backward hook: a tensor, or a tuple of tensors."""
    if isinstance(result, Sequence) and result.kind == "tuple":
        items = [interp.read(slot, result) for slot in result.items]
        return replace(result, items=[Binding(value) for value in _watched(interp, items, node)])
    return _watched(interp, [result], node)[0]


def _view_of(interp: Interpreter, tensor: TensorRef, node: ast.expr) -> TensorRef:
    view = interp.operation("view_as", [tensor], node, scalar=tensor.cell.scalar, view=tensor)
    view.cell.extent, view.cell.dense = tensor.cell.extent, tensor.cell.dense
    view.cell.sibling = view.cell.hooked = True
    return view


def _packed(args: list[Value]) -> Sequence:
    return Sequence("tuple", [Binding(value) for value in args])


def call_instance(
    interp: Interpreter, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``model(x)``: its ``__call__``, or its ``forward`` where it is a module."""
    old = class_lookup.legacy_forward(instance)
    if old is not None:
        interp.log.old_functions[interp.site(node)] = Site(old.source, old.node)
        return interp.opaque("call", [*args, *keywords.values()], node, differentiable=True)
    for name in ("__call__", "forward"):
        slot = instance.names.get(name) if name == "forward" else None
        if slot is not None:  # put in the place of the method
            return interp.call(interp.read(slot, instance), args, keywords, node)
        found = class_lookup.find(instance, name)
        if found is not None:
            return interp.call(class_lookup.bind(found, instance), args, keywords, node)
    base = class_lookup.base_module(instance)
    if base is not None:
        return module_calls.call_module(interp, base, args, keywords, node)
    return interp.opaque("call", [instance, *args, *keywords.values()], node)
