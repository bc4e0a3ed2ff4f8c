"""Parts of a tensor that go their own ways: which names are slices of a tensor that nothing else shows."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.autograd import groups
from autofix.codemods.rewriting.nodes import only_part, pairs_of
from autofix.codemods.rewriting.tree import Tree

_ABOUT = groups.SHAPES | {"device", "dtype"}
"""Attributes and methods of a tensor that do not read its data."""


def is_separate(name: cst.Name, tree: Tree) -> bool:
    """Whether nothing that is read through another name overlaps the slice of a tensor that *name* stands for.

    So for ``quat`` in ``shift, quat = pose[:, :3], pose[:, 3:]``, if that is all that is done with ``pose``.  Then it
    makes no difference whether what follows is written into the slice or is a new tensor under its name.
    """
    function = tree.function_of(name)
    if not isinstance(function, cst.FunctionDef):
        return False
    given = [value for place, value in _assignments(function, tree) if place == name.value]
    own = given[0] if len(given) == 1 else None
    if not isinstance(own, cst.Subscript) or not isinstance(own.value, cst.Name):
        return False
    return _shows_only(own.value.value, own, function, tree)


def _shows_only(base: str, own: cst.Subscript, function: cst.FunctionDef, tree: Tree) -> bool:
    """Whether all that *function* does with *base*, a tensor that it makes, leaves the slice *own* of it alone."""
    made = [value for place, value in _assignments(function, tree) if place == base]
    for mention in tree.names_in(function.body):
        if mention.value != base or _is_target(mention, tree):
            continue
        above = tree.parent_of(mention)
        asked = isinstance(above, cst.Attribute) and above.attr.value in _ABOUT
        if not asked and above is not own and not (isinstance(above, cst.Subscript) and _are_apart(above, own)):
            return False
    return len(made) == 1 and made[0] is not None and _is_new(made[0])


def _is_new(value: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor that has no other name: an operation does, and ``x.view(-1)`` does not."""
    while (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in groups.RESHAPES
    ):
        value = value.func.value
    return isinstance(value, (cst.Call, cst.BinaryOperation))


def _are_apart(one: cst.Subscript, other: cst.Subscript) -> bool:
    """Whether two slices have no item in common: ``x[:, :3]`` and ``x[:, 3:]``, ``x[0]`` and ``x[1]``."""
    if len(one.slice) != len(other.slice):
        return False
    pairs = [(a.slice, b.slice) for a, b in zip(one.slice, other.slice, strict=True)]
    different = [(a, b) for a, b in pairs if not a.deep_equals(b)]
    return len(different) == 1 and (_end_to_end(*different[0]) or _end_to_end(*different[0][::-1]))


def _end_to_end(a: cst.BaseSlice, b: cst.BaseSlice) -> bool:
    """Whether *b* begins where *a* ends, or they are two numbers from the same end."""
    if isinstance(a, cst.Index) and isinstance(b, cst.Index):
        return isinstance(a.value, cst.Integer) and isinstance(b.value, cst.Integer)
    if not isinstance(a, cst.Slice) or not isinstance(b, cst.Slice) or a.step is not None or b.step is not None:
        return False
    return a.upper is not None and b.lower is not None and a.upper.deep_equals(b.lower)


def _assignments(function: cst.FunctionDef, tree: Tree) -> Iterator[tuple[str, cst.BaseExpression | None]]:
    """The names that *function* gives values to, and the expressions, where one expression is all that is given."""
    for statement in tree.statements_in(function):
        part = only_part(statement)
        if not isinstance(part, cst.Assign):
            continue
        for one in part.targets:
            for target, value in pairs_of(one.target, part.value):
                alone = isinstance(target, cst.Name) and len(part.targets) == 1
                yield from ((name.value, value if alone else None) for name in tree.names_in(target))


def _is_target(name: cst.Name, tree: Tree) -> bool:
    above = tree.parent_of(name)
    if isinstance(above, cst.AnnAssign):
        return above.target is name
    return isinstance(above, cst.AssignTarget) or (
        isinstance(above, cst.Element) and any(isinstance(one, cst.AssignTarget) for one in tree.enclosing(above))
    )
