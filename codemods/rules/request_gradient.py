"""Unused inputs: a gradient is requested for something that the loss is not computed from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import InputUnflagged, InputUnused, PartBeside
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, requires_grad, with_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class RequestGradient(Codemod):
    """``torch.autograd.grad`` is asked for the gradient of something that the loss is not computed from.

    Error:
        RuntimeError: One of the differentiated Tensors appears to not have been used in the graph. Set
        allow_unused=True if this is the desired behavior. Or: One of the differentiated Tensors does not require grad.

    Cause:
        ``x[:, :1]`` beside ``net(x)`` is a new tensor, which nothing was computed from. A layer that ``forward`` leaves
        out has no part in the loss. And what enters the loss by ``noise.detach()`` is no longer ``noise``. Data,
        such as the points of a physics-informed network or the mixed images of a gradient penalty, do not require grad
        by themselves.

    Fix:
        The gradient of the whole is requested, and the part is taken of that: ``grad(u.sum(), x)[0][:, :1]``. For
        parameters without a part in the loss, ``materialize_grads=True`` gives zeros. A tensor whose gradient is wanted
        is not detached; where it enters by a gradient, as the weights of the examples in an inner step do, that
        gradient is taken with ``create_graph=True``. An input that does not require grad is made to:
        ``x = torch.rand(8, 1).requires_grad_()``, or ``x.requires_grad_()`` before the model is called.

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
        if isinstance(fact, InputUnflagged):
            yield from _flagged(fact, call, tree)
        elif not isinstance(fact, InputUnused):
            yield from _of_the_whole(call, tree.expression(fact.made), tree)
        else:
            yield from _of_an_unused(fact, call, tree)


def _of_an_unused(fact: InputUnused, call: cst.Call, tree: Tree) -> Iterator[Candidate]:
    """The input enters the loss; or its gradient is zero."""
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


def _flagged(fact: InputUnflagged, call: cst.Call, tree: Tree) -> Iterator[Candidate]:
    """All inputs of the call require grad from where they are made, or before they are used."""
    given = [
        one for one in map(tree.expression, (fact.made, *fact.others)) if isinstance(one, (cst.Name, cst.Attribute))
    ]
    if len(given) <= len(fact.others):
        return
    remedy = f"let {', '.join(f'`{tree.code(one)}`' for one in given)} require grad"
    made = [_made(tree.code(one), call, tree) for one in given]
    known = [value for value in made if value is not None]
    if len(known) == len(given):
        edit = Edit(tree)
        for value in known:
            edit.change(value, requires_grad)
        yield Candidate(edit.patch(), remedy, cause=tree.row_of(known[0]))
    edit = Edit(tree)
    for one in given:
        name = tree.code(one)
        first = _first_use(name, tree.statement_of(call), tree)
        if first is None:
            return
        # Where a loop gives it new values, each is a leaf of its own.
        anew = isinstance(one, cst.Name) and len(_bindings(name, call, tree)) > 1
        edit.insert_before(first, f"{name} = {name}.detach().requires_grad_()" if anew else f"{name}.requires_grad_()")
    yield Candidate(edit.patch(), remedy)


def _made(name: str, call: cst.Call, tree: Tree) -> cst.BaseExpression | None:
    """The only value that the function of a *call* gives *name*, where an operation makes it; else None."""
    bound = _bindings(name, call, tree)
    made = tree.given(bound[0], name) if len(bound) == 1 else None
    return made if isinstance(made, (cst.Call, cst.BinaryOperation)) else None


def _bindings(name: str, call: cst.Call, tree: Tree) -> list[Statement]:
    return [one for one in tree.statements_in(tree.function_of(call)) if name in targets_of(one, tree)]


def _first_use(name: str, asked: Statement | None, tree: Tree) -> Statement | None:
    """The first statement that reads *name* behind where it was last bound, and before the one that *asked* for it.

    In the block of the latter, else in the one around it.
    """
    while asked is not None:
        block: list[Statement] = tree.block_of(asked)
        before = block[: block.index(asked)] if asked in block else []
        last = max((at for at, one in enumerate(before) if name in targets_of(one, tree)), default=-1)
        used = next((one for one in before[last + 1 :] if name in tree.paths_in(one)), None)
        if used is not None or last >= 0:
            return used
        parent = tree.parent_of(asked)
        asked = tree.statement_of(tree.parent_of(parent)) if parent is not None else None
        if isinstance(asked, (cst.FunctionDef, cst.ClassDef)):
            return None
    return None


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
