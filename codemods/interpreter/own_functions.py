"""The program's own subclasses of ``torch.autograd.Function``: what a call of one saves, changes and returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter import class_lookup, cuts, overwriting
from autofix.codemods.interpreter.values import Binding, Class, Function, Sequence, Symbol, TensorRef, Value
from autofix.codemods.interpreter.views_returned import views_returned

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_SAVED = ("saved_tensors", "saved_variables")
_RESULT = -1
"""Stands for the result among the places of arguments."""
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class _Declared(NamedTuple):
    """What a class says to autograd; arguments are given by their places, without the context's."""

    saves: bool = True
    """Whether a backward pass asks for what was saved, were it nothing: then a second one fails."""
    saved: tuple[int, ...] = ()
    """The arguments, or the one result, that are saved as they are, if ``backward`` asks for what was saved."""
    changed: tuple[int, ...] = ()
    """The arguments that each call changes in place."""
    dirty: tuple[int, ...] = ()
    """Those of them that ``mark_dirty`` names and the call returns, so that they get its graph."""
    results: tuple[str, ...] = ()
    """The names of what is returned, empty for those without; none where nothing is known of it."""
    constants: tuple[int, ...] = ()
    """The numbers of the results that ``mark_non_differentiable`` names."""
    views: tuple[int, ...] = ()
    """The numbers of the results that certainly are views, or arguments returned as they are."""


def apply(interp: Interpreter, cls: Class, args: list[Value], node: ast.expr) -> Value:
    """``Spike.apply(membrane)``: a call that is not read further, but for what it tells autograd.

    Source: "Extending PyTorch" in its documentation, and ``_process_backward_mode_ad`` in
    torch/csrc/autograd/custom_function.cpp.
    """
    declared = _declared_by(cls, args)
    for place in declared.changed:
        changed = args[place] if place < len(args) else None
        if isinstance(changed, TensorRef):
            _change(interp, changed, node, marked=place in declared.dirty)
    saved = [
        value.cell.storage.as_saved()
        for at, value in enumerate(args)
        if at in declared.saved and isinstance(value, TensorRef)
    ]
    made = interp.opaque("torch.autograd.Function.apply", args, node, differentiable=True, saved=saved)
    if not isinstance(made, TensorRef) or made.cell.node is None:
        known = all(isinstance(one, (TensorRef, int, float, str, bool, type(None))) for one in args)
        is_tensor = len(declared.results) == 1 and bool(declared.saved)
        return (
            interp.data() if isinstance(made, Symbol) and known and is_tensor and not _may_have_a_graph(args) else made
        )
    if declared.constants or (declared.views and len(declared.results) > 1):
        made.cell.node.opaque = False
        several = len(declared.results) > 1
        return _several(interp, made, declared, node) if several else _constant(interp, made, node)
    if len(declared.results) == 1 and (declared.saved or not declared.saves):
        made.cell.node.opaque = False  # what is saved is known, and that it is a tensor
        made.cell.node.saves = declared.saves
        if _RESULT in declared.saved:
            made.cell.node.saved = (*made.cell.node.saved, made.cell.storage.as_saved())
    for place in declared.dirty:
        changed = args[place] if place < len(args) else None
        if isinstance(changed, TensorRef) and len(declared.results) == 1:
            overwriting.give_graph(interp, changed, made.cell.node)
            return changed
    if declared.views:
        made.cell.applied = interp.site(node)
    return made


def _may_have_a_graph(args: list[Value]) -> bool:
    return any(
        isinstance(one, TensorRef) and (one.cell.node is not None or one.cell.unsure or one.cell.vague) for one in args
    )


def _change(interp: Interpreter, tensor: TensorRef, node: ast.expr, *, marked: bool) -> None:
    """``forward`` changes an argument: it records nothing, but PyTorch refuses a leaf that is marked."""
    with interp.grad_mode(interp.grad and marked, interp.site(node)):
        interp.change(tensor, node)


def _several(interp: Interpreter, made: TensorRef, declared: _Declared, node: ast.expr) -> Sequence:
    """The results of a call, those apart that have no gradient."""
    results = []
    for at in range(len(declared.results)):
        constant = at in declared.constants
        one = _constant(interp, made, node) if constant else interp.operation("select", [made], node)
        one.cell.applied = interp.site(node) if at in declared.views and not constant else None
        results.append(Binding(one))
    return Sequence("tuple", results)


def _constant(interp: Interpreter, made: TensorRef, node: ast.expr) -> TensorRef:
    """A result that is marked as not differentiable."""
    constant = interp.data()
    constant.cell.detachment = cuts.dropped(interp, [made], node, "non-differentiable")
    return constant


def _declared_by(cls: Class, given: list[Value]) -> _Declared:
    found = {
        name: slot.value
        for one in reversed(class_lookup.lineage(cls))
        if isinstance(one, Class)
        for name, slot in one.names.items()
    }
    forward, backward, setup = (_static(found.get(name)) for name in ("forward", "backward", "setup_context"))
    if forward is None or backward is None:
        return _Declared()
    return _read(forward, backward, setup, given)


def _static(value: Value) -> _Definition | None:
    """The code of a static method."""
    if not isinstance(value, Function) or value.flavour != "staticmethod" or isinstance(value.node, ast.Lambda):
        return None
    return value.node


