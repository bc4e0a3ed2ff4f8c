"""Exceptions of the program: which of them a ``try`` awaits, and what is raised through calls to it.

An error that nobody awaits ends nothing: what follows is read all the same, because nobody writes a script that fails
for another reason than the mistake that is looked for.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Class, Instance, Name, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_ANY = (Name("builtins.Exception"), Name("builtins.BaseException"))
Wanted = tuple[Value, ...]
"""The types of errors that one ``try`` handles."""


class Raised(Exception):
    """An error of the program, on its way to the ``try`` that awaits it."""

    def __init__(self, error: Value) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def awaiting(interp: Interpreter, wanted: Wanted) -> Iterator[None]:
    """While a block runs whose errors of these types are handled."""
    interp.exceptions.awaited = (*interp.exceptions.awaited, wanted)
    try:
        yield
    finally:
        interp.exceptions.awaited = interp.exceptions.awaited[:-1]


@contextmanager
def by_itself(interp: Interpreter) -> Iterator[None]:
    """While something runs whose errors mean something to Python itself: ``__next__``."""
    before, interp.exceptions.awaited = interp.exceptions.awaited, ()
    try:
        yield
    finally:
        interp.exceptions.awaited = before


def happen(interp: Interpreter, kind: str) -> None:
    """A built-in error certainly happens.  Raises :class:`Raised` where it is awaited."""
    raise_awaited(interp, Name(f"builtins.{kind}"))


def may_happen(interp: Interpreter, kind: str, node: ast.expr) -> None:
    """A built-in error happens on some path, where a ``try`` names it, or what it is one of, and not just any error."""
    error = Name(f"builtins.{kind}")
    named = any(_is_of(error, one) and one not in _ANY for kinds in interp.exceptions.awaited for one in kinds)
    if named and not interp.policy.decide(("no error", interp.site(node).line), True):
        raise Raised(error)


def raise_awaited(interp: Interpreter, error: Value) -> None:
    if any(handles(wanted, error) for wanted in interp.exceptions.awaited):
        raise Raised(error)


def handles(wanted: Iterable[Value], error: Value) -> bool:
    """Whether an error is certainly of one of these types."""
    return any(_is_of(error, kind) for kind in wanted)


def wanted_by(interp: Interpreter, handler: ast.ExceptHandler) -> Wanted:
    """The types that an ``except`` names: all, where it names none."""
    if handler.type is None:
        return (Name("builtins.BaseException"),)
    return kinds_of([interp.eval(handler.type)])


def kinds_of(values: Iterable[Value]) -> Wanted:
    """Types, and those in tuples of them."""
    found: list[Value] = []
    for value in values:
        found += [slot.value for slot in value.items] if isinstance(value, Sequence) else [value]
    return tuple(found)


def _is_of(error: Value, kind: Value) -> bool:
    if isinstance(error, Instance):
        error = error.cls
    bases = class_lookup.lineage(error) if isinstance(error, Class) else [error]
    if kind in bases:
        return True
    wanted = _built_in(kind)
    return wanted is not None and any(issubclass(own, wanted) for base in bases if (own := _built_in(base)) is not None)


def _built_in(kind: Value) -> type[BaseException] | None:
    last = kind.path.removeprefix("builtins.") if isinstance(kind, Name) else ""
    found = getattr(builtins, last, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
