"""Whole numbers: a tensor of them is told to require grad."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import WholeFlagged
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import is_alone, method_call, only_part, with_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.other_names import Place, converted_before

_TYPED = frozenset("tensor arange zeros ones full empty eye randint randperm zeros_like ones_like full_like".split())
"""Functions of torch that make a tensor of the type that ``dtype`` says."""


class FloatFlagged(Codemod):
    """A tensor of whole numbers is told to require grad.

    Error:
        RuntimeError: Only Tensors of floating point and complex dtype can require gradients.

    Cause:
        A gradient is the limit of small changes, of which whole numbers and truth values have none.
        ``torch.tensor([1, 2])`` takes its type from the numbers, ``torch.arange(4)`` and ``torch.randint`` likewise:
        all of them are whole.

    Fix:
        The tensor is made of floats: ``torch.tensor([1, 2], dtype=torch.float32, requires_grad=True)``. One that was
        made elsewhere is converted before it is told to require grad: ``x = x.float()``.

    When it is not what you want:
        Where the numbers are indices or counters, they are not trained: leave ``requires_grad`` out, and let a module
        keep them by ``register_buffer``.

    Source:
        "Locally disabling gradient computation" in PyTorch's autograd mechanics; torch.tensor.
    """

    code = "AF461"
    name = "whole-numbers"
    answers = (WholeFlagged,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, WholeFlagged)
        flagged = tree.expression(fact.flagged)
        if flagged is None:
            return
        place = flagged.func if isinstance(flagged, cst.Call) else flagged
        if isinstance(place, cst.Attribute) and place.attr.value in ("requires_grad", "requires_grad_"):
            yield from _converted(flagged, place.value, tree)
        elif isinstance(flagged, cst.Call):
            called = tree.called(flagged)
            data = _data_of(flagged) if called in ("Parameter", "Variable") else flagged
            if data is not None and (data is not flagged or _has_a_type(flagged, tree)):
                edit = Edit(tree).change(data, lambda _: _of_floats(data, tree))
                yield Candidate(edit.patch(), f"make `{tree.code(data)}` of floats")


def _converted(flagged: cst.BaseExpression, owner: cst.BaseExpression, tree: Tree) -> Iterator[Candidate]:
    """The tensor becomes one of floats where it is made, or before the statement that lets it require grad."""
    statement = tree.statement_of(flagged)
    edit: Edit | None = None
    if isinstance(owner, cst.Call):
        edit = Edit(tree).change(owner, lambda _: _of_floats(owner, tree))
    elif isinstance(owner, Place) and statement is not None and is_alone(flagged, only_part(statement)):
        edit = converted_before(statement, owner, "float", tree)
    if edit is not None:
        yield Candidate(edit.patch(), f"make `{tree.code(owner)}` of floats")


def _data_of(call: cst.Call) -> cst.BaseExpression | None:
    named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == "data"]
    return next((one.value for one in call.args if one.keyword is None and not one.star), next(iter(named), None))


def _of_floats(data: cst.BaseExpression, tree: Tree) -> cst.CSTNode:
    """A tensor of floats: by ``dtype``, where a function of torch makes it, else by ``.float()``."""
    if isinstance(data, cst.Call) and _has_a_type(data, tree):
        return with_keyword(data, "dtype", f"{tree.torch_name(data)}.float32")
    return method_call(data, "float")


def _has_a_type(call: cst.Call, tree: Tree) -> bool:
    """Whether a call takes ``dtype``, in a module that can name a type of torch."""
    return tree.called(call) in _TYPED and tree.is_of_torch(call.func) and tree.imports_torch(call)
