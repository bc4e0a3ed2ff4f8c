"""Graphs that are kept alive for nothing: values that grow with every iteration and never reach a backward.

A statement that adds to a list, or to a sum, keeps every value that it was ever given.  Where those values carry graphs
and no pass on any path comes through the statement, the graphs serve nobody.  Whatever leaves the code that is read (a
value returned to an unknown caller, handed to an unknown function) may be sent backward there, and counts as used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf, LoopPoint, Node, Operand, StoreEvent, crossing, is_in_run
from autofix.codemods.autograd.walks import nodes_under, operations_under
from autofix.codemods.facts.base import Span
from autofix.codemods.facts.parts import Form
from autofix.codemods.interpreter import class_lookup, filled, rebuilt_states, set_once, totals
from autofix.codemods.interpreter.rebuilt_states import LAYER, is_step_on
from autofix.codemods.interpreter.state.incidents import Incidents, RetainedGraph
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Sequence,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
    slots_of,
)
from autofix.codemods.source.sources import Site

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

ITERATIONS = 4
"""A loop that was followed for so many iterations is a long one."""
DEPTH = 4
"""Operations behind which a value is looked for that puts others together: ``(0.9 * total + loss).clamp(max=1)``."""
OPERANDS = 16
"""Number of operands behind a value that are looked at."""
FEW = 64
"""Number of values that are few enough to be kept with their graphs."""
_ONLY_SHOW = frozenset(
    """add_scalar add_scalars info debug warning error write set_postfix set_postfix_str set_description log_metric
    log_metrics log save extreme sum abs pow""".split()
)


def added(
    interp: Interpreter,
    receiver: Sequence | Mapping,
    slot: Binding,
    name: str,
    expression: ast.expr | None,
    *,
    again: bool = False,
) -> None:
    """*slot* was just added to a container; *expression* is what was written for its value.

    Under an index that goes with a loop; *again* says that another run of that loop counts the same.
    """
    if interp.weak and interp.identity(receiver) in interp.weak:
        return
    value = slot.value
    if isinstance(value, Instance) and any(_graphs_of(interp, value)):
        site = interp.site(expression) if expression is not None else None
        slot.kept = StoreEvent(interp.statement, site, name, Form.OTHER, interp.loops, interp.tape.tick())
    kept = _kept_at(slot, interp.statement.node)
    limit = receiver.limit if isinstance(receiver, Sequence) else None
    if kept is None or not interp.loops or (limit is not None and limit < FEW):
        return
    for earlier in slots_of(receiver):
        before = _kept_at(earlier, interp.statement.node)
        if before is not None:
            if is_step_on(value, earlier.value):
                return
            if again and not _is_outermost(interp, before, receiver):
                return
            cells = list(_graphs_of(interp, value))
            _note(interp, kept, before, cells, bounded=limit is not None, mixed=_is_mixed(value))
            return


def _is_mixed(value: Value) -> bool:
    """Whether it is a dictionary of tensors and of what has no graph."""
    if not isinstance(value, Mapping):
        return False
    values = [slot.value for slot in value.items.values()]
    tensors = sum(isinstance(one, TensorRef) for one in values)
    return tensors > 0 and tensors + sum(map(_is_plain, values)) == len(values)


def _is_plain(value: Value) -> bool:
    """Whether a value is no tensor, and no container in which one may be: ``{"loss": loss, "metrics": {}}``."""
    if isinstance(value, (Sequence, Mapping)):
        return not value.more and all(_is_plain(slot.value) for slot in slots_of(value))
    return not isinstance(value, (TensorRef, Instance))


def added_inside(
    interp: Interpreter,
    around: Sequence | Mapping,
    receiver: Sequence | Mapping,
    former: Binding | None,
    slot: Binding,
    run: int | None,
) -> None:
    """*slot* was just put into the *receiver*, which goes with the loop *run* as each container in *around* does.

    It takes the place of the *former*, where the receiver stands for any of them.
    """
    kept = _kept_at(slot, interp.statement.node)
    if kept is None:
        return
    others = [one.value for one in slots_of(around) if one.value is not receiver]
    inside = [one for other in others if isinstance(other, (Sequence, Mapping)) for one in slots_of(other)]
    for earlier in ([former] if former is not None else []) + inside:
        before = _kept_at(earlier, interp.statement.node)
        point = crossing(before.loops, interp.loops) if before is not None else None
        if before is not None and point is not None and run in (None, point.instance):
            if not is_step_on(slot.value, earlier.value):
                _note(interp, kept, before, list(_graphs_of(interp, slot.value)))
            return


def added_beside(interp: Interpreter, around: Sequence | Mapping, receiver: Sequence, slot: Binding) -> None:
    """*slot* was just added to one of the containers in *around*; another may have what the statement kept before."""
    kept = _kept_at(slot, interp.statement.node)
    if kept is None:
        return
    for other in slots_of(around):
        if other.value is receiver or not isinstance(other.value, (Sequence, Mapping)):
            continue
        for earlier in slots_of(other.value):
            before = _kept_at(earlier, interp.statement.node)
            if before is not None and not is_step_on(slot.value, earlier.value):
                _note(interp, kept, before, list(_graphs_of(interp, slot.value)))
                return


def rebuilt(interp: Interpreter, before: Value, after: Value, node: ast.stmt, name: str) -> None:
    """A name was given a new list of all that its old one held, and more: ``losses = [*losses, loss]``."""
    if not isinstance(before, Sequence) or not isinstance(after, Sequence) or not interp.loops:
        return
    old = {id(cell) for cell, _ in _graphs_of(interp, before, 0)}
    now = list(_graphs_of(interp, after, 0))
    if not old <= {id(cell) for cell, _ in now}:
        return
    for slot in after.items:
        if not isinstance(slot.value, TensorRef) or id(slot.value.cell) not in old:
            continue
        records = (*slot.value.provenance, slot.kept)
        earlier = next((one for one in records if one is not None and one.statement.node is node), None)
        point = crossing(earlier.loops, interp.loops) if earlier is not None else None
        if earlier is None or point is None or totals.begins_again(name, node, point.statement.node):
            continue
        for cell, kept in now:
            if id(cell) not in old and kept is not None:
                _note(interp, kept._replace(name=name), earlier, [(cell, kept)])
        return


def _is_outermost(interp: Interpreter, before: StoreEvent, receiver: Sequence | Mapping) -> bool:
    """Whether the loop that fills a container has no loop around it in which the container stays the same."""
    point = crossing(before.loops, interp.loops)
    made = max((len(kept.loops) for kept in receiver.kept), default=0)
    return point is not None and interp.loops.index(point) == made


def state_rebuilt(interp: Interpreter, before: Binding, after: Binding, node: ast.stmt, name: str) -> None:
    """A name was given a new state, made of its old one: ``state = {**state, "total": state["total"] + loss}``."""
    stores = _stores_of(before.value)
    earlier = next((one for one in reversed(stores) if one.statement.node is node), None) if interp.loops else None
    point = crossing(earlier.loops, interp.loops) if earlier is not None else None
    if earlier is None or point is None or totals.is_assigned_elsewhere(name, node, point.statement.node):
        return
    kept = earlier._replace(loops=interp.loops, name=name, form=Form.OTHER, expression=None)
    whole = rebuilt_states.Part((), before, after)
    for part in (whole, *rebuilt_states.parts(before.value, after.value)):
        old, new = part.old.value, part.new.value
        if rebuilt_states.extends(new, old):
            had = {id(cell) for cell, _ in _graphs_of(interp, old, 0)}
            grown = [(cell, one) for cell, one in _graphs_of(interp, new, 0) if id(cell) not in had]
            _note(interp, kept, earlier, grown if had else [], place=part.place)
        elif isinstance(new, TensorRef) and is_step_on(new, old):
            joins = new.cell.node is not None and len(new.cell.node.operands) > 1
            _note(interp, kept, earlier, [(new.cell, part.new.kept)], adds=joins, place=part.place)


def _stores_of(value: Value) -> tuple[StoreEvent, ...]:
    """The statements that have carried a value on."""
    if isinstance(value, TensorRef):
        return value.provenance
    return value.kept if isinstance(value, (Sequence, Mapping, Instance)) else ()


def given_up(interp: Interpreter, container: Value, after: Value = None, *, builds: bool = False) -> None:
    """A name that a container had stands for something else now: it is gone, unless another container holds it.

    *builds* says that what is written for what comes *after* it may make that of its items.
    """
    if not rebuilt_states.is_state(container) or rebuilt_states.extends(after, container):
        return
    if _part_is_given_up(interp, container, after) or not isinstance(container, (Sequence, Mapping)):
        return
    if any(isinstance(one.statement.node, ast.Expr) for one in container.kept):
        return  # `rows.append(row)`
    emptied(interp, container, after if builds else None)


def _part_is_given_up(interp: Interpreter, before: Value, after: Value) -> bool:
    """Whether a state is made of another one; parts of that which do not go on do not grow for ever."""
    assert isinstance(before, (Sequence, Mapping, Instance))
    found = list(rebuilt_states.parts(before, after)) if after is not before else []
    lost = [one.place for one in found if not rebuilt_states.goes_on(one)]
    interp.incidents.emptied.update((kept.statement.node, place) for kept in before.kept for place in lost)
    return len(lost) < len(found)


def emptied(interp: Interpreter, container: Value, taking_over: Value = None) -> None:
    """Something is taken out of a container, or the container is given up: it does not grow for ever.

    All but what another container is *taking over*.
    """
    if not interp.loops or not isinstance(container, (Sequence, Mapping)):
        return
    running = {point.instance for point in interp.loops}
    still = {id(cell) for cell, _ in _graphs_of(interp, taking_over, 0)}
    for slot in slots_of(container):
        if isinstance(slot.value, TensorRef) and id(slot.value.cell) in still:
            continue
        records = slot.value.kept if isinstance(slot.value, (Sequence, Mapping)) else (slot.kept,)
        for kept in records:
            if kept is not None and kept.loops and kept.loops[-1].instance in running:
                interp.incidents.emptied.add(kept.statement.node)


def _kept_at(slot: Binding, statement: ast.AST) -> StoreEvent | None:
    """The record that this statement put the value into the slot."""
    kept = slot.value.kept if isinstance(slot.value, (Sequence, Mapping)) else (slot.kept,)
    return next((one for one in reversed(kept) if one is not None and one.statement.node is statement), None)


def _graphs_of(interp: Interpreter, value: Value, depth: int = 2) -> Iterator[tuple[TensorImpl, StoreEvent | None]]:
    """The tensors with graphs in a value, each with what put it there where that is a container or an object."""
    slots: list[Binding] = []
    match value:
        case TensorRef():
            if value.cell.node is not None and value.cell.node.leaf is None:
                yield value.cell, None
        case Sequence():
            slots = value.items
        case Mapping():
            slots = list(value.items.values())
        case Instance() if not class_lookup.is_module(value):
            slots = list(value.names.values())
    for slot in slots:
        if isinstance(slot.value, TensorRef):
            cell = slot.value.cell
            if cell.node is not None and cell.node.leaf is None:
                yield cell, slot.kept
        elif depth > 0:
            yield from _graphs_of(interp, slot.value, depth - 1)


def summed(
    interp: Interpreter,
    before: Value,
    after: Value,
    node: ast.stmt,
    name: str,
    *,
    adds: bool = True,
    joins: bool = False,
) -> None:
    """A name was given a new value, or a container of such, made of its old one, and maybe of something with a graph.

    *adds* says that it puts the old one and others together, *joins* that it does so if the old one is near enough to
    be among these: a layer with a residual connection joins, too.  A state that is computed of the last one, and
    nothing more, is a model's output maybe, with one graph from beginning to end: only in a loop of passes is that too
    much.
    """
    if not interp.loops:
        return
    vias: tuple[StoreEvent, ...] = ()
    if isinstance(before, TensorRef):
        vias = before.provenance
    elif isinstance(before, (Sequence, Mapping)):
        vias = before.kept
    earlier = next((kept for kept in reversed(vias) if kept.statement.node is node), None)
    if earlier is None:
        return
    old = {id(cell) for cell, _ in _graphs_of(interp, before, 0)} if before is not after else ()
    grown: list[tuple[TensorImpl, StoreEvent | None]] = [
        (cell, None)
        for cell, _ in _graphs_of(interp, after, 0)
        if id(cell) not in old and cell.node is not None and taken_in(cell.node, node, earlier.clock)
    ]
    point = crossing(earlier.loops, interp.loops)
    if grown and not (point is not None and totals.begins_again(name, node, point.statement.node)):
        in_place = before is after
        adds = adds or (joins and any(_is_near(cell.node, node, earlier.clock, DEPTH) for cell, _ in grown))
        _note(interp, earlier._replace(loops=interp.loops, name=name), earlier, grown, adds=adds, in_place=in_place)


def gathered(
    interp: Interpreter, kept: StoreEvent, earlier: StoreEvent, cell: TensorImpl, updated: Leaf | None = None
) -> None:
    """A statement has put another graph into a tensor, in place; that may be the frozen parameter *updated*."""
    _note(interp, kept, earlier, [(cell, None)], updated=updated, in_place=True)


def _is_near(node: Node | None, statement: ast.AST, until: int, depth: int) -> bool:
    """Whether a node takes in, behind few operations, what a statement has kept until a moment."""
    return node is not None and any(
        any(kept.statement.node is statement and kept.clock <= until for kept in operand.provenance)
        or (depth > 0 and operand.node.leaf is None and _is_near(operand.node, statement, until, depth - 1))
        for operand in node.operands
    )


def taken_in(node: Node, statement: ast.AST, until: int) -> StoreEvent | None:
    """The record that a statement has kept, *until* a moment, something that a node takes in; None where it has not."""
    records = (
        kept
        for one in islice(operations_under([node]), LAYER)
        for operand in one.operands
        for kept in operand.provenance
        if kept.statement.node is statement and kept.clock <= until
    )
    return next(records, None)


def _note(
    interp: Interpreter,
    kept: StoreEvent,
    earlier: StoreEvent,
    graphs: list[tuple[TensorImpl, StoreEvent | None]],
    *,
    bounded: bool = False,
    mixed: bool = False,
    updated: Leaf | None = None,
    adds: bool = True,
    in_place: bool = False,
    place: tuple[Hashable, ...] | None = None,
) -> None:
    point = crossing(earlier.loops, interp.loops)
    if point is None or not _is_long(interp, point) or not graphs:
        return
    cells = tuple(cell for cell, _ in graphs)
    if not any(cell.node is not None and _reads_parameters_in(cell.node, point) for cell in cells):
        return
    handed = tuple(_handed_in(interp, cell, kept) for cell in cells)
    is_handed = all(part is not None for part in handed)
    parts = handed if is_handed else tuple(part for _, part in graphs)
    evaluates = (
        adds
        and not _in_forward(interp, point)
        and all(cell.node is not None and interp.is_evaluating(cell.node) for cell in cells)
    )
    interp.incidents.holdings.append(
        RetainedGraph(
            kept,
            point,
            cells,
            evaluates,
            parts,
            is_handed,
            bounded,
            mixed,
            updated,
            in_place and any(_had_a_graph(cell.node, kept, point) for cell in cells if cell.node is not None),
            place,
        )
    )


def _had_a_graph(node: Node, kept: StoreEvent, point: LoopPoint) -> bool:
    """Whether a tensor that a statement changes in each iteration was the result of an operation before the loop."""

    def is_changed(one: Node) -> bool:
        return kept.statement.span.contains(one.site.span) or _changes(one.site.node, kept.name)

    return any(not is_in_run(one.loops, point) for one in islice(operations_under([node], is_changed), LAYER))


def _changes(node: ast.AST, name: str) -> bool:
    """Whether an operation changes the tensor of a name in place: ``s *= 0.9`` beside ``s += 0.1 * x``."""
    match node:
        case ast.AugAssign(target):
            return ast.unparse(target) == name
        case ast.Call(ast.Attribute(value, method)):
            return method.endswith("_") and ast.unparse(value) == name
    return False


def _reads_parameters_in(node: Node, point: LoopPoint) -> bool:
    """Whether any of a graph that reads parameters was made in the same loop.

    What goes through the outputs of one forward pass, a layer or a scale in each iteration, keeps no graph but that of
    the forward pass, which was there before.
    """
    return any(
        is_in_run(one.loops, point) and (one.opaque or any(operand.node.leaf is not None for operand in one.operands))
        for one in nodes_under([node], lambda one: is_in_run(one.loops, point))
    )


def _in_forward(interp: Interpreter, point: LoopPoint) -> bool:
    """Whether a loop runs inside a model's forward pass: what it computes is of one graph, used or not."""
    for frame in interp.frames:
        if frame.function is None:
            continue
        if frame.function.name in ("forward", "__call__"):
            return True
        source, node = point.statement
        first, last = frame.function.node.lineno, frame.function.node.end_lineno or 0
        if frame.function.source is source and first <= node.lineno <= last:
            return False
    return False


