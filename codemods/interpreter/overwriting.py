"""The effects of in-place changes on tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autofix.codemods.autograd.catalogue import operand_names
from autofix.codemods.autograd.graph import Leaf, Node, StoreEvent
from autofix.codemods.interpreter import cuts, holding
from autofix.codemods.interpreter.values import (
    PartWritten,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)
from autofix.codemods.source.sources import Site

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

PARTS = 4
"""Number of statements that are remembered to have written into a tensor: ``queue[:-8] = queue[8:]`` and its like."""


def write_into(
    interp: Interpreter,
    tensor: TensorRef,
    values: list[Value],
    node: ast.expr | ast.stmt,
    name: str = "copy_slices",
    expression: ast.expr | None = None,
    added: Value = None,
    places: Iterable[Value] = (),
) -> None:
    """Data is written into (part of) *tensor*: ``x[i] = v``, ``copy_``, ``index_copy_``, ``out=``.

    *added* is the value that was added to, or multiplied with, what is written: ``x[i] += v``.  *places* are the
    tensors among the values that say where, and that the operation saves.
    """
    _arrive(interp, tensor, node)
    cell = tensor.cell
    cell.constant = cell.constant and all(map(_is_constant, values))
    saved = tuple(one.cell.storage.as_saved() for one in interp.tensors(*places))
    interp.change(tensor, node, operands=[added] if added is not None else values)
    place = _written_place(interp, node)
    root = None
    if expression is None and isinstance(node, ast.Call):
        root, expression = _written_by(interp, values, node)
        place = interp.source.text_of(root) if root is not None else ""
    for owner in (cell, cell.base):
        if owner is None:
            continue
        if owner.node is None and any(isinstance(value, Symbol) and cuts.is_vague(value) for value in values):
            owner.mixed = True
        _note_update(interp, owner, name, values, node)
        operands = [TensorRef(owner, tensor.provenance if owner is cell else owner.written), *values]
        if interp.operands(*operands) and not _is_kept_from_graphs(owner):
            result = interp.operation(name, operands, node, opaque=True)  # type: ignore[arg-type]
            if result.cell.node is not None:
                result.cell.node.opaque = False
                result.cell.node.saved = saved
                result.cell.node.saves = bool(saved) or cell.base is not None or _picks_a_part(node)
                _give_graph(interp, owner, result.cell.node)
                _carried(
                    interp,
                    interp.kept(TensorRef(owner), place, expression, owner) if root or expression else None,
                    owner,
                )
        elif owner.node is None and not (owner.mixed or owner.vague or owner.unsure):
            owner.detachment = cuts.joined(interp, operands, node) or owner.detachment
    if cell.base is not None:
        cell.of = cell.base.node


def _picks_a_part(node: ast.expr | ast.stmt) -> bool:
    """Whether an assignment certainly writes into a part of a tensor: ``x[i] = v``, ``x[:, 1:] = v``, not ``x[:] = v``.

    PyTorch frees what it knows of the part as it frees a saved tensor: a second pass is refused.
    Source: ``CopySlices`` in torch/csrc/autograd/functions/tensor.cpp.
    """
    if not isinstance(node, ast.Subscript):
        return False
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for one in index:
        match one:
            case ast.Constant(value=int()) | ast.UnaryOp() | ast.BinOp() | ast.Name():
                return True
            case ast.Slice(lower=ast.Constant(value=int(first))) if first > 0:
                return True
            case ast.Slice(upper=ast.UnaryOp(ast.USub(), ast.Constant())):
                return True
    return False


def _is_constant(value: Value) -> bool:
    """Whether a value that is written into a tensor follows from what the program writes out."""
    return value.cell.constant if isinstance(value, TensorRef) else isinstance(value, (int, float))


def is_total(cell: TensorImpl, leaf: Leaf, added: list[TensorRef]) -> bool:
    """Whether losses are added up in a leaf: ``total = torch.zeros(1, requires_grad=True)``, then ``total += loss``."""
    made = leaf.node.site.node if leaf.node is not None else None
    if not leaf.name.startswith("tensor:") or all(one.cell.node is None or one.cell.node.leaf for one in added):
        return False
    return cell.scalar is True or (made is not None and _ONE_NUMBER.search(ast.unparse(made)) is not None)


_ONE_NUMBER = re.compile(r"\b(zeros|ones|empty)\(\(?\[?1?,?\]?\)?[,)]|\b\w*[tT]ensor\(\[?-?[\d.e-]+\]?[,)]")
"""Calls that make a tensor of one number."""


def _written_place(interp: Interpreter, node: ast.expr | ast.stmt) -> str:
    """The user's text of the tensor that is written into."""
    if isinstance(node, ast.Subscript):
        return interp.source.text_of(node.value)
    return ""


