"""Objects of libraries that hold a state of the run: optimizers, hooks, generators, and stacks of managers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import managers, optimizers, unknown_calls
from autofix.codemods.interpreter.generators import Exhausted, Generator
from autofix.codemods.interpreter.kinds.kind import Kind, MethodsKind, kind
from autofix.codemods.interpreter.streams import LazyStream, Stream
from autofix.codemods.interpreter.values import Exits, Function, Hook, Optimizer, Partial, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@kind(Optimizer)
class OptimizerKind(MethodsKind[Optimizer]):
    """An optimizer, or what the program has used as one."""

    def call_method(
        self,
        interp: Interpreter,
        value: Optimizer,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if value.guessed and name not in optimizers.METHODS:
            other = interp.symbol(("object", interp.identity(value)))
            return unknown_calls.call_unknown(interp, other, name, args, keywords, node)
        return optimizers.call_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Optimizer, name: str, node: ast.expr) -> Value:
        if name == "param_groups":
            return optimizers.param_groups(value)
        return super().attribute(interp, value, name, node)


@kind(Hook)
class HookKind(MethodsKind[Hook]):
    """The handle of a hook."""

    def call_method(
        self,
        interp: Interpreter,
        value: Hook,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if name == "remove":
            interp.hooks = [hook for hook in interp.hooks if hook is not value]
            interp.backward_hooks = [hook for hook in interp.backward_hooks if hook is not value]
        return None


@kind(Exits)
class ExitsKind(MethodsKind[Exits]):
    """A ``contextlib.ExitStack``."""

    def call_method(
        self,
        interp: Interpreter,
        value: Exits,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        return managers.call_exits(interp, value, name, args, keywords, node)


@kind(Generator)
class GeneratorKind(MethodsKind[Generator]):
    """A generator of the program."""

    def call_method(
        self,
        interp: Interpreter,
        value: Generator,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if name == "close":
            value.close()
            return None
        if name in ("send", "__next__"):
            try:
                return interp.read(value.resume(args[0] if args else None))
            except Exhausted:
                return interp.fresh_symbol("exhausted")
        return interp.fresh_symbol(name)

    def decorate(self, interp: Interpreter, decorator: Generator, value: Value, node: ast.expr) -> Value:
        """The function of a ``contextlib.contextmanager`` makes a new manager at each call of what it decorates."""
        if isinstance(value, Function) and isinstance(node, ast.Call) and not node.keywords:
            given = [interp.eval(argument) for argument in node.args]
            value.managers = (*value.managers, Partial(interp.eval(node.func), given, {}))
        return value

    def iterate(self, interp: Interpreter, value: Generator, node: ast.expr) -> Stream:
        return Stream(
            None, lambda at, exact: interp.read(value.resume()), lazy=True, turn=value.turn, empties=value.takes_out
        )


@kind(LazyStream)
class LazyStreamKind(Kind[LazyStream]):
    """``enumerate(...)``, ``zip(...)``: items that are taken one by one."""

    def iterate(self, interp: Interpreter, value: LazyStream, node: ast.expr) -> Stream:
        return value.rest()
