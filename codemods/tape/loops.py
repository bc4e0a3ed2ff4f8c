"""What loops run over, and how many of their iterations are executed.

A loop of which the source does not fix a small number of iterations is *cut short*: its body runs twice, and a third
time where that may not show a mistake.  The iterations after the first stand for any later one: there its counters are
known only by their bounds, and what grows in it may have any size.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.tape import attributes
from codemods.tape.values import Instance, Mapping, Scope, Sequence, Slot, Tensor, TorchModule, Unknown, Value

if TYPE_CHECKING:
    from codemods.tape.machine import Machine

RANGE = 3
"""A ``range`` of at most so many numbers is run in full."""
ITEMS = 8
"""A container of at most so many known items is run in full."""


@dataclass(frozen=True)
class Stream:
    """Something to iterate over: how many items (None where unknown) and the item at a position.

    The second argument of ``at`` says whether the position is exact or stands for any from there on.
    """

    count: int | None
    at: Callable[[int, bool], Value]
    whole: int = ITEMS
    limit: int | None = None
    """How many items there are to be seen, where there are more than that."""

    @property
    def cut(self) -> bool:
        return self.count is None or self.count > self.whole


@dataclass(frozen=True)
class LazyStream:
    """A :class:`Stream` as a value of the program: ``enumerate(...)``, ``zip(...)``."""

    stream: Stream


def stream(machine: Machine, value: Value, node: ast.expr) -> Stream:
    """The items of *value*."""
    match value:
        case LazyStream():
            return value.stream
        case range():
            return Stream(len(value), lambda at, exact: _number(machine, value, at, exact), RANGE)
        case Sequence():
            count = None if value.more else len(value.items)
            return Stream(
                count, lambda at, exact: _item_of_sequence(machine, value, at), limit=len(value.items) or None
            )
        case Mapping():
            keys = list(value.items)
            count = None if value.more else len(keys)
            return Stream(count, lambda at, exact: keys[at] if at < len(keys) else machine.fresh("key"))
        case None:
            machine.crash("None is not iterable")
        case str():
            return Stream(len(value), lambda at, exact: value[at])
        case Tensor():
            return Stream(
                None, lambda at, exact: attributes.item(machine, value, at if exact else machine.fresh("i"), node)
            )
        case TorchModule():
            parts: list[Value] = [
                key if value.kind == "ModuleDict" else slot.value for key, slot in value.children.items()
            ]
            return Stream(len(parts), lambda at, exact: parts[at])
        case Instance() if attributes.find(value, "__iter__") is not None:
            made = machine.call(attributes.bind(machine, attributes.find(value, "__iter__"), value), [], {}, node)
            return stream(machine, made, node) if not isinstance(made, Instance) else _unknown(machine, made)
    return _unknown(machine, value)


def _unknown(machine: Machine, value: Value) -> Stream:
    serial = machine.new_instance()
    if isinstance(value, Unknown) and isinstance(value.key, tuple) and value.key[:1] == ("range",):
        return Stream(None, lambda at, exact: at if exact else Unknown(("index", serial, at), low=at))
    return Stream(None, lambda at, exact: machine.unknown(("item", machine.key(value), serial, at)))


def _number(machine: Machine, numbers: range, at: int, exact: bool) -> Value:
    if exact:
        return numbers[at]
    low, high = sorted((numbers[at], numbers[-1]))
    return Unknown(("index", id(numbers), machine.new_instance(), at), low, high)


def counter(machine: Machine, low: int) -> Unknown:
    """A loop's counter of which only a lower bound is known."""
    return Unknown(("index", "counter", machine.new_instance(), low), low)


def _item_of_sequence(machine: Machine, value: Sequence, at: int) -> Value:
    if at < len(value.items):
        return machine.read(value.items[at], value)
    return machine.fresh("item")


