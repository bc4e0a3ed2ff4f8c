"""The evaluation of each kind of expression."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autofix.codemods.autograd.catalogue import operand_names
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    comparisons,
    comprehensions,
    constants,
    counters,
    cuts,
    devices,
    effects,
    elements,
    extents,
    filled,
    finite,
    gradients,
    loops,
    mapping_keys,
    module_lists,
    overridden,
    replicas,
    streams,
    unpacking,
)
from autofix.codemods.interpreter.generators import LAZY, Exhausted, Generator
from autofix.codemods.interpreter.policy import KEYS
from autofix.codemods.interpreter.state.environment import Frame
from autofix.codemods.interpreter.values import (
    Binding,
    Function,
    Instance,
    Mapping,
    Name,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("remainder", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.MatMult: ("matmul", operator.matmul),
    ast.BitAnd: ("bitwise_and", operator.and_),
    ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor),
    ast.LShift: ("lshift", operator.lshift),
    ast.RShift: ("rshift", operator.rshift),
}
_WITHOUT_GRADIENT = {"floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor", "lshift", "rshift"}


def _constant(interp: Interpreter, node: ast.Constant) -> Value:
    return node.value


def _name(interp: Interpreter, node: ast.Name) -> Value:
    slot = interp.scope.lookup(node.id)
    if slot is not None:
        return interp.read(slot) if isinstance(slot.value, TensorRef) else slot.value
    if hasattr(builtins, node.id):
        return Name(f"builtins.{node.id}")
    if node.id not in ("__file__", "__doc__", "__name__") and not interp.star_imports:
        interp.crash(f"name {node.id!r} is not defined", "NameError")
    return interp.symbol(("name", node.id))


def _attribute(interp: Interpreter, node: ast.Attribute) -> Value:
    return attributes.plain(interp, attributes.get(interp, interp.eval(node.value), node.attr, node))


def _subscript(interp: Interpreter, node: ast.Subscript) -> Value:
    return elements.item(interp, interp.eval(node.value), interp.eval(node.slice), node)


def _slice(interp: Interpreter, node: ast.Slice) -> Value:
    parts = [interp.eval(part) if part is not None else None for part in (node.lower, node.upper, node.step)]
    if all(part is None or isinstance(part, int) for part in parts):
        return slice(*parts)
    return interp.fresh_symbol("slice", extents.is_wide_slice(*parts))


def _binary(interp: Interpreter, node: ast.BinOp) -> Value:
    left, right = interp.eval(node.left), interp.eval(node.right)
    return binary(interp, type(node.op), left, right, node)


_SPECIAL: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.MatMult: "matmul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}


_OF_SETS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)


def binary(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value, node: ast.expr) -> Value:
    """*left* operator *right*; a new tensor where one of them is one."""
    name, compute = _BINARY[kind]
    if (left is None or right is None) and isinstance(node, ast.BinOp):
        gradients.calculated(interp, node.left if left is None else node.right)
    if kind is ast.Mod and isinstance(right, Symbol):
        if _is_range_around(interp, node):
            return left
        if isinstance(right.usual, int) and right.usual > 1 and interp.usual(right) is not None:
            right = right.usual
        elif left in (0, 1) and isinstance(left, int):
            return left  # every k-th iteration: were it every one, nobody would write it
    if is_constant(left) and is_constant(right):
        return _of_constants(interp, kind, left, right)
    for owner, other, prefix in ((left, right, "__"), (right, left, "__r")):
        if isinstance(owner, Instance):
            found = class_lookup.find(owner, f"{prefix}{_SPECIAL[kind]}__")
            if found is not None:
                return interp.call(class_lookup.bind(found, owner), [other], {}, node)
    modules = module_lists.holder(left)
    if modules is not None and (made := _of_modules(interp, kind, modules, right, node)) is not None:
        return made
    if isinstance(left, TensorRef) or (isinstance(right, TensorRef) and not isinstance(left, str)):
        return _of_tensors(interp, kind, left, right, node)
    sets = isinstance(left, Sequence) and left.kind in ("set", "frozenset")
    if (kind in _OF_SETS and sets) or (isinstance(left, str) and not constants.is_wide(left)):
        with suppress(constants.NotWritten):
            return constants.computed(interp, compute, [left, right])
    if kind is ast.Mod and isinstance(left, str):
        slots = right.items if isinstance(right, Sequence) else [Binding(right)]
        parts = [interp.read(slot) for slot in slots]
        text = interp.symbol(("format", left, *(interp.key(part) for part in parts)))
        if "*" not in left and not constants.is_wide(left):  # `%*d` takes its width from an operand
            text.usual = constants.usual_text(interp, parts, lambda *known: left % known)
        return text
    if isinstance(left, (Sequence, Mapping)) or isinstance(right, (Sequence, Mapping)):
        made = _of_containers(interp, kind, left, right, node)
        if made is not None:
            return made
    if kind is ast.Mod and right == 1 and isinstance(left, Symbol) and left.low is not None:
        return 0  # of a counter
    low, high = _bounds(kind, left, right)
    result = interp.symbol(_arithmetic_key(interp, name, left, right))
    if low is not None or high is not None:
        result = Symbol(result.key, low, high)
    elif kind is ast.Add and (isinstance(left, str) or isinstance(right, str)):
        result.usual = constants.usual_text(interp, [left, right], operator.add)
    return cuts.carry(interp, result, [left, right], node)


def _is_range_around(interp: Interpreter, node: ast.expr) -> bool:
    """Whether a remainder is by the end of a loop's own ``range``, so that only the last numbers begin anew."""
    if not isinstance(node, ast.BinOp):
        return False
    over = f"range({ast.unparse(node.right)})"
    around = (getattr(point.statement.node, "iter", None) for point in interp.loops)
    return any(isinstance(one, ast.Call) and ast.unparse(one) == over for one in around)


