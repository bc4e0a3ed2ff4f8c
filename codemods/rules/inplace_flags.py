"""Layers and functions with ``inplace=True``: the flag is off."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import with_keyword, without_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate
from autofix.codemods.rules.other_names import Place, targets_for


def without_inplace(node: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``nn.ReLU(inplace=True)``, ``nn.ReLU(True)`` or ``F.relu(x, inplace=True)`` without the flag."""
    if not isinstance(node, cst.Call):
        return
    name = tree.code(node.func)
    if any(arg.star == "**" for arg in node.args):
        yield from _without_the_setting(tree)
    elif isinstance(node.func, cst.Name) and not node.args and not name[:1].isupper():
        # `make()`, where `make` is a partial that has the flag
        patch = Edit(tree).change(node, lambda call: with_keyword(call, "inplace", "False")).patch()
        yield Candidate(patch, f"let `{name}` return a new tensor")
    plain: cst.CSTNode = node
    if any(arg.keyword is not None and arg.keyword.value == "inplace" for arg in node.args):
        plain = without_keyword(node, "inplace")
    elif node.args and tree.code(node.args[-1].value) == "True" and _has_the_flag_last(node, tree):
        rest = list(node.args[:-1])
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        plain = node.with_changes(args=rest)
    if not isinstance(plain, cst.Call) or plain is node:
        return
    statement = tree.parent_of(node)
    changed = node.args[0].value
    if isinstance(statement, cst.Expr) and isinstance(changed, Place):  # `F.relu(x, inplace=True)`
        given = targets_for(changed, tree)
        if given is not None:
            assigned = cst.Assign([cst.AssignTarget(one) for one in given], plain, semicolon=statement.semicolon)
            yield Candidate(
                Edit(tree).change(statement, lambda _: assigned).patch(),
                f"assign a new tensor to `{tree.code(changed)}`",
            )
        return
    yield Candidate(Edit(tree).change(node, lambda _: plain).patch(), f"let `{name}` return a new tensor")


def _has_the_flag_last(call: cst.Call, tree: Tree) -> bool:
    """Whether the last of a call's arguments is ``inplace``: ``nn.ReLU(True)``, ``F.dropout(x, p, training, True)``."""
    name = tree.called(call)
    return name[:1].isupper() or catalogue.operation(name).at("inplace") == len(call.args) - 1


def _without_the_setting(tree: Tree) -> Iterator[Candidate]:
    """``{"p": 0.1, "inplace": True}``, of which a layer is made: the flag is off."""
    for module in tree.modules():
        for element in tree.every(cst.DictElement, module):
            if tree.code(element.key) in ('"inplace"', "'inplace'") and tree.code(element.value) == "True":
                patch = Edit(tree).change(element.value, lambda _: cst.Name("False")).patch()
                yield Candidate(patch, "let the layers made from these settings return new tensors")


def with_the_flag_off(node: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``layer.inplace = True`` with ``False``."""
    target = tree.parent_of(node) if node is not None else None
    assign = tree.parent_of(target) if isinstance(target, cst.AssignTarget) else target
    if (
        isinstance(assign, (cst.Assign, cst.AnnAssign))
        and assign.value is not None
        and tree.code(assign.value) == "True"
    ):
        patch = Edit(tree).change(assign.value, lambda _: cst.Name("False")).patch()
        yield Candidate(patch, "let the modules return new tensors")
