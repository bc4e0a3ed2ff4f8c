"""``collections.ChainMap``: several dictionaries as one, of which the first that has a key gives its item."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import elements
from autofix.codemods.interpreter.kinds.kind import Assignment, Copied, MethodsKind, kind, kind_of
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import Binding, Chain, Mapping, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_OF_THE_FIRST = frozenset("pop popitem clear update setdefault".split())
"""Methods that change the first dictionary; ``setdefault`` does where none has the key."""


@kind(Chain)
class ChainKind(MethodsKind[Chain]):
    """A chain of dictionaries."""

    def call_method(
        self,
        interp: Interpreter,
        value: Chain,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        holder = _holder(interp, value, args[0]) if name in ("get", "setdefault") and args else None
        if holder is not None and holder is not value.maps[0]:
            return interp.item(holder, args[0], node)
        if name == "new_child":
            return Chain([*(args[:1] or [Mapping()]), *value.maps])
        receiver = value.maps[0] if name in _OF_THE_FIRST else _merged(interp, value)
        return kind_of(receiver).call_method(interp, receiver, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Chain, name: str, node: ast.expr) -> Value:
        if name == "maps":
            return Sequence("list", [Binding(one) for one in value.maps])
        if name == "parents":
            return Chain(value.maps[1:] or [Mapping()])
        return super().attribute(interp, value, name, node)

    def item(self, interp: Interpreter, value: Chain, index: Value, node: ast.expr) -> Value:
        return interp.item(_holder(interp, value, index) or value.maps[-1], index, node)

    def set_item(self, interp: Interpreter, value: Chain, index: Value, given: Value, by: Assignment) -> None:
        elements.set_item(interp, value.maps[0], index, given, by.target, by.expression)

    def delete_item(self, interp: Interpreter, value: Chain, index: Value) -> None:
        kind_of(value.maps[0]).delete_item(interp, value.maps[0], index)

    def iterate(self, interp: Interpreter, value: Chain, node: ast.expr) -> Stream | None:
        merged = _merged(interp, value)
        return kind_of(merged).iterate(interp, merged, node)

    def truth(self, interp: Interpreter, value: Chain, *, likely: bool, optional: bool) -> bool:
        return any(interp.truth(one, likely=likely, optional=optional) for one in value.maps)

    def length(self, interp: Interpreter, value: Chain, node: ast.expr) -> Value:
        merged = _merged(interp, value)
        return kind_of(merged).length(interp, merged, node)

    def contains(self, interp: Interpreter, value: Chain, item: Value) -> Value:
        merged = _merged(interp, value)
        return kind_of(merged).contains(interp, merged, item)

    def leaves(self, interp: Interpreter, value: Chain, seen: set[int]) -> Iterator[Leaf]:
        for one in value.maps:
            yield from interp.leaves_of(one, seen)

    def copy(self, interp: Interpreter, value: Chain, node: ast.expr) -> Chain:
        first = value.maps[0]
        return Chain([kind_of(first).copy(interp, first, node), *value.maps[1:]])

    def deep_copy(self, interp: Interpreter, value: Chain, copied: Copied, node: ast.expr) -> Chain:
        made = copied.known[id(value)] = Chain([])
        made.maps.extend(map(copied.of, value.maps))
        return made


def _holder(interp: Interpreter, value: Chain, index: Value) -> Value:
    """The first of the dictionaries that may have an item for an index; None where none has."""
    answers = ((one, kind_of(one).contains(interp, one, index)) for one in value.maps)
    return next((one for one, answer in answers if answer is not False), None)


def _merged(interp: Interpreter, value: Chain) -> Value:
    """A dictionary with the items of all, the first one's before the others'; the first, where one is not known."""
    found = Mapping()
    for one in reversed(value.maps):
        if not isinstance(one, Mapping):
            return value.maps[0]
        found.items.update({key: Binding(interp.read(slot, one), slot.kept) for key, slot in one.items.items()})
        found.more = found.more or one.more
    return found
