"""States that are made anew in every iteration of the last one: ``state = {**state, "sum": state["sum"] + loss}``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from autofix.codemods.autograd.walks import nodes_under
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Binding, Instance, Mapping, Sequence, TensorRef, Value

LAYER = 64
"""Operations between an old value and a new one, and between a layer's output and that of the layer before."""
DEPTH = 2
"""States inside a state that are looked into: ``state["metrics"]["loss"]``."""
_EXTENSIONS = 4
"""Lists between an old list and a new one that has all of its items: ``[*losses, a] + [b]``."""


class Part(NamedTuple):
    """A part of a state before and after an assignment, and its keys from the outside in."""

    place: tuple[Hashable, ...]
    old: Binding
    new: Binding


def parts(before: Value, after: Value, depth: int = DEPTH) -> Iterator[Part]:
    """The parts that two states of one kind have in common, those of states inside them included."""
    for key, old, new in _in_common(before, after):
        yield Part((key,), old, new)
        if depth > 0 and old.value is not new.value and not extends(new.value, old.value):
            for inner in parts(old.value, new.value, depth - 1):
                yield inner._replace(place=(key, *inner.place))


def _in_common(before: Value, after: Value) -> Iterable[tuple[Hashable, Binding, Binding]]:
    match before, after:
        case Mapping(), Mapping():
            return [(key, slot, after.items[key]) for key, slot in before.items.items() if key in after.items]
        case Sequence(kind="tuple" | "list", more=False), Sequence(more=False):
            if before.kind == after.kind and len(before.items) == len(after.items):
                return [(at, old, new) for at, (old, new) in enumerate(zip(before.items, after.items, strict=True))]
        case Instance(), Instance():
            if before.cls is after.cls and not class_lookup.is_module(before):
                return [(name, slot, after.names[name]) for name, slot in before.names.items() if name in after.names]
    return ()


def is_state(value: Value) -> bool:
    """Whether a value may be a state of several parts: a dictionary, a tuple, an object that is no module."""
    return isinstance(value, (Mapping, Sequence)) or (isinstance(value, Instance) and not class_lookup.is_module(value))


def extends(after: Value, before: Value) -> bool:
    """Whether a list was made of all the items of another one: ``[*losses, loss]``, ``losses + [loss]``."""
    made = list(after.extended) if isinstance(after, Sequence) and after.limit is None else []
    for _ in range(_EXTENSIONS):
        if any(one is before for one in made):
            return True
        made = [inner for one in made if one.limit is None for inner in one.extended]
    return False


def is_step_on(value: Value, before: Value) -> bool:
    """Whether a value was computed from the one before, as a layer's output is: they are one graph."""
    if not isinstance(value, TensorRef) or not isinstance(before, TensorRef) or value.cell.node is None:
        return False
    return any(one is before.cell.node for one in islice(nodes_under([value.cell.node]), LAYER))


def goes_on(part: Part) -> bool:
    """Whether the new part has all of the old one: it is that, or a longer list, or a value computed of it."""
    old, new = part.old.value, part.new.value
    if isinstance(old, TensorRef) and isinstance(new, TensorRef) and old.cell is new.cell:
        return True
    return new is old or extends(new, old) or is_step_on(new, old)
