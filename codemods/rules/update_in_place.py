"""Replaced parameters: an update by hand makes a new tensor in place of the leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.untrained import NoGradient, UpdateLost
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.no_grad import guarded, is_no_grad
from autofix.codemods.rewriting.nodes import (
    Statement,
    calls_in,
    detach,
    only_part,
    pairs_of,
    requires_grad,
)
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class UpdateInPlace(Codemod):
    """An update by hand replaces the parameter by a new tensor, which is no leaf.

    Error:
        TypeError: unsupported operand type(s) for *: 'float' and 'NoneType'. Or: AttributeError: 'NoneType' object has
        no attribute 'zero_'. Under ``no_grad``: RuntimeError: element 0 of tensors does not require grad and does not
        have a grad_fn. In a loop over a list of parameters: none, and the parameters stay as they are. With an
        optimizer: RuntimeError: Trying to backward through the graph a second time.

    Cause:
        ``w = w - lr * w.grad`` computes a new tensor and gives it the name of the parameter. The new tensor is the
        result of an operation, so the next backward leaves no gradient in it: ``w.grad`` is None. Under ``no_grad`` it
        does not require grad at all. With ``for p in params: p = p - lr * p.grad`` only the loop's own name is set.
        ``x = x.clamp(0, 1)`` behind ``optimizer.step()`` leaves the optimizer with the old tensor, and every pass goes
        through the ``clamp`` of each iteration before.

    Fix:
        The parameter itself is changed, and nothing of that is recorded: ``with torch.no_grad(): w -= lr * w.grad``.
        The same leaf is used in the next iteration, so that its gradient is cleared, where the script does not do so.

    When it is not what you want:
        Where the update is to be differentiated through, as in meta-learning, ask for the gradients by
        ``torch.autograd.grad(loss, params, create_graph=True)``, which gives those of results, too.

    Source:
        torch.Tensor.is_leaf and torch.Tensor.grad in the PyTorch documentation; "Learning PyTorch with Examples".
    """

    code = "AF441"
    name = "replaced-parameter"
    answers = (NoGradient, CutGraph, StaleGraph)
    rank = 4

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        remedy = "change the parameter itself, under no_grad"
        if isinstance(fact, StaleGraph):
            for patch in _behind_the_step(fact, tree):
                yield Candidate(patch, remedy, Keeps.IN_PLACE)
        if any("create_graph" in one.text for one in tree.program.files):
            return  # the update is perhaps to be differentiated through
        for span in _places(fact):
            made = tree.expression(span)
            statement = tree.statement_of(made) if made is not None else None
            if statement is None or not tree.block_of(statement):
                continue
            # What another reads of the gradient behind an update that changes nothing, it still finds.
            clear = "{}.grad.zero_()" if isinstance(fact, UpdateLost) else "{}.grad = None"
            for patch in _in_place(statement, tree, clear):
                yield Candidate(patch, remedy, Keeps.IN_PLACE)
        if isinstance(fact, NoGradient):
            for patch in _made_anew(fact, tree):
                yield Candidate(patch, "make the new tensor a leaf", Keeps.IN_PLACE)


def _places(fact: Fact) -> Iterator[Span]:
    """The expressions that may compute the new value of a parameter."""
    if isinstance(fact, NoGradient):
        yield fact.made
    elif isinstance(fact, CutGraph) and not fact.silent:
        yield from (drop.span for drop in fact.drops if drop.how in ("no_grad", "tensor", "data", "detach"))


def _in_place(statement: Statement, tree: Tree, clear: str) -> Iterator[Patch]:
    """The updates that stand next to one another, in place; those of a list in a loop.  *clear* clears a gradient."""
    updates = _updates(statement, tree)
    if any(_is_kept_elsewhere(tree.code(target), statement, tree) for target, _ in updates):
        return
    if not updates:
        looped = _of_all(statement, tree, clear)
        if looped is not None:
            yield guarded(tree, [statement], [looped])
        return
    block = tree.block_of(statement)
    first = last = block.index(statement)
    while first and _updates(block[first - 1], tree):
        first -= 1
    while last + 1 < len(block) and _updates(block[last + 1], tree):
        last += 1
    run = block[first : last + 1]
    lines = [_written(one, tree, clear, run[at + 1 :]) for at, one in enumerate(run)]
    if not any(isinstance(around, cst.With) and is_no_grad(around, tree) for around in tree.enclosing(statement)):
        yield guarded(tree, run, list(chain.from_iterable(lines)))
        return
    edit = Edit(tree)
    for one, several in zip(run, lines, strict=True):
        new = cst.FlattenSentinel(several)
        edit.change(one, lambda _, new=new: new)  # type: ignore[misc]
    yield edit.patch()


def _made_anew(fact: NoGradient, tree: Tree) -> Iterator[Patch]:
    """``w = (w - lr * w.grad).detach().requires_grad_()``; also of what a function returns."""
    made = tree.expression(fact.made)
    statement = tree.statement_of(made) if made is not None else None
    kept = tree.expression(fact.kept)
    if statement is None or kept is None:
        return
    target = _target_of(kept, tree)
    returned = isinstance(only_part(statement), cst.Return) and isinstance(kept, cst.Call)
    asks = returned and any(
        isinstance(one, cst.Attribute) and one.attr.value == "grad" for one in tree.inside(statement)
    )
    if (asks or _updates(statement, tree)) and target and not _is_cleared(target, tree):
        yield Edit(tree).change(kept, lambda node: requires_grad(detach(node))).patch()


def _behind_the_step(fact: StaleGraph, tree: Tree) -> Iterator[Patch]:
    """``x = x.clamp(0, 1)`` behind the iteration's pass puts the parameter that the optimizer has back into bounds."""
    statement, sent = tree.statement(fact.kept), tree.statement_of(tree.expression(fact.freed))
    block = tree.block_of(statement) if statement is not None else []
    name = _computed_of_itself(statement, tree)
    if not fact.replaces or not name or statement is None or sent is None:
        return
    around = tree.block_of(sent)
    ways = (statement, *tree.enclosing(statement))  # `if step % 2 == 0:` may stand around it
    later = around[around.index(sent) + 1 :] if sent in around else []
    own = next((at for at, one in enumerate(later) if one in ways), None)
    if own is None or _is_kept_elsewhere(name, statement, tree):
        return
    if any(tree.called(call) in ("backward", "grad") for one in later[own:] for call in calls_in(one)):
        return  # which trains through what was computed
    first = last = block.index(statement)
    while first and _computed_of_itself(block[first - 1], tree) == name:
        first -= 1
    while last + 1 < len(block) and _computed_of_itself(block[last + 1], tree) == name:
        last += 1
    lines: list[Statement] = []
    for one in block[first : last + 1]:
        value = _unwrapped(cst.ensure_type(only_part(one), cst.Assign).value, tree)
        code = f"{name}.copy_({tree.code(value.with_changes(lpar=[], rpar=[]))})"
        part = cst.ensure_type(cst.parse_statement(code), cst.SimpleStatementLine).body
        lines.append(cst.ensure_type(one, cst.SimpleStatementLine).with_changes(body=part))
    yield guarded(tree, block[first : last + 1], lines)


