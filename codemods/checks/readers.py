"""Readers of the names that keep graphs, by the text of the program: also where no path came.

A list of losses that a function returns is read by the callers of this function, under the names that they give it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from autofix.codemods.checks.known import Known
from autofix.codemods.interpreter import told_names
from autofix.codemods.interpreter.entries import CONTAINS
from autofix.codemods.interpreter.holding import is_meter
from autofix.codemods.interpreter.state.incidents import RetainedGraph
from autofix.codemods.source.nodes import COMPREHENSIONS, Nodes, children, own_parts
from autofix.codemods.source.sources import Source, last_name


def every_reader_ran(holding: RetainedGraph, known: Known) -> bool:
    """Whether all the statements that mention what keeps the graphs were executed on some path.

    One that was not may use them: a pool that is read once it is full; but not in a function that nobody calls.  What a
    lambda reads it reads later, whoever calls it.
    """
    if is_meter(holding.kept.statement):
        return True
    kept = holding.kept.statement.node
    readers = list(_readers(holding, known.sources))
    if any(
        _reads_later(one, held.name) or _given_to_later_reader(one, held.name, known.sources) for held, one in readers
    ):
        return False
    not_run = (
        (held, one) for held, one in readers if one not in known.executed and not _reads_a_newer_value(held, one, kept)
    )
    reading = ((held, one) for held, one in not_run if not _only_tells(one, held.name))
    unread = [(held, one) for held, one in reading if held.is_own or _may_send(one, held, known)]
    if not unread:
        return True
    idle = _uncalled(known.sources)
    return all(one in idle and not _runs_in(held.scope, known) for held, one in unread)


def _reads_later(statement: ast.stmt, name: str) -> bool:
    """Whether a function without a name reads a value: ``parts[key] = lambda: torch.cat([s[key] for s in states])``."""
    functions = [
        part for around, part in own_parts(statement) if isinstance(part, ast.Lambda) and not _is_called_at_once(around)
    ]
    own = {one.arg for part in functions for one in ast.walk(part.args) if isinstance(one, ast.arg)}
    return name not in own and any(_is_named(one, name) for part in functions for one in ast.walk(part.body))


def _is_called_at_once(around: ast.AST) -> bool:
    """Whether what stands *around* a function without a name calls it: ``sorted(rows, key=...)``, ``map(...)``."""
    match around:
        case ast.keyword(arg=name):
            return name == "key"
        case ast.Call(func=function):
            return last_name(function) in ("map", "filter", "reduce", "tree_map", "apply")
    return False


def _given_to_later_reader(statement: ast.stmt, name: str, sources: Sequence[Source]) -> bool:
    """Whether a statement gives a value to a function of the program in which a function without a name reads it."""
    given = [
        (last_name(part.func), at, isinstance(part.func, ast.Attribute))
        for _, part in own_parts(statement)
        if isinstance(part, ast.Call)
        for at, one in enumerate(part.args)
        if isinstance(one, ast.Name) and one.id == name
    ]
    return any(
        _reads_later(inner, parameter)
        for called, at, bound in given
        for source in sources
        for function in source.nodes.of(ast.FunctionDef)
        if function.name == called and (parameter := _parameter(function, at, bound=bound))
        for inner in source.nodes.within(function)
        if isinstance(inner, ast.stmt)
    )


def _parameter(function: ast.FunctionDef, at: int, *, bound: bool) -> str:
    """The name of a function's parameter by its number in a call; empty where it has none."""
    names = [one.arg for one in function.args.args]
    names = names[1:] if bound and names[:1] == ["self"] else names
    return names[at] if at < len(names) else ""


def serves_other_scripts(holding: RetainedGraph, known: Known) -> bool:
    """Whether a class that keeps graphs reads them in a method beside one that runs a pass, and nobody here calls it.

    An agent's ``learn()`` uses what its ``act()`` keeps: a script that plays does not call it, one that trains does.
    """
    own, statement = holding.kept.statement
    name = holding.kept.name.partition("[")[0]
    if not name.startswith("self.") or is_meter(holding.kept.statement):
        return False
    home = next((one for one in own.nodes.of(ast.ClassDef) if statement in own.nodes.within(one)), None)
    idle = _uncalled(known.sources)
    all_methods = _methods_of(home) if home is not None else []
    methods = [one for one in all_methods if one.body[0] in idle]
    ways = known.ways_to_passes().functions
    if not any(ways.get(one, 0) for one in methods):
        return False
    inside: set[ast.AST] = set()
    while methods:  # and what they call of the object's own
        inside.update(own.nodes.within(methods.pop()))
        called = {part.attr for part in inside if isinstance(part, ast.Attribute)}
        methods += [one for one in all_methods if one.name in called and one.body[0] not in inside]
    part = name.rpartition(".")[2]
    mentions = own.nodes.once(_mentioned).get(part, [])
    return any(one in inside and not _only_tells(one, part) for one in mentions)


