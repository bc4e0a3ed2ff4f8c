"""Early step: an optimizer steps between a forward and the backward that needs the old parameters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting import behind_steps, retain, update_ahead
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part, operands_of, pairs_of, with_keyword, without_keyword
from autofix.codemods.rewriting.roles import owner_of, steps
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class StepOrder(Codemod):
    """An optimizer's step comes between a forward pass and its backward.

    Error:
        RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation. No
        line of the script looks like one: ``optimizer.step()`` changes the parameters in place.

    Cause:
        Several losses share a network, or one loss is computed from a network that another optimizer updates. The
        forward pass saved the parameters, the step changes them, and the backward that comes after it finds them
        changed.

    Fix:
        All passes first, then the steps, where that gives no parameter a gradient that it did not get before. Else the
        loss is computed after the step, from the parameters as they are then, or the first loss's pass and step come
        before it. Where a loop steps one optimizer after another, each pass collects gradients for its own optimizer
        only, and a second loop makes the steps. Statements that clip or rescale weights by hand between the forward
        pass and its backward move behind the backward. A critic's value that goes on into the next step,
        ``value = next_value``, is computed anew for it: detached, only its target would be trained. So is a value that
        one iteration computes for the pass of the next, ``state = encoder(next_obs)``: it comes behind the step.

    When it is not what you want:
        Where the second loss is meant to see the old parameters and the step cannot wait, compute its gradients with
        ``torch.autograd.grad`` before the step.

    Source:
        PyTorch's autograd mechanics, "In-place correctness checks".
    """

    code = "AF202"
    name = "early-step"
    answers = (Overwritten, StaleGraph)
    rank = 6

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        if isinstance(fact, StaleGraph):
            if fact.loop is not None and fact.inside and _is_temporal_difference(fact, tree):
                yield from _carried_anew(fact, tree)
            return
        assert isinstance(fact, Overwritten)
        if fact.loop is not None and fact.inside:
            yield from _of_the_next_iteration(fact, tree)
            return
        step = tree.statement_of(tree.expression(fact.changed))
        failed = tree.statement_of(tree.expression(fact.failed))
        apart = fact.outer.passes if fact.outer is not None else None
        if fact.by_step and step is not None and failed is not None:
            if tree.function_of(step) is not tree.function_of(failed):
                yield from _anew_behind(step, fact, tree)
        if apart is not None:  # helpers step and send back: the function that calls both has the order
            step, failed = (tree.statement_of(tree.expression(span)) for span in apart)
        if step is None or failed is None:
            return
        if fact.parameter and fact.loop is None:
            yield from _changed_later(step, failed, tree)
        if fact.by_step and fact.loop is None:
            step = _beside(step, failed, tree)
        block, sent = tree.block_of(step), failed
        if fact.by_step and fact.loop is None and _under_one_condition(step, failed, tree):
            yield from _step_later(step, failed, tree)
            yield from _for_its_own_only(step, failed, sent, fact, tree)
        if fact.by_step and step in block:
            yield from _one_pass_for_both(step, failed, fact, tree)
            yield from _several_computed_later(step, failed, block, tree)
        failed = _in_block(failed, block, tree)
        if step not in block or failed is None:
            return
        if fact.by_step and block.index(failed) < block.index(step):
            yield from _steps_in_a_loop_of_their_own(step, fact, block, tree)
        if block.index(failed) <= block.index(step) or fact.loop is not None:
            return
        if fact.by_step and apart is None:
            yield from _step_later(step, failed, tree)
        if fact.by_step or fact.parameter:
            yield from _computed_later(step, failed, block, fact, tree)
        if fact.by_step and apart is None:
            yield from _updated_ahead(step, fact, tree)
            yield from _for_its_own_only(step, failed, sent, fact, tree)
            yield from _whole_update_later(step, failed, block, tree)
            yield from _branches_computed_later(step, failed, fact, tree)
        if fact.by_step and apart is not None:
            yield from _helped_first(step, failed, block, tree)
            yield from _helped_later(step, failed, block, tree)


def _in_block(statement: Statement, block: list[Statement], tree: Tree) -> Statement | None:
    """*statement*, or the ``if`` around it that stands in *block*: ``if loss is not None: loss.backward()``."""
    found: cst.CSTNode | None = statement
    while found is not None and found not in block:
        found = tree.statement_of(tree.parent_of(found))
        if not isinstance(found, cst.If):
            return None
    return found  # type: ignore[return-value]


def _one_pass_for_both(step: Statement, failed: Statement, fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """One loss that is sent back for each of two optimizers is sent back once, before both steps.

    The second optimizer cleared its gradients in between, which it does before that pass.
    """
    kept, sent = (tree.expression(span) for span in (fact.retained, fact.failed))
    first, block = tree.statement_of(kept), tree.block_of(step)
    if first not in block or failed not in block or not isinstance(kept, cst.Call) or not isinstance(sent, cst.Call):
        return
    between = block[block.index(first) + 1 : block.index(failed)]
    cleared = [one for one in between if owner_of(one, "zero_grad") is not None]
    steps_made = [one for one in between if owner_of(one, "step") is not None]
    behind = block[block.index(failed) + 1 :]
    later = owner_of(behind[0], "step") if behind else None
    if later is None or not sent.func.deep_equals(kept.func) or len(cleared) + len(steps_made) != len(between):
        return
    if [tree.code(owner) for one in cleared if (owner := owner_of(one, "zero_grad")) is not None] != [tree.code(later)]:
        return
    if any(tree.code(owner) == tree.code(later) for one in steps_made if (owner := owner_of(one, "step")) is not None):
        return
    edit = Edit(tree).remove(failed).remove(cleared[0]).insert_before(first, tree.own_code(cleared[0]))
    edit.change(kept, lambda node: without_keyword(node, "retain_graph"))
    yield Candidate(edit.patch(), "call backward once on the loss, before both steps", Keeps.ONE_PASS)


def _under_one_condition(step: Statement, failed: Statement, tree: Tree) -> bool:
    """Whether a pass stands in a later block of its own with the condition under which the step is made."""
    first, second = (tree.parent_of(tree.parent_of(one) or one) for one in (step, failed))
    if not (isinstance(first, cst.If) and isinstance(second, cst.If)) or not first.test.deep_equals(second.test):
        return False
    block = tree.block_of(first)
    if first not in block or second not in block or len(tree.body_of(first)) < 2:
        return False
    between = block[block.index(first) : block.index(second)]
    asked = {name.value for name in tree.names_in(first.test)}
    return bool(between) and not any(asked & _assigned(one, tree) for one in between)


def _beside(step: Statement, failed: Statement, tree: Tree) -> Statement:
    """*step*, or the loop around it that stands in one block with *failed*: ``for one in optimizers: one.step()``."""
    shared = list(tree.loops_around(failed))
    while _in_block(failed, tree.block_of(step), tree) is None:
        around = tree.statement_of(tree.parent_of(step))
        if not isinstance(around, cst.For) or around in shared:
            break
        step = around
    return step


def _only_steps(step: Statement, tree: Tree) -> bool:
    """Whether a statement is the step, or a loop that makes nothing but steps."""
    if isinstance(step, cst.For):
        return all(owner_of(one, "step") is not None for one in tree.statements_in(step))
    return only_part(step) is not None


def _step_later(step: Statement, failed: Statement, tree: Tree) -> Iterator[Candidate]:
    """The step after the pass that it would spoil."""
    if _only_steps(step, tree):
        if _steps_next(failed, step, tree):
            return  # two steps in a row would both use the sum of the gradients
        patch = _moved_behind(step, failed, tree).patch()
        remedy = f"move `{_told(step, tree)}` after the last backward that needs the old parameters"
        yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(step))


def _steps_next(failed: Statement, step: Statement, tree: Tree) -> bool:
    """Whether the statement after a pass is a step of the same optimizer."""
    return _call_behind(failed, "step", step, tree) is not None


def _call_behind(statement: Statement, method: str, step: Statement, tree: Tree) -> Statement | None:
    """The statement behind another one, where it calls a *method* of the optimizer that makes the *step*."""
    block, own = tree.block_of(statement), owner_of(step, "step")
    behind = block[block.index(statement) + 1 :] if statement in block else []
    owner = owner_of(behind[0], method) if behind else None
    return behind[0] if own is not None and owner is not None and owner.deep_equals(own) else None


def _moved_behind(step: Statement, failed: Statement, tree: Tree) -> Edit:
    """The step after a pass, with the ``optimizer.zero_grad()`` behind it: used gradients are cleared."""
    cleared = _call_behind(step, "zero_grad", step, tree)
    moved = [step] if cleared is None else [step, cleared]
    edit = Edit(tree)
    for one in moved:
        edit.remove(one)
    return edit.insert_after(failed, *(textwrap.dedent(tree.own_code(one)) for one in moved))


def _told(step: Statement, tree: Tree) -> str:
    """Source text of the step itself, also where a loop makes it."""
    return tree.own_code(step).strip().splitlines()[-1].strip()


def _helped_later(step: Statement, failed: Statement, block: list[Statement], tree: Tree) -> Iterator[Candidate]:
    """A call that sends its own loss back and steps, after the call that needs the parameters as they were."""
    behind = block[block.index(step) + 1 : block.index(failed) + 1]
    needed = {name.value for one in behind for name in tree.names_in(one)}
    part = only_part(step)
    if not isinstance(part, (cst.Expr, cst.Assign)) or _assigned(step, tree) & needed:
        return
    patch = Edit(tree).remove(step).insert_after(failed, tree.own_code(step)).patch()
    remedy = f"move `{tree.code(part.value)}` after the last backward that needs the old parameters"
    yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(step))


def _helped_first(step: Statement, failed: Statement, block: list[Statement], tree: Tree) -> Iterator[Candidate]:
    """The update that needs the parameters as they were, before those of several others: two critics and their actor.

    All of them are calls of one function, which empties the gradients, sends a loss back and steps.
    """
    ran = _helper(step, tree)
    others = [one for one in block[: block.index(failed)] if ran and _helper(one, tree) == ran]
    if len(others) < 2 or _helper(failed, tree) != ran:
        return
    between = block[block.index(others[0]) : block.index(failed)]
    if any(_assigned(one, tree) for one in between) or not all(isinstance(only_part(one), cst.Expr) for one in between):
        return
    patch = Edit(tree).remove(failed).insert_before(others[0], textwrap.dedent(tree.own_code(failed))).patch()
    part = only_part(failed)
    assert isinstance(part, cst.Expr)
    code = " ".join(tree.code(part.value).split())
    remedy = f"move `{code}` before the steps that change what its backward needs"
    yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(step))


def _helper(statement: Statement, tree: Tree) -> str:
    """Source of the function that an expression statement calls; empty for any other statement."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    return tree.code(call.func).strip() if isinstance(call, cst.Call) else ""