def _handed_in(interp: Interpreter, cell: TensorImpl, kept: StoreEvent) -> StoreEvent | None:
    """The argument of the call that led here which is the value, or what it was computed of."""
    if not interp.stack or len(interp.frames) != len(interp.stack) + 1 or cell.node is None:
        return None
    call = interp.stack[-1]
    if not isinstance(call.node, ast.Call):
        return None
    names = interp.frames[-2].scope.names
    items = list(_items_written(call.node))
    written = [one for one in items if isinstance(one, ast.Name)]
    computed = {id(item): item for item in items if not isinstance(item, ast.Name)}
    for wanted in ([cell.node], _made_here(cell.node, interp.stack)):
        for one in written:
            slot = names.get(one.id)
            if slot is not None and isinstance(slot.value, TensorRef) and slot.value.cell.node in wanted:
                return kept._replace(expression=Site(call.source, one))
        for made in wanted:
            item = computed.get(id(made.site.node))
            if item is not None:
                return kept._replace(expression=Site(call.source, item))
    return None


def _items_written(call: ast.Call) -> Iterator[ast.expr]:
    """Expressions of a call's arguments; of lists, tuples and dictionaries among them, those of the items."""
    pending: list[ast.expr] = [*call.args, *(word.value for word in call.keywords)]
    while pending:
        one = pending.pop()
        match one:
            case ast.List() | ast.Tuple():
                pending += one.elts
            case ast.Dict():
                pending += one.values
            case _:
                yield one


