"""Concrete syntax nodes by themselves: what they consist of, and small expressions made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TypeVar

import libcst as cst

N = TypeVar("N", bound=cst.CSTNode)
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


COMPOUND = (cst.For, cst.While, cst.With, cst.If, cst.Try, cst.FunctionDef)


_ATOMS = (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Tuple, cst.List, cst.Dict, cst.ListComp, cst.DictComp)


def names_below(node: cst.CSTNode, below: Callable[[cst.CSTNode], Sequence[cst.CSTNode]]) -> Iterator[cst.Name]:
    stack: list[cst.CSTNode] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, cst.Name):
            yield part
        elif isinstance(part, (cst.Attribute, cst.Arg)):
            stack.append(part.value)
        else:
            stack.extend(below(part))


def only_part(statement: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    """The one small statement of a simple line; None for a compound statement, and where ``;`` parts several.

    ``x: Tensor = y`` is read as ``x = y``.
    """
    alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
    part: cst.BaseSmallStatement | None = statement.body[0] if alone else None  # type: ignore[union-attr]
    return without_annotation(part) if isinstance(part, cst.AnnAssign) and part.value is not None else part


def is_alone(node: cst.BaseExpression, part: cst.BaseSmallStatement | None) -> bool:
    """Whether a small statement is nothing but *node*, or a value for it alone."""
    if isinstance(part, cst.Assign):
        return [one.target for one in part.targets] == [node]
    return isinstance(part, cst.Expr) and part.value is node


def is_docstring(statement: cst.CSTNode) -> bool:
    """Whether a statement is nothing but a text."""
    part = only_part(statement)
    return isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))


class Unannotated(cst.Assign):
    """``x = y``, for ``x: Tensor = y``: an assignment that is read without its annotation."""

    stands_as: cst.AnnAssign | None = None
    """The annotated assignment in the tree."""


def comments_of(statement: Statement) -> list[cst.EmptyLine]:
    """The comments above a statement that speak of it; a heading speaks of all that follows."""
    return [line for line in statement.leading_lines if line.comment is not None and not is_heading(line)]


def is_heading(line: cst.EmptyLine) -> bool:
    """Whether a comment is the heading of a part of the script: ``# %% training``, ``# In[3]:``, ``# --- data ---``."""
    return line.comment is not None and re.match(r"#+ *(%%|In ?\[|[-=#*]{2,})", line.comment.value) is not None


def without_annotation(part: cst.AnnAssign) -> cst.Assign:
    assert part.value is not None
    plain = Unannotated([cst.AssignTarget(part.target)], part.value, semicolon=part.semicolon)
    object.__setattr__(plain, "stands_as", part)  # nodes are frozen
    return plain


def in_the_tree(node: cst.CSTNode) -> cst.CSTNode:
    return node.stands_as or node if isinstance(node, Unannotated) else node


def is_item(node: cst.CSTNode) -> bool:
    """Whether an expression is an item of something that has a name, with a key that is written there."""
    if (
        not isinstance(node, cst.Subscript)
        or len(node.slice) != 1
        or not isinstance(node.value, (cst.Name, cst.Attribute))
    ):
        return False
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, (cst.SimpleString, cst.Integer))


