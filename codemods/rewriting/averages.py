"""Moving averages: ``mean = 0.9 * mean + 0.1 * new``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from autofix.codemods.rewriting.nodes import Statement, calls_in
from autofix.codemods.rewriting.tree import Tree


def is_average(value: cst.BaseExpression | None, name: str, tree: Tree) -> bool:
    """Whether a value is a mean of what *name* was and something else.

    Weighed by ``m`` and ``1 - m``, over a count, ``(mean * (n - 1) + new) / n``, by a step from the one to the other,
    ``mean + (new - mean) / n``, or by ``lerp``.
    """
    if isinstance(value, cst.Call):
        return _is_lerp(value, name, tree)
    if not isinstance(value, cst.BinaryOperation):
        return False
    if isinstance(value.operator, cst.Divide) and isinstance(value.left, cst.BinaryOperation):
        sides = (value.left.left, value.left.right) if isinstance(value.left.operator, cst.Add) else ()
        return any(tree.code(rest) == name for side in sides for _, rest in _weighed(side))
    if not isinstance(value.operator, cst.Add):
        return False
    for old, new in ((value.left, value.right), (value.right, value.left)):
        kept = [weight for weight, rest in _weighed(old) if tree.code(rest) == name]
        if any(_is_rest(one, other, tree) for one in kept for other, _ in _weighed(new)):
            return True
        if tree.code(old) == name and any(_is_step_from(name, part, tree) for part in _factors(new)):
            return True
    return False


def _is_lerp(call: cst.Call, name: str, tree: Tree) -> bool:
    """``mean.lerp(new, w)`` and ``torch.lerp(mean, new, w)``."""
    if tree.called(call) != "lerp" or not isinstance(call.func, cst.Attribute):
        return False
    return name in (tree.code(call.func.value), *(tree.code(one.value) for one in call.args[:1]))


def _factors(term: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The sides of a product, and what a division divides."""
    yield from (side for side, _ in _weighed(term))
    if isinstance(term, cst.BinaryOperation) and isinstance(term.operator, cst.Divide):
        yield term.left


def _is_step_from(name: str, part: cst.BaseExpression, tree: Tree) -> bool:
    """``new - mean``."""
    is_difference = isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Subtract)
    return isinstance(part, cst.BinaryOperation) and is_difference and tree.code(part.right).strip("() ") == name


def is_of_parameters(kept: Statement, value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a loop over parameters computes *value* of each: a statistic of the weights, such as their importance."""
    for loop in tree.loops_around(kept):
        if not isinstance(loop, cst.For):
            continue
        of_parameters = any(tree.called(call) in ("parameters", "named_parameters") for call in calls_in(loop.iter))
        keys = [one.slice for one in tree.inside(value) if isinstance(one, cst.Subscript)]
        inside = {name for key in keys for part in key for name in tree.names_in(part)}
        read = {name.value for name in tree.names_in(value) if name not in inside}
        if of_parameters and read & {name.value for name in tree.names_in(loop.target)}:
            return True
    return False


def _weighed(term: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The two sides of a product, each once as the weight of the other."""
    if isinstance(term, cst.BinaryOperation) and isinstance(term.operator, cst.Multiply):
        yield term.left, term.right
        yield term.right, term.left


def _is_rest(one: cst.BaseExpression, other: cst.BaseExpression, tree: Tree) -> bool:
    """Whether two weights make one: ``0.9`` and ``0.1``, ``m`` and ``1 - m``."""
    codes = [tree.code(weight).strip("() ") for weight in (one, other)]
    try:
        return abs(sum(map(float, codes)) - 1) < 1e-9
    except ValueError:
        pass
    return any(re.fullmatch(rf"1(\.0*)? *- *{re.escape(weight)}", rest) for weight, rest in (codes, codes[::-1]))
