"""Shared graph: two backward passes over one graph with nothing between them that spoils it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from codemods.base import Candidate, Codemod
from codemods.facts import Fact, StaleGraph
from codemods.rewrite import Edit, Tree, with_keyword


class RetainShared(Codemod):
    """Two losses share a graph and each is sent backward on its own.

    Error:
        RuntimeError: Trying to backward through the graph a second time, at the second loss.

    Cause:
        Both losses are computed from one intermediate value. The first ``backward()`` frees that value's graph, and the
        second one needs it still.

    Fix:
        The first pass keeps the graph, ``backward(retain_graph=True)``, and the last one frees it. This is the one
        place where that flag is right: both passes belong to the same iteration and no optimizer steps between them, so
        nothing is overwritten and nothing accumulates.

    When it is not what you want:
        ``(first + second).backward()`` gives the same gradients in one pass and half the time.

    Source:
        torch.autograd.backward in the PyTorch documentation, ``retain_graph``.
    """

    code = "AF105"
    name = "shared-graph"
    answers = (StaleGraph,)
    rank = 40

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, StaleGraph)
        if fact.loop is not None or fact.freed == fact.failed:
            return
        if fact.used == fact.failed:
            return  # the same loss sent backward twice: to keep its graph would double the gradient
        freed = tree.expression(fact.freed)
        if isinstance(freed, cst.Call):
            edit = Edit(tree).change(freed, lambda node: with_keyword(node, "retain_graph", "True"))
            yield Candidate(edit.program(), "the first pass keeps the graph that the second still needs")
