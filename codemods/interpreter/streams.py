"""Values that can be iterated over: the number of their items, and the item at a position."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import (
    class_lookup,
    datasets,
    module_tree,
)
from autofix.codemods.interpreter.generators import Exhausted
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.values import (
    Instance,
    Sequence,
    Symbol,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

RANGE = 3
"""A ``range`` of at most so many numbers is run in full."""

ITEMS = 8
"""A container of at most so many known items is run in full."""

TAKEN_TOGETHER = 4
"""A tuple of a name, a module and the like has at most so many items."""

PARTS = 64
"""Limit for a model's modules or parameters: code that freezes or resets them must reach them all."""


@dataclass(frozen=True)
class Stream:
    """Something to iterate over: how many items (None where unknown) and the item at a position.

    The second argument of ``at`` says whether the position is exact or stands for any from there on.
    """

    count: int | None
    at: Callable[[int, bool], Value]
    whole: int = ITEMS
    limit: int | None = None
    """Number of items that are known one by one, where there are more, and not of the same kind."""
    lazy: bool = False
    """Whether asking for an item that there is not ends it: a generator."""
    turn: Callable[[], int] = lambda: 0
    """After how many items they begin again, as far as the last that was asked for tells; 0 where that is not known."""
    empties: bool = False
    """Whether it is a generator that takes what it gives out of a container."""
    counts: bool = False
    """Whether the items are numbers, of which there may be more than the *limit*."""

    @property
    def cut(self) -> bool:
        return self.count is None or self.count > self.whole


Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


@dataclass(eq=False)
class LazyStream:
    """A :class:`Stream` as a value of the program: ``enumerate(...)``, ``zip(...)``."""

    stream: Stream
    taken: int = 0
    """Number of items that ``next`` has taken."""

    def following(self) -> Value:
        """The next item, taken by ``next``.  Raises :class:`Exhausted` at the end."""
        if self.stream.count is not None and self.taken >= self.stream.count:
            raise Exhausted
        item = self.stream.at(self.taken, True)
        self.taken += 1
        return item

    def rest(self) -> Stream:
        """The items that ``next`` has left."""
        if not self.taken:
            return self.stream
        whole, taken = self.stream, self.taken
        count, limit = (None if one is None else max(one - taken, 0) for one in (whole.count, whole.limit))
        return replace(whole, count=count, at=lambda at, exact: whole.at(at + taken, exact), limit=limit)


def stream(interp: Interpreter, value: Value, node: ast.expr) -> Stream:
    """The items of *value*."""
    value = class_lookup.opened(value)
    items = kind_of(value).iterate(interp, value, node)
    return unknown(interp, value, node) if items is None else items


def is_part(value: Value) -> bool:
    """Whether a value is a module or a parameter, a tuple with one, or a function that is bound or refers to one."""
    return kind_of(value).is_part(value)


def hand_out(interp: Interpreter, element: Value, instance: int) -> None:
    """Note which run of a loop gave what is not known of *element*.

    What a loop around it has given stays with that loop: ``for number in (batch, epoch): check(number)``.
    """
    running = {point.instance for point in interp.loops}
    for part in [slot.value for slot in element.items] if isinstance(element, Sequence) else [element]:
        if isinstance(part, Symbol) and interp.loop_items.handed_out.get(part.key) not in running:
            interp.loop_items.handed_out[part.key] = instance


def one_by_one(interp: Interpreter, items: Stream, node: ast.For | ast.AsyncFor | Comprehension) -> Stream:
    """*items*, those that are known and no more, where a loop looks for one of them: ``if at == number``.

    Those behind the first would stand for any later one, and none of them were the one that is looked for.
    """
    if not items.cut or items.limit is None or not 1 < items.limit <= ITEMS:
        return items
    for name in interp.source.remembered(node, _compared):
        slot = interp.scope.names.get(name) or (interp.scope.parent.names.get(name) if interp.scope.parent else None)
        sought = slot.value if slot is not None else None
        known = type(sought) is int and sought < items.limit
        if known or isinstance(sought, (Instance, TorchModule)):
            return replace(items, count=items.limit)
    return items


def _compared(node: ast.For | ast.AsyncFor | Comprehension) -> tuple[str, ...]:
    """The names of others that a loop compares with something, no constant, to see whether it is the same."""
    targets = [one.target for one in node.generators] if isinstance(node, Comprehension) else [node.target]
    own = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    found: dict[str, None] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            sides = (part.left, part.comparators[0])
            if not any(isinstance(side, (ast.Constant, ast.UnaryOp)) for side in sides):
                found |= {side.id: None for side in sides if isinstance(side, ast.Name) and side.id not in own}
    return tuple(found)


def first_of(items: Stream, count: int) -> list[Value]:
    """The first items, *count* of them at most."""
    found: list[Value] = []
    try:
        for at in range(count):
            found.append(items.at(at, not items.cut or at == 0))
    except Exhausted:
        pass
    return found


def unknown(interp: Interpreter, value: Value, node: ast.expr) -> Stream:
    serial = interp.new_instance()
    if isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("range",):
        start, stop, step = _written_in(value.key)
        if step is not None and step < 0 and stop is not None:  # the last number is known, and not the first
            begin = value.key[1]
            return Stream(
                None, lambda at, exact: Symbol(begin if exact and at == 0 else ("index", serial, -at), low=stop + 1)
            )
        first = 0 if start is None or step != 1 else start
        return Stream(
            None,
            lambda at, exact: at + first if exact else Symbol(("index", serial, at), low=at + first),
            limit=_items_counted(value),
            counts=True,
        )

    def item(at: int) -> Value:
        made = interp.symbol(("item", interp.key(value), serial, at))
        if isinstance(value, Symbol):
            made.detachment = made.detachment or value.detachment
        return made

    if isinstance(value, Symbol) and value.key in interp.states:
        names = module_tree.names_in_state(interp, value, node)
        if names:
            return Stream(len(names), lambda at, exact: names[at], PARTS)
    count = 1 if isinstance(value, Symbol) and value.key in interp.whole else None
    loader = datasets.served(interp, value)
    if loader is not None:
        return Stream(count, lambda at, exact: datasets.batch(interp, loader, item(at)))
    return Stream(count, lambda at, exact: item(at))


def _written_in(key: tuple[Hashable, ...]) -> tuple[int | None, int | None, int | None]:
    """The start, the stop and the step of a ``range``, by its key; None for those that are not known."""
    numbers = [part[1] if isinstance(part, tuple) and part[:1] == ("int",) else None for part in key[1:-1]]
    start, stop, step = [0, *numbers, 1] if len(numbers) == 1 else [*numbers, 1][:3]
    return (
        start if type(start) is int else None,
        stop if type(stop) is int else None,
        step if type(step) is int else None,
    )


def _items_counted(numbers: Symbol) -> int | None:
    """Number of known items of a container in ``range(len(container))``, all of which are reached; None for others."""
    match numbers.key:
        case ("range", ("len", _, int() as known, _), _) if known > 1:
            return known
    return None


def number_at(numbers: range, serial: int, at: int, exact: bool) -> Value:
    if exact:
        return numbers[at]
    low, high = sorted((numbers[at], numbers[-1]))
    return Symbol(("index", serial, at if numbers.step > 0 else -at), low, high)


def counter_from(interp: Interpreter, low: int) -> Symbol:
    """A loop's counter of which only a lower bound is known."""
    return Symbol(("index", "counter", interp.new_instance(), low), low)