def _made_here(node: Node, stack: tuple[Site, ...]) -> list[Node]:
    """Nodes computed before a call, given by its *stack*, from which a node was made in it; else the node itself."""

    def is_within(one: Node) -> bool:
        return one.stack[: len(stack)] == stack and one.leaf is None

    return [one for one in islice(nodes_under([node], is_within), OPERANDS) if not is_within(one)]


def _is_long(interp: Interpreter, point: LoopPoint) -> bool:
    return point.instance in interp.widening.cut_short or point.iteration >= ITERATIONS


def hands_over(interp: Interpreter, label: object, values: list[Value]) -> None:
    """Values are handed to code that is not read."""
    if interp.filled:
        _may_be_filled(interp, values)
    last = label[-1] if isinstance(label, tuple) else label
    if isinstance(last, str) and last.rpartition(".")[2] in _ONLY_SHOW:
        return
    interp.incidents.handed.extend((operand, interp.loops) for operand in interp.operands(*values))
    for value in values:
        _hand_objects(interp, value)
        if isinstance(value, Instance) and not class_lookup.is_module(value):
            interp.log.handed.add(value.cls.node)


def _may_be_filled(interp: Interpreter, values: list[Value]) -> None:
    """Code that is not read may write other numbers into the tensors that it is given, and into those of a model."""
    if any(isinstance(value, (Instance, TorchModule)) for value in values):
        interp.filled.clear()
    for tensor in interp.tensors(*values):
        filled.forget(interp, tensor)


