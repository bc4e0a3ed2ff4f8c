"""Items of containers of objects, read by the number of a loop's iteration: ``agents[i]`` for any number of agents.

Of a loop with an unknown number of iterations two or three are run, and so many objects of a container are known.  The
object for the number of an iteration is the one at that place, in every loop: objects of two iterations are two, and
an object is the one of an earlier loop only in the iteration with the same number.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import mapping_keys
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Optimizer,
    Sequence,
    Symbol,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def iteration_of(index: Value) -> int | None:
    """The number of the iteration whose loop hands out *index*, counted as a list does; None for any other value.

    A loop over unknown items hands out another one in each iteration: the places of the objects are its own numbers.
    """
    match index:
        case Symbol(key=("count", *_), low=int(least)) if least >= 0:  # of `i += 1`, as often as was run
            return least
        case Symbol(key=("index", *_) as key, low=int(least)):
            return None if _number(key) is None else least
        case Symbol(key=key):
            return _number(key)
    return None


def _number(key: Hashable) -> int | None:
    match key:
        case ("index", int(), int() as number) | ("item", _, int(), int() as number) if number >= 0:
            return number
    return None


def in_sequence(interp: Interpreter, container: Sequence, index: Value) -> Value | None:
    """The object of a list under the number of an iteration, an unknown one behind those known; None for all else."""
    number = iteration_of(index)
    if number is None or not are_objects(slot.value for slot in container.items):
        return None
    assert isinstance(index, Symbol)
    assert isinstance(index.key, tuple)
    if index.key[:1] == ("item",) and not _is_alone(interp, container, index.key, number):
        return None
    if number < len(container.items):
        return interp.read(container.items[number], container)
    return _unknown(interp, container, index)


def _is_alone(interp: Interpreter, container: Sequence, key: Hashable, number: int) -> bool:
    """Whether loops over unknown items read a container by one of them only in each iteration.

    Two of them, as in ``for one, two in edges``, are the nodes of a graph, which come again in other edges.
    """
    known = interp.loop_items.places.setdefault(interp.identity(container), {})
    now = moment(interp, interp.loop_items.handed_out.get(key))
    moments = [when for _, when, _ in known.values()]
    if key not in known and (now in moments or len(set(moments)) < len(moments)):
        return False
    known.setdefault(key, (number, now, len(interp.tape.passes)))
    return known[key][0] == number


def moment(interp: Interpreter, run: int | None) -> Hashable:
    """The iteration in which a loop's *run* is; None for the innermost loop that is over no more than a few names."""
    for point in reversed(interp.loops):
        over = getattr(point.statement.node, "iter", None)
        if point.instance == run or (run is None and not isinstance(over, (ast.Tuple, ast.List))):
            return point.instance, point.iteration
    return None


def in_mapping(interp: Interpreter, container: Mapping, key: Hashable, index: Value) -> Value | None:
    """The object of a mapping under a *key* that another loop has made alike; None where the mapping has none."""
    alike = _without_run(key)
    if alike == key or not are_objects(slot.value for slot in container.items.values()):
        return None
    slot = next((slot for known, slot in container.items.items() if _without_run(known) == alike), None)
    if slot is not None:
        return interp.read(slot, container)
    number = iteration_of(index)
    return None if number is None else _unknown(interp, container, index)


def in_module(interp: Interpreter, container: TorchModule, index: Value) -> Value | None:
    """The module of a list or a dictionary of modules under the number of an iteration; None for all else.

    Behind the modules known, one without tensors of its own making is like any of them.
    """
    number = iteration_of(index)
    slots = list(container.children.values())
    if number is None or not are_objects(slot.value for slot in slots):
        return None
    if number < len(slots):
        return slots[number].value
    keeps = any(tensor.cell.leaf is None and tensor.cell.node is not None for tensor in interp.tensors(slots[0].value))
    return _unknown(interp, container, index) if keeps else None


def put(container: Sequence, index: Value, slot: Binding) -> bool:
    """Put an object under the number of an iteration, in place of what is not known there; whether that was done."""
    number = iteration_of(index)
    if number is None or not are_objects([slot.value]) or number > len(container.items):
        return False
    container.items[number : number + 1] = [slot]
    container.more = True
    return True


def are_objects(values: Iterable[Value]) -> bool:
    """Whether values are objects of classes, or lists and mappings of such: no tensors by themselves."""
    found = list(values)
    return bool(found) and all(map(_is_object, found))


def _is_object(value: Value) -> bool:
    match value:
        case Instance() | TorchModule() | Optimizer():
            return True
        case Sequence():
            return are_objects(slot.value for slot in value.items)
        case Mapping():
            return are_objects(slot.value for slot in value.items.values())
    return False


def _unknown(interp: Interpreter, container: Value, index: Value) -> Value:
    return interp.symbol(("item", interp.identity(container), mapping_keys.mapping_key(interp, index)))


def _without_run(key: Hashable) -> Hashable:
    """*key* without the runs of the loops that handed out its parts: equal for iterations of the same number."""
    number = _number(key)
    if number is not None:
        return ("number", number)
    return tuple(map(_without_run, key)) if isinstance(key, tuple) else key
