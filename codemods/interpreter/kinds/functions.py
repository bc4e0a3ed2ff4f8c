"""What the program calls: functions, bound and partly applied ones, and methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import attributes, calls, definitions, managers, own_functions, streams
from autofix.codemods.interpreter.kinds.kind import Assignment, Kind, MethodsKind, V, kind, kind_of
from autofix.codemods.interpreter.values import (
    Applied,
    Binding,
    Bound,
    Class,
    Function,
    GradMode,
    Guarded,
    Instance,
    Method,
    Name,
    Partial,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


class _WithAttributes(Kind[V]):
    """What has attributes only as far as somebody has set them."""

    def attribute(self, interp: Interpreter, value: V, name: str, node: ast.expr) -> Value:
        function = value.function if isinstance(value, Bound) else value
        if isinstance(function, Function) and function.cache is not None and name == "cache_clear":
            return Method(value, name, node)
        slot = interp.attributes_of_opaque.get((attributes.owner_of(interp, value), name))
        if slot is not None:
            return interp.read(slot)
        if name == "__name__" and isinstance(function, Function):
            return function.name
        if isinstance(value, Method) and isinstance(value.receiver, (Symbol, Instance)):
            return Method(attributes.plain(interp, value), name, node)
        return interp.fresh_symbol("attr", name)

    def set_attribute(self, interp: Interpreter, value: V, name: str, slot: Binding, by: Assignment) -> None:
        interp.attributes_of_opaque[attributes.owner_of(interp, value), name] = slot

    def call_method(
        self,
        interp: Interpreter,
        value: V,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        function = value.function if isinstance(value, Bound) else value
        if isinstance(function, Function) and name == "cache_clear":
            function.cache = {}
            return None
        return super().call_method(interp, value, name, args, keywords, node)


@kind(Function)
class FunctionKind(_WithAttributes[Function]):
    """A function of the program."""

    def call(
        self, interp: Interpreter, value: Function, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return calls.call_function(interp, value, args, keywords, node)

    def decorate(self, interp: Interpreter, decorator: Function, value: Value, node: ast.expr) -> Value:
        return definitions.applied(interp, decorator, value, node)

    def is_callable(self, value: Function) -> bool:
        return True

    def is_part(self, value: Function) -> bool:
        return any(map(streams.is_part, value.defaults))


@kind(Bound)
class BoundKind(_WithAttributes[Bound]):
    """A function of the program with the object that it is a method of."""

    def call(
        self, interp: Interpreter, value: Bound, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return calls.call_function(interp, value.function, [value.receiver, *args], keywords, node)

    def decorate(self, interp: Interpreter, decorator: Bound, value: Value, node: ast.expr) -> Value:
        return definitions.applied(interp, decorator, value, node)

    def is_callable(self, value: Bound) -> bool:
        return True

    def is_part(self, value: Bound) -> bool:
        return streams.is_part(value.receiver)


@kind(Method)
class MethodKind(_WithAttributes[Method]):
    """An attribute of an object that has not been called yet; most are methods."""

    def call(
        self, interp: Interpreter, value: Method, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return kind_of(value.receiver).call_method(interp, value.receiver, value.name, args, keywords, node)

    def decorate(self, interp: Interpreter, decorator: Method, value: Value, node: ast.expr) -> Value:
        if isinstance(decorator.receiver, Class):  # `@Base.register`
            return definitions.applied(interp, decorator, value, node)
        return definitions.unread(interp, value, node)

    def set_attribute(self, interp: Interpreter, value: Method, name: str, slot: Binding, by: Assignment) -> None:
        """Set on none: what it is an attribute of is not known, or has no such attributes."""

    def item(self, interp: Interpreter, value: Method, index: Value, node: ast.expr) -> Value:
        owner = attributes.plain(interp, value)
        known = isinstance(owner, Symbol)
        return interp.item(owner, index, node) if known else super().item(interp, value, index, node)

    def is_callable(self, value: Method) -> bool | None:
        return True if isinstance(value.receiver, TensorRef) else None

    def leaves(self, interp: Interpreter, value: Method, seen: set[int]) -> Iterator[Leaf]:
        if value.name in ("parameters", "named_parameters"):
            yield from interp.own_parameters(value.receiver)


@kind(Partial)
class PartialKind(Kind[Partial]):
    """A function with some of its arguments."""

    def call(
        self, interp: Interpreter, value: Partial, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return interp.call(value.function, [*value.args, *args], {**value.keywords, **keywords}, node)

    def leaves(self, interp: Interpreter, value: Partial, seen: set[int]) -> Iterator[Leaf]:
        yield from interp.leaves_of(value.function, seen)

    def is_part(self, value: Partial) -> bool:
        return any(map(streams.is_part, value.args))


@kind(Applied)
class AppliedKind(Kind[Applied]):
    """The ``apply`` of an autograd Function of the program."""

    def call(
        self, interp: Interpreter, value: Applied, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return own_functions.apply(interp, value.function, [*args, *keywords.values()], node)


@kind(Guarded)
class GuardedKind(Kind[Guarded]):
    """A function that runs in a grad mode of its own."""

    def call(
        self, interp: Interpreter, value: Guarded, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        with interp.grad_mode(value.enabled, interp.site(node)):
            return interp.call(value.function, args, keywords, node)


@kind(GradMode)
class GradModeKind(MethodsKind[GradMode]):
    """``torch.no_grad()``, as a block's manager or a decorator."""

    def call(
        self, interp: Interpreter, value: GradMode, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        decorated = args[0] if args else None
        if isinstance(decorated, Function):
            decorated.grad_mode = value.enabled
            return decorated
        if isinstance(decorated, (Name, Bound, Method, TorchModule)) and value.enabled is not None:
            return Guarded(decorated, value.enabled)
        return None

    def decorate(self, interp: Interpreter, decorator: GradMode, value: Value, node: ast.expr) -> Value:
        if isinstance(value, Function):
            value.grad_mode = decorator.enabled
        return value

    def call_method(
        self,
        interp: Interpreter,
        value: GradMode,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        return managers.call_grad_mode(interp, value, name, node)