def _methods_of(home: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in home.body if isinstance(one, ast.FunctionDef)]


def _runs_in(scope: ast.AST, known: Known) -> bool:
    """Whether a function was entered, be it on behalf of a caller that was not read."""
    return isinstance(scope, ast.FunctionDef) and scope.body[0] in known.executed


def _may_send(statement: ast.stmt, held: _Held, known: Known) -> bool:
    """Whether what a statement reads may come to a pass: in its function, or in one that it calls."""
    if isinstance(held.scope, ast.Module):
        return True
    ways = known.ways_to_passes()
    return ways.functions.get(held.scope, 0) == CONTAINS or bool(ways.begin_in([statement]))


def _reads_a_newer_value(held: _Held, reader: ast.stmt, kept: ast.AST) -> bool:
    """Whether the name has been given another value before *reader* is executed, since the statement *kept* was.

    ``losses = []`` before the loop over validation batches, which appends to a list of its own.
    """
    if held.is_attribute or not isinstance(held.scope, (ast.Module, ast.FunctionDef)):
        return False
    return any(
        _rebinds(block[before], held.name) and not any(kept in ast.walk(later) for later in block[before + 1 : at + 1])
        for block, at in _blocks_around(held.scope.body, reader)
        for before in range(at)
    )


def _rebinds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a name a value that is not made of its old one."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value))
    return False


def _blocks_around(block: list[ast.stmt], wanted: ast.stmt) -> list[tuple[list[ast.stmt], int]]:
    """The blocks of statements that a statement stands in, outermost first, each with the place that leads to it."""
    for at, one in enumerate(block):
        if one is wanted:
            return [(block, at)]
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for inner in _inner_blocks(one):
            around = _blocks_around(inner, wanted)
            if around:
                return [(block, at), *around]
    return []


def _inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    for part in parts:
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(part, name, None)
            if isinstance(inner, list):
                yield inner


_NAMES = 32
"""Number of names that are followed."""


class _Held(NamedTuple):
    """A name of the value that keeps the graphs, or of one made from it, and the code in which it has this sense."""

    name: str
    source: Source
    scope: ast.AST
    is_own: bool = True
    """Whether it is the very name that keeps them."""
    is_attribute: bool = False

    def mentions(self) -> Iterator[ast.stmt]:
        """The statements that mention it, and not another variable of the same name."""
        nodes = self.source.nodes
        statements = nodes.once(_mentioned).get(self.name, [])
        if self.scope is not self.source.tree:
            inside = set(nodes.within(self.scope))
            statements = [one for one in statements if one in inside]
        others = () if self.is_attribute else nodes.once(_assigning).get(self.name, ())
        hidden = {part for one in others if one is not self.scope for part in nodes.within(one) if part is not one}
        return (one for one in statements if self.scope in hidden or one not in hidden)


def _readers(holding: RetainedGraph, sources: Sequence[Source]) -> Iterator[tuple[_Held, ast.stmt]]:
    """The statements that may read what keeps the graphs, each with the name under which it does."""
    name = holding.kept.name
    part = name.partition("[")[0].rpartition(".")[2]
    if "." in name:
        for source in sources:
            held = _Held(part, source, source.tree, is_attribute=True)
            yield from ((held, one) for one in held.mentions())
        return
    own, statement = holding.kept.statement
    assert isinstance(statement, ast.stmt)
    pending = [_Held(part, own, _home(own, statement))]
    known = set(pending)
    while pending:
        held = pending.pop()
        for statement in held.mentions():
            yield held, statement
            further = [one for one in _handed_on(held, statement, sources) if one not in known]
            if len(known) + len(further) <= _NAMES:
                known.update(further)
                pending += further