def _computed_of_itself(statement: Statement | None, tree: Tree) -> str:
    """The name, or the attribute, that a statement gives a new value computed of its old one; empty for none."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return ""
    target = part.targets[0].target
    name = tree.code(target)
    own = isinstance(target, (cst.Name, cst.Attribute)) and any(
        tree.code(one) == name for one in tree.inside(part.value)
    )
    return name if own else ""


def _is_kept_elsewhere(name: str, statement: Statement, tree: Tree) -> bool:
    """Whether the loop keeps the old value under another name, or in a container: it must not change there."""
    kept = {name, *(f"{name}.{part}" for part in ("data", "detach()", "detach().numpy()", "data.numpy()"))}
    loop = next(iter(tree.loops_around(statement)), None)
    for other in tree.statements_in(loop) if loop is not None else ():
        part = only_part(other)
        if isinstance(part, cst.Assign) and tree.code(part.value) in kept:
            return True
        if isinstance(part, cst.Expr) and any(
            tree.called(call) in ("append", "appendleft", "add", "extend", "insert")
            and any(tree.code(argument.value) in kept for argument in call.args)
            for call in calls_in(part)
        ):
            return True
    return False


Update = tuple[cst.BaseExpression, cst.BaseExpression]
"""A parameter, and the expression that computes its new value."""


def _updates(statement: Statement, tree: Tree) -> list[Update]:
    """The updates in ``w, b = w - lr * w.grad, b - lr * b.grad``; none where something else is assigned, too."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return []
    found = list(pairs_of(part.targets[0].target, part.value))
    names = {tree.code(target) for target, _ in found}
    for target, value in found:
        if not isinstance(target, (cst.Name, cst.Attribute, cst.Subscript)):
            return []
        own = tree.code(target)
        others = names - {own}
        if not _is_update(own, value, statement, tree) or others & {tree.code(one) for one in tree.inside(value)}:
            return []
    return found


