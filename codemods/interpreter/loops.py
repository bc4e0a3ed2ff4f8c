"""What loops run over, and how many of their iterations are executed.

A loop of which the source does not fix a small number of iterations is *cut short*: its body runs twice, and a third
time where that may not show a mistake.  The iterations after the first stand for any later one: there its counters are
known only by their bounds, and what grows in it may have any size.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Generator as Generated
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codemods.interpreter import (
    class_lookup,
    counters,
    datasets,
    elements,
    errors,
    mapping_keys,
    opaque_results,
)
from codemods.interpreter.generators import Exhausted, Generator
from codemods.interpreter.values import (
    Binding,
    Class,
    Instance,
    Mapping,
    Scope,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from codemods.interpreter.protocol import Interpreter

RANGE = 3
"""A ``range`` of at most so many numbers is run in full."""
ITEMS = 8
"""A container of at most so many known items is run in full."""
PARTS = 64
"""So many where they are a model's modules or parameters: what freezes or resets them must reach them all."""


@dataclass(frozen=True)
class Stream:
    """Something to iterate over: how many items (None where unknown) and the item at a position.

    The second argument of ``at`` says whether the position is exact or stands for any from there on.
    """

    count: int | None
    at: Callable[[int, bool], Value]
    whole: int = ITEMS
    limit: int | None = None
    """How many items there are to be seen, where there are more than that, and not of the same kind."""
    lazy: bool = False
    """Whether asking for an item that there is not ends it: a generator."""
    turn: Callable[[], int] = lambda: 0
    """After how many items they begin again, as far as the last that was asked for tells; 0 where that is not known."""
    counts: bool = False
    """Whether the items are numbers, of which there may be more than the *limit*."""

    @property
    def cut(self) -> bool:
        return self.count is None or self.count > self.whole


@dataclass(eq=False)
class LazyStream:
    """A :class:`Stream` as a value of the program: ``enumerate(...)``, ``zip(...)``."""

    stream: Stream
    taken: int = 0
    """How many items ``next`` has taken."""

    def following(self) -> Value:
        """What ``next`` gives.  Raises :class:`Exhausted` at the end."""
        if self.stream.count is not None and self.taken >= self.stream.count:
            raise Exhausted
        item = self.stream.at(self.taken, True)
        self.taken += 1
        return item

    def rest(self) -> Stream:
        """The items that ``next`` has left."""
        if not self.taken:
            return self.stream
        whole, taken = self.stream, self.taken
        count, limit = (None if one is None else max(one - taken, 0) for one in (whole.count, whole.limit))
        return replace(whole, count=count, at=lambda at, exact: whole.at(at + taken, exact), limit=limit)


def stream(interp: Interpreter, value: Value, node: ast.expr) -> Stream:
    """The items of *value*."""
    value = class_lookup.opened(value)
    match value:
        case LazyStream():
            return value.rest()
        case range():
            serial = interp.new_instance()
            return Stream(len(value), lambda at, exact: _number(value, serial, at, exact), RANGE)
        case Generator():
            return Stream(None, lambda at, exact: interp.read(value.resume()), lazy=True, turn=value.turn)
        case Sequence():
            count = None if value.more else len(value.items)
            whole = PARTS if count is not None and all(_is_part(slot.value) for slot in value.items) else ITEMS
            goes_on = value.more and bool(value.items) and _another(value.items[-1].value) is not None
            limit = None if goes_on else len(value.items) or None
            return Stream(count, lambda at, exact: _item_of_sequence(interp, value, at), whole, limit)
        case Mapping():
            keys = [mapping_keys.key_value(interp, key) for key in value.items]
            count, limit = None if value.more else len(keys), len(keys) or None
            return Stream(
                count, lambda at, exact: keys[at] if at < len(keys) else interp.fresh_symbol("key"), limit=limit
            )
        case None:
            interp.crash("None is not iterable")
        case str():
            return Stream(len(value), lambda at, exact: value[at])
        case TensorRef() if opaque_results.is_collection(value):
            return _unknown(interp, opaque_results.as_object(interp, value))
        case TensorRef():
            return Stream(
                None, lambda at, exact: elements.item(interp, value, at if exact else interp.fresh_symbol("i"), node)
            )
        case TorchModule():
            parts: list[Value] = [
                key if value.kind == "ModuleDict" else slot.value for key, slot in value.children.items()
            ]
            return Stream(len(parts), lambda at, exact: parts[at], PARTS)
        case Class() if value.members:
            members = list(value.members.values())
            return Stream(len(members), lambda at, exact: members[at], PARTS)
        case Instance() if class_lookup.find(value, "__iter__") is not None:
            made = interp.call(class_lookup.bind(interp, class_lookup.find(value, "__iter__"), value), [], {}, node)
            if not isinstance(made, Instance):
                return stream(interp, made, node)
            following = class_lookup.find(made, "__next__")
            if following is not None:
                following = class_lookup.bind(interp, following, made)
                return Stream(None, lambda at, exact: _next_of(interp, following, node))
            return _unknown(interp, made)
        case Instance() if class_lookup.base_module(value) is not None:
            return stream(interp, class_lookup.base_module(value), node)
    return _unknown(interp, value)


