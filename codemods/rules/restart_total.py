"""Running total: what was summed up and sent backward is added to, and sent backward again."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, children
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_EMPTY = frozenset(("zeros", "zeros_like", "tensor", "list", "dict", "defaultdict", "deque"))
_GROWING = frozenset(("append", "extend", "add", "insert", "update"))


class RestartTotal(Codemod):
    """A total is not reset after its backward, before the next losses are added to it.

    Error:
        RuntimeError: Trying to backward through the graph a second time; with ``retain_graph=True``, where a step of
        SAM's comes between: modified by an inplace operation.

    Cause:
        Losses are summed in a loop, backward is called on the sum, and in the same iteration a second loop adds others
        to the same name. The second backward goes through the first one's losses again.

    Fix:
        The statement that begins the total, ``loss = 0``, stands before the second loop as well.

    When it is not what you want:
        Where the second backward is meant to count the first losses once more, call backward once, on the sum of all
        losses.

    Source:
        torch.Tensor.backward in the PyTorch documentation: a backward pass frees the graph that it went through.
    """

    code = "AF112"
    name = "running-total"
    answers = (StaleGraph, Overwritten)
    rank = 19

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        first = fact.freed if isinstance(fact, StaleGraph) else fact.retained
        sent = tree.statement_of(tree.expression(first))
        failed = tree.statement_of(tree.expression(fact.failed))
        if fact.loop is not None or sent is None or failed is None:
            return
        block = tree.block_of(sent)
        if sent not in block:
            return
        before, after = block[: block.index(sent)], block[block.index(sent) + 1 :]
        for name in dict.fromkeys((fact.name, *(carrier.name for carrier in fact.carriers))):
            start = next((one for one in reversed(before) if _begins(one, name, tree)), None)
            again = next((one for one in after if _mentions(one, name, tree)), None)
            if start is None or again is None or not _grows(again, name, tree):
                continue
            beginning = tree.given(start, name)
            assert beginning is not None
            patch = Edit(tree).insert_before(again, f"{name} = {tree.code(beginning)}").patch()
            yield Candidate(patch, f"reset `{name}` after the backward", Keeps.ONCE, cause=fact.used)


def _begins(statement: Statement, name: str, tree: Tree) -> bool:
    """Whether a statement gives *name* the value from which a sum or a collection begins."""
    value = tree.given(statement, name)
    if isinstance(value, cst.BinaryOperation):  # `[0.0] * len(tasks)`
        value = value.left
    if isinstance(value, cst.Call):
        return tree.called(value) in _EMPTY
    return isinstance(value, (cst.Integer, cst.Float, cst.List, cst.Dict))


def _mentions(statement: Statement, name: str, tree: Tree) -> bool:
    return tree.count_paths(statement, {name}) > 0


def _grows(statement: Statement, name: str, tree: Tree) -> bool:
    """Whether the first that a statement does with *name* is to add something to it."""
    pending: list[cst.CSTNode] = [statement]
    while pending:
        node = pending.pop(0)
        if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
            if tree.code(node.target) == name:
                return True
        elif isinstance(node, cst.Assign) and [tree.code(one.target) for one in node.targets] == [name]:
            return tree.count_paths(node.value, {name}) == 1
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _GROWING:
            if tree.code(node.func.value) == name:
                return True
        pending.extend(children(node))
    return False
