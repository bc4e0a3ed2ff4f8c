"""Calls that give the same each time: ``config.getint("train", "length")``, ``dist.is_initialized()``.

What they return is not known, but neither does anything say that it changes from one iteration of a loop to the next.
Conditions on what is looked up by a name, twice, are one condition (``config.get("mode") == "joint"``), as are those on
what a getter gives in one iteration (``config().mode == "joint"``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.policy import varies
from autofix.codemods.interpreter.values import Class, Function, Name, Sequence, Symbol, Value, is_constant
from autofix.codemods.source.sources import INSTALLED

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_ANOTHER_EACH_TIME = re.compile(r"rand|secrets|shuffle|choice|sample|uuid|queue|\bnext$|\binput$")
"""Modules and functions whose results are others each time."""
_LETTERS = frozenset("casefold lower lstrip rstrip split splitlines strip upper".split())
"""Methods of texts, called without arguments: ``args.mode.lower()``."""


def note(interp: Interpreter, found: Symbol, label: Hashable, values: Iterable[Value]) -> None:
    """Note that what a call has given, *found*, is given each time, where nothing says that it changes."""
    given = list(values)
    if varies(label, interp.looked_up) or not all(map(_is_fixed, given)):
        return
    by_name, of_library = _is_looked_up(label, given), _is_of_library(label)
    if interp.loops and (by_name or of_library):
        interp.looked_up.add(found.key)
    interp.looked_through.clear()
    if by_name:
        interp.lookups[found.key] = ("looked up", label, *map(interp.key, given))
    elif not of_library:
        iteration = tuple((point.instance, point.iteration) for point in interp.loops)
        interp.getters[found.key] = ("~" if iteration else "got", label, *map(interp.key, given), iteration)


def same(interp: Interpreter, condition: Symbol) -> Symbol:
    """*condition*, or the one symbol for it and for others that look the same things up: they hold together."""
    if not interp.lookups and not interp.getters:
        return condition
    key = _without_numbers(condition.key, interp)
    return condition if key == condition.key else replace(condition, key=key)


def _without_numbers(key: Hashable, interp: Interpreter) -> Hashable:
    """A key in which each lookup stands for all that look up the same, and not for a single call.

    What another call has given may be another thing each time, as the next item of a queue, but hardly where it is an
    object with settings (``config().mode``), or a text that is compared with several.
    """
    if not isinstance(key, tuple):
        return key
    known = interp.looked_through.get(key)
    if known is not None:
        return known
    parts = interp.lookups.get(key, key)
    match key:
        case ("attr" | "item" as kind, called, name) if called in interp.getters:
            parts = (kind, interp.getters[called], name)
        case ("Eq", called, ("str", _) as text) if called in interp.getters:
            parts = ("Eq", interp.getters[called], text)
    found = interp.looked_through[key] = tuple([_without_numbers(part, interp) for part in parts])
    return found


def _is_looked_up(label: Hashable, given: list[Value]) -> bool:
    """Whether an unknown object is asked for something by a name, or an unknown text for its letters or words."""
    match label:
        case ("method", _, str(name)):
            return (bool(given) and type(given[0]) is str) or name in _LETTERS
    return False


def _is_of_library(label: Hashable) -> bool:
    """Whether a call, by its *label*, is of a library's function that gives the same each time, or of its result."""
    match label:
        case str(path) | ("method", ("new" | "~", "call", str(path), _), _):
            root, _, name = path.partition(".")
            known = root in sys.stdlib_module_names or root in INSTALLED
            return known and bool(name) and _ANOTHER_EACH_TIME.search(path) is None
    return False


def _is_fixed(value: Value) -> bool:
    if isinstance(value, Sequence):
        return not value.more and all(is_constant(slot.value) for slot in value.items)
    return is_constant(value) or isinstance(value, (Name, Function, Class))