def _next_of(interp: Interpreter, following: Value, node: ast.expr) -> Value:
    """The next item of an object with ``__next__``."""
    with errors.by_itself(interp):
        item = interp.call(following, [], {}, node)
    if interp.exceptions.raised:  # StopIteration
        interp.exceptions.raised = False
        raise Exhausted
    return item


def _is_part(value: Value) -> bool:
    """Whether a value is a module, a parameter, or such a one with its name."""
    if isinstance(value, Sequence) and value.kind == "tuple" and len(value.items) == 2:
        value = value.items[1].value
    return isinstance(value, (Instance, TorchModule)) or (isinstance(value, TensorRef) and value.cell.leaf is not None)


def first_of(items: Stream, count: int) -> list[Value]:
    """The first items, *count* of them at most."""
    found: list[Value] = []
    try:
        for at in range(count):
            found.append(items.at(at, not items.cut or at == 0))
    except Exhausted:
        pass
    return found


def _unknown(interp: Interpreter, value: Value) -> Stream:
    serial = interp.new_instance()
    if isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("range",):
        start, stop, step = _written_in(value.key)
        if step is not None and step < 0 and stop is not None:  # the last number is known, and not the first
            return Stream(None, lambda at, exact: Symbol(("index", serial, -at), low=stop + 1))
        first = 0 if start is None or step != 1 else start
        return Stream(
            None,
            lambda at, exact: at + first if exact else Symbol(("index", serial, at), low=at + first),
            limit=_items_counted(value),
            counts=True,
        )

    def item(at: int) -> Value:
        return interp.symbol(("item", interp.key(value), serial, at))

    loader = datasets.served(interp, value)
    if loader is not None:
        return Stream(None, lambda at, exact: datasets.batch(interp, loader, item(at)))
    return Stream(None, lambda at, exact: item(at))


def _written_in(key: tuple[Hashable, ...]) -> tuple[int | None, int | None, int | None]:
    """The start, the stop and the step of a ``range``, by its key; None for those that are not known."""
    numbers = [part[1] if isinstance(part, tuple) and part[:1] == ("int",) else None for part in key[1:-1]]
    start, stop, step = [0, *numbers, 1] if len(numbers) == 1 else [*numbers, 1][:3]
    return (
        start if type(start) is int else None,
        stop if type(stop) is int else None,
        step if type(step) is int else None,
    )


def _items_counted(numbers: Symbol) -> int | None:
    """How many items are known of the container that ``range(len(container))`` goes over: those are all reached."""
    match numbers.key:
        case ("range", ("len", _, int() as known, _), _) if known > 1:
            return known
    return None


def _number(numbers: range, serial: int, at: int, exact: bool) -> Value:
    if exact:
        return numbers[at]
    low, high = sorted((numbers[at], numbers[-1]))
    return Symbol(("index", serial, at if numbers.step > 0 else -at), low, high)


def counter(interp: Interpreter, low: int) -> Symbol:
    """A loop's counter of which only a lower bound is known."""
    return Symbol(("index", "counter", interp.new_instance(), low), low)


def _item_of_sequence(interp: Interpreter, value: Sequence, at: int) -> Value:
    if at < len(value.items):
        return interp.read(value.items[at], value)
    like = _another(value.items[-1].value) if value.items else None
    return interp.fresh_symbol("item") if like is None else like