def _read(forward: _Definition, backward: _Definition, setup: _Definition | None, given: list[Value]) -> _Declared:
    names = [one.arg for one in (*forward.args.posonlyargs, *forward.args.args)]
    if setup is None:
        context, names = (names or [""])[0], names[1:]
    results = _returned(forward)
    stored = set(_stored_in(forward))
    places = {name: at for at, name in enumerate(names) if name not in stored}
    changed = tuple(places[name] for name in _changed_in(forward) if name in places)
    outputs = {name: at for at, name in enumerate(results) if name and name not in places}
    speaking = forward
    arguments = dict(places)
    if setup is not None:
        own = [one.arg for one in (*setup.args.posonlyargs, *setup.args.args)]
        if len(own) != 3:  # the context, the inputs and the output
            return _Declared(changed=changed, results=results)
        context, inputs, output = own
        arguments = _parts_of(setup, inputs)
        outputs = _parts_of(setup, output) if len(results) > 1 else {output: 0}
        speaking = setup
    asks = any(isinstance(part, ast.Attribute) and part.attr in _SAVED for part in ast.walk(backward))
    kept = list(_told(speaking, context, "save_for_backward")) if asks else []
    saved: list[int] = []
    for one in kept:
        if one in arguments:
            saved.append(arguments[one])
        elif one in outputs and len(results) == 1:
            saved.append(_RESULT)
    marked = {arguments[one] for one in _told(speaking, context, "mark_dirty", always=True) if one in arguments}
    returned = {places[name] for name in results if name in places}
    without = _told(speaking, context, "mark_non_differentiable", always=True)
    constants = [outputs[one] for one in without if one in outputs]
    tensors = (name for name, value in zip(names, given, strict=False) if isinstance(value, TensorRef))
    marks = any(isinstance(part, ast.Attribute) and part.attr == "mark_dirty" for part in ast.walk(speaking))
    return _Declared(
        asks or not _is_only_spoken_to(backward, next((one.arg for one in backward.args.args), "")),
        tuple(saved),
        changed,
        tuple(place for place in changed if place in marked & returned),
        results,
        tuple(constants),
        () if marks else views_returned(forward, tensors),
    )


def _is_only_spoken_to(function: _Definition, context: str) -> bool:
    """Whether a function sets attributes of its context and calls its methods, and hands it to nobody."""
    owners = {id(part.value) for part in ast.walk(function) if isinstance(part, ast.Attribute)}
    return all(id(part) in owners for part in ast.walk(function) if isinstance(part, ast.Name) and part.id == context)


def _told(function: _Definition, context: str, method: str, *, always: bool = False) -> Iterator[str]:
    """The expressions that a method of the context is given; *always*: by each call of the function."""
    statements = (part for part in function.body if isinstance(part, ast.Expr))
    parts = (part.value for part in statements) if always else ast.walk(function)
    for part in parts:
        match part:
            case ast.Call(ast.Attribute(ast.Name(id=of), name), arguments) if (of, name) == (context, method):
                yield from map(ast.unparse, arguments)


def _parts_of(setup: _Definition, whole: str) -> dict[str, int]:
    """What ``setup_context`` calls each item of a tuple: ``x, weight = inputs``, ``inputs[0]``."""
    found = {f"{whole}[{at}]": at for at in range(8)}
    named: list[tuple[str, int]] = []
    for part in ast.walk(setup):
        match part:
            case ast.Assign(targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)], value=ast.Name(id=of)):
                if of == whole and not any(isinstance(one, ast.Starred) for one in targets):
                    named += [(one.id, at) for at, one in enumerate(targets) if isinstance(one, ast.Name)]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(ast.Name(id=of), ast.Constant(int(at)))):
                if of == whole:
                    named.append((name, at))
    stored = list(_stored_in(setup))
    return found | {name: at for name, at in named if stored.count(name) == 1}


def _stored_in(function: _Definition) -> Iterator[str]:
    """The names that a function binds, once for each place; ``x += 1`` leaves a tensor the same."""
    changed = {id(part.target) for part in ast.walk(function) if isinstance(part, ast.AugAssign)}
    for part in ast.walk(function):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and id(part) not in changed:
            yield part.id


def _returned(forward: _Definition) -> tuple[str, ...]:
    """The names of the results of the only ``return`` of a function; of several that return one value, no name."""
    values = [part.value for part in ast.walk(forward) if isinstance(part, ast.Return) and part.value is not None]
    if len(values) != 1:
        return ("",) if values and not any(isinstance(value, ast.Tuple) for value in values) else ()
    parts = values[0].elts if isinstance(values[0], ast.Tuple) else values
    return tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)


def _changed_in(forward: _Definition) -> Iterator[str]:
    """The names of tensors that each call of a function changes in place."""
    for statement in forward.body:
        match statement:
            case (
                ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), method)))
                | ast.Assign(value=ast.Call(ast.Attribute(ast.Name(id=name), method)))
            ):
                if method.endswith("_") and not method.startswith("_") and catalogue.is_operation(method[:-1]):
                    yield name
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case (
                ast.Assign(targets=[ast.Subscript(ast.Name(id=name))])
                | ast.AugAssign(target=ast.Subscript(ast.Name(id=name)))
            ):
                yield name
