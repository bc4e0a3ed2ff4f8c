"""Items of containers of objects, read by the number of a loop's iteration: ``agents[i]`` for any number of agents.

Of a loop with an unknown number of iterations two or three are run, and so many objects of a container are known.  The
object for the number of an iteration is the one at that place, in every loop: objects of two iterations are two, and
an object is the one of an earlier loop only in the iteration with the same number.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, counters, mapping_keys
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Optimizer,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def iteration_of(index: Value) -> int | None:
    """The number of the iteration whose loop hands out *index*, counted as a list does; None for any other value.

    A loop over unknown items hands out another one in each iteration: the places of the objects are its own numbers.
    """
    if not isinstance(index, Symbol) or not isinstance(index.key, tuple):
        return None
    base, _ = counters.offset_of(index.key)
    number = _number(base)
    is_counted = isinstance(base, tuple) and base[0] == "count"  # of `i += 1`, as often as was run
    if index.low is not None and (is_counted or (number is not None and index.key[0] != "item")):
        return int(index.low) if 0 <= index.low < math.inf else None
    return number if base is index.key else None


def _number(key: Hashable) -> int | None:
    match key:
        case ("index", int(), int() as number) | ("item", _, int(), int() as number) if number >= 0:
            return number
    return None


_ARITHMETIC = frozenset(("index", "item", "plus", "add", "sub", "mul", "remainder"))


def _is_computed(index: Value) -> bool:
    """Whether an index is another one in each iteration, and at no known place: ``n - 1 - i``, ``order[i]``."""
    return isinstance(index, TensorRef) or (isinstance(index, Symbol) and _has_number(index.key))


def _has_number(key: Hashable) -> bool:
    match key:
        case ("index", int(), int() as number):
            return number != 0
        case ("~", "number", int()):  # read out of a tensor, which nobody knows
            return True
        case (str() as name, *parts):
            return name in _ARITHMETIC and any(map(_has_number, parts))
    return False


def in_sequence(interp: Interpreter, container: Sequence, index: Value) -> Value | None:
    """The object of a list under the number of an iteration, an unknown one where none is known; None for all else."""
    number = iteration_of(index)
    if not isinstance(index, (Symbol, TensorRef)) or not are_objects(slot.value for slot in container.items):
        return None
    if number is None and not _is_computed(index):
        return interp.read(container.items[place], container) if (place := _picked(interp, container, index)) else None
    if isinstance(index, Symbol) and number is not None and not _is_alone(interp, container, index.key, number):
        return None
    if number is not None and number < len(container.items):
        return interp.read(container.items[number], container)
    return _unknown(interp, container, index)


def _is_alone(interp: Interpreter, container: Sequence, key: Hashable, number: int) -> bool:
    """Whether loops over unknown items read a container by one of them only in each iteration.

    Two of them, as in ``for one, two in edges``, are the nodes of a graph, which come again in other edges.
    """
    if not isinstance(key, tuple) or key[0] != "item":
        return True
    known = interp.loop_items.places.setdefault(interp.identity(container), {})
    now = moment(interp, interp.loop_items.handed_out.get(key))
    moments = [when for _, when, _ in known.values()]
    if key not in known and (now in moments or len(set(moments)) < len(moments)):
        return False
    known.setdefault(key, (number, now, len(interp.tape.passes)))
    return known[key][0] == number


def _picked(interp: Interpreter, container: Sequence | TorchModule, index: Value) -> int:
    """The place of a module picked by an unknown index: another one for each that picks in the same iteration.

    Objects of the program's classes that are no modules have their places in :mod:`elements`.
    """
    slots = list(container.children.values()) if isinstance(container, TorchModule) else container.items
    if not isinstance(index, Symbol) or all(map(_is_plain, slots)):
        return 0
    known = interp.loop_items.places.setdefault(interp.identity(container), {})
    if index.key not in known:
        now = moment(interp, None)
        occupied = {place for place, when, _ in known.values() if when == now}
        free = next((place for place in range(len(slots)) if place not in occupied), 0)
        known[index.key] = free, now, len(interp.tape.passes)
    place = known[index.key][0]
    return place if isinstance(place, int) and place < len(slots) else 0


def _is_plain(slot: Binding) -> bool:
    return isinstance(slot.value, Instance) and not class_lookup.is_module(slot.value)


def moment(interp: Interpreter, run: int | None) -> Hashable:
    """The iteration in which a loop's *run* is; None for the innermost loop that is over no more than a few names."""
    for point in reversed(interp.loops):
        over = getattr(point.statement.node, "iter", None)
        if point.instance == run or (run is None and not isinstance(over, (ast.Tuple, ast.List))):
            return point.instance, point.iteration
    return None


