"""``torch.autograd.functional``: functions that call a function of the program, and differentiate it.

Source: torch/autograd/functional.py in PyTorch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter import cuts
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Function,
    Instance,
    Name,
    Partial,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_FUNCTIONAL = "torch.autograd.functional"
PROGRAMS_OWN = (Function, Bound, Instance, TorchModule, Partial)


@model(f"{_FUNCTIONAL}.jacobian", f"{_FUNCTIONAL}.hessian")
def _matrix(
    interp: Interpreter, call: Call, func: Value, inputs: Value, create_graph: Value = False, *_: Value, **__: Value
) -> Value:
    """All derivatives of a function, at inputs of its own: a graph leads to them where ``create_graph`` asks for it."""
    outputs = _outputs(interp, call, func, inputs, create_graph)
    if outputs is DECLINED:
        return DECLINED
    return _derivative(interp, call, outputs, inputs, create_graph)


@model(*(f"{_FUNCTIONAL}.{product}" for product in ("hvp", "vhp", "vjp", "jvp")))
def _product(
    interp: Interpreter,
    call: Call,
    func: Value,
    inputs: Value,
    v: Value = None,
    create_graph: Value = False,
    strict: Value = False,
) -> Value:
    """The value of a function, and the product of its derivatives and a vector."""
    outputs = _outputs(interp, call, func, inputs, create_graph)
    if outputs is DECLINED:
        return DECLINED
    parts = [outputs if create_graph is True else _dropped(interp, call, outputs)]
    parts.append(_derivative(interp, call, Sequence("tuple", [Binding(outputs), Binding(v)]), inputs, create_graph))
    return Sequence("tuple", [Binding(part) for part in parts])


def _outputs(interp: Interpreter, call: Call, func: Value, inputs: Value, create_graph: Value) -> Value:
    """The value of a function of the program; ``DECLINED`` for others."""
    if not isinstance(func, (*PROGRAMS_OWN, Name)) or not isinstance(create_graph, bool):
        return DECLINED
    several = isinstance(inputs, Sequence)
    given = [interp.read(slot, inputs) for slot in inputs.items] if several else [inputs]
    if not all(isinstance(one, (TensorRef, Symbol)) for one in given):
        return DECLINED
    own = [one if create_graph else leaf_of(interp, call, one) for one in given]
    with interp.grad_mode(True, interp.site(call.node)):
        return interp.call(func, own, {}, call.node)


def leaf_of(interp: Interpreter, call: Call, value: Value, kind: str = "tensor") -> TensorRef:
    """The input of the function: the data of what is given, as a new leaf."""
    known = value.cell if isinstance(value, TensorRef) else TensorImpl()
    cell = TensorImpl(storage=known.storage, scalar=known.scalar, extent=known.extent, on_cpu=known.on_cpu)
    return interp.parameter(kind, call.node, cell=cell)


def _derivative(interp: Interpreter, call: Call, outputs: Value, inputs: Value, create_graph: Value) -> Value:
    if create_graph is True:
        with interp.grad_mode(True, interp.site(call.node)):
            made = interp.operation("grad", [outputs, inputs], call.node, opaque=True)
        if made.cell.node is not None:
            made.cell.node.opaque = False
    else:
        made = _dropped(interp, call, outputs)
    if not isinstance(inputs, Sequence):
        return made
    return Sequence("tuple", [Binding(TensorRef(made.cell)) for _ in inputs.items], more=inputs.more)


def _dropped(interp: Interpreter, call: Call, outputs: Value) -> TensorRef:
    data = interp.data()
    data.cell.detachment = cuts.dropped(interp, [outputs], call.node, "grad")
    return data
