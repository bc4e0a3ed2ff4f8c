"""Other names of a tensor that is changed in place: their readers must see the new tensor, too.

``now = banks[0]`` and then ``now.mul_(0.9)`` changes what the bank holds.  ``now = now.mul(0.9)`` would not: the tape
shows no difference where the values have no graph, and the training goes on with old ones.
"""

from __future__ import annotations

import libcst as cst

from autofix.codemods.autograd.catalogue import VIEW_ATTRIBUTES
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part, pairs_of
from autofix.codemods.rewriting.tree import Tree

Place = cst.Name | cst.Attribute | cst.Subscript


def targets_for(changed: Place, tree: Tree) -> list[Place] | None:
    """Targets of the assignment that replaces an in-place change of *changed*, so that all its readers see the result.

    None where callers or others have names for the tensor that are not known here.
    """
    statement = tree.statement_of(changed)
    if not isinstance(changed, cst.Name) or statement is None:
        return [changed]
    function = tree.function_of(changed)
    around = next((one for one in tree.loops_around(statement) if tree.function_of(one) is function), None)
    again = _is_read_behind(changed, statement, around, tree)
    if isinstance(around, cst.For) and _has(around.target, changed, tree):
        return [changed] if again else None
    pairs = [
        (one, list(pairs_of(target.target, part.value)))
        for one in tree.statements_in(function)
        if isinstance(part := only_part(one), cst.Assign) and one is not statement
        for target in part.targets
    ]
    given = [(one, value, some) for one, some in pairs for name, value in some if tree.code(name) == changed.value]
    # `a, b = b, a`: what `a` stands for then is another tensor.
    aliases = [
        (one, value)
        for one, value, some in given
        if isinstance(value, Place) and tree.code(value) not in {tree.code(name) for name, _ in some}
    ]
    handed_in = isinstance(function, cst.FunctionDef) and not given and _has(function.params, changed, tree)
    if handed_in or len(given) > 1:
        return [changed] if again or not (handed_in or aliases) else None
    if not aliases:
        return [changed]
    ((taken, place),) = aliases
    if not _takes_another(place):
        return None
    lasts = _lasts_until(statement, taken, place, around, tree)
    if lasts is not True:
        return [changed] if lasts is False else None
    if not again:
        return [place]
    if isinstance(place, cst.Name):
        return [changed, place] if _is_read_behind(place, statement, around, tree) else [changed]
    return [changed, place] if _lasts(place, around, tree) else [changed]


def converted_before(statement: Statement, tensor: Place, method: str, tree: Tree) -> Edit | None:
    """Every name of a tensor takes the result of a method of it before *statement*: ``x = x.float()``.

    None where callers or others have names for it.
    """
    given = targets_for(tensor, tree)
    if given is None:
        return None
    names = " = ".join(map(tree.code, given))
    return Edit(tree).insert_before(statement, f"{names} = {tree.code(tensor)}.{method}()")


def _lasts_until(
    statement: Statement, taken: Statement, place: cst.BaseExpression, around: cst.For | cst.While | None, tree: Tree
) -> bool | None:
    """Whether *place* still is the tensor that a name was given at *taken*, when *statement* runs; None if not known.

    ``total = x`` in the first iteration is of no concern to ``total += x`` in the next one, which has another ``x``.
    """
    root = _holder(place)
    if not isinstance(root, cst.Name) or root.value == "self":
        return True
    function = tree.function_of(statement)
    anew = [one for one in tree.statements_in(function) if one is not taken and gives(one, root, tree)]
    inside = set(tree.statements_in(around)) if around is not None else set()
    if around is not None and isinstance(around, cst.For) and _has(around.target, root, tree):
        return None if taken not in inside else not _is_later(taken, statement, tree)
    first, last = tree.line_of(taken), tree.line_of(statement)
    if around is not None and taken in inside and _is_later(taken, statement, tree):
        changes = [one for one in anew if one in inside]
        return _settled(changes, tree.body_of(around))
    between = [one for one in anew if first < tree.line_of(one) < last]
    if between:
        around_it = [one for one in (statement, *tree.enclosing(statement)) if isinstance(one, Statement)]
        return _settled(between, [one for block in map(tree.block_of, around_it) for one in block])
    return None if taken not in inside and any(one in inside for one in anew if one is not statement) else True


def _settled(changes: list[Statement], always: list[Statement]) -> bool | None:
    """True without any changes, False if one of them is among the statements that *always* run; else None."""
    if not changes:
        return True
    return False if any(one in always for one in changes) else None


def _is_later(taken: Statement, statement: Statement, tree: Tree) -> bool:
    """Whether *statement* runs behind *taken* in another iteration only: above it, or on another side of a branch."""
    if tree.line_of(taken) > tree.line_of(statement):
        return True
    sides = {id(one): side for one, side in _sides_around(taken, tree)}
    return any(sides.get(id(one), side) != side for one, side in _sides_around(statement, tree))


def _sides_around(statement: Statement, tree: Tree) -> list[tuple[cst.If, bool]]:
    """The branches around a statement, each with whether the statement is on the side of its condition."""
    found: list[tuple[cst.If, bool]] = []
    inner: cst.CSTNode = statement
    for one in tree.enclosing(statement):
        if isinstance(one, cst.If):
            found.append((one, inner is one.body))
        inner = one
    return found


def _takes_another(place: cst.BaseExpression) -> bool:
    """Whether another tensor can be put in a place: not in ``x.T``, nor in what a call returns, ``x.chunk(2)[0]``."""
    while isinstance(place, (cst.Attribute, cst.Subscript)):
        if isinstance(place, cst.Attribute) and place.attr.value in VIEW_ATTRIBUTES:
            return False
        place = place.value
    return isinstance(place, cst.Name)


def _is_read_behind(name: cst.Name, statement: Statement, around: cst.For | cst.While | None, tree: Tree) -> bool:
    """Whether something reads the name once *statement* is through, in the loop around it as in what comes behind."""
    every = [one for one in tree.statements_in(tree.function_of(name)) if one is not statement]
    inside = set(tree.statements_in(around)) if around is not None else set()
    behind = tree.line_of(statement)
    anew = around is not None and (
        (isinstance(around, cst.For) and _has(around.target, name, tree))
        or any(gives(one, name, tree) and tree.line_of(one) < behind for one in inside)
    )
    if around is not None and not anew:
        return True  # the statement itself does, in the next iteration
    return any(_has(one, name, tree) for one in every if tree.line_of(one) > behind)


def gives(statement: Statement, name: cst.Name, tree: Tree) -> bool:
    """Whether a statement is an assignment that sets the name."""
    part = only_part(statement)
    return isinstance(part, cst.Assign) and any(_has(one.target, name, tree) for one in part.targets)


def _lasts(place: cst.BaseExpression, around: cst.For | cst.While | None, tree: Tree) -> bool:
    """Whether a container or object is there before the loop, so that the next iteration reads what it holds."""
    root = _holder(place)
    if not isinstance(root, cst.Name) or root.value == "self":
        return isinstance(root, cst.Name)
    if around is None or (isinstance(around, cst.For) and _has(around.target, root, tree)):
        return False
    return not any(gives(one, root, tree) for one in tree.statements_in(around))


def _holder(place: cst.BaseExpression) -> cst.BaseExpression:
    """What the attributes and items of a place are taken from: ``x`` of ``x.sums[0]``."""
    while isinstance(place, (cst.Attribute, cst.Subscript)):
        place = place.value
    return place


def _has(node: cst.CSTNode, name: cst.Name, tree: Tree) -> bool:
    return any(one.value == name.value for one in tree.names_in(node))
