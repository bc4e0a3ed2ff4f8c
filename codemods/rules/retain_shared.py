"""Shared graph: two backward passes over one graph with nothing between them that spoils it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part, with_keyword
from autofix.codemods.rewriting.roles import empties_gradients, reads_gradients, steps, uses_gradients
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class RetainShared(Codemod):
    """Two losses share a graph and backward is called on each of them.

    Error:
        RuntimeError: Trying to backward through the graph a second time, at the second loss.

    Cause:
        Both losses are computed from one intermediate value. The first ``backward()`` frees that value's graph, and the
        second one needs it still.

    Fix:
        One backward call for the sum, ``(first + second).backward()``, where one step uses both gradients and nothing
        looks at them in between; after the loop where backward is called in each of its iterations, and in the call
        where a method of the program calls it. Elsewhere the first backward keeps the graph,
        ``backward(retain_graph=True)``, and the last one frees it; in a loop over the losses that reads the gradients
        of each by themselves, as gradient surgery does, or makes a step for each, every backward keeps it. This is the
        one place where that flag is right: both calls belong to the same iteration and no step between them changes
        what the graph has saved, so nothing is overwritten and nothing accumulates.

    When it is not what you want:
        Where the gradients of each loss are to be looked at by themselves, keep the graph instead of adding.

    Source:
        torch.autograd.backward in the PyTorch documentation: gradients are accumulated, and ``retain_graph``.
    """

    code = "AF105"
    name = "shared-graph"
    answers = (StaleGraph,)
    rank = 40

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, StaleGraph)
        if fact.together and fact.loop is not None:
            yield from _sum_of_all(fact, tree)
            yield from after_the_loop(fact, tree)
        apart = _each_by_itself(fact, tree)
        if fact.loop is not None and (fact.inside or not fact.together) and not apart:
            return  # one pass in each iteration of training: the graph would be kept for ever
        if fact.freed == fact.failed and fact.loop is None:
            if fact.together:
                yield from one_call(fact, tree)
            return
        if fact.used == fact.failed:
            return  # the same loss sent backward twice: to keep its graph would double the gradient
        if fact.together and fact.loop is None:
            yield from _one_pass(fact, tree)
        freed = tree.expression(fact.freed)
        if isinstance(freed, cst.Call) and not _trains_by_itself(fact, tree):
            edit = Edit(tree).change(freed, lambda node: with_keyword(node, "retain_graph", "True"))
            yield Candidate(edit.patch(), "keep the graph in the first backward for the second")


def _one_pass(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``first.backward()`` goes, and ``second.backward()`` becomes ``(first + second).backward()``."""
    calls = [tree.expression(span) for span in (fact.freed, fact.failed)]
    first, second = (tree.statement_of(call) for call in calls)
    losses = _losses(calls[0], calls[1], tree)
    if first is None or second is None or losses is None:
        return
    block = tree.block_of(first)
    if first not in block or second not in block:
        return
    if not all(isinstance(only_part(one), cst.Expr) for one in (first, second)):
        return
    between = block[block.index(first) + 1 : block.index(second)]
    if _are_looked_at([one for one in between if not _only_sends(one, tree)], tree):
        return
    total = " + ".join(tree.code(_bare(loss)).strip() for loss in losses)
    is_argument = isinstance(tree.parent_of(losses[1]), cst.Arg)
    added = cst.parse_expression(total if is_argument else f"({total})")
    comments = [line for line in first.leading_lines if line.comment is not None]
    edit = Edit(tree).remove(first).change(losses[1], lambda _: added)
    edit.change(second, lambda node: node.with_changes(leading_lines=[*comments, *node.leading_lines]))  # type: ignore[attr-defined]
    yield Candidate(edit.patch(), f"call backward once, on `{total}`", Keeps.ONE_PASS)


