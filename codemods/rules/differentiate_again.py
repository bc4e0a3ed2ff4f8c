"""Second derivatives: the graph of one gradient is differentiated several times."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import with_keyword
from autofix.codemods.rewriting.roles import keeps_graph
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class DifferentiateAgain(Codemod):
    """The graph of a gradient is missing, or is differentiated more than once.

    Error:
        RuntimeError: Trying to backward through the graph a second time, at the second call of ``autograd.grad``, or at
        the backward of a loss that is made of a gradient.

    Cause:
        Products of the Hessian with several vectors (power iteration, conjugate gradients, a diagonal by random signs)
        all come from one gradient that has a graph. The first product frees that graph. Or the residual of a
        differential equation is made of derivatives that were taken without ``create_graph=True``: they are constants,
        and the graph that they come from is freed.

    Fix:
        ``autograd.grad(product, params, retain_graph=True)``: the parameters stay as they are between the products, so
        one graph serves all products, and is released with the gradient when the function returns. A derivative that is
        part of a loss is taken with ``create_graph=True``, so that the loss trains what it depends on.

    When it is not what you want:
        Where an optimizer steps between the products, each needs a gradient of its own.

    Source:
        torch.autograd.grad in the PyTorch documentation: ``retain_graph`` and ``create_graph``.
    """

    code = "AF116"
    name = "second-derivative"
    answers = (StaleGraph,)
    rank = 4

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, StaleGraph)
        call = tree.expression(fact.freed)
        if not isinstance(call, cst.Call):
            return
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if given & {"retain_graph", "create_graph"}:
            return
        if fact.differentiated:
            edit = Edit(tree).change(call, lambda node: with_keyword(node, "create_graph", "True"))
            yield Candidate(edit.patch(), "give the gradient a graph of its own", cause=fact.freed)
        if tree.called(call) != "grad" or (fact.loop is not None and fact.inside):
            return
        calls = (one for module in tree.modules() for one in tree.every(cst.Call, module))
        if not any(keeps_graph(one, "create_graph") for one in calls):
            return
        edit = Edit(tree).change(call, lambda node: with_keyword(node, "retain_graph", "True"))
        yield Candidate(edit.patch(), "keep the graph of the gradient for the next product")
