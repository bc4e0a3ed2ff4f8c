"""Comparisons: decided where the values are known well enough, else asked of the policy under one key for each fact."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import class_lookup, constants, counters, cuts, filled, finite, last_iteration
from autofix.codemods.interpreter.counters import COMPARE
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.policy import varies
from autofix.codemods.interpreter.values import (
    Class,
    Instance,
    Mapping,
    Name,
    Record,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_VARIABLES = {"torch.autograd.Variable", "torch.autograd.variable.Variable"}
TENSOR_OR_PARAMETER = "torch.Tensor or torch.nn.Parameter"
"""The class of a leaf, of which it is not known whether it was made as a parameter."""
_OTHERS = frozenset(("builtins", "collections", "numpy", "pandas", "scipy", "PIL"))
"""Packages of which no class is that of a tensor."""
_LIBRARIES = ("builtins", "collections", "torch")
_CLASSES = {f"builtins.{name}" for name in "list tuple set frozenset dict bool int float str".split()}
_CLASSES |= {"collections.OrderedDict", "collections.deque"}


CLASSES = (Class, Record, Name)
_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_EQUALS = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
NOWHERE = ast.Name("", ast.Load())


def compare(interp: Interpreter, node: ast.Compare) -> Value:
    known = last_iteration.decided(interp, node)
    if known is not None:
        return known
    left = interp.eval(node.left)
    if isinstance(left, str) and isinstance(node.ops[0], (ast.In, ast.NotIn)) and _asks_for_names(interp, node):
        return (left in interp.scope.names) == isinstance(node.ops[0], ast.In)
    result: Value = True
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = interp.eval(comparator)
        if isinstance(op, _ORDERS) and type(left) is type(right) is int:
            if isinstance(node.left, ast.Name):
                interp.unrolling.thresholds.append((node.left.id, right))
            smaller = node.left if left <= right else comparator
            interp.unrolling.short += isinstance(smaller, (ast.Call, ast.Attribute))  # `len(memory) > 200`
        result = compare_two(interp, op, left, right, node)
        if result is False:
            return False
        left = right
    return result


def _asks_for_names(interp: Interpreter, node: ast.Compare) -> bool:
    """Whether a text is looked for among all the names that are bound here: ``if "hidden" in locals():``.

    Kept under a name (``names = locals()``), they are a dictionary of the program's own.
    """
    match node.comparators:
        case [ast.Call(func=ast.Attribute(value=names, attr="keys"), args=[])] | [names]:
            pass
        case _:
            return False
    if interp.star_imports and interp.scope.parent is None:
        return False
    match names:
        case ast.Call(func=ast.Name(id="locals" | "vars" | "dir"), args=[], keywords=[]):
            return True
    return False


_OPERATIONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


def compare_two(interp: Interpreter, op: ast.cmpop, left: Value, right: Value, node: ast.expr) -> Value:
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(interp, op, left, right)
    left, right = interp.settled(left), interp.settled(right)
    if not isinstance(op, (ast.Is, ast.IsNot)):
        left, right = class_lookup.number_of(left), class_lookup.number_of(right)
    if is_constant(left) and is_constant(right):
        try:
            return bool(COMPARE[type(op)](left, right))
        except TypeError:
            return interp.fresh_symbol("compare")
    if isinstance(left, CLASSES) and isinstance(right, CLASSES) and isinstance(op, _EQUALS):
        alike = same_class(interp, left, right, node)
        if alike is not None:
            return alike == isinstance(op, (ast.Is, ast.Eq))
    if isinstance(left, Symbol) and isinstance(right, bool) and varies(left.key) and isinstance(op, _EQUALS):
        return left if right == isinstance(op, (ast.Is, ast.Eq)) else negated(interp, left)  # `done == True` is `done`
    if isinstance(op, (ast.Is, ast.IsNot)):
        if right is None and isinstance(left, Symbol) and left.low is not None:
            return isinstance(op, ast.IsNot)
        if right is None and isinstance(left, Name) and left.path in interp.optional_imports:
            there = interp.symbol(interp.optional_imports[left.path])
            return there if isinstance(op, ast.IsNot) else negated(interp, there)
        same = _identity(left, right)
        if same is None and right is None and isinstance(left, Symbol) and left.key in interp.classified:
            same = False
        if same is not None:
            return same == isinstance(op, ast.Is)
        asked = interp.symbol(("is", interp.key(left), interp.key(right)))
        return negated(interp, asked) if isinstance(op, ast.IsNot) else asked
    if isinstance(left, TensorRef) or isinstance(right, TensorRef):
        compared = cuts.whole_numbers(interp, [left, right], node)
        if isinstance(op, (ast.Eq, ast.NotEq)):
            equal = finite.usually_equal(left, right)
            compared.cell.usual = None if equal is None else equal == isinstance(op, ast.Eq)
        filled.computed(interp, _OPERATIONS.get(type(op), ""), [left, right], compared)
        return compared
    known = _of_parts(interp, op, left, right)
    if known is None and isinstance(left, Symbol) and isinstance(right, Symbol) and type(op) in COMPARE:
        if left.key == right.key and not varies(left.key):  # `loss != loss` asks whether it is a number
            return bool(COMPARE[type(op)](0, 0))
    if known is None:
        known = counters.by_bounds(interp, op, left, right)
    if known is None:
        known = counters.by_offsets(op, left, right)
    if known is None:
        known = _by_turns(interp, op, left, right)
    return _asked(interp, op, left, right) if known is None else known


def _by_turns(interp: Interpreter, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """``at == number``, the counters of two loops: in each turn of the one, it holds in one turn of the other.

    Their iterations that stand for later ones are taken to be the same.
    """
    if not (isinstance(left, Symbol) and isinstance(right, Symbol) and isinstance(op, (ast.Eq, ast.NotEq))):
        return None
    match left.key, right.key:
        case ("index", int() as one, int() as here), ("index", int() as other, int() as there) if one != other:
            interp.loop_items.turns_compared += 1
            return (here == there) == isinstance(op, ast.Eq)
    return None


def _membership(interp: Interpreter, op: ast.cmpop, left: Value, right: Value) -> Value:
    """``left in right``, or ``left not in right``."""
    if isinstance(left, int) and isinstance(right, Sequence):
        interp.unrolling.spans += [slot.value + 2 for slot in right.items if type(slot.value) is int]
    found = _contains(interp, left, right)
    if isinstance(found, Symbol):
        return negated(interp, found) if isinstance(op, ast.NotIn) else found
    return found != isinstance(op, ast.NotIn)


def _of_parts(interp: Interpreter, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Members of enumerations and containers compared by what they are made of; None where that does not decide."""
    if isinstance(left, Instance) and isinstance(right, Instance) and left.cls.members and right.cls.members:
        if isinstance(op, (ast.Eq, ast.NotEq)):
            return (left is right) == isinstance(op, ast.Eq)
    if isinstance(op, (ast.Eq, ast.NotEq)) and (_is_unlike(left, right) or _is_unlike(right, left)):
        return isinstance(op, ast.NotEq)
    if isinstance(left, (Sequence, Mapping)) and type(left) is type(right) and type(op) in COMPARE:
        with suppress(constants.NotWritten):
            return constants.computed(interp, COMPARE[type(op)], [_without_names(left), _without_names(right)])
    if isinstance(left, Sequence) and isinstance(right, Sequence) and isinstance(op, (ast.Eq, ast.NotEq)):
        equal = _same_items(interp, left, right)
        return None if equal is None else equal == isinstance(op, ast.Eq)
    return None


