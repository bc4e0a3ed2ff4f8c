"""Dictionaries."""

from __future__ import annotations

import ast
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import (
    comparisons,
    elements,
    errors,
    holding,
    mapping_keys,
    module_tree,
    numbered,
    overridden,
    python_classes,
)
from autofix.codemods.interpreter.kinds.kind import Assignment, Copied, kind
from autofix.codemods.interpreter.library.containers import ContainerKind
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import (
    Binding,
    Class,
    Mapping,
    Name,
    Record,
    Sequence,
    Symbol,
    TensorRef,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols


_OF_DICTIONARIES = frozenset(dir(dict))


@kind(Mapping)
class MappingKind(ContainerKind[Mapping]):
    """A dictionary."""

    def attribute(self, interp: Interpreter, value: Mapping, name: str, node: ast.expr) -> Value:
        if name in value.items and name not in _OF_DICTIONARIES:
            return interp.read(value.items[name], value)
        if name == "__class__":
            return interp.call(Name("builtins.type"), [value], {}, node)
        return super().attribute(interp, value, name, node)

    def set_attribute(self, interp: Interpreter, value: Mapping, name: str, slot: Binding, by: Assignment) -> None:
        value.items[name] = slot

    def item(self, interp: Interpreter, value: Mapping, index: Value, node: ast.expr) -> Value:
        key = numbered.known_key(value, mapping_keys.key_in(interp, index, value))
        slot = value.items.get(key)
        if slot is not None:
            return interp.read(slot, value)
        object_there = numbered.in_mapping(interp, value, key, index)
        if object_there is not None:
            return object_there
        if not value.more and value.items and all(elements.is_beyond(index, known) for known in value.items):
            errors.happen(interp, "KeyError")
        place = elements.place_of(interp, value, index)
        if place is not None:
            return interp.read(value.items[place], value)
        named = _named_parameter(interp, value, index, node)
        if named is not None:
            return named
        slot = elements.taken_in_turn(interp, value, index)
        if slot is not None and slot.value is not None:
            return interp.read(slot, value)
        chosen = elements.one_of_functions(interp, value, index)
        if chosen is not None:
            return interp.read(chosen, value)
        of_lists = isinstance(index, Symbol) and bool(value.items) and all(map(_is_list, value.items.values()))
        if slot is not None and value.default is None and not of_lists:
            return interp.fresh_symbol("item")
        slot = elements.alias(interp, value, key, index) if slot is None else None
        if slot is not None:
            return interp.read(slot, value)
        if value.default is not None:
            made = interp.call(value.default, [], {}, node)
            if value.more and (made is None or isinstance(made, (str, bool))):
                return interp.symbol(("item", interp.identity(value), key))  # settings that were read from a file
            value.items[key] = Binding(made)
            elements.stood_in(interp, made, key)
            return made
        if of_lists:
            value.items[key] = Binding(Sequence("list"))  # one of them, whichever
            return value.items[key].value
        if isinstance(key, tuple) and (flag := _only_flag(value)) is not None:
            return flag
        if not value.more and not isinstance(key, tuple) and not elements.holds_unknown_keys(value):
            interp.crash(f"KeyError: {key!r}", "KeyError")
        return interp.symbol(("item", interp.identity(value), key))

    def set_item(self, interp: Interpreter, value: Mapping, index: Value, given: Value, by: Assignment) -> None:
        name = interp.source.text_of(by.target)
        key = numbered.known_key(value, mapping_keys.mapping_key(interp, index))
        slot = interp.slot(given, name, by.expression, value)
        place = elements.put_at(interp, value, index)
        key = key if place is None else place
        counter = elements.counter_in(index)
        if key not in value.items and (isinstance(index, int) or counter):
            holding.added(interp, value, slot, name, by.expression, again=counter != "count")
            # Beside what an earlier iteration added, it stands for all that are to come.
            value.more = value.more or (isinstance(index, Symbol) and bool(value.items))
        elements.added_inside(interp, value, value.items.get(key), slot, by.target)
        overridden.by_value(interp, value.items, value, key, given)
        value.items[key] = slot

    def delete_item(self, interp: Interpreter, value: Mapping, index: Value) -> None:
        value.items.pop(mapping_keys.mapping_key(interp, index), None)

    def iterate(self, interp: Interpreter, value: Mapping, node: ast.expr) -> Stream:
        keys = [mapping_keys.key_value(interp, key) for key in value.items]
        count, limit = None if value.more else len(keys), len(keys) or None
        return Stream(count, lambda at, exact: keys[at] if at < len(keys) else interp.fresh_symbol("key"), limit=limit)

    def type_of(self, value: Mapping) -> Value:
        return Name(value.cls) if value.cls else None

    def classes(self, value: Mapping) -> tuple[type, ...]:
        if value.cls:
            own = python_classes.found(value.cls)
            return (own,) if own is not None else ()
        return (defaultdict,) if value.default is not None else (dict, OrderedDict)

    def is_instance(self, value: Mapping, cls: Name | Class | Record) -> bool | None:
        known = super().is_instance(value, cls)
        return False if known is None and value.cls else known

    def is_callable(self, value: Mapping) -> bool:
        return False

    def truth(self, interp: Interpreter, value: Mapping, *, likely: bool, optional: bool) -> bool:
        return bool(value.items) or (value.more and interp.policy.decide(("any", interp.identity(value)), likely))

    def length(self, interp: Interpreter, value: Mapping, node: ast.expr) -> Value:
        known = len(value.items)
        return Symbol(("len", interp.identity(value), known, interp.new_instance()), low=known) if value.more else known

    def leaves(self, interp: Interpreter, value: Mapping, seen: set[int]) -> Iterator[Leaf]:
        for slot in value.items.values():
            yield from interp.leaves_of(slot.value, seen)

    def deep_copy(self, interp: Interpreter, value: Mapping, copied: Copied, node: ast.expr) -> Mapping:
        if type(value.items) is not dict:  # the very names of an object
            return value
        made = copied.known[id(value)] = replace(value, items={}, kept=())
        made.items = {key: Binding(copied.of(interp.read(slot, value))) for key, slot in value.items.items()}
        return made

    def key(self, symbols: Symbols, value: Mapping) -> Hashable:
        return ("container", symbols.identity(value), len(value.items))

    def contains(self, interp: Interpreter, value: Mapping, item: Value) -> Value:
        key = mapping_keys.mapping_key(interp, item)
        if key in value.items:
            return True
        known = is_constant(item) or isinstance(item, TensorRef) or isinstance(key, mapping_keys.Itself)
        if known and not value.more:  # tensors and modules are keys by what they are, not by what they hold
            return False
        if isinstance(item, Symbol) and not value.more:
            others = [mapping_keys.key_value(interp, one) for one in value.items]
            if all(
                comparisons.compare_two(interp, ast.Eq(), item, one, comparisons.NOWHERE) is False for one in others
            ):
                return False
        asked = interp.identity(value) if known else interp.key(value)
        return interp.symbol(("in", interp.key(item), asked))

    def copy(self, interp: Interpreter, value: Mapping, node: ast.expr) -> Mapping:
        return replace(value, items=value.items.copy())


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


def _is_list(slot: Binding) -> bool:
    return isinstance(slot.value, Sequence) and slot.value.kind in ("list", "deque")
