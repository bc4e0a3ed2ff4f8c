"""Expressions that a growing number decides on: ``step < 1000`` as a factor, ``step % 1000`` as an index.

What such an expression does once its value turns, a run that was stopped before does not show.
"""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Callable
from typing import Any

OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
NUMBERS = (int, float)
ENOUGH = 2
"""Values after which an expression has turned."""


class Turn:
    """One expression: the numbers that it had, and its values."""

    def __init__(self, text: str) -> None:
        self._tree = ast.parse(text, mode="eval").body
        self._seen: set[tuple[float, ...]] = set()
        self._values: set[float] = set()
        self.open = True
        """Whether it may still turn."""

    def look(self, frame: types.FrameType) -> None:
        """Note its value in *frame*; it is given up where it is not one of plain numbers."""
        numbers: list[float] = []
        try:
            self._values.add(self._value(self._tree, frame, numbers))
        except (LookupError, ArithmeticError, TypeError):
            self._seen.clear()
            self.open = False
        else:
            if len(self._seen) < ENOUGH:
                self._seen.add(tuple(numbers))
            self.open = len(self._values) < ENOUGH

    @property
    def misses(self) -> bool:
        """Whether its numbers have changed, but not its value."""
        return self.open and len(self._seen) >= ENOUGH

    def _value(self, node: ast.AST, frame: types.FrameType, numbers: list[float]) -> Any:
        match node:
            case ast.Constant(value=value) if isinstance(value, NUMBERS):
                return value
            case ast.Name(id=name):
                value = frame.f_locals[name] if name in frame.f_locals else frame.f_globals[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                holder = frame.f_locals[name] if name in frame.f_locals else frame.f_globals[name]
                value = getattr(holder, "__dict__", {})[attribute]
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                one, other = self._value(left, frame, numbers), self._value(right, frame, numbers)
                return OPERATIONS[type(op)](one, other)
            case _:
                raise LookupError
        if not isinstance(value, NUMBERS):
            raise LookupError
        numbers.append(value)
        return value