def _changed_later(change: Statement, failed: Statement, tree: Tree) -> Iterator[Candidate]:
    """Candidate that moves an update by hand, with its ``no_grad`` and its loop, behind the pass that it spoils."""
    while isinstance(around := tree.parent_of(tree.parent_of(change) or change), (cst.With, cst.For)):
        if tree.body_of(around) != [change]:
            break
        change = around
    block = tree.block_of(change)
    behind = _in_block(failed, block, tree)
    if change not in block or behind is None or block.index(behind) <= block.index(change):
        return
    if any(_computes(one) for one in block[block.index(change) + 1 : block.index(behind)]):
        return  # with the new parameters
    code = textwrap.dedent(tree.own_code(change))
    if any(isinstance(one, cst.Attribute) and one.attr.value == "grad" for one in tree.inside(change)):
        return  # an update by hand, which would then see the gradients of both passes
    patch = Edit(tree).remove(change).insert_after(behind, code).patch()
    remedy = "update the parameters after the backward that needs the old ones"
    yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(change))


def _for_its_own_only(
    step: Statement, failed: Statement, sent: Statement, fact: Overwritten, tree: Tree
) -> Iterator[Candidate]:
    """Candidate that moves the step behind the pass, which then trains only the optimizer that steps after it."""
    call = tree.expression(fact.failed)
    blocks = [(tree.block_of(one), one) for one in dict.fromkeys((sent, failed))]
    owners = (owner_of(one, "step") for block, last in blocks for one in block[block.index(last) + 1 :])
    owner = next((tree.code(one) for one in owners if one is not None), None)
    own = owner_of(step, "step")
    if owner is None or not isinstance(call, cst.Call) or (own is not None and owner == tree.code(own)):
        return
    if _only_steps(step, tree):
        edit = _moved_behind(step, failed, tree)
        edit.change(call, lambda node: with_keyword(node, "inputs", _parameters_of(owner)))
        behind = f"after the last backward that needs the old parameters, for `{owner}` alone"
        remedy = f"move `{_told(step, tree)}` {behind}"
        yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS, cause=fact.changed)


