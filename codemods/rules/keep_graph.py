"""Dropped graph: a loss is made into a number, or a copy, before it is sent backward."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.parts import ARRAY_OF_SEVERAL, TENSORS_AND_NUMBERS, Drop
from autofix.codemods.formula import alone
from autofix.codemods.formula.reader import in_torch
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, method_call, only_part, parenthesised, with_keyword
from autofix.codemods.rewriting.stores import ADDING
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_OF_SEVERAL = frozenset(("mean", "sum"))
_DISPLAYS = (cst.List, cst.Tuple, cst.ListComp)
_DEVICES = re.compile(r"\bcuda\b|device\b|\.(?:to|xpu|mps)\(")
"""How a program says that some of its tensors may be on another device than the others."""

Change = Callable[[cst.CSTNode], cst.CSTNode]


class KeepGraph(Codemod):
    """backward is called on a loss that was turned into a number or a copy.

    Error:
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn. Where the copy is told to
        require grad (``torch.tensor(loss, requires_grad=True)``, ``Variable(loss, requires_grad=True)``,
        ``loss.requires_grad = True``) nothing is raised, and nothing is trained: the gradient ends in the copy. Nor is
        anything raised where a term of a loss is a number or a copy (``loss + penalty.item()``): that term trains
        nothing.

    Cause:
        ``torch.tensor(losses)``, ``Variable(loss)``, ``.item()``, ``float(loss)``, ``.detach()``, ``.data`` and a way
        through NumPy give numbers without a graph, and so does the ``sample()`` of a distribution (``rsample()`` is a
        function of the distribution's parameters). A loss that is computed from such numbers has no graph, and backward
        finds nothing to differentiate. PyTorch refuses to call functions of NumPy with tensors that require grad
        (``np.sum(outputs, 0)``, ``np.exp(x)``). ``torch.autograd.grad`` without ``create_graph=True`` returns tensors
        without a graph, too, and so does a reentrant ``checkpoint`` of which no input requires grad: above frozen
        embeddings, for instance.

    Fix:
        The values keep their graphs: ``torch.tensor(losses).sum()`` becomes ``torch.stack(losses).sum()``, the
        ``.item()`` of a sum whose backward is called goes, a penalty on gradients asks for ``create_graph=True``, and a
        checkpoint for ``use_reentrant=False``. A formula in NumPy is translated as a whole: ``p = x.detach().numpy()``,
        ``np.exp(p).sum(axis=1)`` and ``torch.from_numpy(...)`` become ``p = x``, ``torch.exp(p).sum(dim=1)`` and the
        result itself, through helpers and their callers, too. A call on tensors becomes torch's:
        ``torch.stack(outputs).sum(0)``, ``torch.exp(x)``. What meets the formula becomes a tensor (``np.hanning(n)``, a
        target's ``.numpy()``, ``torch.from_numpy(weights).float()``); what is printed or stored of it stays the array,
        or number, it was. Where one operation has no certain equivalent in torch, nothing is changed.

    When it is not what you want:
        Numbers for a log are right to have no graph: keep ``loss.item()`` for those, beside the loss itself. Where
        several detached values meet in a loss, only you know which of them is the constant; then it is only reported.
        Within a formula in NumPy no value could have kept its graph, so the rewrite gives all of them their graphs
        back: detach a target that is to stay constant.

    Source:
        torch.Tensor.item, torch.tensor and torch.stack in the PyTorch documentation.
    """

    code = "AF401"
    name = "dropped-graph"
    answers = (CutGraph,)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, CutGraph)
        yield from _beside_the_meter(fact, tree)
        formula = in_torch(fact, tree)
        if formula is not None:
            yield from self._undone(fact, tree, *formula)
        if not fact.several and not any(_is_array(drop, tree) for drop in fact.drops):
            yield from self._undone(fact, tree, Edit(tree), set())

    def _undone(self, fact: CutGraph, tree: Tree, edit: Edit, covered: Collection[cst.CSTNode]) -> Iterator[Candidate]:
        """Every drop undone; of a formula in torch, all but flags are *covered*."""
        for drop in fact.drops:
            if tree.expression(drop.span) in covered:
                continue
            if covered and drop.how != "flag":
                return
            if not _undo(edit, drop, fact, tree):
                return
        where = tree.expression(fact.cut)
        what = tree.code(where).partition("\n")[0] if where is not None else fact.name
        drawn = all(drop.how == "sample" for drop in fact.drops)
        remedy = f"draw `{what}` by `rsample`" if drawn and fact.drops else f"keep the graph of `{what}`"
        yield Candidate(edit.patch(), remedy, Keeps.EDGES)


def _is_array(drop: Drop, tree: Tree) -> bool:
    """Whether a tensor hands out its array here: the formula that follows is translated as a whole, or not at all."""
    node = tree.expression(drop.span)
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "numpy"


def _undo(edit: Edit, drop: Drop, fact: CutGraph, tree: Tree) -> bool:
    """Change the place of a drop so that the graph is kept; False where no rewrite fits."""
    if drop.how == "flag":
        return _without_flag(edit, drop, tree)
    node = tree.expression(drop.span)
    change = _change(node, drop, tree)
    if node is None or change is None:
        return False
    statement = tree.statement_of(node)
    if statement is not None and _is_its_own_copy(statement, fact, tree) and len(tree.block_of(statement)) > 1:
        part = only_part(statement)
        if isinstance(part, cst.Assign) and part.value is node:  # once, for all the drops in it
            edit.remove(statement)
    else:
        edit.change(node, change)
        _clamped(edit, node, tree)
    return True


def _clamped(edit: Edit, node: cst.CSTNode, tree: Tree) -> None:
    """``max(0.0, margin - score.item())`` of Python's would give the number alone: a tensor is clamped."""
    bounds = {"max": "min", "min": "max"}
    around: cst.CSTNode | None = node
    while around is not None and not isinstance(around, cst.BaseStatement):
        if isinstance(around, cst.Call) and len(around.args) == 2 and tree.code(around.func) in bounds:
            numbers = [isinstance(one.value, (cst.Integer, cst.Float)) for one in around.args]
            if sum(numbers) == 1 and not any(one.star or one.keyword for one in around.args):
                at, keyword = numbers.index(True), bounds[tree.code(around.func)]
                bound = tree.code(around.args[at].value)
                edit.change(around, lambda call, at=1 - at, to=keyword, by=bound: _clamp(call, at, to, by))  # type: ignore[misc]
        around = tree.parent_of(around)


def _clamp(call: cst.CSTNode, at: int, keyword: str, bound: str) -> cst.CSTNode:
    """``x.clamp(min=0.0)`` for ``max(0.0, x)``, where *at* is the place of ``x``."""
    arguments = cst.ensure_type(call, cst.Call).args
    if len(arguments) != 2:
        return call  # done for another number in it
    value = parenthesised(arguments[at].value)
    return with_keyword(cst.Call(cst.Attribute(value, cst.Name("clamp"))), keyword, bound)


def _is_its_own_copy(statement: Statement, fact: CutGraph, tree: Tree) -> bool:
    """Whether a statement only drops graphs: ``loss = loss.detach().item()``, ``loss = Variable(loss, True)``."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return False
    drops = {tree.expression(drop.span): drop for drop in fact.drops}
    tensor: cst.BaseExpression | None = part.value
    while tensor is not None and tensor in drops:
        copies = drops[tensor].how in ("tensor", "variable")
        if copies and isinstance(tensor, cst.Call) and tensor.args:
            tensor = tensor.args[0].value
        else:
            tensor = _tensor_of(tensor)
    return tensor is not None and tensor is not part.value and tree.code(part.targets[0].target) == tree.code(tensor)


def _tensor_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``x`` of ``x.item()``, of ``x.data`` and of ``float(x)``."""
    if isinstance(node, cst.Attribute):
        return node.value
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and not node.args:
        return node.func.value
    return node.args[0].value if isinstance(node.func, cst.Name) and len(node.args) == 1 else None


def _beside_the_meter(fact: CutGraph, tree: Tree) -> Iterator[Candidate]:
    """``total = a + meter.update("b", b)``, where the meter hands the number on: the total takes ``b`` itself."""
    node = tree.expression(fact.drops[0].span)
    if len(fact.drops) != 1 or fact.drops[0].how not in ("item", "number") or node is None:
        return
    tensor = _tensor_of(node)
    meter = tree.function_of(node)
    if not isinstance(tensor, cst.Name) or not isinstance(meter, cst.FunctionDef):
        return
    names = [one.name.value for one in meter.params.params]
    method = tree.class_of(meter) is not None and names[:1] == ["self"]
    if tensor.value not in names:
        return
    at = names.index(tensor.value) - method
    calls = [
        call
        for module in tree.modules()
        for call in tree.every(cst.Call, module)
        if tree.called(call) == meter.name.value
        if not isinstance(tree.parent_of(call), cst.Expr)
    ]
    if len(calls) != 1:
        return
    given = next(
        (
            argument.value
            for position, argument in enumerate(calls[0].args)
            if (argument.keyword.value == tensor.value if argument.keyword is not None else position == at)
        ),
        None,
    )
    reader = tree.statement_of(calls[0])
    if not isinstance(given, (cst.Name, cst.Attribute)) or reader is None or not tree.block_of(reader):
        return
    code = tree.code(calls[0])
    edit = Edit(tree).insert_before(reader, code).change(calls[0], lambda found: given)
    remedy = f"use the tensor `{tree.code(given)}` in the loss, not its number"
    yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS)


def _without_flag(edit: Edit, drop: Drop, tree: Tree) -> bool:
    """Take away ``loss.requires_grad = True``, or ``.requires_grad_()`` from the end of an expression."""
    node = tree.expression(drop.span)
    statement = tree.statement_of(node)
    part = only_part(statement)
    if isinstance(node, cst.Call) and not (isinstance(part, cst.Expr) and part.value is node):
        edit.change(node, _receiver)
        return True
    if statement is not None and only_part(statement) is not None and len(tree.block_of(statement)) > 1:
        edit.remove(statement)
        return True
    return False


def _change(node: cst.BaseExpression | None, drop: Drop, tree: Tree) -> Change | None:
    match node:
        case cst.Attribute() if drop.how == "data":
            return lambda found: found.value  # type: ignore[attr-defined]
        case cst.Call() if drop.how == "reentrant":
            return lambda found: with_keyword(found, "use_reentrant", "False")
        case cst.Call() if drop.how == "grad":
            return lambda found: with_keyword(found, "create_graph", "True")
        case cst.Call() if drop.how == "number" and len(node.args) == 1:
            return _argument_of(node, tree)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="sample"))) if drop.how == "sample":
            return _reparametrised
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if drop.how == name and not node.args:
            return _receiver
        case cst.Call() if drop.how in ("tensor", "variable") and node.args and node.args[0].keyword is None:
            return _argument_of(node, tree)
        case cst.Call() if drop.how == "tensors" and node.args and _is_list(node.args[0].value):
            return _of_list(tree, node)
        case cst.Call() if drop.how == TENSORS_AND_NUMBERS and node.args and _is_list(node.args[0].value):
            return _stacked_with_numbers(tree, node)
        case cst.Call() if drop.how == ARRAY_OF_SEVERAL:
            return alone.in_torch(tree, node, several=True)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)) | cst.Name(value=name)) if drop.how == "numpy":
            return _in_torch(tree, node, name)
    return None


