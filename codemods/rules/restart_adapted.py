"""Adapted weights: fast weights that every iteration should begin anew are begun once, before the loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Form
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.roles import calls_of
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class RestartAdapted(Codemod):
    """Weights adapted in one iteration are carried, with their graph, into the next instead of the model's own.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second meta-iteration.

    Cause:
        Meta-learning adapts a copy of the weights, ``fast = {k: w - lr * g ...}``, so that the meta-gradient flows
        through the adaptation. The copy is taken from the model once, before the loop, or begins as None there, for
        which the network takes its own weights. The second iteration adapts
        what the first one left, and its backward runs into the first one's graph.

    Fix:
        The statement that takes the weights from the model moves to the start of the loop that the graph must not
        cross. Detaching them instead would leave the model nothing to learn from.

    When it is not what you want:
        Where an iteration goes through several tasks and each of them should begin with the model's own weights, move
        the statement further in. Where tasks are meant to build on each other (continual learning), detach the weights
        between them and make them require grad again. The rewrite does the latter where the weights were copied without
        the model's graph.

    Source:
        Finn et al., "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks", algorithm 1.
    """

    code = "AF110"
    name = "adapted-weights"
    answers = (StaleGraph, Overwritten)
    rank = 21

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        loop = tree.statement(fact.loop) if fact.inside else None
        if not isinstance(loop, (cst.For, cst.While)) or not tree.body_of(loop):
            return
        for name in dict.fromkeys((fact.name, *(carrier.name for carrier in reversed(fact.carriers)))):
            start = _start(name, loop, tree)
            if start is None:
                continue
            statement, value = start
            if _is_constant(value) and not (_is_none(value) and _is_adapted(fact, tree)):
                continue
            if next(calls_of(value, "detach"), None) is not None:
                yield from _handed_on(name, fact, loop, tree)
            edit = Edit(tree).insert_before(tree.body_of(loop)[0], f"{name} = {tree.code(value)}")
            part = only_part(statement)
            if isinstance(part, cst.Assign) and part.value is value:
                edit.remove(statement)  # it gives this name its value, and no other
            keeps = Keeps.ANEW if _is_constant(value) else Keeps.PARAMETERS
            yield Candidate(edit.patch(), f"start `{name}` again from the model's weights", keeps)


def _handed_on(name: str, fact: StaleGraph | Overwritten, loop: cst.For | cst.While, tree: Tree) -> Iterator[Candidate]:
    """Weights that were the model's only in number go on as they are, as leaves, for `grad` to be asked for them."""
    asks = any(name in tree.paths_in(call) for call in calls_of(loop.body, "grad"))
    form = next((carrier.form for carrier in fact.carriers if carrier.name == name), Form.OTHER)
    key, one = tree.fresh_name("key", "which"), tree.fresh_name("weight", "value", "tensor")
    codes = {
        Form.DICT: f"{{{key}: {one}.detach().requires_grad_() for {key}, {one} in {name}.items()}}",
        Form.LIST: f"[{one}.detach().requires_grad_() for {one} in {name}]",
        Form.TENSOR: f"{name}.detach().requires_grad_()",
    }
    if asks and form in codes:
        edit = Edit(tree).insert_before(tree.body_of(loop)[0], f"{name} = {codes[form]}")
        yield Candidate(edit.patch(), f"make `{name}` leaves again in each iteration")


def _start(name: str, loop: Statement, tree: Tree) -> tuple[Statement, cst.BaseExpression] | None:
    """The statement before the loop that takes *name* from a model's parameters, and what it takes."""
    around: Statement | None = loop
    while around is not None:
        block = tree.block_of(around)
        for statement in reversed(block[: block.index(around)] if around in block else []):
            value = tree.given(statement, name)
            if value is not None:
                own = any(calls_of(value, "parameters", "named_parameters"))
                takes = own or isinstance(value, (cst.Name, cst.Attribute))
                return (statement, value) if takes else None
        outer = tree.parent_of(around)
        around = tree.statement_of(tree.parent_of(outer)) if outer is not None and around in block else None
        if not isinstance(around, (cst.For, cst.While, cst.With, cst.If)):
            return None
    return None


def _is_constant(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Name) and value.value in ("None", "True", "False")


def _is_none(value: cst.BaseExpression) -> bool:
    """Whether no weights are given, for which a functional ``forward`` takes the model's own."""
    return isinstance(value, cst.Name) and value.value == "None"


def _is_adapted(fact: StaleGraph | Overwritten, tree: Tree) -> bool:
    """Whether the carried value is made where gradients are taken: ``[w - lr * g for w, g in zip(fast, grads)]``."""
    places = (fact.made if isinstance(fact, StaleGraph) else fact.saved, fact.kept)
    made = [node for span in places if (node := tree.expression(span) or tree.statement(span)) is not None]
    homes: list[cst.CSTNode | None] = [tree.function_of(one) for one in made]
    homes += [tree.function_called(one) for one in made if isinstance(one, cst.Call)]
    bodies = [one.body for one in homes if isinstance(one, cst.FunctionDef)]
    return any(next(calls_of(body, "grad"), None) is not None for body in bodies)