def pairs_of(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Pairs of a target and its value in an assignment; tuples on both sides are taken apart."""
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        if len(target.elements) == len(value.elements):
            yield from ((one.value, other.value) for one, other in zip(target.elements, value.elements, strict=True))
    else:
        yield target, value


def without_index(node: cst.BaseExpression) -> cst.BaseExpression:
    """``log`` of ``log[name][0]``: all of what an item is taken from."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


class _IsNode(dict[type, bool]):
    """Whether the values of a class are nodes: ``isinstance`` takes long to say so of an abstract class."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, cst.CSTNode)
        return self[kind]


class _Fields(dict[type, tuple[str, ...]]):
    """The fields of a class of nodes."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        self[kind] = tuple(field.name for field in fields(kind))
        return self[kind]


_IS_NODE, _FIELDS = _IsNode(), _Fields()
_ORDERS: dict[tuple[type, tuple[int, ...]], tuple[int, ...] | None] = {}
"""For a class of nodes and those of its fields that hold nodes, the order in which LibCST visits them; None where it
visits the nodes of several fields by turns."""


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes right below one, as ``node.children`` has them, which copies each node to find out."""
    groups: list[list[cst.CSTNode]] = []
    held: list[int] = []
    for at, name in enumerate(_FIELDS[type(node)]):
        value = getattr(node, name)
        if _IS_NODE[type(value)]:
            groups.append([value])
        elif type(value) in (list, tuple) and value:
            groups.append([one for one in value if _IS_NODE[type(one)]])
        else:
            continue
        held.append(at)
    key = type(node), tuple(held)
    if key not in _ORDERS:
        _ORDERS[key] = _order_of(node, groups)
    order = _ORDERS[key]
    return list(node.children) if order is None else [one for at in order for one in groups[at]]


def _order_of(node: cst.CSTNode, groups: Sequence[Sequence[cst.CSTNode]]) -> tuple[int, ...] | None:
    visited = {id(one): at for at, one in enumerate(node.children)}
    if visited.keys() != {id(one) for group in groups for one in group}:
        return None
    order = sorted(range(len(groups)), key=lambda at: visited[id(groups[at][0])] if groups[at] else -1)
    found = [visited[id(one)] for at in order for one in groups[at]]
    return tuple(order) if found == sorted(found) else None


def nodes_in(node: cst.CSTNode, *kinds: type[N]) -> list[N]:
    """All nodes of some *kinds* in *node*, itself included, each before those below it.

    ``libcst.matchers`` finds more, and takes a quarter of a second to import.
    """
    found: list[cst.CSTNode] = []
    pending = [node]
    while pending:
        one = pending.pop()
        if type(one) in kinds:
            found.append(one)
        pending.extend(reversed(children(one)))
    return found  # type: ignore[return-value]


def calls_in(node: cst.CSTNode) -> list[cst.Call]:
    """All calls in *node*, itself included."""
    return nodes_in(node, cst.Call)


def operands_of(node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """The two sides of an operation, or the arguments of a call."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    return [argument.value for argument in node.args] if isinstance(node, cst.Call) else []


def parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    """*node* as something that a ``.method()`` can follow."""
    if node.lpar or isinstance(node, _ATOMS):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def method_call(node: cst.CSTNode, name: str) -> cst.Call:
    """``node.name()``."""
    assert isinstance(node, cst.BaseExpression)
    return cst.Call(cst.Attribute(parenthesised(node), cst.Name(name)))


def detach(node: cst.CSTNode) -> cst.CSTNode:
    """``node.detach()``; of a value that is meant to require grad a leaf: ``x.detach().requires_grad_()``."""
    if is_made_to_require_grad(node):
        assert isinstance(node, cst.Call)
        assert isinstance(node.func, cst.Attribute)
        return node.with_changes(func=node.func.with_changes(value=method_call(node.func.value, "detach")))
    return method_call(node, "detach")


def requires_grad(node: cst.CSTNode) -> cst.CSTNode:
    return node if is_made_to_require_grad(node) else method_call(node, "requires_grad_")


def is_made_to_require_grad(node: cst.CSTNode) -> bool:
    """Whether an expression is ``x.requires_grad_()`` or ``x.requires_grad_(True)``."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    given = [argument.value for argument in node.args]
    return node.func.attr.value == "requires_grad_" and (
        not given or (len(given) == 1 and isinstance(given[0], cst.Name) and given[0].value == "True")
    )


def without_keyword(call: cst.CSTNode, keyword: str) -> cst.CSTNode:
    """A call without one of its keyword arguments."""
    assert isinstance(call, cst.Call)
    rest = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != keyword]
    if rest and len(rest) < len(call.args):
        rest[-1] = rest[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=rest)


def _ends_line(argument: cst.Arg) -> bool:
    """Whether a line ends behind the last argument of a call."""
    comma = argument.comma
    behind = argument.whitespace_after_arg if isinstance(comma, cst.MaybeSentinel) else comma.whitespace_after
    return isinstance(behind, cst.ParenthesizedWhitespace)


def with_keyword(call: cst.CSTNode, keyword: str, value: str) -> cst.CSTNode:
    """A call with a keyword argument set, among those of ``**options`` where there are any."""
    assert isinstance(call, cst.Call)
    made = cst.parse_expression(value)
    given = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword), None)
    if given is not None:
        return call.with_changes(args=[arg.with_changes(value=made) if arg is given else arg for arg in call.args])
    options = next((arg for arg in call.args if arg.star == "**"), None)
    if options is not None:
        both = cst.ensure_type(cst.parse_expression(f'{{**options, "{keyword}": {value}}}'), cst.Dict)
        return call.with_deep_changes(
            options, value=both.with_changes(elements=[cst.StarredDictElement(options.value), both.elements[1]])
        )
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    added = cst.Arg(made, cst.Name(keyword), equal=equal)
    args = list(call.args)
    if args:  # the bracket may stand on a line of its own: the new argument stands as the last one does
        last, between = args[-1], args[-2].comma if len(args) > 1 else cst.MaybeSentinel.DEFAULT
        if isinstance(between, cst.MaybeSentinel) or not _ends_line(last):
            between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        added = added.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        args[-1] = last.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*args, added])
