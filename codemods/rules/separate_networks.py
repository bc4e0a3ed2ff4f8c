"""Two networks, one graph: the step of one between a forward and the other's backward."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.autograd.catalogue import is_method
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form, Severed
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting import retain
from autofix.codemods.rewriting.alternatives import on_every_path
from autofix.codemods.rewriting.changed import root_of
from autofix.codemods.rewriting.computations import compared_with_new, is_carried_on, takes_an_item, targets_of
from autofix.codemods.rewriting.detaching import detach_by_form, detached_code
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, children, detach, only_part, with_keyword
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.ratios import relates_to_old
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class SeparateNetworks(Codemod):
    """Two networks share one graph, and the first network's backward or step invalidates it for the second.

    Error:
        RuntimeError: Trying to backward through the graph a second time; after adding ``retain_graph=True``: one
        of the variables needed for gradient computation has been modified by an inplace operation.

    Cause:
        In a GAN the discriminator's output ``d = D(g)`` is used for both losses. The discriminator's ``backward()``
        frees the graph through ``D`` and ``G``, and its ``step()`` changes the weights saved in it.

    Fix:
        The discriminator's loss takes ``D(g.detach())`` and the generator's loss a fresh ``D(g)`` after the
        discriminator's step. Where the output only enters a loss that already carries the generator's own graph
        (``(g + d).sum()``), it is detached there, and the first backward keeps what the second still needs. Where the
        shared output is that of ``D(g.detach())``, the generator's loss takes ``D(g)``: from the shared one it learns
        nothing. An advantage that weighs the log-likelihoods of a policy weighs them as a number: what computes it, the
        critic, has a loss of its own.

    When it is not what you want:
        To train both networks at once on one loss, call ``backward()`` on the sum and step both optimizers afterwards.

    Source:
        PyTorch's DCGAN tutorial, which detaches the fake batch for the discriminator's loss; Williams, "Simple
        statistical gradient-following algorithms for connectionist reinforcement learning", 1992, for the weight.
    """

    code = "AF104"
    name = "shared-networks"
    answers = (StaleGraph, Overwritten)
    rank = 5

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        if fact.outer is None:
            return
        yield from self._weight_detached(fact, tree)
        if fact.loop is not None:
            if isinstance(fact, StaleGraph) and fact.outer.passes is not None:
                yield from self._cut_for_nothing(fact, tree)  # two networks that take turns
            return
        if isinstance(fact, Overwritten) and not fact.by_step:
            return  # what was changed by hand was meant to change: computed anew it would not be
        if fact.severed is not None:
            yield from _rejoined(fact, fact.severed, tree)
            return
        used = tree.expression(fact.outer.used)
        mixed = list(self._mixed(fact, tree, used)) if used is not None else []
        if mixed and self._only_weighs(fact, tree, used):
            yield from mixed
        if isinstance(fact, StaleGraph):
            # Cut where the value enters a network: before a loss, that would cut off the network that made it.
            used_by, walked_by = fact.outer.enters
            if walked_by:
                yield from self._cut_use(fact, tree, fact.outer.walked, "first")
            if used_by:
                yield from self._cut_use(fact, tree, fact.outer.used, "second")
            yield from self._cut_for_nothing(fact, tree)
            if fact.together:
                return  # one step of both gradients: the two losses are one, and one graph serves both
            yield from self._part_detached(fact, tree)
        elif fact.retained not in (None, fact.failed):
            yield from self._second_cut(fact, tree)
        yield from self._fresh(fact, tree)
        if not fact.outer.wanted_itself:
            yield from mixed

    def _second_cut(self, fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
        """The second loss takes the batch detached, where no step uses the gradient that this would cut.

        The graph was kept for it to no use: ``D(fake)`` was to be ``D(fake.detach())`` there.  What the network takes
        may have another name: ``images = [fake[i] for i in range(len(fake))]``.
        """
        assert fact.outer is not None
        if fact.outer.wanted[1] or fact.outer.crossed or not fact.outer.enters[0]:
            return
        handed_on = (carrier.expression for carrier in fact.carriers if carrier.statement != fact.kept)
        for place in map(tree.expression, (fact.outer.used, *handed_on)):
            for value in _values(place) if place is not None else ():
                if tree.code(value) != fact.name:
                    continue

                def cut(edit: Edit, part: cst.BaseExpression = value) -> None:
                    edit.change(part, detach)

                for patch, more in retain.variants(fact, tree, cut):
                    remedy = f"detach `{fact.name}` in the second loss{more}"
                    yield Candidate(patch, remedy, _kept_by_cut(fact, "second", Keeps.PARAMETERS))

    def _weight_detached(self, fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
        """``(log_prob * advantage).mean()`` weighs by the advantage as a number: its critic has a loss of its own.

        Where another function hands the advantage out, it had better hand out a number.
        """
        assert fact.outer is not None
        kept = tree.statement(fact.kept)
        for which, spans in zip(("first", "second"), fact.outer.weights, strict=True):
            factors = [one for one in map(tree.expression, spans) if one is not None]
            if factors and len(factors) == len(spans):

                def cut(edit: Edit, parts: list[cst.BaseExpression] = factors) -> None:
                    for one in parts:
                        edit.change(one, detach)

                # What is taken from a record may be better cut where it is made.
                elsewhere = kept is not None and tree.function_of(kept) is not tree.function_of(factors[0])
                last = elsewhere and not all(isinstance(root_of(one, tree), cst.Name) for one in factors)
                names = " and ".join(dict.fromkeys(f"`{tree.code(one)}`" for one in factors))
                for patch, more in retain.variants(fact, tree, cut):
                    remedy = f"detach {names} as the weight of the {which} loss{more}"
                    yield Candidate(patch, remedy, Keeps.OWN, last=last)

    def _part_detached(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """``action, following = actor(both).unbind(0)``: where ``following`` is read first, it is detached."""
        statement = tree.statement_of(tree.expression(fact.made))
        part = only_part(statement)
        if fact.kept is not None or statement is None or not isinstance(part, cst.Assign) or len(part.targets) != 1:
            return
        target = part.targets[0].target
        block = tree.block_of(statement)
        later = block[block.index(statement) + 1 :] if statement in block else []
        reader = tree.statement_of(tree.expression(fact.outer.used)) if fact.outer is not None else None
        for element in target.elements if isinstance(target, cst.Tuple) else ():
            if not isinstance(element.value, cst.Name):
                continue
            name = element.value.value
            if any(name in tree.paths_in(one) for one in later):
                patch = Edit(tree).insert_after(statement, f"{name} = {name}.detach()").patch()
                yield Candidate(patch, f"detach `{name}` after the first loss", Keeps.PARAMETERS)
            if reader in later and name in tree.paths_in(reader):
                for form in (Form.TENSOR, Form.TUPLE):  # a state may be a pair of tensors
                    code = f"{name} = {detached_code(name, form, tree.fresh_name('item', 'part', 'tensor'))}"
                    remedy = f"detach `{name}` for the second loss"
                    yield Candidate(Edit(tree).insert_before(reader, code).patch(), remedy, Keeps.PARAMETERS)

    def _only_weighs(self, fact: StaleGraph | Overwritten, tree: Tree, used: cst.BaseExpression | None) -> bool:
        """Whether the value weighs another (an advantage times a log-probability) or is added to what it was made of.

        Elsewhere it is a term of the loss, which should go on training what lies behind it.
        """
        if not isinstance(used, cst.BinaryOperation):
            return False
        if isinstance(used.operator, (cst.Multiply, cst.Divide)):
            return True
        made = tree.expression(fact.made if isinstance(fact, StaleGraph) else fact.saved)
        parts = {tree.code(value) for value in _operands(made)} if isinstance(made, cst.Call) else set()
        return bool(parts & {tree.code(used.left), tree.code(used.right)})

    def _mixed(self, fact: StaleGraph | Overwritten, tree: Tree, used: cst.BaseExpression) -> Iterator[Candidate]:
        """``(g + d).sum()``: detach the operand that was made before the step, keep the graph of the other."""
        if not isinstance(used, cst.BinaryOperation) or fact.outer is None or not fact.outer.mixed:
            return
        for operand, other in ((used.left, used.right), (used.right, used.left)):
            if not _stands_for(operand, fact, tree):
                continue
            freed = tree.expression(fact.freed) if isinstance(fact, StaleGraph) else None
            for keep in (False, True) if isinstance(freed, cst.Call) else (False,):
                edit = Edit(tree).change(operand, detach)
                if keep and isinstance(freed, cst.Call):
                    edit.change(freed, lambda node: with_keyword(node, "retain_graph", "True"))
                remedy = f"detach `{tree.code(operand)}` in the second loss, which `{tree.code(other)}` still trains"
                yield Candidate(edit.patch(), remedy, Keeps.TRAINED)

    def _fresh(self, fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
        """The first loss takes ``D(g.detach())``, the second a fresh ``D(g)``."""
        assert fact.outer is not None
        if isinstance(fact, Overwritten) and fact.retained is None:
            return  # the first pass does not go through it: it is not shared, only computed too early
        if isinstance(fact, StaleGraph) and not fact.stepped:
            return  # with the same parameters it is the same value, or another draw
        kept = tree.statement(fact.kept)
        reader = tree.statement_of(tree.expression(fact.outer.used))
        made = next(
            (
                call
                for span in (fact.made if isinstance(fact, StaleGraph) else fact.saved, fact.outer.made)
                if isinstance(call := tree.expression(span), cst.Call) and tree.statement_of(call) is kept
            ),
            None,
        )
        given = only_part(kept)
        if isinstance(given, cst.Assign) and kept is not None:
            if tree.paths_in(given.value) & targets_of(kept, tree):
                return  # `x = cat(x)` is not done twice, nor is `out, h = rnn(x, h)`
            if made is None:  # what was made earlier went through another network there: `weight * distance(f, g)`
                made = next((one for one in tree.inside(given.value) if isinstance(one, cst.Call)), None)
        if not isinstance(kept, cst.SimpleStatementLine) or reader is None or made is None:
            return
        reader = _handed_over(kept, fact, tree) or reader
        if not tree.block_of(reader) or reader is kept or takes_an_item(kept, tree):
            return
        if any(relates_to_old(loop, tree) for loop in tree.loops_around(reader)):
            return  # what the updates of PPO learn from is not to change with them
        loops = [one for one in tree.loops_around(reader) if one not in list(tree.loops_around(kept))]
        ends = tree.expression(fact.outer.made), tree.expression(fact.outer.used)
        if any(is_carried_on([kept], loop, tree) or compared_with_new(kept, *ends, loop, tree) for loop in loops):
            return  # what a loop compares with its own would be that, computed anew
        if tree.function_of(kept) is not tree.function_of(reader) and not (fact.name or "").startswith("self."):
            return  # names of another function mean nothing here
        whole, assignments = on_every_path(kept, reader, tree)
        computed = [given.value for one in assignments if isinstance(given := only_part(one), cst.Assign)]
        again = tree.own_code(whole)
        reader = _first_to_read(kept, reader, fact, tree)
        shared = list(tree.loops_around(kept)) != list(tree.loops_around(reader))  # computed once, before the loop
        cause = tree.row_of(kept) if shared else None
        fresh = f"compute `{fact.name}` again for the second loss"
        plain = [
            Candidate(patch, fresh + more, Keeps.PARAMETERS, cause)
            for patch, more in retain.variants(fact, tree, lambda edit: edit.insert_before(reader, again))
        ]
        incidental = bool(fact.outer.incidental[0])  # better cut than kept for the second loss
        yield from () if incidental else plain
        cuts = [] if isinstance(fact, StaleGraph) and not fact.fed else list(_operands(made))
        for value in sorted(cuts, key=lambda one: not _is_computed(one, tree)):
            name = tree.code(value)
            parts = [value] if whole is kept else [one for one in _values(*computed) if tree.code(one) == name]

            def first(edit: Edit, parts: list[cst.BaseExpression] = parts) -> None:
                edit.insert_before(reader, again)
                for part in parts:
                    edit.change(part, detach)

            cut: cst.CSTNode = whole.with_changes(leading_lines=[])
            for part in parts:
                replaced = cut.deep_replace(part, detach(part))
                assert isinstance(replaced, cst.CSTNode)
                cut = replaced

            def second(edit: Edit, code: str = tree.code(cut).strip()) -> None:
                edit.insert_before(reader, code)

            if not fact.outer.wanted_behind[0]:
                keeps = Keeps.OWN if incidental else Keeps.PARAMETERS
                for patch, more in retain.variants(fact, tree, first):
                    yield Candidate(patch, f"detach `{name}` in the first loss, and {fresh}{more}", keeps, cause)
            if not fact.outer.wanted_behind[1]:
                for patch, more in retain.variants(fact, tree, second):
                    yield Candidate(patch, f"{fresh}, from `{name}` detached{more}", Keeps.PARAMETERS, cause)
        yield from plain if incidental else ()

    def _cut_for_nothing(self, fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
        """One of the losses takes the value detached, where no step uses the gradient that this would cut."""
        assert fact.outer is not None
        seen: set[cst.CSTNode] = set()
        kept = tree.statement(fact.kept)
        first, second = (fact.outer.walked, fact.walked, fact.outer.walked_by), (fact.outer.used, fact.used)
        for which, spans in (("first", first), ("second", second)):
            for span in spans:
                place = tree.expression(span)
                if place is None:
                    continue
                for value in (*_changed_by_method(place), *_values(place)):
                    # A helper that makes the pass may know the value, or the record that holds it, by another name.
                    handed = span is fact.outer.walked_by and span != fact.outer.walked
                    handed = handed or (kept is not None and tree.function_of(place) is not tree.function_of(kept))
                    known = _is_part(tree.code(value), fact.name)
                    if value in seen or not (known or handed):
                        continue
                    seen.add(value)
                    for values in ([value], *(_given_for(value, fact.name, tree) if not known else ())):
                        edit = Edit(tree)
                        for one in values:
                            edit.change(one, detach)
                        names = " and ".join(f"`{tree.code(one)}`" for one in values)
                        keeps = _kept_by_cut(fact, which, Keeps.EDGES)
                        yield Candidate(edit.patch(), f"detach {names} in the {which} loss", keeps)

    def _cut_use(self, fact: StaleGraph, tree: Tree, place: Span | None, which: str) -> Iterator[Candidate]:
        """One of the losses takes the shared batch detached: ``D(fake)`` becomes ``D(fake.detach())``."""
        call = tree.expression(place)
        if not isinstance(call, cst.Call):
            return
        form = next((one.form for one in fact.carriers if (one.statement, one.name) == (fact.kept, fact.name)), None)
        for value in _operands(call):
            is_opened = form not in _WHOLE and isinstance(tree.parent_of(value), (cst.Subscript, cst.Attribute))
            if tree.code(value) == fact.name and not is_opened:  # of an item, the item is detached
                yield Candidate(
                    _detached(value, form, tree),
                    f"compute the {which} loss from `{fact.name}` detached",
                    _kept_by_cut(fact, which, Keeps.PARAMETERS),
                )


_WHOLE = (None, Form.TENSOR, Form.UNKNOWN, Form.OTHER)
"""Forms of values that are detached as a whole."""


def _handed_over(kept: Statement, fact: StaleGraph | Overwritten, tree: Tree) -> Statement | None:
    """The statement that hands what *kept* gives to the helper which sends it back, if the same function has both."""
    if fact.outer is None or fact.outer.passes is None:
        return None
    call = tree.statement_of(tree.expression(fact.outer.passes[1]))
    if call is None or tree.function_of(call) is not tree.function_of(kept):
        return None
    return call if targets_of(kept, tree) & tree.paths_in(call) else None


def _first_to_read(kept: Statement, reader: Statement, fact: StaleGraph | Overwritten, tree: Tree) -> Statement:
    """*reader*, or a statement before it, behind the first network's update, that reads what *kept* gives beside it.

    Of ``codes, maps = encoder(x)``, a statement may read ``codes`` before the *reader* reads ``maps``.
    """
    block, spoiling = tree.block_of(reader), fact.freed if isinstance(fact, StaleGraph) else fact.changed
    spoiled = tree.statement_of(tree.expression(spoiling))
    if kept not in block or spoiled not in block or block.index(kept) > block.index(spoiled):
        return reader
    names = targets_of(kept, tree) - {fact.name}
    later = block[block.index(spoiled) + 1 : block.index(reader)]
    return next((one for one in later if names & tree.paths_in(one)), reader)


def _detached(value: cst.BaseExpression, form: Form | None, tree: Tree) -> Patch:
    """The program in which a call is given *value* detached: a name for several tensors, by a statement before it."""
    if form in _WHOLE:
        return Edit(tree).change(value, detach).patch()
    reader = tree.statement_of(value)
    item = tree.fresh_name("item", "part", "tensor")
    if reader is None or not tree.block_of(reader) or not isinstance(value, cst.Name):
        edit = Edit(tree)
        detach_by_form(edit, tree, value, form, item)
        return edit.patch()
    name = value.value
    return Edit(tree).insert_before(reader, f"{name} = {detached_code(name, form, item)}").patch()


def _rejoined(fact: StaleGraph | Overwritten, severed: Severed, tree: Tree) -> Iterator[Candidate]:
    """The loss that is to train the generator takes ``D(fake)``; the other one keeps ``D(fake.detach())``."""
    assert fact.outer is not None
    kept = tree.statement(fact.kept)
    cut = tree.expression(severed.cut)
    place = tree.expression(fact.outer.walked_by if severed.first and isinstance(fact, StaleGraph) else fact.outer.used)
    reader = tree.statement_of(place)
    part = only_part(kept)
    if cut is None or kept is None or reader is None or reader is kept:
        return
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return
    if not tree.block_of(reader) or tree.function_of(kept) is not tree.function_of(reader):
        return
    whole = _whole(cut)
    if whole is None:
        return
    named = tree.statement_of(cut)  # `frozen = fake.detach()`
    shared = [one for one in tree.inside(part.value) if one is cut or tree.given(named, tree.code(one)) is cut]
    if len(shared) != 1:
        return
    joined = part.value.deep_replace(shared[0], whole)
    assert isinstance(joined, cst.BaseExpression)
    made = cst.Module([]).code_for_node(joined)
    target = tree.code(part.targets[0].target)
    if not severed.first:
        code = f"{target} = {made}"
        remedy = f"compute `{code}` again for the second loss, which trains the network behind `{tree.code(whole)}`"
        for patch, more in retain.variants(fact, tree, lambda edit: edit.insert_before(reader, code)):
            yield Candidate(patch, remedy + more, Keeps.REACHED)
        return
    for value in tree.inside(reader):
        if tree.code(value) == target:
            patch = Edit(tree).change(value, lambda _: joined).patch()
            remedy = f"use `{made}` in the first loss, keep `{tree.code(part.value)}` in the second"
            yield Candidate(patch, remedy, Keeps.REACHED)
            return


def _whole(cut: cst.BaseExpression) -> cst.BaseExpression | None:
    """The detached expression: ``fake`` of ``fake.detach()`` and of ``fake.data``; None for others."""
    attribute = cut.func if isinstance(cut, cst.Call) else cut
    return attribute.value if isinstance(attribute, cst.Attribute) else None


def _kept_by_cut(fact: StaleGraph | Overwritten, which: str, else_: Keeps) -> Keeps:
    """The promise that a candidate must keep if one of the losses takes the value detached."""
    assert fact.outer is not None
    if fact.outer.wanted[which == "second"]:
        return Keeps.EDGES
    return Keeps.OWN if fact.outer.incidental[which == "second"] else else_


def _stands_for(operand: cst.BaseExpression, fact: StaleGraph | Overwritten, tree: Tree) -> bool:
    """Whether an operand has one of the value's names, or is a parameter that callers give the value for."""
    names = [fact.name or "", *(carrier.name for carrier in fact.carriers)]
    return tree.code(operand) in names or any(next(_given_for(operand, name, tree), None) for name in names if name)


