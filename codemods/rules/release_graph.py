"""Held graph: what only serves a log is kept together with the graph that it was computed with."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.parts import Form
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.detaching import detached, generated
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.no_grad import guarded
from autofix.codemods.rewriting.nodes import calls_in, detach, nodes_in
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.cause import edited_by
from autofix.codemods.rules.guard_leaf import loops_of_updates


class ReleaseGraph(Codemod):
    """Losses or outputs are collected with their graphs, and no backward ever uses them.

    Error:
        None at first. Memory grows with every iteration, until: torch.OutOfMemoryError: CUDA out of memory, or the
        system ends the process.

    Cause:
        ``total += loss`` and ``losses.append(loss)`` keep more than a number: each loss keeps the graph that it was
        computed with, and with it all that the graph refers to. In an evaluation loop without ``no_grad`` each output
        keeps all the activations of its forward pass.

    Fix:
        What is kept is kept without its graph: ``total += loss.detach()``. A tensor for a meter or a memory is detached
        where it is handed over, ``meter.update(loss.detach())``, since other callers may hand over numbers. In a row of
        tensors and numbers, the tensors are detached. Where the iteration itself reads what it has just kept,
        ``losses[-1].backward()``, it reads the loss instead, or the item is detached at its end. An evaluation loop
        goes under ``with torch.no_grad():``.

    When it is not what you want:
        Keep the graphs where code that is not in view calls backward on the sum or the list. A graph that is found to
        be used is never reported.

    Source:
        The FAQ in the PyTorch documentation, "Don't accumulate history across your training loop".
    """

    code = "AF601"
    name = "held-graph"
    answers = (GraphHeld,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, GraphHeld)
        if fact.updates:
            return
        loop = tree.statement(fact.loop)
        if fact.evaluates and loop is not None and tree.block_of(loop):
            yield Candidate(guarded(tree, [loop]), "evaluate under no_grad")
        if fact.begun and (statement := tree.statement(fact.kept)) is not None and tree.block_of(statement):
            # What is added to a result adds to its graph, be it a number.
            for run in (*loops_of_updates(statement, tree), [statement]):
                yield Candidate(guarded(tree, run), f"change `{fact.name}` under no_grad")
        for patch in _detached(fact, tree):
            yield Candidate(patch, f"keep detached tensors in `{fact.name}`")
        values = [tree.expression(part) for part in fact.parts] or [
            _added(fact, tree) or tree.expression(fact.expression)
        ]
        named = [value for value in values if isinstance(value, (cst.Name, cst.Attribute))]
        if len(named) == len(values):
            edit = Edit(tree)
            for value in dict.fromkeys(named):
                name = tree.code(value)
                either = f"{name}.detach() if {_is_tensor(name, value, tree)} else {name}"
                edit.change(value, lambda _, code=either: cst.parse_expression(code))  # type: ignore[misc]
            yield Candidate(edit.patch(), f"keep detached tensors in `{fact.name}`, beside its numbers")
        yield from _last_read(fact, tree)
        whole = tree.expression(fact.expression)
        if fact.mixed and isinstance(whole, (cst.Name, cst.Attribute)):
            yield Candidate(_row_detached(whole, tree), f"keep detached tensors in `{fact.name}`, beside its numbers")

    def cause(self, fact: Fact, tree: Tree, candidate: Candidate) -> Span:
        """The argument of a call of a meter, where it computes the loss, or its function has sent it backward; else the
        statement that keeps it.
        """
        assert isinstance(fact, GraphHeld)
        if fact.handed is None or fact.handed.line not in edited_by(candidate.patch).changed:
            return super().cause(fact, tree, candidate)
        value = tree.expression(fact.handed)
        return fact.kept if isinstance(value, cst.Name) and not _is_sent_backward(value, tree) else fact.handed


def _is_sent_backward(value: cst.BaseExpression | None, tree: Tree) -> bool:
    """Whether the function in which *value* is handed over sends it backward: ``value.backward()``."""
    if value is None:
        return False
    for call in calls_in(tree.function_of(value)):
        if tree.called(call) == "backward":
            sent = [argument.value for argument in call.args]  # accelerator.backward(loss)
            sent += [call.func.value] if isinstance(call.func, cst.Attribute) else []
            if any(one.deep_equals(value) for one in sent):
                return True
    return False


def _detached(fact: GraphHeld, tree: Tree) -> Iterator[Patch]:
    """The program with what is kept detached: where it is kept, or where it is put into what is kept."""
    whole = tree.expression(fact.expression)
    parts = [part for part in map(tree.expression, fact.parts) if part is not None]
    here = [part for part in parts if tree.statement_of(part) is tree.statement(fact.kept)]
    complete = parts and len(parts) == len(fact.parts)
    if complete and fact.handed is not None:
        yield from _taken_by_itself(parts, tree)
    if complete and (fact.handed is not None or len(here) == len(parts)):
        yield _each_detached(parts, tree)
    value = _added(fact, tree)
    tested = value if value is not None else whole
    if tested is not None and fact.certainty is not Certainty.CERTAIN and _may_be_several(tested, tree):
        yield detached(tree, tested, Form.UNKNOWN)
    elif fact.form in (Form.TENSOR, Form.UNKNOWN):
        if value is not None:
            yield Edit(tree).change(value, detach).patch()
        if whole is not None and whole is not value:
            yield Edit(tree).change(whole, detach).patch()
    elif fact.form is not Form.OTHER and whole is not None:
        if not isinstance(whole, cst.Call) or generated(whole, tree) is not None:
            yield detached(tree, whole, fact.form)
    if complete and fact.handed is None and len(here) < len(parts):
        yield _each_detached(parts, tree)


def _last_read(fact: GraphHeld, tree: Tree) -> Iterator[Candidate]:
    """``losses.append(loss); losses[-1].backward()``: the iteration reads the last item, and no later one does."""
    loop, kept, value = tree.statement(fact.loop), tree.statement(fact.kept), tree.expression(fact.expression)
    block = tree.block_of(kept) if kept is not None else []
    if kept not in block or value is None or fact.form is not Form.TENSOR:
        return
    later = block[block.index(kept) + 1 :]
    last = f"{fact.name}[-1]"
    read = [item for one in later for item in nodes_in(one, cst.Subscript) if tree.code(item) == last]
    if read and isinstance(value, cst.Name) and not any(value.value in targets_of(one, tree) for one in later):
        edit = Edit(tree).change(value, detach)
        for item in read:
            edit.change(item, lambda _: cst.Name(value.value))
        yield Candidate(edit.patch(), f"keep detached tensors in `{fact.name}`, and go on with `{value.value}`")
    if read and loop is not None and block == tree.body_of(loop):
        edit = Edit(tree).insert_after(block[-1], f"{last} = {last}.detach()")
        yield Candidate(edit.patch(), f"detach `{last}` at the end of its iteration", cause=fact.kept)


def _may_be_several(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether the function itself asks if the value is a tuple, ``sum(losses) if isinstance(losses, tuple)``, or takes
    it apart: ``loss, logits = out``, ``out[0]``.
    """
    if _is_taken_apart(value, tree):
        return True
    tests = [
        one for one in calls_in(tree.function_of(value)) if tree.called(one) == "isinstance" and len(one.args) == 2
    ]
    return any(
        one.args[0].value.deep_equals(value) and {"tuple", "list"} & tree.paths_in(one.args[1].value) for one in tests
    )


