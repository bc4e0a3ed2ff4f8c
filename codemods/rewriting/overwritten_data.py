"""Data that a program writes its own results over: ``batch["x"] = net(batch["x"])``, of a batch that is used again.

A state reads the same way.  It begins with zeros, or gets something new in every iteration; an example has a label.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts import Overwritten, StaleGraph
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
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
    own = set[str]().union(*(targets_of(one, tree) for one in tree.statements_in(loop)))
    own |= tree.paths_in(loop.target) if isinstance(loop, cst.For) else set()
    function = tree.function_of(kept)
    if isinstance(function, cst.FunctionDef):
        own |= {one.name.value for one in function.params.params} - {"self"}
        own |= set[str]().union(*(targets_of(one, tree) for one in tree.statements_in(function)))
    return any(one.value in own - {base} for one in tree.names_in(value))


def _begins_empty(key: str, tree: Tree) -> bool:
    """Whether something of this name is made of zeros, or of nothing, as a state is."""
    return any(_is_empty(value, tree) for module in tree.modules() for value in _beginnings(key, module, tree))


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
        for one in part.targets if isinstance(part, cst.Assign) else ():
            place = one.target
            if isinstance(part, cst.Assign) and isinstance(place, (cst.Attribute, cst.Subscript)):
                if key_of(place, tree) == key:
                    yield part.value


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
