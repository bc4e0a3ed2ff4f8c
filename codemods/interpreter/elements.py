"""Reading and writing items: of containers, mappings and tensors."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.codemods.autograd import catalogue, layout
from autofix.codemods.autograd.graph import Node
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    comparisons,
    cuts,
    datasets,
    errors,
    extents,
    holding,
    mapping_keys,
    module_lists,
    module_tree,
    numbered,
    opaque_results,
    overridden,
    overwriting,
    parts,
)
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    Instance,
    Mapping,
    Method,
    Name,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def _is_old_item(interp: Interpreter, node: ast.expr) -> bool:
    """Whether ``loss.data[0]`` is written here, and not where only a tuple gets to: ``if isinstance(out, tuple)``."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return False
    source, statement = interp.statement
    return not any("isinstance(" in ast.unparse(one.test) for one in source.ifs_around(statement))


def item(interp: Interpreter, value: Value, index: Value, node: Any) -> Value:
    """``value[index]``."""
    match value:
        case Sequence():
            return _of_sequence(interp, value, index, node)
        case Mapping():
            return _of_mapping(interp, value, index, node)
        case TensorRef():
            return _of_tensor(interp, value, index, node)
        case TorchModule():
            return _of_container_module(interp, value, index, node)
        case str() | bytes() | range() if isinstance(index, (int, slice)):
            try:
                return value[index]
            except IndexError:
                return interp.fresh_symbol("item")
        case Class() if isinstance(index, str) and index in value.members:
            return value.members[index]
        case Class() if class_lookup.is_generic(value):
            return value
        case Instance():
            found = class_lookup.find(value, "__getitem__")
            if found is not None:
                return interp.call(class_lookup.bind(found, value), [index], {}, node)
            base = class_lookup.base_module(value)
            if base is not None:
                return _of_container_module(interp, base, index, node)
            if value.items is not None:
                return item(interp, value.items, index, node)
        case Name(path=path) if path.partition(".")[0] in ("os", "sys"):
            kind = "environment" if path == "os.environ" else path
            return interp.symbol((kind, interp.key(index)))
        case Name():
            return value  # Optional[int], nn.Module[...]
        case Symbol() | Method():
            owner = attributes.plain(interp, value)
            if isinstance(owner, Symbol):
                return _of_symbol(interp, owner, index, node)
    return interp.fresh_symbol("item")


def _of_tensor(interp: Interpreter, value: TensorRef, index: Value, node: Any) -> Value:
    """A part of a tensor, or of what a call that was not read returned, which is taken for one."""
    made = value.cell.node
    one = made is None or len(catalogue.operation(made.operation).fields) < 2
    if value.cell.scalar is True and one and index == 0 and _is_old_item(interp, node):
        interp.log.legacy[ast.unparse(node), interp.site(node).line] = interp.site(node)
        return interp.fresh_symbol("number")
    attributes.note_part(interp, value.cell, index)
    if isinstance(index, str):
        put = interp.attributes_of_opaque.get(_item_of_record(interp, value, index))
        if put is not None:
            return interp.read(put)
    picked = _of_tensor_item(interp, value, index, node)
    if isinstance(index, (str, int, Symbol)):
        opaque_results.note_reading(interp, value, interp.key(index), picked)
    picked.cell.extent = extents.of_item(extents.extent_of(value), index)
    picked.cell.sibling = _is_one_of_several_views(value, picked, index)
    if value.cell.counted > 0:
        picked.cell.counted = value.cell.counted - _dimensions_taken(index)
    if picked.cell.sibling:
        picked.cell.viewed = value.cell.viewed
    return picked


def _item_of_record(interp: Interpreter, record: TensorRef, key: str) -> tuple[Hashable, str]:
    return ("tensor", interp.identity(record.cell)), f"[{key!r}]"


def _is_one_of_several_views(value: TensorRef, picked: TensorRef, index: Value) -> bool:
    """Whether an item of a tensor, or of a tuple of tensors, is a view that one call made beside others, or one of it.

    What an index of whole numbers or truth values picks is a copy.
    """
    if value.cell.sibling:
        return picked.cell.base is not None
    made = value.cell.node
    return made is not None and catalogue.kind(made.operation) == catalogue.VIEWS and not isinstance(index, slice)


def is_one_tensor(tensor: TensorRef) -> bool:
    """Whether a value certainly is one tensor, and not several that a call returned."""
    made = tensor.cell.node
    if tensor.cell.unsure or tensor.guessed or made is None or made.opaque or made.doubtful:
        return False
    return made.leaf is not None or catalogue.gives_one_tensor(catalogue.form(made.operation))


