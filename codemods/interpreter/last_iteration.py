"""Conditions that hold in the last iteration of a ``for`` only, or in all but the last: ``if i == len(loader) - 1:``.

The iterations of a loop over items of an unknown number stand for any others, so that none of them is the last one.  A
loop in which somebody asks for it is run once more than it would be, and this iteration is the last.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.policy import is_shape
from autofix.codemods.interpreter.values import Sequence, Symbol, Value

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
        found = _counting_loop(interp, counter) if _is_plain(bound) else None
        if found is None:
            continue
        instance, total, ahead = found
        beyond = _difference(interp, bound, total)
        asked = kind, beyond - ahead if beyond is not None else 0
        if asked in _LAST or asked in _NOT_LAST:
            interp.unrolling.asks_for_last.add(instance)
            return (instance in interp.unrolling.last) == (asked in _LAST)
    return None


def _difference(interp: Interpreter, one: ast.expr, other: ast.expr) -> int | None:
    """By how much a number is greater than another one; None where that is not known.

    Where the sizes of a tensor are asked for in a loop over its parts, they are the number of these.
    """
    for evaluate in (interp.eval, partial(_evaluated, interp)):
        (base, offset), (of_other, beyond) = _parts(evaluate(one)), _parts(evaluate(other))
        if base is not None and (base == of_other or (_is_number_of_parts(of_other) and _is_size(base))):
            return offset - beyond
    return None


def _is_number_of_parts(key: object) -> bool:
    """Whether a key is that of the length of a tensor, or of a tuple of its parts: ``len(x.unbind(1))``."""
    match key:
        case ("len", ("tensor", *_), *_):
            return True
    return False


def _is_size(key: object) -> bool:
    """Whether a key is that of a size of a tensor, or of a product of such: ``rows * x.shape[2]``."""
    match key:
        case ("mul", *factors):
            return any(map(_is_size, factors)) and all(_is_size(one) or isinstance(one, int) for one in factors)
    return is_shape(key)


def _counting_loop(interp: Interpreter, counter: ast.expr) -> tuple[int, ast.expr, int] | None:
    """The run of a loop that a value counts, its number of iterations, and what the value is in the first; else None.

    A loop that is run in full has a last iteration of its own.
    """
    match counter:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
            found = _filling_loop(interp, name)
        case _:
            name, ahead = _counted(counter)
            found = _loop_of(interp, name, ahead) if name else None
    return found if found is not None and found[0] not in interp.unrolling.lengths else None


def _counted(node: ast.expr) -> tuple[str, int]:
    """``i`` and 1 of ``i + 1``; an empty name for what is no name with a number."""
    match node:
        case ast.Name(id=name):
            return name, 0
        case ast.BinOp(ast.Name(id=name), ast.Add(), ast.Constant(value=int(number))):
            return name, number
    return "", 0


def _loop_of(interp: Interpreter, name: str, ahead: int) -> tuple[int, ast.expr, int] | None:
    """The run of the loop that counts by a name, for :func:`_counting_loop`; *ahead* is what is added to the name."""
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
            return (point.instance, total, ahead + start) if _is_plain(total) else None
    return None


def _filling_loop(interp: Interpreter, name: str) -> tuple[int, ast.expr, int] | None:
    """The run of the loop in each iteration of which a list gets one item more, for :func:`_counting_loop`."""
    point = next((one for one in reversed(interp.loops) if isinstance(one.statement.node, ast.For)), None)
    loop = point.statement.node if point is not None else None
    if point is None or not isinstance(loop, ast.For) or not interp.source.remembered(loop, _fills).get(name):
        return None
    slot = interp.scope.names.get(name)
    if point.iteration == 0 and slot is not None and isinstance(slot.value, Sequence) and not slot.value.more:
        interp.unrolling.filled[point.instance, name] = len(slot.value.items)
    first, total = interp.unrolling.filled.get((point.instance, name)), _number_of(loop.iter)
    if first is None or not _is_plain(total):
        return None
    return point.instance, total, first


def _evaluated(interp: Interpreter, total: ast.expr) -> Value:
    """A number of iterations, or one near it; the length of a comprehension that nobody has changed is known."""
    match total:
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            items = interp.eval(of)
            if isinstance(items, Sequence) and items.more and len(items.items) == items.made_of[0]:
                return items.made_of[1]
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            parts = _evaluated(interp, left), _evaluated(interp, right)
            if type(parts[0]) is int and type(parts[1]) is int:
                return parts[0] + parts[1] if isinstance(op, ast.Add) else parts[0] - parts[1]
    return interp.eval(total)


def _number_of(items: ast.expr) -> ast.expr:
    """The number of a loop's iterations, for what it goes through."""
    match items:
        case ast.Call(func=ast.Name(id="range"), args=[end]):
            return end
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
            return _length(_bare(inner))
    return _length(_bare(items))


def _fills(loop: ast.AST) -> dict[str, bool]:
    """The names to which a loop appends one item in each of its iterations, and does nothing else."""
    assert isinstance(loop, ast.For)
    filled: dict[str, bool] = {}
    for statement in loop.body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))):
                filled[name] = name not in filled
    once = {name for name, is_once in filled.items() if is_once}
    attributes = [part for part in ast.walk(loop) if isinstance(part, ast.Attribute)]
    for name in once:
        uses = [part for part in attributes if isinstance(part.value, ast.Name) and part.value.id == name]
        filled[name] = len(uses) == 1
    for part in ast.walk(loop):
        if isinstance(part, ast.Name) and part.id in once and not isinstance(part.ctx, ast.Load):
            filled[part.id] = False
    if any(isinstance(part, (ast.Continue, ast.Break)) for part in ast.walk(loop)):
        return {}
    return filled


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
    """Key of an unknown number without what was added to it, and that; for a known one, just itself."""
    if type(value) is int:
        return "number", value
    if not isinstance(value, Symbol):
        return None, 0
    base, number = value.key, 0
    if isinstance(base, tuple) and len(base) == 3 and base[0] == "plus" and isinstance(base[2], int):
        _, base, number = base
    if isinstance(base, tuple) and base[:1] == ("len",):
        base = base[:3]  # the length of a container that may have grown, which is another one each time it is asked for
    return base, number
