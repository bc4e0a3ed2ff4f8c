"""Early pass: a loss that a loop adds up is sent backward in each iteration of that loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.roles import empties_gradients, is_of_update, steps, uses_gradients
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.retain_shared import after_the_loop


class PassAfterLoop(Codemod):
    """backward is called on the sum of the losses so far, inside the loop that adds them up.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second iteration of the inner loop.

    Cause:
        A loop over tasks, steps or parts of a batch adds up a loss, and ``backward()`` stands in the loop as well. The
        second pass goes through the first part's graph again. With ``retain_graph=True`` the first part would count as
        often as there are parts after it.

    Fix:
        The backward comes out of the loop, where the sum is complete and the optimizer steps. An update that stands in
        the loop as a whole, ``zero_grad``, ``backward`` and ``step``, comes out with it where the loop runs several
        times: detached terms would leave each part to learn by itself alone.
        Where each step of a sequence sends a loss of its own back, and one optimizer step follows, the losses are added
        up, and one backward comes behind the loop.

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
        yield from self._of_sum(fact, tree)
        if fact.inside and fact.together and not fact.repeats and _is_recurrent(fact, tree):
            yield from after_the_loop(fact, tree)  # a loss at each step of a sequence: their gradients add up

    def _of_sum(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """The pass comes out of the loop that adds up its loss."""
        call = tree.expression(fact.failed)
        sent = tree.statement_of(call)
        loop = tree.statement(fact.loop) if fact.inside else None
        if fact.freed != fact.failed or not isinstance(loop, (cst.For, cst.While)) or sent not in tree.body_of(loop):
            return
        if not isinstance(call, cst.Call) or call.args or not isinstance(call.func, cst.Attribute):
            return
        if loop.orelse is not None or not tree.block_of(loop):
            return
        body = tree.body_of(loop)
        update = [sent] if fact.together else _whole_update(fact, loop, tree)
        rest = [one for one in body if one not in update]
        if not update or not rest or any(uses_gradients(one, tree) or empties_gradients(one) for one in rest):
            return
        root = tree.code(call.func.value)
        made = [one for one in body[: body.index(sent)] if _gives(one, root, tree)]
        kept = tree.statement(fact.kept)
        if kept not in body or not _is_sum(made, kept, fact, tree):
            return
        if not all(is_of_update(one) for one in update):
            return
        moved = update
        if made and made[-1] is not kept and _may_leave(made[-1], root, rest, tree):
            moved = [made[-1], *update]
        remedy = "call backward once, after the loop that adds up the losses"
        for run in (moved, update) if moved is not update else (update,):
            edit = Edit(tree).insert_after(loop, *(tree.own_code(one) for one in run))
            for one in run:
                edit.remove(one)
            yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS if fact.together else Keeps.GATHERED)


def _is_sum(made: list[Statement], kept: Statement | None, fact: StaleGraph, tree: Tree) -> bool:
    """Whether a loss that the statements *made* give is the sum so far; *kept* carries what the pass meets again.

    No statement gives one that is computed where it is sent back: ``sum(losses).backward()``.
    """
    if not fact.together and kept in made:
        return False
    adds = kept is not None and _is_addition(kept, tree)
    return fact.repeats or (bool(made) and (made == [kept] or (adds and _reads_total(made[-1], fact, tree))))


def _whole_update(fact: StaleGraph, loop: Statement, tree: Tree) -> list[Statement]:
    """The statements by which a loop empties gradients, sends back and steps, in their order; none for another loop.

    Nor for a loop that runs once: behind it, the optimizer would make a single step.
    """
    if not _is_of_sequence(fact, tree) or not any(around is not loop for around in tree.loops_running(loop)):
        return []
    found = [one for one in tree.body_of(loop) if is_of_update(one)]
    is_whole = any(map(empties_gradients, found)) and any(steps(one, tree) for one in found)
    return found if is_whole else []


def _is_of_sequence(fact: StaleGraph, tree: Tree) -> bool:
    """Whether a loop goes through the steps of a sequence, with a state, and each pass is of all steps so far.

    Without a state, or where a loader hands out the batches, each of them may be meant to be learnt by itself.
    """
    return fact.repeats and _holds_state(fact, tree)


def _is_recurrent(fact: StaleGraph, tree: Tree) -> bool:
    """Whether a state is computed of itself: ``h = cell(x, h)``."""
    statement = tree.statement(fact.kept)
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or statement is None or not _holds_state(fact, tree):
        return False
    return bool(targets_of(statement, tree) & tree.paths_in(part.value))


def _holds_state(fact: StaleGraph, tree: Tree) -> bool:
    """Whether a name or an attribute carries the graph on, and the loop is none over the batches of a loader."""
    part = only_part(tree.statement(fact.kept))
    targets = [one.target for one in part.targets] if isinstance(part, cst.Assign) else []
    return bool(targets) and not fact.served and not any(isinstance(target, cst.Subscript) for target in targets)


def _may_leave(made: Statement, root: str, rest: list[Statement], tree: Tree) -> bool:
    """Whether the loss is made anew, from a list, say, that has all losses, and of what the loop leaves as it is then.

    It stays where another statement of the loop reads it.
    """
    value = tree.given(made, root)
    read = tree.paths_in(value) if value is not None else {root}
    behind = rest[rest.index(made) + 1 :]
    if root in read or any(root in tree.paths_in(one) for one in rest if one is not made):
        return False
    return not any(tree.given(one, name) or _adds_to(one, name, tree) for one in behind for name in read)


def _gives(statement: Statement, name: str, tree: Tree) -> bool:
    return _adds_to(statement, name, tree) or tree.given(statement, name) is not None


def _adds_to(statement: Statement, name: str, tree: Tree) -> bool:
    part = only_part(statement)
    return isinstance(part, cst.AugAssign) and tree.code(part.target) == name


def _is_addition(statement: Statement, tree: Tree) -> bool:
    """Whether a statement adds to what it gives, ``total = total + part``, or an item to a container."""
    part = only_part(statement)
    if isinstance(part, cst.Assign) and isinstance(part.value, cst.BinaryOperation):
        names = {tree.code(one.target) for one in part.targets}
        return isinstance(part.value.operator, cst.Add) and bool(names & tree.paths_in(part.value))
    return isinstance(part, (cst.AugAssign, cst.Expr))


def _reads_total(statement: Statement, fact: StaleGraph, tree: Tree) -> bool:
    """Whether a statement computes with what the loop adds up."""
    part = only_part(statement)
    names = {fact.name.partition("[")[0], *(carrier.name.partition("[")[0] for carrier in fact.carriers)}
    return isinstance(part, cst.Assign) and bool(names & tree.paths_in(part.value))
