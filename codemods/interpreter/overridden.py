"""Flags that something which is not known may have set otherwise: a configuration that is read over its defaults.

``options.update(yaml.safe_load(file))`` and ``setattr(self, name, value)`` leave no flag of which it is certain that it
is still what was written.  Numbers and texts keep their values, which are as good as any; a flag decides what is done.
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import class_lookup, mapping_keys
from autofix.codemods.interpreter.values import Attributes, Binding, Class, Instance, Symbol, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

ANY = ("?",)
"""The key of which nothing is known."""


def flags(interp: Interpreter, names: MutableMapping[Any, Binding], owner: Value, key: Hashable = ANY) -> None:
    """Something was stored under a *key* of which not all is known, be it in a mapping or as an object's attribute."""
    if isinstance(names, Attributes):
        options(interp, names.owner, key)
    for name, slot in list(names.items()):
        if isinstance(slot.value, bool) and mapping_keys.may_be_one(key, name):
            names[name] = _one(interp, owner, name, slot.value)


def by_value(
    interp: Interpreter, names: MutableMapping[Any, Binding], owner: Value, key: Hashable, value: Value
) -> None:
    """As :func:`flags`, where a *value* was stored that may be a flag."""
    if isinstance(key, tuple) and key[:1] == ANY and isinstance(value, (bool, Symbol)):
        flags(interp, names, owner, key)


def attributes(interp: Interpreter, owner: Value, name: Value, value: Value) -> None:
    """``setattr(owner, name, value)`` with a *name* that is not known."""
    key = mapping_keys.mapping_key(interp, name)
    if isinstance(owner, Symbol) and isinstance(value, (bool, Symbol)):
        options(interp, owner, key)
    if not isinstance(owner, (Instance, Class)):
        return
    by_value(interp, owner.names, owner, key, value)
    if isinstance(owner, Instance) and isinstance(value, (bool, Symbol)):
        for one in class_lookup.lineage(owner.cls):
            inherited = one.names if isinstance(one, Class) else {}
            for known, slot in inherited.items():
                if isinstance(slot.value, bool) and mapping_keys.may_be_one(key, known):
                    owner.names.setdefault(known, _one(interp, owner, known, slot.value))


def options(interp: Interpreter, parsed: Symbol, key: Hashable = ANY) -> None:
    """Arguments of the command line may have other values than their defaults, where *key* may be their name."""
    for name in interp.options.get(parsed.key, []):
        if mapping_keys.may_be_one(key, name):
            interp.defaults.pop(("attr", parsed.key, name), None)
            interp.attributes_of_opaque.pop((parsed.key, name), None)


def _one(interp: Interpreter, owner: Value, name: Hashable, before: bool) -> Binding:
    found = interp.symbol(("overridden", interp.identity(owner), name))
    interp.overridden[found.key] = before
    return Binding(found)
