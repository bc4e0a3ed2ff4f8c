"""Patterns of text: ``re`` and ``fnmatch``, by which programs choose parameters from their names."""

from __future__ import annotations

import re
from contextlib import suppress
from fnmatch import fnmatch, fnmatchcase
from functools import cache
from re import _parser  # type: ignore[attr-defined]  # the parser of the standard library, for `is_slow`
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import constants
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unknown_calls import of_unknown
from autofix.codemods.interpreter.values import Symbol, Value, is_constant

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

LONGEST = 120
"""Characters of a text in which a pattern is looked for, and of a pattern."""
_MOST = 3
"""Repetitions in a pattern: the time of a search is at most the length of the text to their power."""
_PATTERN = "pattern"


@model("re.match", "re.search", "re.fullmatch", "re.findall")
def _looked_for(interp: Interpreter, call: Call, pattern: Value, text: Value, /) -> Value:
    if isinstance(pattern, Symbol):  # `re.match(compiled, name)`
        return _of_pattern(interp, call, pattern, text)
    return _found(interp, call.last, pattern, text) if isinstance(pattern, str) else DECLINED


@model("re.compile")
def _compiled(interp: Interpreter, call: Call, pattern: Value, /) -> Value:
    return interp.symbol((_PATTERN, pattern)) if isinstance(pattern, str) else DECLINED


@of_unknown("match", "search", "fullmatch", "findall")
def _of_pattern(interp: Interpreter, call: Call, receiver: Symbol, text: Value, /) -> Value:
    match receiver.key:
        case (tag, str(pattern)) if tag == _PATTERN:
            return _found(interp, call.last, pattern, text)
    return DECLINED


def _found(interp: Interpreter, function: str, pattern: str, text: Value) -> Value:
    """The result of a function of ``re``: a match is a value that is neither false nor None."""
    if not isinstance(text, str) or len(text) > LONGEST or is_slow(pattern):
        return DECLINED
    found: Any = getattr(re, function)(pattern, text)
    if found is None:
        return None
    if isinstance(found, re.Match):
        return Symbol(("match", function, pattern, text), low=1)
    with suppress(constants.NotWritten):
        return constants.as_value(interp, found)
    return DECLINED


@of_unknown("group", "groups", "groupdict", "start", "end", "span")
def _of_match(interp: Interpreter, call: Call, receiver: Symbol, /, *args: Value) -> Value:
    match receiver.key:
        case ("match", str(function), str(pattern), str(text)) if all(map(is_constant, args)):
            found = getattr(re, function)(pattern, text)
            with suppress(constants.NotWritten, IndexError, TypeError):
                return constants.as_value(interp, getattr(found, call.name)(*args))
    return DECLINED


@cache
def is_slow(pattern: str) -> bool:
    """Whether a pattern is none, or may take a time that grows exponentially with the text: ``(a+)+``, ``(a|a)*``."""
    try:
        parsed = _parser.parse(pattern)
        return len(pattern) > LONGEST or str(parsed).count("REPEAT") > _MOST or _repeats(parsed, within=False)
    except (re.error, OverflowError, RecursionError):
        return True


_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_FEW = 2
"""Repetitions that cost nothing: of ``?``, and of ``{0,2}``."""


def _repeats(part: Any, *, within: bool) -> bool:
    """Whether something is repeated, or chosen among branches, *within* a repetition."""
    if isinstance(part, tuple) and len(part) == 2 and str(part[0]) in _REPEATS:
        _, most, repeated = part[1]
        is_long = int(most) > _FEW
        return (within and is_long) or _repeats(repeated, within=within or is_long)
    if isinstance(part, tuple) and len(part) == 2 and str(part[0]) in ("BRANCH", "GROUPREF") and within:
        return True
    if isinstance(part, (tuple, list, _parser.SubPattern)):
        return any(_repeats(one, within=within) for one in part)
    return False


@model("fnmatch.fnmatch", "fnmatch.fnmatchcase")
def _by_wildcards(interp: Interpreter, call: Call, name: Value, pattern: Value, /) -> Value:
    if isinstance(name, str) and isinstance(pattern, str) and len(name) + len(pattern) <= LONGEST:
        return (fnmatch if call.last == "fnmatch" else fnmatchcase)(name, pattern)
    return DECLINED