def _of_constants(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value) -> Value:
    """An operator between two numbers or texts, worked out where the result is no larger than Python's usual ones."""
    name, compute = _BINARY[kind]
    if kind is ast.Mod and isinstance(left, int) and isinstance(right, int) and right > 1 and interp.loops:
        # With one iteration of a third round alone, what is behind the loop would get no more than its beginning.
        interp.unrolling.spans.append(2 * right + 2)
        interp.unrolling.periods.append(right)
    if isinstance(left, str) and kind is ast.Mod and constants.is_wide(left):
        return interp.symbol(("format", left, interp.key(right)))
    if constants.length([left, right]) > constants.LARGEST:
        return interp.fresh_symbol(name)
    try:
        if kind in (ast.Pow, ast.LShift, ast.Mult) and abs(_magnitude(left) * _magnitude(right)) > 1e6:
            return interp.symbol((name, left, right))
        return compute(left, right)
    except Exception:  # the program's own arithmetic may fail in any way; then nothing is known of the result
        return interp.fresh_symbol(name)


def _of_tensors(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value, node: ast.expr) -> TensorRef:
    """An operator with a tensor on at least one side."""
    name, _ = _BINARY[kind]
    scalar: bool | None = True
    for value in (left, right):
        if isinstance(value, TensorRef):
            scalar = scalar and value.cell.scalar
        elif not _is_one_number(value):
            scalar = None
    if name in _WITHOUT_GRADIENT:
        made = interp.data(scalar=scalar)
        made.cell.whole = name.startswith("bitwise")
        made.cell.detachment = cuts.dropped(interp, [left, right], node, "integer")
        made.cell.usual = finite.usual_result(name, interp.tensors(left, right))
        return made
    computed = interp.operation(name, [left, right], node, names=operand_names(name), scalar=scalar)
    if kind is ast.Div and isinstance(left, (int, float)) and computed.cell.node is not None:
        computed.cell.node.saved = ()  # the reciprocal times the number: nobody gets hold of what that saves
    computed.cell.extent = extents.of_operation(name, [left, right], {}, scalar)
    computed.cell.length = extents.length_of_operation(name, [left, right])
    return computed


def _is_one_number(value: Value) -> bool:
    """Whether an operand beside a tensor is one number: a constant, a counter, a length, a command-line option."""
    if not isinstance(value, Symbol):
        return isinstance(value, (int, float))
    match value.key:
        case ("attr", ("arguments", _), _):
            return True
    return attributes.is_number(value.key)


