"""Data that were read from somewhere, and of which the program wants a gradient: ``images.requires_grad = True``.

They are leaves from then on: what a loader hands out, and what a transform of torchvision's makes of a picture, has no
graph.  Nothing is said of other unknown values, which may be results, models, or parameters of one.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter import attributes, extents
from autofix.codemods.interpreter.values import Symbol, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_LOADER = "torch.utils.data.DataLoader"
_TRANSFORMS = "torchvision.transforms."


def flag(interp: Interpreter, value: Symbol, wanted: Value, node: ast.expr) -> TensorRef | None:
    """The leaf that data are as soon as *node*, an attribute or a call of a method, flags them; None for anything else.

    It takes their place under the name by which they are flagged.
    """
    owner = node.func if isinstance(node, ast.Call) else node
    receiver = owner.value if isinstance(owner, ast.Attribute) else None
    if wanted is not True or not isinstance(receiver, (ast.Name, ast.Attribute)) or not _is_data(value.key):
        return None
    made = interp.data()
    made.cell.extent = extents.extent_of(value)
    attributes.require_grad(interp, made, True, node)
    interp.assign(receiver, made, None)
    return made


@lru_cache(maxsize=1024)
def _is_data(key: Hashable) -> bool:
    """Whether a value with this key is a tensor that was read, and that nobody has computed of parameters."""
    match key:
        case ("item", owner, *_):
            return _is_handed_out(owner) or _is_data(owner)
        case ("new" | "~", "call", ("method", owner, ""), *_):
            return _is_transform(owner)
        case ("new" | "~", "call", ("method", owner, str(name)), *_) if catalogue.is_method(name):
            return _is_data(owner)
    return False


def _is_handed_out(key: Hashable) -> bool:
    """Whether a value with this key is a batch of a loader, or a part of one: ``images`` of ``images, labels``."""
    match key:
        case ("new" | "~", str(name), *_):
            return name == _LOADER
        case ("item", owner, *_):
            return _is_handed_out(owner)
    return False


def _is_transform(key: Hashable) -> bool:
    match key:
        case ("new" | "~", "call", str(path), *_):
            return path.startswith(_TRANSFORMS)
    return False
