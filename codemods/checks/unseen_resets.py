"""Functions that reset a carried state and that the program hands on, without a call that was followed.

``LambdaLR(opt, lambda epoch: model.cut())`` and ``weakref.WeakMethod(model.cut)`` call the method in code of their own.
Where such a function was executed on no path, a state that nobody seems to reset is likely to be carried, and no more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.source.nodes import Nodes, children
from autofix.codemods.source.sources import Source, last_name

_EMPTIES = frozenset(("detach_", "zero_", "fill_", "copy_", "clear", "pop", "popleft"))


def answered(known: Known) -> tuple[list[Fact], list[Fact]]:
    """The facts that such a function rules out, and those that it makes likely."""
    carried = [(fact, attribute) for fact in known.facts if (attribute := _attribute_carried(fact))]
    driven = [(fact, role.span) for fact in known.facts for role in fact.roles() if role.span in known.driven]
    if not carried and not driven:
        return [], []
    functions = [function for source in known.sources for function in source.nodes.of(ast.FunctionDef)]
    unseen = [function for function in functions if function.body[-1] not in known.executed]
    ruled_out: list[Fact] = []
    for fact, span in driven:  # whoever calls the one function may call the other in between
        called = known.driven[span]
        others = unseen if called is None else [function for function in functions if function not in called]
        if isinstance(fact, (StaleGraph, Overwritten)) and any(_resets(one, _attribute_of(fact)) for one in others):
            ruled_out.append(fact)
    carried = [(fact, attribute) for fact, attribute in carried if fact not in ruled_out]
    return ruled_out, [fact for fact, attribute in carried if _may_be_reset(attribute, unseen, known)]


def _attribute_carried(fact: Fact) -> str:
    """The attribute, or the name, that certainly carries a graph from one iteration to the next; empty for others."""
    if not isinstance(fact, (StaleGraph, Overwritten)) or fact.loop is None or not fact.inside:
        return ""
    return _attribute_of(fact) if fact.certainty is Certainty.CERTAIN else ""


def _attribute_of(fact: StaleGraph | Overwritten) -> str:
    """The attribute, or the name, of the value that a fact is of; empty where it has none."""
    attributes = re.findall(r"\.(\w+)", fact.name) or re.findall(r"^\w+", fact.name)
    return attributes[-1] if attributes else ""


def _may_be_reset(attribute: str, unseen: Sequence[ast.FunctionDef], known: Known) -> bool:
    """Whether an executed statement hands on one of the *unseen* functions, which resets the attribute."""
    resetting = {function.name for function in unseen if _resets(function, attribute)}
    if not resetting:
        return False
    for _ in unseen:  # a function that calls one of them does, too
        calling = {function.name for function in unseen if resetting.intersection(_names(ast.walk(function)))}
        if calling <= resetting:
            break
        resetting |= calling
    implicit = any(name.startswith("__") for name in resetting)
    if implicit or resetting & set(_not_followed(known)):
        return True
    return any(resetting & set(names) for names in _handed_on(known.sources, known.executed))


def _resets(function: ast.FunctionDef, attribute: str) -> bool:
    """Whether a function gives the attribute, or a name that it shares, another value, or empties it."""
    parts = list(ast.walk(function))
    shared = {name for part in parts if isinstance(part, (ast.Global, ast.Nonlocal)) for name in part.names}
    for part in parts:
        match part:
            case ast.Attribute(attr=name, ctx=ast.Store()) if name == attribute:
                return function.name != "__init__"
            case ast.Name(id=name, ctx=ast.Store()) if name == attribute and name in shared:
                return True
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), ctx=ast.Store()):
                if name == attribute:
                    return True
            case ast.Call(ast.Attribute(owner, method)) if method in _EMPTIES:
                owner = owner.value if isinstance(owner, ast.Subscript) else owner
                if isinstance(owner, (ast.Attribute, ast.Name)) and last_name(owner) == attribute:
                    return True
    return False


def _not_followed(known: Known) -> Iterator[str]:
    """The names of functions that may have been called by what was executed and not followed."""
    yield from known.unresolved
    for function in known.unentered:
        yield from _names(ast.walk(function))
    for cls in known.handed:
        yield from (part.name for part in cls.body if isinstance(part, ast.FunctionDef))


def _handed_on(sources: Sequence[Source], executed: Collection[ast.stmt]) -> Iterator[Collection[str]]:
    """The names that each executed statement mentions without a call of its own, and those in handlers of errors."""
    known = set(executed)
    for source in sources:
        for statement, names in source.nodes.once(_mentioned).items():
            if statement in known:
                yield names


def _mentioned(nodes: Nodes) -> dict[ast.stmt, frozenset[str]]:
    found: dict[ast.stmt, frozenset[str]] = {}
    for statement in nodes.all:
        if isinstance(statement, ast.Try):
            handled = [part for handler in statement.handlers for part in ast.walk(handler)]
            found[statement] = frozenset(_names(handled))
        elif isinstance(statement, ast.stmt) and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found[statement] = frozenset(_names(_not_called(statement)))
    return {statement: names for statement, names in found.items() if names}


def _not_called(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement but for functions that it calls itself, and not within a lambda."""
    pending = [part for part in children(statement) if not isinstance(part, (ast.stmt, ast.excepthandler))]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, ast.Lambda):
            yield from ast.walk(part)
        elif isinstance(part, ast.Call):
            called = part.func.value if isinstance(part.func, ast.Attribute) else part.func
            called_by_name = isinstance(called, ast.Name) and called is part.func
            pending += [*([] if called_by_name else [called]), *part.args, *(one.value for one in part.keywords)]
        else:
            pending += ast.iter_child_nodes(part)


def _names(parts: Iterable[ast.AST]) -> Iterator[str]:
    for part in parts:
        match part:
            case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(name)) if name.isidentifier():
                yield name
            case ast.Call(ast.Name("exec" | "eval"), [ast.Constant(value=str(code)), *_]):
                yield from re.findall(r"\w+", code)
