"""The tape by itself: graphs laid by hand, and what backward calls, changes in place and steps do to them."""

from __future__ import annotations

import ast
from itertools import count

import pytest

from autofix.codemods.autograd.graph import Leaf, LoopPoint, Loops, Node, Operand, Storage, crossing, distance
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.autograd.walks import leaves_under, nodes_under, operations_under
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Site, Sources

PLACES = Sources(Program.of("".join(f"line_{number}\n" for number in range(1, 41)), "places.py")).main


def at(line: int) -> Site:
    """A place on a line of its own."""
    statement = PLACES.tree.body[line - 1]
    assert isinstance(statement, ast.Expr)
    return Site(PLACES, statement.value)


class Graph:
    """A tape, and the shortest way to lay nodes on it."""

    def __init__(self) -> None:
        self.tape = Tape()
        self._lines = count(1)

    def leaf(self, name: str) -> Node:
        leaf = Leaf(name, Storage())
        leaf.node = Node("leaf", at(next(self._lines)), (), (), self.tape.tick(), saves=False, leaf=leaf)
        return leaf.node

    def node(self, operation: str, *of: Node, saves: tuple[Storage, ...] = (), loops: Loops = ()) -> Node:
        operands = tuple(Operand(one, ()) for one in of)
        saved = tuple(storage.as_saved() for storage in saves)
        site = at(next(self._lines))
        return Node(operation, site, operands, loops, self.tape.tick(), saves=bool(saves), saved=saved)

    def backward(self, root: Node, line: int = 30, *, retain: bool = False, loops: Loops = ()) -> None:
        self.tape.backward([Operand(root, ())], at(line), loops, retain=retain)


def turn(number: int, instance: int = 1) -> Loops:
    """An iteration of the one loop."""
    return (LoopPoint(at(40), instance, number),)


def stored(node: Node) -> Storage:
    assert node.leaf is not None
    return node.leaf.storage


def test_a_second_call_finds_the_graph_freed() -> None:
    graph = Graph()
    weight = graph.leaf("weight")
    loss = graph.node("square", weight, saves=(stored(weight),))
    graph.backward(loss, 30)
    assert graph.tape.stale == []
    graph.backward(loss, 31)
    (found,) = graph.tape.stale
    assert (found.node, found.reader) == (loss, None)
    assert (found.freed.site.line, found.failed.site.line) == (30, 31)
    assert found.surely


def test_a_retained_graph_is_walked_again() -> None:
    graph = Graph()
    weight = graph.leaf("weight")
    loss = graph.node("square", weight, saves=(stored(weight),))
    graph.backward(loss, retain=True)
    graph.backward(loss)
    assert graph.tape.stale == []
    assert weight.leaf is not None
    assert len(weight.leaf.grads) == 2


def test_nodes_that_save_nothing_raise_nothing() -> None:
    graph = Graph()
    loss = graph.node("add", graph.leaf("a"), graph.leaf("b"))
    graph.backward(loss)
    graph.backward(loss)
    assert graph.tape.stale == []


def test_the_error_of_a_freed_graph_is_told_where_fresh_ones_read_it() -> None:
    graph = Graph()
    weight = graph.leaf("weight")
    hidden = graph.node("tanh", weight, saves=(Storage(),))
    graph.backward(graph.node("sum", hidden))
    shift = graph.node("add", hidden, graph.leaf("bias"))
    scaled = graph.node("mul", shift, saves=(Storage(),))
    graph.backward(scaled)
    (found,) = graph.tape.stale
    assert (found.reader, found.node) == (shift, hidden)


def test_the_edge_enters_the_current_iteration() -> None:
    graph = Graph()
    weight = graph.leaf("weight")
    first = graph.node("tanh", weight, saves=(Storage(),), loops=turn(0))
    kept = graph.node("mul", first, saves=(Storage(),), loops=turn(0))
    graph.backward(kept, loops=turn(0))
    fresh = graph.node("tanh", kept, saves=(Storage(),), loops=turn(1))
    graph.backward(fresh, loops=turn(1))
    assert {(one.reader, one.node) for one in graph.tape.stale} == {(fresh, kept)}


