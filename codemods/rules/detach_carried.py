"""Carried state: what one iteration hands to the next is handed over without its graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Carrier, Form
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting import retain
from autofix.codemods.rewriting.averages import is_average, is_of_parameters
from autofix.codemods.rewriting.detach_parts import detached_in_part
from autofix.codemods.rewriting.detaching import detach_by_form, detached_code, whole_code
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, detach, only_part, operands_of
from autofix.codemods.rewriting.overwritten_data import overwritten_data
from autofix.codemods.rewriting.roles import calls_of, cuts_graph, end_of_step
from autofix.codemods.rewriting.stores import ADDING
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules import own_cuts
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.detach_stored import innermost, is_of_another
from autofix.codemods.rules.recompute_cached import is_cached


class DetachCarried(Codemod):
    """A state is carried into the next iteration together with its graph.

    Error:
        RuntimeError: Trying to backward through the graph a second time. With ``retain_graph=True``, once the optimizer
        has stepped: one of the variables needed for gradient computation has been modified by an inplace operation,
        though no line of the script looks like one: the step itself is the in-place operation.

    Cause:
        A recurrent state, or any value computed from its own last value, is passed on from iteration to iteration. The
        first ``backward()`` frees the graph behind it; the second one follows the state back into that graph.

    Fix:
        Cut the state between iterations: ``h = h_next`` becomes ``h = h_next.detach()``, and a state that comes out of
        ``out, hidden = rnn(x, hidden)`` is detached where the next iteration begins, or after the backward, so that the
        gradient inside an iteration stays whole. A ``retain_graph=True`` that only hushed the error goes away.
        ``h.detach()`` as a statement changes nothing: its result is kept, ``h = h.detach()``.

    When it is not what you want:
        To back-propagate through more than one iteration on purpose, add the losses up and call ``backward()`` once per
        chunk; then only the chunks' boundaries are detached.

    Source:
        PyTorch's word_language_model example (``repackage_hidden``); torch.nn.LSTM in the documentation.
    """

    code = "AF102"
    name = "carried-state"
    answers = (StaleGraph, Overwritten)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        if fact.kept is None and fact.loop is not None and fact.inside:
            yield from _before_updates(fact, tree)
        if fact.kept is None or (fact.loop is not None and not fact.inside):
            return
        if overwritten_data(fact, tree) is not None:
            return  # detached, the result would still not be the data
        yield from own_cuts.without_effect(tree)
        yield from own_cuts.misplaced(fact, tree)
        yield from own_cuts.forgotten(fact, tree)
        if is_cached(tree.statement(fact.kept), tree):
            return  # what is computed once and kept detached would train once
        carriers = [carrier for carrier in fact.carriers if carrier.statement == fact.kept]
        named = [carrier for carrier in carriers if carrier.name]
        for carrier in fact.carriers:
            if _is_forgotten(tree.expression(carrier.expression), tree):
                yield from self._detach_written(fact, tree, [carrier])
        loop = tree.statement(fact.loop)
        for value in _forgotten_in(loop, {carrier.name for carrier in fact.carriers}, tree) if loop is not None else ():
            patch = Edit(tree).change(value, detach).patch()
            yield Candidate(patch, f"detach `{tree.code(value)}` as well")
        statistics = list(_averages(fact, carriers, tree))
        if statistics:
            yield from statistics
            return  # cut before its update, it would send the next pass to what it is a statistic of
        yield from self._detach_written(fact, tree, carriers)
        if named and not named[-1].whole:
            yield from self._detach_by_statement(fact, tree, named[-1])
        for carrier in fact.outside:
            same = carrier.name.rpartition(".")[2] == fact.name.partition("[")[0].rpartition(".")[2]
            if same or (carrier.items and carrier.statement == fact.kept):
                yield from self._detach_by_statement(fact, tree, carrier)
        for carrier in reversed(fact.carriers):
            if carrier.statement != fact.kept and carrier.name and not (carrier.whole or _only_names(carrier, tree)):
                yield from self._detach_written(fact, tree, [carrier])
                yield from self._detach_by_statement(fact, tree, carrier)
        for carrier in reversed(
            fact.carriers
        ):  # parts of displays and comprehensions: `[(h.detach(), c) for h, c in s]`
            if carrier.statement != fact.kept and not carrier.name:
                yield from self._detach_written(fact, tree, [carrier])
        yield from self._detach_handed(fact, tree)
        yield from _old_attribute(fact, tree)
        yield from self._detach_parts(fact, tree, carriers)
        for carrier in (*fact.outside, *reversed(fact.carriers)):
            if carrier.whole and carrier.name:  # what is made of several kinds of parts, all of them at once
                for ways in (
                    self._detach_written(fact, tree, [carrier]),
                    self._detach_by_statement(fact, tree, carrier),
                ):
                    yield from (replace(one, last=True) for one in ways)

    def _detach_parts(self, fact: StaleGraph | Overwritten, tree: Tree, carriers: list[Carrier]) -> Iterator[Candidate]:
        """Detach what the value is made of, where the rest of it is to go on learning."""
        cause = tree.row(fact.kept.line) if fact.kept is not None else None
        for carrier in innermost(carriers):
            expression = tree.expression(carrier.expression)
            if expression is not None and carrier.form is Form.TENSOR:
                for part, edit in detached_in_part(expression, tree):
                    remedy = f"detach `{part}` where it enters `{carrier.name or fact.name}`"
                    yield Candidate(edit.patch(), remedy, cause=cause)

    def _detach_handed(self, fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
        """``memory.post(z, edges)`` becomes ``memory.post(z.detach(), edges)``: what it computes itself stays."""
        made = tree.expression(fact.outer.made) if fact.outer is not None else None
        if not isinstance(made, cst.Call) or not isinstance(tree.parent_of(made), cst.Expr):
            return
        for argument in made.args:
            if isinstance(argument.value, (cst.Name, cst.Attribute)) and not argument.star:
                taken = tree.taken_by(made, argument)
                if taken is not None:
                    remedy = f"let `{tree.code(made.func)}` keep `{tree.code(taken)}` detached"
                    yield Candidate(Edit(tree).change(taken, detach).patch(), remedy)
                patch = Edit(tree).change(argument.value, detach).patch()
                yield Candidate(patch, f"hand `{tree.code(argument.value)}` detached to `{tree.code(made.func)}`")

    def _detach_written(
        self, fact: StaleGraph | Overwritten, tree: Tree, carriers: list[Carrier]
    ) -> Iterator[Candidate]:
        """``h = h_next`` becomes ``h = h_next.detach()``."""
        for carrier in innermost(carriers):
            assert carrier.expression is not None
            expression = tree.expression(carrier.expression)
            if expression is None or (carrier.form is Form.UNKNOWN and fact.certainty is not Certainty.CERTAIN):
                continue
            if carrier.form is Form.OTHER and not _is_rebuilt(carrier, expression):
                continue

            def build(edit: Edit, node: cst.BaseExpression = expression, carrier: Carrier = carrier) -> None:
                if carrier.form is Form.OTHER:
                    made = whole_code(carrier.whole, tree.code(node), tree).partition(" = ")[2]
                    edit.change(node, lambda _: cst.parse_expression(made))
                    return
                known = Form.TENSOR if carrier.form is Form.UNKNOWN else carrier.form
                detach_by_form(edit, tree, node, known, tree.fresh_name("state", "layer", "tensor"))

            for patch, more in retain.variants(fact, tree, build):
                yield Candidate(patch, f"hand `{carrier.name or fact.name}` on without the graph{more}")

    def _detach_by_statement(self, fact: StaleGraph | Overwritten, tree: Tree, carrier: Carrier) -> Iterator[Candidate]:
        """A statement of its own that detaches, at each place where that may be right."""
        form, kept = carrier.form, tree.statement(carrier.statement)
        if (form is Form.OTHER and not carrier.whole) or kept is None or "(" in carrier.name or _adds(kept, carrier):
            return
        # The state of each of several modules: `net.cells[*].h`, `net[*Cell].h` for those of a class below `net`.
        parts, kind, rest = _SEVERAL.fullmatch(carrier.name).groups()  # type: ignore[union-attr]
        part = tree.fresh_name("module", "layer", "part")
        name = f"{part}{rest}" if rest else carrier.name
        indent = tree.module_of(kept).default_indent

        def whole(code: str) -> str:
            if not rest:
                return code
            if not kind:
                return f"for {part} in {parts}:\n" + _indented(code, indent)
            test = f"isinstance({part}, {kind})"
            if kind == "?":  # the loop's file does not know the class
                loop = tree.statement(fact.loop) or kept
                test = f'isinstance(getattr({part}, "{rest[1:]}", None), {tree.torch_name(loop)}.Tensor)'
            test = f"if {test}:\n" + _indented(code, indent)
            return f"for {part} in {parts}.modules():\n" + _indented(test, indent)

        item = tree.fresh_name("state", "layer", "tensor")
        code = f"{name} = {detached_code(name, form, item, tree.torch_name(kept))}"
        if form is Form.OTHER:
            code = whole_code(carrier.whole, name, tree)
        code = _own_method(name, kept, tree) or code
        if carrier.items:  # others may hold the container: it stays the one it is
            key = tree.fresh_name("key", "name", "index")
            each = f"for {key} in {name}:\n{indent}{name}[{key}] = {name}[{key}].detach()"
            code = each if form is Form.DICT else f"{name}[:] = {detached_code(name, form, item)}"
        guarded = f"if {name} is not None:\n{_indented(code, indent)}"
        places = list(self._places(fact, tree, carrier))
        together = _siblings(fact, carrier, tree)
        if len(together) > 1:
            both = f"{', '.join(together)} = {', '.join(f'{one}.detach()' for one in together)}"
            yield from self._inserted(fact, tree, ", ".join(together), [(both, *place) for place in places])
        single = [place for place in places if not is_of_another(name, kept, place[0], tree)]
        yield from self._inserted(fact, tree, name, [(whole(code), *place) for place in single])
        loop = _filling_loop(name, kept, tree) if form is Form.TENSOR else None
        if loop is not None:
            inside = set(tree.statements_in(loop))
            each = f"{_header(name, loop, tree)}\n{indent}{code}"
            named_ones = isinstance(loop.iter, (cst.Tuple, cst.List))  # `for node in (source, target)`
            later = [(each, *one) for one in places if (one[1] or named_ones) and one[0] not in inside]
            yield from self._inserted(fact, tree, name, later)
        if form is Form.TENSOR:
            yield from self._detach_read(fact, tree, name)
        # A guard against the None or the number before the first iteration only where no place does without.
        early = [place for place in single if not place[1] or place[0] is kept]
        yield from self._inserted(fact, tree, name, [(whole(guarded), *place) for place in early])
        if form is Form.TENSOR:
            sure = f"if isinstance({name}, {tree.torch_name(kept)}.Tensor):\n{_indented(code, indent)}"
            yield from self._inserted(fact, tree, name, [(whole(sure), *place) for place in early])
        around = tree.statement(fact.loop)
        body = tree.body_of(around) if around is not None else []
        begin = _own_reset(name, kept, tree)
        if begin and body:
            patch = Edit(tree).insert_before(body[0], whole(begin)).patch()
            yield Candidate(patch, f"run `{begin}` at the start of each iteration", Keeps.ANEW)

    def _inserted(
        self, fact: StaleGraph | Overwritten, tree: Tree, name: str, tries: list[tuple[str, Statement, bool, str]]
    ) -> Iterator[Candidate]:
        for written, statement, after, when in tries:
            alone = after and written == f"{name} = {name}.detach()"
            returned = _returned_behind(statement, name, tree) if alone else None
            if returned is not None:
                handed: cst.BaseExpression = returned
                for patch, more in retain.variants(fact, tree, lambda edit, node=handed: edit.change(node, detach)):  # type: ignore[misc]
                    yield Candidate(patch, f"return `{name}` without the graph{more}")

            def build(edit: Edit, at: Statement = statement, behind: bool = after, new: str = written) -> None:
                (edit.insert_after if behind else edit.insert_before)(at, new)

            for patch, more in retain.variants(fact, tree, build):
                yield Candidate(patch, f"detach `{name}` {when}{more}")

    def _detach_read(self, fact: StaleGraph | Overwritten, tree: Tree, name: str) -> Iterator[Candidate]:
        """``beta * old`` becomes ``beta * old.detach()``."""
        used = tree.expression(fact.used)
        for operand in operands_of(used):
            if tree.code(operand) == name:

                def build(edit: Edit, node: cst.BaseExpression = operand) -> None:
                    edit.change(node, detach)

                for patch, more in retain.variants(fact, tree, build):
                    yield Candidate(patch, f"read `{name}` without the graph{more}")

    def _places(
        self, fact: StaleGraph | Overwritten, tree: Tree, carrier: Carrier
    ) -> Iterator[tuple[Statement, bool, str]]:
        """Statements to insert before or (true) after, and when that is."""
        kept = tree.statement(carrier.statement)
        loop = tree.statement(fact.loop)
        used_at = fact.outer.used if fact.outer is not None else fact.used
        used = tree.statement_of(tree.expression(used_at))
        if kept is None:
            return
        home = tree.function_of(kept)
        plain = carrier.name.isidentifier()
        yield from self._behind_the_pass(fact, tree, loop, kept if plain else None)
        inner = tree.statement_of(tree.expression(fact.used))
        for reader in (used, inner):
            # Where a value has an attribute's name it can be detached in another function as well.
            if reader is None or not tree.block_of(reader):
                continue
            if (plain or carrier.name.startswith("self.")) and tree.function_of(reader) is not home:
                continue
            yield _before_all_branches(reader, carrier.name, loop, tree), False, "before it is used again"
        if loop is not None and (tree.function_of(loop) is home or not plain):
            body = tree.body_of(loop)
            if body:
                yield body[0], False, "at the start of each iteration"
        if carrier.items:
            uses = (one for one in tree.body_of(home) if carrier.name in tree.paths_in(one))
            first = next(uses, None)
            if first is not None and tree.block_of(first):
                yield first, False, "before it is used again"
        if tree.block_of(kept):
            yield kept, True, "as soon as it is computed"
        for span in dict.fromkeys((fact.freed if isinstance(fact, StaleGraph) else fact.failed, fact.failed)):
            statement = tree.statement_of(tree.expression(span))
            if statement is not None and (not plain or tree.function_of(statement) is home):
                last = end_of_step(statement, tree)
                if last is not None and not _is_made_before(kept, last, tree):
                    yield last, True, "after the backward"
        if loop is not None and (tree.function_of(loop) is home or not plain):
            body = tree.body_of(loop)
            if body:
                yield body[-1], True, "at the end of each iteration"
        for around in tree.enclosing(kept):
            if around is home:
                break
            if isinstance(around, (cst.For, cst.While)) and around is not loop and tree.block_of(around):
                yield around, False, "before the loop that carries it on"
        if carrier.name.startswith("self."):
            for statement in _ends_of_resets(kept, carrier.name, tree):
                yield statement, False, "where its object is reset"

    def _behind_the_pass(
        self, fact: StaleGraph | Overwritten, tree: Tree, loop: Statement | None, kept: Statement | None
    ) -> Iterator[tuple[Statement, bool, str]]:
        """The end of a step after which a state is updated: the next iteration's pass is to train this update, too."""
        body = tree.body_of(loop) if loop is not None else []
        sent = tree.statement_of(tree.expression(fact.failed))
        made = tree.statement_of(tree.expression(fact.outer.made)) if fact.outer is not None else None
        if sent is None or made is None or sent not in body or made not in body:
            return
        last = end_of_step(sent, tree)
        if last is not None and last in body and body.index(last) < body.index(made):
            if kept is None or tree.function_of(kept) is tree.function_of(last):
                yield last, True, "after the backward"


