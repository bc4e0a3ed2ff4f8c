"""Functions and classes as ``def`` and ``class`` make them, decorators and metaclasses included."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from autofix.codemods.facts.parts import CACHES
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    registration,
)
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Name,
    Partial,
    Scope,
    Sequence,
    Value,
)
from autofix.codemods.source.nodes import children
from autofix.codemods.source.sources import last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def define(interp: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    defaults = [interp.eval(default) for default in node.args.defaults]
    named = {
        argument.arg: interp.eval(default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    function = Function(node, interp.source, interp.scope, defaults, named, node.name)
    function.generator = interp.source.yields and interp.source.remembered(node, _yields)
    value: Value = function
    for decorator in reversed(node.decorator_list):
        if _caches(interp, function, decorator):
            continue
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter", "getter"):
            known = interp.eval(decorator.value)
            if isinstance(known, Function) and known.flavour == "property":
                known.setter = function if decorator.attr == "setter" else known.setter
                known.deleter = function if decorator.attr == "deleter" else known.deleter
                value = known
                continue
        before = interp.grad, interp.guard
        value = _decorated(interp, value, decorator)
        interp.grad, interp.guard = before
    interp.scope.names[node.name] = Binding(value)
    return ""


def _caches(interp: Interpreter, function: Function, decorator: ast.expr) -> bool:
    """Whether a decorator keeps what the function returns; then the function knows it: ``@cached_property``."""
    name = interp.eval(decorator.func) if isinstance(decorator, ast.Call) else interp.eval(decorator)
    return isinstance(name, Name) and keeps(interp, function, name, decorator)


def keeps(interp: Interpreter, function: Function, name: Name, decorator: ast.expr) -> bool:
    """Whether a decorator of Python's own keeps what the function returns; then the function knows it."""
    last = name.last
    if last not in CACHES:
        return False
    if last == "cached_property":
        function.flavour = "property"
    else:
        function.cache = {}
    function.cached_by = interp.site(decorator)
    return True


_CACHING = re.compile(r"(?i)cache|memo|once")


def _decorated(interp: Interpreter, value: Value, node: ast.expr) -> Value:
    decorator = interp.eval(node)
    return kind_of(decorator).decorate(interp, decorator, value, node)


def may_cache(decorator: ast.expr) -> bool:
    """Whether a decorator that was not read may keep what the function returned first, by its name."""
    return _CACHING.search(last_name(getattr(decorator, "func", decorator))) is not None


def unread(interp: Interpreter, value: Value, decorator: ast.expr) -> Value:
    """What a decorator that was not read makes of a function or a class: it gives it back, unless it may cache."""
    if may_cache(decorator):
        return interp.fresh_symbol("decorated")
    if isinstance(value, Function):
        interp.log.unresolved.add(value.name)
    return value


def applied(interp: Interpreter, decorator: Value, value: Value, node: ast.expr) -> Value:
    """What a function, a class or an object of the program makes of what it decorates."""
    if isinstance(value, (Function, Class)) and registration.is_entered_again(interp, decorator):
        return value
    made = interp.call(decorator, [value], {}, node)
    return made if isinstance(made, (Function, Bound, Class, Instance, Partial)) else value


def _yields(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function itself, not one inside it, yields."""
    stack: list[ast.AST] = list(node.body)
    while stack:
        part = stack.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(children(part))
    return False


def define_class(interp: Interpreter, node: ast.ClassDef) -> str:
    cls = Class(node.name, [interp.eval(base) for base in node.bases], {}, node, interp.source, interp.scope)
    outer = interp.scope
    interp.scope = Scope(cls.names, parent=outer, globals=outer.globals)
    try:
        interp.run(node.body)
    finally:
        interp.scope = outer
    for name, slot in list(cls.names.items()):
        if isinstance(slot.value, Instance):
            named = class_lookup.find(slot.value, "__set_name__")
            if named is not None:
                interp.call(
                    class_lookup.bind(named, slot.value),
                    [cls, name],
                    {},
                    node.bases[0] if node.bases else _anchor(node),
                )
        function = slot.value.function if isinstance(slot.value, Partial) and slot.value.method else slot.value
        if isinstance(function, Function):
            function.owner = cls
            function.scope = outer if function.scope.names is cls.names else function.scope
    _made_by_metaclass(interp, cls, node)
    attributes.enumerate_members(interp, cls, _anchor(node))
    value: Value = cls
    for decorator in reversed(node.decorator_list):
        value = _decorated(interp, value, decorator)
    outer.names[node.name] = Binding(value)
    for base in cls.bases:
        told = class_lookup.find(Instance(base), "__init_subclass__") if isinstance(base, Class) else None
        if isinstance(told, Function):
            keywords = {one.arg: interp.eval(one.value) for one in node.keywords if one.arg not in (None, "metaclass")}
            interp.call(Bound(told, cls), [], keywords, _anchor(node))
            break
    return ""


def _made_by_metaclass(interp: Interpreter, cls: Class, node: ast.ClassDef) -> None:
    """The ``__new__`` of a metaclass of the program may put other methods in the place of those that are written."""
    given = [interp.eval(keyword.value) for keyword in node.keywords if keyword.arg == "metaclass"]
    inherited = [base.metaclass for base in cls.bases if isinstance(base, Class)]
    cls.metaclass = next((one for one in (*given, *inherited) if isinstance(one, Class)), None)
    if cls.metaclass is None:
        return
    members: dict[Any, Binding] = dict(cls.names)
    namespace, bases = Mapping(members), Sequence("tuple", [Binding(base) for base in cls.bases])
    made, begun = (class_lookup.find(Instance(cls.metaclass), name) for name in ("__new__", "__init__"))
    if isinstance(made, Function):
        interp.making.append(cls)
        interp.call(made, [cls.metaclass, node.name, bases, namespace], {}, _anchor(node))
        if interp.making.pop() is cls:  # `type` was asked for the class in a way that is not read
            cls.names.update({str(name): slot for name, slot in namespace.items.items()})
    if isinstance(begun, Function):
        interp.call(begun, [cls, node.name, bases, namespace], {}, _anchor(node))


def _anchor(node: ast.ClassDef) -> ast.expr:
    return ast.copy_location(ast.Name(node.name, ast.Load()), node)