def _hand_objects(interp: Interpreter, value: Value) -> None:
    """The graphs in objects of the program, which no operation looks into, are handed over with them."""
    if isinstance(value, (Sequence, Mapping, Instance)):
        for cell, part in _graphs_of(interp, value):
            if cell.node is not None:
                operand = Operand(cell.node, (part,) if part is not None else ())
                interp.incidents.handed.append((operand, interp.loops))


def given_away(interp: Interpreter, value: Value) -> None:
    """A value leaves the function that was entered on behalf of an unknown caller."""
    for tensor in interp.tensors(value):
        if tensor.cell.node is not None:
            interp.incidents.handed.append((Operand(tensor.cell.node, tensor.provenance), interp.loops))
    _hand_objects(interp, value)


def statements_under(operands: Iterable[Operand]) -> set[ast.AST]:
    """The statements that carried what these values are made of."""
    tops = list(operands)
    inner = (operand for node in nodes_under(top.node for top in tops) for operand in node.operands)
    return {kept.statement.node for operand in chain(tops, inner) for kept in operand.provenance}


def held(interp: Interpreter) -> Iterator[RetainedGraph]:
    """The graphs that this path keeps alive for nothing, as far as this path knows."""
    incidents = interp.incidents
    if not incidents.holdings:
        return
    handed = statements_under(operand for operand, _ in incidents.handed)
    looping = {point.instance for one in interp.tape.passes if not one.explores for point in one.loops}
    for holding in incidents.holdings:
        trains = holding.point.instance in looping
        if (
            _is_bounded(holding.kept)
            or set_once.is_set_once(holding.kept.statement)
            or not (trains or holding.evaluates)
            or not _is_local(interp, holding)
        ):
            continue
        if holding.updated is not None and _is_updated_for_a_pass(interp, holding.updated, holding.kept):
            continue
        carried = set(_carried_by(holding))
        if (
            carried & incidents.emptied
            or holding.part in incidents.emptied
            or (carried & handed and not _is_spent(holding, incidents))
        ):
            continue
        sure = _where_sure(holding)
        if sure.cells:
            yield sure._replace(evaluates=sure.evaluates and not trains)


