"""Coordinates of a peak: a loss is computed of the index of the largest value, which has no gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.rewriting.edit import Edit, small_statement
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_ELEMENTWISE = frozenset("float double half long int to type div floor_divide remainder fmod mul add sub".split())
"""Methods, and functions of torch's, that compute a number for each index by itself."""
_LAST = re.compile(r"\.(?:view|reshape)\((?:[^()]*,\s*)-1\)$|\.flatten\((\d)\)$")


class SoftenIndex(Codemod):
    """The loss is computed from coordinates of a maximum (argmax), which have no gradient.

    Error:
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn.

    Cause:
        ``peak = heat.flatten(2).argmax(dim=-1)`` is an integer, and ``peak % width`` a column: neither changes with a
        small change of the heat map, so PyTorch gives them no gradient.

    Fix:
        The coordinates' expectation under a softmax over all cells (soft-argmax) takes their place: every cell is
        weighed with its probability, ``(weight * (cell % width)).sum(dim=-1)``. Where the index picks one number of a
        scale, all of them are weighed likewise, ``(weight * degrees).sum(dim=-1)``. Indices of anything else, of
        classes above all, are left alone: their loss is a cross entropy.

    When it is not what you want:
        Where the forward pass must stay at one cell, compare the heat maps themselves with maps of the targets, and
        keep argmax for the metric. Where the heat map is nearly flat, multiply it by a factor before the softmax.

    Source:
        Luvizon et al., "Human pose regression by combining indirect part detection and contextual information", which
        uses soft-argmax; Nibali et al., "Numerical Coordinate Regression with Convolutional Neural Networks".
    """

    code = "AF406"
    name = "peak-index"
    answers = (CutGraph,)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, CutGraph)
        # A value computed from the index, a quotient above all, drops the graph again.
        if not fact.drops or fact.several or fact.silent or any(drop.how != "integer" for drop in fact.drops):
            return
        call = tree.expression(min(drop.span for drop in fact.drops))
        values, dim = _values_along(call, tree)
        statement = tree.statement_of(call)
        if values is not None and statement is not None and tree.block_of(statement):
            if _is_last(values, dim, tree) or (dim and dim == _dim_of_softmax(_written(values, tree), tree)):
                last = "-1" if _is_last(values, dim, tree) else dim
                yield from _read_off_a_grid(cst.ensure_type(call, cst.Call), values, last, statement, tree)
        if values is not None and not _is_last(values, dim, tree):
            return
        index = _index(call, tree)
        if values is None or statement is None or index is None or not tree.block_of(statement):
            return
        reads = [
            name
            for name in tree.names_in(tree.function_of(statement))
            if name.value == index.value and name is not index
        ]
        around = [_computed(name, tree) for name in reads]
        if not any(_splits(one, tree) for one in around) or any(
            one is name for one, name in zip(around, reads, strict=True)
        ):
            return
        torch = tree.torch_name(statement)
        weight, cell = tree.fresh_name("weight", "probability"), index.value
        edit = Edit(tree).insert_before(statement, f"{weight} = {tree.code(values)}.softmax(dim=-1)")
        cells = cst.parse_statement(f"{cell} = {torch}.arange({weight}.shape[-1], device={weight}.device)")
        edit.change(statement, lambda node: cells.with_changes(leading_lines=node.leading_lines))  # type: ignore[attr-defined]
        for one in dict.fromkeys(around):
            edit.change(one, lambda node: _expected(weight, node))
        yield Candidate(edit.patch(), f"use all cells instead of `{cell}`, each weighted with its probability")


