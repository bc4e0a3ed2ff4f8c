"""Values that the program's own subclasses of ``torch.autograd.Function`` save for their backward pass."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.values import Class, Function, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def apply(interp: Interpreter, cls: Class, args: list[Value], node: ast.expr) -> Value:
    """``Spike.apply(membrane)``: a call that is not read further, but for which of its arguments it saves."""
    saved = [
        value.cell.storage.as_saved()
        for at, value in enumerate(args)
        if at in _saved_by(cls) and isinstance(value, TensorRef)
    ]
    made = interp.opaque("torch.autograd.Function.apply", args, node, differentiable=True, saved=saved)
    if saved and isinstance(made, TensorRef) and made.cell.node is not None and _gives_one(cls):
        made.cell.node.opaque = False  # what is saved is known, and that it is a tensor
    return made


def _gives_one(cls: Class) -> bool:
    """Whether ``forward`` returns one value."""
    forward = cls.names["forward"].value.node
    return not any(isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple) for part in ast.walk(forward))


def _saved_by(cls: Class) -> tuple[int, ...]:
    """The places of the arguments that ``forward`` saves as they are, if ``backward`` asks for what was saved."""
    forward, backward = (cls.names[name].value if name in cls.names else None for name in ("forward", "backward"))
    if not isinstance(forward, Function) or not isinstance(backward, Function) or forward.flavour != "staticmethod":
        return ()
    if not isinstance(forward.node, ast.FunctionDef) or not isinstance(backward.node, ast.FunctionDef):
        return ()
    if not any(isinstance(part, ast.Attribute) and part.attr == "saved_tensors" for part in ast.walk(backward.node)):
        return ()
    context, *names = [one.arg for one in (*forward.node.args.posonlyargs, *forward.node.args.args)] or [""]
    bound = {part.id for part in ast.walk(forward.node) if isinstance(part, ast.Name) and _is_stored(part)}
    found: list[int] = []
    for part in ast.walk(forward.node):
        match part:
            case ast.Call(ast.Attribute(ast.Name(id=of), "save_for_backward"), arguments) if of == context:
                plain = [one.id for one in arguments if isinstance(one, ast.Name) and one.id not in bound]
                found += [names.index(name) for name in plain if name in names]
    return tuple(found)


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
