"""Unused inputs: a gradient is requested for something that the loss is not computed from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import InputUnused, PartBeside
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, with_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class RequestGradient(Codemod):
    """``torch.autograd.grad`` is asked for the gradient of something that the loss is not computed from.

    Error:
        RuntimeError: One of the differentiated Tensors appears to not have been used in the graph. Set
        allow_unused=True if this is the desired behavior.

    Cause:
        ``x[:, :1]`` beside ``net(x)`` is a new tensor, which nothing was computed from. A layer that ``forward`` leaves
        out has no part in the loss. And what enters the loss by ``noise.detach()`` is no longer ``noise``.

    Fix:
        The gradient of the whole is requested, and the part is taken of that: ``grad(u.sum(), x)[0][:, :1]``. For
        parameters without a part in the loss, ``materialize_grads=True`` gives zeros. A tensor whose gradient is wanted
        is not detached; where it enters by a gradient, as the weights of the examples in an inner step do, that
        gradient is taken with ``create_graph=True``.

    When it is not what you want:
        Where the layer should have a part in the loss, call it in ``forward``.

    Source:
        torch.autograd.grad in the PyTorch documentation.
    """

    code = "AF421"
    name = "unused-input"
    answers = (PartBeside,)
    rank = 2

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, PartBeside)
        call = tree.expression(fact.failed)
        if not isinstance(call, cst.Call):
            return
        if not isinstance(fact, InputUnused):
            yield from _of_the_whole(call, tree.expression(fact.made), tree)
            return
        derived = _with_graph(tree.expression(fact.cut), tree)
        if derived is not None:
            yield derived
        elif fact.own:
            cut = tree.expression(fact.cut)
            if isinstance(cut, cst.Call) and isinstance(cut.func, cst.Attribute) and tree.called(cut) == "detach":
                kept = cut.func.value
                patch = Edit(tree).change(cut, lambda _: kept).patch()
                yield Candidate(patch, f"keep `{tree.code(kept)}` in the graph of the loss", Keeps.REACHED)
        elif fact.cut is None:
            patch = Edit(tree).change(call, lambda node: with_keyword(node, "materialize_grads", "True")).patch()
            yield Candidate(patch, "take zeros for the gradients of what has no part in the loss", Keeps.PARAMETERS)


def _with_graph(cut: cst.BaseExpression | None, tree: Tree) -> Candidate | None:
    """The gradient by which the input entered the loss, with a graph: an inner step that is differentiated."""
    if not isinstance(cut, cst.Call) or tree.called(cut) != "grad":
        return None
    if any(argument.keyword is not None and argument.keyword.value == "create_graph" for argument in cut.args):
        return None
    patch = Edit(tree).change(cut, lambda node: with_keyword(node, "create_graph", "True")).patch()
    return Candidate(patch, "give the gradient a graph of its own", Keeps.REACHED)


def _of_the_whole(call: cst.Call, made: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``grad(u.sum(), x)[0][:, :1]`` for ``grad(u.sum(), x[:, :1])[0]``."""
    taken = tree.parent_of(call)
    if not isinstance(made, cst.Subscript) or not isinstance(taken, cst.Subscript) or taken.value is not call:
        return
    if tree.code(taken)[len(tree.code(call)) :].replace(" ", "") != "[0]" or len(call.args) < 2:
        return
    argument = next(
        (one for one in call.args if one.keyword is not None and one.keyword.value == "inputs"), call.args[1]
    )
    given = argument.value
    if given is not made and not _names(given, made, tree):
        return
    edit = Edit(tree).change(given, lambda _: made.value)
    edit.change(taken, lambda node: made.with_changes(value=node, lpar=[], rpar=[]))
    yield Candidate(edit.patch(), f"request the gradient of `{tree.code(made.value)}`, and take the part of it")


def _names(given: cst.BaseExpression, made: cst.Subscript, tree: Tree) -> bool:
    """Whether an argument is the name that the part was given, and the name of the whole is not set between."""
    first, last = tree.statement_of(made), tree.statement_of(given)
    if first is None or last is None or not isinstance(made.value, cst.Name) or not isinstance(given, cst.Name):
        return False
    block: list[Statement] = tree.block_of(first)
    if tree.given(first, given.value) is not made or last not in block or first not in block:
        return False
    between = block[block.index(first) + 1 : block.index(last)]
    return all(tree.given(one, name) is None for one in between for name in (given.value, made.value.value))
