"""Things of libraries by their names, and the program's modules, ``super()`` and named tuples."""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

from autofix.codemods.autograd import groups
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    definitions,
    library_calls,
    super_calls,
    unpacking,
    written,
)
from autofix.codemods.interpreter.kinds.kind import Assignment, Kind, MethodsKind, kind
from autofix.codemods.interpreter.values import (
    Binding,
    Function,
    Instance,
    Mapping,
    Method,
    Module,
    Name,
    Record,
    Sequence,
    Super,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols


@kind(Name)
class NameKind(Kind[Name]):
    """A thing of a library, by its dotted path."""

    def call(
        self, interp: Interpreter, value: Name, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return library_calls.call_name(interp, value.path, args, keywords, node)

    def decorate(self, interp: Interpreter, decorator: Name, value: Value, node: ast.expr) -> Value:
        if isinstance(value, Function) and definitions.keeps(interp, value, decorator, node):
            return value
        if definitions.may_cache(node):
            return interp.fresh_symbol("decorated")
        if not isinstance(value, Function):
            return value
        if decorator.last in ("singledispatch", "singledispatchmethod"):
            return interp.fresh_symbol("dispatched")  # which body runs is for the arguments to say
        if decorator.last in groups.WITHOUT_GRAPH:
            value.grad_mode = False
        elif decorator.last == "enable_grad":
            value.grad_mode = True
        elif decorator.last in ("staticmethod", "classmethod", "property"):
            value.flavour = decorator.last
        return value

    def attribute(self, interp: Interpreter, value: Name, name: str, node: ast.expr) -> Value:
        if name == "__name__":
            return value.last
        if value.path == "math" and isinstance(getattr(math, name, None), float):
            return float(getattr(math, name))
        path = f"{value.path}.{name}"
        if path in ("torch.__version__", "torch.version.__version__"):
            return attributes.TORCH
        return interp.symbol(attributes.COMMAND_LINE) if path == "sys.argv" else Name(path)

    def set_attribute(self, interp: Interpreter, value: Name, name: str, slot: Binding, by: Assignment) -> None:
        if value.path == "torch.Tensor":
            interp.tensor_methods[name] = slot

    def item(self, interp: Interpreter, value: Name, index: Value, node: ast.expr) -> Value:
        if value.path == "sys.modules" and isinstance(index, str) and (module := _module_called(interp, index)):
            return module
        if value.path.partition(".")[0] in ("os", "sys"):
            kind = "environment" if value.path == "os.environ" else value.path
            return interp.symbol((kind, interp.key(index)))
        return value  # Optional[int], nn.Module[...]

    def truth(self, interp: Interpreter, value: Name, *, likely: bool, optional: bool) -> bool:
        if value.path not in interp.optional_imports:
            return True
        return interp.policy.decide(interp.optional_imports[value.path], likely, optional=optional)

    def key(self, symbols: Symbols, value: Name) -> Hashable:
        return ("name", value.path)


@kind(Module)
class ProgramModuleKind(Kind[Module]):
    """A module of the program."""

    def attribute(self, interp: Interpreter, value: Module, name: str, node: ast.expr) -> Value:
        if name == "__dict__":
            return Mapping(value.scope.names)  # type: ignore[arg-type]  # the very names
        slot = value.scope.names.get(name)
        return interp.read(slot) if slot is not None else interp.symbol(("module", value.source.path, name))

    def set_attribute(self, interp: Interpreter, value: Module, name: str, slot: Binding, by: Assignment) -> None:
        value.scope.names[name] = slot


@kind(Super)
class SuperKind(Kind[Super]):
    """``super()``."""

    def call_method(
        self,
        interp: Interpreter,
        value: Super,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        return super_calls.call_super(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Super, name: str, node: ast.expr) -> Value:
        instance = value.instance
        found = class_lookup.find(instance, name, value.after) if isinstance(instance, Instance) else None
        if found is not None:
            return class_lookup.bind(found, instance)
        return Method((name != "__init__" and class_lookup.exits_of(instance)) or value, name, node)


@kind(Record)
class RecordKind(MethodsKind[Record]):
    """The class of a named tuple."""

    def call(
        self, interp: Interpreter, value: Record, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        parts = written.arguments(node)
        slots = [interp.slot(one, "", parts[at] if at < len(parts) else None) for at, one in enumerate(args)]
        for name in value.fields[len(slots) :]:
            known = name in keywords
            given = keywords[name] if known else interp.fresh_symbol(name)
            slots.append(interp.slot(given, "", written.keyword(node, name) if known else None))
        return Sequence("tuple", slots, fields=value.fields, cls=value)

    def call_method(
        self,
        interp: Interpreter,
        value: Record,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if name == "_make" and len(args) == 1:
            return interp.call(value, unpacking.unpacked(interp, args[0], None, node), {}, node)
        return super().call_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Record, name: str, node: ast.expr) -> Value:
        if name == "_fields":
            return Sequence("tuple", [Binding(field) for field in value.fields])
        if name in ("__name__", "__qualname__") and value.name is not None:
            return value.name
        return super().attribute(interp, value, name, node)


def _module_called(interp: Interpreter, name: str) -> Module | None:
    """A module of the program by its name, as ``sys.modules[__name__]`` is the one that runs."""
    scope = interp.scope.globals or interp.scope
    own = scope.names.get("__name__")
    if own is not None and own.value == name:
        return Module(interp.source, scope)
    source = interp.sources.module(name, 0, interp.source)
    return interp.module(source) if source is not None else None