def _dimensions_taken(index: Value) -> int:
    """Number of dimensions that an index takes from a tensor, with all that it has for an index that is not known."""
    if isinstance(index, slice):
        return 0
    number = isinstance(index, int) or (isinstance(index, Symbol) and cuts.plain_number(index.key))
    return 1 if number else _MANY


_MANY = 99


def _of_symbol(interp: Interpreter, owner: Symbol, index: Value, node: ast.expr) -> Value:
    if owner.key in interp.parameter_tables and isinstance(index, str):
        return attributes.get(interp, interp.parameter_tables[owner.key], index, node)
    slot = interp.attributes_of_opaque.get((owner.key, f"[{interp.key(index)!r}]"))
    if slot is not None:
        return interp.read(slot)
    if isinstance(owner.key, tuple) and owner.key[:1] == ("match",):  # of `re`
        return interp.call(Method(owner, "group", node), [index], {}, node)
    if owner.key in interp.served and (one := datasets.item(interp, owner, index)) is not None:
        return one
    picked_out = interp.symbol(("item", owner.key, interp.key(index)))
    picked_out.detachment = picked_out.detachment or owner.detachment
    if owner.key in interp.computed:
        interp.computed.add(picked_out.key)
    return picked_out


def _of_tensor_item(interp: Interpreter, value: TensorRef, index: Value, node: ast.expr) -> TensorRef:
    made = value.cell.node
    if made is not None and isinstance(index, int) and catalogue.operation(made.operation).is_whole(index):
        return cuts.whole_numbers(interp, [value], node)
    if isinstance(index, (int, slice)) or index is None or index is Ellipsis or _basic(index, node):
        place = tuple(slot.value for slot in index.items) if isinstance(index, Sequence) else (index,)
        of_several = isinstance(index, int) and _has_own_storage(value.cell.node, index)
        picked = interp.operation("select", [_untouched(value, place)], node, view=None if of_several else value)
        picked.cell.dense = value.cell.dense and layout.is_dense_index(place)
        if value.cell.base is None:
            picked.cell.place = place
        return picked
    if (isinstance(index, TensorRef) and index.cell.counted != 0) or (
        isinstance(index, Sequence) and any(True for _ in interp.tensors(index))
    ):
        return interp.operation("index", [value, index], node, names=("self", "indices"))
    if isinstance(index, TensorRef):  # of a single whole number, which is as good as an ``int``
        return interp.operation("select", [value], node, view=value)
    shares = isinstance(index, Symbol) and not _picks_copies(index.key)
    return interp.operation("select", [value], node, view=value if shares else None)


def _picks_copies(key: Hashable) -> bool:
    """Whether an unknown index is a tensor, or an array, by the method that made it: its items are copies."""
    match key:
        case (_, "call", ("method", _, str(name)), *_):
            return name in _OF_ARRAYS
    return False


_OF_ARRAYS = frozenset("nonzero squeeze unsqueeze flatten view reshape long argsort argmax argmin sort topk".split())


def _has_own_storage(made: Node | None, index: int) -> bool:
    """Whether an item of a result is a tensor of its own, which no backward pass needs: ``torch.std_mean(x)[1]``."""
    if made is None:
        return False
    row = catalogue.operation(made.operation)
    several = -len(row.fields) <= index < len(row.fields) and row.known
    return made.opaque or (several and not row.saves_result(index))


def _untouched(value: TensorRef, place: tuple[object, ...]) -> TensorRef:
    """A tensor as it was before other parts of it than this were changed."""
    node = parts.untouched(value.cell, place)
    return value if node is value.cell.node else TensorRef(replace(value.cell, node=node), value.provenance)


def _basic(index: Value, node: ast.expr) -> bool:
    """Whether an index is made of numbers and slices only, known or not, so that the result is a view."""
    if not isinstance(index, Sequence) or index.kind != "tuple":
        return False
    written = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    slices = {at for at, part in enumerate(written) if isinstance(part, ast.Slice)}
    return all(
        at in slices
        or isinstance(slot.value, (int, slice, type(None), type(Ellipsis)))
        or (isinstance(slot.value, Symbol) and cuts.plain_number(slot.value.key))
        for at, slot in enumerate(index.items)
    )


def _are_containers(value: Sequence) -> bool:
    return all(isinstance(slot.value, (Sequence, Mapping)) for slot in value.items)


