"""``torch.func``: functions that are made of a function of the program, its gradient among them.

What they compute is recorded like everything else: their results lead to the graphs of what the function computes with.
Source: torch/_functorch/eager_transforms.py and vmap.py in PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd import derivatives
from autofix.codemods.autograd.graph import Node
from autofix.codemods.autograd.walks import leading_to, leaves_under, operations_under
from autofix.codemods.interpreter.library.derivatives import PROGRAMS_OWN, leaf_of
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import (
    NOTHING,
    Binding,
    Mapping,
    Name,
    Partial,
    Sequence,
    TensorImpl,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_INPUT = "input"
"""Kind of the leaves that are made for a call alone."""
_FUNC = ("torch.func", "functorch")
_TAKEN = Name("torch.func.grad.taken")
_PULLED = Name("torch.func.vjp.pulled")


@model(*(f"{home}.{name}" for home in _FUNC for name in ("grad", "grad_and_value", "jacrev", "jacfwd", "hessian")))
def _gradient_of(
    interp: Interpreter, call: Call, func: Value, argnums: Value = 0, has_aux: Value = False, **_: Value
) -> Value:
    if not isinstance(func, PROGRAMS_OWN):
        return DECLINED
    return Partial(_TAKEN, [func, argnums, has_aux, call.last == "grad_and_value"], {})


@model(_TAKEN.path)
def _taken(
    interp: Interpreter,
    call: Call,
    func: Value,
    argnums: Value,
    has_aux: Value,
    with_value: Value,
    /,
    *args: Value,
    **keywords: Value,
) -> Value:
    """The gradient, alone or with the value; with ``has_aux`` also what the function returns beside its value."""
    found = _differentiated(interp, call, func, argnums, args, keywords, has_aux)
    if found is None:
        return DECLINED
    gradient, value, beside = found
    if with_value:
        return _tuple(gradient, value if beside is None else _tuple(value, beside))
    return gradient if beside is None else _tuple(gradient, beside)


@model(*(f"{home}.vjp" for home in _FUNC))
def _vjp(interp: Interpreter, call: Call, func: Value, /, *primals: Value, has_aux: Value = False) -> Value:
    """The value, and the function that multiplies a vector with the derivatives."""
    if has_aux is not False or not isinstance(func, (*PROGRAMS_OWN, Name)):
        return DECLINED
    own, value = _called(interp, call, func, primals, range(len(primals)), {})
    return _tuple(_outside(value), Partial(_PULLED, [value, *own], {}))


@model(_PULLED.path)
def _pulled(interp: Interpreter, call: Call, value: Value, /, *args: Value, **_: Value) -> Value:
    primals, cotangents = list(args[:-1]), args[-1:]
    return _tuple(*(_gradient(interp, call, value, one, cotangents) for one in primals))


@model(*(f"{home}.jvp" for home in _FUNC))
def _jvp(
    interp: Interpreter, call: Call, func: Value, primals: Value, tangents: Value, *, has_aux: Value = False, **_: Value
) -> Value:
    """The value, and the product of the derivatives and a vector."""
    if has_aux is not False or not isinstance(func, (*PROGRAMS_OWN, Name)) or not isinstance(primals, Sequence):
        return DECLINED
    given = [interp.read(slot, primals) for slot in primals.items]
    own, value = _called(interp, call, func, given, range(len(given)), {})
    return _tuple(_outside(value), _gradient(interp, call, value, _tuple(*own), (tangents,)))


def _differentiated(
    interp: Interpreter,
    call: Call,
    func: Value,
    argnums: Value,
    args: tuple[Value, ...],
    keywords: dict[str, Value],
    has_aux: Value,
) -> tuple[Value, Value, Value] | None:
    """The gradient, the value, and what the function returns beside it; None where these are not known."""
    numbers = [interp.read(slot) for slot in argnums.items] if isinstance(argnums, Sequence) else [argnums]
    chosen = [one for one in numbers if isinstance(one, int) and -len(args) <= one < len(args)]
    if len(chosen) < len(numbers) or not isinstance(has_aux, bool):
        return None
    own, value = _called(interp, call, func, args, chosen, keywords)
    beside: Value = None
    if has_aux:
        if not isinstance(value, Sequence) or len(value.items) != 2:
            return None
        value, beside = (interp.read(slot, value) for slot in value.items)
    gradients = [_gradient(interp, call, value, own[number]) for number in chosen]
    value, beside = _outside(value), _outside(beside)
    return (_tuple(*gradients) if isinstance(argnums, Sequence) else gradients[0]), value, beside


def _called(
    interp: Interpreter,
    call: Call,
    func: Value,
    args: Iterable[Value],
    chosen: Iterable[int],
    keywords: dict[str, Value],
) -> tuple[list[Value], Value]:
    """The arguments and the value of the function: of the *chosen* ones, those without a graph are leaves of it."""
    own = list(args)
    for number in chosen:
        one = own[number]
        if isinstance(one, TensorRef) and one.cell.node is None:
            own[number] = leaf_of(interp, call, one, _INPUT)
    return own, interp.call(func, own, keywords, call.node)


def _gradient(interp: Interpreter, call: Call, value: Value, argument: Value, beside: tuple[Value, ...] = ()) -> Value:
    """The derivatives of a *value* by an *argument*, in the form of this; *beside* is what they are multiplied with."""
    if not isinstance(value, TensorRef):
        return interp.fresh_symbol("call", call.name)
    made = interp.operation("grad", [value], call.node, opaque=True)
    made.cell.vague = value.cell.vague
    node = made.cell.node
    inputs = [one.cell.node for one in interp.tensors(argument) if one.cell.node is not None]
    if node is not None and inputs:
        node.opaque = False
        leading = leading_to(inputs, node.operands) | {id(one) for one in inputs}
        executed = [one for one in operations_under(root.node for root in node.operands) if id(one) in leading]
        apart = {one for one in (*executed, *inputs) if _is_of_inputs(one)}
        parts = derivatives.parts_of(node, executed, inputs, interp.tape.tick, apart)
        node.operands = (*parts, *interp.operands(*beside))
        if not node.operands:
            made = TensorRef(TensorImpl())
    elif node is not None:
        node.doubtful = True
    return _in_the_form_of(interp, argument, made)


def _is_of_inputs(node: Node) -> bool:
    """Whether a graph leads to nothing but leaves that were made for the call alone."""
    return all(leaf.name.startswith(f"{_INPUT}:") for leaf in leaves_under([node]))


def _outside(value: Value) -> Value:
    """A *value* of the function as its callers see it: without a graph that leads to the inputs of the call alone."""
    match value:
        case TensorRef(cell=cell) if cell.node is not None and _is_of_inputs(cell.node):
            return TensorRef(replace(cell, node=None, leaf=None))
        case Sequence(kind="tuple" | "list"):
            return Sequence(value.kind, [Binding(_outside(slot.value)) for slot in value.items], more=value.more)
    return value


def _in_the_form_of(interp: Interpreter, argument: Value, made: TensorRef) -> Value:
    """One gradient for each tensor of an *argument*, in a container of its kind."""
    match argument:
        case Mapping():
            items = {key: Binding(TensorRef(made.cell)) for key in argument.items}
            return Mapping(items, more=argument.more, cls=argument.cls)
        case Sequence(kind="tuple" | "list"):
            parts = [Binding(_in_the_form_of(interp, interp.read(slot, argument), made)) for slot in argument.items]
            return Sequence(argument.kind, parts, more=argument.more)
    return TensorRef(made.cell)


def _tuple(*values: Value) -> Sequence:
    return Sequence("tuple", [Binding(value) for value in values])


_MAPPED = Name("torch.vmap.mapped")


@model("torch.vmap", "torch.func.vmap")
def _vmap(interp: Interpreter, call: Call, func: Value, *_: Value, **__: Value) -> Value:
    return Partial(_MAPPED, [func], {}) if isinstance(func, (*PROGRAMS_OWN, Name)) else DECLINED


@model(_MAPPED.path)
def _mapped(interp: Interpreter, call: Call, func: Value, /, *args: Value, **keywords: Value) -> Value:
    """The function for all rows at once: its result has a dimension more, and the same graph."""
    result = interp.call(func, list(args), keywords, call.node)
    return _with_rows(interp, result, call)


def _with_rows(interp: Interpreter, result: Value, call: Call) -> Value:
    match result:
        case TensorRef():
            if result.cell.leaf is None:  # the very tensor: it is a view if the function has returned one
                return TensorRef(replace(result.cell, scalar=None, extent=NOTHING), result.provenance, result.guessed)
            return interp.operation("view", [result], call.node, view=result)
        case Sequence(kind="tuple" | "list"):
            parts = [Binding(_with_rows(interp, interp.read(slot, result), call)) for slot in result.items]
            return Sequence(result.kind, parts, more=result.more)
    return result
