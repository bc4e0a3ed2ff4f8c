"""Uncleared store: a buffer that one iteration fills and uses up is still full in the next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, children, detach, only_part, without_index
from autofix.codemods.rewriting.roles import steps
from autofix.codemods.rewriting.stores import (
    clears,
    companions,
    deleted,
    emptied,
    emptied_by,
    holders_of,
    is_sampled,
    only_value,
    outlives,
    store_of,
)
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.detach_stored import ends_windows, fills_in_a_hook, innermost


class ClearStore(Codemod):
    """A buffer of log-probabilities, losses or outputs is never cleared.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second episode.

    Cause:
        Each episode appends to a list, a loss is made of the whole list, and its backward frees the graphs of all that
        is in it. The list is never emptied, or another list is emptied instead, so the next episode's loss reaches the
        freed graphs.

    Fix:
        The list is emptied once its graphs are used up: ``log_probs.clear()`` after the optimizer's step. Lists that
        are filled along with it, and emptied nowhere, are emptied with it: else they would no longer match. What a hook
        fills is emptied before the step that fills it, because an evaluation in between fills it, too. Where the script
        empties lists, but misses some (``model.children()`` for ``model.modules()``) or empties a copy (what a property
        has just collected), that line is repaired.

        A memory of limited length, or one that is sampled from, is meant to live on: detached tensors are stored in it
        instead.

    When it is not what you want:
        Where later episodes are to see the values of earlier ones, as numbers, store them detached. The rewrite does so
        where no gradient is lost.

    Source:
        reinforce.py in PyTorch's examples, ``finish_episode``.
    """

    code = "AF106"
    name = "uncleared-store"
    answers = (StaleGraph, Overwritten)
    rank = 42

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        failed = tree.statement_of(tree.expression(fact.failed))
        if isinstance(fact, StaleGraph) and fact.kept is not None and fact.loop is None and failed is not None:
            yield from _filled_twice(fact, failed, tree)
        if fact.kept is None or not fact.inside or failed is None or not tree.block_of(failed):
            return
        if _is_sent_before(fact, tree):
            return
        # The value kept last may be a copy of the store: a list that a comprehension makes of it.
        for span in dict.fromkeys((fact.kept, *(carrier.statement for carrier in reversed(fact.carriers)))):
            kept = tree.statement(span)
            store = store_of(kept, tree, {one.name for one in fact.carriers if one.statement == span})
            if kept is None or store is None:
                continue
            store = _as_given(store, kept, failed, tree)
            if outlives(store, tree) or _is_for_later(store, kept, failed, tree):
                if not ends_windows(fact, tree) or is_sampled(store, tree):
                    yield from _stored_as_data(store, span, fact, tree)
                continue
            whole = without_index(store)
            if isinstance(whole, cst.Attribute):
                yield from _deep_down(whole.attr.value, tree)
                yield from _copies_emptied(whole.attr.value, tree)
            again = list(_in_the_loop(store, kept, fact, tree))
            yield from (one for called, one in again if called)  # the author has a call that empties it, too seldom
            emptied = _emptying(store, tree)
            if isinstance(whole, cst.Attribute) and emptied:
                yield from _before_it_is_filled(whole, emptied, kept, failed, fact, tree)
            if emptied:
                yield from _by_its_method(whole, kept, failed, fact, tree)
                yield from _after_the_pass(whole, emptied, kept, failed, fact, tree)
            yield from (one for _, one in again)
            if not isinstance(store, cst.Subscript):
                yield from _where_read(store, fact, tree)
            if isinstance(whole, cst.Attribute):
                for adding, holder in holders_of(whole.attr.value, tree):
                    yield from _after_the_pass(holder, "{}.clear()", adding, failed, fact, tree)


def _is_sent_before(fact: StaleGraph | Overwritten, tree: Tree) -> bool:
    """Whether an item is sent back by itself before it is stored: a record of what was, and not of what is to come."""
    kept = tree.statement(fact.kept)
    first = fact.freed if isinstance(fact, StaleGraph) else fact.retained
    if kept is None or first is None or first == fact.failed:
        return False
    block, sent = tree.block_of(kept), tree.statement_of(tree.expression(first))
    return kept in block and sent in block and block.index(sent) < block.index(kept)


def _is_for_later(store: cst.BaseExpression, kept: Statement, failed: Statement, tree: Tree) -> bool:
    """Whether only later iterations can read what is stored, as the pass comes before: none could, were it emptied."""
    block = tree.block_of(failed)
    holder = next((one for one in block if kept is one or kept in tree.statements_in(one)), None)
    if holder is None or block.index(holder) <= block.index(failed):
        return False
    name = tree.code(without_index(store)).rpartition(".")[2]
    behind = block[block.index(holder) + 1 :]
    return not any(
        store_of(one, tree) is None and path.rpartition(".")[2] == name for one in behind for path in tree.paths_in(one)
    )


def _emptying(store: cst.BaseExpression, tree: Tree) -> str:
    """Source that empties a store, with ``{}`` for the name of all of it; empty where it is not known.

    For ``log[name].append(x)`` it empties the whole mapping, if this makes its lists itself, else each of its lists.
    """
    if not isinstance(store, cst.Subscript):
        return "{}.clear()"
    if isinstance(store.value, cst.Subscript):
        return ""
    if len(store.slice) == 1 and isinstance(store.slice[0].slice, cst.Index):
        key = store.slice[0].slice.value
        if isinstance(key, (cst.SimpleString, cst.Integer)):
            return f"{{}}[{tree.code(key)}].clear()"
    statements = tree.statements_in(tree.module_of(store))
    made = next((value for one in statements if (value := tree.given(one, tree.code(store.value))) is not None), None)
    item, indent = tree.fresh_name("values", "kept", "items"), tree.module_of(store).default_indent
    if isinstance(made, cst.Call) and tree.called(made) == "defaultdict":
        return "{}.clear()"
    if isinstance(made, (cst.Dict, cst.DictComp)):
        return f"for {item} in {{}}.values():\n{indent}{item}.clear()"
    if isinstance(made, (cst.List, cst.ListComp)):
        return f"for {item} in {{}}:\n{indent}{item}.clear()"
    return ""


def _as_given(store: cst.BaseExpression, kept: Statement, failed: Statement, tree: Tree) -> cst.BaseExpression:
    """A store that the function which fills it gets as a parameter, as those call it who make the pass."""
    whole, function, home = without_index(store), tree.function_of(kept), tree.function_of(failed)
    if not isinstance(whole, cst.Name) or not isinstance(function, cst.FunctionDef) or function is home:
        return store
    given = {tree.code(one): one for one in tree.given_to(function, whole.value)}
    if whole.value == "self":  # an object of a class that is a list itself
        calls = [call for call in calls_in(home) if tree.called(call) == function.name.value]
        owners = [call.func.value for call in calls if isinstance(call.func, cst.Attribute)]
        given = {tree.code(one): one for one in owners if tree.code(one) != "self"}
    if len(given) != 1 or not set(given) <= tree.paths_in(home):
        return store
    ((_, known),) = given.items()
    if isinstance(store, cst.Subscript) and store.value is whole:
        return store.with_changes(value=known)
    return known if store is whole else store


def _filled_twice(fact: StaleGraph, failed: Statement, tree: Tree) -> Iterator[Candidate]:
    """Candidate that empties a store before each of the two passes of a step that fill it, as SAM makes them."""
    kept = tree.statement(fact.kept)
    part = only_part(kept)
    # `self.terms[name] = self.terms.get(name, 0.0) + value`
    store = part.targets[0].target if isinstance(part, cst.Assign) else store_of(kept, tree)
    store = without_index(store) if store is not None else None
    again = tree.statement_of(tree.expression(fact.outer.used)) if fact.outer is not None else None
    block = tree.block_of(failed)
    if kept is None or not isinstance(store, cst.Attribute) or again is None or again not in block:
        return
    for statement in block[: block.index(again)]:
        if _resets(statement, store.attr.value, kept, tree):
            patch = Edit(tree).insert_before(again, tree.own_code(statement)).patch()
            yield Candidate(patch, "empty the store before it is filled again", Keeps.PARAMETERS)


def _deep_down(name: str, tree: Tree) -> Iterator[Candidate]:
    """``for m in model.children(): m.losses.clear()`` reaches no module in another one: ``model.modules()`` does."""
    for module in tree.modules():
        for loop in tree.every(cst.For, module):
            call = loop.iter
            if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.args:
                continue
            deep = {"children": "modules", "named_children": "named_modules"}.get(call.func.attr.value)
            if deep is not None and any(clears(one, name, True, tree) for one in tree.statements_in(loop)):
                patch = Edit(tree).change(call.func.attr, lambda _, deep=deep: cst.Name(deep)).patch()  # type: ignore[misc]
                yield Candidate(patch, f"empty `{name}` in nested modules, too")


def _copies_emptied(name: str, tree: Tree) -> Iterator[Candidate]:
    """``net.terms.clear()``, where ``terms`` is a property that collects what several objects have, empties a copy."""
    for module in tree.modules():
        for line in tree.every(cst.SimpleStatementLine, module):
            asked = emptied_by(line, tree)
            if isinstance(asked, cst.Name):  # `terms = net.terms()`, and later `terms.clear()`
                asked = only_value(asked.value, tree.function_of(asked), tree)
            if isinstance(asked, cst.Call) and not asked.args:
                asked = asked.func
            if isinstance(asked, cst.Attribute):
                owner = tree.code(asked.value)
                for code in _collected_by(asked.attr.value, name, owner, tree):
                    new = cst.parse_statement(code).with_changes(leading_lines=line.leading_lines)
                    patch = Edit(tree).change(line, lambda _, new=new: new).patch()  # type: ignore[misc]
                    yield Candidate(patch, f"empty the object that has `{name}`, not a copy of it")


def _collected_by(method: str, name: str, owner: str, tree: Tree) -> Iterator[str]:
    """Statements that empty the store *name*, or those of several objects, from which *method* collects a copy."""
    for module in tree.modules():
        for function in tree.every(cst.FunctionDef, module):
            body = tree.body_of(function)
            last = only_part(body[-1]) if body else None
            if function.name.value != method or not isinstance(last, cst.Return) or last.value is None:
                continue
            if f"self.{name}" in tree.paths_in(
                last.value
            ):  # `{name: torch.stack(seq) for name, seq in self.spikes.items()}`
                yield f"{owner}.{name}.clear()"
            for item, iterated, tests in _loops_over(name, function, tree):
                indent = tree.module_of(function).default_indent
                within = f"{indent}if {tests}:\n{indent}{indent}" if tests else indent
                items = re.sub(r"\bself\b", owner, iterated)
                yield f"for {item} in {items}:\n{within}{item}.{name}.clear()"


def _loops_over(name: str, function: cst.FunctionDef, tree: Tree) -> Iterator[tuple[str, str, str]]:
    """The loops of a function that take out the lists called *name*: their target, what they go through, and if what.

    ``[t for layer in layers for t in layer.terms]``, ``chain(*(layer.terms for ...))``, ``found.extend(layer.terms)``.
    """
    own = {function, *tree.statements_in(function)}
    made = [one for kind in (cst.ListComp, cst.GeneratorExp) for one in tree.every(kind, tree.module_of(function))]
    for comprehension in made:
        loop = comprehension.for_in
        inner = loop.inner_for_in.iter if loop.inner_for_in is not None else comprehension.elt
        if tree.statement_of(comprehension) in own and tree.code(inner) == f"{tree.code(loop.target)}.{name}":
            tests = " and ".join(tree.code(one.test) for one in loop.ifs)
            yield tree.code(loop.target), tree.code(loop.iter), tests
    for statement in own:
        if isinstance(statement, cst.For) and f"{tree.code(statement.target)}.{name}" in tree.paths_in(statement.body):
            yield tree.code(statement.target), tree.code(statement.iter), ""


def _stored_as_data(
    store: cst.BaseExpression, span: Span, fact: StaleGraph | Overwritten, tree: Tree
) -> Iterator[Candidate]:
    """Candidates that store values detached: a memory holds data, and fresh computations train the parameters."""
    for carrier in innermost([one for one in fact.carriers if one.statement == span]):
        expression = tree.expression(carrier.expression)
        if expression is not None and carrier.form is Form.TENSOR:
            patch = Edit(tree).change(expression, detach).patch()
            yield Candidate(
                patch,
                f"store detached tensors in `{carrier.name or tree.code(without_index(store))}`",
                Keeps.PARAMETERS,
            )


def _before_it_is_filled(
    store: cst.Attribute,
    emptied: str,
    kept: Statement,
    failed: Statement,
    fact: StaleGraph | Overwritten,
    tree: Tree,
) -> Iterator[Candidate]:
    """Emptied where its twin is: ``self.first.clear()`` is followed by ``self.second.clear()``.

    What a hook fills is emptied as the step begins: what is called between two steps, an evaluation, fills it too.
    """
    home, name = tree.function_of(failed), store.attr.value
    places = [path for path in sorted(tree.paths_in(home)) if path.endswith(f".{name}")]
    owners = [path.removesuffix(f".{name}") for path in places]
    for statement in tree.statements_in(home):
        if not tree.block_of(statement) or not _resets(statement, name, kept, tree):
            continue
        twin, _, method = tree.own_code(statement).rpartition(".")
        for owner in owners:
            if owner != twin:
                patch = Edit(tree).insert_after(statement, f"{owner}.{method}").patch()
                yield Candidate(patch, f"empty `{owner}` where `{twin}` is emptied")
    if not places and (place := _place(store, kept, failed, fact, tree)):
        places = [place]
    given = {one.name.value for one in home.params.params} if isinstance(home, cst.FunctionDef) else set()
    loop = next(tree.loops_around(failed), None)
    # A store that the function makes itself exists inside its loop.
    begins = home if all(place.partition(".")[0] in given for place in places) else loop
    body = tree.body_of(begins) if begins is not None else []
    if body and places and fills_in_a_hook(kept, tree):
        codes = [emptied.format(place) for place in places]
        patch = Edit(tree).insert_before(_first(body), *codes).patch()
        yield Candidate(patch, f"empty `{name}` before it is filled")


def _first(body: list[Statement]) -> Statement:
    """The first statement of a body that is no docstring."""
    part = only_part(body[0])
    documented = isinstance(part, cst.Expr) and isinstance(part.value, cst.SimpleString)
    return body[1] if documented and len(body) > 1 else body[0]


def _after_the_pass(
    store: cst.BaseExpression,
    emptied: str,
    kept: Statement,
    failed: Statement,
    fact: StaleGraph | Overwritten,
    tree: Tree,
) -> Iterator[Candidate]:
    """Emptied once the pass, the step and all else that mentions the list are through."""
    place = _place(store, kept, failed, fact, tree)
    if not place:
        return
    owner = place.rpartition(".")[0]
    names = [place.rpartition(".")[2], *companions(store, kept, failed, tree)]
    places = [f"{owner}.{name}" if owner else name for name in dict.fromkeys(names)]
    deletes = any(deleted(statement, tree) for statement in tree.statements_in(tree.module_of(failed)))
    codes = [f"del {one}[:]" if deletes else f"{one}.clear()" for one in places]
    filled = store_of(kept, tree)
    if "\n" in emptied or isinstance(filled, cst.Subscript):
        codes[0] = emptied.format(place)
        keys = _other_keys(filled, kept, tree) if filled is not None and codes[0].endswith("].clear()") else []
        codes += [f"{place}[{key}].clear()" for key in keys]
    else:
        emptied = codes[0].replace(place, "{}")
    codes += [emptied.format(other) for other in _read_beside(place, failed, tree)]
    last_names = {one.rpartition(".")[2] for one in places}
    after = _last_use(failed, last_names, tree)
    if (over := _loop_through(after, last_names, tree)) is not None:
        if any(_takes_out(call, last_names, tree) for call in calls_in(tree.module_of(kept))):
            return  # a memory that drops its items one by one is no list of one iteration
        after = over
    used = tree.function_of(after), tree.function_of(kept), _home_of_use(fact, tree)
    if _leaves(after) or any(_reads_elsewhere(name, kept, used, tree) for name in names[1:]):
        return
    patch = Edit(tree).insert_after(after, *dict.fromkeys(codes)).patch()
    yield Candidate(patch, f"empty `{place}` once its graphs have been used")


def _read_beside(place: str, failed: Statement, tree: Tree) -> list[str]:
    """The stores of this name in other objects that a statement reads along with it: a student's, and its teacher's."""
    owner, dot, name = place.rpartition(".")
    found: dict[str, None] = {}
    for statement in tree.statements_in(tree.function_of(failed)) if owner else ():
        paths = _own_paths(statement, tree)
        if place in paths:
            found.update(dict.fromkeys(one for one in sorted(paths) if one != place and one.endswith(f"{dot}{name}")))
    everywhere = list(tree.statements_in(tree.module_of(failed)))
    return [one for one in found if not any(clears(statement, one, False, tree) for statement in everywhere)]


def _own_paths(statement: Statement, tree: Tree) -> set[str]:
    """The paths in a line, or in what a loop goes through."""
    if isinstance(statement, cst.For):
        return tree.paths_in(statement.iter)
    return tree.paths_in(statement) if isinstance(statement, cst.SimpleStatementLine) else set()


def _loop_through(after: Statement, names: set[str], tree: Tree) -> Statement | None:
    """The outermost loop around a statement over one of the lists, which is not to be emptied under its hands."""
    found = None
    for loop in tree.loops_around(after):
        if isinstance(loop, cst.For) and any(path.rpartition(".")[2] in names for path in tree.paths_in(loop.iter)):
            found = loop
    return found


def _takes_out(call: cst.Call, names: set[str], tree: Tree) -> bool:
    """``memory.pop(0)``."""
    func = call.func
    owner = tree.code(func.value).rpartition(".")[2] if isinstance(func, cst.Attribute) else ""
    return owner in names and tree.called(call) in ("pop", "popleft", "remove")


def _by_its_method(
    store: cst.BaseExpression, kept: Statement, failed: Statement, fact: StaleGraph | Overwritten, tree: Tree
) -> Iterator[Candidate]:
    """``memory.clear_memory()``, which the class of the store has for it, and which nobody calls."""
    place = _place(store, kept, failed, fact, tree)
    owner, _, name = place.rpartition(".")
    for home in tree.every(cst.ClassDef, tree.module_of(kept)):
        methods = [one for one in home.body.body if isinstance(one, cst.FunctionDef)]
        made = (one for own in methods if own.name.value == "__init__" for one in tree.body_of(own))
        if not owner or not any(f"self.{name}" in emptied(one, tree) for one in made):
            continue
        for method in methods:
            body, called = tree.body_of(method), method.name.value
            if called.startswith("__") or len(method.params.params) != 1 or not body:
                continue
            wanted = any(tree.called(call) == called for module in tree.modules() for call in calls_in(module))
            if wanted or not all(_only_empties(one, tree) for one in body):
                continue
            after = _last_use(failed, {name}, tree)
            after = _loop_through(after, {name}, tree) or after
            if any(clears(one, name, True, tree) for one in body):
                code = f"{owner}.{called}()"
                yield Candidate(Edit(tree).insert_after(after, code).patch(), f"run `{code}` after the pass")


def _only_empties(statement: Statement, tree: Tree) -> bool:
    """Whether a statement empties something, and does nothing else."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    is_clear = isinstance(call, cst.Call) and tree.called(call) == "clear" and not call.args
    return is_clear or bool(emptied(statement, tree) or deleted(statement, tree))


