"""The behaviour that a kind of values may have, and the registry of the kinds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import python_classes
from autofix.codemods.interpreter.values import Binding, Class, Method, Name, Record, Symbol, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols
    from autofix.codemods.interpreter.streams import Stream

TENSORS = frozenset(("Tensor", "Variable", "Parameter"))
"""Names of the classes of tensors."""
PLAIN = frozenset(("int", "float", "str", "bool", "bytes"))
"""Names of Python's classes of numbers and texts."""
CONTAINERS = frozenset(("tuple", "list", "dict", "set", "deque", "ndarray"))
"""Names of classes of containers."""
ONLY_TENSORS = frozenset("detach detach_ backward clone".split())
"""Methods that only tensors have."""

V = TypeVar("V")
K = TypeVar("K", bound="type[Kind[Any]]")


class Assignment(NamedTuple):
    """The place of an assignment to an attribute or an item."""

    target: ast.expr
    expression: ast.expr | None
    """What is written for the new value, where it stands there."""
    checked: bool = True
    """Whether a layer takes no other tensor than a parameter in the place of one."""


class Kind(Generic[V]):
    """Behaviour of the values of one kind; each method here is that of a value of which nothing is known."""

    def call(
        self, interp: Interpreter, value: V, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        """``value(*args, **keywords)``."""
        return interp.opaque("call", [*args, *keywords.values()], node)

    def call_method(
        self, interp: Interpreter, value: V, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        """``value.name(*args, **keywords)``, where the name is that of a method of the kind's own."""
        return interp.opaque(name, [value, *args, *keywords.values()], node)

    def attribute(self, interp: Interpreter, value: V, name: str, node: ast.expr) -> Value:
        """``value.name``."""
        return interp.fresh_symbol("attr", name)

    def set_attribute(self, interp: Interpreter, value: V, name: str, slot: Binding, by: Assignment) -> None:
        """``value.name = ...``, past the properties and descriptors of its class: the new value is in *slot*."""

    def item(self, interp: Interpreter, value: V, index: Value, node: ast.expr) -> Value:
        """``value[index]``."""
        return interp.fresh_symbol("item")

    def set_item(self, interp: Interpreter, value: V, index: Value, given: Value, by: Assignment) -> None:
        """``value[index] = given``."""

    def delete_item(self, interp: Interpreter, value: V, index: Value) -> None:
        """``del value[index]``."""

    def iterate(self, interp: Interpreter, value: V, node: ast.expr) -> Stream | None:
        """The items of *value* for a loop; None where nothing is known of them."""
        return None

    def truth(self, interp: Interpreter, value: V, *, likely: bool, optional: bool) -> bool:
        """``bool(value)`` on this path."""
        return True

    def length(self, interp: Interpreter, value: V, node: ast.expr) -> Value:
        """``len(value)``."""
        return Symbol(("len", interp.key(value)), low=0)

    def contains(self, interp: Interpreter, value: V, item: Value) -> Value:
        """``item in value``."""
        return interp.symbol(("in", interp.key(item), interp.key(value)))

    def decorate(self, interp: Interpreter, decorator: V, value: Value, node: ast.expr) -> Value:
        """What ``@decorator`` above a function or a class, *value*, makes of it; *node* is the decorator's expression.

        What was not read is taken to give it back.
        """
        return value

    def type_of(self, value: V) -> Value:
        """``type(value)``; None where that is not certain."""
        return None

    def classes(self, value: V) -> tuple[type, ...]:
        """The classes of Python's own of which one is that of *value*; none where it has another, or an unknown one."""
        return ()

    def is_instance(self, value: V, cls: Name | Class | Record) -> bool | None:
        """``isinstance(value, cls)``; None where that is not known."""
        if not isinstance(cls, Name):
            return False
        wanted = python_classes.found(cls.path)
        answers = {issubclass(one, wanted) for one in self.classes(value)} if wanted is not None else set()
        if len(answers) == 1:
            return answers.pop()
        return False if cls.last in TENSORS or cls.last in PLAIN else None

    def has(self, interp: Interpreter, value: V, name: str) -> bool | None:
        """``hasattr(value, name)``; None where that is not known."""
        return None

    def is_callable(self, value: V) -> bool | None:
        """``callable(value)``; None where that is not known."""
        return None

    def is_part(self, value: V) -> bool:
        """Whether *value* is a module or a parameter, or a tuple or a function that has one."""
        return False

    def key(self, symbols: Symbols, value: V) -> Hashable:
        """Key that identifies *value* in the keys of values computed from it."""
        return ("object", symbols.identity(value))

    def leaves(self, interp: Interpreter, value: V, seen: set[int]) -> Iterator[Leaf]:
        """The parameters, and other tensors that require grad, that *value* holds; *seen* are containers by id."""
        return iter(())

    def copy(self, interp: Interpreter, value: V, node: ast.expr) -> Value:
        """``copy.copy(value)``: another container, or object, of the very same items."""
        return Copied(interp, node).of(value)

    def deep_copy(self, interp: Interpreter, value: V, copied: Copied, node: ast.expr) -> Value:
        """``copy.deepcopy(value)``."""
        return value


class MethodsKind(Kind[V]):
    """Behaviour of a value that is no tensor, and of which every other attribute is a method."""

    def attribute(self, interp: Interpreter, value: V, name: str, node: ast.expr) -> Value:
        if name in ONLY_TENSORS:
            interp.crash(f"a container has no attribute {name!r}", "AttributeError")
        return Method(value, name, node)


class Copied:
    """The copies that one ``deepcopy`` has made, by the identity of the originals."""

    def __init__(self, interp: Interpreter, node: ast.expr) -> None:
        self.known: dict[int, Value] = {}
        self._interp = interp
        self._node = node

    def of(self, value: Value) -> Value:
        """The copy of *value*."""
        if id(value) in self.known:
            return self.known[id(value)]
        return kind_of(value).deep_copy(self._interp, value, self, self._node)


_KINDS: dict[type, Kind[Value]] = {}
_UNKNOWN: Kind[Value] = Kind()


def kind(*classes: type) -> Callable[[K], K]:
    """Register a class as the behaviour of the values of these *classes*."""

    def register(cls: K) -> K:
        _KINDS.update(dict.fromkeys(classes, cls()))
        return cls

    return register


def kind_of(value: Value) -> Kind[Value]:
    """The behaviour of *value*."""
    return _KINDS.get(type(value)) or _inherited(type(value))


def _inherited(cls: type) -> Kind[Value]:
    """The behaviour of a class that has none of its own: that of the nearest base with one."""
    found = next((_KINDS[base] for base in cls.__mro__ if base in _KINDS), _UNKNOWN)
    _KINDS[cls] = found
    return found
