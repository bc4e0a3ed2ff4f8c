"""Reading and writing items: of containers, mappings and tensors."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    comparisons,
    cuts,
    holding,
    mapping_keys,
    numbered,
)
from autofix.codemods.interpreter.kinds.kind import Assignment, kind_of
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Name,
    Sequence,
    Symbol,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def item(interp: Interpreter, value: Value, index: Value, node: ast.expr) -> Value:
    """``value[index]``."""
    return kind_of(value).item(interp, value, index, node)


def one_of_functions(
    interp: Interpreter, value: Mapping, index: Value, *, may_be_missing: bool = False
) -> Binding | None:
    """The class or function that an unknown key picks out of a table of them, as ``if`` and ``elif`` would choose it.

    ``MODELS[config["name"]]()`` is asked like ``if config["name"] == "small": Small() elif ...``; None where the
    mapping is no such table, the key is one that a loop hands out, or none of those that are known is meant.
    """
    if not isinstance(index, Symbol) or _run_of(interp, index.key) is not None or len(value.items) > _ALTERNATIVES:
        return None
    held = [slot.value for slot in value.items.values()]
    if not any(isinstance(one, _OWN) for one in held) or not all(isinstance(one, (*_OWN, Name)) for one in held):
        return None
    *others, (last, binding) = value.items.items()
    for key, slot in others:
        if interp.truth(comparisons.equality(interp, index, mapping_keys.key_value(interp, key))):
            return slot
    is_open = value.more or may_be_missing
    if is_open and not interp.truth(comparisons.equality(interp, index, mapping_keys.key_value(interp, last))):
        return None
    return binding


_OWN = (Class, Function, Bound)
_ALTERNATIVES = 8
"""The largest table of functions that is followed: each of them is a path of its own."""


def is_one_tensor(tensor: TensorRef) -> bool:
    """Whether a value certainly is one tensor, and not several that a call returned."""
    made = tensor.cell.node
    if tensor.cell.unsure or tensor.guessed or made is None or made.opaque or made.doubtful:
        return False
    return made.leaf is not None or catalogue.gives_one_tensor(catalogue.form(made.operation))


def stood_in(interp: Interpreter, value: Value, key: Hashable) -> None:
    """*value* stands in for the missing item of a *key* that is another one in each iteration."""
    if isinstance(key, tuple):
        interp.incidents.reserves.update(leaf.name for leaf in cuts.leaves_in([value]))


def taken_in_turn(interp: Interpreter, value: Sequence | Mapping, index: Value) -> Binding | None:
    """The item for an index that a loop hands out: another one in each iteration, as in a loop over a permutation.

    An empty slot where none is left; None where the index is no such value.
    """
    if not isinstance(index, Symbol):
        return None
    run = _run_of(interp, index.key)
    if run is None:
        return None
    slots: dict[Any, Binding] = dict(enumerate(value.items)) if isinstance(value, Sequence) else value.items
    taken = interp.loop_items.taken.setdefault((interp.identity(value), run), {})
    if index.key not in taken:
        least = index.low if isinstance(value, Sequence) and index.low is not None else 0
        graphs = [at for at, slot in slots.items() if at not in taken.values() and _has_graph(interp, slot)]
        # A loop's first number is known, and its later ones are greater: they stand for none of the items before.
        at = next((at for at in graphs if not isinstance(at, int) or at >= least), None)
        if at is None and not taken and not graphs:
            return None  # nothing in it has a graph
        taken[index.key] = at
    found = taken[index.key]
    return slots[found] if found is not None and found in slots else Binding(None)


def place_of(interp: Interpreter, container: Sequence | Mapping, index: Value) -> Any:
    """The place in a container of states that an unknown key is taken to stand for; None where none is to be named.

    Two keys of one iteration stand for two places, those of the next one for the same two again, and those of a third
    for the same with their parts changed: nodes come again in other edges.  Items that no pass has used yet may be the
    states of a permutation, each in its turn.  A counter's numbers are all different; so are those of a loop that only
    reads items with graphs.
    """
    if not isinstance(index, Symbol) or not _holds_states(container):
        return None
    known = interp.loop_items.places.setdefault(interp.identity(container), {})
    at = known.get(index.key)
    if at is not None:
        return at[0]
    run = _run_of(interp, index.key)
    slots: dict[Any, Binding] = dict(enumerate(container.items)) if isinstance(container, Sequence) else container.items
    if isinstance(container, Mapping):
        key = mapping_keys.mapping_key(interp, index)
        slots = {one: slot for one, slot in slots.items() if mapping_keys.may_be_one(one, key)}
    if run is not None and not known and any(_has_graph(interp, slot) for slot in slots.values()):
        return None
    moment = run if counter_in(index) else numbered.moment(interp, run)
    passes = len(interp.tape.passes)
    occupied = {place for place, when, then in known.values() if when == moment or then == passes}
    before = list(dict.fromkeys(place for place, *_ in known.values() if place in slots))
    if isinstance(moment, tuple) and moment[1] > 1:
        before.reverse()  # and any of them in the place of another
    interp.loop_items.several_places += bool(occupied)
    found = next((place for place in (*before, *slots) if place not in occupied), None)
    if found is not None:
        known[index.key] = found, moment, passes
    return found


def _holds_states(container: Sequence | Mapping) -> bool:
    """Whether all that is known of a list or a mapping are tensors, or objects that are no modules."""
    if isinstance(container, Sequence):
        values = [slot.value for slot in container.items] if container.kind in ("list", "deque") else []
    else:
        values = [slot.value for slot in container.items.values()]
        if holds_unknown_keys(container) and not container.more:
            return False
    return bool(values) and all(
        value.cell.leaf is None if isinstance(value, TensorRef) else isinstance(value, Instance) and _is_plain(value)
        for value in values
    )


def _is_plain(value: Instance) -> bool:
    return not class_lookup.is_module(value)


def _has_graph(interp: Interpreter, slot: Binding) -> bool:
    return any(tensor.cell.node is not None for tensor in interp.tensors(slot.value))


def _run_of(interp: Interpreter, key: Hashable) -> int | None:
    """The run of a loop that is still going on and hands out the value with this *key*, or what it is a part of."""
    run = interp.loop_items.handed_out.get(key)
    if run is None and isinstance(key, tuple) and key[:1] == ("item",) and len(key) > 1:  # `for one, other in pairs`
        run = interp.loop_items.handed_out.get(key[1])
    return run if run is not None and any(point.instance == run for point in interp.loops) else None


def _turn_of(interp: Interpreter, receiver: Sequence | Mapping, index: Value) -> Any:
    """The place of the item that was read under an index that a loop hands out; None where none was read."""
    if not isinstance(index, Symbol):
        return None
    for point in reversed(interp.loops):
        at = interp.loop_items.taken.get((interp.identity(receiver), point.instance), {}).get(index.key)
        if at is not None:
            return at
    return None


def holds_unknown_keys(value: Mapping) -> bool:
    return any(isinstance(key, tuple) for key in value.items)


def alias(interp: Interpreter, value: Mapping, key: Hashable, index: Value) -> Binding | None:
    """Binding that may stand under a key of which only the origin is known: a tensor that an earlier loop stored.

    Keys that one run of one loop produces are taken to differ from each other.  A known key stands for the last tensor
    where no key is known: ``features["conv2_1"]`` of what a loop over layers stored by their names.
    """
    if not isinstance(key, tuple):
        graphs = [slot for slot in value.items.values() if _has_graph(interp, slot)]
        return graphs[-1] if graphs and all(isinstance(known, tuple) for known in value.items) else None
    found = None
    for known, slot in value.items.items():
        if isinstance(known, tuple) and _origin(known) == _origin(key):
            continue
        if not mapping_keys.may_be_one(known, key) or is_beyond(index, known):
            continue
        if any(tensor.cell.node is not None for tensor in interp.tensors(slot.value)):
            if isinstance(known, tuple) and known[1][-1:] == key[1][-1:]:
                return slot
            found = found or slot
    return found


def is_beyond(index: Value, known: Hashable) -> bool:
    """Whether a counter has come further than a number that is known, or not so far."""
    if not isinstance(index, Symbol) or not isinstance(known, (int, float)):
        return False
    return (index.low is not None and known < index.low) or (index.high is not None and known > index.high)


def _origin(key: tuple[Hashable, ...]) -> Hashable:
    """The loop run that produced an unknown key."""
    inner = key[1]
    return inner[:-1] if isinstance(inner, tuple) and inner[:1] in (("item",), ("index",)) else inner


def put_at(interp: Interpreter, receiver: Sequence | Mapping, index: Value) -> Any:
    """The place of an item for an unknown key, by an earlier read or as a new one; None where it is not known."""
    taken = _turn_of(interp, receiver, index)
    if taken is None and isinstance(receiver, Mapping):  # a key that was not read before may be a new one
        known = interp.loop_items.places.get(interp.identity(receiver), {}).get(
            index.key if isinstance(index, Symbol) else None
        )
        return known[0] if known is not None else None
    return place_of(interp, receiver, index) if taken is None else taken


def set_item(
    interp: Interpreter, receiver: Value, index: Value, value: Value, target: ast.expr, expression: ast.expr | None
) -> None:
    """``receiver[index] = value``."""
    receiver = attributes.plain(interp, receiver)
    kind_of(receiver).set_item(interp, receiver, index, value, Assignment(target, expression))


def put_all_into_opaque(
    interp: Interpreter, receiver: Symbol, given: Mapping, name: str, expression: ast.expr | None
) -> None:
    """The items of a dictionary go into an unknown one: ``batch.update(losses)``, ``batch |= losses``."""
    written = zip(expression.keys, expression.values, strict=True) if isinstance(expression, ast.Dict) else ()
    parts: dict[Any, ast.expr] = {key.value: value for key, value in written if isinstance(key, ast.Constant)}
    for key, slot in given.items.items():
        index = mapping_keys.key_value(interp, key)
        kept = interp.slot(interp.read(slot, given), name, parts.get(key))
        interp.attributes_of_opaque[receiver.key, f"[{interp.key(index)!r}]"] = kept


_COUNTERS = ("index", "count")
"""Kinds of unknown values: the number of a loop's iteration, and what is counted up in one."""


