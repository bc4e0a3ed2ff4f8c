"""Whether a branch can change anything that the tape sees: one that cannot is no reason for a path of its own.

A branch that only tells how things go (prints numbers, writes a log) is *quiet*: it sends nothing back, steps nothing,
makes, stores or changes no tensor, raises nothing and leaves no loop but its own.  What is not certainly quiet is not:
a call that is given a tensor or an object of the program, a value that lasts beyond the branch, a method by which
PyTorch's own objects are known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autofix.codemods.autograd.catalogue import operation
from autofix.codemods.interpreter.expressions import lookup
from autofix.codemods.interpreter.opaque_results import MODEL_METHODS
from autofix.codemods.interpreter.values import Name, Sequence, Symbol, TensorRef, Value, is_constant
from autofix.codemods.source.nodes import Nodes

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_OF_TORCH = frozenset("torch numpy".split())
_KNOWN = MODEL_METHODS | frozenset(
    "backward manual_backward grad step zero_grad unscale_ scale update data requires_grad numpy send put".split()
)
"""Attributes by which values that nobody read are known for models, optimizers, scalers, tensors and queues."""
_TELLING = frozenset("print len str repr int float round abs min max range enumerate format isinstance".split())
"""Python's own functions that do nothing to what they are given."""
_PARTS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)
_PARTS_OF_PARTS = (ast.FormattedValue, ast.Slice, ast.Starred, ast.keyword)


def is_quiet(interp: Interpreter, node: ast.If) -> bool:
    """Whether neither side of a condition does anything that the tape sees, with the values that names have now."""
    if node not in interp.source.nodes or not interp.source.remembered(node, _may_be_quiet):
        return False  # the loop that a framework runs is written by autofix: its statements are none of the file's
    kept = _kept(interp.source.nodes, node)
    reader = _Quiet(interp)
    return not kept and reader.plain(node.test) and reader.block([*node.body, *node.orelse], looping=False)


def statements_in(interp: Interpreter, node: ast.If) -> tuple[ast.stmt, ...]:
    """A condition with all that stands on both of its sides."""
    return tuple(part for part in interp.source.nodes.within(node) if isinstance(part, ast.stmt))


def _may_be_quiet(node: ast.If) -> tuple[bool, ...]:
    """Whether there is no statement in a branch that is never quiet; a tuple with something in it is true."""
    quiet = (ast.Expr, ast.Pass, ast.If, ast.For, ast.Break, ast.Continue, ast.Assign, ast.AugAssign)
    pending: list[ast.stmt] = [*node.body, *node.orelse]
    while pending:
        statement = pending.pop()
        if not isinstance(statement, quiet):
            return ()
        if isinstance(statement, (ast.If, ast.For)):
            pending += [*statement.body, *statement.orelse]
    return (True,)


def _kept(nodes: Nodes, node: ast.If) -> set[str]:
    """The names set in a branch that are used outside of it, wherever that is."""
    inside = [part for part in nodes.within(node) if isinstance(part, ast.Name)]
    stored = {part.id for part in inside if not isinstance(part.ctx, ast.Load)}
    if not stored:
        return stored
    everywhere = nodes.once(_uses)
    return {name for name in stored if everywhere[name] != sum(part.id == name for part in inside)}


def _uses(nodes: Nodes) -> dict[str, int]:
    """How often each name stands in a file."""
    found: dict[str, int] = {}
    for part in nodes.of(ast.Name):
        found[part.id] = found.get(part.id, 0) + 1
    for declared in nodes.all:
        if isinstance(declared, (ast.Global, ast.Nonlocal)):
            for name in declared.names:
                found[name] = found.get(name, 0) + 1
    return found


class _Quiet:
    """Reads a branch without running it."""

    def __init__(self, interp: Interpreter) -> None:
        self._interp = interp
        self._own: set[str] = set()
        """Names that the branch set to something plain."""

    def block(self, body: Iterable[ast.stmt], *, looping: bool) -> bool:
        """Whether statements are quiet; *looping* where they stand in a loop of the branch itself."""
        return all(self._statement(one, looping) for one in body)

    def _statement(self, node: ast.stmt, looping: bool) -> bool:
        match node:
            case ast.Pass():
                return True
            case ast.Break() | ast.Continue():
                return looping
            case ast.Expr(value=value):
                return self.plain(value)
            case ast.If(test=test, body=body, orelse=orelse):
                return self.plain(test) and self.block([*body, *orelse], looping=looping)
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                return self.plain(iterated) and self._set(target) and self.block([*body, *orelse], looping=True)
            case ast.Assign(targets=[target], value=value):
                return self.plain(value) and self._set(target)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                return name in self._own and self.plain(value)
        return False

    def _set(self, target: ast.expr) -> bool:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        self._own.update(names)
        return len(names) == len(parts)

    def plain(self, node: ast.AST) -> bool:
        """Whether an expression does nothing but compute a value that has no graph and is no object of the program."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name in self._own or self._is_plain(self._value(node))
            case ast.Attribute(value=owner, attr=name):
                return name not in _KNOWN and self.plain(owner)
            case ast.Subscript(value=owner, slice=index):
                return self.plain(owner) and self.plain(index)
            case ast.Call():
                return self._quiet_call(node)
        if isinstance(node, (*_PARTS, *_PARTS_OF_PARTS)):
            below = (part for part in ast.iter_child_nodes(node) if isinstance(part, (ast.expr, *_PARTS_OF_PARTS)))
            return all(map(self.plain, below))
        return False

    def _quiet_call(self, node: ast.Call) -> bool:
        match node.func:
            case ast.Attribute(value=ast.Name() as owner, attr="item") if not node.args and not node.keywords:
                return isinstance(self._value(owner), (TensorRef, Symbol))
            case ast.Attribute(value=owner, attr=name):
                of_tensors = operation(name).known and not self._is_of_library(owner)
                quiet = not (of_tensors or name in _KNOWN or name.endswith("_")) and self.plain(owner)
            case ast.Name() as function:
                value = self._value(function)
                quiet = isinstance(value, Name) and value.path.removeprefix("builtins.") in _TELLING
            case _:
                return False
        return quiet and all(map(self.plain, (*node.args, *node.keywords)))

    def _is_of_library(self, node: ast.expr) -> bool:
        """Whether something is written as a part of what was imported, or is a constant: no tensor."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and isinstance(self._value(node), Name))

    def _value(self, node: ast.Name) -> Value:
        """What a name stands for now."""
        slot = lookup(self._interp, node.id)
        if slot is not None:
            return slot.value
        return Name(f"builtins.{node.id}") if node.id in _TELLING else _NOBODY

    def _is_plain(self, value: Value) -> bool:
        if isinstance(value, Symbol):
            return value.leaf is None and value.leaves is None
        if isinstance(value, Name):
            return value.path.partition(".")[0] not in _OF_TORCH
        if isinstance(value, Sequence):
            return value.kind == "tuple" and all(self._is_plain(slot.value) for slot in value.items)
        return is_constant(value)


_NOBODY: Value = object()
"""What a name stands for that nothing is known of."""