def _another(value: Value) -> Value:
    """Another tensor without a graph like *value*, or tuple of such ones; None for all else."""
    match value:
        case TensorRef(cell=cell) if cell.node is None and not (
            cell.leaf or cell.detachment or cell.vague or cell.unsure
        ):
            return TensorRef(TensorImpl(scalar=cell.scalar, extent=cell.extent))
        case Sequence(more=False):
            parts = [_another(slot.value) for slot in value.items]
            if parts and None not in parts:
                return replace(value, items=[Binding(part) for part in parts])
    return None


def run_for(interp: Interpreter, node: ast.For | ast.AsyncFor) -> str:
    """Execute a ``for`` statement; returns its signal."""
    iterated = interp.eval(node.iter)
    items = stream(interp, iterated, node.iter)
    instance = interp.new_instance()
    signal = ""
    plan = UnrollPolicy(interp)
    if not items.cut:
        interp.unrolling.lengths[instance] = items.count or 0
    numbers = _to_the_end(interp, node, _numbers(interp, node, items, plan))
    for number in numbers:
        cut = items.cut and plan.cut
        with interp.iteration(node, instance, number, cut):
            try:
                element = items.at(number, not cut or number == 0)
            except Exhausted:
                signal = interp.run(node.orelse)
                break
            plan.over_parts = _is_part(element)
            for part in [slot.value for slot in element.items] if isinstance(element, Sequence) else [element]:
                if isinstance(part, Symbol):
                    interp.loop_items.handed_out[part.key] = instance
            interp.assign(node.target, element, None)
            signal = interp.run(node.body)
        if signal in ("break", "return", "raise"):
            break
    else:
        signal = interp.run(node.orelse)
    numbers.close()
    if isinstance(iterated, Generator) and isinstance(node.iter, ast.Call):
        iterated.close()  # nobody else knows it
    return signal if signal in ("return", "raise") else ""


SPAN = 130
"""The most iterations that are run to see what happens in some of them only."""
COST = 12_000
"""Expressions and statements that running them all may take."""


class UnrollPolicy:
    """How many iterations of one loop are run, decided after the first."""

    def __init__(self, interp: Interpreter) -> None:
        self._machine = interp
        self._passes = len(interp.tape.passes)
        self._grown = len(interp.widening.growing)
        self._spans = len(interp.unrolling.spans)
        self._periods = len(interp.unrolling.periods)
        self._thresholds = len(interp.unrolling.thresholds)
        self._several = interp.loop_items.several_places
        self._steps = interp.steps_taken
        self._turns = 0
        self._clock = 0
        self.over_parts = False
        """Whether it runs over a model's modules or parameters."""
        self.cut = True
        """Whether the iterations after the first stand for any later one."""

    def after_first(self) -> int:
        """How many to run in order, where something happens in some only; else two, the second for any later one."""
        self._turns, self._clock = self._machine.unrolling.turns, self._machine.tape.clock
        span = max((span for span in self._machine.unrolling.spans[self._spans :] if 2 < span <= SPAN), default=0)
        if span and self.affords(span, SPAN):
            self.cut = False
            return span
        self._machine.widening.stand_for_later(self._grown)
        return 2

    def behind_warm_up(self, planned: int, node: ast.For | ast.AsyncFor) -> int:
        """The first iteration behind those *planned* in which what a warm-up puts off happens, at the same turn of all
        that happens every k-th time; 0 where there is none.
        """
        counters = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        compared = self._machine.unrolling.thresholds[self._thresholds :]
        most = max((number for name, number in compared if name in counters), default=0)
        periods = self._machine.unrolling.periods[self._periods :]
        if self.cut or most < planned or not periods:
            return 0
        turn = math.lcm(*periods)
        return planned + -(-(most + 1 - planned) // turn) * turn

    def affords(self, count: int, most: int = ITEMS) -> bool:
        """Whether so many iterations may be run."""
        return count <= most and (self._machine.steps_taken - self._steps) * count <= COST

    def wants_third_iteration(self) -> bool:
        """Whether two iterations may not show a mistake.

        That is one pass, graphs that outlive theirs, another beginning, several places that change their parts, or what
        the first iteration made behind its pass, and the second sent back for the first time.
        """
        passes = self._machine.tape.passes[self._passes :]
        begun = bool(passes) and self._machine.unrolling.turns > self._turns and self.affords(3)
        begun = begun or (bool(passes) and self._machine.loop_items.several_places > self._several and self.affords(3))
        first = max((one.clock for one in passes if one.clock <= self._clock), default=self._clock)
        late = any(
            first < producer.clock <= self._clock and producer.leaf is None
            for one in passes
            if one.clock > self._clock
            for _, producer in one.edges
        )
        return self.cut and (
            len(passes) == 1 or any(one.retains for one in passes) or begun or (late and self.affords(3))
        )


HANDED_OUT = 200
"""Iterations of a generator's own loop that are run at most: as many as somebody asks for."""


def _hands_out(interp: Interpreter, node: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a loop is a generator's and yields: then it runs as long as somebody asks for more."""
    return interp.frames[-1].generator is not None and interp.source.remembered(node, _yields)


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))


