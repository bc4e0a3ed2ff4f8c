"""Unreduced loss: a loss per element is sent backward as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from codemods.base import Candidate, Codemod
from codemods.facts import Fact, NotScalar
from codemods.rewrite import Edit, Statement, Tree, method_call, only_part

_NUMBERS = frozenset(("item", "detach", "tolist", "data"))
_ROOTS = frozenset(("outputs", "tensors"))


class ReduceLoss(Codemod):
    """A loss of several elements is sent backward.

    Error:
        RuntimeError: grad can be implicitly created only for scalar outputs.

    Cause:
        A criterion with ``reduction="none"`` (or ``reduce=False``), or a formula without a sum, gives one loss for each
        element. A backward begins with the gradient of one number.

    Fix:
        ``.mean()``, which is what a criterion does by default, so that the size of the batch does not change the size
        of the steps. Where the gradient of data is asked for (a penalty, a force), ``.sum()``: each row has its own.

    When it is not what you want:
        Where the elements have weights, or some are masked, divide the sum by the weights' sum. Where the losses of a
        batch are to be added up, ``.sum()``.

    Source:
        torch.Tensor.backward in the PyTorch documentation, ``gradient``.
    """

    code = "AF801"
    name = "unreduced-loss"
    answers = (NotScalar,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, NotScalar)
        failed = tree.expression(fact.failed)
        root = _root(failed, tree)
        if failed is None or root is None:
            return
        if fact.by_row:
            # The gradient of the sum has a row's own gradient in each row; that of the mean a part of it.
            program = Edit(tree).change(root, lambda node: method_call(node, "sum")).program()
            yield Candidate(program, f"the gradient of `{tree.code(root)}` is that of each of its elements")
            return
        assigned = _assigned(root, failed, tree)
        made = tree.expression(fact.made)
        returned = only_part(tree.statement_of(made)) if assigned is not None else None
        if (
            isinstance(returned, cst.Return)
            and made is not None
            and returned.value is made
            and is_used_once(made, tree)
        ):
            program = Edit(tree).change(made, lambda node: method_call(node, "mean")).program()
            yield Candidate(program, f"`{tree.code(root)}` is the mean over its elements")
        if assigned is not None:
            program = Edit(tree).change(assigned, lambda node: method_call(node, "mean")).program()
            yield Candidate(program, f"`{tree.code(root)}` is the mean over its elements")
        program = Edit(tree).change(root, lambda node: method_call(node, "mean")).program()
        yield Candidate(program, f"the mean of `{tree.code(root)}` is sent backward")


def is_used_once(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether the function around is called in one place of the program: nobody else takes its result for a metric."""
    function = tree.function_of(node)
    if not isinstance(function, cst.FunctionDef):
        return True
    name = function.name.value
    owner = tree.class_of(function)
    if owner is not None and name in ("forward", "__call__"):
        name = owner.name.value
    mentions = sum(len(re.findall(rf"\b{name}\b", file.text)) for file in tree.program.files)
    return mentions <= 2


def _root(call: cst.BaseExpression | None, tree: Tree) -> cst.BaseExpression | None:
    """What is sent backward by a call: ``loss`` in ``loss.backward()``, and in ``scaler.backward(loss)``."""
    if not isinstance(call, cst.Call):
        return None
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value in _ROOTS]
    if named:
        return named[0]
    if call.args and call.args[0].keyword is None:
        return call.args[0].value
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def _assigned(root: cst.BaseExpression, failed: cst.BaseExpression, tree: Tree) -> cst.BaseExpression | None:
    """The expression that the root's name was given last, where all else that reads the name wants one number."""
    statement = tree.statement_of(failed)
    if not isinstance(root, cst.Name) or statement is None:
        return None
    block = tree.block_of(statement)
    for earlier in reversed(block[: block.index(statement)] if statement in block else []):
        value = _value_given(earlier, root.value)
        if value is not None:
            rest = [part for part in block if part is not earlier]
            return value if all(_wants_number(name, tree) for name in _readers(rest, root, tree)) else None
        if any(name.value == root.value for name in tree.names_in(earlier)):
            return None
    return None


def _value_given(statement: Statement, name: str) -> cst.BaseExpression | None:
    part = only_part(statement)
    if isinstance(part, cst.Assign) and len(part.targets) == 1:
        target = part.targets[0].target
        mentions = isinstance(part.value, cst.Name) and part.value.value == name
        if isinstance(target, cst.Name) and target.value == name and not mentions:
            return part.value
    return None


def _readers(statements: list[Statement], root: cst.Name, tree: Tree) -> Iterator[cst.Name]:
    for statement in statements:
        for name in tree.names_in(statement):
            if name.value == root.value and name is not root:
                yield name


def _wants_number(name: cst.Name, tree: Tree) -> bool:
    """Whether a mention of the loss is of the kind that only a number allows, or does not mind."""
    around = tree.parent_of(name)
    if isinstance(around, cst.Attribute):
        return around.attr.value in _NUMBERS
    if isinstance(around, (cst.FormattedStringExpression, cst.AssignTarget)):
        return True
    call = tree.parent_of(around) if isinstance(around, cst.Arg) else None
    return isinstance(call, cst.Call) and tree.code(call.func) in ("float", "print", "round")