def change_in_place(
    interp: Interpreter, tensor: TensorRef, kind: type[ast.operator], value: Value, node: ast.AugAssign
) -> None:
    """``tensor += value`` and its kin."""
    name = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}.get(kind, "bitwise_and")
    in_place(interp, tensor, name, [value], node)


def in_place(
    interp: Interpreter,
    tensor: TensorRef,
    name: str,
    args: list[Value],
    node: ast.expr | ast.stmt,
    origin: Site | None = None,
) -> None:
    """An in-place operation *name* (without its underscore) on *tensor*.

    What such an operation saves of its own input it saves as a copy, or it saves the result (aten's ``*_`` kernels).
    """
    _arrive(interp, tensor, node)
    cell = tensor.cell
    result = None
    _note_update(interp, cell, name, args, node)
    if not (_is_kept_from_graphs(cell) and interp.grad):
        names = operand_names(name) if len(args) == 1 else ()
        result = interp.operation(name, [tensor, *args], node, names=names, inplace=True)  # type: ignore[arg-type]
    interp.change(tensor, node, origin, args)
    cell.constant = cell.constant and result is not None and result.cell.constant
    if result is None or result.cell.node is None:
        if result is not None and cell.node is None and cell.base is None:  # `total += loss.item()`
            cell.detachment, cell.vague = result.cell.detachment, cell.vague or result.cell.vague
        return
    made = result.cell.node
    version = cell.storage.version
    made.saved = tuple(
        saved._replace(storage=cell.storage, version=version) if saved.storage is result.cell.storage else saved
        for saved in made.saved
    )
    made.saves = made.saves or cell.base is not None
    give_graph(interp, tensor, made)
    if isinstance(node, ast.Call):
        _gathered(interp, tensor, args, node)
    elif isinstance(node, ast.AugAssign) and cell.base is not None and any(map(interp.operands, args)):
        kept = interp.kept(TensorRef(cell.base), interp.source.text_of(node.target), node.value, cell.base)
        _carried(interp, kept, cell.base)


def _arrive(interp: Interpreter, tensor: TensorRef, node: ast.expr | ast.stmt) -> None:
    """A leaf that was moved to a GPU is another tensor there, computed from it: this copy is changed in place."""
    if tensor.moved is None or not tensor.cell.is_leaf or not interp.grad:
        return
    tensor.cell = interp.operation("to", [tensor], node, scalar=tensor.cell.scalar).cell  # type: ignore[arg-type]
    tensor.moved = None


def give_graph(interp: Interpreter, tensor: TensorRef, made: Node) -> None:
    """A tensor that was changed in place, and what it is a view of, are the result of *made* now."""
    cell = tensor.cell
    _give_graph(interp, cell, made)
    if cell.base is not None:
        if cell.place and cell.base.node is not None:
            cell.base.writes.append(PartWritten(cell.place, cell.base.node, made))
        cell.base.node = cell.of = made


def _is_kept_from_graphs(cell: TensorImpl) -> bool:
    """Whether a change in place under grad mode gives it no graph: a leaf that requires grad, for which it is refused.

    Of a frozen parameter something with a graph makes a result like any other.  One of those that a layer's leaf stands
    for is left as it is: the others are frozen still.
    """
    return cell.is_leaf and (cell.part or not (cell.leaf is not None and cell.leaf.frozen))


