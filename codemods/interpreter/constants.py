"""Computation by Python itself: calls whose arguments are all written out, numbers, text and containers of them."""

from __future__ import annotations

import itertools
import math
import operator
import os.path
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import mapping_keys
from autofix.codemods.interpreter.values import Binding, Sequence, Symbol, Value, is_constant
from autofix.codemods.interpreter.values import Mapping as Dictionary

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

LARGEST = 10_000
"""Numbers, and lengths of text, up to which a result is worked out."""
ITEMS = 64
"""Items of a container up to which it is looked through."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{
        f"builtins.{one.__name__}": one
        for one in (abs, bin, chr, divmod, hex, max, min, oct, ord, pow, repr, round, sorted, sum)
    },
    **{
        f"math.{one.__name__}": one
        for one in (math.ceil, math.floor, math.sqrt, math.prod, math.log, math.log2, math.exp, math.gcd, math.isclose)
    },
    **{
        f"operator.{name}": getattr(operator, name)
        for name in "add sub mul truediv floordiv mod neg lt le eq contains".split()
    },
    **{f"os.path.{name}": getattr(os.path, name) for name in "join basename dirname splitext".split()},
}
_OF_TEXT = frozenset(name for name in dir(str) if not name.startswith("_")) - {"encode", "translate", "maketrans"}
_KINDS: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": frozenset,
    "frozenset": frozenset,
    "deque": deque,
}
# Functions of `itertools` that go by the positions of items alone, whatever the items are.
_BY_PLACE: Mapping[str, Callable[..., Any]] = {
    name: getattr(itertools, name)
    for name in "product combinations permutations combinations_with_replacement zip_longest pairwise repeat".split()
}


class NotWritten(Exception):
    """A value that is not written out, or too large."""


def as_python(value: Value) -> Any:
    """The Python object that a value stands for.  Raises :class:`NotWritten`."""
    if is_constant(value):
        # A whole number may be too large for `math.isfinite`.
        if isinstance(value, (int, float)) and LARGEST < abs(value) != math.inf:
            raise NotWritten
        return value
    if isinstance(value, Sequence) and not (value.more or value.fields) and len(value.items) <= ITEMS:
        try:
            return _KINDS[value.kind]([as_python(slot.value) for slot in value.items])
        except TypeError:
            raise NotWritten from None
    if isinstance(value, Dictionary) and not value.more and len(value.items) <= ITEMS:
        if all(is_constant(key) for key in value.items):
            return {key: as_python(slot.value) for key, slot in value.items.items()}
    raise NotWritten


def as_value(interp: Interpreter, found: Any) -> Value:
    """The value that stands for a Python object.  Raises :class:`NotWritten`."""
    if is_constant(found):
        if isinstance(found, str) and len(found) > LARGEST:
            raise NotWritten
        return found
    kind = "set" if isinstance(found, (set, frozenset)) else type(found).__name__
    if kind == "set":
        found = sorted(found, key=repr)  # in one order in every run of autofix
    if kind in _KINDS and len(found) <= ITEMS:
        return Sequence(kind, [Binding(as_value(interp, one)) for one in found])
    if isinstance(found, dict):
        pairs = ((mapping_keys.mapping_key(interp, key), as_value(interp, one)) for key, one in found.items())
        return Dictionary({key: Binding(one) for key, one in pairs})
    raise NotWritten


def computed(
    interp: Interpreter, function: Callable[..., Any], args: list[Value], keywords: Mapping[str, Value] | None = None
) -> Value:
    """The result of *function* for these arguments.  Raises :class:`NotWritten`, also for an error in the call."""
    given = [as_python(arg) for arg in args]
    named = {name: as_python(value) for name, value in (keywords or {}).items()}
    try:
        return as_value(interp, function(*given, **named))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise NotWritten from None


def of_text(interp: Interpreter, text: str, name: str, args: list[Value], keywords: Mapping[str, Value]) -> Value:
    """A method of text.  Raises :class:`NotWritten`."""
    if name not in _OF_TEXT or len(text) > LARGEST or (name == "format" and is_wide(text)):
        raise NotWritten
    return computed(interp, getattr(text, name), args, keywords)


def of_usual_text(
    interp: Interpreter, text: Symbol, name: str, args: list[Value], keywords: Mapping[str, Value]
) -> Symbol | None:
    """A method of an unknown text with a default: ``opt.model.replace("_", "")``; None where it gives no text."""
    if not isinstance(text.usual, str) or keywords or name not in _OF_TEXT:
        return None

    def called(known: str, *others: Any) -> str | None:
        made = of_text(interp, known, name, list(others), {})
        return made if isinstance(made, str) else None

    with suppress(NotWritten):
        usual = usual_text(interp, [text, *args], called)
        if usual is not None:
            made = interp.symbol(("text", name, text.key, *map(interp.key, args)))
            made.usual = usual
            return made
    return None


def is_wide(text: str) -> bool:
    """Whether a format may ask for text of many thousand characters: ``{:>10000000}``."""
    return _WIDE.search(text) is not None


_WIDE = re.compile(r"\d{5}")


def usual_text(interp: Interpreter, parts: list[Value], compute: Callable[..., str | None]) -> str | None:
    """The text that *compute* makes of *parts*, each of them what it usually is; None where one has no default."""
    known = [part.usual if isinstance(part, Symbol) else part for part in parts]
    for part, usual in zip(parts, known, strict=True):
        if usual is None or not is_constant(usual):
            return None
        if isinstance(part, Symbol) and interp.policy.denied(("Eq", part.key, interp.key(usual))):
            return None
    if length(known) > LARGEST:
        return None
    with suppress(TypeError, ValueError, OverflowError):
        return compute(*known)
    return None


def length(parts: list[Any]) -> int:
    """Number of characters of the texts among *parts*: doubled by each line, they would fill the memory."""
    return sum(len(part) for part in parts if isinstance(part, (str, bytes)))


def by_place(name: str, args: list[Value], keywords: Mapping[str, Value]) -> Sequence:
    """``itertools.product(xs, ys)`` and its like, of containers that are known.  Raises :class:`NotWritten`."""
    if name not in _BY_PLACE:
        raise NotWritten
    given: list[Any] = [args[0], *args[1:]] if name == "repeat" else [_places(arg) for arg in args]
    if name == "repeat" and (len(args) < 2 or not isinstance(args[1], int)):
        raise NotWritten
    named = {key: value for key, value in keywords.items() if is_constant(value)}
    try:
        found = list(itertools.islice(_BY_PLACE[name](*given, **named), ITEMS + 1))
    except (OverflowError, TypeError, ValueError):
        raise NotWritten from None
    if len(found) > ITEMS or len(named) < len(keywords):
        raise NotWritten
    if name == "repeat":
        return Sequence("list", [Binding(one) for one in found])
    return Sequence("list", [Binding(Sequence("tuple", [Binding(one) for one in several])) for several in found])


def _places(value: Value) -> Any:
    """The items of a container; a number, or nothing, is itself."""
    if isinstance(value, Sequence) and not value.more:
        return [slot.value for slot in value.items]
    if isinstance(value, (int, type(None))) or (isinstance(value, (range, str)) and len(value) <= ITEMS):
        return value
    raise NotWritten