def _other_keys(store: cst.BaseExpression, kept: Statement, tree: Tree) -> list[str]:
    """The keys of the other lists in a mapping of lists, as they are written, that the same loops fill, and no more.

    ``log["rewards"]`` belongs to ``log["log_probs"]``: one without the other would have another length.
    """
    if not isinstance(store, cst.Subscript):
        return []
    whole, own, loops = tree.code(store.value), tree.code(store), set(tree.loops_running(kept))
    found: list[str] = []
    statements = list(tree.statements_in(tree.module_of(kept)))
    for one in statements:
        other = store_of(one, tree)
        if not isinstance(other, cst.Subscript) or tree.code(other.value) != whole or tree.code(other) == own:
            continue
        code = tree.code(other)
        key = other.slice[0].slice.value if isinstance(other.slice[0].slice, cst.Index) else None
        filled_alike = set(tree.loops_running(one)) == loops
        emptied_already = any(clears(part, code, False, tree) for part in statements)
        if isinstance(key, (cst.SimpleString, cst.Integer)) and filled_alike and not emptied_already:
            found.append(tree.code(key))
    return list(dict.fromkeys(found))


def _in_the_loop(
    store: cst.BaseExpression, kept: Statement, fact: StaleGraph | Overwritten, tree: Tree
) -> Iterator[tuple[bool, Candidate]]:
    """Candidates that move a statement which empties the store before the loop to the start of each iteration.

    Each comes with whether the statement calls a method of the program's own.
    """
    loop = tree.statement(fact.loop)
    if loop is None or not tree.body_of(loop):
        return
    store = without_index(store)
    name = tree.code(store).rpartition(".")[2]
    is_attribute = isinstance(store, cst.Attribute)
    here: list[tuple[Statement, dict[str, str]]] = [(statement, {}) for statement in _before(loop, tree)]
    for statement, given in (*here, *_before_calls_of(loop, tree)):
        resets = _resets(statement, name, kept, tree)
        each = tree.body_of(statement) if isinstance(statement, cst.For) else []
        each_resets = bool(each) and all(
            _resets(one, name, kept, tree) for one in each
        )  # `for tap in taps: tap.reset()`
        each_clears = bool(each) and all(clears(one, name, is_attribute, tree) for one in each)
        resets = resets or (each_resets and not given)
        if resets or (not given and (each_clears or clears(statement, name, is_attribute, tree))):
            code = tree.own_code(statement)
            owner, dot, rest = code.partition(".")
            if given and owner not in given:
                continue
            inside = f"{given[owner]}{dot}{rest}" if given else code
            edit = Edit(tree).remove(statement).insert_before(tree.body_of(loop)[0], inside)
            yield (
                resets,
                Candidate(edit.patch(), f"run `{code.strip()}` before each iteration, not only before the first"),
            )