def _is_updated_for_a_pass(interp: Interpreter, leaf: Leaf, kept: StoreEvent) -> bool:
    """Whether what is computed with a frozen parameter is sent backward, through its updates maybe."""
    if any(one.reads_frozen({leaf}) for one in interp.tape.passes):
        return True
    updates = kept.statement.span
    under = nodes_under([leaf.node]) if leaf.node is not None else ()
    return any(one.was_walked and updates.contains(one.site.span) for one in under)


def _is_local(interp: Interpreter, holding: RetainedGraph) -> bool:
    """Whether all readers of what keeps the graphs are in the code that is followed, and in its class.

    The attributes of an object whose method was entered on behalf of an unknown caller may be read by that.
    """
    return interp.policy.path.entry == "" or "." not in holding.kept.name or is_meter(holding.kept.statement)


_METER = re.compile(r"Meter|Metric|Averag|Tracker|Statistic")
"""Names of classes whose results are told, and not trained with."""


def is_meter(statement: Site) -> bool:
    """Whether a statement stands in a class that keeps figures: ``class AverageMeter``."""
    return any(
        isinstance(cls, ast.ClassDef) and _METER.search(cls.name) and cls.lineno <= statement.node.lineno <= _end(cls)
        for cls in statement.source.tree.body
    )


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _is_spent(holding: RetainedGraph, incidents: Incidents) -> bool:
    """Whether a pass has freed all that is kept, so that whoever it is handed to later can send none of it backward.

    Not where it is handed over in the loop that keeps it: the list may be emptied there.
    """
    if not all(cell.node is not None and _is_freed(cell.node) for cell in holding.cells):
        return False
    within = (operand for operand, loops in incidents.handed if is_in_run(loops, holding.point))
    return not statements_under(within).intersection(_carried_by(holding))


