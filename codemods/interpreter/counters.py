"""Knowledge of numbers that count: bounds, the distance of two, and the consequences of answered conditions."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter.policy import KEYS
from autofix.codemods.interpreter.values import Symbol, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def offset_of(key: Any) -> tuple[Any, int]:
    """The key of a counter's starting value, and its offset from there."""
    return (key[1], key[2]) if isinstance(key, tuple) and len(key) == 3 and key[0] == "plus" else (key, 0)


def by_bounds(interp: Interpreter, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """Decide a comparison of a bounded unknown with a number, where the bounds decide it."""
    if isinstance(right, Symbol) and isinstance(left, (int, float)):
        return by_bounds(interp, _MIRRORED.get(type(op), type(op))(), right, left)
    if not (isinstance(left, Symbol) and isinstance(right, (int, float))):
        return None
    low, high = _bounds_of(interp, left)
    if low > right:
        return isinstance(op, (ast.Gt, ast.GtE, ast.NotEq))
    if high < right:
        return isinstance(op, (ast.Lt, ast.LtE, ast.NotEq))
    if low == right and isinstance(op, (ast.GtE, ast.Lt)):
        return isinstance(op, ast.GtE)
    if high == right and isinstance(op, (ast.LtE, ast.Gt)):
        return isinstance(op, ast.LtE)
    return None


def note(interp: Interpreter, key: Hashable, answer: bool) -> None:
    """A condition was answered: from ``step > 5`` on, the counter is 6 or more, and more than that later."""
    while isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
        key, answer = key[1], not answer
    low, high = -math.inf, math.inf
    match key:
        case ("Gt", which, ("int" | "float", int() | float() as bound)) | (
            "Lt",
            ("int" | "float", int() | float() as bound),
            which,
        ):
            low, high = (_beyond(bound), high) if answer else (low, _beyond(bound) - 1)
        case ("Lt", which, ("int" | "float", int() | float() as bound)) | (
            "Gt",
            ("int" | "float", int() | float() as bound),
            which,
        ):
            low, high = (low, -_beyond(-bound)) if answer else (1 - _beyond(-bound), high)
        case ("Eq", which, ("int", int() as bound)) | ("Eq", ("int", int() as bound), which) if answer:
            low = high = bound
        case _:
            return
    base, offset = offset_of(which)
    if isinstance(base, tuple) and base[:1] in (("index",), ("count",)):
        least, most = interp.bounds.get(base, (-math.inf, math.inf))
        interp.bounds[base] = max(least, low - offset), min(most, high - offset)


def _beyond(bound: float) -> float:
    """The first whole number above a bound."""
    return math.floor(bound) + 1 if math.isfinite(bound) else bound


def _bounds_of(interp: Interpreter, value: Symbol) -> tuple[float, float]:
    """Between what a value is, both inclusive, by what it is and by the conditions that held of it or of others."""
    low = -math.inf if value.low is None else value.low
    high = math.inf if value.high is None else value.high
    base, offset = offset_of(value.key)
    for known, (least, most) in interp.bounds.items():
        ahead = 0 if known == base else base[2] - known[2] if _are_siblings(base, known) else None  # type: ignore[index]
        if ahead is not None:  # a counter that falls has falling numbers in its keys
            low = max(low, least + ahead + offset) if ahead >= 0 else low
            high = min(high, most + ahead + offset) if ahead <= 0 else high
    return low, high


def by_offsets(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """Decide a comparison of a counter with what it was, or will be, some counts away."""
    if not (isinstance(left, Symbol) and isinstance(right, Symbol)):
        return None
    (base, offset), (other, away) = offset_of(left.key), offset_of(right.key)
    if base == other:
        return bool(COMPARE[type(op)](offset, away)) if offset != away else None
    if offset == away and _are_siblings(base, other) and isinstance(op, (ast.Eq, ast.NotEq)):
        return isinstance(op, ast.NotEq)
    return None


def _are_siblings(one: Hashable, other: Hashable) -> bool:
    """Whether two values are the counter of one run of one loop in different iterations."""
    return (
        isinstance(one, tuple)
        and isinstance(other, tuple)
        and len(one) == len(other) == 3
        and one[:2] == other[:2]
        and one[0] == "index"
        and one[2] != other[2]
    )


def sure_answers(kind: type[ast.cmpop], left: Value, right: Value) -> Collection[bool]:
    """The answers to a comparison of a counter with a number that its loop certainly comes to, where it goes on.

    Those are the answers for the number that is next, and where the counter's last number is known, for all but that:
    behind it there is no iteration to which anything could be carried.
    """
    if isinstance(right, Symbol):
        left, right, kind = right, left, _MIRRORED.get(kind, kind)
    if not isinstance(left, Symbol) or not isinstance(right, (int, float)) or not math.isfinite(right):
        return ()
    falls = _falls(left.key)
    following, last = (left.high, left.low) if falls else (left.low, left.high)
    if following is None:
        return ()
    asked = [following]
    if last is not None:
        around = (math.floor(right) + beyond for beyond in (-1, 0, 1, 2))
        asked += [number for number in around if (last < number <= following if falls else following <= number < last)]
    return {bool(COMPARE[kind](number, right)) for number in asked}


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}


def _falls(key: Hashable) -> bool:
    """Whether a counter is less in each iteration than in the one before."""
    base, _ = offset_of(key)
    return isinstance(base, tuple) and len(base) == 3 and base[0] == "index" and type(base[2]) is int and base[2] < 0


def is_of_counters(key: Hashable) -> bool:
    """Whether a condition is computed from counters of loops and from what stays as it is, and not every k-th time."""
    return _counts(key) and not _changes_otherwise(key)


@lru_cache(maxsize=KEYS)
def _counts(key: Hashable) -> bool:
    return isinstance(key, tuple) and (key[:1] in (("index",), ("count",)) or any(map(_counts, key)))


@lru_cache(maxsize=KEYS)
def _changes_otherwise(key: Hashable) -> bool:
    """Whether something that changes from iteration to iteration is not a counter, or the condition is periodic."""
    match key:
        case ("index" | "count", *_) | ("len", ("tensor", *_)):
            return False
        case ("remainder", of, tuple() as period) if period[:1] != ("int",):  # which may be one
            return _changes_otherwise(of)
        case ("residue" | "remainder" | "~" | "tensor" | "item" | "get", *_):
            return True
        case tuple():
            return any(map(_changes_otherwise, key))
    return False