def _before(loop: Statement, tree: Tree) -> Iterator[Statement]:
    """The statements that come before a loop, or before what it stands in, the nearest first."""
    around: cst.CSTNode | None = loop
    while isinstance(around, (cst.For, cst.While, cst.With, cst.If, cst.SimpleStatementLine)):
        block = tree.block_of(around)
        yield from reversed(block[: block.index(around)] if around in block else [])
        parent = tree.parent_of(around)
        around = tree.parent_of(parent) if parent is not None else None


def _before_calls_of(loop: Statement, tree: Tree) -> Iterator[tuple[Statement, dict[str, str]]]:
    """Statements before the only call of the function that holds a loop, with its parameters by their arguments."""
    function = tree.function_of(loop)
    if not isinstance(function, cst.FunctionDef) or tree.class_of(function) is not None:
        return
    parameters = [one.name.value for one in function.params.params]
    calls = [
        (statement, call)
        for statement in tree.statements_in(tree.module_of(function))
        if isinstance(statement, cst.SimpleStatementLine)
        for call in calls_in(statement)
        if isinstance(call.func, cst.Name) and call.func.value == function.name.value
    ]
    if len(calls) != 1:
        return
    ((statement, call),) = calls
    given = {}
    for at, argument in enumerate(call.args):
        own = argument.keyword.value if argument.keyword is not None else parameters[at] if at < len(parameters) else ""
        given[tree.code(argument.value)] = own
    yield from ((one, given) for one in _before(statement, tree))


