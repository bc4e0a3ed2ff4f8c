"""Old Function: a ``torch.autograd.Function`` whose objects are called, as before PyTorch 0.4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.legacy import LegacyFunction
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.kept_functions import handed_to_forward
from autofix.codemods.rewriting.nodes import children, is_docstring
from autofix.codemods.rewriting.old_functions import (
    has_self,
    returns_fit,
    returns_of,
    with_none,
    without_commas,
)
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class ModernizeFunction(Codemod):
    """An object of a torch.autograd.Function is called; its forward and backward are methods.

    Error:
        RuntimeError: Legacy autograd function with non-static forward method is deprecated. Please use new-style
        autograd function with static forward method.

    Cause:
        Until PyTorch 0.4 a ``Function`` was made with its options and then called: ``GradReverse(scale)(x)``. Since 1.5
        ``forward`` and ``backward`` are static, get a context as their first argument, and run by ``apply``.

    Fix:
        What the constructor was given becomes further arguments of ``forward``, which keeps them in ``ctx``;
        ``backward`` returns None for each of them; ``GradReverse(scale)(x)`` becomes ``GradReverse.apply(x, scale)``.
        An object that is kept, with options that change, is handed on as it is: ``self.reverse(x)`` becomes
        ``GradReverse.apply(x, self.reverse)``.

    When it is not what you want:
        Where an object is handed to other code, which calls it, pass the options with every call by hand.

    Source:
        "Extending torch.autograd" in the PyTorch documentation.
    """

    code = "AF702"
    name = "legacy-function"
    answers = (LegacyFunction,)
    renames = True

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, LegacyFunction)
        forward = tree.statement(fact.defined)
        owner = tree.class_of(forward) if forward is not None else None
        if owner is None:
            return
        remedy = f"make the methods of `{owner.name.value}` static and call `apply`"
        old, edit = _read(owner, tree), Edit(tree)
        if old is not None and all(_call_modern(edit, name, old, tree) for name in _mentions(owner, old.init, tree)):
            _make_static(edit, old, tree)
            yield Candidate(edit.patch(), remedy)
            return
        patch = _kept_object(owner, tree)
        if patch is not None:
            yield Candidate(patch, f"{remedy} with the object that is kept")


def _kept_object(owner: cst.ClassDef, tree: Tree) -> Patch | None:
    """The patch for an object that is kept and has settings of its own, where ``forward`` can be handed it."""
    methods = {one.name.value: one for one in tree.body_of(owner) if isinstance(one, cst.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if set(methods) - {"__init__", "forward", "backward"} or any(one.decorators for one in methods.values()):
        return None
    if forward is None or not all(isinstance(one.body, cst.IndentedBlock) for one in methods.values()):
        return None
    return handed_to_forward(forward, backward, _mentions(owner, methods.get("__init__"), tree), tree)


@dataclass(frozen=True)
class _Old:
    """A class of the old kind, as far as it can be rewritten."""

    owner: cst.ClassDef
    init: cst.FunctionDef | None
    forward: cst.FunctionDef
    backward: cst.FunctionDef | None
    options: tuple[cst.Param, ...]
    """The parameters of ``__init__``."""
    settings: tuple[cst.SimpleStatementLine, ...]
    """The statements of ``__init__`` that keep them."""


def _read(owner: cst.ClassDef, tree: Tree) -> _Old | None:
    methods: dict[str, cst.FunctionDef] = {}
    for one in tree.body_of(owner):
        if isinstance(one, cst.FunctionDef):
            if one.decorators or one.name.value in methods or not isinstance(one.body, cst.IndentedBlock):
                return None
            methods[one.name.value] = one
        elif not isinstance(one, cst.SimpleStatementLine) or "self" in tree.paths_in(one):
            return None
    init, forward, backward = (methods.pop(name, None) for name in ("__init__", "forward", "backward"))
    if methods or forward is None or any(one is not None and not has_self(one) for one in (init, forward, backward)):
        return None
    options = _options(init) if init is not None else ()
    settings = _settings(init, tree) if init is not None else ()
    if options is None or settings is None:
        return None
    params = forward.params
    taken = {name.value for name in tree.names_in(forward)}
    if "ctx" in taken or (backward is not None and "ctx" in {name.value for name in tree.names_in(backward)}):
        return None
    if params.kwonly_params or params.star_kwarg is not None:
        return None
    if options:
        starred = isinstance(params.star_arg, cst.Param)
        if starred or any(param.default is not None for param in params.params):
            return None
        if taken & {option.name.value for option in options}:
            return None
    old = _Old(owner, init, forward, backward, options, settings)
    return old if backward is None or not options or returns_fit(forward, backward, tree) else None


def _options(init: cst.FunctionDef) -> tuple[cst.Param, ...] | None:
    params = init.params
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params:
        return None
    return tuple(params.params[1:])


def _settings(init: cst.FunctionDef, tree: Tree) -> tuple[cst.SimpleStatementLine, ...] | None:
    """The statements of a constructor that only keeps its arguments, and checks them: ``self.scale = scale``."""
    found = []
    for one in tree.body_of(init):
        if not isinstance(one, cst.SimpleStatementLine) or len(one.body) != 1:
            return None
        part = one.body[0]
        if isinstance(part, cst.Expr):
            code = tree.code(part.value)
            if not (code.startswith("super(") and code.endswith(".__init__()")) and not is_docstring(one):
                return None
        elif (
            isinstance(part, cst.Assign)
            and all(tree.code(target.target).startswith("self.") for target in part.targets)
        ) or (isinstance(part, cst.Assert) and all(name.value != "self" for name in tree.names_in(one))):
            found.append(one)
        elif not isinstance(part, cst.Pass):
            return None
    return tuple(found)


# Calls


def _mentions(owner: cst.ClassDef, init: cst.FunctionDef | None, tree: Tree) -> list[cst.Name]:
    """Every place of the program that has the class's name, but its own."""
    wanted = owner.name.value
    found = []
    for module in tree.modules():
        pending: list[cst.CSTNode] = [module]
        while pending:
            node = pending.pop()
            if isinstance(node, cst.Name) and node.value == wanted and node is not owner.name:
                found.append(node)
            if node is not init:
                pending.extend(children(node))
    return found