def _note_update(
    interp: Interpreter, cell: TensorImpl, name: str, values: list[Value], node: ast.expr | ast.stmt
) -> None:
    """Something with a graph is written into a frozen parameter, which has the graphs of all updates from then on.

    ``teacher.mul_(m).add_(student, alpha=1 - m)``, outside of ``no_grad``.
    """
    leaf, updates = cell.leaf, interp.incidents.updates
    if leaf is None or cell.node is not leaf.node or not interp.grad:
        return
    if not (cell.is_leaf and (cell.frozen or leaf.frozen)) and (interp.statement.node, leaf) not in updates:
        return
    made = interp.operation(name, values, node)  # type: ignore[arg-type]
    kept = interp.kept(made, _name_written(interp, node), None, cell)
    if kept is not None:
        earlier = updates.setdefault((interp.statement.node, leaf), kept)
        holding.gathered(interp, kept, earlier, made.cell, leaf)


def _name_written(interp: Interpreter, node: ast.expr | ast.stmt) -> str:
    """The user's text of the tensor that an update changes: ``p`` of ``p.mul_(m).add_(q)``, ``p[:]`` and ``p += q``."""
    root: ast.expr | ast.stmt = node.target if isinstance(node, ast.AugAssign) else node
    while True:
        match root:
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
                root = inner
            case _:
                return interp.source.text_of(root)


def _give_graph(interp: Interpreter, cell: TensorImpl, made: Node) -> None:
    """A change in place gives *cell* a graph; where it is a frozen parameter, its module computes with that one."""
    if cell.leaf is not None and cell.node is cell.leaf.node and not cell.part:
        interp.incidents.thawed.add(made.site)
        cell.leaf.node = made
        cell.leaf.frozen = False
    cell.node = made


def _gathered(interp: Interpreter, tensor: TensorRef, args: list[Value], node: ast.Call) -> None:
    """A method has put something with a graph into *tensor*, beside what was there: ``m.mul_(0.9).add_(0.1 * x)``."""
    root, written = _written_by(interp, args, node)
    if root is None:
        return
    for cell in (tensor.cell, tensor.cell.base):
        kept = interp.kept(TensorRef(cell), interp.source.text_of(root), written, cell) if cell is not None else None
        if cell is not None and kept is not None:
            _carried(interp, kept, cell)


def _written_by(interp: Interpreter, args: list[Value], node: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """The tensor that a method writes into, ``bank`` of ``bank[i].copy_(x)``, and the argument with a graph, if one."""
    written = [
        part
        for part, value in zip(node.args, args, strict=False)
        if not isinstance(part, ast.Starred) and interp.operands(value)
    ]
    root: ast.expr = node
    while True:
        if isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
            root = root.func.value
        elif isinstance(root, ast.Subscript):
            root = root.value
        else:
            break
    if not written or not _is_place(root) or not isinstance(interp.statement.node, ast.Expr):
        return None, None
    return root, written[0] if len(written) == 1 else None


def _carried(interp: Interpreter, kept: StoreEvent | None, cell: TensorImpl) -> None:
    """A statement carries on what it wrote into a tensor; what it put there in an earlier iteration is in it still.

    So is what it has written into the tensor of which this one was computed: ``queue = queue.roll(8, 0)``.
    """
    if kept is not None:
        node = kept.statement.node
        earlier = next((one for one in cell.written if one.statement.node is node), None)
        if earlier is None and cell.node is not None and interp.loops:
            earlier = holding.taken_in(cell.node, node, kept.clock)
        if earlier is not None:
            holding.gathered(interp, kept, earlier, cell)
    note_written(cell, kept)


def note_written(cell: TensorImpl, kept: StoreEvent | None) -> None:
    """A statement has written into a tensor, whoever else holds it; None for one that has written no graph."""
    others = (one for one in cell.written[1 - PARTS :] if kept and one.statement.node is not kept.statement.node)
    cell.written = (*others, kept) if kept is not None else ()


def _is_place(node: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one, and not a method that is called."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
