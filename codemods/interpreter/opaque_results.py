"""Results of calls that were not read, taken for tensors until their use says that they are other objects."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from itertools import islice
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Node
from autofix.codemods.autograd.walks import nodes_under
from autofix.codemods.interpreter.policy import varies
from autofix.codemods.interpreter.values import Symbol, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

MODEL_METHODS = frozenset(
    """parameters named_parameters train eval zero_grad state_dict load_state_dict flatten_parameters
    requires_grad_""".split()
)

MOVES = ("to", "cuda", "cpu", "double", "half", "float", "contiguous", "long")

_OF_MODELS = MODEL_METHODS - {"requires_grad_"} | {"", "forward", "modules", "children", "buffers", "apply"}

_OF_ARRAYS = frozenset(("astype", "copy", "tobytes", "tofile"))
"""Methods of NumPy's arrays that tensors do not have."""
_NEAR = 40
"""Number of operations among which the call that was not read is looked for."""


def as_object(interp: Interpreter, value: TensorRef) -> Symbol:
    """Object that the result of an unread call turns out to be, taken for a tensor so far; its graph is dropped."""
    value.cell.node, value.cell.vague = None, True
    return interp.symbol(("object", interp.identity(value.cell)))


def is_object(value: TensorRef, name: str) -> bool:
    """Whether what a call that was not read has made is no tensor: it is called, or has a *name* that models have.

    So is what was computed of it, where the *name* is one that only arrays have.
    """
    made = _made(value)
    return (made is not None and made.opaque and name in _OF_MODELS) or _is_array(value, name)


def _is_array(value: TensorRef, name: str) -> bool:
    """Whether a value that rests on calls that were not read is an array of NumPy's: tensors have no such method.

    A dictionary of tensors can be copied, too, but not subtracted.
    """
    made = _made(value)
    if made is None or name not in _OF_ARRAYS or (made.opaque and name == "copy"):
        return False
    return any(node.opaque for node in islice(nodes_under([made]), _NEAR))


def _made(value: TensorRef) -> Node | None:
    """The node of a value, wherever it was moved since."""
    node = value.cell.node
    while node is not None and node.operation in MOVES and len(node.operands) == 1:
        node = node.operands[0].node
    return node


def note_reading(interp: Interpreter, result: TensorRef, part: Hashable, read: Value) -> None:
    """An item of the *result* of a call that was not read was *read*: ``out.loss``, the same one each time."""
    made, picked = result.cell.node, read.cell.node if isinstance(read, TensorRef) else None
    if made is None or picked is None or not made.opaque or picked.operation != "select" or varies(part):
        return
    known = interp.readings.setdefault((interp.identity(made), result.cell.storage.version, part), [])
    known.append(picked)
    picked.readings = known


def is_collection(value: TensorRef) -> bool:
    """Whether a loop goes through what a method was called for without arguments: ``model.train_dataloader()``."""
    made = _made(value)
    call = made.site.node if made is not None and made.opaque and made.operation == "call" else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not (call.args or call.keywords)
