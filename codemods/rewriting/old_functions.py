"""The methods of an autograd Function of the old kind, as they are read and rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

from autofix.codemods.rewriting.tree import Tree

Item = TypeVar("Item", cst.Param, cst.Arg, cst.BaseElement)


def has_self(method: cst.FunctionDef) -> bool:
    """Whether the first parameter of a method is ``self``."""
    return bool(method.params.params) and method.params.params[0].name.value == "self"


def returns_of(function: cst.FunctionDef, tree: Tree) -> list[cst.Return]:
    """The ``return`` statements of a function, but for those of functions inside of it."""
    return [
        part
        for one in tree.statements_in(function)
        if isinstance(one, cst.SimpleStatementLine) and tree.function_of(one) is function
        for part in one.body
        if isinstance(part, cst.Return)
    ]


def returns_fit(forward: cst.FunctionDef, backward: cst.FunctionDef, tree: Tree) -> bool:
    """Whether what ``backward`` returns can be told from what it must return for further arguments of ``forward``."""
    returns = returns_of(backward, tree)
    single = len(forward.params.params) == 2
    return bool(returns) and all(
        one.value is not None and (single or isinstance(one.value, cst.Tuple)) for one in returns
    )


def with_none(node: cst.CSTNode, count: int = 1) -> cst.CSTNode:
    """``return grad`` with None for *count* further arguments."""
    assert isinstance(node, cst.Return) and node.value is not None
    value = node.value
    elements = list(value.elements) if isinstance(value, cst.Tuple) else [cst.Element(value)]
    nones = [cst.Element(cst.Name("None")) for _ in range(count)]
    lpar = value.lpar if isinstance(value, cst.Tuple) else []
    rpar = value.rpar if isinstance(value, cst.Tuple) else []
    return node.with_changes(value=cst.Tuple([*without_commas(elements), *nones], lpar=lpar, rpar=rpar))


def without_commas(items: Sequence[Item]) -> list[Item]:
    """Parameters, arguments or elements to which others can be added."""
    return [one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in items]
