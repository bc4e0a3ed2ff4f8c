"""Imports that may fail: ``try: from apex import amp`` with ``except ImportError: amp = None``.

Whether somebody else's module is installed is not known.  The names that say so are unknown values after the ``try``:
one condition for each module, whether it is asked by a flag or by the imported name itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.catalogue import is_operation
from autofix.codemods.interpreter import comparisons
from autofix.codemods.interpreter.library.registry import model
from autofix.codemods.interpreter.values import Binding, Name, Value
from autofix.codemods.source.sources import INSTALLED, last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_CAUGHT = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"))


def leave(interp: Interpreter, node: ast.Try | ast.TryStar) -> None:
    """The end of a ``try`` whose body was executed without an error: what its handlers would have set is unknown."""
    _fill_in(interp, node.handlers)
    module = next(_others(interp, node.body), "")
    if not module:
        return
    asked = interp.symbol(("imported", module))
    for name, otherwise in _set_without(node.handlers):
        slot = interp.scope.names.get(name)
        match slot.value if slot is not None else otherwise:
            case Name(path=path):
                interp.optional_imports[path] = asked.key
            case bool(known) if otherwise is not known:
                interp.scope.names[name] = Binding(asked if known else comparisons.negated(interp, asked))
            case int() | str() | None as known if known != otherwise:
                interp.scope.names[name] = Binding(interp.symbol(("imported", module, name)))


def _fill_in(interp: Interpreter, handlers: list[ast.ExceptHandler]) -> None:
    """What a handler writes out in the place of an import that is not read does what the imported function would do."""
    for statement in _handling(handlers):
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Assign([ast.Name(name)], ast.Lambda()):
                pass
            case _:
                continue
        slot = interp.scope.names.get(name)
        if slot is not None and isinstance(slot.value, Name) and not _is_read(slot.value.path):
            interp.run([statement])


def _is_read(path: str) -> bool:
    """Whether it is known what a function of another package does."""
    root, _, name = path.partition(".")
    if root == "torch":
        return "." in name or is_operation(name) or len(model.asked(path)) > 1  # the last one is for all of torch
    return root in sys.stdlib_module_names or root in INSTALLED


def _others(interp: Interpreter, body: list[ast.stmt]) -> Iterator[str]:
    """The modules that a body imports and that are neither the program's, nor Python's, nor torch's."""
    for statement in body:
        match statement:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(name), level=0):
                found = [name]
            case _:
                continue
        for name in found:
            root = name.partition(".")[0]
            is_known = root in INSTALLED or root in sys.stdlib_module_names
            if not is_known and interp.sources.module(name, 0, interp.source) is None:
                yield root


def _handling(handlers: list[ast.ExceptHandler]) -> Iterator[ast.stmt]:
    """The statements that handle a failed import."""
    for handler in handlers:
        types = [handler.type] if not isinstance(handler.type, ast.Tuple) else handler.type.elts
        if any(one is None or last_name(one) in _CAUGHT for one in types):
            yield from handler.body


def _set_without(handlers: list[ast.ExceptHandler]) -> Iterator[tuple[str, Value]]:
    """The names that the handlers of a failed import set to constants, and these."""
    for statement in _handling(handlers):
        match statement:
            case ast.Assign(targets=targets, value=ast.Constant(value=bool() | int() | str() | None as constant)):
                yield from ((target.id, constant) for target in targets if isinstance(target, ast.Name))