def in_mapping(interp: Interpreter, container: Mapping, key: Hashable, index: Value) -> Value | None:
    """The object of a mapping under a *key* that another loop has made alike, an unknown one where none is known.

    None where the key belongs to no loop, or the mapping holds other things than objects.
    """
    number, alike = iteration_of(index), _without_run(key)
    computed = number is not None or _is_computed(index)
    if (alike == key and not computed) or not are_objects(slot.value for slot in container.items.values()):
        return None
    wanted = (alike,) if number is None else (alike, number, ("?", ("number", number)))
    slot = next((slot for known, slot in container.items.items() if _without_run(known) in wanted), None)
    if slot is not None:
        return interp.read(slot, container)
    return _unknown(interp, container, index) if computed else None


def known_key(container: Mapping, key: Hashable) -> Hashable:
    """The key of *container* that an earlier loop over the same unknown items handed out as this one does *key*.

    ``for name in names: losses[name] = ...``, and ``losses[name]`` in another loop over ``names``.
    """
    match key:
        case ("?", ("item", over, int(), int() as at)) if key not in container.items:
            for known in container.items:
                match known:
                    case ("?", ("item", other, int(), int() as place)) if (other, place) == (over, at):
                        return known
    return key


def in_module(interp: Interpreter, container: TorchModule, index: Value) -> Value | None:
    """The module of a list or a dictionary of modules under the number of an iteration; None for all else.

    Where none is known, one that keeps no graph is like any of them.
    """
    number = iteration_of(index)
    slots = list(container.children.values())
    if not isinstance(index, (Symbol, TensorRef)) or not are_objects(slot.value for slot in slots):
        return None
    if number is None and not _is_computed(index):
        return slots[_picked(interp, container, index)].value
    if number is not None and number < len(slots):
        return slots[number].value
    return _unknown(interp, container, index) if _keeps_graph(interp, slots[0].value) else None


def _keeps_graph(interp: Interpreter, module: Value) -> bool:
    """Whether an attribute of a module is a tensor with a graph, or holds one."""
    kept = [slot.value for slot in module.names.values()] if isinstance(module, Instance) else []
    return any(tensor.cell.leaf is None and tensor.cell.node is not None for tensor in interp.tensors(*kept))


def place_for(container: Sequence, index: Value, value: Value) -> Value:
    """The place at which an object is put into a list under the number of an iteration; *index* itself for all else.

    ``agents = [None] * count`` has as many places as the loop that fills it is run.
    """
    number = iteration_of(index)
    if number is None or not are_objects([value]) or number > len(container.items):
        return index
    if number == len(container.items):
        container.items.append(Binding(None))
        container.more = True
    return number


_NESTED = 3
"""Containers around an object that are opened."""


def are_objects(values: Iterable[Value], nested: int = _NESTED) -> bool:
    """Whether values are objects of classes, or lists and mappings of such: no tensors by themselves."""
    found = list(values)
    return bool(found) and all(_is_object(value, nested) for value in found)


def _is_object(value: Value, nested: int) -> bool:
    match value:
        case Instance() | TorchModule() | Optimizer():
            return True
        case Sequence() if nested:
            return are_objects((slot.value for slot in value.items), nested - 1)
        case Mapping() if nested:
            return are_objects((slot.value for slot in value.items.values()), nested - 1)
    return False


def _unknown(interp: Interpreter, container: Value, index: Value) -> Value:
    return interp.symbol(("item", interp.identity(container), mapping_keys.mapping_key(interp, index)))


def _without_run(key: Hashable) -> Hashable:
    """*key* without the runs of the loops that handed out its parts: equal for iterations of the same number."""
    number = _number(key)
    if number is not None:
        return ("number", number)
    return tuple(map(_without_run, key)) if isinstance(key, tuple) else key
