"""Smaller modules of the standard library: processes, imports, JSON, random choices."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import elements
from autofix.codemods.interpreter.library.builtins import imported
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.unpacking import copy_of
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Exits,
    Function,
    Instance,
    Mapping,
    Name,
    Sequence,
    Symbol,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("os.getenv", "os.environ.get")
def _variable(interp: Interpreter, call: Call, name: Value, default: Value = None, /) -> Value:
    """A variable of the environment, the same wherever it is read."""
    found = interp.symbol(("environment", interp.key(name)))
    found.usual = default if isinstance(default, (str, int, float)) else None
    return found


@model("importlib.import_module")
def _import_module(interp: Interpreter, call: Call, name: Value, package: Value = None) -> Value:
    path = interp.usual(name) if isinstance(name, Symbol) else name
    if isinstance(path, str) and path.startswith("."):
        path = f"{package}{path}" if isinstance(package, str) and not path.startswith("..") else None
    return imported(interp, path) if isinstance(path, str) else DECLINED


@model("types.MethodType")
def _method_type(interp: Interpreter, call: Call, function: Value, receiver: Value, /) -> Value:
    return Bound(function, receiver) if isinstance(function, Function) else DECLINED


@model("contextlib.ExitStack", "contextlib.AsyncExitStack")
def _exit_stack(interp: Interpreter, call: Call) -> Value:
    return Exits()


@model("enum.auto")
def _auto(interp: Interpreter, call: Call) -> Value:
    return Name("enum.auto()")


@model("sys.exit", "os._exit", "os.abort")
def _exit(interp: Interpreter, call: Call, *_: Value) -> Value:
    interp.exceptions.exited = True


@model("math.isnan", "math.isinf", "math.isfinite")
def _is_finite(interp: Interpreter, call: Call, number: Value, /) -> Value:
    """A number that is computed is taken to be one: what is done for others ends a training, and is not followed."""
    if isinstance(number, float):
        return bool(getattr(math, call.last)(number))
    return call.last == "isfinite"


@model("json.loads")
def _loads(interp: Interpreter, call: Call, text: Value, *_: Value, **__: Value) -> Value:
    if isinstance(text, str):
        with suppress(ValueError):
            return _of_json(json.loads(text))
    return DECLINED


def _of_json(read: Any) -> Value:
    """The value of JSON that is written out in the program, as parsed by Python."""
    if isinstance(read, dict):
        return Mapping({name: Binding(_of_json(value)) for name, value in read.items()})
    if isinstance(read, list):
        return Sequence("list", [Binding(_of_json(value)) for value in read])
    return read


@model(
    "packaging.version.parse",
    "packaging.version.Version",
    "pkg_resources.parse_version",
    "distutils.version.LooseVersion",
    "distutils.version.StrictVersion",
    "looseversion.LooseVersion",
)
def _version(interp: Interpreter, call: Call, text: Value, /) -> Value:
    """``1.13.1`` or ``2.0.0+cpu`` as its numbers; a candidate for a release is not known."""
    release = text.partition("+")[0] if isinstance(text, str) else ""
    if not re.fullmatch(r"\d+(\.\d+)*", release):
        return DECLINED
    numbers = [Binding(int(part)) for part in release.split(".")]
    return Sequence("tuple", numbers, fields=("major", "minor", "micro")[: len(numbers)])


@model("random.sample", "random.choices")
def _sample(interp: Interpreter, call: Call, population: Value, *_: Value, **__: Value) -> Value:
    if not isinstance(population, Sequence):
        return DECLINED
    return replace(copy_of(interp, population, "list", call.node), extended=())


@model("random.choice")
def _choice(interp: Interpreter, call: Call, items: Value, /) -> Value:
    if not isinstance(items, Sequence):
        return DECLINED
    return elements.item(interp, items, interp.fresh_symbol("choice"), call.node)


@model("numpy.random.choice")
def _choice_of_objects(
    interp: Interpreter, call: Call, items: Value, /, size: Value = None, *others: Value, **options: Value
) -> Value:
    """One of a list of the program's objects, or several: the clients of a round.  Of numbers it makes an array."""
    if not isinstance(items, Sequence) or not any(isinstance(slot.value, Instance) for slot in items.items):
        return DECLINED
    return _choice(interp, call, items) if size is None else _sample(interp, call, items)


@model("random.shuffle")
def _shuffle(interp: Interpreter, call: Call, items: Value, *_: Value) -> Value:
    return None if isinstance(items, Sequence) else DECLINED