def counter_in(index: Value) -> str:
    """Kind of counter in an index, empty for none: ``epoch``, ``(epoch, step)``, ``f"{epoch}/{step}"``."""
    if isinstance(index, Sequence) and index.kind == "tuple":
        return max((counter_in(slot.value) for slot in index.items), default="")
    if not isinstance(index, Symbol) or not isinstance(index.key, tuple):
        return ""
    kinds = [part[0] for part in index.key[1:] if isinstance(part, tuple) and part] if index.key[0] == "text" else []
    return next((kind for kind in (index.key[0], *kinds) if kind in _COUNTERS), "")


def added_inside(
    interp: Interpreter, receiver: Sequence | Mapping, former: Binding | None, slot: Binding, target: ast.expr
) -> None:
    """``log[epoch]["loss"] = loss``: something was put into one of a container's containers, which a loop counts."""
    outer = target.value if isinstance(target, ast.Subscript) else None
    if isinstance(outer, ast.Subscript) and isinstance(outer.value, (ast.Name, ast.Attribute)):
        index = interp.eval(outer.slice) if isinstance(outer.slice, ast.Name) else None
        around = interp.eval(outer.value) if counter_in(index) else None
        if isinstance(around, (Sequence, Mapping)) and isinstance(index, Symbol):
            run = interp.loop_items.handed_out.get(index.key)
            holding.added_inside(interp, around, receiver, former, slot, run)


def append(
    interp: Interpreter, receiver: Sequence, value: Value, name: str, expression: ast.expr | None, at: int | None = None
) -> Binding:
    """Add one item to a sequence, and give it back; a ``deque`` with a limit drops its oldest."""
    if value is receiver:  # nobody means it, and what goes through all that a list holds would not come to an end
        value = interp.fresh_symbol("item")
    slot = interp.slot(value, name, expression)
    holding.added(interp, receiver, slot, name, expression)
    if at is None or at >= len(receiver.items):
        receiver.items.append(slot)
    else:
        receiver.items.insert(at, slot)
    if interp.widening.cut_short:
        receiver.more = True
    else:
        interp.widening.grows(receiver)
    if receiver.limit is not None and len(receiver.items) > receiver.limit:
        del receiver.items[0 if at is None else -1]
    return slot