def _call_modern(edit: Edit, name: cst.Name, old: _Old, tree: Tree) -> bool:
    """Rewrite the use of the class that has this *name*; False where none of the rewrites would fit."""
    parent = tree.parent_of(name)
    if isinstance(parent, cst.ImportAlias):
        return parent.asname is None
    node: cst.BaseExpression = name
    if isinstance(parent, cst.Attribute) and parent.attr is name:
        node, parent = parent, tree.parent_of(parent)
    if not isinstance(parent, cst.Call) or parent.func is not node:
        return False
    made, outer = parent, tree.parent_of(parent)
    applied = cst.Attribute(node, cst.Name("apply"))
    if isinstance(outer, cst.Call) and outer.func is made:
        given = _bound(made, old.options)
        if given is None or any(arg.keyword is not None or (arg.star and given) for arg in outer.args):
            return False

        def change(call: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(call, cst.Call)
            plain = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in call.args]
            return call.with_changes(func=applied, args=[*plain, *(cst.Arg(value) for value in given)])

        edit.change(outer, change)
        return True
    if old.options or made.args or _has_state(old, tree):
        return False
    edit.change(made, lambda _: applied)
    return True


def _has_state(old: _Old, tree: Tree) -> bool:
    """Whether a setting of an object is changed by its methods, or read or changed by other code."""
    settings = {code.removeprefix("self.") for one in old.settings for code in targets_of(one, tree)}
    methods = [one for one in (old.forward, old.backward) if one is not None]
    for module in tree.modules() if settings else ():
        for node in tree.every(cst.Attribute, module):
            if node.attr.value not in settings:
                continue
            around = set(tree.enclosing(node))
            if old.init in around:
                continue
            own = any(method in around for method in methods)
            if not own or not _is_read(node, tree):
                return True
    return False


def _is_read(node: cst.Attribute, tree: Tree) -> bool:
    parent = tree.parent_of(node)
    return not isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.Element, cst.Del))


def _bound(made: cst.Call, options: tuple[cst.Param, ...]) -> list[cst.BaseExpression] | None:
    """A constructor's arguments in the order of its parameters, without defaults at the end; None if unclear."""
    names = [option.name.value for option in options]
    given: dict[str, cst.BaseExpression] = {}
    for at, arg in enumerate(made.args):
        name = arg.keyword.value if arg.keyword is not None else names[at] if at < len(names) else ""
        if arg.star or name not in names or name in given:
            return None
        given[name] = arg.value
    if list(given) and names[: len(given)] != [name for name in names if name in given]:
        return None
    return [given[name] for name in names if name in given]


# The class itself


def _make_static(edit: Edit, old: _Old, tree: Tree) -> None:
    settings = list(old.settings)
    first = old.init.leading_lines if old.init is not None and _precedes(old, tree) else None

    def forward(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.FunctionDef) and isinstance(node.body, cst.IndentedBlock)
        params = node.params.with_changes(params=[*without_commas(node.params.params), *without_commas(old.options)])
        body = list(node.body.body)
        at = 1 if is_docstring(body[0]) else 0
        body[at:at] = [one if number else one.with_changes(leading_lines=()) for number, one in enumerate(settings)]
        node = node.with_changes(params=params, body=node.body.with_changes(body=body))
        return _static(node if first is None else node.with_changes(leading_lines=first))

    edit.change(old.forward, forward)
    if old.init is not None:
        edit.remove(old.init)
    if old.backward is not None:
        for one in returns_of(old.backward, tree):
            if old.options:
                edit.change(one, lambda node: with_none(node, len(old.options)))
        edit.change(old.backward, _static)


def _precedes(old: _Old, tree: Tree) -> bool:
    """Whether ``forward`` comes next after the constructor."""
    body = tree.body_of(old.owner)
    assert old.init is not None
    return body.index(old.forward) == body.index(old.init) + 1


class _Contextual(cst.CSTTransformer):
    """``self`` is ``ctx``, and the old name of the saved tensors is the new one."""

    NAMES: ClassVar[dict[str, str]] = {"self": "ctx", "saved_variables": "saved_tensors"}

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        if isinstance(updated_node, cst.Name):
            return updated_node.with_changes(value=self.NAMES.get(updated_node.value, updated_node.value))
        return updated_node


def _static(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.FunctionDef)
    changed = node.visit(_Contextual())
    assert isinstance(changed, cst.FunctionDef)
    return changed.with_changes(decorators=[cst.Decorator(cst.Name("staticmethod"))])
