"""An object that was used before the method that is entered: what counts and what collects in it has grown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Binding, Class, Instance, Mapping, Sequence, Symbol, Value
from autofix.codemods.source.nodes import walk

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_GROWS = frozenset(("append", "appendleft", "extend", "add", "push", "insert"))


def age(interp: Interpreter, value: Value, seen: set[int]) -> bool:
    """Take an object to have been used: returns whether that changes anything.

    A number that one of its methods raises is known by its lower bound from here on, a container to which one adds
    may hold more, and a flag that one sets (``self.training = name == "train"``) may be on or off; the same for the
    objects that it holds (a replay memory), modules apart.
    """
    if not isinstance(value, Instance) or id(value) in seen:
        return False
    seen.add(id(value))
    found = False
    counted, filled, given = _grown(value.cls)
    for name, slot in list(value.names.items()):
        held = slot.value
        if name in counted and isinstance(held, (int, float)) and not isinstance(held, bool):
            value.names[name] = Binding(Symbol(("count", "lived", name, interp.new_instance()), low=held))
            found = True
        elif name in filled and isinstance(held, (Sequence, Mapping)):
            held.more = found = True
        elif name in given and isinstance(held, bool):
            value.names[name] = Binding(interp.fresh_symbol("flag", name))
            found = True
        elif isinstance(held, Instance) and not class_lookup.is_module(held):
            found |= age(interp, held, seen)
    return found


class _Changes(NamedTuple):
    """The attributes of ``self`` that methods raise, those to which they add items, and those that they set."""

    raised: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()


def _grown(cls: Class) -> _Changes:
    """What the methods of a class and of its bases change, but for the constructors."""
    changes = [
        one.source.remembered(part, _changes)
        for one in class_lookup.lineage(cls)
        if isinstance(one, Class)
        for part in one.node.body
        if isinstance(part, ast.FunctionDef) and part.name != "__init__"
    ]
    return _Changes(*(frozenset().union(*several) for several in zip(*changes, strict=True)))


def _changes(method: ast.AST) -> _Changes:
    """What a method changes."""
    raised: set[str] = set()
    filled: set[str] = set()
    given: set[str] = set()
    for part in walk(method):
        match part:
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), op=ast.Add()):
                raised.add(name)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                (raised if is_raised(value, f"self.{name}") else given).add(name)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=method_)):
                if method_ in _GROWS:
                    filled.add(name)
    return _Changes(frozenset(raised), frozenset(filled), frozenset(given))


def is_raised(value: ast.expr, name: str) -> bool:
    """Whether an expression raises the number called *name*: ``size + 1``, ``min(size + 1, most)``."""
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return name in (ast.unparse(left), ast.unparse(right))
        case ast.Call(func=ast.Name(id="min") | ast.Attribute(attr="minimum"), args=[*args]):
            return any(isinstance(arg, ast.BinOp) and is_raised(arg, name) for arg in args)
    return False
