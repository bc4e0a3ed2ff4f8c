"""Unrecorded forward: the computation of a loss stands where autograd does not record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from autofix.codemods.autograd import groups
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.evaluation import condition_of, is_training_elsewhere, sent_where_recorded
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.cause import edited_by


class RecordForward(Codemod):
    """backward is called on a loss that was computed under no_grad.

    Error:
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn.

    Cause:
        The forward pass stands in a ``with torch.no_grad():`` block, in a function with that decorator, or comes after
        a ``torch.set_grad_enabled(False)`` that is never undone. Autograd records nothing there.

    Fix:
        The statements that compute what the parameters learn from move out of the block; the others stay. A decorator
        is removed. A ``set_grad_enabled(False)`` becomes a ``with torch.no_grad():`` around the statements that it was
        meant for, or is removed where there are none. Where an evaluation runs the training's code,
        ``torch.set_grad_enabled(phase == "train")``, the pass and the step go under the condition instead: a recorded
        forward pass would train on the validation data.

    When it is not what you want:
        Where the parameters in the block are not to be trained, take them from the optimizer.

    Source:
        "Locally disabling gradient computation" in the PyTorch documentation.
    """

    code = "AF402"
    name = "unrecorded-forward"
    answers = (CutGraph,)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, CutGraph)
        if fact.guard is None or (fact.silent and not fact.beside) or any(one.how != "no_grad" for one in fact.drops):
            return
        statement, sent = tree.statement(fact.guard), tree.expression(fact.failed)
        if condition_of(statement, tree) or is_training_elsewhere(statement, sent, tree):
            for patch, test in sent_where_recorded(statement, sent, tree):
                yield Candidate(patch, f"call backward only if `{test}`", Keeps.RECORDED)
        elif isinstance(statement, cst.With):
            yield from _out_of_block(statement, tree)
        elif isinstance(statement, cst.FunctionDef):
            yield from _without_decorator(statement, tree)
        elif isinstance(statement, cst.SimpleStatementLine):
            yield from _without_switch(statement, fact, tree)

    def cause(self, fact: Fact, tree: Tree, candidate: Candidate) -> Span:
        """The place that switches recording off, wherever it is left again; of a decorated function, the decorator."""
        assert isinstance(fact, CutGraph)
        if fact.guard is None or fact.guard.line - 1 in edited_by(candidate.patch).changed:
            return super().cause(fact, tree, candidate)
        return fact.guard


def _out_of_block(block: cst.With, tree: Tree) -> Iterator[Candidate]:
    """The statements from some place on come out of the block: as few as will do."""
    modes = [item for item in block.items if _is_mode(item, tree)]
    if not modes:
        return
    if len(block.items) > 1:
        rest = [item for item in block.items if item not in modes]
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            edit = Edit(tree).change(block, lambda node: node.with_changes(items=rest))
            yield Candidate(edit.patch(), "let autograd record the forward pass")
        return
    if isinstance(block.body, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(block.body.body, trailing_whitespace=block.body.trailing_whitespace)
        yield _split(block, [], [line], tree)
        return
    body = tree.body_of(block)
    if isinstance(block.body, cst.IndentedBlock) and any(line.comment for line in block.body.footer):
        return
    for start in reversed(range(len(body))):
        yield _split(block, body[:start], body[start:], tree)


def _split(block: cst.With, stay: Sequence[Statement], leave: Sequence[Statement], tree: Tree) -> Candidate:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.With)
        if not stay:
            first = leave[0].with_changes(leading_lines=[*node.leading_lines, *leave[0].leading_lines])
            return cst.FlattenSentinel([first, *leave[1:]])  # type: ignore[return-value]
        return cst.FlattenSentinel([node.with_changes(body=node.body.with_changes(body=stay)), *leave])  # type: ignore[return-value]

    return Candidate(Edit(tree).change(block, change).patch(), "let autograd record the forward pass")


def _is_mode(item: cst.WithItem, tree: Tree) -> bool:
    call = item.item
    return isinstance(call, cst.Call) and tree.called(call) in groups.GRAD_MODES


def _without_decorator(function: cst.FunctionDef, tree: Tree) -> Iterator[Candidate]:
    for decorator in function.decorators:
        name = tree.code(decorator.decorator).partition("(")[0].rpartition(".")[2]
        if name in groups.GRAD_MODES:
            rest = [one for one in function.decorators if one is not decorator]
            lines = decorator.leading_lines if decorator is function.decorators[0] else ()

            def change(node: cst.CSTNode, rest: list[cst.Decorator] = rest, lines: object = lines) -> cst.CSTNode:
                found = node.with_changes(decorators=rest)
                return found.with_changes(leading_lines=lines) if lines and not rest else found

            patch = Edit(tree).change(function, change).patch()
            yield Candidate(patch, f"let autograd record `{function.name.value}`")


def _without_switch(statement: cst.SimpleStatementLine, fact: CutGraph, tree: Tree) -> Iterator[Candidate]:
    """``set_grad_enabled(False)`` and what follows it in its function go into a block of their own; else it goes."""
    block = tree.block_of(statement)
    failed = tree.expression(fact.failed)
    if not block or failed is None:
        return
    home, owner = tree.function_of(statement), tree.class_of(statement)
    if isinstance(home, cst.FunctionDef) and home.name.value == "__enter__" and owner is not None:
        for method in tree.body_of(owner):
            if isinstance(method, cst.FunctionDef) and method.name.value == "__exit__" and tree.body_of(method):
                code = f"{tree.torch_name(statement)}.set_grad_enabled(True)"
                patch = Edit(tree).insert_before(tree.body_of(method)[0], code).patch()
                yield Candidate(patch, "switch recording on again after the block")
        return
    following = block[block.index(statement) + 1 :]
    elsewhere = tree.function_of(statement) is not tree.function_of(failed)
    if only_part(statement) is None:
        return  # `;` parts several
    if elsewhere and following and not isinstance(tree.function_of(statement), cst.Module):
        module = tree.module_of(statement)
        header = f"with {tree.torch_name(statement)}.no_grad():\n{module.default_indent}pass\n"
        guard = cst.parse_statement(header, config=module.config_for_parsing)
        assert isinstance(guard, cst.With)
        filled = guard.with_changes(leading_lines=statement.leading_lines, body=guard.body.with_changes(body=following))
        edit = Edit(tree).change(statement, lambda _: filled)
        for part in following:
            edit.remove(part)
        yield Candidate(edit.patch(), "switch recording off for this block only")
    if len(block) > 1:
        yield Candidate(Edit(tree).remove(statement).patch(), "leave recording on")
