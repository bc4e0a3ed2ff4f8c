"""Stored tensor: what is put away for a later iteration is put away without its graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Carrier, Form
from autofix.codemods.rewriting import retain
from autofix.codemods.rewriting.detaching import detach_by_form, detached_code
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, detach, only_part
from autofix.codemods.rewriting.overwritten_data import overwritten_data
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.recompute_cached import is_cached


def is_store(statement: cst.CSTNode | None) -> bool:
    """Whether a statement puts a value into a container, an attribute or an item (not merely under a name)."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    for part in statement.body:
        if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call):
            return isinstance(part.value.func, cst.Attribute)
        if isinstance(part, cst.Assign):
            return any(isinstance(target.target, (cst.Attribute, cst.Subscript)) for target in part.targets)
        if isinstance(part, cst.AnnAssign):
            return isinstance(part.target, (cst.Attribute, cst.Subscript))
        if isinstance(part, cst.AugAssign):
            return True
    return False


def innermost(carriers: list[Carrier]) -> list[Carrier]:
    """The carriers with an expression of their own, the smallest expression first."""
    written = [carrier for carrier in carriers if carrier.expression is not None and carrier.form is not Form.OTHER]
    return sorted(written, key=lambda carrier: _size(carrier.expression))


def _size(span: Span | None) -> tuple[int, int]:
    assert span is not None
    return span.end_line - span.line, span.end_column - span.column


def ends_windows(fact: StaleGraph | Overwritten, tree: Tree) -> bool:
    """Whether the pass runs in some of its loop's iterations: what they store, the others read with its graph."""
    loop, sent = tree.statement(fact.loop), tree.statement_of(tree.expression(fact.failed))
    for around in tree.enclosing(sent) if sent is not None else ():
        if around is loop or isinstance(around, cst.FunctionDef):
            return False
        if isinstance(around, cst.If):
            return True
    return False