def _given_for(value: cst.BaseExpression, name: str, tree: Tree, deep: int = 3) -> Iterator[list[cst.BaseExpression]]:
    """Arguments of the callers for a parameter that a helper reads: ``fake`` of ``adversarial(critic, fake, 0.0)``.

    Each also together with the arguments of its statement that another statement passes as well: two fakes that both
    losses judge.
    """
    function = tree.function_of(value)
    if not isinstance(value, cst.Name) or not isinstance(function, cst.FunctionDef) or not deep:
        return
    every = list(tree.given_to(function, value.value))
    for one in every:
        if not _is_part(tree.code(one), name):
            yield from _given_for(one, name, tree, deep - 1)
            continue
        yield [one]
        here = [other for other in every if tree.statement_of(other) is tree.statement_of(one)]
        elsewhere = {tree.code(other) for other in every if other not in here}
        beside = [other for other in here if tree.code(other) in elsewhere]
        if len(beside) > 1 and one in beside:
            yield beside


def _is_part(code: str, name: str) -> bool:
    """Whether *code* names the value, or an attribute or an item of it: ``batch.logp`` of ``batch``."""
    return code == name or code.startswith((f"{name}.", f"{name}["))


def _operands(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The names, attributes and items that a call's arguments are made of, outermost first."""
    return _values(*(argument.value for argument in call.args))


def _changed_by_method(place: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The tensor that a method of tensors is called on: ``start["state"]`` of ``start["state"].reshape(-1, 8)``."""
    if isinstance(place, cst.Call) and isinstance(place.func, cst.Attribute) and is_method(place.func.attr.value):
        if isinstance(place.func.value, (cst.Name, cst.Attribute, cst.Subscript)):
            yield place.func.value


def _is_computed(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether the function computes a value: what a loop or a caller hands it is more likely to be data."""
    name = tree.code(value)
    return any(tree.given(one, name) is not None for one in tree.statements_in(tree.function_of(value)))


def _values(*nodes: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The names, attributes and items in these expressions, outermost first."""
    pending: list[cst.CSTNode] = [*nodes]
    while pending:
        node = pending.pop(0)
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            yield node
        if isinstance(node, cst.Subscript):
            pending.append(node.value)
        elif isinstance(node, (cst.Name, cst.Attribute)):
            continue
        elif isinstance(node, cst.Call):
            pending.extend(argument.value for argument in node.args)
        else:
            pending.extend(child for child in children(node))