def _of_containers(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value, node: ast.expr) -> Value:
    """Containers joined or repeated; None where only numbers are dealt with."""
    name, _ = _BINARY[kind]
    if isinstance(left, Mapping) and isinstance(right, Mapping) and kind is ast.BitOr:
        return Mapping({**left.items, **right.items}, left.more or right.more, default=left.default, cls=left.cls)
    if kind is ast.BitOr and isinstance(left, Symbol) and isinstance(right, Mapping):
        return Mapping(dict(right.items), more=True)
    if kind is ast.BitOr and isinstance(left, Mapping) and isinstance(right, Symbol):
        joined = Mapping(dict(left.items), more=True, default=left.default)
        overridden.flags(interp, joined.items, joined)
        return joined
    if isinstance(left, Sequence) and isinstance(right, Sequence) and kind is ast.Add:
        slots = [Binding(interp.read(slot, left), slot.kept) for slot in left.items]
        slots += [Binding(interp.read(slot, right), slot.kept) for slot in right.items]
        return Sequence(left.kind, slots, more=left.more or right.more, extended=(left, right))
    if any(isinstance(value, Symbol) and value.detachment is not None for value in (left, right)) and (
        _is_of_numbers(left) or _is_of_numbers(right)
    ):
        # An array that was a tensor, and a list of numbers: NumPy makes an array of the list, where Python would fail.
        result = interp.symbol((name, interp.key(left), interp.key(right)))
        return cuts.carry(interp, result, [left, right], node)
    if isinstance(left, Sequence) and kind is ast.Mult:
        times = right if isinstance(right, int) else 1
        return Sequence(left.kind, left.items * min(times, 4), more=times > 4 or not isinstance(right, int))
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return interp.opaque(name, [left, right], node)
    return None


def _of_modules(
    interp: Interpreter, kind: type[ast.operator], left: TorchModule, right: Value, node: ast.expr
) -> TorchModule | None:
    """Lists of modules joined, or repeated; None for what PyTorch refuses."""
    if kind is ast.Mult:
        return module_lists.repeated(interp, left, right, node)
    if kind is not ast.Add or left.kind == "ParameterList":
        return None
    added = unpacking.copy_of(interp, right, "list", node)
    return module_lists.filled(
        interp, left.kind, [*module_lists.values(left), *(slot.value for slot in added.items)], node
    )


def _is_of_numbers(value: Value) -> bool:
    """Whether it is a list of numbers, or of lists of them."""
    if not isinstance(value, Sequence) or value.more or not value.items:
        return False
    return all(isinstance(slot.value, (int, float)) or _is_of_numbers(slot.value) for slot in value.items)


def _arithmetic_key(interp: Interpreter, name: str, left: Value, right: Value) -> tuple[Any, ...]:
    """The key of a result; sums and remainders of one counter in one form, so that equal conditions have equal keys.

    ``(t + 1) % 5`` is ``("remainder", t, 1, 5)``, and so is ``(1 + t) % 5``.
    """
    if name == "add" and isinstance(right, Symbol) and isinstance(left, int):
        left, right = right, left
    if isinstance(left, Symbol) and isinstance(right, int):
        base, offset = counters.offset_of(left.key)
        if name in ("add", "sub"):
            return ("plus", base, offset + (right if name == "add" else -right))
        if name == "remainder" and right > 0:
            return ("remainder", base, offset % right, right)
    return (name, interp.key(left), interp.key(right))


def _magnitude(value: Any) -> float:
    return float(len(value)) if isinstance(value, (str, bytes)) else abs(float(value or 0))


def _bounds(kind: type[ast.operator], left: Value, right: Value) -> tuple[float | None, float | None]:
    """Bounds of a sum or difference of a bounded unknown and a number."""
    sign = {ast.Add: 1, ast.Sub: -1}.get(kind)
    if sign and isinstance(left, Symbol) and isinstance(right, (int, float)):
        low = None if left.low is None else left.low + sign * right
        return low, None if left.high is None else left.high + sign * right
    if kind is ast.Add and isinstance(right, Symbol) and isinstance(left, (int, float)):
        return _bounds(kind, right, left)
    return None, None