def _receiver(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return node.func.value


def _reparametrised(node: cst.CSTNode) -> cst.CSTNode:
    """``dist.sample()`` as ``dist.rsample()``: the same numbers, as a function of the distribution's parameters."""
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return node.with_changes(func=node.func.with_changes(attr=cst.Name("rsample")))


def _argument_of(node: cst.Call, tree: Tree) -> Change:
    """``torch.tensor(x)`` as ``x``, in parentheses where something may bind tighter."""
    alone = isinstance(tree.parent_of(node), (cst.Assign, cst.AnnAssign, cst.Return, cst.Arg, cst.Element))

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        value = found.args[0].value
        return value if alone else parenthesised(value)

    return change


def _is_list(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.List, cst.Tuple, cst.ListComp))


def _of_list(tree: Tree, node: cst.Call) -> Change | None:
    """``torch.tensor`` of a list, with its graph; None where no rewrite fits, as for lists in it that have names."""
    items = node.args[0].value
    if _has_numbers(items):
        return _stacked_with_numbers(tree, node)
    return None if _holds_named_lists(tree, items) else _stacked(tree, node)


def _holds_named_lists(tree: Tree, items: cst.BaseExpression) -> bool:
    """Whether a list has items that are lists made elsewhere in the function: ``[losses]``, or ``rows`` of those."""
    parts = {tree.code(one.value) for one in items.elements} if isinstance(items, (cst.List, cst.Tuple)) else set()
    for one in tree.inside(tree.function_of(items)):
        match one:
            case cst.Call(func=cst.Attribute(value=store, attr=cst.Name(value=name)), args=args) if name in ADDING:
                whole = tree.code(store) == tree.code(items) and bool(args) and isinstance(args[-1].value, _DISPLAYS)
                if tree.code(store) in parts or (whole and name != "extend"):
                    return True
            case cst.List() | cst.Tuple() | cst.ListComp():
                parent = tree.parent_of(one)
                if isinstance(parent, cst.Assign) and parts & {tree.code(each.target) for each in parent.targets}:
                    return True
    return False


