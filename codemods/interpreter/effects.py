"""Whether a branch can change anything that the tape sees: one that cannot is no reason for a path of its own.

A branch that only tells how things go (prints numbers, writes a log, saves a checkpoint) is *quiet*: it sends nothing
back, steps nothing, makes, stores or changes no tensor, raises nothing and leaves no loop but its own, or one that it
is the last statement of.  So is one that gives weights their first values, before anything is computed with them.
What is not certainly quiet is not: a call that is given a tensor with a graph or an object of the program, a value that
lasts beyond the branch and is not only told, a method by which PyTorch's own objects are known.

A function that works out a number of numbers, as the schedule of a learning rate does, decides nothing either.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from autofix.codemods.interpreter.quiet import Reader, Reading, is_numeric
from autofix.codemods.interpreter.values import Function
from autofix.codemods.source.nodes import Nodes

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def quiet(interp: Interpreter, node: ast.If) -> Reading | None:
    """Reading of a condition neither side of which does anything that the tape sees, with the values that names have
    now; None for any other condition.
    """
    if node not in interp.source.nodes or not interp.source.remembered(node, _may_be_quiet):
        return None  # the loop that a framework runs is written by autofix: its statements are not in the file
    nodes = interp.source.nodes
    reader = Reader(interp, interp.source, node)
    ends = node in nodes.once(_last_in_loops)
    if not (reader.keeps_all() and reader.plain(node.test) and reader.block(node.body, looping=ends)):
        return None
    reading = reader.reading
    first, reading.loads = reading.loads, False
    if not reader.block(node.orelse, looping=ends):
        return None
    if first != reading.loads:
        reading.fresh = node.orelse if first else node.body
    return reading


def statements_in(interp: Interpreter, node: ast.If) -> tuple[ast.stmt, ...]:
    """A condition with all that stands on both of its sides."""
    return tuple(part for part in interp.source.nodes.within(node) if isinstance(part, ast.stmt))


def _may_be_quiet(node: ast.If) -> tuple[bool, ...]:
    """Whether there is no statement in a branch that is never quiet; a tuple with something in it is true."""
    quiet = (ast.Expr, ast.Pass, ast.If, ast.For, ast.With, ast.Break, ast.Continue, ast.Assign, ast.AugAssign)
    pending: list[ast.stmt] = [*node.body, *node.orelse]
    while pending:
        statement = pending.pop()
        if not isinstance(statement, quiet):
            return ()
        if isinstance(statement, (ast.If, ast.For, ast.With)):
            pending += [*statement.body, *getattr(statement, "orelse", ())]
    return (True,)


def _last_in_loops(nodes: Nodes) -> set[ast.AST]:
    """The conditions that a turn of a loop ends with: to leave the loop there is to have had no further turn."""
    found: set[ast.AST] = set()
    loops: list[ast.For | ast.While] = [*nodes.of(ast.For), *nodes.of(ast.While)]
    pending = [one.body for one in loops if not one.orelse]
    while pending:
        last = pending.pop()[-1]
        if isinstance(last, ast.If):
            found.add(last)
            pending += [side for side in (last.body, last.orelse) if side]
    return found


def only_tells(interp: Interpreter, node: ast.Expr) -> bool:
    """Whether an expression that is a statement does nothing that the tape sees."""
    return node in interp.source.nodes and Reader(interp, interp.source, node).block([node], looping=False)


def chooses_number(interp: Interpreter, node: ast.IfExp) -> bool:
    """Whether either value of a conditional expression is a number that is worked out of plain values."""
    sides = (node.body, node.orelse)
    if node not in interp.source.nodes or not all(map(is_numeric, sides)):
        return False
    reader = Reader(interp, interp.source, node)
    return all(reader.plain(side) and reader.is_number(side) for side in sides)


def begins_anew(interp: Interpreter, node: ast.IfExp) -> ast.expr | None:
    """The value of a run that begins anew, where the other one goes on from a checkpoint; None for any other choice.

    ``start = load_checkpoint(args.resume, model) if args.resume else 0``
    """
    if node not in interp.source.nodes:
        return None
    read: list[bool] = []
    for side in (node.body, node.orelse):
        reader = Reader(interp, interp.source, node)
        if not reader.plain(side):
            return None
        read.append(reader.reading.loads)
    if read[0] == read[1]:
        return None
    return node.orelse if read[0] else node.body


def computes_number(interp: Interpreter, function: Function) -> bool:
    """Whether a function of the program, with the values that its names have now, works out a number of plain values.

    A number may be compared with others later, and is asked about then.  No constant is returned, but for those with a
    fraction: a function that returns 1 or True answers a question.
    """
    node = function.node
    if not isinstance(node, ast.FunctionDef) or not function.source.remembered(node, _may_compute):
        return False
    parts = function.source.remembered(node, _parts_of)
    reader = Reader(interp, interp.source, node)
    reader.owns(parts.set)
    return all(map(reader.plain, parts.computed)) and all(map(reader.is_number, parts.returned))


class _Parts(NamedTuple):
    """Names and expressions of a function that works out a number."""

    set: frozenset[str]
    computed: tuple[ast.expr, ...]
    """The assigned and returned values, and the conditions."""
    returned: tuple[ast.expr, ...]


def _parts_of(node: ast.FunctionDef) -> _Parts:
    names: set[str] = set()
    computed: list[ast.expr] = []
    returned: list[ast.expr] = []
    for part in ast.walk(node):
        match part:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
            ):
                names.add(name)
                computed.append(value)
            case ast.If(test=test):
                computed.append(test)
            case ast.Return(value=ast.expr() as value):
                computed.append(value)
                returned.append(value)
    return _Parts(frozenset(names), tuple(computed), tuple(returned))


def _may_compute(node: ast.FunctionDef) -> tuple[bool, ...]:
    """Whether a function consists of arithmetic and conditions; a tuple with something in it is true."""
    asks = False
    pending = list(node.body)
    while pending:
        match pending.pop():
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.If(body=body, orelse=orelse):
                asks = True
                pending += [*body, *orelse]
            case (
                ast.Assign(targets=[ast.Name()], value=value)
                | ast.AugAssign(target=ast.Name(), value=value)
                | ast.Return(value=ast.expr() as value)
            ):
                if not is_numeric(value):
                    return ()
                asks = asks or isinstance(value, ast.IfExp)
            case _:
                return ()
    return (True,) if asks else ()