class DetachStored(Codemod):
    """A tensor is stored with its graph and a later backward reaches it.

    Error:
        RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they
        have already been freed). With ``retain_graph=True`` from the second step on: one of the variables needed for
        gradient computation has been modified by an inplace operation.

    Cause:
        A list, deque, dict, attribute or item that outlives the iteration receives a tensor that still carries the
        graph it was computed with. That iteration's ``backward()`` frees the graph. When a later iteration computes
        with the stored tensor, its own ``backward()`` walks into the freed graph.

    Fix:
        Store the value without the graph: ``history.append(h)`` becomes ``history.append(h.detach())``. Earlier
        iterations then enter as numbers, which is what a history, a queue of features or a running centre means. Where
        the value is read with its graph in the iteration that stores it, it is detached afterwards: behind that
        iteration's backward, or before the next one is stored.

    When it is not what you want:
        Where the gradient is meant to flow through several iterations (truncated back-propagation through time), add
        up the losses of those iterations and call ``backward()`` once. Lists that one iteration fills and the same
        iteration's ``backward()`` consumes are left alone.

    Source:
        torch.Tensor.detach in the PyTorch documentation; the FAQ there, "My model reports cuda runtime error(2)",
        for the memory that a stored graph holds.
    """

    code = "AF101"
    name = "stored-tensor"
    answers = (StaleGraph, Overwritten)
    rank = 10

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        if fact.kept is None or overwritten_data(fact, tree) is not None:
            return
        carriers = [carrier for carrier in fact.carriers if carrier.statement == fact.kept]
        statement = tree.statement(fact.kept)
        if is_store(statement):
            if not is_cached(statement, tree):  # what is computed once and stored detached would train once
                yield from self._detach_at(fact, tree, carriers)
            if statement is not None and fills_in_a_hook(statement, tree):
                return  # what is seen in one forward pass is of no use in the next: it is to be emptied
            yield from self._detach_after_pass(fact, tree, statement, carriers)

    def _detach_at(self, fact: StaleGraph | Overwritten, tree: Tree, carriers: list[Carrier]) -> Iterator[Candidate]:
        """Detach the expression that the statement stores."""
        for carrier in innermost(carriers):
            assert carrier.expression is not None
            expression = tree.expression(carrier.expression)
            if expression is None:
                continue
            place = carrier.name or fact.name

            def build(edit: Edit, node: cst.BaseExpression = expression, form: Form = carrier.form) -> None:
                detach_by_form(edit, tree, node, form, tree.fresh_name("item", "tensor", "value"))

            for patch, more in retain.variants(fact, tree, build):
                yield Candidate(patch, f"store in `{place}` without the graph{more}")
            beside = _names_beside(expression, tree)
            if len(beside) > 1:
                edit = Edit(tree)
                for one in beside:
                    edit.change(one, detach)
                yield Candidate(edit.patch(), f"store every tensor in `{place}` without the graph")

    def _detach_after_pass(
        self, fact: StaleGraph | Overwritten, tree: Tree, statement: cst.CSTNode | None, carriers: list[Carrier]
    ) -> Iterator[Candidate]:
        """Detach what was stored once this iteration's backward has used it: where the iteration itself reads it."""
        freed = fact.freed if isinstance(fact, StaleGraph) else fact.failed
        call = tree.expression(freed)
        after = tree.statement_of(call)
        place = _place(statement, carriers)
        if after is None or not tree.block_of(after) or not place or is_cached(statement, tree):
            return
        block = tree.block_of(after)
        own = statement if isinstance(statement, cst.SimpleStatementLine) else None
        if own in block and block.index(after) < block.index(own) and place.endswith(("[-1]", "[0]")):
            return  # in the first iteration there is no such item yet
        if own is not None and is_of_another(place, own, after, tree):
            return
        form = next((carrier.form for carrier in carriers if carrier.name), Form.TENSOR)
        code = f"{place} = {detached_code(place, form, tree.fresh_name('item', 'tensor', 'value'))}"
        store, item, _ = place.partition("[")
        read = _last_read(statement, store, tree) if item and store.startswith("self.") else None
        if read is not None and tree.class_of(read) is not tree.class_of(after):  # where its owner is done with it
            for patch, more in retain.variants(fact, tree, lambda edit: edit.insert_after(read, code)):
                yield Candidate(patch, f"detach `{place}` once `{store}` has been read{more}")
        for patch, more in retain.variants(fact, tree, lambda edit: edit.insert_after(after, code)):
            yield Candidate(patch, f"detach `{place}` after the backward that uses it{more}")
        whole, one, _ = place.rpartition("[")
        if one and form is Form.TENSOR and ends_windows(fact, tree) and place in (f"{whole}[-1]", f"{whole}[0]"):
            index, indent = tree.fresh_name("index", "position"), tree.module_of(after).default_indent
            item = f"{whole}[{index}]"
            every = f"for {index} in range(len({whole})):\n{indent}{item} = {item}.detach()"
            for patch, more in retain.variants(fact, tree, lambda edit: edit.insert_after(after, every)):
                yield Candidate(patch, f"detach all of `{whole}` after the backward that uses it{more}")
        if own is not None and form is Form.TENSOR and place in (f"{whole}[-1]", f"{whole}[0]"):
            if _runs_once(fact, own, after, tree):
                kept = f"if {whole}:\n{tree.module_of(own).default_indent}{code}"
                for patch, more in retain.variants(fact, tree, lambda edit: edit.insert_before(own, kept)):
                    yield Candidate(patch, f"detach `{place}` before another one is stored{more}", last=True)


