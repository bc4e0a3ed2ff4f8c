"""Clones of a tensor that backward needs: the one is modified, the other is what an operation saved."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.parts import Carrier, Form
from autofix.codemods.rewriting.changed import base_of, is_place, root_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, children, method_call, only_part, operands_of, pairs_of
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate


def when_kept(fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``w = softmax(s)`` becomes ``w = softmax(s).clone()``: the clone is written, what was saved is not."""
    kept: list[Carrier] = [
        carrier for carrier in fact.carriers if carrier.expression is not None and carrier.form is Form.TENSOR
    ]
    for carrier in kept:
        assert carrier.expression is not None
        expression = tree.expression(carrier.expression)
        if isinstance(expression, cst.Call) and carrier.expression == fact.saved:
            patch = Edit(tree).change(expression, lambda node: method_call(node, "clone")).patch()
            yield Candidate(patch, f"write into a clone, `{carrier.name}`, of the tensor that backward needs")


def when_made(fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``e = h.exp()`` becomes ``e = h.exp().clone()``: a part of ``e`` is changed, and ``e`` is to show it."""
    saved = tree.expression(fact.saved)
    if isinstance(saved, cst.BaseExpression) and _is_assigned(saved, tree):
        patch = Edit(tree).change(saved, lambda node: method_call(node, "clone")).patch()
        yield Candidate(patch, "write into a clone of the tensor that backward needs")


def _is_assigned(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a statement gives a name just this value, also beside others: ``grid, out = cells, raw.sigmoid()``."""
    around = tree.parent_of(value)
    if isinstance(around, cst.Element):
        around = tree.parent_of(tree.parent_of(around) or around)
    return isinstance(around, (cst.Assign, cst.AnnAssign))


def when_read(fact: Overwritten, change: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``x / self.scale`` becomes ``x / self.scale.clone()``: for a buffer that every call updates.

    So do the parts of a tensor of which other parts are written: ``h[:, 0] = h[:, 1].clone() * h[:, 2].clone()``.
    """
    root = root_of(change, tree)
    if isinstance(root, cst.Subscript):
        root = root.value
    saved = tree.expression(fact.operation or fact.saved)
    if root is None or not (is_place(root) or isinstance(root, cst.Call)):
        return
    name = tree.code(root)
    operands = operands_of(saved)
    read = [operand for operand in operands if tree.code(base_of(operand)) == name]
    if not read and isinstance(root, cst.Name):  # `inner = temp[:, 1:-1]`, and a part of `inner` is changed
        given = _only_given(root, tree)
        whole = tree.code(base_of(given)) if isinstance(given, cst.Subscript) else ""
        statement = tree.statement_of(saved)
        if whole and statement is not None and any(tree.code(base_of(operand)) == whole for operand in operands):
            name, read = whole, [one for one in _mentions(statement, whole, tree) if isinstance(one, cst.Subscript)]
        elif whole:  # `keep, move = z[:, :half], z[:, half:]`, of which `move` is changed and `keep` was saved
            read = [one for one in operands if isinstance(one, cst.Name) and _is_part_of(one, whole, tree)]
            name = tree.code(read[0]) if read else name
    # A read inside an operand: `x @ self.weight.t()`.
    read = read or list(_mentions(saved, name, tree)) or list(_mentions(_written(change, tree), name, tree))
    if not read:
        other = _assigned_from(name, operands, tree)
        read = [other] if other is not None else []
    if read:
        yield with_clones(read, name, tree)
        return
    for operand in operands:  # changed under another name: `for buffer in model.buffers(): buffer.copy_(...)`
        if isinstance(operand, cst.Attribute) and tree.code(operand.value) == "self":
            yield with_clones([operand], tree.code(operand), tree)


def _is_part_of(name: cst.Name, whole: str, tree: Tree) -> bool:
    given = _only_given(name, tree)
    return isinstance(given, cst.Subscript) and tree.code(base_of(given)) == whole


def _only_given(name: cst.Name, tree: Tree) -> cst.BaseExpression | None:
    """The value of the only assignment to a name in its function; None where there are none or several."""
    given = [
        value
        for statement in tree.statements_in(tree.function_of(name))
        if isinstance(part := only_part(statement), cst.Assign)
        for one in part.targets
        for target, value in pairs_of(one.target, part.value)
        if isinstance(target, cst.Name) and target.value == name.value
    ]
    return given[0] if len(given) == 1 else None


def with_clones(read: list[cst.BaseExpression], name: str, tree: Tree) -> Candidate:
    """The program that reads a clone of *name* at these places."""
    edit = Edit(tree)
    for part in read:
        edit.change(part, lambda node: method_call(node, "clone"))
    return Candidate(edit.patch(), f"compute with a clone of `{name}`, which is modified later")


def when_beside(change: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``keep, move = halves(z); move += net(keep)`` becomes ``move += net(keep.clone())``: both may show one tensor."""
    root = root_of(change, tree)
    if not isinstance(root, cst.Name):
        return
    passed = list(_passed(tree.statement_of(change), tree))
    for at, statement in enumerate(passed):
        names = _unpacked(statement)
        if root.value not in names:
            continue
        reads = [name for one in passed[:at] for name in tree.names_in(one) if name.value in names - {root.value}]
        handed: list[cst.BaseExpression] = [one for one in reads if isinstance(tree.parent_of(one), cst.Arg)]
        if handed:
            yield with_clones(handed, " and ".join(sorted({one.value for one in reads})), tree)
        return


def _unpacked(statement: Statement) -> set[str]:
    """The names that a statement gives the parts of what a call returns."""
    match only_part(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=elements))], value=cst.Call()):
            return {one.value.value for one in elements if isinstance(one.value, cst.Name)}
    return set()