def _only_sends(statement: Statement, tree: Tree) -> bool:
    """Whether a statement is a pass like ``third.backward()``: gradients add up in whatever order they come."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    return isinstance(call, cst.Call) and tree.called(call) in _SENDS


_SENDS = ("backward", "manual_backward")
Losses = tuple[cst.BaseExpression, cst.BaseExpression]


def _losses(first: cst.CSTNode | None, second: cst.CSTNode | None, tree: Tree) -> Losses | None:
    """The losses of two passes whose sum is sent back like each of them.

    ``loss.backward()`` sends one, ``scaler.scale(loss).backward()``, and ``accelerator.backward(loss)``.
    """
    if not isinstance(first, cst.Call) or not isinstance(second, cst.Call):
        return None
    given = _arguments(first, second)
    if given is not None:
        return given if tree.called(first) in _SENDS else None
    one, other = _sent(first), _sent(second)
    if one is None or other is None:
        return None
    is_scaled = isinstance(one, cst.Call) and isinstance(other, cst.Call) and tree.called(one) == "scale"
    return (_arguments(one, other) if is_scaled else None) or (one, other)


def _arguments(first: cst.BaseExpression, second: cst.BaseExpression) -> Losses | None:
    """The arguments of two calls of one function, or method, that have no further ones."""
    calls = [one for one in (first, second) if isinstance(one, cst.Call) and len(one.args) == 1]
    if len(calls) < 2 or not calls[0].func.deep_equals(calls[1].func):
        return None
    plain = all(one.args[0].keyword is None and not one.args[0].star for one in calls)
    return (calls[0].args[0].value, calls[1].args[0].value) if plain else None


def one_call(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``send(first)`` goes, and ``send(second)`` becomes ``send(first + second)``: a function of the program."""
    calls = [tree.expression(span) for span in (fact.outer.passes if fact.outer and fact.outer.passes else ())]
    statements = [tree.statement_of(call) for call in calls]
    if len(calls) != 2 or statements[0] is None or statements[1] not in tree.block_of(statements[0]):
        return
    first, second = calls
    if not isinstance(first, cst.Call) or not isinstance(second, cst.Call) or len(first.args) != len(second.args):
        return
    alone = all(isinstance(part := only_part(one), cst.Expr) and part.value in calls for one in statements)
    pairs = list(zip(first.args, second.args, strict=True))
    differ = [(one, other) for one, other in pairs if tree.code(one) != tree.code(other)]
    block = tree.block_of(statements[0])
    if not alone or not first.func.deep_equals(second.func) or len(differ) != 1 or not _sends_sums(fact, tree):
        return
    if _are_looked_at(block[block.index(statements[0]) + 1 : block.index(statements[1])], tree):
        return
    total = " + ".join(tree.code(_bare(argument.value)).strip() for argument in differ[0])
    edit = Edit(tree).remove(statements[0]).change(differ[0][1].value, lambda _: cst.parse_expression(total))
    yield Candidate(edit.patch(), f"call backward once, on `{total}`", Keeps.ONE_PASS)


def _sends_sums(fact: StaleGraph, tree: Tree) -> bool:
    """Whether the function around a pass does for a sum of losses what it does for each: it weighs the loss at most."""
    loss = _sent(tree.expression(fact.failed))
    function = tree.function_of(loss) if loss is not None else None
    if loss is None or not isinstance(function, cst.FunctionDef):
        return False
    weighed = isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, (cst.Multiply, cst.Divide))
    sent = loss.left if isinstance(loss, cst.BinaryOperation) and weighed else loss
    if not isinstance(sent, cst.Name):
        return False
    checks = [one for one in tree.statements_in(function.body) if _only_checks(one)]
    mentions, checked = (
        sum(name.value == sent.value for node in nodes for name in tree.names_in(node))
        for nodes in ((function.body,), checks)
    )
    return mentions - checked == 1 and any(name.value == sent.value for name in tree.names_in(function.params))


def _only_checks(statement: Statement) -> bool:
    """``if not math.isfinite(loss.item()): raise ...``: what holds for each loss is asked of their sum."""
    if isinstance(statement, cst.If):
        body = statement.body.body
        last = body[-1].body if body and isinstance(body[-1], (cst.SimpleStatementLine)) else ()
        return statement.orelse is None and len(body) == 1 and any(isinstance(part, cst.Raise) for part in last)
    return isinstance(only_part(statement), cst.Assert)


