"""Cuts that a script makes already, and that miss: a result that is dropped, a name alone, another name, one of two.

Whoever wrote ``for h in states: h = h.detach()`` knew what to do.  The line that does not do it is the mistake, and it
is that line which is corrected, or beside it that what was forgotten is cut as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting import retain
from autofix.codemods.rewriting.detaching import detached_code
from autofix.codemods.rewriting.edit import Edit, small_statement
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part, pairs_of
from autofix.codemods.rewriting.roles import calls_of, steps
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate


def without_effect(tree: Tree) -> Iterator[Candidate]:
    """Corrections of the statements that detach something and leave what they mean as it is."""
    dropped = (one for module in tree.modules() for one in tree.every(cst.Expr, module) if _detached_in(one))
    for part in {tree.line_of(one): one for one in sorted(dropped, key=tree.line_of)}.values():
        yield from _results_used(part, tree)
    for module in tree.modules():
        for statement in tree.statements_in(module):
            if isinstance(statement, cst.For):
                yield from _names_alone(statement, tree)
            elif isinstance(statement, cst.SimpleStatementLine):
                yield from _result_dropped(statement, tree)
                yield from _under_other_names(statement, tree)


def forgotten(fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """Beside ``cells = repackage(cells)``, which forgets ``guess``: ``guess = guess.detach()``."""
    loop = tree.statement(fact.loop)
    for carrier in {one.name: one for one in fact.carriers if one.name and one.form is not Form.OTHER}.values():
        kept = tree.statement(carrier.statement)
        name = carrier.name
        if kept is None or not (name.isidentifier() or name.startswith("self.")) or "*" in name:
            continue
        item = tree.fresh_name("state", "layer", "tensor")
        code = f"{name} = {detached_code(name, carrier.form, item, tree.torch_name(kept))}"
        home = loop if name.isidentifier() else tree.class_of(kept)
        for cut in tree.statements_in(home) if home is not None else ():
            cuts = _cut_by(cut, tree)
            if not cuts or name in cuts or cut is kept or not tree.block_of(cut) or _of_items(cut, cuts, tree):
                continue
            if name.isidentifier() and tree.function_of(cut) is not tree.function_of(kept):
                continue

            def build(edit: Edit, cut: Statement = cut, code: str = code) -> None:
                edit.insert_after(cut, code)

            for patch, more in retain.variants(fact, tree, build):
                remedy = f"detach `{name}` where `{cuts[0]}` is detached{more}"
                yield Candidate(patch, remedy, cause=tree.row_of(cut))


def misplaced(fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``if t % k == 0: h = h.detach()`` beside the window's own ``if (t + 1) % k == 0:`` moves behind its step."""
    passes = tree.statement(fact.failed)
    body = tree.parent_of(passes) if passes is not None else None
    window = tree.parent_of(body) if body is not None else None
    if passes is None or not isinstance(window, cst.If) or fact.loop is None:
        return
    names = {carrier.name.partition("[")[0] for carrier in fact.carriers}
    block = tree.block_of(passes)
    behind = [one for one in block[block.index(passes) :] if steps(one, tree)] or [passes]
    for other in tree.block_of(window):
        if not isinstance(other, cst.If) or other is window or other.orelse is not None:
            continue
        cuts = tree.body_of(other)
        cut = {name for one in cuts for name in _cut_by(one, tree)}
        if cut & names and all(_cut_by(one, tree) for one in cuts):
            codes = [tree.own_code(one).strip() for one in cuts]
            patch = Edit(tree).insert_after(behind[-1], *codes).remove(other).patch()
            remedy = f"detach {', '.join(f'`{name}`' for name in sorted(cut))} where its window ends"
            yield Candidate(patch, remedy, Keeps.PARAMETERS, cause=tree.row_of(cuts[0]))


