"""Computed parameters: what an optimizer is to change is the result of an operation."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.untrained import ComputedParameter, NoGradient
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import calls_in, detach, parenthesised, requires_grad, without_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class LeafAgain(Codemod):
    """An optimizer is given a non-leaf: the result of an operation on the tensor that requires grad.

    Error:
        ValueError: can't optimize a non-leaf Tensor. Without an optimizer: TypeError: unsupported operand type(s) for
        *: 'float' and 'NoneType', for the gradient of a non-leaf is None. In a module, whose parameters do not include
        it: Trying to backward through the graph a second time.

    Cause:
        ``x = torch.randn(8, requires_grad=True) * 0.1``: the leaf is the tensor of random numbers, which nobody holds
        any more, and ``x`` is computed from it. An optimizer changes leaves only. The same goes for
        ``nn.Parameter(torch.randn(8)) * 0.1``, and for a conversion to another precision, ``x.double()``. On a GPU it
        goes for ``nn.Parameter(x).to(device)`` and ``torch.randn(8, requires_grad=True).cuda()``, too: without a GPU
        these are the leaf itself, on a GPU a copy of it. A module does not list such a result among its parameters:
        ``self.shift = nn.Parameter(torch.randn(8)) / 1000`` is never trained, and its graph lasts for one iteration.

    Fix:
        The value is computed first, and requires grad afterwards: ``x = (torch.randn(8) * 0.1).requires_grad_()``,
        ``nn.Parameter(torch.randn(8) * 0.1)``. What is computed from another tensor that requires grad is detached.

    When it is not what you want:
        Where the gradient is to reach the tensor that the value was computed from, give that one to the optimizer, and
        compute the value in every iteration.

    Source:
        torch.Tensor.is_leaf and torch.optim in the PyTorch documentation.
    """

    code = "AF431"
    name = "computed-parameter"
    answers = (ComputedParameter, NoGradient, StaleGraph)
    rank = 1

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        if isinstance(fact, StaleGraph):
            yield from _never_held(fact, tree)
            return
        assert isinstance(fact, (ComputedParameter, NoGradient))
        made = tree.expression((fact.kept if isinstance(fact, NoGradient) else None) or fact.made)
        if made is None or isinstance(made, (cst.Name, cst.Attribute)):
            return
        remedy = f"make `{fact.name or tree.code(made).strip()}` a leaf"
        yield from _made_within(made, remedy, tree)
        yield from _made_before(made, remedy, tree)
        if isinstance(fact, NoGradient):
            return
        edit = Edit(tree).change(made, lambda node: requires_grad(detach(node)))
        yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS)


def _made_within(
    made: cst.BaseExpression, remedy: str, tree: Tree, keeps: Keeps = Keeps.PARAMETERS
) -> Iterator[Candidate]:
    """``nn.Parameter(torch.randn(8) * 0.1)`` for ``nn.Parameter(torch.randn(8)) * 0.1``."""
    flagged = [call for call in calls_in(made) if _flag(call) is not None]
    if len(flagged) == 1:
        (call,) = flagged
        edit = Edit(tree).change(call, lambda node: without_keyword(node, "requires_grad"))
        yield Candidate(edit.change(made, requires_grad).patch(), remedy, keeps)
    wrapped = [call for call in calls_in(made) if _is_parameter(call, tree)]
    if len(wrapped) == 1 and wrapped[0] is not made:
        (call,) = wrapped
        edit = Edit(tree).change(call, lambda node: parenthesised(node.args[0].value))  # type: ignore[attr-defined]
        edit.change(made, lambda node: _called(call.func, node))
        yield Candidate(edit.patch(), remedy, keeps)


def _never_held(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``self.shift = nn.Parameter(torch.randn(8)) / 100``, before the loop: no module and no optimizer has the leaf."""
    made = tree.expression(fact.made) if fact.loop is not None and not fact.inside else None
    if made is None or isinstance(made, (cst.Name, cst.Attribute)):
        return
    made = _outermost(made, tree)
    made_here = [call for call in calls_in(made) if _flag(call) is not None or _is_parameter(call, tree)]
    if len(made_here) == 1 and _is_operand(made_here[0], made, tree):
        yield from _made_within(made, f"make `{fact.name or tree.code(made).strip()}` a leaf", tree, Keeps.HELD)