def _resets(statement: Statement, name: str, kept: Statement, tree: Tree) -> bool:
    """Whether a statement calls, on the object that has the store, a method of its class that empties it."""
    part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    home = tree.class_of(kept)
    if not isinstance(part, cst.Expr) or not isinstance(part.value, cst.Call) or home is None or part.value.args:
        return False
    called = tree.called(part.value)
    return any(
        isinstance(method, cst.FunctionDef)
        and method.name.value == called
        and any(clears(one, name, True, tree) for one in tree.body_of(method))
        for method in tree.body_of(home)
    )


def _where_read(store: cst.BaseExpression, fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """Emptied by the function that takes the values out, where one statement does: each of several objects' lists."""
    used = tree.expression(fact.used)
    if used is None or not isinstance(store, cst.Attribute):
        return
    name, home = store.attr.value, tree.function_of(used)
    reads = [
        (statement, path)
        for statement in tree.statements_in(home)
        if tree.function_of(statement) is home
        and isinstance(statement, cst.SimpleStatementLine)
        and not _leaves(statement)
        and tree.block_of(statement)
        for path in tree.paths_in(statement)
        if path.endswith(f".{name}")
    ]
    if len(reads) != 1:
        return
    statement, path = reads[0]
    if _loop_through(statement, {name}, tree) is not None:
        return
    indent = tree.module_of(statement).default_indent
    lines = [*_comprehended(statement, path.partition(".")[0], tree), f"{path}.clear()"]
    code = "\n".join(depth * indent + line for depth, line in enumerate(lines))
    yield Candidate(Edit(tree).insert_after(statement, code).patch(), f"empty `{path}` once its values are taken out")


def _comprehended(statement: Statement, name: str, tree: Tree) -> list[str]:
    """The loop of a comprehension in *statement* that gives *name*, as the headers of blocks, one in another."""
    pending: list[cst.CSTNode] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.CompFor) and name in {one.value for one in tree.names_in(node.target)}:
            tests = [f"if {' and '.join(tree.code(one.test) for one in node.ifs)}:"] if node.ifs else []
            return [f"for {tree.code(node.target)} in {tree.code(node.iter)}:", *tests]
        pending.extend(children(node))
    return []


