"""The registry of models: which function stands for a library's, and how it is given the arguments of a call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from autofix.codemods.interpreter.values import Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

DECLINED = object()
"""Result of a model for values that it does not cover: the next model is asked."""
_BEFORE = 2
"""The parameters of a model that are no arguments of the call: the interpreter and the call."""

Function = TypeVar("Function", bound=Callable[..., Value])


class Call(NamedTuple):
    """The call that a model stands for."""

    node: ast.expr
    name: str
    """The name of the method, or the dotted name of the function."""

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


class Model:
    """A function that stands for library functions; its parameters after the first two take the arguments."""

    def __init__(self, function: Callable[..., Value]) -> None:
        self.function = function
        parameters = list(inspect.signature(function).parameters.values())[_BEFORE:]
        kinds = inspect.Parameter
        by_position = [one for one in parameters if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
        self._required = [one.name for one in by_position if one.default is kinds.empty]
        self._most = len(by_position)
        self._several = any(one.kind is kinds.VAR_POSITIONAL for one in parameters)
        self._places = {one.name: at for at, one in enumerate(by_position) if one.kind is kinds.POSITIONAL_OR_KEYWORD}
        self._named = {one.name for one in parameters if one.kind is kinds.KEYWORD_ONLY}
        self._any_name = any(one.kind is kinds.VAR_KEYWORD for one in parameters)

    def fits(self, args: Sequence[Value], keywords: Mapping[str, Value]) -> bool:
        """Whether the function takes these arguments."""
        given = len(args)
        if given > self._most and not self._several:
            return False
        for name in keywords:
            place = self._places.get(name)
            if given > place if place is not None else not self._any_name and name not in self._named:
                return False
        if given >= len(self._required):
            return True
        return all(name in keywords and name in self._places for name in self._required[given:])


class Models:
    """Models by name.  ``"torch.*.Variable"`` is a name anywhere below torch, ``"*.tqdm"`` one of any library,
    ``"torch.nn.*"`` whatever lies below ``torch.nn``; the more is written out, the earlier a model is asked."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Value]] = {}
        self._found: dict[str, tuple[Model, ...]] = {}

    def __call__(self, *names: str) -> Callable[[Function], Function]:
        """Register the decorated function under *names*."""

        def register(function: Function) -> Function:
            for name in names:
                if name in self._functions:
                    raise ValueError(f"two models of {name}")
                self._functions[name] = function
            self._found.clear()
            return function

        return register

    def names(self) -> list[str]:
        """The names of all that is modelled, in order."""
        return sorted(self._functions)

    def asked(self, name: str) -> tuple[Model, ...]:
        """The models for the function or method called *name*, the closest first."""
        found = self._found.get(name)
        if found is None:
            functions = (self._functions.get(pattern) for pattern in _patterns(name))
            found = self._found[name] = tuple(_model(function) for function in functions if function is not None)
        return found

    def call(
        self, interp: Interpreter, call: Call, *args: Value, given: Sequence[Value], keywords: Mapping[str, Value]
    ) -> Value:
        """The result of the first model that covers the call; ``DECLINED`` where none does.

        *args* (the receiver of a method) go before the arguments that are *given*.
        """
        whole = (*args, *given)
        for model in self.asked(call.name):
            if model.fits(whole, keywords):
                result = model.function(interp, call, *whole, **keywords)
                if result is not DECLINED:
                    return result
        return DECLINED


@cache
def _model(function: Callable[..., Value]) -> Model:
    """The model that a function is: most are asked by no program, and signatures take a while to read."""
    return Model(function)


def _patterns(name: str) -> list[str]:
    """The names under which a model of *name* may be registered, the closest first."""
    parts = name.split(".")
    folders = [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
    anywhere = [f"{folder}.*.{parts[-1]}" for folder in folders]
    return [name, *anywhere, f"*.{parts[-1]}", *(f"{folder}.*" for folder in folders)]


model = Models()
"""Models of functions, by their dotted names."""