def _passed(statement: Statement | None, tree: Tree) -> Iterator[Statement]:
    """A statement and those before it, also before the blocks that hold it, the last one first."""
    if statement is not None:
        yield statement
    while statement is not None and not isinstance(tree.parent_of(statement), cst.Module):
        block = tree.block_of(statement)
        if statement in block:
            yield from reversed(block[: block.index(statement)])
        around = tree.statement_of(tree.parent_of(statement))
        if around is None or isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            return
        statement = around


def when_handed(change: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``x += p; y = self.block(x)`` becomes ``y = self.block(x.clone())``, where the caller is to see ``x`` changed."""
    root, statement = root_of(change, tree), tree.statement_of(change)
    block = tree.block_of(statement) if statement is not None else []
    if not isinstance(root, cst.Name) or statement not in block:
        return
    for later in block[block.index(statement) + 1 :]:
        read = [name for name in tree.names_in(later) if name.value == root.value]
        if read:
            handed = [name for name in read if isinstance(tree.parent_of(name), cst.Arg)]
            if len(handed) == len(read) == 1 and only_part(later) is not None:
                patch = Edit(tree).change(handed[0], lambda node: method_call(node, "clone")).patch()
                yield Candidate(patch, f"pass on a clone of `{root.value}`, which is modified later")
            return


def _assigned_from(name: str, operands: list[cst.BaseExpression], tree: Tree) -> cst.BaseExpression | None:
    """Value, *name* or a part of it, that is assigned to one of *operands*: ``u, v = self.u, self.v[:t]``."""
    for operand in operands:
        if not isinstance(operand, cst.Name):
            continue
        for statement in tree.statements_in(tree.function_of(operand)):
            part = only_part(statement)
            if not isinstance(part, cst.Assign) or len(part.targets) != 1:
                continue
            for target, value in pairs_of(part.targets[0].target, part.value):
                same = isinstance(target, cst.Name) and target.value == operand.value
                if same and tree.code(base_of(value)) == name:
                    return value
    return None


def _written(change: cst.CSTNode | None, tree: Tree) -> cst.BaseExpression | None:
    """The assigned value ``f(x[t])`` of ``x[t + 1] = f(x[t])``, where the write is the change; else None."""
    target = tree.parent_of(change) if change is not None else None
    assign = tree.parent_of(target) if isinstance(target, cst.AssignTarget) else None
    return assign.value if isinstance(assign, cst.Assign) else None


def _mentions(node: cst.CSTNode | None, name: str, tree: Tree) -> Iterator[cst.BaseExpression]:
    """The places in an expression where this name or attribute stands, or an item of it."""
    pending = [node] if node is not None else []
    while pending:
        part = pending.pop()
        whole = isinstance(part, cst.Subscript) and tree.code(part.value) == name
        if whole or (isinstance(part, (cst.Name, cst.Attribute)) and tree.code(part) == name):
            yield part  # type: ignore[misc]
        elif isinstance(part, cst.Arg):
            pending.append(part.value)
        else:
            pending.extend(children(part))