def _read_off_a_grid(
    call: cst.Call, values: cst.BaseExpression, dim: str, statement: Statement, tree: Tree
) -> Iterator[Candidate]:
    """``cents[p.argmax(-1)]``, where ``cents`` are numbers in equal steps, becomes ``(p * cents).sum(-1)``."""
    part = only_part(statement)
    inner: cst.CSTNode | None = tree.parent_of(call)
    target: cst.BaseExpression | None = None
    if isinstance(part, cst.Assign) and len(part.targets) == 1:
        target = part.targets[0].target
    largest: cst.BaseExpression | None = None
    named = isinstance(part, cst.Assign) and part.value is call
    if named and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        largest, target = (one.value for one in target.elements)
    if named and isinstance(target, cst.Name):
        function = tree.function_of(statement)
        reads = [one for one in tree.names_in(function) if one.value == target.value and one is not target]
    elif isinstance(inner, cst.Index) and part is not None:
        reads = [call]  # type: ignore[list-item]
    else:
        return
    looked_up = [_lookup(one, tree) for one in reads]
    if part is None or not looked_up or any(one is None or not _is_grid(one.value, tree) for one in looked_up):
        return
    edit, weight = Edit(tree), tree.code(values)
    weighs: list[str] = []
    if not _is_softmax(_written(values, tree)):
        weight = tree.fresh_name("weight", "probability")
        weighs = [f"{weight} = {tree.code(values)}.softmax(dim={dim})"]
    elif not isinstance(values, cst.Name):
        return
    for one in looked_up:
        assert one is not None
        table = tree.code(one.value)
        edit.change(one, lambda _, table=table: cst.parse_expression(f"({weight} * {table}).sum(dim={dim})"))  # type: ignore[misc]
    if not named:
        edit.insert_before(statement, *weighs)
    elif largest is not None and tree.count_paths(tree.function_of(statement), {tree.code(largest)}) > 1:
        values_alone = small_statement(f"{tree.code(largest).strip()} = {tree.code(call)}.values")
        edit.insert_before(statement, *weighs).change(part, lambda _: values_alone)
    elif weighs:
        edit.change(part, lambda _: small_statement(weighs[0]))
    else:
        edit.remove(statement)
    yield Candidate(edit.patch(), f"use all of `{table}`, each weighted with its probability")


def _lookup(index: cst.BaseExpression, tree: Tree) -> cst.Subscript | None:
    """``table[index]``."""
    inner = tree.parent_of(index)
    element = tree.parent_of(inner) if isinstance(inner, cst.Index) else None
    around = tree.parent_of(element) if isinstance(element, cst.SubscriptElement) else None
    return around if isinstance(around, cst.Subscript) and len(around.slice) == 1 else None


_GRIDS = ("linspace", "arange", "logspace")