def _place(
    store: cst.BaseExpression, kept: Statement, failed: Statement, fact: StaleGraph | Overwritten, tree: Tree
) -> str:
    """Name of the list in the code that makes the pass; empty where it is not known."""
    code, home = tree.code(store), tree.function_of(failed)
    name = code.rpartition(".")[2]
    if isinstance(store, cst.Name):
        within = tree.function_of(kept) is home or code in tree.paths_in(home)
        return code if within or _is_global(code, (kept, failed), tree) else ""
    paths = tree.paths_in(home)
    if isinstance(home, cst.Module):  # names in its functions and classes are not known outside of them
        outside = (one for one in home.body if not isinstance(one, (cst.FunctionDef, cst.ClassDef)))
        paths = {path for one in outside for path in tree.paths_in(one)}
    mentioned = sorted(path for path in paths if path.rpartition(".")[2] == name and "." in path)
    if mentioned:
        return code if code in mentioned else mentioned[0]
    if tree.class_of(kept) is not None and tree.class_of(kept) is tree.class_of(failed):
        return code
    known = [carrier.name for carrier in fact.outside if carrier.name in tree.paths_in(home)]
    if known:
        return known[0]  # the same list by another name
    for span in (fact.outer.used, fact.outer.made) if fact.outer is not None else ():
        call = tree.expression(span)
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and code.startswith("self."):
            if _one_of_many(call.func.value, failed, tree):
                continue
            return f"{tree.code(call.func.value)}.{name}"
    return ""