def _is_freed(node: Node) -> bool:
    """Whether passes have freed a value's graph, or all that it was computed of."""
    known = list(islice(operations_under([node], lambda one: one.freed_by is None), LAYER + 1))
    kept = (one for one in known if one.freed_by is None)
    return len(known) <= LAYER and all(any(operand.node.leaf is None for operand in one.operands) for one in kept)


def _carried_by(holding: RetainedGraph) -> Iterator[ast.AST]:
    """The statements through one of which a pass comes that uses what is kept."""
    yield holding.kept.statement.node
    if holding.kept.form is Form.OTHER:  # an object does not know where it was kept, only what was put into it
        yield from (part.statement.node for part in holding.parts if part is not None)


def _where_sure(holding: RetainedGraph) -> RetainedGraph:
    """As much of it as certainly has a graph still; of what is limited, as much as no pass has freed."""
    sure = [
        cell.node is not None and has_graph(cell.node) and not (holding.bounded and cell.node.walked is not None)
        for cell in holding.cells
    ]
    kept = holding.kept if all(sure) else holding.kept._replace(form=Form.OTHER)
    return holding._replace(
        kept=kept,
        cells=tuple(cell for cell, one in zip(holding.cells, sure, strict=True) if one),
        parts=tuple(part for part, one in zip(holding.parts, sure, strict=True) if one),
    )


def written_for(holding: RetainedGraph) -> tuple[Span, ...]:
    """Spans of the expressions of the kept values; empty unless all of them are known."""
    sites = [part.expression for part in holding.parts if part is not None]
    spans = [site.span for site in sites if site is not None]
    return tuple(spans) if len(spans) == len(holding.cells) else ()


def _is_bounded(kept: StoreEvent) -> bool:
    """Whether a statement only runs while what it adds to is short or not set: ``if len(log) < 3: log.append(out)``."""
    if set_once.is_set_once(kept.statement):
        return True
    statement, name = kept.statement.node, kept.name.partition("[")[0]
    return any(f"len({name})" in ast.unparse(one.test) for one in kept.statement.source.ifs_around(statement))


def has_graph(node: Node) -> bool:
    """Whether a value certainly carries a graph: a pass went over it, or no doubt lies on some way to a leaf."""
    known = nodes_under([node], lambda one: not (one.was_walked or one.is_one_of_several or one.doubtful))
    return any(one.was_walked or (one.leaf is not None and not one.leaf.frozen) for one in known)
