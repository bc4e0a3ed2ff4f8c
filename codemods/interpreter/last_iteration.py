"""Conditions that hold in the last iteration of a ``for`` only, or in all but the last: ``if i == len(loader) - 1:``.

The iterations of a loop over items of an unknown number stand for any others, so that none of them is the last one.  A
loop in which somebody asks for it is run once more than it would be, and this iteration is the last.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.values import Symbol, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_LAST = frozenset(((ast.Eq, -1), (ast.GtE, -1), (ast.Gt, -2)))
"""Comparisons of a loop's counter with its number of iterations and an offset that hold in the last one."""
_NOT_LAST = frozenset(((ast.NotEq, -1), (ast.Lt, -1), (ast.LtE, -2)))
_WRAPPERS = frozenset(("tqdm", "trange", "track"))


def decided(interp: Interpreter, node: ast.Compare) -> bool | None:
    """Whether a comparison holds in the iteration that is run, if it asks for the last one; None for all others."""
    if len(node.ops) != 1 or type(node.ops[0]) not in _MIRRORED or not interp.loops:
        return None
    op = type(node.ops[0])
    for counter, bound, kind in ((node.left, node.comparators[0], op), (node.comparators[0], node.left, _MIRRORED[op])):
        name, ahead = _counted(counter)
        found = _loop_of(interp, name) if name and _is_plain(bound) else None
        if found is None:
            continue
        instance, total, start = found
        base, offset = _parts(interp.eval(bound))
        of_total, beyond = _parts(total)
        if base is None or base != of_total:
            continue
        asked = kind, offset - beyond - ahead - start
        if asked in _LAST or asked in _NOT_LAST:
            interp.unrolling.asks_for_last.add(instance)
            return (instance in interp.unrolling.last) == (asked in _LAST)
    return None


def _counted(node: ast.expr) -> tuple[str, int]:
    """``i`` and 1 of ``i + 1``; an empty name for what is no name with a number."""
    match node:
        case ast.Name(id=name):
            return name, 0
        case ast.BinOp(ast.Name(id=name), ast.Add(), ast.Constant(value=int(number))):
            return name, number
    return "", 0


def _loop_of(interp: Interpreter, name: str) -> tuple[int, Value, int] | None:
    """The run of the loop that counts by a name, its number of iterations, and its first number; None for no loop."""
    for point in reversed(interp.loops):
        loop = point.statement.node
        match loop:
            case ast.For(target=ast.Name(id=counter), iter=ast.Call(func=ast.Name(id="range"), args=[end])):
                total, start = end, 0
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=counter), _]),
                iter=ast.Call(func=ast.Name(id="enumerate"), args=[items, *first], keywords=keywords),
            ):
                given = [*first, *(one.value for one in keywords)]
                begins = given[0] if given else ast.Constant(0)
                if len(given) > 1 or not (isinstance(begins, ast.Constant) and isinstance(begins.value, int)):
                    continue
                total, start = _length(_bare(items)), begins.value
            case _:
                continue
        if counter == name:
            return (point.instance, interp.eval(total), start) if _is_plain(total) else None
    return None


def _length(items: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name("len", ast.Load()), items), [items], []), items)


def _bare(items: ast.expr) -> ast.expr:
    """``loader`` of ``tqdm(loader)``."""
    while isinstance(items, ast.Call) and items.args:
        function = items.func
        last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if last not in _WRAPPERS:
            break
        items = items.args[0]
    return items


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression may be evaluated again: names, attributes, numbers, lengths of such, and sums of these."""
    match node:
        case ast.Constant():
            return True
        case ast.BinOp(left=left, right=right):
            return _is_plain(left) and _is_plain(right)
        case ast.Call(func=ast.Name(id="len"), args=[one], keywords=[]):
            return isinstance(one, (ast.Name, ast.Attribute))
        case ast.Attribute(value=owner):
            return _is_plain(owner)
    return isinstance(node, ast.Name)


def _parts(value: Value) -> tuple[object, int]:
    """Key of an unknown number without what was added to it, and that; None for a known one."""
    if not isinstance(value, Symbol):
        return None, 0
    base, number = value.key, 0
    if isinstance(base, tuple) and len(base) == 3 and base[0] == "plus" and isinstance(base[2], int):
        _, base, number = base
    if isinstance(base, tuple) and base[:1] == ("len",):
        base = base[:3]  # the length of a container that may have grown, which is another one each time it is asked for
    return base, number