def _unary(interp: Interpreter, node: ast.UnaryOp) -> Value:
    value = interp.eval(node.operand)
    known = filled.number_in(interp, value)
    if isinstance(node.op, ast.Not):
        if known is not None:
            return not known
        if isinstance(value, TensorRef):  # `while not torch.all(done)`: asked where it is known what is likely
            value = interp.symbol(interp.truth_key(value))
        if isinstance(value, Symbol) and value.low is None:
            return comparisons.negated(interp, value)
        return not interp.truth(value)
    if isinstance(value, int) and isinstance(node.op, ast.Invert):
        return ~value
    if isinstance(value, (int, float)) and not isinstance(node.op, ast.Invert):
        return -value if isinstance(node.op, ast.USub) else +value
    if isinstance(value, TensorRef):
        if isinstance(node.op, ast.USub):
            opposite = interp.operation("neg", [value], node, scalar=value.cell.scalar)
            opposite.cell.extent = value.cell.extent
            return opposite
        if isinstance(node.op, ast.UAdd):
            return value
        inverted = interp.data(scalar=value.cell.scalar)
        inverted.cell.whole = True
        inverted.cell.detachment = cuts.dropped(interp, [value], node, "integer")
        inverted.cell.usual = finite.usual_result("bitwise_not", [value])
        filled.note(interp, inverted, not known if isinstance(known, bool) else None)
        return inverted
    return cuts.carry(interp, interp.symbol((type(node.op).__name__, interp.key(value))), [value], node)


def _bool_op(interp: Interpreter, node: ast.BoolOp) -> Value:
    wanted = isinstance(node.op, ast.Or)
    doubted = node in interp.unrolling.doubted
    value: Value = None
    for part in node.values:
        value = interp.eval(part)
        likely = not doubted and _is_likely(value)
        if part is node.values[-1] or interp.truth(value, likely=likely, optional=True) == wanted:
            return value
    return value


def _is_likely(value: Value) -> bool:
    """Whether a condition in an expression is more likely to hold.

    Most scripts are run without arguments, as the defaults of their parsers have it.
    """
    return not (isinstance(value, Symbol) and _of_command_line(value.key))


@lru_cache(maxsize=KEYS)
def _of_command_line(key: Hashable) -> bool:
    """Whether a value with this key is ``sys.argv``, or was computed from it."""
    return key == attributes.COMMAND_LINE or (isinstance(key, tuple) and any(map(_of_command_line, key)))


def _if_expression(interp: Interpreter, node: ast.IfExp) -> Value:
    consultations = interp.policy.consultations
    test = interp.eval(node.test)
    match node.body, node.orelse, test:
        case ast.Constant(value=True), ast.Constant(value=False), Symbol():
            return test  # asked where it is used
    holds = interp.truth(test, likely=_is_likely(test))
    chosen, other = (node.body, node.orelse) if holds else (node.orelse, node.body)
    if interp.policy.may_idle_since(consultations):
        fresh = effects.begins_anew(interp, node)
        chosen = fresh or chosen
        if fresh is not None or devices.chooses_gpu(chosen, other) or effects.chooses_number(interp, node):
            interp.policy.idle_since(consultations)
    return interp.eval(chosen)


def _generator_expression(interp: Interpreter, node: ast.GeneratorExp) -> Value:
    """A generator expression as a value.  Where a call takes all its items at once, see :func:`_argument`."""
    frame = Frame(interp.frames[-1].function, interp.scope)
    generator = Generator(interp, lambda: comprehensions.comprehend(interp, node, hand_out), frame, interp.site(node))

    def hand_out() -> None:
        generator.give(Binding(interp.eval(node.elt)))

    return generator


def _argument(interp: Interpreter, argument: ast.expr, function: ast.expr) -> Value:
    """An argument of a call.  Most functions use up a generator before they return."""
    if isinstance(argument, ast.GeneratorExp):
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in LAZY:
            return comprehensions.comprehension(interp, argument)
    return interp.eval(argument)


def _call(interp: Interpreter, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Attribute):
        function = attributes.get(interp, interp.eval(node.func.value), node.func.attr, node.func)
    else:
        function = interp.eval(node.func)
    args: list[Value] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            args.extend(unpacking.unpacked(interp, interp.eval(argument.value), None, argument))
        else:
            args.append(_argument(interp, argument, node.func))
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = _argument(interp, keyword.value, node.func)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Mapping):
            keywords.update({str(name): interp.read(slot, value) for name, slot in value.items.items()})
        if keyword.arg is None and (not isinstance(value, Mapping) or value.more):
            interp.spread.add(node)
    return replicas.gathered(interp, function, node, interp.call(function, args, keywords, node))


