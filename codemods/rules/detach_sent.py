"""Sent graph: a tensor is put on a queue or a pipe to another process together with its graph."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.kept import GraphSent
from autofix.codemods.facts.parts import Form
from autofix.codemods.rewriting.detaching import detached, detached_where_stored
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class DetachSent(Codemod):
    """A tensor with a graph is sent to another process.

    Error:
        RuntimeError: Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not
        support crossing process boundaries. From the workers of a loader: stack(): functions with out=... arguments
        don't support automatic differentiation, but one of the arguments requires grad.

    Cause:
        A graph belongs to the process that recorded it. A queue or a pipe of ``torch.multiprocessing`` sends the data
        of a tensor, and refuses to pretend that the graph came along. So does a ``DataLoader`` with ``num_workers``,
        where its dataset computes features with a network, or holds them.

    Fix:
        The tensor is detached before it is sent.

    When it is not what you want:
        Where gradients are to flow from one process into another, send them back by hand, or use
        ``torch.distributed.autograd``.

    Source:
        torch.multiprocessing in the PyTorch documentation; https://github.com/pytorch/pytorch/issues/36457.
    """

    code = "AF521"
    name = "sent-graph"
    answers = (GraphSent,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, GraphSent)
        value = tree.expression(fact.value)
        if value is not None and fact.form is not Form.OTHER:
            yield Candidate(detached(tree, value, fact.form), f"send `{tree.code(value)}` without the graph")
        stored = detached_where_stored(tree, fact.carriers)
        if stored is not None:
            yield Candidate(stored, "store the tensors that are sent without the graph")