def _takes_out(node: ast.AST) -> bool:
    """Whether a loop takes items out of a container: what is left then depends on how often it runs."""
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("pop", "popleft", "popitem") for part in ast.walk(node)
    )


def _to_the_end(
    interp: Interpreter, node: ast.For | ast.AsyncFor, numbers: Iterator[int]
) -> Generated[int, None, None]:
    """The same with a last one, where the loop ends by its own ``if step == steps: break``."""
    number = -1
    for number in numbers:
        yield number
    end = _own_end(node) if isinstance(node, ast.For) else None
    if end is not None and number > 0:
        interp.unrolling.ending.add(end)
        try:
            yield number + 1
        finally:
            interp.unrolling.ending.discard(end)


def _own_end(node: ast.For) -> ast.If | None:
    """``if step == steps: break`` in a loop over ``range(steps + 1)``."""
    match node.target, node.iter:
        case ast.Name(id=target), ast.Call(func=ast.Name("range"), args=[ast.BinOp(end, ast.Add(), ast.Constant(1))]):
            wanted = f"if {target} == {ast.unparse(end)}:\n    break"
            return next((one for one in node.body if isinstance(one, ast.If) and ast.unparse(one) == wanted), None)
    return None


def _numbers(interp: Interpreter, node: ast.For | ast.AsyncFor, items: Stream, plan: UnrollPolicy) -> Iterator[int]:
    """The iterations of a ``for`` that are run."""
    if not items.cut:
        yield from range(items.count or 0)
        return
    yield 0
    planned = plan.after_first()
    if _hands_out(interp, node):
        yield from range(1, min(items.limit or items.count or HANDED_OUT, HANDED_OUT))
        return
    if plan.over_parts and items.lazy:
        yield from range(1, PARTS)
        return
    turn = items.turn()
    if planned < turn + 2 and turn and plan.affords(turn + 2):  # until it comes to the first of them again
        planned = turn + 2
    known = items.count or items.limit or 0
    if known > planned and interp.source.remembered(node, _takes_out) and plan.affords(known, PARTS):
        yield from range(1, known)
        return
    most = items.limit or items.count or planned + 1
    if items.counts and not plan.cut:  # something happens in some of them only
        most = max(most, planned)
    elif items.count is None and items.limit is not None and plan.affords(items.limit):
        planned = items.limit  # what a container is known to hold is reached by a loop over all of it
    yield from range(1, min(planned, most))
    behind = plan.behind_warm_up(planned, node)
    if behind and (items.count is None or behind + planned <= items.count):
        yield from range(behind, behind + planned // 2 + 1)
    if plan.wants_third_iteration() and most > 2:
        yield 2


def run_while(interp: Interpreter, node: ast.While) -> str:
    """Execute a ``while`` statement; returns its signal."""
    instance = interp.new_instance()
    plan = UnrollPolicy(interp)
    planned = number = through = 0
    streams = len(interp.unrolling.streams)
    counter = _Counter.of(interp, node, instance)
    whole = counter is not None and counter.is_short
    while True:
        with interp.iteration(node, instance, number, plan.cut and not whole):
            holds, condition = _goes_on(interp, node.test, begun=number > 0)
            if holds is False:
                break
            signal = interp.run(node.body)
        if signal == "break":
            return ""
        if signal in ("return", "raise"):
            return signal
        number += 1
        if number == 1:
            through = _taken_one_by_one(interp.unrolling.streams[streams:])
        if whole or (number < through and plan.affords(through, PARTS)):
            continue
        if number == 1:
            planned = plan.after_first()
            if _hands_out(interp, node):
                planned = HANDED_OUT
            elif isinstance(condition, (Sequence, Mapping)) and plan.affords(PARTS, PARTS):
                planned = PARTS  # until it is empty
            if counter is not None and plan.cut:
                counter.stand_for_later()
        if number >= planned + plan.wants_third_iteration():
            if counter is not None and plan.cut:
                counter.finish()
            break
    return interp.run(node.orelse)


def _taken_one_by_one(streams: list[LazyStream]) -> int:
    """How often a loop runs that takes an item of a known container in each iteration: once more than it has items."""
    known = [one.stream.count or 0 for one in streams if not one.stream.cut]
    return max(known, default=-1) + 1


def _goes_on(interp: Interpreter, test: ast.expr, *, begun: bool) -> tuple[bool | None, Value]:
    """Whether the condition of a ``while`` holds, and its value; None where that is not known, so that it may go on.

    Once the loop has *begun*, it ends by a condition for which a branch ran a pass: ``if done: loss.backward()`` in
    ``while not done:``.
    """
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            inner, condition = _goes_on(interp, operand, begun=begun) if _is_built(operand) else (None, None)
            if _is_built(operand):
                return None if inner is None else not inner, condition
        case ast.BoolOp(op, parts):
            decisive = isinstance(op, ast.Or)
            answers: list[bool | None] = []
            condition = None
            for part in parts:
                holds, condition = _goes_on(interp, part, begun=begun)
                if holds is decisive:
                    return holds, condition
                answers.append(holds)
                if holds is None and not decisive and isinstance(condition, Symbol):
                    counters.note(interp, condition.key, True)
            return None if None in answers else not decisive, condition
    condition = interp.eval(test)
    if not isinstance(condition, (Symbol, TensorRef)):
        return interp.truth(condition), condition
    if isinstance(condition, Symbol):
        interp.note_length(condition.key, True)
    return interp.consequence(condition) if begun else None, condition


def _is_built(node: ast.expr) -> bool:
    """Whether a condition is one of several."""
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


@dataclass(frozen=True)
class _Counter:
    """The name that a ``while`` tests and changes by the same number in every iteration: ``while i < 3: ...; i += 1``.

    ``numbers`` is None where its first or its last number is not known.
    """

    interp: Interpreter
    name: ast.Name
    instance: int
    numbers: range | None

    @classmethod
    def of(cls, interp: Interpreter, node: ast.While, instance: int) -> _Counter | None:
        """None where the loop does not count by what is written."""
        written = interp.source.remembered(node, _counting)
        if not written:
            return None
        name, order, bound, step = written
        start, stop = interp.eval(name), interp.eval(bound)
        if isinstance(start, Symbol):
            interp.loop_items.handed_out[start.key] = instance
        if type(start) is not int or type(stop) is not int:
            return cls(interp, name, instance, None)
        beyond = step // abs(step) if order in (ast.LtE, ast.GtE) else 0
        return cls(interp, name, instance, range(start, stop + beyond, step))

    @property
    def is_short(self) -> bool:
        """Whether all iterations are run."""
        return self.numbers is not None and len(self.numbers) <= RANGE

    def stand_for_later(self) -> None:
        """The second iteration stands for any later one."""
        if self.numbers is not None:
            later = _number(self.numbers, self.instance, 1, exact=False)
            self.interp.loop_items.handed_out[self.interp.key(later)] = self.instance
            self.interp.assign(self.name, later, None)

    def finish(self) -> None:
        """The loop has come to its end."""
        if self.numbers is not None:
            self.interp.assign(self.name, self.numbers[-1] + self.numbers.step, None)


_ORDERS: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
"""The orders by which a loop counts, each with the one that says the same with its sides changed."""


def _counting(node: ast.While) -> tuple[ast.Name, type[ast.cmpop], ast.expr, int] | tuple[()]:
    """The name that a ``while`` tests, how, against what, and its step; nothing where it does not count."""
    match node.test:
        case ast.Compare(ast.Name() as name, [sign], [bound]) if type(sign) in _ORDERS:
            order = type(sign)
        case ast.Compare(bound, [sign], [ast.Name() as name]) if type(sign) in _ORDERS:
            order = _ORDERS[type(sign)]
        case ast.Name() as name:
            bound, order = ast.copy_location(ast.Constant(0), name), ast.Gt
        case _:
            return ()
    step = _step_of(name.id, node) if _is_fixed(bound, node) else 0
    return (name, order, bound, step) if step and (step > 0) == (order in (ast.Lt, ast.LtE)) else ()


def _step_of(name: str, node: ast.While) -> int:
    """By how much *name* changes in every iteration; 0 where that is not the same by what is written."""
    parts = list(ast.walk(node))
    stores = [part for part in parts if isinstance(part, ast.Name) and part.id == name and _is_stored(part)]
    if len(stores) != 1 or any(isinstance(part, ast.Continue) for part in parts):
        return 0
    for statement in node.body:
        match statement:
            case ast.AugAssign(ast.Name(id=known), ast.Add() | ast.Sub() as sign, ast.Constant(int() as step)):
                pass
            case ast.Assign(
                [ast.Name(id=known)],
                ast.BinOp(ast.Name(id=left), ast.Add() | ast.Sub() as sign, ast.Constant(int() as step)),
            ) if left == known:
                pass
            case _:
                continue
        if known == name:
            return step if isinstance(sign, ast.Add) else -step
    return 0


def _is_fixed(bound: ast.expr, node: ast.While) -> bool:
    """Whether the body of a ``while`` leaves a number alone, or how many items a container has."""
    match bound:
        case ast.Constant() | ast.Name() | ast.Attribute():
            used = bound
        case ast.Call(ast.Name("len"), [ast.Name() as used], []):
            if any(isinstance(part, ast.Attribute) and _same(part.value, used) for part in ast.walk(node)):
                return False
        case _:
            return False
    return not any(_is_stored(part) and _same(part, used) for statement in node.body for part in ast.walk(statement))


def _is_stored(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _same(one: ast.AST, other: ast.expr) -> bool:
    return isinstance(one, ast.expr) and ast.unparse(one) == ast.unparse(other)


def comprehension(interp: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    """The container that a comprehension builds."""
    if isinstance(node, ast.DictComp):
        mapping = Mapping()

        def put() -> None:
            key = mapping_keys.mapping_key(interp, interp.eval(node.key))
            mapping.items[key] = Binding(interp.eval(node.value))

        mapping.more = comprehend(interp, node, put)
        return mapping
    sequence = Sequence("set" if isinstance(node, ast.SetComp) else "list")
    sequence.more = comprehend(interp, node, lambda: sequence.items.append(Binding(interp.eval(node.elt))))
    (first, *inner) = node.generators
    if sequence.more and not (inner or first.ifs) and isinstance(interp.eval(first.iter), range):
        sequence.least = len(sequence.items)  # as many as are known are there for certain
    return sequence


def accumulated(interp: Interpreter, function: Value, value: Value, initial: list[Value], node: ast.expr) -> Sequence:
    """What ``functools.reduce`` has after each item of *value*, the *initial* value first, where there is one."""
    items, instance = stream(interp, value, node), interp.new_instance()
    made = list(initial)
    for number in range(3 - len(made)) if items.cut else range(items.count or 0):
        with interp.iteration(node, instance, number, items.cut):
            try:
                item = items.at(number, not items.cut or number == 0)
            except Exhausted:
                break
            made.append(interp.call(function, [made[-1], item], {}, node) if made else item)
    return Sequence("list", [Binding(one) for one in made], items.cut)


Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def comprehend(interp: Interpreter, node: Comprehension, each: Callable[[], object]) -> bool:
    """Run a comprehension's loops in a scope of their own, and *each* inside; returns whether there may be more."""
    outer = interp.scope
    interp.scope = Scope({}, parent=outer, globals=outer.globals)
    try:
        return _comprehend(interp, node, node.generators, each)
    finally:
        interp.scope = outer


def _comprehend(
    interp: Interpreter, node: ast.expr, generators: list[ast.comprehension], each: Callable[[], object]
) -> bool:
    if not generators:
        each()
        return False
    generator, *inner = generators
    items = stream(interp, interp.eval(generator.iter), generator.iter)
    instance = interp.new_instance()
    more = items.cut
    for number in range(2) if items.cut else range(items.count or 0):
        with interp.iteration(node, instance, number, items.cut):
            try:
                element = items.at(number, not items.cut or number == 0)
            except Exhausted:
                break
            interp.assign(generator.target, element, None)
            if all(interp.truth(interp.eval(condition)) for condition in generator.ifs):
                more |= _comprehend(interp, node, inner, each)
    return more