def _of_sequence(interp: Interpreter, value: Sequence, index: Value, node: ast.expr) -> Value:
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
    if isinstance(one, (Sequence, Mapping)) and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return Sequence(value.kind, [Binding(one)], more=True)  # `episode[start : start + 8]`
    return one


def _of_unknown_index(interp: Interpreter, value: Sequence, index: Value, node: ast.expr) -> Value:
    """The item that stands for those at an index, or in a range, that is not known."""
    if _is_filled_first(interp, value, node):
        return _of_this_round(interp, value)
    object_there = numbered.in_sequence(interp, value, index)
    if object_there is not None:
        return object_there
    place = _place_of(interp, value, index)
    if place is not None:
        return _guessed(interp.read(value.items[place], value), value)
    taken = _taken_in_turn(interp, value, index)
    if taken is not None and taken.value is None and value.items and _are_containers(value):
        taken = value.items[-1]  # one of those that are not known is like those that are
    if taken is not None:
        return _guessed(interp.read(taken, value), value) if taken.value is not None else interp.fresh_symbol("item")
    # Which one is not known: the oldest tensor with a graph stands for it, as the one most likely to be stale.
    for slot in value.items:
        if any(tensor.cell.node is not None for tensor in interp.tensors(slot.value)):
            return _guessed(interp.read(slot, value), value)
    if _are_different_numbers(value) and isinstance(index, Symbol):
        return interp.symbol(("constant", interp.identity(value), interp.key(index)))
    if not value.items:
        return interp.fresh_symbol("item")
    return _guessed(interp.read(value.items[0], value), value)


def _are_different_numbers(value: Sequence) -> bool:
    """Whether all items are numbers, and not the same."""
    numbers = [slot.value for slot in value.items]
    return all(type(one) in (int, float) for one in numbers) and len(set(numbers)) > 1


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


def _of_mapping(interp: Interpreter, value: Mapping, index: Value, node: ast.expr) -> Value:
    key = numbered.known_key(value, mapping_keys.key_in(interp, index, value))
    slot = value.items.get(key)
    if slot is not None:
        return interp.read(slot, value)
    object_there = numbered.in_mapping(interp, value, key, index)
    if object_there is not None:
        return object_there
    if not value.more and value.items and all(_is_beyond(index, known) for known in value.items):
        errors.happen(interp, "KeyError")
    place = _place_of(interp, value, index)
    if place is not None:
        return interp.read(value.items[place], value)
    named = _named_parameter(interp, value, index, node)
    if named is not None:
        return named
    slot = _taken_in_turn(interp, value, index)
    if slot is not None and slot.value is not None:
        return interp.read(slot, value)
    chosen = one_of_functions(interp, value, index)
    if chosen is not None:
        return interp.read(chosen, value)
    of_lists = isinstance(index, Symbol) and bool(value.items) and all(map(_is_list, value.items.values()))
    if slot is not None and value.default is None and not of_lists:
        return interp.fresh_symbol("item")
    slot = alias(interp, value, key, index) if slot is None else None
    if slot is not None:
        return interp.read(slot, value)
    if value.default is not None:
        made = interp.call(value.default, [], {}, node)
        if value.more and (made is None or isinstance(made, (str, bool))):
            return interp.symbol(("item", interp.identity(value), key))  # settings that were read from a file
        value.items[key] = Binding(made)
        stood_in(interp, made, key)
        return made
    if of_lists:
        value.items[key] = Binding(Sequence("list"))  # one of them, whichever
        return value.items[key].value
    if isinstance(key, tuple) and (flag := _only_flag(value)) is not None:
        return flag
    if not value.more and not isinstance(key, tuple) and not _holds_unknown_keys(value):
        interp.crash(f"KeyError: {key!r}", "KeyError")
    return interp.symbol(("item", interp.identity(value), key))


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


def _only_flag(value: Mapping) -> bool | None:
    """The truth value that a mapping holds under all of its keys; None for any other mapping."""
    held = {slot.value if isinstance(slot.value, bool) else None for slot in value.items.values()}
    return held.pop() if len(held) == 1 else None


def _named_parameter(interp: Interpreter, value: Mapping, index: Value, node: ast.expr) -> Value | None:
    """``dict(net.named_parameters())["head.weight"]``."""
    if not isinstance(index, str):
        return None
    names = (mapping_keys.key_value(interp, key) for key, slot in value.items.items() if _is_whole_leaf(slot.value))
    modules = (interp.named.get(name.key) for name in names if isinstance(name, Symbol))
    found = (module_tree.parameter_called(interp, one, index, node) for one in modules if one is not None)
    return next(found, None)