def _averages(fact: StaleGraph | Overwritten, carriers: list[Carrier], tree: Tree) -> Iterator[Candidate]:
    """``mean = 0.9 * mean + 0.1 * new`` behind a pass is a statistic for the next one, with the new part of it."""
    kept, sent = tree.statement(fact.kept), tree.statement_of(tree.expression(fact.failed))
    block = tree.block_of(sent) if sent is not None else []
    if kept is None or sent not in block:
        return
    made = tree.statement_of(tree.expression(fact.outer.made)) if fact.outer is not None else None
    places = (kept, *tree.loops_around(kept), made)  # a mean for each parameter, in a method that is called here
    there = next((one for one in places if one in block), None)
    if there is None or block.index(there) <= block.index(sent):
        return
    for carrier in carriers:
        value = tree.expression(carrier.expression)
        name = _item_set(kept, tree) or carrier.name
        if value is None or not (carrier.form is Form.TENSOR or name != carrier.name):
            continue
        if is_average(value, name, tree) or is_of_parameters(kept, value, tree):
            patch = Edit(tree).change(value, detach).patch()
            yield Candidate(patch, f"keep the statistic `{carrier.name}` without the graph", Keeps.TRAINED)


def _item_set(kept: Statement, tree: Tree) -> str:
    """``means[name]`` of ``means[name] = value``; empty for other statements."""
    match only_part(kept):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
            return tree.code(target)
    return ""


