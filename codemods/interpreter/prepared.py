"""An object whose method is entered before anything has set what that method reads of it.

``model.initialize(opt)``, ``model.set_input(batch)``, ``model.optimize_parameters()``: whoever calls the last of these
has called the others before, for without them it fails.  So what an entered method reads of ``self`` and its
constructor has not set is set first, by the methods of the class that do so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Class, Function, Instance, Optimizer
from autofix.codemods.source.flags import flag_given, is_false
from autofix.codemods.source.nodes import walk

_MOST = 4
"""Methods that are called before the entered one."""
_OTHER_USES = re.compile(
    r"^_*(test|eval|valid|infer|predict|sample|generate|load|restore|resume|save|visuali[sz]e|plot)"
)
"""Names of methods that make ready for something else than training."""


def needed(receiver: Instance, entered: str) -> list[str]:
    """The methods that set what the method *entered* reads and nothing has set yet, the earliest needed first."""
    methods = methods_of(receiver)
    within = _reached(methods, entered)
    wanted = _needs(receiver, methods, within)
    plan: list[str] = []
    while wanted and len(plan) < _MOST:
        setters = {
            name: wanted & _sets(methods[name])
            for name in methods
            if name not in within and name not in plan and not _OTHER_USES.match(name) and not name.startswith("__")
        }
        best = max(setters, key=lambda name: len(setters[name]), default=None)
        if best is None or not setters[best]:
            break
        plan.append(best)
        wanted = (wanted - setters[best]) | (_needs(receiver, methods, _reached(methods, best)) - setters[best])
    return plan[::-1]  # what sets a need of another is found after it


def makes_parts(receiver: Instance, setter: Function) -> bool:
    """Whether a method that was called has made what lasts for the whole training: an optimizer, or a network.

    Nobody calls ``agent.build()`` for each batch, which would begin anew.
    """
    made = (receiver.names[name].value for name in _sets(setter) if name in receiver.names)
    return any(isinstance(value, Optimizer) or class_lookup.is_any_module(value) for value in made)


def may_be_thawed(receiver: Instance, entered: str) -> bool:
    """Whether a method that *entered* does not call lets parameters require grad: its caller has called it, maybe."""
    methods = methods_of(receiver)
    others = methods.keys() - _reached(methods, entered) - {"__init__"}
    return any(methods[name].source.remembered(methods[name].node, _thaws) for name in others)


def _thaws(method: ast.AST) -> bool:
    """Whether a method sets ``requires_grad``, and not to False."""
    given = (flag_given(part) for part in walk(method))
    return any(value is not None and not is_false(value) for value in given)


def methods_of(receiver: Instance) -> dict[str, Function]:
    """The methods of an object that its classes in the program define, the nearest class first."""
    found: dict[str, Function] = {}
    for cls in class_lookup.lineage(receiver.cls):
        if isinstance(cls, Class):
            for name, slot in cls.names.items():
                if isinstance(slot.value, Function) and not slot.value.flavour:
                    found.setdefault(name, slot.value)
    return found


def _reached(methods: dict[str, Function], entered: str) -> set[str]:
    """The methods that *entered* calls on its object, and those that these call."""
    found, pending = {entered}, [entered]
    while pending:
        name = pending.pop()
        if name in methods:
            called = (_reads(methods[name]) & methods.keys()) - found
            found |= called
            pending += called
    return found


def _needs(receiver: Instance, methods: dict[str, Function], within: set[str]) -> set[str]:
    """The attributes that the methods *within* read, that nothing has set, and that none of them sets itself.

    One that is None so far was not set for a method that would fail with it.
    """
    read = {name for one in within if one in methods for name in _reads(methods[one])}
    own = {name for one in within if one in methods for name in _sets(methods[one])}
    failing = {name for one in within if one in methods for name in _fails_with_none(methods[one])}
    known = {name for name, slot in receiver.names.items() if slot.value is not None or name not in failing}
    return {name for name in read - own - known if class_lookup.find(receiver, name) is None}


def _reads(function: Function) -> frozenset[str]:
    return function.source.remembered(function.node, _attributes_read)


def _fails_with_none(function: Function) -> frozenset[str]:
    return function.source.remembered(function.node, _attributes_unasked)


def _sets(function: Function) -> frozenset[str]:
    return function.source.remembered(function.node, _attributes_set)


def _attributes_read(node: ast.AST) -> frozenset[str]:
    return frozenset(one.attr for one in _of_self(node) if isinstance(one.ctx, ast.Load))


def _attributes_unasked(node: ast.AST) -> frozenset[str]:
    """The attributes that a method uses so that None would fail, and never asks for."""
    used: set[ast.AST] = set()
    asked: set[ast.AST] = set()
    for part in walk(node):
        match part:
            case ast.Attribute(value=one) | ast.Subscript(value=one) | ast.Call(func=one) | ast.Starred(value=one):
                used.add(one)
            case ast.For(iter=one) | ast.comprehension(iter=one):
                used.add(one)
            case ast.If(test=one) | ast.IfExp(test=one) | ast.While(test=one) | ast.Assert(test=one):
                asked.add(one)
            case ast.Compare(left=left, comparators=others):
                asked.update((left, *others))
            case ast.BoolOp(values=values):
                asked.update(values)
            case ast.UnaryOp(op=ast.Not(), operand=one):
                asked.add(one)
    read = [one for one in _of_self(node) if isinstance(one.ctx, ast.Load)]
    return frozenset({one.attr for one in read if one in used} - {one.attr for one in read if one in asked})


def _attributes_set(node: ast.AST) -> frozenset[str]:
    return frozenset(one.attr for one in _of_self(node) if isinstance(one.ctx, ast.Store))


def _of_self(node: ast.AST) -> Iterator[ast.Attribute]:
    for part in walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            yield part