def _is_grid(table: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a table holds numbers in order: what lies between two of them means something, unlike between classes."""
    name = tree.code(table).rpartition(".")[2]
    for module in tree.modules():
        for call in tree.every(cst.Call, module):
            head, _, last = tree.code(call.func).rpartition(".")
            if last not in _GRIDS or head != tree.torch_name(call):
                continue
            whole: cst.CSTNode = call
            # `torch.arange(36).float() * 10.0`
            while isinstance(around := tree.parent_of(whole), (cst.Attribute, cst.BinaryOperation)):
                whole = around if isinstance(around, cst.BinaryOperation) else tree.parent_of(around) or around
            around = tree.parent_of(whole)
            names = [one.target for one in around.targets] if isinstance(around, cst.Assign) else []
            if any(tree.code(one).rpartition(".")[2] == name for one in names):
                return True
            registers = tree.parent_of(around) if isinstance(around, cst.Arg) else None
            if isinstance(registers, cst.Call) and tree.called(registers) == "register_buffer":
                if tree.code(registers.args[0].value).strip("'\"") == name:
                    return True
    return False


def _is_softmax(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "softmax"


def _dim_of_softmax(value: cst.BaseExpression, tree: Tree) -> str:
    """The dimension that a softmax was taken over, as it is written; empty for other values."""
    if not _is_softmax(value):
        return ""
    call = cst.ensure_type(value, cst.Call)
    function = cst.ensure_type(call.func, cst.Attribute)
    named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == "dim"]
    plain = [one.value for one in call.args if one.keyword is None]
    plain = plain[1:] if tree.is_of_torch(function) else plain
    return tree.code((named or plain)[0]) if named or plain else ""


def _values_along(call: cst.BaseExpression | None, tree: Tree) -> tuple[cst.BaseExpression | None, str]:
    """Operand of an ``argmax`` or ``max``, and its dimension as it is written; None and empty for other calls."""
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None, ""
    if call.func.attr.value not in ("argmax", "max") or any(one.star for one in call.args):
        return None, ""
    plain = [one.value for one in call.args if one.keyword is None]
    named = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    of_torch = tree.code(call.func.value) == tree.torch_name(call)
    values = (plain.pop(0) if plain else None) if of_torch else call.func.value
    dim = plain[0] if len(plain) == 1 else named.get("dim")
    if values is None or dim is None or named.keys() - {"dim"} or len(plain) > 1:
        return None, ""
    return values, tree.code(dim)


def _is_last(values: cst.BaseExpression, dim: str, tree: Tree) -> bool:
    """Whether a dimension of the values is their last, by what is written."""
    last = _LAST.search(tree.code(_written(values, tree)))
    return dim == "-1" or (last is not None and last[1] is not None and last[1] == dim)


def _written(values: cst.BaseExpression, tree: Tree) -> cst.BaseExpression:
    """The expression assigned to *values*, if it is a name with a single assignment; else *values* itself."""
    if isinstance(values, cst.Name):
        given = [
            value
            for one in tree.statements_in(tree.function_of(values))
            if (value := tree.given(one, values.value)) is not None
        ]
        return given[0] if len(given) == 1 else values
    return values


def _index(call: cst.BaseExpression | None, tree: Tree) -> cst.Name | None:
    """The name that the indices get, where the statement gives them one, and nothing else that is read."""
    statement = tree.statement_of(call)
    part = only_part(statement)
    if statement is None or not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return None
    target, value = part.targets[0].target, part.value
    takes = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "max"
    if not takes:
        return target if value is call and isinstance(target, cst.Name) else None
    if value is call and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        largest, index = (one.value for one in target.elements)
        mentions = tree.count_paths(tree.function_of(statement), {tree.code(largest)})
        return index if isinstance(index, cst.Name) and mentions == 1 else None
    picked = (
        isinstance(value, cst.Subscript) and value.value is call and tree.code(value) == f"{tree.code(value.value)}[1]"
    )
    named = isinstance(value, cst.Attribute) and value.value is call and value.attr.value == "indices"
    return target if (picked or named) and isinstance(target, cst.Name) else None


def _computed(name: cst.Name, tree: Tree) -> cst.BaseExpression:
    """The largest expression around *name* that computes something for each index by itself."""
    found: cst.BaseExpression = name
    while True:
        parent = tree.parent_of(found)
        if (
            isinstance(parent, cst.BinaryOperation)
            and parent.left is found
            and not isinstance(parent.operator, cst.MatrixMultiply)
        ):
            found = parent
            continue
        if isinstance(parent, cst.Attribute) and parent.value is found:  # a method of it
            call = tree.parent_of(parent)
            plain = isinstance(call, cst.Call) and call.func is parent
        else:  # the first argument of a function
            call = tree.parent_of(parent) if isinstance(parent, cst.Arg) else None
            plain = isinstance(call, cst.Call) and bool(call.args) and call.args[0] is parent
            plain = plain and tree.code(call.func).startswith(f"{tree.torch_name(name)}.")  # type: ignore[union-attr]
        if not plain or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return found
        if call.func.attr.value not in _ELEMENTWISE:
            return found
        found = call


def _splits(computed: cst.BaseExpression, tree: Tree) -> bool:
    """Whether an expression takes a row or a column out of an index."""
    parts = list(tree.inside(computed))
    signs = any(isinstance(one, cst.BinaryOperation) and isinstance(one.operator, _REST) for one in parts)
    calls = [one for one in parts if isinstance(one, cst.Call)]
    rounded = any(arg.keyword is not None and arg.keyword.value == "rounding_mode" for one in calls for arg in one.args)
    return signs or rounded or any(tree.called(one) in ("remainder", "fmod", "floor_divide") for one in calls)


_REST = (cst.Modulo, cst.FloorDivide)
"""Operators by which a row or a column is taken out of an index."""


def _expected(weight: str, node: cst.CSTNode) -> cst.CSTNode:
    """``(weight * x).sum(dim=-1)``."""
    assert isinstance(node, cst.BaseExpression)
    inner = (
        node
        if node.lpar or not isinstance(node, cst.BinaryOperation)
        else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )
    weighed = cst.ensure_type(cst.parse_expression(f"({weight} * x).sum(dim=-1)"), cst.Call)
    product = cst.ensure_type(cst.ensure_type(weighed.func, cst.Attribute).value, cst.BinaryOperation)
    return weighed.deep_replace(product.right, inner)