def _cut_by(statement: Statement, tree: Tree) -> list[str]:
    """The names that a statement gives their own values without the graph: ``h`` in ``h = h.detach()``."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return []
    target, value = part.targets[0].target, part.value
    pairs = list(pairs_of(target, value))
    if len(pairs) > 1:  # `total, h = 0.0, h.detach()`
        return [tree.code(one) for one, own in pairs if _cuts([tree.code(one)], own, tree)]
    names = [one.value for one in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
    codes = [tree.code(one) for one in names]
    return codes if _cuts(codes, value, tree) else []


def _cuts(codes: list[str], value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a value is made of what has these names, without its graph."""
    if not set(codes) <= tree.paths_in(value):
        return False
    detached = {
        tree.code(call.func.value) for call in calls_of(value, "detach") if isinstance(call.func, cst.Attribute)
    }
    if isinstance(value, cst.BinaryOperation) and not detached & set(codes):
        return False  # `loss = loss - weight * advantage.detach()`
    return bool(detached) or any(_detaches(call, tree) for call in calls_in(value))


def _of_items(statement: Statement, names: list[str], tree: Tree) -> bool:
    """Whether the names are those of a loop's items: what it gives them is lost with the next item."""
    around = next((one for one in tree.enclosing(statement) if isinstance(one, cst.For)), None)
    return around is not None and bool({one.value for one in tree.names_in(around.target)} & set(names))


def _detaches(call: cst.Call, tree: Tree) -> bool:
    """Whether a function of the program is called that detaches something and returns a value."""
    function = tree.function_called(call)
    if function is None or not any(True for _ in calls_of(function.body, "detach")):
        return False
    return any(
        isinstance(one, cst.SimpleStatementLine) and isinstance(one.body[-1], cst.Return) and bool(one.body[-1].value)
        for one in tree.statements_in(function)
    )


def _result_dropped(line: cst.SimpleStatementLine, tree: Tree) -> Iterator[Candidate]:
    """``repackage(state)`` as a statement leaves ``state`` as it is: ``state = repackage(state)``."""
    part = only_part(line)
    call = part.value if isinstance(part, cst.Expr) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star:
        return
    given = call.args[0].value
    if isinstance(given, (cst.Name, cst.Attribute, cst.Subscript)) and _detaches(call, tree):
        code = f"{tree.code(given)} = {tree.code(call)}"
        new = small_statement(code)
        patch = Edit(tree).change(part, lambda _: new).patch()  # type: ignore[arg-type]
        yield Candidate(patch, f"assign the result of `{tree.code(call)}`")


def _under_other_names(line: cst.SimpleStatementLine, tree: Tree) -> Iterator[Candidate]:
    """``h, c = self.h.detach(), self.c.detach()``, where nothing reads ``h`` and ``c``: the attributes are meant."""
    part = only_part(line)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return
    pairs = list(pairs_of(part.targets[0].target, part.value))
    edit, names = Edit(tree), []
    for target, value in pairs:
        cut = _detached_by(value)
        if cut is None or not isinstance(target, (cst.Name, cst.Attribute)) or tree.code(target) == tree.code(cut):
            return
        home: cst.CSTNode = tree.function_of(line) if isinstance(target, cst.Name) else tree.module_of(line)
        if tree.count_paths(home, {tree.code(target)}) != 1:
            return
        names.append(tree.code(cut))
        edit.change(target, lambda _, cut=cut: cut)  # type: ignore[misc]
    if names:
        yield Candidate(edit.patch(), f"detach {', '.join(f'`{name}`' for name in names)} itself")


def _names_alone(loop: cst.For, tree: Tree) -> Iterator[Candidate]:
    """``for h in states: h = h.detach()`` gives the name another tensor, and leaves the states as they are."""
    names: list[str] = []
    edit, one_by_one = Edit(tree), True
    for statement in tree.body_of(loop):
        part = only_part(statement)
        if not isinstance(part, cst.Assign) or len(part.targets) != 1:
            return
        calls = []
        for target, value in pairs_of(part.targets[0].target, part.value):
            cut = _detached_by(value)
            if not isinstance(target, cst.Name) or cut is None or tree.code(cut) != target.value:
                return
            calls.append(cst.Expr(cst.parse_expression(f"{target.value}.detach_()")))
            names.append(target.value)
        one_by_one = one_by_one and len(calls) == 1
        if len(calls) == 1:
            edit.change(part, lambda _, call=calls[0]: call)  # type: ignore[misc]
    if not names or not set(names) <= {name.value for name in tree.names_in(loop.target)} or loop.orelse is not None:
        return
    if isinstance(loop.target, cst.Tuple) and isinstance(loop.iter, (cst.Name, cst.Attribute)):
        parts = [tree.code(one.value) for one in loop.target.elements]
        yield _all_anew(loop, ", ".join(f"{part}.detach()" if part in names else part for part in parts), tree)
        return
    place = _place_of(loop, names, tree)
    part = only_part(tree.body_of(loop)[0])
    if place and isinstance(part, cst.Assign):
        put = Edit(tree).change(part.targets[0].target, lambda _: cst.parse_expression(place))
        yield Candidate(put.patch(), f"put the detached tensor into `{place}`")
    elif one_by_one:
        itself = ", ".join(f"`{name}`" for name in names)
        yield Candidate(edit.patch(), f"detach each {itself} itself, not the name alone")
        if isinstance(loop.target, cst.Name) and isinstance(loop.iter, (cst.Name, cst.Attribute)):
            yield _all_anew(loop, f"{loop.target.value}.detach()", tree)  # views cannot be detached in place


