"""Optimised data: an optimizer is given a tensor that does not require grad."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, is_item, requires_grad
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class FlagOptimised(Codemod):
    """An optimizer is given a tensor that does not require grad.

    Error:
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn.

    Cause:
        Style transfer, feature inversion and adversarial attacks change an image rather than a network. The network is
        frozen, and the image was never made to require grad: ``optimizer = LBFGS([image])`` accepts it without an
        error.

    Fix:
        The tensor requires grad from where it is made: ``image = content.clone().requires_grad_()``; or from where the
        optimizer gets it.

    When it is not what you want:
        Where the network's weights are to be trained rather than its input, give those to the optimizer.

    Source:
        Gatys et al., "Image Style Transfer Using Convolutional Neural Networks"; torch.Tensor.requires_grad_ in the
        PyTorch documentation.
    """

    code = "AF404"
    name = "optimised-data"
    answers = (CutGraph,)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, CutGraph)
        if not fact.drops or any(drop.how != "unflagged" for drop in fact.drops):
            return
        places = [tree.expression(drop.span) for drop in fact.drops]
        names = [
            place
            for place in places
            if isinstance(place, (cst.Name, cst.Attribute)) or (place is not None and is_item(place))
        ]
        if len(names) < len(places) or any(not _is_listed(name, tree) for name in names):
            return
        remedy = f"let {', '.join(f'`{tree.code(name)}`' for name in names)} require grad"
        made = [_made(name, tree) for name in names]
        if all(made):
            edit = Edit(tree)
            for value in made:
                if value is not None:
                    edit.change(value, requires_grad)
            yield Candidate(edit.patch(), remedy)
        edit = Edit(tree)
        for name in names:
            edit.change(name, requires_grad)
        yield Candidate(edit.patch(), remedy)


def _is_listed(name: cst.BaseExpression, tree: Tree) -> bool:
    """Whether the name stands for one tensor of those given to the optimizer: in a list, or a tuple, of names."""
    return isinstance(tree.parent_of(name), cst.Element)


def _made(name: cst.BaseExpression, tree: Tree) -> cst.BaseExpression | None:
    """The call whose result is assigned to *name* last before the optimizer is made, in the same block; else None."""
    statement: Statement | None = tree.statement_of(name)
    block = tree.block_of(statement) if statement is not None else []
    for earlier in reversed(block[: block.index(statement)] if statement in block else []):
        if not isinstance(earlier, cst.SimpleStatementLine):
            if tree.code(name) in tree.paths_in(earlier):
                return None
            continue
        value = tree.given(earlier, tree.code(name))
        if value is not None:
            return value if isinstance(value, cst.Call) else None
    return None