def _adds(kept: Statement, carrier: Carrier) -> bool:
    """Whether a statement adds an item to the container that the carrier is called after: the form is the item's."""
    part = only_part(kept)
    call = part.value if isinstance(part, cst.Expr) else None
    method = call.func.attr.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else ""
    return method in ADDING and not carrier.items


def _returned_behind(statement: Statement, name: str, tree: Tree) -> cst.Name | None:
    """The *name* in the next statement, if this returns it: nobody reads the value in between; else None."""
    block = tree.block_of(statement)
    behind = block[block.index(statement) + 1 :] if statement in block else []
    part = only_part(behind[0]) if behind else None
    if not isinstance(part, cst.Return) or part.value is None:
        return None
    values = [one.value for one in part.value.elements] if isinstance(part.value, cst.Tuple) else [part.value]
    found = [one for one in values if isinstance(one, cst.Name) and one.value == name]
    return found[0] if len(found) == 1 and tree.count_paths(part, {name}) == 1 else None


def _old_attribute(fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``setattr(self, name, lerp(getattr(self, name), new, rate))`` takes the old value detached."""
    part = only_part(tree.statement(fact.kept))
    call = part.value if isinstance(part, cst.Expr) else None
    if not isinstance(call, cst.Call) or tree.code(call.func) != "setattr" or len(call.args) != 3:
        return
    which = [tree.code(argument.value) for argument in call.args[:2]]
    edit, found = Edit(tree), False
    for inner in calls_in(call.args[2].value):
        if tree.code(inner.func) == "getattr" and [tree.code(one.value) for one in inner.args[:2]] == which:
            edit.change(inner, detach)
            found = True
    if found:
        yield Candidate(edit.patch(), f"read the old value of `{fact.name}` without the graph")


def _is_made_before(kept: Statement, last: Statement, tree: Tree) -> bool:
    """Whether *kept* stands before a loop around *last*: cut behind the first pass, that one alone would train it."""
    if tree.function_of(kept) is not tree.function_of(last):
        return False
    return not set(tree.loops_around(last)) <= set(tree.loops_around(kept))


def _before_all_branches(reader: Statement, name: str, loop: Statement | None, tree: Tree) -> Statement:
    """*reader*, or what is around it, if it is one of several branches in which *name* is used."""
    found = reader
    for around in tree.enclosing(reader):
        if around is loop or isinstance(around, (cst.FunctionDef, cst.Module)):
            break
        if isinstance(around, cst.If) and name in tree.paths_in(around.test):
            break  # `if self.h is not None:` says where there is something to detach
        if not isinstance(around, (cst.If, cst.For, cst.While, cst.With, cst.Try)) or not tree.block_of(around):
            continue
        if tree.count_paths(around, {name}) > tree.count_paths(found, {name}) and not _is_given(name, around, tree):
            found = around
    return found


def _is_given(name: str, around: Statement, tree: Tree) -> bool:
    """Whether a statement inside *around* gives *name* a value."""
    parts = (only_part(one) for one in tree.statements_in(around))
    targets = (
        target
        for part in parts
        if isinstance(part, (cst.Assign, cst.AugAssign, cst.AnnAssign))
        for target in ([one.target for one in part.targets] if isinstance(part, cst.Assign) else [part.target])
    )
    return any(name in tree.paths_in(target) for target in targets)


_SEVERAL = re.compile(r"(.*?)(?:\[\*(\w*|\?)\](.*))?")


def _before_updates(fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``mean.mul_(0.9).add_(0.1 * x.mean())`` carries on in place: what is updated so, here, is detached before."""
    used = tree.statement_of(tree.expression(fact.used))
    own = _updated(used, tree)
    if used is None or not own:
        return
    block = tree.block_of(used)
    updates = [(one, name) for one in block if (name := _updated(one, tree))]
    for group in ([(used, own)], updates):
        names = list(dict.fromkeys(name for _, name in group))
        if group and (len(names) > 1 or group[0][0] is used):
            code = [f"{name} = {name}.detach()" for name in names]
            patch = Edit(tree).insert_before(group[0][0], *code).patch()
            yield Candidate(patch, f"detach {', '.join(f'`{name}`' for name in names)} before the update")


def _updated(statement: Statement | None, tree: Tree) -> str:
    """Name of an in-place change: ``mean`` in ``mean.mul_(a).add_(b)`` and ``mean *= a``; empty for others."""
    part = only_part(statement)
    node = part.value if isinstance(part, cst.Expr) else part.target if isinstance(part, cst.AugAssign) else None
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if not node.func.attr.value.endswith("_") or node.func.attr.value.endswith("__"):
            return ""
        node = node.func.value
    return tree.code(node) if isinstance(node, (cst.Name, cst.Attribute)) else ""


def _indented(code: str, indent: str) -> str:
    return "\n".join(indent + line for line in code.split("\n"))


def _filling_loop(name: str, kept: Statement, tree: Tree) -> cst.For | None:
    """The loop that fills a container item by item, where *name* is ``totals[key]`` and the loop gives ``key``.

    Or the one that goes through a few objects by name, where *name* is ``node.state`` and the loop gives ``node``.
    """
    place = cst.parse_expression(name)
    key = place.slice[0].slice if isinstance(place, cst.Subscript) and len(place.slice) == 1 else None
    given = key.value if isinstance(key, cst.Index) else place.value if isinstance(place, cst.Attribute) else None
    if not isinstance(given, cst.Name):
        return None
    for around in tree.enclosing(kept):
        if isinstance(around, (cst.FunctionDef, cst.Lambda)):
            return None
        if isinstance(around, cst.For) and given.value in {one.value for one in tree.names_in(around.target)}:
            by_name = isinstance(around.iter, (cst.Tuple, cst.List))
            return around if by_name or isinstance(place, cst.Subscript) else None
    return None


def _header(name: str, loop: cst.For, tree: Tree) -> str:
    """A loop over all that *loop* filled: its own header, or one over the container where that takes more along."""
    store, _, key = name.removesuffix("]").rpartition("[")
    over = tree.code(loop.iter)
    if isinstance(loop.target, cst.Name):
        return f"for {tree.code(loop.target)} in {over}:"
    return f"for {key} in range(len({store})):" if over.startswith("enumerate(") else f"for {key} in {store}:"


def _own_method(name: str, kept: Statement, tree: Tree) -> str:
    """A call of the method by which the object that has the state detaches it, where it has one: ``net.detach()``."""
    attribute = name.rpartition(".")[2]
    for call, body in _own_calls(name, kept, tree):
        if any(_renews(f"self.{attribute}", statement, tree) for statement in body):
            if all(cuts_graph(one) and tree.own_code(one).startswith("self.") for one in body):
                return call
    return ""


def _renews(path: str, statement: Statement, tree: Tree) -> bool:
    """Whether a statement sets *path* to what is computed of itself, or changes it by a method of it."""
    value = tree.given(statement, path)
    return _sets(path, statement, tree) and (value is None or path in tree.paths_in(value))


def _sets(path: str, statement: Statement, tree: Tree) -> bool:
    """Whether a statement gives *path* a value, or changes it by a method of it."""
    own = any(tree.code(call.func.value) == path for call in calls_of(statement, "detach_"))  # type: ignore[attr-defined]
    return own or tree.given(statement, path) is not None


def _own_reset(name: str, kept: Statement, tree: Tree) -> str:
    """A call of the method by which the object that has the state begins it anew, where it has one."""
    attribute = name.rpartition(".")[2]
    for call, body in _own_calls(name, kept, tree):
        given = [tree.given(statement, f"self.{attribute}") for statement in body]
        if any(value is not None and tree.code(value) == "None" for value in given):
            return call
    return ""


def _own_calls(name: str, kept: Statement, tree: Tree) -> Iterator[tuple[str, list[Statement]]]:
    """Calls of the methods without arguments of the object that has the state *name*, and their bodies."""
    owner = name.rpartition(".")[0]
    home = tree.class_of(kept)
    for method in tree.body_of(home) if owner not in ("", "self") and home is not None else ():
        if isinstance(method, cst.FunctionDef) and tree.code(method.params).strip(", ") == "self":
            if method.name.value != "__init__":
                yield f"{owner}.{method.name.value}()", tree.body_of(method)


def _ends_of_resets(kept: Statement, name: str, tree: Tree) -> Iterator[Statement]:
    """The last statements of methods that set other attributes of the object anew, but not the one called *name*.

    A method that computes with that one is no reset, nor is the constructor.
    """
    owner = tree.class_of(kept)
    for method in tree.body_of(owner) if owner is not None else ():
        body = tree.body_of(method)
        if not isinstance(method, cst.FunctionDef) or not body or tree.function_of(kept) is method:
            continue
        if method.name.value.startswith("__"):
            continue
        sets = [
            target.target
            for statement in body
            if isinstance(statement, cst.SimpleStatementLine)
            for part in statement.body
            if isinstance(part, cst.Assign)
            for target in part.targets
        ]
        if any(tree.code(target).startswith("self.") for target in sets) and name not in tree.paths_in(method):
            yield body[-1]


def _is_rebuilt(carrier: Carrier, expression: cst.BaseExpression) -> bool:
    """Whether what was written for a value can be read as often as it takes to write it without its graphs."""
    return carrier.whole.startswith("$x = ") and isinstance(expression, (cst.Name, cst.Attribute))


def _is_forgotten(expression: cst.CSTNode | None, tree: Tree) -> bool:
    """Whether its neighbour is detached where it is not: ``(h.detach(), c)``."""
    element = tree.parent_of(expression) if expression is not None else None
    around = tree.parent_of(element) if isinstance(element, cst.Element) else None
    return isinstance(around, (cst.Tuple, cst.List)) and any(
        isinstance(one.value, cst.Call) and tree.called(one.value) == "detach" for one in around.elements
    )


def _forgotten_in(loop: Statement, names: set[str], tree: Tree) -> Iterator[cst.BaseExpression]:
    """The names of those that carry the value which stand, in a loop, beside something that is detached."""
    return (node for node in tree.names_in(loop) if node.value in names and _is_forgotten(node, tree))


def _only_names(carrier: Carrier, tree: Tree) -> bool:
    """Whether a statement only gives a container another name: the container would go on holding the graphs."""
    if carrier.form is Form.TENSOR or carrier.expression is None:
        return False
    return isinstance(tree.expression(carrier.expression), (cst.Subscript, cst.Attribute))


def _siblings(fact: StaleGraph | Overwritten, carrier: Carrier, tree: Tree) -> list[str]:
    """The names that one tuple of the carrying statement's target binds and that are read again together.

    An LSTM's ``h, c = cell(x, (h, c))`` carries two values on one way: one alone cut, the other still leads back.
    """
    kept = tree.statement(carrier.statement)
    used = tree.expression(fact.outer.used) if fact.outer is not None else None
    if not isinstance(kept, cst.SimpleStatementLine) or not isinstance(kept.body[0], cst.Assign) or used is None:
        return []
    read = {name.value for name in tree.names_in(used)}
    pending: list[cst.CSTNode] = [target.target for target in kept.body[0].targets]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Tuple):
            names = [part.value.value for part in node.elements if isinstance(part.value, cst.Name)]
            if carrier.name in names:
                return [name for name in names if name in read]
            pending.extend(part.value for part in node.elements)
    return []
