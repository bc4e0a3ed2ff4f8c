"""Second pass: one loss is sent backward twice, and nothing happens in between."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Carrier
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting import unsent
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
from autofix.codemods.rewriting.roles import reads_gradients
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class DropSecondPass(Codemod):
    """backward is called twice on the same loss.

    Error:
        RuntimeError: Trying to backward through the graph a second time, at the second ``loss.backward()``.

    Cause:
        A line was copied, or a helper already does what its caller does again. No optimizer steps between the two
        passes, so the second one could only add the same gradient once more. Or the loss of the first pass is a term of
        the loss of the second.

    Fix:
        The second call is removed; where one loss is a term of the other, the call on the term is removed. Where
        another loss was computed since the first call, and nothing else uses it, the second call is made on that one.

    When it is not what you want:
        Where twice the gradient is meant, multiply the loss by two.

    Source:
        torch.Tensor.backward in the PyTorch documentation: gradients are accumulated in the leaves.
    """

    code = "AF107"
    name = "second-pass"
    answers = (StaleGraph, Overwritten)
    rank = 4
    corrects_names = True

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        meant = unsent.meant(fact, tree)
        if meant is not None:
            sent, other = meant
            remedy = f"call backward on `{tree.code(other)}`, which nothing else uses"
            patch = Edit(tree).change(sent, lambda _: other.deep_clone()).patch()
            yield Candidate(patch, remedy, Keeps.MEANT, fact.failed)
        elif isinstance(fact, StaleGraph):
            yield from _of_one_loss(fact, tree)


def _of_one_loss(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """One of the two calls goes."""
    yield from _term_by_itself(fact, tree)
    spans = fact.freed, fact.failed
    scaled = _scaled_beside_itself(fact, tree)
    if fact.loop is not None or (fact.used != fact.failed and not _is_copied(fact, tree) and scaled is None):
        return
    if fact.freed == fact.failed:
        if fact.outer is None or fact.outer.passes is None:
            return
        spans = fact.outer.passes
    first, second = (tree.statement_of(tree.expression(span)) for span in spans)
    if first is None or second is None or first is second or not _between(first, second, tree):
        return
    # A helper is asked for its result: that it also runs a pass is what nobody expects of it.
    inner = fact.freed == fact.failed and tree.function_of(first) is not tree.function_of(second)
    for statement in (first, second) if inner or scaled is second else (second, first):
        if isinstance(only_part(statement), cst.Expr) and len(tree.block_of(statement)) > 1:
            yield Candidate(Edit(tree).remove(statement).patch(), "call backward once on the loss", Keeps.ONE_PASS)


def _is_copied(fact: StaleGraph, tree: Tree) -> bool:
    """Whether one line stands there twice, which computes what it sends: ``loss.mean().backward()``."""
    sent = [tree.expression(span) for span in (fact.freed, fact.failed)]
    return sent[0] is not sent[1] and sent[0] is not None and sent[1] is not None and sent[0].deep_equals(sent[1])


def _scaled_beside_itself(fact: StaleGraph, tree: Tree) -> Statement | None:
    """The statement ``scaler.scale(loss).backward()`` beside ``loss.backward()``, which was there before the scaler."""
    sent = [tree.expression(span) for span in (fact.freed, fact.failed)]
    for call, other in (sent, sent[::-1]):
        match call, other:
            case (
                cst.Call(cst.Attribute(cst.Call(cst.Attribute(attr=cst.Name("scale")), [argument]))),
                cst.Call(cst.Attribute(value)),
            ) if argument.value.deep_equals(value):
                return tree.statement_of(call)
    return None


def _term_by_itself(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``first.backward()`` goes where ``(first + second).backward()`` follows: the sum has its gradient.

    So it does in a loop that adds the losses up, ``total = total + loss``, with ``total.backward()`` behind it.
    """
    call = tree.expression(fact.freed)
    statement, failed = tree.statement_of(call), tree.statement_of(tree.expression(fact.failed))
    if fact.loop is not None or fact.stepped or not fact.total or statement is None or failed is None:
        return
    run = _run(statement, failed, fact, tree)
    alone = isinstance(only_part(statement), cst.Expr)
    if alone and run is not None and not any(reads_gradients(one, tree) for one in run):
        patch = Edit(tree).remove(statement).patch()
        yield Candidate(
            patch, f"call backward once, on the sum that contains `{fact.name}`", Keeps.ONE_PASS, fact.freed
        )


def _run(first: Statement, second: Statement, fact: StaleGraph, tree: Tree) -> list[Statement] | None:
    """The statements that run between two passes; None where the sum may not have a term for each of them.

    The first pass may stand in a loop before the second one, where each iteration adds its loss.
    """
    block, outer = tree.block_of(first), tree.block_of(second)
    if second in block:
        return block[block.index(first) + 1 : block.index(second)]
    loop = next((one for one in outer if isinstance(one, cst.For | cst.While) and first in tree.body_of(one)), None)
    adding = [fact.used, *(one.statement for one in (*fact.carriers, *fact.outside) if one.items or _stores(one, tree))]
    if loop is None or outer.index(loop) > outer.index(second) or len(block) < 2:
        return None
    if not any(tree.statement(span) in block for span in adding):
        return None
    parts = (part for one in tree.statements_in(loop) for part in tree.children_of(one))
    leaves = any(isinstance(part, cst.Break | cst.Continue) for part in parts)
    within = [one for one in block if one is not first]
    return None if leaves else [*within, *outer[outer.index(loop) + 1 : outer.index(second)]]


def _stores(carrier: Carrier, tree: Tree) -> bool:
    """Whether a statement puts the loss into a container: ``losses.append(loss)``."""
    return isinstance(only_part(tree.statement(carrier.statement)), cst.Expr)


def _between(first: Statement, second: Statement, tree: Tree) -> bool:
    """Whether both stand in one block, and no optimizer steps between them; or in different functions."""
    block = tree.block_of(first)
    if second not in block:
        return tree.function_of(first) is not tree.function_of(second)
    run = block[block.index(first) + 1 : block.index(second)]
    return all(_only_tells(statement, tree) for statement in run)


_READS = frozenset(("item", "float", "list", "parameters"))
"""Functions and methods that read a value or name parameters, and change nothing."""


def _only_tells(statement: Statement, tree: Tree) -> bool:
    """Whether a statement changes no parameter: it prints, clips gradients, names parameters, or calls nothing."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    if isinstance(call, cst.Call) and _reports(call, tree):
        return True
    calls = calls_in(statement)
    return all(tree.called(one) in _READS or tree.called(one).startswith("clip_grad") for one in calls)


def _reports(call: cst.Call, tree: Tree) -> bool:
    """Whether a call prints, or writes to a log."""
    if isinstance(call.func, cst.Name):
        return call.func.value == "print"
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    return isinstance(owner, cst.Name) and (owner.value in ("log", "logger") or "logging" in tree.imported_from(owner))