def _all_anew(loop: cst.For, item: str, tree: Tree) -> Candidate:
    """The list that a loop goes through, made anew of such items."""
    names, states = tree.code(loop.target).strip(), tree.code(loop.iter)
    place = states if isinstance(loop.iter, cst.Attribute) else f"{states}[:]"  # a list that was handed in
    whole = f"({item})" if isinstance(loop.target, cst.Tuple) else item
    line = cst.parse_statement(f"{place} = [{whole} for {names} in {states}]")
    headed = line.with_changes(leading_lines=loop.leading_lines)
    patch = Edit(tree).change(loop, lambda _: headed).patch()
    cause = tree.row_of(tree.body_of(loop)[0])
    return Candidate(patch, f"detach the tensors that `{states}` holds, not names alone", cause=cause)


def _place_of(loop: cst.For, names: list[str], tree: Tree) -> str:
    """``memory[node]`` for the value in ``for node, value in memory.items()``; empty for other loops."""
    over = loop.iter
    if not isinstance(loop.target, cst.Tuple) or not isinstance(over, cst.Call) or len(loop.target.elements) != 2:
        return ""
    key, value = (tree.code(one.value) for one in loop.target.elements)
    if isinstance(over.func, cst.Attribute) and over.func.attr.value == "items" and not over.args:
        store = over.func.value
    elif tree.code(over.func) == "enumerate" and len(over.args) == 1:
        store = over.args[0].value
    else:
        return ""
    plain = isinstance(store, (cst.Name, cst.Attribute)) and names == [value]
    return f"{tree.code(store)}[{key}]" if plain else ""


def _results_used(part: cst.Expr, tree: Tree) -> Iterator[Candidate]:
    """``h.detach()`` as a statement leaves ``h`` as it is: it becomes ``h = h.detach()``, and so do those beside it."""
    line = tree.parent_of(part)
    if not isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        return
    beside = tree.block_of(line) if isinstance(line, cst.SimpleStatementLine) else []
    lines = [one for one in beside if isinstance(one, cst.SimpleStatementLine) and any(map(_detached_in, one.body))]
    loop = next((one for one in tree.enclosing(line) if isinstance(one, cst.For)), None)
    targets = {name.value for name in tree.names_in(loop.target)} if loop is not None else set()
    edit, names = Edit(tree), []
    for one in itertools.chain.from_iterable(there.body for there in lines or (line,)):
        value = _detached_in(one)
        if value is not None:
            name = tree.code(value)
            names.append(name)
            code = f"{name}.detach_()" if name in targets else f"{name} = {name}.detach()"
            new = small_statement(code)
            edit.change(one, lambda old, new=new: new.with_changes(semicolon=old.semicolon))  # type: ignore[misc]
    yield Candidate(edit.patch(), f"assign the result of {', '.join(f'`{name}.detach()`' for name in names)}")


def _detached_in(part: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression ``h`` of a statement ``h.detach()``, whose result nobody takes; None for others."""
    return _detached_by(part.value) if isinstance(part, cst.Expr) else None


def _detached_by(call: cst.BaseExpression) -> cst.BaseExpression | None:
    """``h`` of ``h.detach()``."""
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "detach":
        return call.func.value if isinstance(call.func.value, (cst.Name, cst.Attribute, cst.Subscript)) else None
    return None