def _computed_later(
    step: Statement, failed: Statement, block: list[Statement], fact: Overwritten, tree: Tree
) -> Iterator[Candidate]:
    """The loss is computed after the step, from the parameters as they are then; anew, if a pass needs it before."""
    made = tree.statement_of(tree.expression(fact.outer.made)) if fact.outer is not None else None
    if not isinstance(made, cst.SimpleStatementLine) or made not in block or block.index(made) >= block.index(step):
        return
    code = tree.own_code(made)
    name = code.partition("=")[0].strip()
    if fact.by_step:
        before = block[block.index(made) + 1 : block.index(step)]
        run = _built_on(made, before, tree)
        reader = _first_reader(made, block[block.index(step) + 1 : block.index(failed)], tree)
        if len(run) > 1 or (reader is not None and _first_reader(made, before, tree) is not None):
            # losses that did not fail stay as they are
            patch = Edit(tree).insert_before(reader or failed, code).patch()
            yield Candidate(patch, f"compute `{name}` again after the step", Keeps.PARAMETERS)
        for moved in ([made], run) if len(run) > 1 else ([made],):
            edit = Edit(tree).insert_after(step, *(tree.own_code(one) for one in moved))
            for one in moved:
                edit.remove(one)
            names = tree.own_code(moved[-1]).partition("=")[0].strip()
            yield Candidate(edit.patch(), f"compute `{names}` after the step", Keeps.PARAMETERS)
    between = block[block.index(made) + 1 : block.index(step)]
    if fact.retained is None or any(isinstance(one, cst.BaseCompoundStatement) for one in between):
        return
    needed, run = _leading_to(failed, between, tree), _built_on(made, between, tree)
    spoiled = [one for one in needed if one in run]
    for anew in (spoiled, needed) if len(spoiled) < len(needed) else (needed,):

        def build(edit: Edit, anew: list[Statement] = anew) -> None:
            edit.insert_before(failed, code, *(tree.own_code(one) for one in anew))

        for patch, more in retain.variants(fact, tree, build):
            yield Candidate(patch, f"compute `{name}` again after the step{more}", Keeps.PARAMETERS)


