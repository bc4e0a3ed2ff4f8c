"""Data that a program writes its own results over: ``batch["x"] = net(batch["x"])``, of a batch that is used again.

A state reads the same way.  It begins with zeros, or gets something new in every iteration; an example has a label.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.computations import draws, targets_of
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part, pairs_of
from autofix.codemods.rewriting.tree import Tree

Place = cst.Attribute | cst.Subscript
_EMPTY = ("None", "zeros", "new_zeros", "zeros_like", "full", "empty", "ones")


def overwritten_data(fact: StaleGraph | Overwritten, tree: Tree) -> tuple[Statement, Place] | None:
    """The statement, and its target, that writes a result over the data of an example; None where none does."""
    kept, loop = tree.statement(fact.kept), tree.statement(fact.loop)
    part = only_part(kept)
    if kept is None or loop is None or not fact.inside or not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return None
    target = part.targets[0].target
    if not isinstance(target, (cst.Attribute, cst.Subscript)) or not isinstance(target.value, cst.Name):
        return None
    base, key = target.value.value, key_of(target, tree)
    if base == "self" or not key or not _feeds_itself(target, part.value, tree):
        return None
    if _reads_something_new(base, part.value, kept, loop, tree) or _begins_empty(key, tree):
        return None
    return (kept, target) if _has_label(base, key, kept, loop, tree) else None


def key_of(place: Place, tree: Tree) -> str:
    """``x`` of ``data.x`` and of ``data["x"]``; empty for other items."""
    if isinstance(place, cst.Attribute):
        return place.attr.value
    index = place.slice[0].slice if len(place.slice) == 1 else None
    text = index.value if isinstance(index, cst.Index) else None
    return str(text.evaluated_value) if isinstance(text, cst.SimpleString) else ""


def _feeds_itself(target: Place, value: cst.BaseExpression, tree: Tree) -> bool:
    return any(tree.code(one) == tree.code(target) for one in tree.inside(value))


def _reads_something_new(base: str, value: cst.BaseExpression, kept: Statement, loop: Statement, tree: Tree) -> bool:
    """Whether a value is computed of more than its example: of what the loop sets, or the function is given."""
    home = tree.function_of(kept)
    set_by = list(tree.statements_in(loop)) if tree.function_of(loop) is home else []
    new = set[str]().union(*(tree.paths_in(one.target) for one in (loop, *set_by) if isinstance(one, cst.For)))
    if isinstance(home, cst.FunctionDef):
        new |= {one.name.value for one in home.params.params} - {"self"}
        set_by = list(tree.statements_in(home))
    known, pending = {base}, [value]
    while pending:
        part = pending.pop()
        names = {one.value for one in tree.names_in(part)} - known
        if names & new or any(draws(call, tree) for call in calls_in(part)):
            return True
        known |= names
        for statement in set_by:
            for name in names & targets_of(statement, tree):
                given = tree.given(statement, name)
                if given is None:
                    return True
                pending.append(given)
    return False


def _begins_empty(key: str, tree: Tree) -> bool:
    """Whether something of this name is made of zeros, or of nothing, as a state is."""
    return any(
        _is_empty(source, tree)
        for module in tree.modules()
        for value in _beginnings(key, module, tree)
        for source in _sources(value, tree)
    )


def _sources(value: cst.BaseExpression, tree: Tree, depth: int = 3) -> Iterator[cst.BaseExpression]:
    """A value, or, where it is a name, what that was given in its function, or by the callers of this."""
    if not isinstance(value, cst.Name) or not depth:
        yield value
        return
    function = tree.function_of(value)
    for statement in tree.statements_in(function):
        given = tree.given(statement, value.value)
        if given is not None:
            yield from _sources(given, tree, depth - 1)
    if isinstance(function, cst.FunctionDef):
        name = function.name.value
        for call in _calls_of(function, tree) if name == "__init__" else ():
            positions = [one.name.value for one in function.params.params][1:]
            for at, one in enumerate(call.args):
                position = positions[at] if at < len(positions) else ""
                if (one.keyword.value if one.keyword is not None else position) == value.value:
                    yield from _sources(one.value, tree, depth - 1)
        for given in tree.given_to(function, value.value) if name != "__init__" else ():
            yield from _sources(given, tree, depth - 1)


def _calls_of(function: cst.FunctionDef, tree: Tree) -> Iterator[cst.Call]:
    """The calls of the class whose constructor a function is."""
    home = tree.class_of(function)
    for module in tree.modules() if home is not None else ():
        yield from (call for call in tree.every(cst.Call, module) if home and tree.called(call) == home.name.value)


def _beginnings(key: str, module: cst.Module, tree: Tree) -> Iterator[cst.BaseExpression]:
    """The values that items, arguments and attributes of this name are made with."""
    for display in tree.every(cst.Dict, module):
        for one in display.elements:
            if isinstance(one, cst.DictElement) and isinstance(one.key, cst.SimpleString):
                if one.key.evaluated_value == key:
                    yield one.value
    for argument in tree.every(cst.Arg, module):
        if argument.keyword is not None and argument.keyword.value == key:
            yield argument.value
    for statement in tree.statements_in(module):
        part = only_part(statement)
        for target in part.targets if isinstance(part, cst.Assign) else ():
            for place, value in pairs_of(target.target, part.value) if isinstance(part, cst.Assign) else ():
                if isinstance(place, (cst.Attribute, cst.Subscript)) and key_of(place, tree) == key:
                    yield value


def _is_empty(value: cst.BaseExpression, tree: Tree) -> bool:
    return tree.code(value) == "None" or (isinstance(value, cst.Call) and tree.called(value) in _EMPTY)


def _has_label(base: str, key: str, kept: Statement, loop: Statement, tree: Tree) -> bool:
    """Whether the loop reads something else of the same example, beside what it writes over."""
    names = {base}
    if tree.function_of(kept) is not tree.function_of(loop):
        names = {
            argument.value.value
            for call in calls_in(loop)
            for argument in call.args
            if isinstance(argument.value, cst.Name)
        }
    functions = {id(call.func) for call in calls_in(loop)}
    written = {id(target) for one in tree.statements_in(loop) for target in _targets(one)}
    inside = set(map(id, tree.inside(kept)))
    return any(
        isinstance(one, (cst.Attribute, cst.Subscript))
        and isinstance(one.value, cst.Name)
        and one.value.value in names
        and key_of(one, tree) not in ("", key)
        and id(one) not in functions | written | inside
        for one in tree.inside(loop)
    )


def _targets(statement: Statement) -> list[cst.BaseExpression]:
    part = only_part(statement)
    return [one.target for one in part.targets] if isinstance(part, cst.Assign) else []
