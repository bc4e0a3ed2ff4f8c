"""Copied graph: a deep copy is made of something that holds a tensor with a graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.kept import GraphCopied
from autofix.codemods.facts.parts import Form
from autofix.codemods.rewriting.detaching import detached, detached_where_stored
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class DetachCopied(Codemod):
    """A deep copy is made of a tensor with a graph, or of a model that keeps one.

    Error:
        RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the
        moment.

    Cause:
        A forward pass stores an intermediate result on the module, ``self.features = x``, and with it its graph. From
        then on ``copy.deepcopy(model)`` fails: a graph cannot be copied. So does a deep copy of the result itself.

    Fix:
        What is stored, or copied, is detached. Where a backward needs what is stored, it is left alone.

    When it is not what you want:
        Where a loss is computed from the attribute: return it from ``forward`` instead, or copy the model's
        ``state_dict()``.

    Source:
        torch.Tensor.__deepcopy__ in PyTorch's ``_tensor.py``; https://github.com/pytorch/pytorch/issues/54580.
    """

    code = "AF511"
    name = "copied-graph"
    answers = (GraphCopied,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, GraphCopied)
        value = tree.expression(fact.value)
        if value is not None and fact.form is not Form.OTHER:
            yield Candidate(detached(tree, value, fact.form), f"copy `{tree.code(value)}` without the graph")
        stored = detached_where_stored(tree, fact.carriers)
        if stored is not None:
            yield Candidate(stored, f"store `{fact.name}` without the graph")
        yield from _dropped_before(fact, tree)


def _dropped_before(fact: GraphCopied, tree: Tree) -> Iterator[Candidate]:
    """The attribute is detached right before the copy: where its own iteration still needs the graph until then."""
    call = tree.expression(fact.call)
    statement = tree.statement_of(call)
    if not isinstance(call, cst.Call) or not call.args or not fact.path or statement is None:
        return
    owner = call.args[0].value
    if isinstance(owner, (cst.Name, cst.Attribute)) and tree.block_of(statement):
        place = tree.code(owner) + fact.path
        patch = Edit(tree).insert_before(statement, f"{place} = {place}.detach()").patch()
        yield Candidate(patch, f"detach `{place}` before the model is copied")
