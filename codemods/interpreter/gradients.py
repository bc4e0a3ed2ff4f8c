"""Gradients of what is no leaf: None, whatever pass has come before.

That is no mistake in itself: a script may ask whether there is a gradient.  It becomes one where the program calculates
with it, or calls a method of it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.autograd.catalogue import MAYBE_ITSELF
from autofix.codemods.autograd.graph import Node
from autofix.codemods.autograd.walks import leaves_under
from autofix.codemods.interpreter import escapes, written
from autofix.codemods.interpreter.state.incidents import MissingGradient, Refused, UnflaggedInputs
from autofix.codemods.interpreter.values import Sequence, TensorRef, Value
from autofix.codemods.source.sources import Site

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def note_missing(interp: Interpreter, tensor: TensorRef, node: ast.expr) -> None:
    """``tensor.grad`` is None: note what the tensor is the result of, where it comes from a leaf."""
    made = _made(tensor)
    if made is not None and isinstance(node, ast.Attribute):
        name = interp.source.text_of(node.value)
        kept = tensor.provenance[-1].expression if tensor.provenance else None
        interp.incidents.ungraded[node] = MissingGradient(made, kept, name, interp.statement)


def note_refused(
    interp: Interpreter, parameter: Value, value: Value, expression: ast.expr | None, target: ast.expr
) -> None:
    """A module's parameter is replaced, in a statement that asks for its gradient, by what is no parameter.

    Source: ``Module.__setattr__`` in torch/nn/modules/module.py.
    """
    leaf = parameter.cell.leaf if isinstance(parameter, TensorRef) else None
    if leaf is None or leaf.name.startswith("tensor:") or expression is None or not isinstance(value, TensorRef):
        return
    made = value.cell.node
    if made is not None and made.leaf is None and not made.opaque and not value.guessed:
        name = interp.source.text_of(target)
        place = interp.site(expression)
        interp.incidents.refused.setdefault(place, MissingGradient(place, None, name, interp.statement))


def note_unflagged(interp: Interpreter, outputs: Value, inputs: Value, node: ast.expr) -> None:
    """``autograd.grad`` is asked for gradients: note the inputs that certainly do not require grad.

    PyTorch looks at what is sent backward first.
    """
    roots = list(interp.tensors(outputs))
    if interp.exceptions.may_be_handled or not roots or not all(map(escapes.certainly_has_graph, roots)):
        return
    asked = written.keyword(node, "inputs") or next(iter(written.arguments(node)[1:]), None)
    parts, values = [asked], [inputs]
    if isinstance(asked, (ast.List, ast.Tuple)) and isinstance(inputs, Sequence):
        parts, values = list(asked.elts), [interp.read(slot, inputs) for slot in inputs.items]
    found = [
        interp.site(part)
        for part, value in zip(parts, values, strict=False)
        if part is not None and isinstance(value, TensorRef) and _is_data(value)
    ]
    if found:
        noted = UnflaggedInputs(tuple(found), bool(interp.policy.asked))
        interp.incidents.unflagged.setdefault(interp.site(node), noted)


def note_whole(interp: Interpreter, tensor: Value, flagged: ast.expr, shown: ast.expr | ast.stmt | None) -> None:
    """A tensor, of the text *shown*, is told to require grad, which certain whole numbers cannot."""
    if isinstance(tensor, TensorRef) and tensor.cell.whole and _is_data(tensor):
        note_whole_created(interp, flagged, shown or flagged)


def note_whole_created(interp: Interpreter, flagged: ast.expr, shown: ast.expr | ast.stmt) -> None:
    """Whole numbers, of the text *shown*, are told to require grad."""
    if not interp.exceptions.may_be_handled:
        short = shown.func if isinstance(shown, ast.Call) else shown
        text = interp.source.text_of(short)
        chosen = bool(interp.policy.asked or interp.policy.path.entry)  # a default of the function may be whole
        found = Refused(chosen, name=text if short is shown else f"{text}(...)")
        interp.incidents.whole_flagged.setdefault(interp.site(flagged), found)


def _is_data(tensor: TensorRef) -> bool:
    """Whether a tensor certainly does not require grad: nobody who may have flagged it was given it."""
    seen = [one for one in (tensor.cell, tensor.cell.base) if one is not None]  # a view requires grad as its base does
    unsure = tensor.guessed or any(one.vague or one.unsure or one.handed or one.loaded or one.mixed for one in seen)
    return not unsure and all(one.node is None for one in seen)


def _made(tensor: TensorRef) -> Site | None:
    """The operation that a tensor is the result of; of one that was not recorded, where it computes with a leaf."""
    if tensor.cell.node is not None:
        return None if _may_be_leaf(tensor.cell.node) else tensor.cell.node.site
    detachment = tensor.cell.detachment
    cut = detachment.cuts[-1] if detachment is not None else None
    return cut.site if cut is not None and cut.how == "no_grad" and leaves_under(cut.nodes) else None


def _may_be_leaf(node: Node) -> bool:
    """Whether all operations between a value and a leaf may return the leaf itself: ``w.flatten()``, ``w.real``."""
    while node.leaf is None:
        written = node.site.node
        same = node.operation in MAYBE_ITSELF or (isinstance(written, ast.Attribute) and written.attr in MAYBE_ITSELF)
        if not same or len(node.operands) != 1:
            return False
        node = node.operands[0].node
    return True


def note_hook(interp: Interpreter, tensor: TensorRef, node: ast.expr) -> None:
    """A tensor is given a hook, or told to retain its gradient, which what does not require grad refuses."""
    site, cuts = interp.site(node), tensor.cell.detachment.cuts if tensor.cell.detachment is not None else ()
    if not escapes.certainly_has_no_graph(tensor):
        interp.incidents.hooks.add(site)
    elif interp.exceptions.may_be_handled:
        interp.crash("a tensor without a graph takes no hook", "RuntimeError")
    elif tensor.cell.leaf is None and _is_data(tensor) and all(cut.how == "no_grad" for cut in cuts):
        found = Refused(bool(interp.policy.asked), None if interp.grad else interp.guard)
        interp.incidents.hooks_refused.setdefault(site, found)


def is_of_data(interp: Interpreter, made: Node) -> bool:
    """Whether a result is computed of tensors alone whose gradients are read and which no optimizer trains."""
    leaves = leaves_under([made])
    trained = {leaf for group in interp.tape.groups for leaf in group.leaves}
    return all(leaf.plain and leaf.asked and leaf not in trained for leaf in leaves)


def calculated(interp: Interpreter, node: ast.expr) -> None:
    """An operator is given None, the value of an expression, which is an error where it is such a gradient."""
    if interp.incidents.ungraded and _asking(interp, node) is not None:
        interp.crash("None is no number", "TypeError")
        needed(interp, node)


def needed(interp: Interpreter, node: ast.expr) -> None:
    """The program fails for the want of a value that an expression should have had."""
    asking = _asking(interp, node) if interp.incidents.ungraded else None
    if asking is not None:
        interp.incidents.missing.setdefault(interp.site(asking), interp.incidents.ungraded[asking])


def _asking(interp: Interpreter, node: ast.expr) -> ast.expr | None:
    """The expression that asked for the gradient: *node* itself, or what was assigned to this name."""
    if node in interp.incidents.ungraded:
        return node
    if isinstance(node, ast.Name):
        for asking, missing in reversed(interp.incidents.ungraded.items()):
            match missing.statement.node:
                case ast.Assign(targets=[ast.Name(id=node.id)], value=value) if value is asking:
                    return asking
    return None