_WITHOUT_EQUALITY = frozenset(("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "torch.nn.Module"))


def _is_unlike(value: Value, constant: Value) -> bool:
    """Whether a value is an object that equals no *constant*: neither its class nor the classes behind it compare."""
    if not isinstance(value, Instance) or value.cls.members or not is_constant(constant):
        return False
    if class_lookup.find(value, "__eq__") is not None:
        return False
    bases = class_lookup.lineage(value.cls)
    return all(isinstance(one, Class) or (isinstance(one, Name) and one.path in _WITHOUT_EQUALITY) for one in bases)


def _without_names(value: Sequence | Mapping) -> Sequence | Mapping:
    """A named tuple compares as the tuple that it is."""
    return replace(value, fields=(), cls=None) if isinstance(value, Sequence) and value.fields else value


def equality(interp: Interpreter, left: Value, right: Value) -> Symbol:
    """The condition ``left == right`` of values that are not known to be equal or different."""
    return _asked(interp, ast.Eq(), left, right)


def _asked(interp: Interpreter, op: ast.cmpop, left: Value, right: Value) -> Symbol:
    """The condition as an unknown value: each fact under one key, also where its opposite is written."""
    kind: type[ast.cmpop] = type(op)
    residue = _residue(left, right)
    if residue is not None and kind in (ast.Eq, ast.NotEq):
        asked = interp.symbol(residue)
        return negated(interp, asked) if kind is ast.NotEq else asked
    opposite = _OPPOSITES.get(kind)
    asked = interp.symbol((opposite or kind.__name__, interp.key(left), interp.key(right)))
    if any(isinstance(one, Symbol) and (one.detachment or one.key in interp.computed) for one in (left, right)):
        interp.computed.add(asked.key)
    sure = counters.sure_answers(kind, left, right)
    if sure:
        interp.sure_answers[asked.key] = {answer is (opposite is None) for answer in sure}
    return negated(interp, asked) if opposite is not None else asked


_OPPOSITES: dict[type[ast.cmpop], str] = {ast.NotEq: "Eq", ast.GtE: "Lt", ast.LtE: "Gt"}
"""Comparisons that are asked by their opposites."""


def _same_items(interp: Interpreter, left: Sequence, right: Sequence) -> bool | None:
    """Whether two tuples or lists are equal; None where that is not known."""
    if left.more or right.more or (left.kind == "set") or (right.kind == "set"):
        return None
    if len(left.items) != len(right.items):
        return False
    equal: bool | None = True
    for one, other in zip(left.items, right.items, strict=True):
        first, second = interp.settled(one.value), interp.settled(other.value)
        if is_constant(first) and is_constant(second):
            if first != second:
                return False
        elif not (isinstance(first, Symbol) and isinstance(second, Symbol) and first.key == second.key):
            equal = None
    return equal


def same_class(
    interp: Interpreter, left: Class | Record | Name, right: Class | Record | Name, node: ast.expr
) -> bool | None:
    """Whether two classes are one.  ``Variable``, which no tensor's class is any more, counts as that of tensors."""
    named = [one.path for one in (left, right) if isinstance(one, Name)]
    if len(named) < 2:  # a class of the program has no name in Python's library, or torch's
        return left is right if all(path.partition(".")[0] in _LIBRARIES for path in named) else None
    names = set(named)
    if names & _VARIABLES and "torch.Tensor" in names:
        if node is not NOWHERE:
            interp.log.legacy[interp.source.text_of(node), interp.site(node).line] = interp.site(node)
        return True
    if len(names) == 1:
        return None if TENSOR_OR_PARAMETER in names else True
    if names & {"torch.Tensor", TENSOR_OR_PARAMETER} and any(path.partition(".")[0] in _OTHERS for path in names):
        return False
    return False if names <= _CLASSES else None


def _identity(left: Value, right: Value) -> bool | None:
    if left is right:
        return True
    if isinstance(left, TensorRef) and isinstance(right, TensorRef):
        parts = left.cell is not right.cell and (left.cell.part or right.cell.part)
        same = left.cell.itself is right.cell.itself
        return None if parts and same else same
    if isinstance(left, (Instance, TorchModule)) and isinstance(right, (Instance, TorchModule)):
        return False
    for one, other in ((left, right), (right, left)):
        if one is None and not isinstance(other, Symbol):
            return False
    return None


def _contains(interp: Interpreter, item: Value, container: Value) -> Value:
    container = class_lookup.opened(container)
    return kind_of(container).contains(interp, container, item)


def _residue(left: Value, right: Value) -> tuple[Any, ...] | None:
    """The key of ``(t + a) % k == c``, one for all ways to write it; None for another comparison."""
    if isinstance(left, Symbol) and isinstance(right, int) and isinstance(left.key, tuple):
        if len(left.key) == 4 and left.key[0] == "remainder":
            _, base, offset, modulus = left.key
            return ("residue", base, modulus, (right - offset) % modulus)
    return None


def negated(interp: Interpreter, value: Symbol) -> Symbol:
    key = value.key
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
        return interp.symbol(key[1])
    return interp.symbol(("not", key))
