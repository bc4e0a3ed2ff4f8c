"""Refused flag: ``requires_grad`` of the result of an operation is set."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import FlagRefused, LeafRefused
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import is_alone, method_call, only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.other_names import Place, converted_before, targets_for


class DetachFlagged(Codemod):
    """The result of an operation is told to require grad, or not to.

    Error:
        RuntimeError: you can only change requires_grad flags of leaf variables.

    Cause:
        ``requires_grad`` says of a leaf whether autograd is to record what is computed with it. The result of an
        operation has a graph already, which the flag cannot take away: ``z = net(x)``, ``z.requires_grad = False``.

    Fix:
        The name takes a tensor with the same data and without a graph: ``z = z.detach()``. A result that is told to
        require grad does already; ``z.retain_grad()`` keeps its gradient. One that was computed of data alone, such as
        an adversarial example, is detached before, and becomes a leaf.

    When it is not what you want:
        Where the network is meant to be frozen, set ``requires_grad`` of its parameters to False, or compute under
        ``no_grad``.

    Source:
        "Locally disabling gradient computation" in PyTorch's autograd mechanics; torch.Tensor.detach.
    """

    code = "AF451"
    name = "refused-flag"
    answers = (FlagRefused,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, FlagRefused)
        changed = tree.expression(fact.changed)
        if isinstance(fact, LeafRefused):
            yield from _granted(fact, changed, tree)
            return
        place = changed.func if isinstance(changed, cst.Call) else changed
        if not isinstance(place, cst.Attribute) or changed is None:
            return
        owner, statement = place.value, tree.parent_of(changed)
        if isinstance(statement, cst.AssignTarget):
            statement = tree.parent_of(statement)
        alone = isinstance(statement, cst.Expr) or (isinstance(statement, cst.Assign) and place is changed)
        edit = Edit(tree)
        if alone and isinstance(owner, Place) and isinstance(statement, (cst.Expr, cst.Assign)):
            given = targets_for(owner, tree)
            if given is None or (isinstance(statement, cst.Assign) and len(statement.targets) > 1):
                return
            made = cst.Assign([cst.AssignTarget(one) for one in given], method_call(owner, "detach"))
            edit.change(statement, lambda _: made)
        elif isinstance(changed, cst.Call) and isinstance(owner, (cst.Call, cst.BinaryOperation)) and not alone:
            edit.change(changed, lambda _: method_call(owner, "detach"))
        else:
            return
        yield Candidate(edit.patch(), f"detach `{tree.code(owner)}`")


def _granted(fact: LeafRefused, changed: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """The gradient of the result is kept; a result of data becomes a leaf."""
    statement = tree.statement_of(changed)
    part = only_part(statement)
    if not isinstance(changed, cst.Attribute) or statement is None or not isinstance(part, cst.Assign):
        return
    owner = changed.value
    if not is_alone(changed, part) or not isinstance(owner, Place):
        return
    name = tree.code(owner)
    if not fact.data:
        patch = Edit(tree).change(part, lambda _: cst.Expr(method_call(owner, "retain_grad"))).patch()
        yield Candidate(patch, f"keep the gradient of `{name}`")
        return
    edit = converted_before(statement, owner, "detach", tree)
    if edit is not None:
        yield Candidate(edit.patch(), f"detach `{name}`, so that it is a leaf")