def _first_reader(made: Statement, later: list[Statement], tree: Tree) -> Statement | None:
    """The first of the *later* statements that reads a name which *made* gives a value."""
    names = {name.value for name in _bound(made, tree)}
    return next((one for one in later if names & {part.value for part in tree.names_in(one)}), None)


def _several_computed_later(
    step: Statement, failed: Statement, block: list[Statement], tree: Tree
) -> Iterator[Candidate]:
    """``losses = actor_losses(batch)``, which a loop behind the step sends back one by one, comes after the step."""
    loop = next((one for one in tree.loops_around(failed) if one in block), None)
    if not isinstance(loop, cst.For) or block.index(loop) < block.index(step):
        return
    read, at = tree.paths_in(loop), block.index(step)
    for made in reversed(block[:at]):
        names = targets_of(made, tree)
        if not names & read or not _computes(made):
            continue
        if any(names & tree.paths_in(one) for one in block[block.index(made) + 1 : block.index(loop)]):
            return
        patch = Edit(tree).remove(made).insert_after(step, tree.own_code(made)).patch()
        remedy = f"compute `{', '.join(sorted(names))}` after the step"
        yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(made))


def _anew_behind(step: Statement, fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """Candidates that compute a value anew which a function made before the step and reads after it."""
    kept, block = tree.statement(fact.kept), tree.block_of(step)
    if kept is None or kept not in block or step not in block or not _computes(kept):
        return
    at = block.index(step)
    names = {name.value for name in _bound(kept, tree)}
    read = any(names & {name.value for name in tree.names_in(one)} for one in block[at + 1 :])
    if block.index(kept) < at and read:
        code = tree.own_code(kept)

        def build(edit: Edit) -> None:
            edit.insert_after(step, code)

        for patch, more in retain.variants(fact, tree, build):
            yield Candidate(patch, f"compute `{fact.name}` again after the step{more}", Keeps.PARAMETERS)


def _is_temporal_difference(fact: Overwritten | StaleGraph, tree: Tree) -> bool:
    """Whether ``value = next_value`` carries what a critic is to learn: ``reward + gamma * next_value - value``.

    Detached, only the target would be trained: to come to the value, and not the value to the target.
    """
    value = _carried_name(fact, tree)
    if value is None:
        return False
    around = next(tree.loops_around(value), tree.function_of(value))
    operations = [one for one in tree.inside(around) if isinstance(one, cst.BinaryOperation)]
    discounted = any(
        isinstance(one.operator, cst.Multiply) and value.value in (tree.code(one.left), tree.code(one.right))
        for one in operations
    )
    compared = tree.expression(fact.used)
    sides = operands_of(compared) if not isinstance(compared, cst.BinaryOperation) or _subtracts(compared) else []
    return discounted and fact.name in [tree.code(one) for one in sides]


def _carried_name(fact: Overwritten | StaleGraph, tree: Tree) -> cst.Name | None:
    """``next_value`` of ``value = next_value``, and of ``state, value = next_state, next_value``."""
    part = only_part(tree.statement(fact.kept))
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return None
    given = (value for target, value in pairs_of(part.targets[0].target, part.value) if tree.code(target) == fact.name)
    value = next(given, None)
    return value if isinstance(value, cst.Name) else None


def _subtracts(operation: cst.BinaryOperation) -> bool:
    return isinstance(operation.operator, cst.Subtract)


def _carried_anew(fact: Overwritten | StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``value = next_value`` becomes ``value = critic(state)``: the next pass trains it, with the new parameters."""
    kept, carried = tree.statement(fact.kept), _carried_name(fact, tree)
    if kept is None or carried is None:
        return
    block = tree.block_of(kept)
    before = block[: block.index(kept)] if kept in block else []
    for at, one in reversed(list(enumerate(before))):
        value = tree.given(one, carried.value)
        if value is None and carried.value not in _assigned(one, tree):
            continue
        if value is None:
            return  # a loop, a branch or a part of a tuple, which may give it another value
        needed = tree.paths_in(value)
        between = {name for later in before[at + 1 :] for name in _assigned(later, tree)}
        if isinstance(value, cst.Call) and not needed & between:
            patch = Edit(tree).change(carried, lambda _, anew=value: anew).patch()  # type: ignore[misc]
            yield Candidate(patch, f"compute `{fact.name}` again after the step", Keeps.PARAMETERS)
        return


def _of_the_next_iteration(fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """Candidates that compute what the next iteration's pass needs with the parameters as the step leaves them."""
    if not fact.by_step:
        return
    wanted = _is_temporal_difference(fact, tree)
    # A state is handed on as a number first: one that is computed again costs each step a second forward.
    yield from (one if wanted else replace(one, last=True) for one in _carried_anew(fact, tree))
    if fact.retained is None:
        yield from _ahead_of_the_step(fact, tree)


def _ahead_of_the_step(fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``state = encoder(next_obs)`` for the next iteration's pass comes behind the step; anew, if it is read before.

    No pass has come to its graph yet: detached, it would train nothing.
    """
    kept, step = tree.statement(fact.kept), tree.statement_of(tree.expression(fact.changed))
    part, block = only_part(kept), tree.block_of(step) if step is not None else []
    if kept is None or step is None or kept not in block or block.index(kept) >= block.index(step):
        return
    if not isinstance(part, cst.Assign) or len(part.targets) != 1 or not isinstance(part.value, cst.Call):
        return
    target, needed = part.targets[0].target, tree.paths_in(part.value)
    between = block[block.index(kept) + 1 : block.index(step)]
    changed = {name for one in between for name in _assigned(one, tree)}
    if tree.code(target) != fact.name or fact.name in needed or needed & changed:
        return
    edit = Edit(tree).insert_after(step, tree.own_code(kept))
    read = any(fact.name in tree.paths_in(one) for one in between)
    remedy = f"compute `{fact.name}` {'again ' if read else ''}after the step"
    yield Candidate((edit if read else edit.remove(kept)).patch(), remedy, Keeps.PARAMETERS)


def _built_on(made: Statement, later: list[Statement], tree: Tree) -> list[Statement]:
    """*made*, and those of the *later* statements that compute with what it gives, or with what these give in turn."""
    names = {name.value for name in _bound(made, tree)}
    run = [made]
    for one in later:
        if names & {name.value for name in tree.names_in(one)}:
            if not _computes(one):
                return [made]
            names |= {name.value for name in _bound(one, tree)}
            run.append(one)
    return run


def _leading_to(failed: Statement, between: list[Statement], tree: Tree) -> list[Statement]:
    """Computations among the statements *between* whose results the *failed* pass uses, in the order of the program."""
    names = {name.value for name in tree.names_in(failed)}
    needed: list[Statement] = []
    for one in reversed([part for part in between if _computes(part)]):
        if names & {name.value for name in _bound(one, tree)}:
            names |= {name.value for name in tree.names_in(one)}
            needed.insert(0, one)
    return needed


def _bound(statement: Statement, tree: Tree) -> Iterator[cst.Name]:
    part = only_part(statement)
    for target in part.targets if isinstance(part, cst.Assign) else ():
        yield from tree.names_in(target.target)


def _assigned(statement: Statement, tree: Tree) -> set[str]:
    """The names that a statement, and all statements in it, give a value, or another one in place."""
    targets: list[cst.BaseExpression] = []
    for one in (statement, *tree.statements_in(statement)):
        if isinstance(one, cst.For):
            targets.append(one.target)
        if isinstance(one, cst.With):
            targets.extend(item.asname.name for item in one.items if item.asname is not None)
        for part in one.body if isinstance(one, cst.SimpleStatementLine) else ():
            if isinstance(part, (cst.AugAssign, cst.AnnAssign)):
                targets.append(part.target)
            elif isinstance(part, cst.Assign):
                targets.extend(target.target for target in part.targets)
    return {name.value for target in targets for name in tree.names_in(target)}


def _computes(statement: Statement) -> bool:
    """Whether a statement between the forward pass and its backward computes: it assigns to plain names."""
    part = only_part(statement)
    return isinstance(part, cst.Assign) and all(isinstance(one.target, (cst.Name, cst.Tuple)) for one in part.targets)


def _parameters_of(optimizer: str) -> str:
    """Source text of the list of an optimizer's parameters."""
    return f"[p for group in {optimizer}.param_groups for p in group['params']]"


def _steps_in_a_loop_of_their_own(
    step: Statement, fact: Overwritten, block: list[Statement], tree: Tree
) -> Iterator[Candidate]:
    """Several agents share a graph: the loop over them runs all passes, each for its own agent, and then all steps.

    What an agent does after its step, as ``agent.update_targets()``, goes with the step.
    """
    loop = tree.parent_of(step)
    loop = tree.parent_of(loop) if loop is not None else None
    call = tree.expression(fact.failed)
    code = tree.own_code(step)
    if not isinstance(loop, cst.For) or not tree.block_of(loop) or not isinstance(call, cst.Call) or len(block) < 2:
        return
    stepped = owner_of(step, "step")
    targets = {name.value for name in tree.names_in(loop.target)}
    if stepped is None or not targets & {name.value for name in tree.names_in(stepped)}:
        return
    at = block.index(step)
    follows = [one for one in block[at + 1 :] if targets & {name.value for name in tree.names_in(one)}]
    made = set().union(*(_assigned(one, tree) for one in block[:at]))
    if any(_assigned(one, tree) or made & {name.value for name in tree.names_in(one)} for one in follows):
        return
    if not all(isinstance(one, cst.SimpleStatementLine) for one in follows):
        return
    owner = tree.code(stepped)
    indent = tree.module_of(loop).default_indent
    edit = Edit(tree)
    edit.change(call, lambda node: with_keyword(node, "inputs", _parameters_of(owner)))
    lines = [f"for {tree.code(loop.target)} in {tree.code(loop.iter)}:"]
    for one in (step, *follows):
        edit.remove(one)
        lines.append(f"{indent}{tree.own_code(one)}")
    edit.insert_after(loop, "\n".join(lines))
    yield Candidate(edit.patch(), f"move `{code}` after all backward calls", Keeps.PARAMETERS)


def _whole_update_later(step: Statement, failed: Statement, block: list[Statement], tree: Tree) -> Iterator[Candidate]:
    """From ``zero_grad()`` to ``step()``, the first network's update comes after the second's."""
    stepped = owner_of(step, "step")
    before = reversed(range(block.index(step)))
    emptied = ((at, owner_of(block[at], "zero_grad")) for at in before)
    start = next((at for at, one in emptied if one is not None and stepped and one.deep_equals(stepped)), None)
    if start is None or stepped is None:
        return
    optimizer = tree.code(stepped)
    update = block[start : block.index(step) + 1]
    if failed in update or not all(isinstance(part, cst.SimpleStatementLine) for part in update):
        return
    later = [part for part in block[block.index(failed) :] if steps(part, tree)]
    codes = [tree.code(part).strip() for part in update]
    plain = [tree.code(_lets_go(part)).strip() for part in update]
    for lines in (plain, codes) if plain != codes else (codes,):
        edit = Edit(tree)
        for part in update:
            edit.remove(part)
        patch = edit.insert_after(later[0] if later else failed, *lines).patch()
        yield Candidate(patch, f"move the step of `{optimizer}` after the other", Keeps.PARAMETERS)


def _updated_ahead(step: Statement, fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """From the pass to the step, the first network's update comes before what the second loss is computed of."""
    made = tree.expression(fact.outer.made) if fact.outer is not None else None
    patch = update_ahead.moved_ahead(step, made, tree)
    if patch is not None:
        remedy = f"call backward and `{_told(step, tree)}` before the other loss is computed"
        yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(step))


def _branches_computed_later(step: Statement, failed: Statement, fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """A loss that is computed in one way or another, by a condition, is computed after the step."""
    made = tree.expression(fact.outer.made) if fact.outer is not None else None
    moved = behind_steps.branches_moved(step, failed, made, tree)
    if moved is not None and made is not None:
        patch, name = moved
        yield Candidate(patch, f"compute `{name}` after the step", Keeps.PARAMETERS, cause=tree.row_of(made))


def _lets_go(statement: Statement) -> Statement:
    """``loss.backward(retain_graph=True)`` as it is where no later pass needs the graph; any other one unchanged."""
    part = only_part(statement)
    if not isinstance(part, cst.Expr) or not isinstance(part.value, cst.Call):
        return statement
    return statement.with_deep_changes(part, value=without_keyword(part.value, "retain_graph"))
