"""Objects of old autograd Functions that are kept and called again: handed to a static ``forward`` as an argument.

Such an object has settings or counts its calls (``self.iteration += 1``), and ``backward`` reads them: it stays what it
is, and only the way of calling it changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from autofix.codemods.rewriting.edit import Edit, small_statement
from autofix.codemods.rewriting.nodes import is_docstring, only_part
from autofix.codemods.rewriting.old_functions import (
    has_self,
    returns_fit,
    returns_of,
    with_none,
    without_commas,
)
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree

CONTEXT = {
    "save_for_backward": "save_for_backward",
    "saved_tensors": "saved_tensors",
    "saved_variables": "saved_tensors",
    "needs_input_grad": "needs_input_grad",
    "mark_dirty": "mark_dirty",
    "mark_non_differentiable": "mark_non_differentiable",
}
"""Attributes that an object of the old kind had from autograd, and their names at the context."""
WISHES = ("layer", "function", "owner", "function_object")


def handed_to_forward(
    forward: cst.FunctionDef,
    backward: cst.FunctionDef | None,
    mentions: Sequence[cst.Name],
    tree: Tree,
) -> Patch | None:
    """The patch by which ``self.reverse(x)`` becomes ``Reverse.apply(x, self.reverse)``; None where a use is another.

    *mentions* are all places of the program that name the class, but its own.
    """
    methods = [one for one in (forward, backward) if one is not None]
    taken = {name.value for one in methods for name in tree.names_in(one)}
    wish = next((one for one in WISHES if one not in taken), None)
    if wish is None or "ctx" in taken or not all(_only_attributes(one, tree) for one in methods):
        return None
    params = forward.params
    if params.kwonly_params or isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None:
        return None
    if any(param.default is not None for param in params.params):
        return None
    edit = Edit(tree)
    kept = [_kept_as(name, tree) for name in mentions if not isinstance(tree.parent_of(name), cst.ImportAlias)]
    if not kept or not all(one is not None and _calls_modern(edit, *one, tree) for one in kept):
        return None
    edit.change(forward, lambda node: _static(node, wish, first=True))
    if backward is not None:
        if not returns_fit(forward, backward, tree):
            return None
        for one in returns_of(backward, tree):
            edit.change(one, with_none)
        edit.change(backward, lambda node: _static(node, wish, first=False))
    return edit.patch()


def _only_attributes(method: cst.FunctionDef, tree: Tree) -> bool:
    """Whether ``self`` is the method's first parameter, and the method reads and sets its attributes alone."""
    if not has_self(method):
        return False
    own = method.params.params[0].name
    for name in tree.names_in(method):
        parent = tree.parent_of(name)
        if name.value == "self" and name is not own and not isinstance(parent, cst.Attribute):
            return False
    return True


def _kept_as(name: cst.Name, tree: Tree) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Under which name or attribute an object is kept, and the class as it is called: ``self.reverse``, ``Reverse``."""
    node: cst.BaseExpression = name
    parent = tree.parent_of(node)
    if isinstance(parent, cst.Attribute) and parent.attr is name:
        node, parent = parent, tree.parent_of(parent)
    statement = tree.statement_of(name)
    part = only_part(statement)
    if not isinstance(parent, cst.Call) or parent.func is not node or not isinstance(part, cst.Assign):
        return None
    if part.value is not parent or len(part.targets) != 1:
        return None
    target = part.targets[0].target
    if isinstance(target, cst.Name) or (isinstance(target, cst.Attribute) and tree.code(target.value) == "self"):
        return target, node
    return None


def _calls_modern(edit: Edit, target: cst.BaseExpression, owner: cst.BaseExpression, tree: Tree) -> bool:
    """Rewrite the calls of what is kept as *target*; False where it is used in another way, or out of sight."""
    code = tree.code(target)
    last = code.rpartition(".")[2]
    home = tree.module_of(target)
    within = tree.class_of(target) if "." in code else None
    called = False
    for module in tree.modules():
        pending: list[cst.CSTNode] = [module]
        while pending:
            node = pending.pop()
            pending.extend(tree.children_of(node))
            if isinstance(target, cst.Name):
                if not isinstance(node, cst.Name) or node.value != last or module is not home:
                    continue
                if isinstance(attribute := tree.parent_of(node), cst.Attribute) and attribute.attr is node:
                    continue  # a keyword or an attribute of the same name
            elif not isinstance(node, cst.Attribute) or node.attr.value != last:
                continue
            if node is target:
                continue
            outer = tree.parent_of(node)
            if isinstance(outer, cst.Attribute) and outer.value is node and outer.attr.value != "forward":
                continue  # a setting is read or set
            same = module is home and tree.code(node) == code and tree.class_of(node) is within
            if not same or not isinstance(outer, cst.Call) or outer.func is not node:
                return False
            if any(arg.keyword is not None or arg.star for arg in outer.args):
                return False
            edit.change(outer, lambda call: _applied(call, owner))
            called = True
    return called


def _applied(call: cst.CSTNode, owner: cst.BaseExpression) -> cst.CSTNode:
    assert isinstance(call, cst.Call)
    apply = cst.Attribute(owner, cst.Name("apply"))
    return call.with_changes(func=apply, args=[*without_commas(call.args), cst.Arg(call.func)])


class _Parted(cst.CSTTransformer):
    """``self.save_for_backward`` is the context's, ``self.scale`` the object's."""

    def __init__(self, wish: str) -> None:
        super().__init__()
        self.wish = wish
        self.used = False

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        if not isinstance(original_node, cst.Attribute) or not isinstance(updated_node, cst.Attribute):
            return updated_node
        if not isinstance(original_node.value, cst.Name) or original_node.value.value != "self":
            return updated_node
        known = CONTEXT.get(updated_node.attr.value)
        if known is not None:
            return updated_node.with_changes(value=cst.Name("ctx"), attr=cst.Name(known))
        self.used = True
        return updated_node.with_changes(value=cst.Name(self.wish))


def _static(node: cst.CSTNode, wish: str, *, first: bool) -> cst.CSTNode:
    """*node*, a method of the old kind, as a static one; the *first* one gets the object, the other one finds it."""
    assert isinstance(node, cst.FunctionDef)
    parted = _Parted(wish)
    changed = node.visit(parted)
    assert isinstance(changed, cst.FunctionDef) and isinstance(changed.body, cst.IndentedBlock)
    params = without_commas(changed.params.params)
    params[0] = params[0].with_changes(name=cst.Name("ctx"))
    body = list(changed.body.body)
    if first:
        params.append(cst.Param(cst.Name(wish)))
    if first or parted.used:
        code = f"ctx.{wish} = {wish}" if first else f"{wish} = ctx.{wish}"
        body.insert(1 if is_docstring(body[0]) else 0, cst.SimpleStatementLine([small_statement(code)]))
    return changed.with_changes(
        params=changed.params.with_changes(params=params),
        body=changed.body.with_changes(body=body),
        decorators=[cst.Decorator(cst.Name("staticmethod"))],
    )