def _sum_of_all(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``for loss in losses: loss.backward()`` becomes ``sum(loss for loss in losses).backward()``."""
    loop = tree.statement(fact.loop)
    call = tree.expression(fact.failed)
    loss = _sent(call)
    if not isinstance(loop, cst.For) or loop.orelse is not None or loss is None or not tree.block_of(loop):
        return
    if tree.body_of(loop) != [tree.statement_of(call)]:
        return
    bare = loss.with_changes(lpar=[], rpar=[]) if isinstance(loss, cst.BinaryOperation) else loss
    target, source, item = tree.code(loop.target), tree.code(loop.iter), tree.code(bare)
    total = f"sum({source})" if item == target else f"sum({item} for {target} in {source})"
    line = cst.parse_statement(f"{total}.backward()")
    headed = line.with_changes(leading_lines=loop.leading_lines)
    edit = Edit(tree).change(loop, lambda _: headed).stands_for(headed, tree.statement_of(call) or loop)
    yield Candidate(edit.patch(), "call backward once, on the sum", Keeps.PARAMETERS)


def after_the_loop(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``loss.backward()`` in a loop over parts of one graph becomes ``total = total + loss``, and one pass after it.

    So where each iteration goes on with the graph of the one before, and the step comes after them all.
    """
    loop = tree.statement(fact.loop)
    call = tree.expression(fact.failed)
    loss, sent = _sent(call), tree.statement_of(call)
    if fact.freed != fact.failed or loss is None or not isinstance(loop, (cst.For, cst.While)):
        return
    body, part = tree.body_of(loop), only_part(sent)
    whole = sent
    while whole not in body:  # `if step > 0: loss.backward()`
        whole = tree.statement_of(tree.parent_of(whole)) if whole is not None else None
        if not isinstance(whole, cst.If):
            return
    if not isinstance(part, cst.Expr) or not tree.block_of(loop) or loop.orelse is not None:
        return
    simple = [one for one in tree.statements_in(loop.body) if only_part(one) is not None and one is not sent]
    if fact.repeats or _are_looked_at(simple, tree):
        return  # a sum of the sums so far would count the first part as often as there are parts
    total = tree.fresh_name("total", "total_loss", "summed_loss")
    sends = f"{total}.backward()"
    if whole is not sent:  # perhaps no iteration has sent anything
        sends = f"if not isinstance({total}, int):\n    {sends}"
    edit = Edit(tree).insert_before(loop, f"{total} = 0").insert_after(loop, sends)
    added = cst.parse_expression(f"{total} + {tree.code(_bare(loss)).strip()}")
    given = cst.Assign(targets=[cst.AssignTarget(cst.Name(total))], value=added)
    edit.change(part, lambda _: given)
    yield Candidate(edit.patch(), "call backward once, on the sum, after the loop", Keeps.ONE_PASS)


def _trains_by_itself(fact: StaleGraph, tree: Tree) -> bool:
    """Whether the first pass stands in a loop of its own that makes steps: it would keep the graph in each of them."""
    freed, failed = tree.expression(fact.freed), tree.expression(fact.failed)
    if freed is None or failed is None or freed is failed:
        return False
    around = set(tree.loops_around(failed))
    return any(steps(loop, tree) for loop in tree.loops_around(freed) if loop not in around)


def _each_by_itself(fact: StaleGraph, tree: Tree) -> bool:
    """Whether a loop over losses of one graph sends each by itself and uses its gradients."""
    loop, call = tree.statement(fact.loop), tree.expression(fact.failed)
    loss = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    if not isinstance(loop, cst.For) or fact.inside or fact.freed != fact.failed or loss is None:
        return False
    if not tree.paths_in(loop.target) & tree.paths_in(loss):
        return False
    sent = tree.statement_of(call)
    others = [one for one in tree.statements_in(loop) if only_part(one) is not None and one is not sent]
    if any(steps(one, tree) for one in others):
        return isinstance(loss, (cst.Name, cst.Subscript)) and _goes_through_a_container(loop, tree)
    return any(reads_gradients(one, tree) for one in others)


def _goes_through_a_container(loop: cst.For, tree: Tree) -> bool:
    """Whether a loop inside of another one, or of a function, goes through what was computed before it."""
    plain = {"items", "values", "keys", "enumerate", "zip", "range", "len", "list", "reversed"}
    made = [tree.called(call) for call in calls_in(loop.iter)]
    return all(name in plain for name in made) and any(
        isinstance(around, (cst.For, cst.While, cst.FunctionDef)) for around in tree.enclosing(loop)
    )


def _are_looked_at(between: list[Statement], tree: Tree) -> bool:
    """Whether one of the statements between two passes has a use for the gradients as they are there."""
    return any(uses_gradients(one, tree) or empties_gradients(one) for one in between)


def _sent(call: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """``loss`` in ``loss.backward()``, where the call has no arguments."""
    plain = isinstance(call, cst.Call) and not call.args and isinstance(call.func, cst.Attribute)
    return call.func.value if plain else None  # type: ignore[union-attr]


def _bare(loss: cst.BaseExpression) -> cst.BaseExpression:
    """A sum, or a product, without its parentheses."""
    is_sum = isinstance(loss, cst.BinaryOperation) and isinstance(
        loss.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
    )
    return loss.with_changes(lpar=[], rpar=[]) if is_sum else loss