def _is_taken_apart(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether the value is unpacked in its function, or asked for an item by a number."""
    function = tree.function_of(value)
    taken = map(_taken_apart, nodes_in(function, cst.Subscript, cst.Assign))
    return any(one is not None and one.deep_equals(value) for one in taken)


def _taken_apart(node: cst.CSTNode) -> cst.BaseExpression | None:
    """``out`` of ``out[0]`` and of ``loss, logits = out``; None for other nodes."""
    match node:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer()))]):
            return value
        case cst.Assign(value=value, targets=[cst.AssignTarget(target=cst.Tuple() | cst.List())]):
            return value
    return None


def _row_detached(row: cst.BaseExpression, tree: Tree) -> Patch:
    """A dictionary of tensors and numbers with its tensors detached, where it is kept."""
    key, value = tree.fresh_name("key", "name", "field"), tree.fresh_name("value", "item", "entry")
    is_tensor = _is_tensor(value, row, tree)
    made = f"{{{key}: {value}.detach() if {is_tensor} else {value} for {key}, {value} in {tree.code(row)}.items()}}"
    return Edit(tree).change(row, lambda _: cst.parse_expression(made)).patch()


def _is_tensor(name: str, at: cst.BaseExpression, tree: Tree) -> str:
    """The condition that *name* is a tensor, as the file of *at* may write it: not every file imports torch."""
    return (
        f"isinstance({name}, {tree.torch_name(at)}.Tensor)" if tree.imports_torch(at) else f'hasattr({name}, "detach")'
    )


def _taken_by_itself(parts: list[cst.BaseExpression], tree: Tree) -> Iterator[Patch]:
    """``self.update(flat)``: who gives it to itself cuts it in the method, which nobody else gives anything."""
    argument = tree.parent_of(parts[0]) if len(set(parts)) == 1 else None
    call = tree.parent_of(argument) if isinstance(argument, cst.Arg) else None
    if isinstance(call, cst.Call) and isinstance(argument, cst.Arg) and tree.code(call.func).startswith("self."):
        taken = tree.taken_by(call, argument)
        if taken is not None and tree.class_of(taken) is tree.class_of(call):
            yield _each_detached([taken], tree)


def _each_detached(parts: list[cst.BaseExpression], tree: Tree) -> Patch:
    edit = Edit(tree)
    for part in dict.fromkeys(parts):
        edit.change(part, detach)
    return edit.patch()


def _added(fact: GraphHeld, tree: Tree) -> cst.BaseExpression | None:
    """The value that a statement adds to the kept ones: the argument of an append, the other side of a sum; or None."""
    statement = tree.node(fact.kept, cst.AugAssign)
    if isinstance(statement, cst.AugAssign):
        return statement.value
    expression = tree.expression(fact.expression)
    assign = tree.node(fact.kept, cst.Assign)
    if isinstance(assign, cst.Assign) and isinstance(assign.value, cst.BinaryOperation):
        if isinstance(assign.value.operator, cst.Add):
            sides = [side for side in (assign.value.left, assign.value.right) if fact.name not in tree.paths_in(side)]
            return sides[0] if len(sides) == 1 and not isinstance(sides[0], (cst.List, cst.Tuple)) else None
        return None
    return expression
