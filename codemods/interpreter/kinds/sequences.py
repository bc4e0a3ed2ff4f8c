"""Lists, tuples, sets and deques, and distributions, which hold their parameters in an order."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    comparisons,
    distributions,
    elements,
    errors,
    holding,
    numbered,
    python_classes,
    streams,
)
from autofix.codemods.interpreter.kinds.kind import Assignment, Copied, kind
from autofix.codemods.interpreter.library.containers import ContainerKind
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import (
    ENCLOSED,
    Binding,
    Class,
    Distribution,
    Instance,
    Mapping,
    Name,
    Record,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols


@kind(Sequence)
class SequenceKind(ContainerKind[Sequence]):
    """A list, tuple, set, frozenset or deque, and what else holds items in an order."""

    def attribute(self, interp: Interpreter, value: Sequence, name: str, node: ast.expr) -> Value:
        if name in value.fields:
            return interp.item(value, value.fields.index(name), node)
        if name == "__class__":
            return interp.call(Name("builtins.type"), [value], {}, node)
        if name == "_fields" and value.fields:
            return Sequence("tuple", [Binding(field) for field in value.fields])
        if value.kind == "deque" and name == "maxlen":
            return value.length
        made = super().attribute(interp, value, name, node)
        if name in attributes.ONLY_LISTS and value.kind == "tuple":
            interp.crash(f"a tuple has no attribute {name!r}", "AttributeError")
        return made

    def item(self, interp: Interpreter, value: Sequence, index: Value, node: ast.expr) -> Value:
        if isinstance(index, slice):
            picked = Sequence(value.kind, more=value.more)
            first = index == slice(1, None, None) and value.loses_an_unknown_one()
            for slot in value.items if first else value.items[index]:
                picked.items.append(Binding(interp.read(slot, value), None))
            return picked
        if isinstance(index, int):
            if -len(value.items) <= index < len(value.items):
                return interp.read(value.items[index], value)
            if not value.more:
                if interp.policy.asked:  # no run may take this path
                    errors.happen(interp, "IndexError")
                else:
                    interp.crash(f"{value.kind} index out of range", "IndexError")
            # The last known item stands for all later ones, which iterations that were not run have added.
            later = value.more and index >= 0 and bool(value.items)
            return _guessed(interp.read(value.items[-1], value), value) if later else interp.fresh_symbol("item")
        one = _of_unknown_index(interp, value, index, node)
        if (
            isinstance(one, (Sequence, Mapping))
            and isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Slice)
        ):
            return Sequence(value.kind, [Binding(one)], more=True)  # `episode[start : start + 8]`
        return one

    def set_item(self, interp: Interpreter, value: Sequence, index: Value, given: Value, by: Assignment) -> None:
        if value.kind == "tuple":
            interp.crash("a tuple takes no other items")
        name = interp.source.text_of(by.target)
        slot = interp.slot(given, name, by.expression, value)
        counter = elements.counter_in(index)
        index = numbered.place_for(value, index, given)
        known = isinstance(index, int) and -len(value.items) <= index < len(value.items)
        elements.added_inside(interp, value, value.items[index] if known else None, slot, by.target)
        if counter:
            holding.added(interp, value, slot, name, by.expression, again=counter != "count")
        if known:
            value.items[index] = slot
        elif isinstance(index, slice):
            _set_slice(interp, value, index, given, by.target)
        elif (at := elements.put_at(interp, value, index)) is not None:
            value.items[at] = slot
        else:
            _set_somewhere(value, slot)

    def delete_item(self, interp: Interpreter, value: Sequence, index: Value) -> None:
        if isinstance(index, slice) and index == slice(None, None, None):
            value.items.clear()
            value.more = False
        elif index in (0, slice(None, 1, None)) and value.loses_an_unknown_one():
            return
        elif isinstance(index, (int, slice)):
            try:
                del value.items[index]
            except IndexError:
                value.more = True

    def iterate(self, interp: Interpreter, value: Sequence, node: ast.expr) -> Stream:
        count = None if value.more else len(value.items)
        whole = streams.ITEMS
        if count is not None and all(streams.is_part(slot.value) for slot in value.items):
            whole = streams.PARTS
        goes_on = value.more and bool(value.items) and _another(value.items[-1].value) is not None
        limit = None if goes_on else len(value.items) or None
        return Stream(count, lambda at, exact: _item_at(interp, value, at), whole, limit)

    def truth(self, interp: Interpreter, value: Sequence, *, likely: bool, optional: bool) -> bool:
        if value.kind in ENCLOSED or value.items:
            return True
        return value.more and interp.policy.decide(("any", interp.identity(value)), likely)

    def length(self, interp: Interpreter, value: Sequence, node: ast.expr) -> Value:
        known = len(value.items)
        if not value.more:
            return known
        return Symbol(("len", interp.identity(value), known, interp.new_instance()), low=known, high=value.limit)

    def leaves(self, interp: Interpreter, value: Sequence, seen: set[int]) -> Iterator[Leaf]:
        for slot in value.items:
            yield from interp.leaves_of(slot.value, seen)

    def deep_copy(self, interp: Interpreter, value: Sequence, copied: Copied, node: ast.expr) -> Sequence:
        made = copied.known[id(value)] = replace(value, items=[], kept=(), extended=())
        made.items = [Binding(copied.of(interp.read(slot, value))) for slot in value.items]
        return made

    def key(self, symbols: Symbols, value: Sequence) -> Hashable:
        if value.kind == "tuple" and not value.more:
            items = tuple(slot.value for slot in value.items)
            if all(type(one) in (str, int, float, bool) for one in items):
                return ("constants", items)
        return ("container", symbols.identity(value), len(value.items))

    def contains(self, interp: Interpreter, value: Sequence, item: Value) -> Value:
        items = [slot.value for slot in value.items]
        if isinstance(item, Instance) and item.cls.members and not value.more:
            return any(one is item for one in items)
        if is_constant(item) and any(is_constant(one) and one == item for one in items):
            return True
        if is_constant(item) and not value.more and all(map(is_constant, items)):
            return False
        if isinstance(item, comparisons.CLASSES) and not value.more:
            answers = [
                comparisons.same_class(interp, item, one, comparisons.NOWHERE)
                if isinstance(one, comparisons.CLASSES)
                else None
                for one in items
            ]
            if True in answers or None not in answers:
                return True in answers
        return super().contains(interp, value, item)

    def type_of(self, value: Sequence) -> Value:
        if value.fields:
            return value.cls
        package = "collections" if value.kind == "deque" else "builtins"
        return Name(f"{package}.{value.kind}") if value.kind in python_classes.CONTAINERS else None

    def classes(self, value: Sequence) -> tuple[type, ...]:
        return (python_classes.CONTAINERS[value.kind],) if value.kind in python_classes.CONTAINERS else ()

    def is_instance(self, value: Sequence, cls: Name | Class | Record) -> bool | None:
        if not isinstance(cls, Name):
            return class_lookup.is_of_class(value.cls, cls) if value.cls is not None or not value.fields else None
        known = super().is_instance(value, cls)
        return value.kind == cls.last if known is None and not value.fields else known

    def is_callable(self, value: Sequence) -> bool:
        return False

    def has(self, interp: Interpreter, value: Sequence, name: str) -> bool | None:
        built_in = python_classes.CONTAINERS.get(value.kind) if not value.fields else None
        return hasattr(built_in, name) if built_in is not None else None

    def is_part(self, value: Sequence) -> bool:
        return value.kind == "tuple" and any(
            streams.is_part(slot.value) for slot in value.items[: streams.TAKEN_TOGETHER]
        )

    def copy(self, interp: Interpreter, value: Sequence, node: ast.expr) -> Sequence:
        return replace(value, items=value.items.copy())


@kind(Distribution)
class DistributionKind(SequenceKind):
    """A distribution of ``torch.distributions``."""

    def type_of(self, value: Sequence) -> Value:
        assert isinstance(value, Distribution)
        return Name(f"torch.distributions.{value.name}")

    def is_instance(self, value: Sequence, cls: Name | Class | Record) -> bool | None:
        assert isinstance(value, Distribution)
        return True if isinstance(cls, Name) and cls.last == value.name else None

    def call_method(
        self,
        interp: Interpreter,
        value: Sequence,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        assert isinstance(value, Distribution)
        return distributions.call_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: Sequence, name: str, node: ast.expr) -> Value:
        assert isinstance(value, Distribution)
        return distributions.attribute(interp, value, name, node)


def _of_unknown_index(interp: Interpreter, value: Sequence, index: Value, node: ast.expr) -> Value:
    """The item that stands for those at an index, or in a range, that is not known."""
    if _is_filled_first(interp, value, node):
        return _of_this_round(interp, value)
    object_there = numbered.in_sequence(interp, value, index)
    if object_there is not None:
        return object_there
    place = elements.place_of(interp, value, index)
    if place is not None:
        return _guessed(interp.read(value.items[place], value), value)
    taken = elements.taken_in_turn(interp, value, index)
    if taken is not None and taken.value is None and value.items and _are_containers(value):
        taken = value.items[-1]  # one of those that are not known is like those that are
    if taken is not None:
        return _guessed(interp.read(taken, value), value) if taken.value is not None else interp.fresh_symbol("item")
    # Which one is not known: the oldest tensor with a graph stands for it, as the one most likely to be stale.
    for slot in value.items:
        if any(tensor.cell.node is not None for tensor in interp.tensors(slot.value)):
            return _guessed(interp.read(slot, value), value)
    if _are_different_constants(value) and isinstance(index, Symbol):
        return interp.symbol(("constant", interp.identity(value), interp.key(index)))
    if not value.items:
        return interp.fresh_symbol("item")
    return _guessed(interp.read(value.items[0], value), value)


def _are_containers(value: Sequence) -> bool:
    return all(isinstance(slot.value, (Sequence, Mapping)) for slot in value.items)


def _are_different_constants(value: Sequence) -> bool:
    """Whether all items are numbers, or all are texts, and not the same."""
    held = [slot.value for slot in value.items]
    return any(all(type(one) in kinds for one in held) for kinds in ((int, float), (str,))) and len(set(held)) > 1


def _is_filled_first(interp: Interpreter, value: Sequence, node: ast.expr) -> bool:
    """Whether a list of ``None`` is read by an unknown key for items that were put there before: any other has no use.

    ``out[i] = layer(torch.stack([out[j] for j in parents[i]]))`` goes through a graph in topological order, in each
    forward pass anew.  A function that asks for ``None`` may meet one.
    """
    function = interp.frames[-1].function
    if function is None or function.source.remembered(function.node, _asks_for_none):
        return False
    place = (interp.identity(value), node)
    known = place in interp.loop_items.filled
    if any(slot.value is None for slot in value.items):
        interp.loop_items.filled.add(place)
    return known


def _asks_for_none(function: ast.AST) -> bool:
    """Whether something is compared with ``None`` in a function."""
    compared = (one for part in ast.walk(function) if isinstance(part, ast.Compare) for one in part.comparators)
    return any(isinstance(one, ast.Constant) and one.value is None for one in compared)


def _of_this_round(interp: Interpreter, value: Sequence) -> Value:
    """The item made last, of those that no backward pass has gone through; an unknown value if none is left."""
    clocks = {
        at: tensor.cell.node.clock
        for at, slot in enumerate(value.items)
        for tensor in interp.tensors(slot.value)
        if tensor.cell.node is not None and tensor.cell.node.walked is None
    }
    if not clocks:
        return interp.fresh_symbol("item")
    return _guessed(interp.read(value.items[max(clocks, key=clocks.__getitem__)], value), value)


def _guessed(found: Value, among: Sequence) -> Value:
    """An item picked out of several."""
    if isinstance(found, TensorRef) and (among.more or len(among.items) > 1):
        return TensorRef(found.cell, found.provenance, guessed=True)
    return found


def _set_slice(interp: Interpreter, value: Sequence, index: slice, given: Value, target: ast.expr) -> None:
    """``value[index] = given``, where the index is a slice."""
    holding.emptied(interp, value)
    if not isinstance(given, (Sequence, Symbol)):
        given = interp.call(Name("builtins.list"), [given], {}, target)
    if not isinstance(given, Sequence):
        value.more = True
        return
    try:
        value.items[index] = [Binding(interp.read(part, given), part.kept) for part in given.items]
    except ValueError:
        value.more = True


def _set_somewhere(receiver: Sequence, slot: Binding) -> None:
    """An item whose position is not known: what the program reads back may be any of them, so the last is replaced."""
    if receiver.items:
        receiver.items[-1] = slot
    else:
        receiver.items.append(slot)
    receiver.more = True


def _item_at(interp: Interpreter, value: Sequence, at: int) -> Value:
    if at < len(value.items):
        return interp.read(value.items[at], value)
    like = _another(value.items[-1].value) if value.items else None
    return interp.fresh_symbol("item") if like is None else like


def _another(value: Value) -> Value:
    """Another tensor without a graph like *value*, or tuple of such ones; None for all else."""
    match value:
        case TensorRef(cell=cell) if cell.node is None and not (
            cell.leaf or cell.detachment or cell.vague or cell.unsure
        ):
            return TensorRef(TensorImpl(scalar=cell.scalar, extent=cell.extent))
        case Sequence(more=False):
            parts = [_another(slot.value) for slot in value.items]
            if parts and None not in parts:
                return replace(value, items=[Binding(part) for part in parts], extended=())
    return None
