"""The rewrites of single nodes that make a tensor of an array, and queries about the nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

import libcst as cst

from autofix.codemods.formula.values import Change
from autofix.codemods.rewriting.nodes import children, method_call, parenthesised
from autofix.codemods.rewriting.tree import Tree


def same(found: cst.CSTNode) -> cst.CSTNode:
    return found


def as_number(found: cst.CSTNode) -> cst.CSTNode:
    return method_call(found, "item")


def as_item(found: cst.CSTNode) -> cst.CSTNode:
    """``x.item()`` for ``float(x)``."""
    assert isinstance(found, cst.Call)
    return method_call(found.args[0].value, "item")


def as_array(found: cst.CSTNode) -> cst.CSTNode:
    return method_call(method_call(found, "detach"), "numpy")


def numel(found: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(found, cst.Attribute)
    return cst.Call(found.with_changes(attr=cst.Name("numel")))


def flip(axis: int) -> Change:
    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Subscript)
        return cst.Call(cst.Attribute(parenthesised(found.value), cst.Name("flip")), [cst.Arg(cst.Integer(str(axis)))])

    return change


def out_of_place(operator: cst.BaseBinaryOp) -> Change:
    """``a = a / b`` for ``a /= b``."""

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.AugAssign)
        assert isinstance(found.target, cst.Name)
        value = cst.BinaryOperation(found.target, operator, parenthesised(found.value))
        return cst.Assign([cst.AssignTarget(found.target)], value, semicolon=found.semicolon)

    return change


def drop_name(node: cst.CSTNode | None) -> str:
    """``detach`` for ``x.detach()``, ``data`` for ``x.data``; empty for anything else."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        forced = all(arg.keyword is not None and arg.keyword.value == "force" for arg in node.args)
        return node.func.attr.value if forced and node.func.attr.value != "data" else ""
    return "data" if isinstance(node, cst.Attribute) and node.attr.value == "data" else ""


def receiver(found: cst.CSTNode) -> cst.BaseExpression:
    if isinstance(found, cst.Call):
        found = found.func
    assert isinstance(found, cst.Attribute)
    return found.value


def with_receiver(step: cst.BaseExpression, value: cst.BaseExpression) -> cst.BaseExpression:
    """*step* (a method call or an attribute), taken of *value* instead."""
    if isinstance(step, cst.Call):
        assert isinstance(step.func, cst.Attribute)
        return step.with_changes(func=step.func.with_changes(value=parenthesised(value)))
    return step.with_changes(value=parenthesised(value))


def without_needless(found: cst.CSTNode) -> cst.CSTNode:
    """A line without its ``left = left``; nothing where that was all of it."""
    assert isinstance(found, cst.SimpleStatementLine)
    body = [part for part in found.body if not _is_needless(part)]
    if len(body) == len(found.body):
        return found
    if not body:
        return cst.RemovalSentinel.REMOVE  # type: ignore[return-value]
    return found.with_changes(body=[*body[:-1], body[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])


def _is_needless(part: cst.CSTNode) -> bool:
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return False
    bare = cst.Module([])
    value: cst.BaseExpression = part.value
    if isinstance(value, cst.ListComp) and not value.for_in.ifs and value.for_in.inner_for_in is None:
        if bare.code_for_node(value.elt) == bare.code_for_node(value.for_in.target):
            value = value.for_in.iter
    return bare.code_for_node(part.targets[0].target) == bare.code_for_node(value)


def on_one_line(tree: Tree, node: cst.BaseExpression) -> bool:
    return "\n" not in tree.code(node)


def nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    stack: list[cst.CSTNode] = [node]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(children(part))


def functions_in(module: cst.Module) -> list[cst.FunctionDef]:
    return [node for node in nodes_in(module) if isinstance(node, cst.FunctionDef)]


def pairs(keys: Iterable[Hashable]) -> Iterator[tuple[object, ...]]:
    return (key for key in keys if isinstance(key, tuple))


def imports_of(tree: Tree, module: cst.Module) -> Iterator[tuple[str, str]]:
    """Pairs of a name that a module binds by an import, and the dotted path that it stands for."""
    for node in nodes_in(module):
        if isinstance(node, cst.Import):
            for alias in node.names:
                path = tree.code(alias.name)
                name = alias.evaluated_alias
                yield (name, path) if name else (path.partition(".")[0], path.partition(".")[0])
        elif (
            isinstance(node, cst.ImportFrom) and node.module is not None and not isinstance(node.names, cst.ImportStar)
        ):
            for alias in node.names:
                name = alias.evaluated_alias or alias.evaluated_name
                yield name, f"{tree.code(node.module)}.{alias.evaluated_name}"


def renamed(tree: Tree, node: cst.Call, name: str, words: Mapping[str, str]) -> Change:
    """Rewrite of a call to torch's function *name*, its keywords renamed by *words*."""
    return called(cst.parse_expression(f"{tree.torch_name(node)}.{name}"), words)


def called(function: cst.BaseExpression, words: Mapping[str, str]) -> Change:
    """Rewrite of a call to one of *function*, its keywords renamed by *words*."""

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        return found.with_changes(func=function, args=[worded(arg, words) for arg in found.args])

    return change


def worded(argument: cst.Arg, words: Mapping[str, str]) -> cst.Arg:
    """An argument, its keyword renamed."""
    keyword = argument.keyword.value if argument.keyword is not None else ""
    return argument.with_changes(keyword=cst.Name(words[keyword])) if keyword in words else argument
