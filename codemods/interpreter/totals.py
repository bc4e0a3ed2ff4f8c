"""Loops that set a total, or a state, back: as they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache


def begins_again(name: str, node: ast.stmt, loop: ast.AST) -> bool:
    """Whether a loop, in which *node* adds to a total, sets that back, were it in every tenth iteration only."""
    name = ast.unparse(ast.parse(name))
    return any(
        isinstance(part, ast.Assign)
        and any(ast.unparse(target) == name for target in part.targets)
        and ((part is not node and not _mentions(part.value, name)) or _may_leave_out(part.value, name, loop))
        for part in _run_again(loop, name)
    )


def _may_leave_out(value: ast.expr, name: str, loop: ast.AST) -> bool:
    """Whether an expression chooses between an old total and none: ``loss if step % 10 == 0 else total + loss``."""
    for part in ast.walk(value):
        if isinstance(part, ast.IfExp) and _mentions(part, name):
            first = _found_first(part.test, name, loop)
            branches = {True: [part.orelse], False: [part.body], None: [part.body, part.orelse]}[first]
            if not all(_mentions(branch, name) for branch in branches):
                return True
    return False


def _mentions(value: ast.expr, name: str) -> bool:
    return any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) and ast.unparse(part) == name
        for part in ast.walk(value)
    )


def _found_first(test: ast.expr, name: str, loop: ast.AST) -> bool | None:
    """The answer that a loop's first iteration alone finds: to ``total is None``, ``not total``, ``step == 0``.

    For an item, or an attribute: to ``key not in totals``, ``not hasattr(self, "total")``.
    """
    match test:
        case ast.UnaryOp(ast.Not(), inner):
            first = _found_first(inner, name, loop)
            return None if first is None else not first
        case ast.Compare(asked, [sign], [ast.Constant(value=None | 0)]) if ast.unparse(asked) == name:
            return {ast.Is: True, ast.IsNot: False, ast.Eq: True, ast.NotEq: False}.get(type(sign))
        case ast.Compare(ast.Name(id=counter), [sign], [ast.Constant(value=0)]):
            first = {ast.Eq: True, ast.NotEq: False, ast.Gt: False}.get(type(sign))
            return first if _counts(loop, counter) else None
        case ast.Compare(key, [sign], [held]) if f"{_without_keys(held)}[{ast.unparse(key)}]" == name:
            return {ast.NotIn: True, ast.In: False}.get(type(sign))
        case ast.Call(ast.Name("hasattr"), [owner, ast.Constant(value=str(attribute))]):
            return False if f"{ast.unparse(owner)}.{attribute}" == name else None
    return False if ast.unparse(test) == name else None


def _counts(loop: ast.AST, counter: str) -> bool:
    """Whether a loop counts its iterations by a name, which it never sets back."""
    targets = ast.walk(loop.target) if isinstance(loop, ast.For) else ()
    if any(isinstance(one, ast.Name) and one.id == counter for one in targets):
        return True
    parts = list(ast.walk(loop))
    stored = [
        one for one in parts if isinstance(one, ast.Name) and one.id == counter and isinstance(one.ctx, ast.Store)
    ]
    raised = [one.target for one in parts if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add)]
    return bool(stored) and all(one in raised for one in stored)


def _without_keys(held: ast.expr) -> str:
    """The text of a dictionary, of which ``.keys()`` may be asked."""
    match held:
        case ast.Call(ast.Attribute(value=inner, attr="keys"), []):
            return ast.unparse(inner)
    return ast.unparse(held)


def _run_again(loop: ast.AST, name: str) -> Iterator[ast.AST]:
    """The parts of a loop, but for what only its first iteration runs, before there is a total."""
    pending = [loop]
    while pending:
        part = pending.pop()
        yield part
        parts = list(ast.iter_child_nodes(part))
        first = _found_first(part.test, name, loop) if isinstance(part, ast.If) else None
        if isinstance(part, ast.If) and first is not None:
            parts = part.orelse[:] if first else part.body[:]  # type: ignore[assignment]
        pending += parts


def is_assigned_elsewhere(name: str, node: ast.stmt, loop: ast.AST) -> bool:
    """Whether another statement in a loop assigns to a name: it may set a state back."""
    return any(one is not node for one in _assignments(loop).get(name, ()))


@lru_cache(maxsize=64)
def _assignments(loop: ast.AST) -> dict[str, list[ast.Assign]]:
    """The assignments in a loop by what they are made to, as it is written."""
    found: dict[str, list[ast.Assign]] = {}
    for part in ast.walk(loop):
        for target in part.targets if isinstance(part, ast.Assign) else ():
            for one in getattr(target, "elts", [target]):
                found.setdefault(ast.unparse(one), []).append(part)  # type: ignore[arg-type]
    return found
