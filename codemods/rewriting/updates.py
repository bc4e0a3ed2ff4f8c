"""Functions that go on from what they left behind: a patch that calls one of them once more updates it twice."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import last_name, parse

_DEPTH = 3
"""Calls of functions by functions that are followed."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def updates_again(patch: Patch) -> str:
    """The attribute that *patch* updates once more, as it adds a call of a function that goes on from it; or empty.

    As ``self.mean``, of ``self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()``.
    """
    for mine, theirs in patch.program.changed(patch.patched):
        more = _called(theirs.text)
        more.subtract(_called(mine.text))
        for name in sorted(name for name, count in more.items() if count > 0):
            if found := _updated_by(name, patch.program, _DEPTH):
                return found
    return ""


@lru_cache(maxsize=64)
def _calls(text: str) -> tuple[str, ...]:
    return tuple(last_name(call.func) for call in parse(text).nodes.of(ast.Call))


def _called(text: str) -> Counter[str]:
    """How often a text calls functions, by the last part of their names."""
    return Counter(_calls(text))


def _updated_by(name: str, program: Program, deep: int) -> str:
    """The attribute that the only function or method called *name* updates, or what it calls on itself; or empty."""
    found = [one for file in program.files for one in _functions(file.text) if one.name == name]
    if len(found) != 1:
        return ""
    (function,) = found
    own = next(_updated(function), "")
    if own or not deep:
        return own
    called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    inner = (one.attr for one in called if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self")
    return next(filter(None, (_updated_by(one, program, deep - 1) for one in inner if one != name)), "")


def _functions(text: str) -> Iterator[_Function]:
    nodes = parse(text).nodes
    yield from nodes.of(ast.FunctionDef)
    yield from nodes.of(ast.AsyncFunctionDef)


def _updated(function: _Function) -> Iterator[str]:
    """Attributes of its own object that a function replaces by something that it computes of them.

    ``self.mean`` of ``self.mean = 0.9 * self.mean + x``, also of ``mean = 0.9 * self.mean + x; self.mean = mean``; not
    of ``self.mean = self.mean.detach()``, which may be done twice.
    """
    origins: dict[str, dict[str, bool]] = {}
    """The attributes that go into each name and each attribute, by their source, and whether it is computed of them."""
    statements = [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
    for statement in sorted(statements, key=lambda one: one.lineno):
        pairs = [pair for target in statement.targets for pair in _pairs(target, statement.value)]
        behind = [(target, _attributes(value, origins)) for target, value in pairs]
        for target, before in behind:
            path = ast.unparse(target)
            if isinstance(target, ast.Attribute) and before.get(path):
                yield path
            origins[path] = before


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The single targets of an assignment, each with the value that it gets, or with that of which it gets a part."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    for at, one in enumerate(target.elts):
        yield from _pairs(one, parts[at] if len(parts) == len(target.elts) else value)


def _attributes(value: ast.expr, origins: dict[str, dict[str, bool]]) -> dict[str, bool]:
    """The attributes ``self.x``, as they were before the function, in an expression; whether it computes of them."""
    found: dict[str, bool] = {}
    computes = any(_computes(one) for one in ast.walk(value))
    for one in ast.walk(value):
        if isinstance(one, ast.Name) or (isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self"):
            path = ast.unparse(one)
            known = origins.get(path, {path: False} if isinstance(one, ast.Attribute) else {})
            found |= {path: was or computes or found.get(path, False) for path, was in known.items()}
    return found


_SAME = frozenset("detach clone cpu cuda to float double tuple list dict items values keys map zip".split())
"""Calls that give the values of what they are given."""


def _computes(node: ast.AST) -> bool:
    """Whether a part of an expression computes a new value."""
    return isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and last_name(node.func) not in _SAME)