def _handed_on(held: _Held, statement: ast.stmt, sources: Sequence[Source]) -> Iterator[_Held]:
    """The names that a statement gives to what is *held*, in its function or in those that call this one."""
    if _only_tells(statement, held.name):
        return
    match statement:
        case ast.Assign(targets=[target], value=value):
            named = [held._replace(name=one.id, is_own=False) for one in _bound(target, value, held.name)]
        case ast.Return(value=ast.expr() as value) if isinstance(held.scope, ast.FunctionDef):
            calls = (source.nodes.once(_results).get(held.scope.name, ()) for source in sources)
            named = [
                _Held(one.id, source, _home(source, call), is_own=False)
                for source, several in zip(sources, calls, strict=True)
                for call in several
                for one in _bound(call.targets[0], value, held.name)
            ]
        case _:
            return
    yield from (one for one in named if not told_names.is_told(one.source, one.name))


def _bound(target: ast.expr, value: ast.expr, name: str) -> list[ast.Name]:
    """The names in a *target* that are given what of a *value* mentions *name*."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return [bound for one, part in pairs for bound in _bound(one, part, name)]
    if not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value)):
        return []
    return [part for part in ast.walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def _results(nodes: Nodes) -> dict[str, list[ast.Assign]]:
    """By the last name of a function, the assignments of what a call of it returns."""
    found: dict[str, list[ast.Assign]] = {}
    for statement in nodes.of(ast.Assign):
        if isinstance(statement.value, ast.Call) and len(statement.targets) == 1:
            found.setdefault(last_name(statement.value.func), []).append(statement)
    return found


def _mentioned(nodes: Nodes) -> dict[str, list[ast.stmt]]:
    """By the names and attributes that a file mentions, the statements, but for definitions, that do so themselves."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in nodes.all:
        if isinstance(statement, ast.stmt) and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names = {
                part.id if isinstance(part, ast.Name) else part.attr
                for around, part in own_parts(statement)
                if isinstance(part, (ast.Name, ast.Attribute)) and not _is_called(around, part)
            }
            for name in names:
                found.setdefault(name, []).append(statement)
    return found


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *COMPREHENSIONS)


def _assigning(nodes: Nodes) -> dict[str, list[ast.AST]]:
    """By name, the functions in which it is a variable of their own that they assign.

    A parameter of this name does not count: it may be given the value of the other variable.
    """
    found: dict[str, list[ast.AST]] = {}
    for function in _all_functions(nodes):
        given = {part.arg for part in children(function.args) if isinstance(part, ast.arg)}
        assigned: set[str] = set()
        pending: list[ast.AST] = [*function.body]
        while pending:
            match part := pending.pop():
                case ast.Name(id=name, ctx=ast.Store()):
                    assigned.add(name)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    given.update(names)
                case _ if not isinstance(part, _SCOPES):
                    pending += children(part)
        for name in assigned - given:
            found.setdefault(name, []).append(function)
    return found


class _Functions(NamedTuple):
    """Functions of a file that can only be called by name, and all names that the file mentions."""

    own: tuple[ast.FunctionDef, ...]
    """The functions without a decorator that are no methods of a derived class and no special methods."""
    mentioned: frozenset[str]


def _uncalled(sources: Iterable[Source]) -> set[ast.AST]:
    """All nodes in functions that no file of the program mentions, and that no library can know."""
    files = [(source.nodes, source.nodes.once(_functions)) for source in sources]
    mentioned = frozenset().union(*(one.mentioned for _, one in files))
    return {
        part
        for nodes, one in files
        for function in one.own
        if function.name not in mentioned
        for part in nodes.within(function)
    }


def _functions(nodes: Nodes) -> _Functions:
    inherited = {part for node in nodes.of(ast.ClassDef) if node.bases for part in node.body}
    own = (
        node
        for node in nodes.of(ast.FunctionDef)
        if node not in inherited and not node.decorator_list and not node.name.startswith("__")
    )
    mentioned = {node.id for node in nodes.of(ast.Name)} | {node.attr for node in nodes.of(ast.Attribute)}
    for text in nodes.of(ast.Constant):
        if isinstance(text.value, str):
            mentioned.update(text.value.split())
    for imported in nodes.of(ast.ImportFrom):
        mentioned.update(alias.name for alias in imported.names)
    return _Functions(tuple(own), frozenset(mentioned))


def _all_functions(nodes: Nodes) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [*nodes.of(ast.FunctionDef), *nodes.of(ast.AsyncFunctionDef)]