def _is_whole_leaf(value: Value) -> bool:
    """Whether a value is a parameter itself, and nothing computed from it: no copy, and not its gradient."""
    cell = value.cell if isinstance(value, TensorRef) else None
    return cell is not None and cell.leaf is not None and cell.leaf.node is cell.node


def stood_in(interp: Interpreter, value: Value, key: Hashable) -> None:
    """*value* stands in for the missing item of a *key* that is another one in each iteration."""
    if isinstance(key, tuple):
        interp.tape.reserves.update(leaf.name for leaf in cuts.leaves_in([value]))


def _is_list(slot: Binding) -> bool:
    return isinstance(slot.value, Sequence) and slot.value.kind in ("list", "deque")


def _taken_in_turn(interp: Interpreter, value: Sequence | Mapping, index: Value) -> Binding | None:
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


def _place_of(interp: Interpreter, container: Sequence | Mapping, index: Value) -> Any:
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
    moment = run if _counter_in(index) else numbered.moment(interp, run)
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
        if _holds_unknown_keys(container) and not container.more:
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


def _holds_unknown_keys(value: Mapping) -> bool:
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
        if not mapping_keys.may_be_one(known, key) or _is_beyond(index, known):
            continue
        if any(tensor.cell.node is not None for tensor in interp.tensors(slot.value)):
            if isinstance(known, tuple) and known[1][-1:] == key[1][-1:]:
                return slot
            found = found or slot
    return found


def _is_beyond(index: Value, known: Hashable) -> bool:
    """Whether a counter has come further than a number that is known, or not so far."""
    if not isinstance(index, Symbol) or not isinstance(known, (int, float)):
        return False
    return (index.low is not None and known < index.low) or (index.high is not None and known > index.high)


def _origin(key: tuple[Hashable, ...]) -> Hashable:
    """The loop run that produced an unknown key."""
    inner = key[1]
    return inner[:-1] if isinstance(inner, tuple) and inner[:1] in (("item",), ("index",)) else inner


def _of_container_module(interp: Interpreter, value: TorchModule, index: Value, node: Any) -> Value:
    slots = list(value.children.values())
    if isinstance(index, slice):
        picked = dict(list(value.children.items())[index])
        return TorchModule(value.kind, children=picked)
    if isinstance(index, (int, str)):
        slot = module_lists.item(value, index)
        if slot is not None:
            return slot.value
    if slots and value.kind == "Sequential" and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        first, *rest = value.children.items()
        return TorchModule(value.kind, children=dict([first]), rest=tuple(slot for _, slot in rest))
    module_there = numbered.in_module(interp, value, index)
    if module_there is not None:
        return module_there
    return slots[0].value if slots else interp.fresh_symbol("module")


def put_at(interp: Interpreter, receiver: Sequence | Mapping, index: Value) -> Any:
    """The place of an item for an unknown key, by an earlier read or as a new one; None where it is not known."""
    taken = _turn_of(interp, receiver, index)
    if taken is None and isinstance(receiver, Mapping):  # a key that was not read before may be a new one
        known = interp.loop_items.places.get(interp.identity(receiver), {}).get(
            index.key if isinstance(index, Symbol) else None
        )
        return known[0] if known is not None else None
    return _place_of(interp, receiver, index) if taken is None else taken


def _may_be_list(cell: TensorImpl) -> bool:
    """Whether what is taken for a tensor, or for a part of one, may be a list of several."""
    return cell.unsure or (cell.base is not None and cell.base.unsure)


