"""Comprehensions, and what is reduced item by item."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import mapping_keys, streams
from autofix.codemods.interpreter.generators import Exhausted
from autofix.codemods.interpreter.streams import Comprehension
from autofix.codemods.interpreter.values import Binding, Mapping, Scope, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def comprehension(interp: Interpreter, node: Comprehension) -> Value:
    """The container that a comprehension builds."""
    if isinstance(node, ast.DictComp):
        mapping = Mapping(cls="builtins.dict")

        def put() -> None:
            key = mapping_keys.mapping_key(interp, interp.eval(node.key))
            mapping.items[key] = Binding(interp.eval(node.value))

        mapping.more = comprehend(interp, node, put)
        return mapping
    sequence = Sequence("set" if isinstance(node, ast.SetComp) else "list")
    sequence.more = comprehend(interp, node, lambda: sequence.items.append(Binding(interp.eval(node.elt))))
    (first, *inner) = node.generators
    numbers = interp.eval(first.iter) if sequence.more and not (inner or first.ifs) else None
    if isinstance(numbers, range):
        sequence.least = len(sequence.items)  # as many as are known are there for certain
        sequence.made_of = len(sequence.items), len(numbers)
    return sequence


def accumulated(interp: Interpreter, function: Value, value: Value, initial: list[Value], node: ast.expr) -> Sequence:
    """Intermediate results of ``functools.reduce`` over *value*, the *initial* value first, where there is one."""
    items, instance = streams.stream(interp, value, node), interp.new_instance()
    made = list(initial)
    for number in range(3 - len(made)) if items.cut else range(items.count or 0):
        with interp.iteration(node, instance, number, items.cut):
            try:
                item = items.at(number, not items.cut or number == 0)
            except Exhausted:
                break
            made.append(interp.call(function, [made[-1], item], {}, node) if made else item)
    return Sequence("list", [Binding(one) for one in made], items.cut)


def comprehend(interp: Interpreter, node: Comprehension, each: Callable[[], object]) -> bool:
    """Run a comprehension's loops in a scope of their own, and *each* inside; returns whether there may be more."""
    outer = interp.scope
    interp.scope = Scope({}, parent=outer, globals=outer.globals, comprehension=True)
    try:
        return _comprehend(interp, node, node.generators, each)
    finally:
        interp.scope = outer


def _comprehend(
    interp: Interpreter, node: Comprehension, generators: list[ast.comprehension], each: Callable[[], object]
) -> bool:
    if not generators:
        each()
        return False
    generator, *inner = generators
    items = streams.stream(interp, interp.eval(generator.iter), generator.iter)
    instance = interp.new_instance()
    more = items.cut
    items = streams.one_by_one(interp, items, node)
    known = max(min(items.limit or 2, streams.ITEMS), 2)  # all known items of a container that grows
    for number in range(known) if items.cut else range(items.count or 0):
        with interp.iteration(node, instance, number, items.cut):
            try:
                element = items.at(number, not items.cut or number == 0)
            except Exhausted:
                break
            streams.hand_out(interp, element, instance)
            interp.assign(generator.target, element, None)
            if all(interp.truth(interp.eval(condition)) for condition in generator.ifs):
                more |= _comprehend(interp, node, inner, each)
    return more