def _is_update(name: str, value: cst.BaseExpression, statement: Statement, tree: Tree) -> bool:
    """Whether a new value is computed of the old one and of its gradient, which may have a name of its own."""
    parts = [tree.code(one) for one in tree.inside(value)]
    if f"{name}.grad" in parts:
        return sum(part == name for part in parts) > 1
    if name not in parts:
        return False
    block = tree.block_of(statement)
    return any(
        (given := tree.given(before, part)) is not None and f"{name}.grad" in map(tree.code, tree.inside(given))
        for before in block[: block.index(statement)]
        for part in parts
    )


def _written(statement: Statement, tree: Tree, clear: str, later: Sequence[Statement] = ()) -> list[Statement]:
    """The updates of a statement, each in place, and what clears the gradients where nothing else does.

    A parameter that is updated again *later* keeps its gradient until then.
    """
    again = {tree.code(target) for one in later for target, _ in _updates(one, tree)}
    updates = _updates(statement, tree)
    lines: list[Statement] = []
    for at, (target, value) in enumerate(updates):
        part = cst.ensure_type(cst.parse_statement(_code(target, value, tree)), cst.SimpleStatementLine).body
        if at == 0:
            lines.append(statement.with_changes(body=part))
        else:
            lines.append(cst.SimpleStatementLine(part))
    for target, _ in updates:
        name = tree.code(target)
        if name not in again and not _is_cleared(name, tree):
            lines.append(cst.ensure_type(cst.parse_statement(clear.format(name)), cst.SimpleStatementLine))
    return lines


def _code(target: cst.BaseExpression, value: cst.BaseExpression, tree: Tree) -> str:
    """``w -= lr * w.grad``; where the old value is not the first operand, ``w.copy_(...)``."""
    name, value = tree.code(target), _unwrapped(value, tree)
    if isinstance(value, cst.BinaryOperation) and tree.code(value.left) in (name, f"{name}.data", f"{name}.detach()"):
        sign = {cst.Add: "+=", cst.Subtract: "-="}.get(type(value.operator))
        if sign is not None:
            right = tree.code(value.right)
            return f"{name} {sign} ({right})" if "\n" in right else f"{name} {sign} {right}"
    return f"{name}.copy_({tree.code(value.with_changes(lpar=[], rpar=[]))})"


def _unwrapped(value: cst.BaseExpression, tree: Tree) -> cst.BaseExpression:
    """What ``torch.tensor(...)`` copies, and ``(...).detach()`` is called on."""
    while isinstance(value, cst.Call):
        if tree.called(value) in _COPIES and len(value.args) == 1 and tree.is_of_torch(value.func):
            value = value.args[0].value
        elif isinstance(value.func, cst.Attribute) and tree.called(value) in _DETACHED and not value.args:
            value = value.func.value
        else:
            break
    return value


_COPIES = frozenset(("tensor", "as_tensor", "Variable"))
_DETACHED = frozenset(("clone", "detach", "requires_grad_"))


def _is_cleared(name: str, tree: Tree) -> bool:
    """Whether the program sets the gradient of a parameter to zero, by its name or by that which a loop gives it."""
    named = [name, *_names_of_loops(tree)]
    clears = re.compile(rf"(?:{'|'.join(map(re.escape, named))})\.grad(?:\.data)?(?:\.zero_\(|\s*=[^=])|\bzero_grad\(")
    return any(clears.search(one.text) for one in tree.program.files)


def _names_of_loops(tree: Tree) -> Iterator[str]:
    for module in tree.modules():
        for loop in tree.every(cst.For, module):
            yield from (one.value for one in tree.names_in(loop.target))


def _target_of(value: cst.BaseExpression, tree: Tree) -> str:
    part = only_part(tree.statement_of(value))
    return tree.code(part.targets[0].target) if isinstance(part, cst.Assign) else ""


def _of_all(statement: Statement, tree: Tree, clear: str) -> Statement | None:
    """``params = [p - lr * p.grad for p in params]`` as a loop that changes each of them; None for others."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1 or not isinstance(part.value, cst.ListComp):
        return None
    made, of = part.value.elt, part.value.for_in
    if of.ifs or of.inner_for_in is not None or not isinstance(of.target, cst.Name):
        return None
    if tree.code(of.iter) != tree.code(part.targets[0].target):
        return None
    name = of.target.value
    if not _is_update(name, made, statement, tree):
        return None
    module = tree.module_of(statement)
    code = f"for {name} in {tree.code(of.iter)}:\n{module.default_indent}{_code(of.target, made, tree)}\n"
    if not _is_cleared(name, tree):
        code += f"{module.default_indent}{clear.format(name)}\n"
    loop = cst.parse_statement(code, config=module.config_for_parsing)
    return cst.ensure_type(loop, cst.For).with_changes(leading_lines=statement.leading_lines)