def test_a_saved_tensor_that_is_changed_later() -> None:
    graph = Graph()
    weight, storage = graph.leaf("weight"), Storage()
    activation = graph.node("sigmoid", weight, saves=(storage,))
    graph.tape.change(storage, at(20))
    graph.backward(graph.node("sum", activation))
    (found,) = graph.tape.clobbered
    assert (found.node, found.change.site.line) == (activation, 20)


def test_a_change_before_the_operation_harms_nothing() -> None:
    graph = Graph()
    storage = Storage()
    graph.tape.change(storage, at(20))
    graph.backward(graph.node("sigmoid", graph.leaf("weight"), saves=(storage,)))
    assert graph.tape.clobbered == []


def test_a_step_changes_the_parameters_that_have_a_gradient() -> None:
    graph = Graph()
    used, unused = graph.leaf("used"), graph.leaf("unused")
    first = graph.node("mul", used, saves=(stored(used), stored(unused)))
    graph.backward(graph.node("sum", first), retain=True)
    assert used.leaf is not None
    assert unused.leaf is not None
    graph.tape.step([used.leaf, unused.leaf], at(25), ())
    assert (stored(used).version, stored(unused).version) == (1, 0)
    assert graph.tape.trained == {((30,), "used")}
    graph.backward(graph.node("sum", first), 31)
    (found,) = graph.tape.clobbered
    assert found.change.by_step


def test_a_call_for_chosen_inputs_frees_what_leads_to_them_alone() -> None:
    graph = Graph()
    chosen, other = graph.leaf("chosen"), graph.leaf("other")
    mine = graph.node("tanh", chosen, saves=(Storage(),))
    beside = graph.node("tanh", other, saves=(Storage(),))
    loss = graph.node("add", mine, beside)
    graph.tape.backward([Operand(loss, ())], at(30), (), retain=False, inputs=[chosen], accumulate=False)
    assert mine.freed_by is not None
    assert beside.freed_by is None
    graph.backward(beside)
    assert graph.tape.stale == []


def test_a_doubtful_call_on_one_of_several_ways_is_no_certain_mistake() -> None:
    graph = Graph()
    weight = graph.leaf("weight")
    hidden = graph.node("tanh", weight, saves=(Storage(),))
    graph.backward(hidden)
    unread = graph.node("call", hidden, saves=(Storage(),))
    unread.doubtful = True
    graph.backward(graph.node("add", unread, graph.node("exp", graph.leaf("other"), saves=(Storage(),))))
    assert [one.surely for one in graph.tape.stale] == []


def test_a_gradient_that_another_network_s_call_left_over() -> None:
    graph = Graph()
    generator, discriminator = graph.leaf("generator"), graph.leaf("discriminator")
    assert generator.leaf is not None
    assert discriminator.leaf is not None
    fake = graph.node("tanh", generator, saves=(Storage(),))
    score = graph.node("mul", fake, discriminator, saves=(Storage(),))
    graph.backward(score, 30, retain=True)
    graph.tape.step([discriminator.leaf], at(25), ())
    graph.backward(graph.node("mul", fake, discriminator, saves=(Storage(),)), 31)
    graph.tape.step([generator.leaf], at(26), ())
    assert graph.tape.trained == {((30,), "discriminator"), ((31,), "generator")}
    assert {name for _, name in graph.tape.left_over} == {"generator"}


def test_walks_stop_where_they_are_told() -> None:
    graph = Graph()
    inner, outer = graph.leaf("inner"), graph.leaf("outer")
    below = graph.node("tanh", inner)
    above = graph.node("add", below, outer, below)
    assert list(nodes_under([above])).count(below) == 1
    assert set(nodes_under([above])) == {above, below, inner, outer}
    assert set(nodes_under([above], lambda node: node is not below)) == {above, below, outer}
    assert set(operations_under([above])) == {above, below}
    assert leaves_under([above]) == {inner.leaf, outer.leaf}


@pytest.mark.parametrize(
    ("earlier", "later", "apart"),
    [
        (turn(0), turn(0), ()),
        (turn(0), turn(2), (2,)),
        (turn(0), turn(0, instance=2), ()),
        ((), turn(3), ()),
    ],
)
def test_iterations_between_two_moments(earlier: Loops, later: Loops, apart: tuple[int, ...]) -> None:
    assert distance(earlier, later) == apart
    assert crossing(earlier, later) == (later[0] if apart else None)