def _outermost(made: cst.BaseExpression, tree: Tree) -> cst.BaseExpression:
    """The whole formula that an operation is the innermost part of: ``w.abs() + 1`` for ``w.abs()``."""
    around = tree.parent_of(made)
    while isinstance(around, (cst.BinaryOperation, cst.UnaryOperation)) or _is_asked(made, around, tree):
        made = around if isinstance(around, cst.BaseExpression) else made
        around = tree.parent_of(made)
    return made


def _is_asked(made: cst.BaseExpression, around: cst.CSTNode | None, tree: Tree) -> bool:
    """Whether *around* is the method of a value, or the call of that method."""
    if isinstance(around, cst.Call):
        return around.func is made and isinstance(made, cst.Attribute)
    return isinstance(around, cst.Attribute) and around.value is made and isinstance(tree.parent_of(around), cst.Call)


def _is_operand(call: cst.Call, made: cst.BaseExpression, tree: Tree) -> bool:
    """Whether nobody but the operations of a formula is given what a call in it makes."""
    inner: cst.CSTNode = call
    while inner is not made:
        around = tree.parent_of(inner)
        if isinstance(around, cst.Arg):
            function = tree.parent_of(around)
            if not isinstance(function, cst.Call) or not tree.is_of_torch(function.func):
                return False
        elif not isinstance(around, (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute, cst.Call)):
            return False
        inner = around
    return True


def _made_before(made: cst.BaseExpression, remedy: str, tree: Tree) -> Iterator[Candidate]:
    """``w = w.to(device)`` of a leaf that a statement before made: it is moved first, and becomes a leaf there."""
    value = _value(made, tree)
    if value is None:
        return
    flagged = [call for call in calls_in(value) if _flag(call) is not None]
    if flagged == [value]:
        edit = Edit(tree).change(value, lambda node: without_keyword(node, "requires_grad"))
        yield Candidate(edit.change(made, requires_grad).patch(), remedy, Keeps.PARAMETERS)
    if isinstance(value, cst.Call) and _is_parameter(value, tree):
        edit = Edit(tree).change(made, lambda node: _called(value.func, node))
        yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS)


def _value(made: cst.BaseExpression, tree: Tree) -> cst.BaseExpression | None:
    """Value that ``w`` got before ``w = w.to(device)``, in the same block and with no mention between; else None."""
    moved = made.func.value if isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute) else None
    statement = tree.statement_of(made)
    if not isinstance(moved, (cst.Name, cst.Attribute)) or statement is None:
        return None
    name, block = tree.code(moved), tree.block_of(statement)
    if tree.given(statement, name) is not made or statement not in block:
        return None
    for earlier in reversed(block[: block.index(statement)]):
        value = tree.given(earlier, name)
        if value is not None or name in tree.paths_in(earlier):
            return value
    return None


def _flag(call: cst.Call) -> cst.Arg | None:
    """``requires_grad=True`` among the arguments of a call."""
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == "requires_grad":
            value = argument.value
            return argument if isinstance(value, cst.Name) and value.value == "True" else None
    return None


def _is_parameter(call: cst.Call, tree: Tree) -> bool:
    one = len(call.args) == 1 and call.args[0].keyword is None and not call.args[0].star
    return one and tree.called(call) == "Parameter"


def _called(func: cst.BaseExpression, node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.BaseExpression)
    return cst.Call(func, [cst.Arg(node.with_changes(lpar=[], rpar=[]))])