def _home(source: Source, statement: ast.stmt) -> ast.AST:
    """The function that a statement stands in, or the module where it is the module's own."""
    around = (
        one
        for one in _all_functions(source.nodes)
        if one.lineno <= statement.lineno and (statement.end_lineno or 0) <= (one.end_lineno or 0)
    )
    return max(around, key=lambda one: one.lineno, default=source.tree)


def _is_mention(around: ast.AST, part: ast.AST, name: str) -> bool:
    """Whether a part of a statement mentions what keeps the graphs; nobody calls a tensor, or a list."""
    return _is_named(part, name) and not _is_called(around, part)


def _is_called(around: ast.AST, part: ast.AST) -> bool:
    return isinstance(around, ast.Call) and around.func is part


def _is_named(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


_NUMBERS = frozenset(("float", "int", "print", "str", "round", "len", "isinstance"))
_TOLD = frozenset(("item", "tolist", "detach"))
_GATHERS = frozenset("sum max min abs list tuple zip range sorted stack cat mean median std var cpu flatten".split())
"""Functions and methods that make one value of several, and do nothing else with them."""


def _only_tells(statement: ast.AST, name: str) -> bool:
    """Whether a statement has no use for the graph of what it mentions: it wants the number, or puts a new value."""
    assert isinstance(statement, ast.stmt)
    if _adds_to_itself(statement, name):
        return True
    parts = list(own_parts(statement))
    told = {item for _, part in parts for item in _told_one_by_one(part, name)}
    parents = {part: around for around, part in parts}
    return all(
        part in told or _is_told(around, part) or _is_told_together(part, parents)
        for around, part in parts
        if _is_mention(around, part, name)
    )


def _adds_to_itself(statement: ast.stmt, name: str) -> bool:
    """Whether a statement only makes a total greater, as another branch does: ``total += loss``."""
    match statement:
        case ast.AugAssign(ast.Name() | ast.Attribute() as target, ast.Add(), value):
            mentioned = {last_name(part) for part in ast.walk(value) if isinstance(part, (ast.Name, ast.Attribute))}
            return last_name(target) == name and name not in mentioned
    return False


def _is_told_together(mention: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether only the number of what is gathered is wanted: ``sum([one[0] for one in losses]).item()``."""
    node = mention
    while isinstance(around := parents.get(node), (ast.expr, ast.comprehension, ast.keyword)):
        if isinstance(node, ast.expr) and _ends_in_number(around):
            break
        node = around
    else:
        return False
    return all(
        not isinstance(part, (ast.Lambda, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom))
        and (not isinstance(part, ast.Call) or last_name(part.func) in _GATHERS | _NUMBERS | _TOLD | {"clear"})
        for part in ast.walk(node)
    )


def _ends_in_number(around: ast.AST) -> bool:
    """Whether a value is asked for its number, or cut from its graph, by the node *around* it."""
    if isinstance(around, ast.Call):
        return isinstance(around.func, ast.Name) and around.func.id in _NUMBERS
    return isinstance(around, ast.Attribute) and around.attr in _TOLD


def _told_one_by_one(part: ast.AST, name: str) -> Iterator[ast.AST]:
    """The mention in a comprehension that wants the number of each item: ``[loss.item() for loss in log[-10:]]``."""
    for loop in part.generators if isinstance(part, COMPREHENSIONS) else ():
        base: ast.expr = loop.iter
        while isinstance(base, ast.Subscript):
            base = base.value
        if not isinstance(base, (ast.Name, ast.Attribute)) or not isinstance(loop.target, ast.Name):
            continue
        if (base.id if isinstance(base, ast.Name) else base.attr) != name:
            continue
        inner = [(around, one) for around in ast.walk(part) for one in children(around)]
        items = [(around, one) for around, one in inner if isinstance(one, ast.Name) and one.id == loop.target.id]
        if all(_is_told(around, one) for around, one in items):
            yield base


def _is_told(around: ast.AST, mention: ast.AST) -> bool:
    assert isinstance(mention, (ast.Name, ast.Attribute))
    if isinstance(mention.ctx, (ast.Store, ast.Del)):
        return not isinstance(around, ast.AugAssign)
    emptied = isinstance(around, ast.Attribute) and around.attr == "clear"
    return emptied or isinstance(around, ast.FormattedValue) or _ends_in_number(around)