def _stacked(tree: Tree, node: cst.Call) -> Change:
    torch = tree.torch_name(node)

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        whole = _stack_of(found.args[0].value, torch)
        return found.with_changes(func=whole.func, args=whole.args)

    return change


def _stack_of(items: cst.BaseExpression, torch: str) -> cst.Call:
    """``torch.stack(...)`` of a list, and of lists in a list as the display shows them."""
    if isinstance(items, (cst.List, cst.Tuple)):
        nested = [isinstance(part.value, (cst.List, cst.Tuple)) for part in items.elements]
        items = items.with_changes(
            elements=[
                part.with_changes(value=_stack_of(part.value, torch)) if inner else part
                for part, inner in zip(items.elements, nested, strict=True)
            ]
        )
    return cst.Call(cst.Attribute(cst.Name(torch), cst.Name("stack")), [cst.Arg(items)])


def _has_numbers(items: cst.BaseExpression) -> bool:
    """Whether a display, or one in it, writes out a number."""
    if isinstance(items, (cst.List, cst.Tuple)):
        return any(_has_numbers(part.value) for part in items.elements)
    return alone.is_number(items)


def _stacked_with_numbers(tree: Tree, node: cst.Call) -> Change | None:
    """``torch.tensor([[c, -1.0], [s, k]])`` with tensors of all that is in it: numbers in between become some.

    None where the display is neither a list nor one of lists of one length.
    """
    items = node.args[0].value
    rows = list(items.elements) if isinstance(items, (cst.List, cst.Tuple)) else []
    inner = [list(row.value.elements) for row in rows if isinstance(row.value, (cst.List, cst.Tuple))]
    if inner and (len(inner) != len(rows) or len({len(row) for row in inner}) != 1):
        return None
    elements = [one for row in inner for one in row] if inner else rows
    parts = [one.value for one in elements if not isinstance(one, cst.StarredElement)]
    if len(parts) < len(elements) or any(isinstance(part, (cst.List, cst.Tuple)) for part in parts):
        return None
    listed = f"({', '.join(map(tree.code, parts))})" if len(parts) > 1 else tree.code(items)
    torch = tree.torch_name(node)
    options = "".join(f", {option}" for option in _options_of_parts(tree, node))
    view = f".view({len(inner)}, {len(inner[0])})" if inner else ""
    made = cst.parse_expression(f"{torch}.stack([{torch}.as_tensor(value{options}) for value in {listed}]){view}")
    return lambda found: made