def _lambda(interp: Interpreter, node: ast.Lambda) -> Value:
    defaults = [interp.eval(default) for default in node.args.defaults]
    named = {
        argument.arg: interp.eval(default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    return Function(node, interp.source, interp.scope, defaults, named, "<lambda>", statement=interp.statement)


def _display(kind: str) -> Callable[[Interpreter, Any], Value]:
    def evaluate(interp: Interpreter, node: Any) -> Value:
        slots: list[Binding] = []
        extended: list[Sequence] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                whole = interp.eval(element.value)
                extended += [whole] if isinstance(whole, Sequence) else []
                slots.extend(Binding(value) for value in unpacking.unpacked(interp, whole, None, element))
            else:
                value = interp.eval(element)
                slots.append(Binding(value, interp.kept(value, "", element) if isinstance(value, TensorRef) else None))
        return Sequence(kind, slots, extended=tuple(extended))

    return evaluate


def _dict(interp: Interpreter, node: ast.Dict) -> Value:
    mapping = Mapping(cls="builtins.dict")
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = interp.eval(value_node)
        if key_node is None:
            if isinstance(value, Mapping):
                mapping.items.update(value.items)
                mapping.more = mapping.more or value.more
            else:
                mapping.more = True
                overridden.flags(interp, mapping.items, mapping)
            continue
        key = mapping_keys.mapping_key(interp, interp.eval(key_node))
        kept = interp.kept(value, "", value_node) if isinstance(value, TensorRef) else None
        mapping.items[key] = Binding(value, kept)
    return mapping


def _formatted(interp: Interpreter, node: ast.JoinedStr) -> Value:
    parts: list[Any] = []
    values: list[Value] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = interp.eval(part.value)
            attributes.shown(interp, [value], part.value)
            spec = interp.eval(part.format_spec) if part.format_spec is not None else ""
            text = _text_of(value, part.conversion, spec)
            parts.append(interp.key(value) if text is None else text)
            plain = part.conversion < 0 and spec == ""
            values.append((value if plain else None) if text is None else text)
        else:
            parts.append(interp.eval(part))
            values.append(parts[-1])
    if all(isinstance(part, str) for part in parts) and constants.length(parts) <= constants.LARGEST:
        return "".join(parts)
    made = interp.symbol(("text", *parts))
    made.usual = constants.usual_text(interp, values, lambda *known: "".join(map(str, known)))
    return made


def _text_of(value: Value, conversion: int, spec: Value) -> str | None:
    """The text of ``{value!r:>8}``; None where it is not known."""
    if not is_constant(value) or not isinstance(spec, str) or constants.is_wide(spec):
        return None
    shown = repr(value) if conversion == ord("r") else value if conversion < 0 else str(value)
    try:
        return format(shown, spec)
    except (TypeError, ValueError):
        return None


def _named(interp: Interpreter, node: ast.NamedExpr) -> Value:
    value = interp.eval(node.value)
    inner = interp.scope
    while interp.scope.comprehension and interp.scope.parent is not None:
        interp.scope = interp.scope.parent
    try:
        interp.assign(node.target, value, node.value)
    finally:
        interp.scope = inner
    return interp.eval(node.target)


def _yield(interp: Interpreter, node: ast.Yield) -> Value:
    value = interp.eval(node.value) if node.value is not None else None
    generator = interp.frames[-1].generator
    if generator is None:
        return interp.fresh_symbol("sent")
    return generator.give(interp.slot(value, "", node.value))


def _yield_from(interp: Interpreter, node: ast.YieldFrom) -> Value:
    value = interp.eval(node.value)
    generator = interp.frames[-1].generator
    if generator is None:
        return None
    if isinstance(value, Generator):
        try:
            while True:
                generator.give(value.resume())
        except Exhausted:
            return value.returned
    if isinstance(value, Sequence):
        for slot in value.items:
            generator.give(slot)
        return None
    items = streams.stream(interp, value, node.value)
    try:
        for at in range(min(items.limit or items.count or loops.HANDED_OUT, loops.HANDED_OUT)):
            generator.give(Binding(items.at(at, not items.cut or at == 0)))
    except Exhausted:
        pass
    return None


EVALUATE: dict[type[ast.expr], Callable[[Interpreter, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool_op,
    ast.Compare: comparisons.compare,
    ast.IfExp: _if_expression,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.List: _display("list"),
    ast.Tuple: _display("tuple"),
    ast.Set: _display("set"),
    ast.Dict: _dict,
    ast.JoinedStr: _formatted,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Await: lambda interp, node: interp.eval(node.value),
    ast.Starred: lambda interp, node: interp.eval(node.value),
    ast.ListComp: comprehensions.comprehension,
    ast.SetComp: comprehensions.comprehension,
    ast.GeneratorExp: _generator_expression,
    ast.DictComp: comprehensions.comprehension,
}
