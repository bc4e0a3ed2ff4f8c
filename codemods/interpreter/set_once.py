"""Values that are set while they have their first value: ``if self.scale[0] < 0: self.scale[0] = out.mean()``.

What a statement sets under a condition on nothing but that value itself, it sets once: the condition compares it with
constants, and asks whether somebody has set it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autofix.codemods.source.sources import Site, Source, dotted_name


def is_set_once(statement: Site) -> bool:
    """Whether a statement gives something a value that does not build on the former one, if it still has its first."""
    node, source = statement.node, statement.source
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    root = _root(node.targets[0])
    if not root or root in set(_paths(node.value)):
        return False
    return any(_asks_only(source, one, root) for one in source.ifs_around(node))


def _root(target: ast.expr) -> str:
    """``self.scale`` of ``self.scale[0]``; empty for a plain name, which a call begins anew."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return dotted_name(target) if isinstance(target, ast.Attribute) else ""


_LIBRARIES = frozenset(("torch", "numpy", "np", "math"))


def _paths(node: ast.AST) -> Iterator[str]:
    """The names in an expression, with the dots behind them: ``self.scale`` of ``self.scale[0].item()``.

    No functions, and no methods that are called: ``self.scale`` of ``float(self.scale.min())`` as well.
    """
    if isinstance(node, ast.Call):
        parts: list[ast.AST] = [*node.args, *(one.value for one in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            parts.append(node.func.value)
    elif isinstance(node, (ast.Attribute, ast.Name)) and (name := dotted_name(node)):
        if name not in _LIBRARIES:
            yield name
        return
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _paths(part)


def _asks_only(source: Source, condition: ast.If, root: str) -> bool:
    """Whether a condition asks for nothing but what stands under *root*, be it by a name that was given it before."""
    asked = set(_paths(condition.test))
    return bool(asked) and all(one == root or _is_read_from(source, condition, one, root) for one in asked)


def _is_read_from(source: Source, condition: ast.If, name: str, root: str) -> bool:
    """Whether a name is given nothing but what is read under *root*, in the function that asks for it."""
    around = next((one for one in source.nodes.of(ast.FunctionDef) if condition in source.nodes.within(one)), None)
    if around is None:
        return False
    given = [
        one.value
        for one in source.nodes.within(around)
        if isinstance(one, ast.Assign) and any(name in set(_paths(target)) for target in one.targets)
    ]
    return bool(given) and all(root in set(_paths(value)) for value in given)
