"""Early pass: a loss that a loop adds up is sent backward in each iteration of that loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts import Fact, StaleGraph
from autofix.codemods.proof import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.roles import empties_gradients, uses_gradients
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class PassAfterLoop(Codemod):
    """backward is called on the sum of the losses so far, inside the loop that adds them up.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second iteration of the inner loop.

    Cause:
        A loop over tasks, steps or parts of a batch adds up a loss, and ``backward()`` stands in the loop as well. The
        second pass goes through the first part's graph again. With ``retain_graph=True`` the first part would count as
        often as there are parts after it.

    Fix:
        The backward comes out of the loop, where the sum is complete and the optimizer steps.

    When it is not what you want:
        Where memory is short, call backward on each part's own loss in the loop: gradients accumulate.

    Source:
        torch.Tensor.backward in the PyTorch documentation: gradients are accumulated in the leaves.
    """

    code = "AF114"
    name = "early-pass"
    answers = (StaleGraph,)
    rank = 9

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, StaleGraph)
        call = tree.expression(fact.failed)
        sent = tree.statement_of(call)
        loop = tree.statement(fact.loop) if fact.inside and fact.together else None
        if fact.freed != fact.failed or not isinstance(loop, (cst.For, cst.While)) or sent not in tree.body_of(loop):
            return
        if not isinstance(call, cst.Call) or call.args or not isinstance(call.func, cst.Attribute):
            return
        if not isinstance(only_part(sent), cst.Expr) or loop.orelse is not None or not tree.block_of(loop):
            return
        body = tree.body_of(loop)
        rest = [one for one in body if one is not sent]
        if len(rest) == 0 or any(uses_gradients(one, tree) or empties_gradients(one) for one in rest):
            return
        root = tree.code(call.func.value)
        made = [one for one in body[: body.index(sent)] if _gives(one, root, tree)]
        kept = tree.statement(fact.kept)
        if kept not in body or not made or not (made == [kept] or fact.repeats or _reads_total(made[-1], fact, tree)):
            return
        moved = [sent]
        value = tree.given(made[-1], root)
        anew = value is not None and root not in tree.paths_in(value)  # from a list, say, that has all losses
        if made[-1] is not kept and anew and not any(root in tree.paths_in(one) for one in rest if one is not made[-1]):
            moved.insert(0, made[-1])
        for run in (moved, [sent]) if len(moved) > 1 else ([sent],):
            edit = Edit(tree).insert_after(loop, *(tree.own_code(one) for one in run))
            for one in run:
                edit.remove(one)
            yield Candidate(
                edit.patch(), "call backward once, after the loop that adds up the losses", Keeps.PARAMETERS
            )


def _gives(statement: Statement, name: str, tree: Tree) -> bool:
    part = only_part(statement)
    adds = isinstance(part, cst.AugAssign) and tree.code(part.target) == name
    return adds or tree.given(statement, name) is not None


def _reads_total(statement: Statement, fact: StaleGraph, tree: Tree) -> bool:
    """Whether a statement computes with what the loop adds up."""
    part = only_part(statement)
    names = {fact.name.partition("[")[0], *(carrier.name.partition("[")[0] for carrier in fact.carriers)}
    return isinstance(part, cst.Assign) and bool(names & tree.paths_in(part.value))
