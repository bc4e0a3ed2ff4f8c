"""A loss that is computed and never sent backward, where a copied line sends another loss backward once more."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.nodes import calls_in, only_part
from autofix.codemods.rewriting.tree import Tree


def meant(fact: Fact, tree: Tree) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The loss that the failing pass sends backward again, and the one that was computed for it.

    ``loss_a.backward()``, then ``loss_b = ...`` and again ``loss_a.backward()``: ``loss_b`` is computed by functions
    that compute ``loss_a``, and nothing reads it but to print it.  None where there is no such loss.
    """
    first = _sent(_first_pass(fact), tree)
    second = _sent(fact.failed, tree) if isinstance(fact, (StaleGraph, Overwritten)) and fact.loop is None else None
    if first is None or second is None or first is second or tree.code(first) != tree.code(second):
        return None
    place = tree.statement_of(second)
    before, behind = tree.line_of(first), tree.line_of(second)
    if place is None or tree.function_of(first) is not tree.function_of(second):
        return None
    own = _functions(second, first, tree)
    for statement in reversed(tree.block_of(place)):
        target = _computed(statement)
        if target is None or not before < tree.line_of(target) < behind or type(target) is not type(second):
            continue
        if own & {tree.called(call) for call in calls_in(statement)} and not _is_used(target, tree):
            return second, target
    return None


def _functions(loss: cst.BaseExpression, sent: cst.BaseExpression, tree: Tree) -> set[str]:
    """The functions that compute a loss, by the last assignment ahead of the place where it is sent backward."""
    place = tree.statement_of(sent)
    ahead = [one for one in tree.block_of(place) if tree.line_of(one) < tree.line_of(sent)] if place else []
    made = (one for one in reversed(ahead) if (to := _computed(one)) is not None and tree.code(to) == tree.code(loss))
    return {tree.called(call) for call in calls_in(next(made, cst.Pass()))}


def _first_pass(fact: Fact) -> Span | None:
    match fact:
        case StaleGraph():
            return fact.freed
        case Overwritten():
            return fact.retained
    return None


def _sent(span: Span | None, tree: Tree) -> cst.BaseExpression | None:
    """``loss`` of ``loss.backward()``, a name or an attribute."""
    call = tree.expression(span)
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
        loss = call.func.value
        return loss if isinstance(loss, cst.Name | cst.Attribute) else None
    return None


def _computed(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """``loss`` of ``loss = criterion(...)``."""
    part = only_part(statement)
    if isinstance(part, cst.Assign) and len(part.targets) == 1 and not isinstance(part.value, cst.SimpleString):
        target = part.targets[0].target
        return target if isinstance(target, cst.Name | cst.Attribute) else None
    return None


_TOLD = frozenset(("item", "detach", "data", "cpu", "shape"))
"""Attributes of a tensor that are read to print it."""


def _is_used(target: cst.BaseExpression, tree: Tree) -> bool:
    """Whether anything reads what was assigned, by its name or by way of ``locals()``, but to print its value."""
    names = tree.names_in(tree.function_of(target))
    places: list[cst.BaseExpression] = [
        one for one in names if isinstance(target, cst.Name) and one.value == target.value
    ]
    if isinstance(target, cst.Attribute):
        attributes = tree.every(cst.Attribute, tree.module_of(target))
        places = [one for one in attributes if one.attr.value == target.attr.value]
    return any(one.value in ("locals", "vars") for one in names) or any(_is_read(one, tree) for one in places)


def _is_read(place: cst.BaseExpression, tree: Tree) -> bool:
    around = tree.parent_of(place)
    told = isinstance(around, cst.Attribute) and around.value is place and around.attr.value in _TOLD
    return not told and not isinstance(around, cst.AssignTarget | cst.Param)
