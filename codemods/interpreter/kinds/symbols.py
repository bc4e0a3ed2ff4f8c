"""Values about which nothing is known."""

from __future__ import annotations

import ast
import sys
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import (
    attributes,
    constants,
    cuts,
    datasets,
    definitions,
    flagged_data,
    unknown_calls,
    unread_networks,
)
from autofix.codemods.interpreter.kinds.kind import ONLY_TENSORS, TENSORS, Assignment, Copied, Kind, kind
from autofix.codemods.interpreter.values import (
    Attributes,
    Binding,
    Class,
    Mapping,
    Method,
    Name,
    Record,
    Symbol,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols


_PARTS = frozenset(("real", "imag", "T", "flat"))
"""Attributes that are an array's numbers again."""


@kind(Symbol)
class SymbolKind(Kind[Symbol]):
    """A value about which nothing is known but its identity."""

    def call(
        self, interp: Interpreter, value: Symbol, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        return unknown_calls.call_unknown(interp, value, "", args, keywords, node)

    def call_method(
        self,
        interp: Interpreter,
        value: Symbol,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        usual = constants.of_usual_text(interp, value, name, args, keywords)
        return usual or unknown_calls.call_unknown(interp, value, name, args, keywords, node)

    def decorate(self, interp: Interpreter, decorator: Symbol, value: Value, node: ast.expr) -> Value:
        return definitions.unread(interp, value, node)

    def attribute(self, interp: Interpreter, value: Symbol, name: str, node: ast.expr) -> Value:
        if name in ONLY_TENSORS and value.key in interp.served:
            interp.crash(f"a loader has no attribute {name!r}", "AttributeError")
        if name in ONLY_TENSORS and attributes.is_number(value.key):
            interp.crash(f"a number has no attribute {name!r}", "AttributeError")
        if name in ONLY_TENSORS and _is_of_the_library(value.key):
            interp.crash(f"an object of the standard library has no attribute {name!r}", "AttributeError")
        slot = interp.attributes_of_opaque.get((value.key, name))
        if slot is None and name in _PARTS and value.detachment is not None:
            return cuts.carry(interp, interp.symbol(("attr", value.key, name)), [value], node)
        if slot is None and name == "module" and value.leaf is not None:
            return value
        if slot is None and name == "__dict__":
            return _table(interp, value, node)
        if slot is None and _is_supposed(interp, name, node):
            made = interp.parameter("parameter", node)
            assert made.cell.leaf is not None
            made.cell.leaf.supposed = True
            slot = interp.attributes_of_opaque[value.key, name] = Binding(made)
        return interp.read(slot) if slot is not None else Method(value, name, node)

    def set_attribute(self, interp: Interpreter, value: Symbol, name: str, slot: Binding, by: Assignment) -> None:
        if name == "requires_grad":
            unread_networks.set_flag(interp, value, slot.value)
            if flagged_data.flag(interp, value, slot.value, by.target) is not None:
                return
        interp.attributes_of_opaque[value.key, name] = slot

    def item(self, interp: Interpreter, value: Symbol, index: Value, node: ast.expr) -> Value:
        if value.key in interp.parameter_tables and isinstance(index, str):
            return attributes.get(interp, interp.parameter_tables[value.key], index, node)
        slot = interp.attributes_of_opaque.get((value.key, f"[{interp.key(index)!r}]"))
        if slot is not None:
            return interp.read(slot)
        if isinstance(value.key, tuple) and value.key[:1] == ("match",):  # of `re`
            return interp.call(Method(value, "group", node), [index], {}, node)
        if value.key in interp.served and (one := datasets.item(interp, value, index)) is not None:
            return one
        picked_out = interp.symbol(("item", value.key, interp.key(index)))
        picked_out.detachment = picked_out.detachment or value.detachment
        if value.key in interp.computed:
            interp.computed.add(picked_out.key)
        return picked_out

    def set_item(self, interp: Interpreter, value: Symbol, index: Value, given: Value, by: Assignment) -> None:
        module = interp.parameter_tables.get(value.key)
        if module is not None:
            attributes.put_parameter(interp, module, index, given, by.target, by.expression)
            return
        slot = interp.slot(given, interp.source.text_of(by.target), by.expression)
        interp.attributes_of_opaque[value.key, f"[{interp.key(index)!r}]"] = slot

    def truth(self, interp: Interpreter, value: Symbol, *, likely: bool, optional: bool) -> bool:
        return interp.decide(value, likely=likely, optional=optional)

    def leaves(self, interp: Interpreter, value: Symbol, seen: set[int]) -> Iterator[Leaf]:
        if value.leaf is not None:
            yield value.leaf

    def deep_copy(self, interp: Interpreter, value: Symbol, copied: Copied, node: ast.expr) -> Symbol:
        if value.leaf is None:
            # Equal in all that is asked of it, but parameters of its own should it turn out to be a model.
            same = copied.known[id(value)] = replace(value)
            return same
        made = copied.known[id(value)] = _other_model(interp, value.leaf, node)
        for (owner, name), slot in list(interp.attributes_of_opaque.items()):
            if owner == value.key:
                interp.attributes_of_opaque[made.key, name] = Binding(copied.of(slot.value))
        return made

    def key(self, symbols: Symbols, value: Symbol) -> Hashable:
        if value.short is None:
            value.short = symbols.shortened(value.key)
        return value.short

    def is_instance(self, value: Symbol, cls: Name | Class | Record) -> bool | None:
        is_tensor = isinstance(cls, Name) and cls.last in TENSORS
        return False if is_tensor and attributes.is_number(value.key) else None

    def has(self, interp: Interpreter, value: Symbol, name: str) -> bool | None:
        is_known = attributes.is_number(value.key) and hasattr(1.0, name) == hasattr(1, name)
        return hasattr(1.0, name) if is_known else None

    def copy(self, interp: Interpreter, value: Symbol, node: ast.expr) -> Symbol:
        return value


def _is_of_the_library(key: Hashable) -> bool:
    """Whether a value was made by calling a class of Python's standard library: ``collections.ChainMap``."""
    match key:
        case ("new", "call", str(path), *_):
            package, _, name = path.partition(".")
            return package in sys.stdlib_module_names and name.rpartition(".")[2][:1].isupper()
    return False


def _table(interp: Interpreter, value: Symbol, node: ast.expr) -> Value:
    """What ``vars(value)`` gives: of the arguments of a command line, all that the parser was told of."""
    if value.key not in interp.options:
        return interp.fresh_symbol("vars")
    names = dict.fromkeys(interp.options[value.key])
    known: dict[Hashable, Binding] = {
        name: Binding(attributes.plain(interp, interp.attribute(value, name, node))) for name in names
    }
    return Mapping(Attributes(known, value, interp.attributes_of_opaque), more=True)


def _is_supposed(interp: Interpreter, name: str, node: ast.expr) -> bool:
    """Whether the program puts a parameter in the place of this attribute of an unknown object: it is one already."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    return (
        attributes.is_parameter(name)
        and isinstance(owner, ast.Name)
        and (owner.id, name) in interp.sources.parameters_set
    )


def _other_model(interp: Interpreter, leaf: Leaf, node: ast.expr) -> Symbol:
    """A copy of a model that was not read, with parameters of its own, frozen as those in *leaf* are."""
    made = interp.fresh_symbol("copy")
    made.leaf = interp.leaf("model", node)
    made.leaf.frozen, made.leaf.parts, made.leaf.doubtful = leaf.frozen, dict(leaf.parts), leaf.doubtful
    return made
