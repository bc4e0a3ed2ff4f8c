"""Bindings of imports: the program's own modules, and names of others."""

from __future__ import annotations

import ast
import collections
import copy
import functools
import itertools
import math
import operator
import random
import re
from functools import cache
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter.values import (
    Binding,
    Module,
    Name,
    Scope,
    Sequence,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def import_module(interp: Interpreter, node: ast.Import) -> str:
    for alias in node.names:
        if alias.asname:
            interp.scope.names[alias.asname] = Binding(_imported(interp, alias.name, 0) or Name(alias.name))
            continue
        top, _, below = alias.name.partition(".")
        module = _imported(interp, top, 0) or _package_of(interp, alias.name)
        interp.scope.names[top] = Binding(module or Name(top))
        name = top
        for part in below.split(".") if module is not None and below else ():
            name = f"{name}.{part}"
            inner = _imported(interp, name, 0) or _package_of(interp, alias.name, name)
            if module is None or inner is None:
                break
            module.scope.names[part] = Binding(inner)
            module = inner
    return ""


def _imported(interp: Interpreter, name: str, level: int) -> Module | None:
    """The program's own module that an import names."""
    source = interp.sources.module(name, level, interp.source)
    return interp.module(source) if source is not None else None


def _package_of(interp: Interpreter, whole: str, name: str = "") -> Module | None:
    """A package without an ``__init__.py`` of the program, on the way to the module *whole* of it."""
    if _imported(interp, whole, 0) is None:
        return None
    key = f"package {name or whole.partition('.')[0]}"
    if key not in interp.modules:
        interp.modules[key] = Module(interp.source, Scope({}))
    return interp.modules[key]


def import_from(interp: Interpreter, node: ast.ImportFrom) -> str:
    name = node.module or ""
    module = _imported(interp, name, node.level)
    for alias in node.names:
        if alias.name == "*":
            if module is None:
                interp.star_imports = True
                interp.scope.names.update({known: Binding(Name(f"{name}.{known}")) for known in _public_of(name)})
            else:
                interp.scope.names.update(_public(module.scope.names))
            continue
        known = module.scope.names.get(alias.name) if module is not None else None
        if known is not None:
            slot = Binding(known.value, known.kept)
        else:
            inner = _imported(interp, f"{name}.{alias.name}" if name else alias.name, node.level)
            slot = Binding(inner or Name(_torchs_own(f"{'.' * node.level}{name}.{alias.name}")))
        interp.scope.names[alias.asname or alias.name] = slot
    return ""


_OF_OPENMMLAB = re.compile(r"(?:mmcv\.runner|mmengine\.model)\.(?:\w+\.)?(Sequential|ModuleList|ModuleDict)$")


def _torchs_own(path: str) -> str:
    """The class of ``torch.nn`` that a library's class of the same name is, but for how its parameters are initialised.

    Source: mmengine/model/base_module.py, which was mmcv/runner/base_module.py before.
    """
    own = _OF_OPENMMLAB.match(path)
    return f"torch.nn.{own[1]}" if own is not None else path


_PURE = {module.__name__: module for module in (collections, copy, functools, itertools, math, operator, random)}


@cache
def _public_of(library: str) -> frozenset[str]:
    """Names that ``from library import *`` takes, of libraries that are known."""
    module = _PURE.get(library)
    if module is None:
        return frozenset(catalogue.public_names(library))
    return frozenset(getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]))


def _public(names: dict[str, Binding]) -> dict[str, Binding]:
    """Bindings that ``from module import *`` takes: those in ``__all__``, or those without a leading underscore."""
    listed = names["__all__"].value if "__all__" in names else None
    if isinstance(listed, Sequence) and not listed.more and all(isinstance(one.value, str) for one in listed.items):
        return {one.value: names[one.value] for one in listed.items if one.value in names}
    return {name: slot for name, slot in names.items() if not str(name).startswith("_")}
