"""Calls in loops that give the same each time: ``config.getint("train", "length")``, ``dist.is_initialized()``.

What they return is not known, but neither does anything say that it changes from one iteration to the next.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.policy import varies
from autofix.codemods.interpreter.values import Class, Function, Name, Sequence, Symbol, Value, is_constant
from autofix.codemods.source.sources import INSTALLED

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_ANOTHER_EACH_TIME = re.compile(r"rand|secrets|shuffle|choice|sample|uuid|queue|\bnext$|\binput$")
"""Modules and functions whose results are others each time."""


def note(interp: Interpreter, found: Symbol, label: Hashable, values: Iterable[Value]) -> None:
    """Note that what a call in a loop has given, *found*, stays as it is, where nothing says that it changes."""
    if interp.loops and _stays(interp, label, values):
        interp.looked_up.add(found.key)


def _stays(interp: Interpreter, label: Hashable, values: Iterable[Value]) -> bool:
    """Whether a call that was not read, by its *label*, asks for the same in each iteration, with constants at most."""
    given = list(values)
    if varies(label, interp.looked_up) or not all(map(_is_fixed, given)):
        return False
    match label:
        case str(path) | ("method", ("new" | "~", "call", str(path), _), _) if _is_of_library(path):
            return True
        case ("method", *_):  # of an object of which nothing is known: by a name, it is looked up
            return bool(given) and type(given[0]) is str
    return False


def _is_of_library(path: str) -> bool:
    root, _, name = path.partition(".")
    known = root in sys.stdlib_module_names or root in INSTALLED
    return known and bool(name) and _ANOTHER_EACH_TIME.search(path) is None


def _is_fixed(value: Value) -> bool:
    if isinstance(value, Sequence):
        return not value.more and all(is_constant(slot.value) for slot in value.items)
    return is_constant(value) or isinstance(value, (Name, Function, Class))
