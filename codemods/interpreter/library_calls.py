"""Calls of what is imported: the models of the library are asked, by the dotted name of the function."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, constants, errors, super_calls
from autofix.codemods.interpreter.library import (  # noqa: F401
    builtins,
    collections,
    containers,
    copy,
    dataclasses,
    derivatives,
    distributions,
    einops,
    functools,
    futures,
    iterators,
    itertools,
    message_passing,
    nn,
    numpy,
    objects,
    openmmlab,
    operator,
    patterns,
    queues,
    standard,
    torch,
    torchvision,
    transforms,
    unread,
)
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Instance, Mapping, Name, Sequence, Super, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


_READING = frozenset(
    ("builtins.open", "torch.load", "torch.jit.load", "numpy.load", "numpy.loadtxt", "pandas.read_csv")
)
"""Functions that may find no file."""

_AS_THEY_ARE = frozenset(
    f"builtins.{name}" for name in ("isinstance", "type", "id", "getattr", "hasattr", "setattr", "super", "vars")
)
"""Built-in functions that ask an object itself, and not the container that it is by its class."""


_KINDS = {"list": Sequence, "set": Sequence, "dict": Mapping}
"""The values whose methods are also functions of a built-in class: ``list.clear(items)``."""


def call_name(interp: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A call of something imported, by its dotted name."""
    if path in _READING:
        errors.may_happen(interp, "FileNotFoundError", node)
    if args and isinstance(args[0], Instance) and _is_base(args[0], path.rpartition(".")[0]):
        receiver = Super(args[0], args[0].cls)
        return super_calls.call_super(interp, receiver, path.rpartition(".")[2], args[1:], keywords, node)
    args = _opened(path, args)
    if path in constants.FUNCTIONS:
        with suppress(constants.NotWritten):
            return constants.computed(interp, constants.FUNCTIONS[path], args, keywords)
    kind, _, method = path.removeprefix("builtins.").partition(".")
    if method and args and _KINDS.get(kind) is not None and isinstance(args[0], _KINDS[kind]):
        return containers.call_container_method(interp, args[0], method, args[1:], keywords, node)
    result = model.call(interp, Call(node, path), given=args, keywords=keywords)
    return unread.unread(interp, path, args, keywords, node) if result is DECLINED else result


def _is_base(instance: Instance, path: str) -> bool:
    """Whether *path* is a class, not of the program, that an object is derived from: ``nn.GRU.__init__(self)``."""
    return any(isinstance(cls, Name) and cls.path == path for cls in class_lookup.lineage(instance.cls))


def _opened(path: str, args: list[Value]) -> list[Value]:
    """The arguments of Python's and torch's own functions, which take an object for the container that it is."""
    if path.startswith("torch."):
        return [class_lookup.opened(arg) for arg in args]
    if path.startswith("builtins.") and path not in _AS_THEY_ARE:
        name = path.removeprefix("builtins.")
        return [arg if class_lookup.has_own_length(arg, name) else class_lookup.opened(arg) for arg in args]
    return args