def _is_global(name: str, statements: Iterable[Statement], tree: Tree) -> bool:
    """Whether a name is that of one variable of the module, in the functions of all these statements."""
    modules = {tree.module_of(one) for one in statements}
    functions = {tree.function_of(one) for one in statements}
    if len(modules) > 1 or not any(tree.given(one, name) is not None for one in modules.pop().body):
        return False
    return not any(
        tree.given(one, name) is not None
        or (isinstance(function, cst.FunctionDef) and name in {one.value for one in tree.names_in(function.params)})
        for function in functions
        if not isinstance(function, cst.Module)
        for one in tree.statements_in(function)
    )


def _one_of_many(owner: cst.BaseExpression, failed: Statement, tree: Tree) -> bool:
    """Whether an object is the one that a loop is at, which is over where the pass is."""
    over = [loop for loop in tree.loops_around(owner) if loop not in list(tree.loops_around(failed))]
    names = {name.value for loop in over if isinstance(loop, cst.For) for name in tree.names_in(loop.target)}
    return any(name.value in names for name in tree.names_in(owner))


def _last_use(failed: Statement, names: set[str], tree: Tree) -> Statement:
    """The last statement after the pass, in its block, that is an optimizer's step or mentions one of the lists."""
    block = tree.block_of(failed)
    found = failed
    for statement in block[block.index(failed) :]:
        stepped = isinstance(statement, cst.SimpleStatementLine) and steps(statement, tree)
        if stepped or any(path.rpartition(".")[2] in names for path in tree.paths_in(statement)):
            found = statement
    return found


def _leaves(statement: Statement) -> bool:
    """Whether a statement may return, so that nothing would come after it."""
    pending: list[cst.CSTNode] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Return):
            return True
        pending.extend(children(node))
    return False


def _home_of_use(fact: StaleGraph | Overwritten, tree: Tree) -> cst.CSTNode | None:
    used = tree.expression(fact.used)
    return tree.function_of(used) if used is not None else None


def _reads_elsewhere(name: str, kept: Statement, known: tuple[cst.CSTNode | None, ...], tree: Tree) -> bool:
    """Whether a companion is read in a function that has nothing to do with the pass: it may be needed there still."""
    for statement in tree.statements_in(tree.module_of(kept)):
        if not isinstance(statement, cst.SimpleStatementLine) or tree.function_of(statement) in known:
            continue
        mentions = any(path.rpartition(".")[2] == name for path in tree.paths_in(statement))
        if (
            mentions
            and store_of(statement, tree) is None
            and not any(one.rpartition(".")[2] == name for one in emptied(statement, tree))
        ):
            return True
    return False
