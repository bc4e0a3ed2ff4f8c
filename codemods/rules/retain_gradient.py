"""Unretained gradients: the gradient of a result is used, and no backward keeps it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import NoGradient, UpdateLost, UpdateRefused
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import only_part, pairs_of
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class RetainGradient(Codemod):
    """The gradient of the result of an operation is used, which no backward keeps.

    Error:
        AttributeError: 'NoneType' object has no attribute 'abs'. Or: TypeError: unsupported operand type(s) for *:
        'NoneType' and 'Tensor'.

    Cause:
        A backward leaves gradients in leaves only. Those of the results on its way, such as the activations of a layer
        for a heat map, are freed as soon as they have been passed on, so that ``activations.grad`` is None.

    Fix:
        ``activations.retain_grad()`` where the value is made: its gradient is kept.

    When it is not what you want:
        Where the tensor is meant to be trained, make it a leaf. Where only its gradient counts, ask for that by
        ``torch.autograd.grad(loss, activations)``.

    Source:
        torch.Tensor.retain_grad and torch.Tensor.grad in the PyTorch documentation.
    """

    code = "AF442"
    name = "unretained-gradient"
    answers = (NoGradient,)
    rank = 12

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, NoGradient)
        if isinstance(fact, (UpdateLost, UpdateRefused)):
            return
        made = tree.expression(fact.kept or fact.made)
        statement = tree.statement_of(made) if made is not None else None
        part = only_part(statement)
        if statement is None or not tree.block_of(statement) or not isinstance(part, cst.Assign):
            return
        if any(isinstance(one, cst.Attribute) and one.attr.value == "grad" for one in tree.inside(part.value)):
            return  # an update: its result is to be trained
        pairs = pairs_of(part.targets[0].target, part.value)
        target = next((target for target, value in pairs if value is made), None)
        if isinstance(target, (cst.Name, cst.Attribute, cst.Subscript)) and len(part.targets) == 1:
            name, indent = tree.code(target), tree.module_of(statement).default_indent
            keeping = f"{name}.retain_grad()"
            for code in (keeping, f"if {name}.requires_grad:\n{indent}{keeping}\n"):  # it is refused under no_grad
                edit = Edit(tree).insert_after(statement, code)
                yield Candidate(edit.patch(), f"keep the gradient of `{name}`", Keeps.PARAMETERS)