def _options_of_parts(tree: Tree, node: cst.Call) -> list[str]:
    """The options of ``torch.tensor(...)`` that its parts take over, and a device where they may be on several.

    ``torch.tensor([0.0, p])`` is on the CPU, wherever ``p`` is; ``torch.stack`` takes tensors of one device only.
    """
    kept = [one for one in node.args[1:] if one.keyword is not None and one.keyword.value in ("dtype", "device")]
    options = [tree.code(one).rstrip(", ") for one in kept]
    if not any(one.startswith("device") for one in options) and _DEVICES.search(tree.module_of(node).code):
        options.append('device="cpu"')
    return options


def _in_torch(tree: Tree, node: cst.Call, name: str) -> Change | None:
    """``np.exp(x)`` as ``torch.exp(x)``; ``np.mean(losses)`` of a list as ``torch.stack(losses).mean()``."""
    if name in ("array", "asarray") and len(node.args) == 1:
        if _is_list(node.args[0].value) and not isinstance(node.args[0].value, cst.Name):
            return _of_list(tree, node)
        return _argument_of(node, tree)
    if node.args and isinstance(node.args[0].value, (cst.List, cst.Tuple)):
        return None
    if name in _OF_SEVERAL and len(node.args) == 1 and isinstance(node.args[0].value, (cst.Name, cst.ListComp)):

        def of_several(found: cst.CSTNode) -> cst.CSTNode:
            return method_call(_stacked(tree, node)(found), name)

        return of_several
    return alone.in_torch(tree, node)
