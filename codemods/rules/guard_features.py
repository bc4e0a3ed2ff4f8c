"""Unguarded features: a value computed once before a loop whose every iteration runs a backward through it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import (
    built_on,
    chain,
    compared_in_closure,
    compared_with_new,
    computation,
    draws_in,
    feeds_itself,
    gathered_beside_input,
    goes_on,
    is_carried_on,
    is_guardable,
    is_needed_before,
    only_draws,
    refreshing,
    stored_beside_input,
    targets_of,
    without_data,
)
from autofix.codemods.rewriting.detaching import detached, generated
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.moving import copied_before, moved_before
from autofix.codemods.rewriting.no_grad import guarded
from autofix.codemods.rewriting.nodes import Statement, calls_in, detach, nodes_in, only_part
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.ratios import is_ratio, is_value, old_operand, relates_to_old
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.cause import edited_by, first_of_run
from autofix.codemods.rules.computed_attributes import buffer_of, computed_again, undone_as_well
from autofix.codemods.rules.retain_shared import one_call

_OF_TENSORS = (Form.LIST, Form.TUPLE, Form.DICT)


def _writes_a_part(statement: Statement) -> bool:
    """``buffer[step].copy_(value)`` and ``buffer[step] = value``; not ``record["value"] = value``."""
    part = only_part(statement)
    if isinstance(part, cst.Assign):
        targets = [one.target for one in part.targets]
        parts = [each.value for one in targets if isinstance(one, cst.Tuple) for each in one.elements]
        return any(isinstance(one, cst.Subscript) and not _is_named(one) for one in (*targets, *parts))
    match part:
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Subscript(), attr=cst.Name(value="copy_")))):
            return True
    return False


def _is_named(item: cst.Subscript) -> bool:
    """Whether an item is one of a dictionary, by a text."""
    index = item.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, (cst.SimpleString, cst.FormattedString))


class GuardFeatures(Codemod):
    """A graph is built once before a loop and every iteration's backward runs through it.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the loop's second iteration.

    Cause:
        Features, an embedding table, a penalty term or another value that depends on parameters is computed before the
        loop. The first iteration's ``backward()`` frees its graph; the second iteration needs it again.

    Fix:
        Where the parameters behind it are not being trained, the computation needs no graph: it is wrapped in
        ``with torch.no_grad():``. Where an optimizer holds them, ``no_grad`` would stop their training, so the
        computation moves into the loop, all of its statements together, and is made anew for each backward.
        Beside a ratio of new to old, as in PPO, the old log-probabilities, advantages and returns are values of
        the rollout: they are detached.

    When it is not what you want:
        Recomputing costs time. If all iterations may share one value, add up their losses and call ``backward()`` once
        after the loop: the gradient is the same as long as no step lies between.

    Source:
        torch.no_grad in the PyTorch documentation.
    """

    code = "AF103"
    name = "unguarded-features"
    answers = (StaleGraph, Overwritten)
    rank = 8
    recomputes = True

    def cause(self, fact: Fact, tree: Tree, candidate: Candidate) -> Span:
        """First line of the computation that is to run once; for a value only rescaled there, the line that made it."""
        place = super().cause(fact, tree, candidate)
        if candidate.cause or not isinstance(fact, StaleGraph) or fact.loop is None or fact.inside:
            return place
        computed = _before_self_updates(tree.statement(fact.kept), tree)
        if computed is not None:
            return tree.row_of(computed)
        edited = edited_by(candidate.patch)
        begins = place in (fact.kept, fact.made)
        return first_of_run(place, tree, edited.changed - edited.released) if begins else place

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        if isinstance(fact, Overwritten):
            yield from self._overwritten(fact, tree)
            return
        assert isinstance(fact, StaleGraph)
        if fact.loop is None:
            yield from self._in_a_closure(fact, tree)
        if fact.loop is not None and fact.inside:
            yield from self._handed_out(fact, tree)
        if fact.loop is None or fact.inside:
            return
        # A value that a call took along, as `partial` does, was kept by no statement of its own.
        kept = tree.statement(fact.kept or (fact.outer.made if fact.outer is not None else fact.made))
        loop = tree.statement(fact.loop)
        if kept is None or loop is None:
            return
        block = tree.block_of(kept)
        if kept not in block:
            return
        yield from self._handed_on(fact, loop, tree)
        run = computation(kept, block, tree)
        name = buffer_of(kept, tree) or fact.name or ", ".join(sorted(targets_of(kept, tree))) or "it"
        yield from undone_as_well(kept, tree)
        compared, places = _as_targets(fact, kept, loop, tree)
        of_rollout = relates_to_old(loop, tree)
        keeps = Keeps.TARGET if fact.target and not (of_rollout or _is_detachable(fact, tree)) else None
        yield from _under_no_grad(kept, run, loop, tree, name, keeps)
        made = tree.statement_of(tree.expression(fact.outer.made)) if fact.outer is not None else None
        if made is not None and made is not kept and tree.block_of(made) and is_guardable([made]):
            for part in (computation(made, tree.block_of(made), tree), [made]):
                if is_guardable(part):
                    remedy = "compute the features of the loop under no_grad: nothing trains them"
                    yield Candidate(guarded(tree, part), remedy)
        if of_rollout:
            yield from self._acted(fact, tree)
        yield from self._old_in_ratio(fact, tree, name)
        made_by = tree.expression(fact.made)
        stored = stored_beside_input(made_by, tree.expression(fact.used), loop, tree)
        stored = stored or gathered_beside_input(made_by, kept, loop, tree)
        if stored is not None and not of_rollout:
            patch = Edit(tree).change(stored, detach).patch()
            yield Candidate(patch, _as_before(tree.code(stored)), Keeps.PARAMETERS)
            return
        if compared or places:
            yield from self._anchor(fact, places, tree, name)
        if compared and not of_rollout:
            return
        if of_rollout:
            yield from self._as_data(fact, tree)
            yield from self._rolled_out(fact, tree)
        yield from self._detach(fact, tree, name)
        yield from self._detach_use(fact, tree)
        if fact.together:
            return  # one step uses all of the loop's passes: their losses add up, and nothing need be computed twice
        if of_rollout:
            yield from self._collected(fact, tree)
            return  # what the updates learn from is not to change with them
        yield from self._move(run, loop, tree, name)
        yield from self._move_all(fact, run, loop, tree)
        if made is not None and made is not kept and made in tree.block_of(made):
            maker = tree.function_of(kept)
            if len(block) > 1 and isinstance(maker, cst.FunctionDef) and maker.name.value != "__init__":
                yield from computed_again(fact, kept, tree, name, instead=True)
            if not _changes_a_module(made, tree):
                yield from self._move([made], loop, tree, name)
        yield from computed_again(fact, kept, tree, name)
        yield from self._as_it_was(fact, tree)
        yield from self._collected(fact, tree)

    def _in_a_closure(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """What a closure reads that its optimizer calls several times."""
        kept = tree.statement(fact.kept)
        if fact.freed == fact.failed and kept is not None and _as_targets(fact, kept, kept, tree)[0]:
            yield from self._anchor(fact, [], tree, fact.name)
            return
        if fact.freed == fact.failed and next(one_call(fact, tree), None) is None and kept is not None and fact.name:
            yield from computed_again(fact, kept, tree, fact.name)

    def _overwritten(self, fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
        """What the step of the first of the iterations that share a value has changed."""
        failed = tree.expression(fact.failed) if fact.by_step else None
        if failed is not None and any(relates_to_old(one, tree) for one in tree.loops_running(failed)):
            yield from self._rolled_out(fact, tree)

    def _handed_out(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """Candidates that compute a generator's value, made once before the loop that yields, anew for each item."""
        kept = tree.statement(fact.kept)
        if kept is None or kept not in tree.block_of(kept) or fact.together:
            return
        loop = _loop_behind(kept, tree)
        if loop is not None and nodes_in(loop, cst.Yield):
            run = computation(kept, tree.block_of(kept), tree)
            yield from self._move(run, loop, tree, ", ".join(sorted(targets_of(kept, tree))) or fact.name)

    def _handed_on(self, fact: StaleGraph, loop: Statement, tree: Tree) -> Iterator[Candidate]:
        """``fit(torch.cat(points))``, where the loop is the function's own: what it is given is data to it."""
        made = tree.expression(fact.made)
        if fact.kept is not None or made is None or not isinstance(tree.parent_of(made), cst.Arg):
            return
        if tree.function_of(made) is not tree.function_of(loop):
            patch, code = Edit(tree).change(made, detach).patch(), tree.code(made)
            remedy = _as_before(code) if fact.target else f"detach `{code}`: nothing behind it is trained"
            yield Candidate(patch, remedy, Keeps.TARGET if fact.target else Keeps.EDGES)

    def _detach(self, fact: StaleGraph, tree: Tree, name: str) -> Iterator[Candidate]:
        """Candidates that detach the value of a statement that does more than compute."""
        for carrier in reversed(fact.carriers):
            if carrier.statement == fact.kept and carrier.expression is not None:
                expression = tree.expression(carrier.expression)
                if expression is not None:
                    yield Candidate(
                        Edit(tree).change(expression, detach).patch(),
                        f"detach `{name}`: nothing behind it is trained",
                    )

    def _old_when_made(self, fact: StaleGraph, tree: Tree, name: str) -> Iterator[Candidate]:
        """``old = torch.stack(log_probs)``, which only a ratio reads, is detached at once."""
        for carrier in fact.carriers:
            made = tree.expression(carrier.expression)
            if carrier.statement == fact.kept and carrier.form is Form.TENSOR and isinstance(made, cst.Call):
                patch = Edit(tree).change(made, detach).patch()
                yield Candidate(patch, _as_before(name), Keeps.RATIO)

    def _anchor(self, fact: StaleGraph, places: list[Statement], tree: Tree, name: str) -> Iterator[Candidate]:
        """``old = net(x)`` is a target, at all the *places* where it is computed."""
        # What compares a parameter with what it was is a way to it beside those through the layers.
        keeps = Keeps.TARGET if fact.target else Keeps.PARAMETERS
        values = [part.value for one in places if isinstance(part := only_part(one), cst.Assign)]
        if len(values) > 1:
            edit = Edit(tree)
            for value in values:
                edit.change(value, detach)
            yield Candidate(edit.patch(), _as_before(name), keeps)
        for carrier in fact.carriers:
            whole = tree.expression(carrier.expression)
            if carrier.statement != fact.kept or carrier.form not in _OF_TENSORS or whole is None:
                continue
            if generated(whole, tree) is not None:
                yield Candidate(detached(tree, whole, carrier.form), _as_before(name), keeps)
        yield from self._unpacked(fact, tree, name, keeps)
        kept = [one for one in fact.carriers if one.statement == fact.kept and one.form is Form.TENSOR]
        parts = [made for one in kept if (made := tree.expression(one.expression)) is not None]
        for made in parts:
            for some in dict.fromkeys(((made, *_attributes_beside(made, tree)), (made,))):
                edit = Edit(tree)
                for one in some:
                    edit.change(one, detach)
                yield Candidate(edit.patch(), _as_before(name), keeps)

    def _unpacked(self, fact: StaleGraph, tree: Tree, name: str, keeps: Keeps) -> Iterator[Candidate]:
        """``old, value = net(x)``: the old one is detached by a statement of its own."""
        for carrier in fact.carriers:
            kept = tree.statement(carrier.statement)
            if carrier.statement != fact.kept or carrier.form is not Form.TENSOR or carrier.expression is not None:
                continue
            if kept is None or kept not in tree.block_of(kept) or carrier.name not in targets_of(kept, tree):
                continue
            if isinstance(kept, cst.SimpleStatementLine):
                patch = Edit(tree).insert_after(kept, f"{carrier.name} = {carrier.name}.detach()").patch()
                yield Candidate(patch, _as_before(name), keeps)

    def _as_data(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """Candidates that detach the data behind advantages and returns where the rollout collects or computes it."""
        for carrier in fact.sources:
            expression = tree.expression(carrier.expression)
            if expression is not None and carrier.form is Form.TENSOR and not _is_computed(expression, tree):
                remedy = f"detach `{carrier.name or tree.code(expression).strip()}`, which belongs to the rollout"
                yield Candidate(Edit(tree).change(expression, detach).patch(), remedy, Keeps.RATIO)

    def _old_in_ratio(self, fact: StaleGraph, tree: Tree, name: str) -> Iterator[Candidate]:
        """Candidates that detach the old one of ``(new - old).exp()``."""
        relation, old = old_operand(fact, tree)
        if relation is not None and old is not None and is_ratio(relation, old, tree):
            yield from self._old_when_made(fact, tree, name)
            patch = Edit(tree).change(old, detach).patch()
            yield Candidate(patch, _as_before(tree.code(old).strip()), Keeps.RATIO)

    def _acted(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """``value, logp = net.act(seen)``, of which the results are written into buffers, under no_grad.

        A buffer into which results with a graph are written takes along what it held before, also where it is read
        detached.
        """
        ways = (*fact.sources, *fact.carriers)
        statements = dict.fromkeys(one for carrier in ways if (one := tree.statement(carrier.statement)) is not None)
        if not any(map(_writes_a_part, statements)):
            return
        loop = tree.statement(fact.loop)
        for one in statements:
            part = only_part(one)
            acts = isinstance(part, cst.Assign) and isinstance(part.value, cst.Call) and is_guardable([one])
            if acts and one in tree.block_of(one) and loop not in list(tree.loops_around(one)):
                targets = ", ".join(sorted(targets_of(one, tree)))
                remedy = f"compute `{targets}`, which belong to the rollout, under no_grad"
                yield Candidate(guarded(tree, [one]), remedy, Keeps.RATIO)

    def _rolled_out(self, fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
        """Beside a ratio of new to old, as in PPO's epochs, advantages and returns are what the rollout made them."""
        tensors = [carrier.expression for carrier in reversed(fact.carriers) if carrier.form is Form.TENSOR]
        for span in dict.fromkeys([*tensors, fact.made if isinstance(fact, StaleGraph) else fact.saved]):
            made = tree.expression(span)
            if made is not None:
                remedy = f"detach `{tree.code(made).strip()}`, which belongs to the rollout that the updates learn from"
                yield Candidate(Edit(tree).change(made, detach).patch(), remedy, Keeps.RATIO)
        kept = tree.statement(fact.kept)
        if kept is not None and kept in tree.block_of(kept) and is_guardable([kept]):
            targets = sorted(targets_of(kept, tree))
            remedy = f"compute `{', '.join(targets)}`, which belong to the rollout, under no_grad"
            yield Candidate(guarded(tree, [kept]), remedy, Keeps.RATIO)

    def _collected(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """``values.append(critic(state))``, in a loop of its own before: what the epochs learn from are values."""
        loop = tree.statement(fact.loop)
        for carrier in fact.carriers:
            made = tree.expression(carrier.expression)
            statement = tree.statement(carrier.statement)
            part = only_part(statement)
            appends = isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) and made is not part.value
            if carrier.form is not Form.TENSOR or made is None or statement is None or not appends:
                continue
            around = list(tree.loops_around(statement))
            if around and loop not in around:
                patch = Edit(tree).change(made, detach).patch()
                yield Candidate(patch, f"collect `{tree.code(made)}` detached", Keeps.RATIO)

    def _as_it_was(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """``new - old`` in every iteration: the old value is what it was, a number, and the new one is trained."""
        used = tree.expression(fact.used)
        if fact.outer is None or not fact.outer.mixed or not isinstance(used, cst.BinaryOperation):
            return
        for operand in (used.left, used.right):
            if is_value(operand, fact.name, tree):
                patch = Edit(tree).change(operand, detach).patch()
                yield Candidate(patch, _as_before(tree.code(operand).strip()), Keeps.PARAMETERS)

    def _detach_use(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """Candidate by which the loop takes the value detached: another pass, as a generator's, trains its graph."""
        walked = tree.expression(fact.outer.walked) if fact.outer is not None else None
        loop = tree.statement(fact.loop)
        handed = [argument.value for argument in walked.args] if isinstance(walked, cst.Call) else []
        # `batch = {"real": real, "fake": fake}` in the loop: the batch takes it detached.
        handed += [
            value
            for carrier in fact.carriers
            if carrier.statement != fact.kept and carrier.form is Form.TENSOR
            if (value := tree.expression(carrier.expression)) is not None
            if any(around is loop for around in tree.loops_around(tree.statement_of(value)))
        ]
        edit = Edit(tree)
        taken = [value for value in dict.fromkeys(handed) if tree.code(value).strip() == fact.name]
        for value in taken:  # `kernel(x, x)` reads it twice: half of it detached is another function
            edit.change(value, detach)
        if taken:
            yield Candidate(edit.patch(), f"use `{fact.name}` detached in the loop")

    def _move(self, run: list[Statement], loop: Statement, tree: Tree, name: str) -> Iterator[Candidate]:
        """The statements at the start of the loop's body, one by one more of those they build on."""
        if tree.function_of(loop) is not tree.function_of(run[0]):
            loop = _loop_behind(run[-1], tree) or loop  # a generator hands the value out again and again
        body = tree.body_of(loop)
        if not body or tree.function_of(loop) is not tree.function_of(run[0]) or _defines(run):
            return
        if tree.line_of(run[0]) > tree.line_of(loop):
            return  # what comes behind a loop, for the next time that it is run, is no work of its iterations
        if is_carried_on(run, loop, tree):
            return
        built = built_on(run, loop, tree)
        for moved in (*(run[-count:] for count in range(1, len(run) + 1)), *([[*run, *built]] if built else [])):
            if feeds_itself(moved, tree) or goes_on(moved, loop, tree) or is_needed_before(moved, loop, tree):
                continue
            if len(draws_in(moved, tree)) < 2 and not any(only_draws(one, tree) for one in moved):
                yield _in_the_loop(moved_before(body[0], moved, tree), name)
        if not feeds_itself(run, tree) and not goes_on(run, loop, tree) and not draws_in(run, tree):
            yield _in_the_loop(copied_before(body[0], run, tree), name)

    def _move_all(self, fact: StaleGraph, run: list[Statement], loop: Statement, tree: Tree) -> Iterator[Candidate]:
        """A computation of several statements that the loop reads here and there: all of them go into it."""
        kept = [one for span in fact.computed_by if (one := tree.statement(span)) is not None]
        body = tree.body_of(loop)
        if not body or tree.function_of(loop) is not tree.function_of(run[0]):
            return
        moved, alone = chain(run, loop, kept, tree)
        if len(moved) <= len(run) or feeds_itself(moved, tree) or goes_on(moved, loop, tree):
            return
        if is_carried_on(moved, loop, tree):
            return
        name = ", ".join(name for one in moved for name in sorted(targets_of(one, tree)))
        patch = moved_before(body[0], moved, tree) if alone else copied_before(body[0], moved, tree)
        yield _in_the_loop(patch, name)


def _attributes_beside(value: cst.BaseExpression, tree: Tree) -> Iterator[cst.BaseExpression]:
    """For an attribute among the arguments of a call, those of the same object: ``q.loc`` beside ``q.scale``."""
    call = tree.parent_of(tree.parent_of(value) or value)
    if isinstance(value, cst.Attribute) and isinstance(call, cst.Call):
        for argument in call.args:
            other = argument.value
            if other is not value and isinstance(other, cst.Attribute) and other.value.deep_equals(value.value):
                yield other


def _as_targets(fact: StaleGraph, kept: Statement, loop: Statement, tree: Tree) -> tuple[bool, list[Statement]]:
    """Whether each iteration compares its own ``net(x)`` with ``old = net(x)``, and the places if there are several.

    Before the loop, and again behind it: then the author says how long it stays as it is.
    """
    if fact.outer is None:
        return False, []
    made, used = tree.expression(fact.outer.made), tree.expression(fact.outer.used)
    compared = fact.target or compared_with_new(kept, made, used, loop, tree)
    compared = compared or compared_in_closure(kept, made, used, tree)
    return compared, refreshing(kept, tree.statement_of(made), loop, tree)


def _changes_a_module(statement: Statement, tree: Tree) -> bool:
    """Whether a function from elsewhere is called for its effect: ``prune.l1_unstructured(layer, "weight", 0.3)``."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    return isinstance(call, cst.Call) and tree.is_of_torch(call.func)


def _defines(run: list[Statement]) -> bool:
    """Whether one of the statements is a function's: what its decorator keeps is a matter of the decorator."""
    return any(isinstance(one, cst.FunctionDef) for one in run)


def _is_computed(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a value, or what its name was given, is computed of others, and no network's own output."""
    if isinstance(value, cst.Name):
        given = (tree.given(one, value.value) for one in tree.statements_in(tree.function_of(value)))
        return any(_is_computed(one, tree) for one in given if one is not None and not isinstance(one, cst.Name))
    if isinstance(value, cst.Call):
        return tree.is_of_torch(value.func)
    return isinstance(value, cst.BinaryOperation)


def _loop_behind(kept: Statement, tree: Tree) -> Statement | None:
    """The next loop after a statement in its block."""
    block = tree.block_of(kept)
    later = block[block.index(kept) + 1 :] if kept in block else []
    return next((one for one in later if isinstance(one, (cst.For, cst.While))), None)


def _in_the_loop(patch: Patch, name: str) -> Candidate:
    return Candidate(patch, f"compute `{name}` in each iteration of the loop", Keeps.PARAMETERS)


def _as_before(code: str) -> str:
    return f"`{code}` is taken as it was before the loop"


def _is_detachable(fact: StaleGraph, tree: Tree) -> bool:
    """Whether the statement that keeps a value has an expression for it alone, or one that makes each part of it."""
    made = [(one.form, tree.expression(one.expression)) for one in fact.carriers if one.statement == fact.kept]
    return any(
        value is not None and (form is Form.TENSOR or generated(value, tree) is not None) for form, value in made
    )


def _under_no_grad(
    kept: Statement, run: list[Statement], loop: Statement, tree: Tree, name: str, target: Keeps | None = None
) -> Iterator[Candidate]:
    """Candidates that compute the value, and what it is computed of, without a graph."""
    several = len(targets_of(kept, tree)) > 1  # what was computed before may be for one of the others
    keeps = Keeps.RATIO if _shares_forward(kept, loop, tree) else target or Keeps.EDGES
    for part in ([kept], run) if several else (run,):
        if is_guardable(part):
            computing = without_data(part, tree)
            remedy = f"compute `{name}` under no_grad: nothing behind it is trained"
            if keeps is Keeps.TARGET:
                remedy = f"compute `{name}` under no_grad: it stays as it was before the loop"
            if keeps is Keeps.RATIO:
                remedy = f"compute `{name}`, which the updates learn from, under no_grad"
            yield Candidate(guarded(tree, computing), remedy, keeps)


def _shares_forward(kept: Statement, loop: Statement, tree: Tree) -> bool:
    """Whether a rollout's values come from a function of the program that its updates call, too: ``self.evaluate(x)``.

    A ``detach`` in it would be one for the updates as well.
    """
    if not relates_to_old(loop, tree):
        return False
    own = [found for call in calls_in(kept) if (found := tree.function_called(call)) is not None]
    parts = [loop, *(found for call in calls_in(loop) if (found := tree.function_called(call)) is not None)]
    return any(tree.function_called(call) in own for part in parts for call in calls_in(part)) if own else False


def _before_self_updates(kept: Statement | None, tree: Tree) -> Statement | None:
    """Statement that computed the value which *kept* only rescales: ``a = (a - a.mean()) / a.std()``; else None."""
    found: Statement | None = None
    while kept is not None and (name := _updated(kept, tree)):
        block = tree.block_of(kept)
        above = reversed(block[: block.index(kept)] if kept in block else [])
        kept = next((one for one in above if tree.given(one, name) is not None), None)
        found = kept or found
    return found


def _updated(statement: Statement, tree: Tree) -> str:
    """The name whose value a statement computes from the one that it had; empty where there is none."""
    for name in sorted(targets_of(statement, tree)):
        value = tree.given(statement, name)
        if value is not None and name in tree.paths_in(value):
            return name
    return ""
