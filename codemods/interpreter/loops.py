"""The execution of loops: which of their iterations are run, and which stand for others.

A loop of which the source does not fix a small number of iterations is *cut short*: its body runs twice, a third time
where that may not show a mistake, and once in an evaluation that changes nothing.  The iterations after the first stand
for any later one: there its counters are known only by their bounds, and a container that grows in it may have any
size.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Generator as Generated
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import BackwardCall
from autofix.codemods.interpreter import (
    counters,
    streams,
)
from autofix.codemods.interpreter.generators import Exhausted, Generator, takes_out
from autofix.codemods.interpreter.values import (
    Mapping,
    Sequence,
    Symbol,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def run_for(interp: Interpreter, node: ast.For | ast.AsyncFor) -> str:
    """Execute a ``for`` statement; returns its signal."""
    here = interp.statement
    iterated = interp.eval(node.iter)
    items = streams.one_by_one(interp, streams.stream(interp, iterated, node.iter), node)
    instance = interp.new_instance()
    signal = ""
    plan = UnrollPolicy(interp)
    if not items.cut:
        interp.unrolling.lengths[instance] = items.count or 0
    elif _runs_once_by_default(interp, iterated):
        interp.log.once.add(interp.site(node).span)
    number = 0
    numbers = _to_the_end(interp, node, instance, items.count, _numbers(interp, node, items, plan))
    for number in numbers:
        cut = items.cut and plan.cut
        with interp.iteration(node, instance, number, cut):
            interp.statement = here  # and not the last one of the iteration before
            try:
                element = items.at(number, not cut or number == 0)
            except Exhausted:
                signal = interp.run(node.orelse)
                break
            plan.over_parts = streams.is_part(element)
            streams.hand_out(interp, element, instance)
            interp.assign(node.target, element, None)
            signal = interp.run(node.body)
        if signal in ("break", "return", "raise"):
            interp.log.ended.add(interp.site(node).span)
            break
    else:
        if plan.is_quiet and number == 0:  # what is counted in it ends behind its first number
            with suppress(Exhausted), interp.iteration(node, instance, 1, True):
                interp.assign(node.target, items.at(1, False), None)
        if items.cut and plan.cut:
            interp.log.left_off.add(interp.site(node).span)
        signal = interp.run(node.orelse)
    numbers.close()
    if isinstance(iterated, Generator) and isinstance(node.iter, ast.Call):
        iterated.close()  # nobody else knows it
    return signal if signal in ("return", "raise") else ""


def _runs_once_by_default(interp: Interpreter, iterated: Value) -> bool:
    """Whether numbers are counted up to an option that is 1 or less by default: ``range(args.updates)``."""
    match iterated:
        case Symbol(key=("range", *numbers, _)) if len(numbers) <= _START_AND_STOP:
            known = [interp.usual_value(one) for one in numbers]
            return all(type(one) is int for one in known) and not range(*known)[1:]
    return False


_START_AND_STOP = 2
"""The numbers that ``range`` takes, without a step."""
SPAN = 130
"""The most iterations that are run to see what happens in some of them only."""
COST = 12_000
"""Expressions and statements that running them all may take."""
MANY = 512
"""Limit for the modules or parameters of a large model, where little is done with each."""
COST_OF_PARTS = 6_000
"""Expressions and statements that running through the parts of a large model may take."""


class UnrollPolicy:
    """The number of iterations of one loop that are run, decided after the first."""

    def __init__(self, interp: Interpreter) -> None:
        self._interp = interp
        self._passes = len(interp.tape.passes)
        self._grown = len(interp.widening.growing)
        self._spans = len(interp.unrolling.spans)
        self._periods = len(interp.unrolling.periods)
        self._thresholds = len(interp.unrolling.thresholds)
        self._short = interp.unrolling.short
        self._several = interp.loop_items.several_places
        self._turns_compared = interp.loop_items.turns_compared
        self._thawed = len(interp.incidents.thawed)
        self._steps = interp.steps_taken
        self._turns = 0
        self._begun = interp.tape.clock
        self._shown = len(interp.tape.stale) + len(interp.tape.clobbered)
        self._clock = 0
        self.over_parts = False
        """Whether it runs over a model's modules or parameters."""
        self.cut = True
        """Whether the iterations after the first stand for any later one."""
        self.is_quiet = False
        """Whether the first iteration, of an evaluation, did nothing that the tape can see: it stands for all."""

    def after_first(self) -> int:
        """Number of iterations to run in order, if something happens in some only; else 2, the second for all later."""
        self._turns, self._clock = self._interp.unrolling.turns, self._interp.tape.clock
        span = max((span for span in self._interp.unrolling.spans[self._spans :] if 2 < span <= SPAN), default=0)
        if span and self.affords(span, SPAN):
            self.cut = False
            return span
        self._interp.widening.stand_for_later(self._grown)
        self.is_quiet = not self._interp.grad and self._interp.tape.clock == self._begun
        return 1 if self.is_quiet else 2

    def has_grown(self) -> bool:
        """Whether a container that the loop fills is still too small in all planned iterations: of any size, from here.

        So it is with ``if step % 4 == 0:`` around ``if len(memory) > 200:``.
        """
        if self.cut or self._interp.unrolling.short == self._short or len(self._interp.widening.growing) == self._grown:
            return False
        self._interp.widening.stand_for_later(self._grown)
        return True

    def behind_warm_up(self, planned: int, node: ast.For | ast.AsyncFor) -> range:
        """Iterations behind those *planned* in which what a warm-up puts off happens, in two turns of all that happens
        every k-th time; none where nothing is put off.
        """
        grown = self.has_grown()
        counters = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        compared = self._interp.unrolling.thresholds[self._thresholds :]
        most = max((number for name, number in compared if name in counters), default=0)
        periods = self._interp.unrolling.periods[self._periods :]
        if self.cut or not (grown or (most >= planned and periods)):
            return range(0)
        turn = math.lcm(*periods)
        first = planned + -(-max(most + 1 - planned, 0) // turn) * turn
        return range(first, first + max(planned // 2 + 1, 2 * turn))

    def over_container(self, items: streams.Stream) -> bool:
        """Whether it runs over all of the known items of a container, and may detach or reset each: no pass is made."""
        listed = items.count is not None and items.whole > streams.RANGE and not items.lazy
        return listed and not self._own_passes()

    def affords(self, count: int, most: int = streams.ITEMS, cost: int = COST) -> bool:
        """Whether so many iterations may be run."""
        return count <= most and (self._interp.steps_taken - self._steps) * count <= cost

    def affords_all(self, count: int) -> bool:
        """Whether a loop may run through so many known items: all parts of a large model where it only lists them."""
        large = self.over_parts and self.affords(count, MANY, COST_OF_PARTS)
        return large or self.affords(count, streams.PARTS)

    def further(self) -> int:
        """Number of iterations behind the second without which a mistake may not show.

        Two, where a frozen parameter got a graph: the second pass goes through its first change alone, and only the
        fourth comes back to a change that the third one has walked.  And two where a state that is made behind a pass
        begins without a graph, and each pass keeps its own: of data, a layer saves no weights, so that the second
        state is the first to save them, the third pass comes through it, and only then a step changes them.
        """
        if not self._wants_third_iteration():
            return 0
        thawed = len(self._interp.incidents.thawed) > self._thawed
        late = not self._shows() and any(one.retains for one in self._own_passes()) and self._is_carried(self._begun)
        return 2 if (thawed or late) and self.affords(4) else 1

    def _own_passes(self) -> list[BackwardCall]:
        return self._interp.tape.passes[self._passes :]

    def _shows(self) -> bool:
        """Whether anything has failed since the loop began."""
        return len(self._interp.tape.stale) + len(self._interp.tape.clobbered) > self._shown

    def _is_carried(self, since: int) -> bool:
        """Whether a pass behind the first iteration came through what that one had made *since* a moment."""
        return any(
            since < producer.clock <= self._clock and producer.leaf is None
            for one in self._own_passes()
            if one.clock > self._clock
            for _, producer in one.edges
        )

    def _wants_third_iteration(self) -> bool:
        """Whether two iterations may not show a mistake.

        That is one pass, graphs that outlive theirs, another beginning, several places that change their parts, what
        the first iteration made behind its pass, and the second sent back for the first time, or what it made before,
        where nothing has failed yet: in the third iteration a pass meets what the second one saved.
        """
        if self._interp.loop_items.turns_compared > self._turns_compared:
            return False  # a loop inside runs twice, and would meet nothing in the third turn
        passes = self._own_passes()
        begun = bool(passes) and self._interp.unrolling.turns > self._turns and self.affords(3)
        begun = begun or (bool(passes) and self._interp.loop_items.several_places > self._several and self.affords(3))
        first = max((one.clock for one in passes if one.clock <= self._clock), default=self._clock)
        carried = self._is_carried(first if self._shows() else self._begun)
        return self.cut and (
            len(passes) == 1 or any(one.retains for one in passes) or begun or (carried and self.affords(3))
        )


HANDED_OUT = 200
"""Iterations of a generator's own loop that are run at most: as many as somebody asks for."""


def _hands_out(interp: Interpreter, node: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a loop is a generator's and yields: then it runs as long as somebody asks for more."""
    return interp.frames[-1].generator is not None and interp.source.remembered(node, _yields)


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))


def _to_the_end(
    interp: Interpreter, node: ast.For | ast.AsyncFor, instance: int, count: int | None, numbers: Iterator[int]
) -> Generated[int, None, None]:
    """*numbers*, and a last iteration where a condition asks for it, or ends the loop: ``if step == steps: break``.

    Of a loop that is run through all of its *count* items, the last iteration is one of *numbers*.
    """
    number = -1
    for number in numbers:
        if number + 1 == count:
            yield from _as_the_last(interp, instance, number)
        else:
            yield number
    if instance in interp.unrolling.asks_for_last and number + 1 != count:
        number += 1
        yield from _as_the_last(interp, instance, number)
    end = _own_end(node) if isinstance(node, ast.For) else None
    if end is not None and number > 0:
        interp.unrolling.ending.add(end)
        try:
            yield number + 1
        finally:
            interp.unrolling.ending.discard(end)


def _as_the_last(interp: Interpreter, instance: int, number: int) -> Iterator[int]:
    """*number*, for an iteration that conditions on the last one take for it."""
    interp.unrolling.last.add(instance)
    try:
        yield number
    finally:
        interp.unrolling.last.discard(instance)


def _own_end(node: ast.For) -> ast.If | None:
    """``if step == steps: break`` in a loop over ``range(steps + 1)``."""
    match node.target, node.iter:
        case ast.Name(id=target), ast.Call(func=ast.Name("range"), args=[ast.BinOp(end, ast.Add(), ast.Constant(1))]):
            wanted = f"if {target} == {ast.unparse(end)}:\n    break"
            return next((one for one in node.body if isinstance(one, ast.If) and ast.unparse(one) == wanted), None)
    return None


def _numbers(
    interp: Interpreter, node: ast.For | ast.AsyncFor, items: streams.Stream, plan: UnrollPolicy
) -> Iterator[int]:
    """The iterations of a ``for`` that are run."""
    if not items.cut:
        yield from range(items.count or 0)
        return
    yield 0
    planned = plan.after_first()
    if _hands_out(interp, node):
        yield from range(1, min(items.limit or items.count or HANDED_OUT, HANDED_OUT))
        return
    if items.lazy and (plan.over_parts or (items.empties and plan.affords(streams.PARTS, streams.PARTS))):
        yield from range(1, streams.PARTS)
        return
    turn = items.turn()
    if planned < turn + 2 and turn and plan.affords(turn + 2):  # until the first item comes again
        planned = turn + 2
    known = items.count or items.limit or 0
    in_full = plan.over_parts or plan.over_container(items) or interp.source.remembered(node, takes_out)
    if known > planned and in_full and plan.affords_all(known):
        yield from range(1, known)
        return
    most = items.limit or items.count or planned + 2
    if items.counts and not plan.cut:  # something happens in some of them only
        most = max(most, planned)
    elif items.count is None and items.limit is not None and plan.affords(items.limit):
        planned = items.limit  # a loop over all of a container reaches its known items
    yield from range(1, min(planned, most))
    behind = plan.behind_warm_up(planned, node)
    if behind and (items.count is None or behind.start + planned <= items.count):
        yield from behind
    if most > 2:
        yield from range(2, min(2 + plan.further(), most))


def run_while(interp: Interpreter, node: ast.While) -> str:
    """Execute a ``while`` statement; returns its signal."""
    instance, here = interp.new_instance(), interp.statement
    plan = UnrollPolicy(interp)
    planned = number = through = 0
    asked = len(interp.unrolling.streams)
    counter = _Counter.of(interp, node, instance)
    whole = counter is not None and counter.is_short
    while True:
        with interp.iteration(node, instance, number, plan.cut and not whole):
            interp.statement = here
            holds, condition = _goes_on(interp, node.test, begun=number > 0)
            if holds is False:
                break
            signal = interp.run(node.body)
        if signal in ("break", "return", "raise"):
            interp.log.ended.add(interp.site(node).span)
            return "" if signal == "break" else signal
        number += 1
        if number == 1:
            through = _taken_one_by_one(interp.unrolling.streams[asked:])
        if whole or (number < through and plan.affords(through, streams.PARTS)):
            continue
        if number == 1:
            planned = plan.after_first()
            if _hands_out(interp, node):
                planned = HANDED_OUT
            elif isinstance(condition, (Sequence, Mapping)) and plan.affords(streams.PARTS, streams.PARTS):
                planned = streams.PARTS  # until it is empty
            if counter is not None and plan.cut:
                counter.stand_for_later()
        if number == planned and plan.has_grown():
            planned += planned // 2 + 1
        if number >= planned + plan.further():
            if counter is not None and plan.cut:
                counter.finish()
            if plan.cut:
                interp.log.left_off.add(interp.site(node).span)
            _drain(interp, node)
            break
    return interp.run(node.orelse)


def _drain(interp: Interpreter, node: ast.While) -> None:
    """Empty what a loop takes the items out of until it is empty: ``while len(queue) > 0: queue.pop(0)``."""
    match node.test:
        case ast.Compare(ast.Call(ast.Name("len"), [container]), [ast.Gt() | ast.NotEq()], [ast.Constant(0)]):
            pass
        case ast.Compare(ast.Call(ast.Name("len"), [container]), [ast.GtE()], [ast.Constant(1)]):
            pass
        case ast.Call(ast.Name("len"), [container]) | container:
            pass
    if not isinstance(container, (ast.Name, ast.Attribute)):
        return
    text = ast.dump(container)
    taken = (
        part.func.value
        for statement in node.body
        for part in ast.walk(statement)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _TAKES
    )
    if any(ast.dump(one) == text for one in taken):
        held = interp.eval(container)
        if isinstance(held, (Sequence, Mapping)):
            held.items.clear()
            held.more = False


_TAKES = frozenset(("pop", "popleft", "popitem"))


def _taken_one_by_one(taken: list[streams.LazyStream]) -> int:
    """Number of runs of a loop that takes an item of a known container in each: one more than there are items."""
    known = [one.stream.count or 0 for one in taken if not one.stream.cut]
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
        return self.numbers is not None and not self.numbers[streams.RANGE :]

    def stand_for_later(self) -> None:
        """The second iteration stands for any later one."""
        if self.numbers is not None:
            later = streams.number_at(self.numbers, self.instance, 1, exact=False)
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
