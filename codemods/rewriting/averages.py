"""Moving averages: ``mean = 0.9 * mean + 0.1 * new``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from autofix.codemods.rewriting.tree import Tree


def is_average(value: cst.BaseExpression | None, name: str, tree: Tree) -> bool:
    """Whether a value is a mean of what *name* was and something else.

    It is weighed by ``m`` and ``1 - m``, or of all values so far: ``(mean * (n - 1) + new) / n``.
    """
    match value:
        case cst.BinaryOperation(cst.BinaryOperation(left, cst.Add(), right), cst.Divide(), count):
            kept = [weight for term in (left, right) for weight, rest in _weighed(term) if tree.code(rest) == name]
            return any(_is_one_less(weight, count, tree) for weight in kept)
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return False
    for old, new in ((value.left, value.right), (value.right, value.left)):
        kept = [weight for weight, rest in _weighed(old) if tree.code(rest) == name]
        if any(_is_rest(one, other, tree) for one in kept for other, _ in _weighed(new)):
            return True
    return False


def _weighed(term: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The two sides of a product, each once as the weight of the other."""
    if isinstance(term, cst.BinaryOperation) and isinstance(term.operator, cst.Multiply):
        yield term.left, term.right
        yield term.right, term.left


def _is_one_less(one: cst.BaseExpression, count: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a number is a *count* without the newest value: ``n - 1`` of ``n``, ``n`` of ``n + 1``."""
    weight, whole = (re.sub(r"[\s()]", "", tree.code(number)) for number in (one, count))
    return weight == f"{whole}-1" or whole in (f"{weight}+1", f"1+{weight}")


def _is_rest(one: cst.BaseExpression, other: cst.BaseExpression, tree: Tree) -> bool:
    """Whether two weights make one: ``0.9`` and ``0.1``, ``m`` and ``1 - m``."""
    codes = [tree.code(weight).strip("() ") for weight in (one, other)]
    try:
        return abs(sum(map(float, codes)) - 1) < 1e-9
    except ValueError:
        pass
    return any(re.fullmatch(rf"1(\.0*)? *- *{re.escape(weight)}", rest) for weight, rest in (codes, codes[::-1]))