def _runs_once(fact: StaleGraph | Overwritten, own: Statement, after: Statement, tree: Tree) -> bool:
    """Whether a statement stores once for each pass: an iteration that stores several times needs all their graphs.

    Several objects may store in one list that is none of their own.
    """
    if not tree.own_code(own).strip().startswith("self.") and tree.function_of(own) is not tree.function_of(after):
        return False
    loops, loop = set(tree.loops_around(after)), tree.statement(fact.loop)
    outer = fact.outer if isinstance(fact, StaleGraph) else None
    call = tree.expression(outer.made) if outer is not None else None
    if loop is None or call is None or not {*tree.loops_around(own), *tree.loops_around(call)} <= loops:
        return False
    alike = [one for one in calls_in(loop) if isinstance(call, cst.Call) and one.func.deep_equals(call.func)]
    return len(alike) < 2


def is_of_another(place: str, kept: Statement, at: Statement, tree: Tree) -> bool:
    """Whether a name in *place* is that of a loop around *kept* which is over at *at*: of its last item only.

    ``total[name]`` stands for each in ``for name in names: total[name] = ...``, and for one of them behind the loop.
    """
    names = {name.value for name in tree.names_in(cst.parse_expression(place))}

    def bound(statement: Statement) -> set[str]:
        loops = [one for one in (statement, *tree.loops_around(statement)) if isinstance(one, cst.For)]
        return {name.value for loop in loops for name in tree.names_in(loop.target)}

    return bool((names & bound(kept)) - bound(at))


def _last_read(statement: cst.CSTNode | None, store: str, tree: Tree) -> Statement | None:
    """The last statement of its method that mentions the *store* which *statement* fills, where it stands behind it."""
    function = tree.function_of(statement) if statement is not None else None
    block = tree.body_of(function) if isinstance(function, cst.FunctionDef) else []
    behind = block[block.index(statement) + 1 :] if statement in block else []  # type: ignore[arg-type]
    readers = [one for one in behind if store in tree.paths_in(one)]
    last = readers[-1] if readers else None
    return last if isinstance(only_part(last), (cst.Assign, cst.AugAssign, cst.Expr)) else None


def _names_beside(expression: cst.BaseExpression, tree: Tree) -> list[cst.BaseExpression]:
    """Values of the dictionary around *expression*, if its keys are names: ``memory.update({a: h_a, b: h_b})``."""
    element = tree.parent_of(expression)
    display = tree.parent_of(element) if isinstance(element, cst.DictElement) else None
    elements = (
        [one for one in display.elements if isinstance(one, cst.DictElement)] if isinstance(display, cst.Dict) else []
    )
    alike = all(isinstance(one.key, cst.Name) and isinstance(one.value, cst.Name) for one in elements)
    return [one.value for one in elements] if alike else []


def _place(statement: cst.CSTNode | None, carriers: list[Carrier]) -> str:
    """Source text under which the stored value can be read and replaced."""
    names = [carrier.name for carrier in carriers if carrier.name]
    if not names or not isinstance(statement, cst.SimpleStatementLine):
        return ""
    part = statement.body[0]
    if isinstance(part, (cst.Assign, cst.AnnAssign)):
        return names[-1]
    if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) and isinstance(part.value.func, cst.Attribute):
        if part.value.func.attr.value == "append":
            return f"{names[-1]}[-1]"
        if part.value.func.attr.value == "appendleft":
            return f"{names[-1]}[0]"
    return ""


def fills_in_a_hook(kept: Statement, tree: Tree) -> bool:
    """Whether a statement stands in a function that is registered as a hook, or in one that makes such a function."""
    around = (one for one in tree.enclosing(kept) if isinstance(one, cst.FunctionDef))
    return any(_is_hook(one.name.value, tree.module_of(kept), tree) for one in around)


def _is_hook(name: str, module: cst.Module, tree: Tree) -> bool:
    """Whether a function is registered to be called at a module's forward pass."""
    hooks = ("register_forward_hook", "register_forward_pre_hook")
    return any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value in hooks
        and any(path.rpartition(".")[2] == name for path in tree.paths_in(call))
        for call in calls_in(module)
    )
