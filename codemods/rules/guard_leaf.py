"""Leaf changed: parameters are changed by hand outside of no_grad."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import LeafChanged, UnrecordedChanged
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.no_grad import guarded
from autofix.codemods.rewriting.nodes import Statement, method_call, without_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.inplace_flags import with_the_flag_off, without_inplace
from autofix.codemods.rules.out_of_place import as_a_new_tensor, spelled_out


class GuardLeaf(Codemod):
    """A parameter is modified in place while autograd records.

    Error:
        RuntimeError: a leaf Variable that requires grad is being used in an in-place operation. Or: a view of a leaf
        Variable that requires grad is being used in an in-place operation. Where the parameter is frozen: Trying to
        backward through the graph a second time. Where the view was made under ``no_grad``: A view was created in
        no_grad mode and is being modified inplace with grad mode enabled.

    Cause:
        An update by hand (``w -= lr * w.grad``), an initialisation, a clamp or a moving average writes into a tensor
        that collects gradients. Autograd cannot record that a leaf was overwritten. What it does record is the change
        of a frozen parameter by one that is not: a teacher that follows its student gets a graph of all updates so far,
        and where no backward comes through it, memory grows with every update.

    Fix:
        The update is no part of the computation: it goes under ``with torch.no_grad():``. A buffer or a total is part
        of it: ``total = torch.zeros(1, requires_grad=True)``, then ``total += loss``, becomes ``total = total + loss``,
        and a tensor whose rows are written loses its ``requires_grad=True``, which it does not need.

    When it is not what you want:
        Where the change is to be differentiated through, make a new tensor: ``w = w - lr * g``, as in meta-learning.

    Source:
        torch.no_grad in the PyTorch documentation; PyTorch's own optimizers and ``torch.nn.init`` do the same.
    """

    code = "AF301"
    name = "leaf-changed"
    answers = (LeafChanged, UnrecordedChanged, StaleGraph, GraphHeld)
    rank = 8

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        if isinstance(fact, StaleGraph):
            if fact.thawed:
                yield from _of_frozen(fact.made, tree)
            return
        if isinstance(fact, GraphHeld):
            if fact.updates:
                yield from _of_frozen(fact.kept, tree)
            return
        assert isinstance(fact, (LeafChanged, UnrecordedChanged))
        statement = tree.statement_of(tree.expression(fact.changed) or tree.node(fact.changed, cst.AugAssign))
        if statement is None or not tree.block_of(statement):
            return
        if isinstance(fact, UnrecordedChanged):
            if fact.parameter:
                yield Candidate(guarded(tree, [statement]), "update the view of a parameter under no_grad")
            return
        if activations := list(_of_an_activation(fact, tree)):
            yield from activations
            return
        if fact.total:  # under no_grad, nothing would learn by what is added
            for patch in spelled_out(tree.node(fact.changed, cst.AugAssign), tree, alone=True):
                yield Candidate(patch, "add up in a new tensor", Keeps.PARAMETERS)
        yield from _no_parameter(fact, tree)
        if fact.total:
            return
        yield from _of_a_copy(fact, statement, tree)
        if fact.mixed and _computes(statement, tree):
            for patch in spelled_out(tree.node(fact.changed, cst.AugAssign), tree, alone=True):
                yield Candidate(patch, "compute a new tensor instead of modifying the parameter", Keeps.PARAMETERS)
        if fact.result and not fact.computed:
            yield from as_a_new_tensor(fact.changed, tree)
        if fact.computed or fact.result:
            return
        for run in (*loops_of_updates(statement, tree), [statement]):
            yield Candidate(guarded(tree, run), "update parameters under no_grad")


def _of_an_activation(fact: LeafChanged, tree: Tree) -> Iterator[Candidate]:
    """``w = self.relu(self.weight)`` computes with the parameter and does not update it: it is to make a new tensor.

    So does ``F.relu(self.weight, inplace=True)``.
    """
    call = tree.expression(fact.changed)
    if call is None or isinstance(tree.parent_of(call), cst.Expr):
        return  # nobody reads the result: the parameter is what is meant to change
    flagged = isinstance(call, cst.Call) and any(
        argument.keyword is not None and argument.keyword.value == "inplace" for argument in call.args
    )
    if fact.constructed is None and not flagged:
        return
    made = tree.expression(fact.constructed) if fact.constructed is not None else call
    for off in (without_inplace, with_the_flag_off):
        for candidate in off(made, tree):
            yield replace(candidate, keeps=Keeps.INPUTS)


def _no_parameter(fact: LeafChanged, tree: Tree) -> Iterator[Candidate]:
    """``out = torch.zeros(4, 3)``, without ``requires_grad=True``: it takes the graphs of what is written into it."""
    made = tree.expression(fact.flagged)
    if not isinstance(made, cst.Call):
        return
    edit = Edit(tree)
    if any(argument.keyword is not None and argument.keyword.value == "requires_grad" for argument in made.args):
        edit.change(made, lambda node: without_keyword(node, "requires_grad"))
    elif isinstance(made.func, cst.Attribute) and tree.called(made) == "requires_grad_":
        plain = made.func.value
        edit.change(made, lambda _: plain)
    else:
        return
    yield Candidate(edit.patch(), "let a tensor that is written into be no parameter", Keeps.PARAMETERS)


def _of_a_copy(fact: LeafChanged, statement: Statement, tree: Tree) -> Iterator[Candidate]:
    """``embeds = prompt.clone()`` for ``embeds = prompt``, of which rows are written that others are to learn by."""
    changed = tree.expression(fact.changed)
    if not fact.computed or not isinstance(changed, cst.Subscript) or not isinstance(changed.value, cst.Name):
        return
    block = tree.block_of(statement)
    for earlier in reversed(block[: block.index(statement)]):
        given = tree.given(earlier, changed.value.value)
        if given is not None:
            if isinstance(given, (cst.Name, cst.Attribute)):
                patch = Edit(tree).change(given, lambda node: method_call(node, "clone")).patch()
                yield Candidate(patch, f"write into a copy of `{tree.code(given)}`", Keeps.PARAMETERS)
            return


def _of_frozen(update: Span, tree: Tree) -> Iterator[Candidate]:
    """The update by which frozen parameters get a graph: ``teacher.mul_(m).add_(student, alpha=1 - m)``."""
    statement = tree.statement(update) or tree.statement_of(tree.expression(update) or tree.node(update, cst.AugAssign))
    if statement is None or not tree.block_of(statement):
        return
    for run in (*loops_of_updates(statement, tree), [statement]):
        yield Candidate(guarded(tree, run), "update frozen parameters under no_grad", Keeps.PARAMETERS)


def _computes(statement: Statement, tree: Tree) -> bool:
    """Whether a statement belongs to a forward pass: the local name that it changes goes into something afterwards.

    Where a function has to do with gradients, it is an update.
    """
    part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    block = tree.block_of(statement)
    if not isinstance(part, cst.AugAssign) or not isinstance(part.target, cst.Name):
        return False
    if any(word in tree.code(tree.function_of(statement)) for word in ("backward", "grad")):
        return False
    name = part.target.value
    later = block[block.index(statement) + 1 :]
    return any(
        one.value == name
        for after in later
        if isinstance(after, cst.SimpleStatementLine) and isinstance(after.body[0], (cst.Assign, cst.Return))
        for one in tree.names_in(after)
    )


def loops_of_updates(statement: Statement, tree: Tree) -> Iterator[list[Statement]]:
    """A loop that does nothing but change parameters is guarded as a whole."""
    for around in tree.enclosing(statement):
        if isinstance(around, cst.For):
            body = tree.body_of(around)
            if tree.block_of(around) and all(_only_updates(part) for part in body):
                yield [around]
            return
        if isinstance(around, (cst.FunctionDef, cst.While, cst.With, cst.If)):
            return


def _only_updates(statement: Statement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(part, (cst.AugAssign, cst.Expr)) or _sets_attribute(part) for part in statement.body
    )


def _sets_attribute(part: cst.BaseSmallStatement) -> bool:
    return isinstance(part, cst.Assign) and all(
        isinstance(target.target, (cst.Attribute, cst.Subscript)) for target in part.targets
    )