def set_item(
    interp: Interpreter, receiver: Value, index: Value, value: Value, target: ast.Subscript, expression: ast.expr | None
) -> None:
    """``receiver[index] = value``."""
    receiver = attributes.plain(interp, receiver)
    name = interp.source.text_of(target)
    match receiver:
        case TensorRef():
            _put_into_tensor(interp, receiver, index, value, target, expression)
        case Mapping():
            key = numbered.known_key(receiver, mapping_keys.mapping_key(interp, index))
            slot = interp.slot(value, name, expression, receiver)
            place = put_at(interp, receiver, index)
            key = key if place is None else place
            counter = _counter_in(index)
            if key not in receiver.items and (isinstance(index, int) or counter):
                holding.added(interp, receiver, slot, name, expression, again=counter != "count")
                # Beside what an earlier iteration added, it stands for all that are to come.
                receiver.more = receiver.more or (isinstance(index, Symbol) and bool(receiver.items))
            _added_inside(interp, receiver, receiver.items.get(key), slot, target)
            overridden.by_value(interp, receiver.items, receiver, key, value)
            receiver.items[key] = slot
        case Sequence():
            if receiver.kind == "tuple":
                interp.crash("a tuple takes no other items")
            slot = interp.slot(value, name, expression, receiver)
            counter = _counter_in(index)
            index = numbered.place_for(receiver, index, value)
            known = isinstance(index, int) and -len(receiver.items) <= index < len(receiver.items)
            _added_inside(interp, receiver, receiver.items[index] if known else None, slot, target)
            if counter:
                holding.added(interp, receiver, slot, name, expression, again=counter != "count")
            if known:
                receiver.items[index] = slot
            elif isinstance(index, slice):
                holding.emptied(interp, receiver)
                given = value
                if not isinstance(value, (Sequence, Symbol)):
                    given = interp.call(Name("builtins.list"), [value], {}, target)
                if not isinstance(given, Sequence):
                    receiver.more = True
                    return
                try:
                    receiver.items[index] = [Binding(interp.read(part, given), part.kept) for part in given.items]
                except ValueError:
                    receiver.more = True
            elif (at := put_at(interp, receiver, index)) is not None:
                receiver.items[at] = slot
            else:
                _set_somewhere(receiver, slot)
        case TorchModule():
            if isinstance(index, (int, str)):
                module_lists.put(interp, receiver, index, value, target)
        case Instance():
            found = class_lookup.find(receiver, "__setitem__")
            base = class_lookup.base_module(receiver) if receiver.items is None else receiver.items
            if found is not None:
                interp.call(class_lookup.bind(found, receiver), [index, value], {}, target)
            elif base is not None:
                set_item(interp, base, index, value, target, expression)
        case Symbol():
            _put_into_opaque(interp, receiver, index, value, target, expression)


def _put_into_tensor(
    interp: Interpreter,
    receiver: TensorRef,
    index: Value,
    value: Value,
    target: ast.Subscript,
    expression: ast.expr | None,
) -> None:
    if _may_be_list(receiver.cell) and isinstance(index, (int, Symbol)):
        return  # another tensor takes a place in a list
    attributes.note_part(interp, receiver.cell, index)
    if isinstance(index, str):  # of the record that a call returned
        slot = interp.slot(value, interp.source.text_of(target), expression)
        interp.attributes_of_opaque[_item_of_record(interp, receiver, index)] = slot
        return
    overwriting.write_into(interp, receiver, [value], target, expression=expression)


def _put_into_opaque(
    interp: Interpreter,
    receiver: Symbol,
    index: Value,
    value: Value,
    target: ast.Subscript,
    expression: ast.expr | None,
) -> None:
    module = interp.parameter_tables.get(receiver.key)
    if module is not None:
        attributes.put_parameter(interp, module, index, value, target, expression)
        return
    slot = interp.slot(value, interp.source.text_of(target), expression)
    interp.attributes_of_opaque[receiver.key, f"[{interp.key(index)!r}]"] = slot


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


def _counter_in(index: Value) -> str:
    """Kind of counter in an index, empty for none: ``epoch``, ``(epoch, step)``, ``f"{epoch}/{step}"``."""
    if isinstance(index, Sequence) and index.kind == "tuple":
        return max((_counter_in(slot.value) for slot in index.items), default="")
    if not isinstance(index, Symbol) or not isinstance(index.key, tuple):
        return ""
    kinds = [part[0] for part in index.key[1:] if isinstance(part, tuple) and part] if index.key[0] == "text" else []
    return next((kind for kind in (index.key[0], *kinds) if kind in _COUNTERS), "")


def _added_inside(
    interp: Interpreter, receiver: Sequence | Mapping, former: Binding | None, slot: Binding, target: ast.Subscript
) -> None:
    """``log[epoch]["loss"] = loss``: something was put into one of a container's containers, which a loop counts."""
    outer = target.value
    if isinstance(outer, ast.Subscript) and isinstance(outer.value, (ast.Name, ast.Attribute)):
        index = interp.eval(outer.slice) if isinstance(outer.slice, ast.Name) else None
        around = interp.eval(outer.value) if _counter_in(index) else None
        if isinstance(around, (Sequence, Mapping)) and isinstance(index, Symbol):
            run = interp.loop_items.handed_out.get(index.key)
            holding.added_inside(interp, around, receiver, former, slot, run)


def _set_somewhere(receiver: Sequence, slot: Binding) -> None:
    """An item whose position is not known: what the program reads back may be any of them, so the last is replaced."""
    if receiver.items:
        receiver.items[-1] = slot
    else:
        receiver.items.append(slot)
    receiver.more = True


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