def run_for(machine: Machine, node: ast.For | ast.AsyncFor) -> str:
    """Execute a ``for`` statement; returns its signal."""
    items = stream(machine, machine.eval(node.iter), node.iter)
    instance = machine.new_instance()
    signal = ""
    plan = Plan(machine)
    for number in _numbers(machine, items, plan):
        cut = items.cut and plan.cut
        with machine.iteration(node, instance, number, cut):
            element = items.at(number, not cut or number == 0)
            machine.assign(node.target, element, None)
            signal = machine.run(node.body)
        if signal in ("break", "return", "raise"):
            break
    else:
        signal = machine.run(node.orelse)
    return signal if signal in ("return", "raise") else ""


EVERY = 64
"""The largest k for which something that happens every k-th iteration is followed by running them all."""
COST = 40_000
"""Expressions and statements that running them all may take."""


class Plan:
    """How many iterations of one loop are run, decided after the first."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._passes = len(machine.tape.passes)
        self._grown = len(machine.growing)
        self._moduli = len(machine.moduli)
        self._steps = machine.steps_taken
        self.cut = True
        """Whether the iterations after the first stand for any later one."""

    def after_first(self) -> int:
        """How many to run in order, where something happens every k-th time; else two, the second for any later one."""
        every = max((k for k in self._machine.moduli[self._moduli :] if 1 < k <= EVERY), default=0)
        cost = self._machine.steps_taken - self._steps
        if every and cost * (2 * every + 1) <= COST:
            self.cut = False
            return 2 * every + 1
        self._machine.stand_for_later(self._grown)
        return 2

    def needs_a_third(self) -> bool:
        """Whether two iterations may not show a mistake: one pass only, or graphs that outlive their pass."""
        passes = self._machine.tape.passes[self._passes :]
        return self.cut and (len(passes) == 1 or any(one.retains for one in passes))


def _numbers(machine: Machine, items: Stream, plan: Plan) -> Iterator[int]:
    """The iterations of a ``for`` that are run."""
    if not items.cut:
        yield from range(items.count or 0)
        return
    yield 0
    planned = plan.after_first()
    most = items.limit or items.count or planned + 1
    yield from range(1, min(planned, most))
    if plan.needs_a_third() and most > 2:
        yield 2


def run_while(machine: Machine, node: ast.While) -> str:
    """Execute a ``while`` statement; returns its signal."""
    instance = machine.new_instance()
    plan = Plan(machine)
    planned = number = 0
    while True:
        with machine.iteration(node, instance, number, plan.cut):
            condition = machine.eval(node.test)
            if not isinstance(condition, (Unknown, Tensor)) and not machine.truth(condition):
                break
            signal = machine.run(node.body)
        if signal == "break":
            return ""
        if signal in ("return", "raise"):
            return signal
        number += 1
        if number == 1:
            planned = plan.after_first()
        if number >= planned + plan.needs_a_third():
            break
    return machine.run(node.orelse)


def comprehension(machine: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    """The container that a comprehension builds, in a scope of its own."""
    outer = machine.scope
    machine.scope = Scope({}, parent=outer, globals=outer.globals)
    result: Sequence | Mapping = (
        Mapping() if isinstance(node, ast.DictComp) else Sequence("set" if isinstance(node, ast.SetComp) else "list")
    )
    try:
        _comprehend(machine, node, 0, result)
    finally:
        machine.scope = outer
    return result


def _comprehend(machine: Machine, node: ast.expr, depth: int, result: Sequence | Mapping) -> None:
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    if depth == len(generators):
        if isinstance(result, Mapping) and isinstance(node, ast.DictComp):
            key = attributes.mapping_key(machine, machine.eval(node.key))
            result.items[key] = Slot(machine.eval(node.value))
        elif isinstance(result, Sequence):
            result.items.append(Slot(machine.eval(node.elt)))  # type: ignore[attr-defined]
        return
    generator = generators[depth]
    items = stream(machine, machine.eval(generator.iter), generator.iter)
    instance = machine.new_instance()
    numbers = range(2) if items.cut else range(items.count or 0)
    for number in numbers:
        with machine.iteration(node, instance, number, items.cut):
            machine.assign(generator.target, items.at(number, not items.cut or number == 0), None)
            if all(machine.truth(machine.eval(condition)) for condition in generator.ifs):
                _comprehend(machine, node, depth + 1, result)
    result.more = result.more or items.cut
