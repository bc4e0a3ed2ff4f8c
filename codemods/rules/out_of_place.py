"""Overwritten value: an in-place operation becomes one that makes a new tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.facts import (
    Carrier,
    Fact,
    Form,
    Overwritten,
    PartChanged,
    Span,
    StaleGraph,
    ViewDetached,
    WatchedChanged,
)
from autofix.codemods.proof import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import (
    Statement,
    method_call,
    only_part,
    operands_of,
    pairs_of,
    parenthesised,
    with_keyword,
    without_keyword,
)
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.separate_parts import is_separate
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.assign_out import result_assigned
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.cause import edited_by
from autofix.codemods.rules.other_names import Place, targets_for
from autofix.codemods.rules.views_taken import taken_again
from autofix.codemods.rules.whole_writes import is_collected, whole_write

_OPERATORS: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
    cst.PowerAssign: cst.Power,
}


class OutOfPlace(Codemod):
    """A tensor is modified in place although the backward pass needs its original value.

    Error:
        RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation.
        For one of the views that ``chunk``, ``split`` or ``unbind`` make, and for what a module with a backward hook
        is given or returns: Output 0 of SplitBackward0 is a view and is being modified inplace. For such a view that is
        used when its base has been changed: Output 0 of Split is a view and its base or another view of its base has
        been modified inplace. For a view that is detached in place: Can't detach views in-place.

    Cause:
        An operation saves its input or its result for the backward pass: ``sigmoid``, ``exp``, ``relu`` and ``softmax``
        their result, a product its factors, a linear layer its input. An augmented assignment, a method that ends in
        an underscore, an assignment to an index or a module with ``inplace=True`` then writes over the saved tensor.

    Fix:
        The operation makes a new tensor: ``x += y`` becomes ``x = x + y``, ``x.clamp_(0)`` becomes ``x = x.clamp(0)``,
        ``inplace=True`` goes, and what ``out=`` writes is assigned. What is written by index is written into a clone.
        Several views whose base is changed are taken when it has been changed: so they see the change, as slices do.

    When it is not what you want:
        Where other names share the tensor and are meant to see the change, the change must come before the operation
        that saves it.

    Source:
        "In-place correctness checks" in PyTorch's autograd mechanics; what each operation saves is in its
        derivatives.yaml.
    """

    code = "AF201"
    name = "overwritten-value"
    answers = (Overwritten, PartChanged, StaleGraph)
    rank = 15

    def cause(self, fact: Fact, tree: Tree, candidate: Candidate) -> Span:
        """The overwriting operation, unless a step or a loop is involved; or the flag that makes a module overwrite."""
        if isinstance(fact, StaleGraph):
            return fact.made
        assert isinstance(fact, (Overwritten, PartChanged))
        if isinstance(fact, Overwritten) and (fact.loop is not None or fact.by_step or fact.parameter):
            return super().cause(fact, tree, candidate)
        flag = fact.constructed
        return flag if flag is not None and flag.line in edited_by(candidate.patch).changed else fact.changed

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (Overwritten, PartChanged, StaleGraph))
        if isinstance(fact, StaleGraph):
            yield from _of_a_constant(fact, tree)
            return
        if isinstance(fact, ViewDetached):
            yield from _detached_anew(tree.expression(fact.changed), tree)
            return
        if isinstance(fact, PartChanged):
            if fact.base:  # a new tensor would leave the views as they were, and they were to change with their base
                yield from _rows_of_a_clone(tree.expression(fact.changed), tree)
                yield from taken_again(fact, tree)
                return
            yield from _told_otherwise(fact.constructed, tree)
            if not _is_a_row(fact, tree):
                yield from as_a_new_tensor(fact.changed, tree)
                yield from _into_a_clone(fact.changed, tree)
            return
        if fact.by_step:
            return
        call = tree.expression(fact.changed)
        node = tree.node(fact.changed, cst.AugAssign)
        if fact.part:
            yield from _cloned_when_made(fact, tree)
            yield from _cloned_when_read(fact, call or node, tree)
            root = _root_of(call or node, tree)
            if isinstance(root, cst.Name) and is_separate(root, tree):
                yield from as_a_new_tensor(fact.changed, tree)
            if isinstance(node, cst.AugAssign) and _is_read_by_items_only(node, tree):
                # The tape takes all parts for one tensor, each with the graph of whatever was written to another.
                for candidate in as_a_new_tensor(fact.changed, tree):
                    yield replace(candidate, keeps=Keeps.PARAMETERS)
            return
        alone = call is not None and isinstance(tree.parent_of(call), cst.Expr)
        if fact.constructed is not None and not alone:  # who reads the result does not mean the input to change
            yield from _told_otherwise(fact.constructed, tree)
        if is_collected(_root_of(call or node, tree), tree):
            for anew in (
                as_a_new_tensor(fact.changed, tree),
                _whole_assigned(call, tree),
                _into_a_clone(fact.changed, tree),
            ):
                yield from (replace(candidate, keeps=Keeps.APART) for candidate in anew)
            return
        yield from as_a_new_tensor(fact.changed, tree)
        if fact.shared_input and _is_an_input(_root_of(call or node, tree), tree):
            for anew in (as_a_new_tensor(fact.changed, tree), _into_a_clone(fact.changed, tree)):
                yield from (replace(candidate, keeps=Keeps.INPUTS) for candidate in anew)
        yield from _whole_assigned(call, tree)
        yield from _cloned_when_kept(fact, tree)
        yield from _cloned_when_read(fact, call or node, tree)
        yield from _into_a_clone(fact.changed, tree)
        yield from _cloned_when_handed(call or node, tree)
        operation = tree.expression(fact.operation or fact.saved)
        for operand in (_root_of(operation, tree), *operands_of(operation)):
            # changed by another name: in a function, in a loop over several
            if isinstance(operand, cst.Name) and operand.value != "self" and not tree.is_imported(operand):
                yield _with_clones([operand], operand.value, tree)
        yield from _cloned_when_made(fact, tree)


def _is_an_input(root: cst.CSTNode | None, tree: Tree) -> bool:
    """Whether a name is that of a tensor that a model's ``forward`` is given, which others may be given as it is."""
    root = root.value if isinstance(root, cst.Subscript) else root
    function = tree.function_of(root) if isinstance(root, cst.Name) else None
    if not isinstance(function, cst.FunctionDef) or function.name.value != "forward" or not isinstance(root, cst.Name):
        return False
    given = (one.name.value for one in (*function.params.params[1:], *function.params.kwonly_params))
    return root.value in given


def _rows_of_a_clone(changed: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``for i, row in enumerate(h.clone()): h[i] = 2 * row``: each row is changed when it has been read."""
    loop = next(iter(tree.loops_around(changed)), None)
    if not isinstance(changed, cst.Subscript) or not isinstance(loop, cst.For) or len(changed.slice) != 1:
        return
    match loop.iter, loop.target, changed.slice[0].slice:
        case (
            cst.Call(func=cst.Name("enumerate"), args=[one]),
            cst.Tuple(elements=[cst.Element(cst.Name(number)), cst.Element(cst.Name())]),
            cst.Index(cst.Name(at)),
        ) if number == at and tree.code(one.value) == tree.code(changed.value):
            patch = Edit(tree).change(one.value, lambda node: method_call(node, "clone")).patch()
            yield Candidate(patch, f"go through the rows of a copy of `{tree.code(changed.value)}`", Keeps.PARAMETERS)


def _of_a_constant(fact: StaleGraph, tree: Tree) -> Iterator[Candidate]:
    """``A = self.A``, then ``A *= self.mask``: every call would change the attribute once more.

    A state that a method computes is changed by what it was given, and not by another attribute alone.
    """
    part = only_part(tree.statement(fact.made))
    if fact.made != fact.used or not fact.inside:
        return
    match part:
        case cst.AugAssign(target=cst.Name() as changed, operator=operator, value=factor) if (
            type(operator) in _OPERATORS
        ):
            new: cst.BaseExpression = cst.BinaryOperation(changed, _OPERATORS[type(operator)](), factor)
        case cst.Expr(
            value=cst.Call(
                func=cst.Attribute(value=cst.Name() as changed, attr=cst.Name(value=method)), args=[one]
            ) as call
        ) if method.endswith("_"):
            factor, new = one.value, cst.Call(cst.Attribute(changed, cst.Name(method[:-1])), call.args)
        case _:
            return
    sources = (one.expression for one in fact.carriers if one.name == changed.value)
    if _is_own(factor) and any(_is_own(source) for source in map(tree.expression, sources)):
        made = cst.Assign([cst.AssignTarget(changed)], new)
        patch = Edit(tree).change(part, lambda _: made).patch()
        yield Candidate(patch, f"assign a new tensor to `{changed.value}`", Keeps.PARAMETERS)


def _is_own(value: cst.BaseExpression | None) -> bool:
    """Whether an expression is ``self.name``."""
    return isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name) and value.value.value == "self"


def _is_a_row(fact: PartChanged, tree: Tree) -> bool:
    """Whether a part is one that a loop goes to: changed for the whole's sake, which a copy of the part would miss."""
    made = tree.expression(fact.made)
    if isinstance(fact, WatchedChanged):
        return False
    if not isinstance(made, cst.Call) or not catalogue.gives_pieces(tree.called(made)):
        return True
    changed = tree.expression(fact.changed) or tree.node(fact.changed, cst.AugAssign) or tree.statement(fact.changed)
    if changed is None:
        return True
    names = {name.value for name in tree.names_in(changed)}
    loops = [loop for loop in tree.loops_around(changed) if isinstance(loop, cst.For)]
    return any(names & {name.value for name in tree.names_in(loop.target)} for loop in loops)


def _told_otherwise(constructed: Span | None, tree: Tree) -> Iterator[Candidate]:
    """The module, where it is made, not told to work in place."""
    if constructed is not None:
        for off in (_without_inplace, _with_the_flag_off):
            for candidate in off(tree.expression(constructed), tree):
                yield replace(candidate, keeps=Keeps.INPUTS)


def as_a_new_tensor(changed: Span, tree: Tree) -> Iterator[Candidate]:
    """Candidates in which the operation at *changed* makes a new tensor."""
    node = tree.node(changed, cst.AugAssign)
    if isinstance(node, cst.AugAssign):
        for patch in spelled_out(node, tree):
            yield Candidate(patch, f"assign a new tensor to `{tree.code(node.target)}`")
    call = tree.expression(changed)
    if isinstance(call, cst.Call):
        yield from _without_inplace(call, tree)
        if _is_function_of_a_module(call, tree):
            yield from _function_without_underscore(call, tree)
        else:
            yield from _without_underscore(call, tree)
        yield from result_assigned(changed, tree)


def _whole_assigned(changed: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``h[:] = cell(x, h)`` becomes ``h = cell(x, h)``."""
    statement = tree.statement_of(changed)
    written = whole_write(statement, tree)
    given = targets_for(written[0], tree) if written is not None else None
    if written is not None and given is not None and statement is not None:
        targets, value = [cst.AssignTarget(one) for one in given], written[1]
        edit = Edit(tree).change(only_part(statement) or statement, lambda _: cst.Assign(targets=targets, value=value))
        yield Candidate(edit.patch(), f"assign a new tensor to `{tree.code(written[0])}`", Keeps.PARAMETERS)


def _is_read_by_items_only(node: cst.AugAssign, tree: Tree) -> bool:
    """Whether a container of parts of a tensor, one of which is changed, is all that is read of that tensor later."""
    container = node.target.value if isinstance(node.target, cst.Subscript) else None
    around: Statement | None = tree.statement_of(node)
    if not isinstance(container, cst.Name):
        return False
    while around is not None:
        block = tree.block_of(around)
        before = block[: block.index(around)] if around in block else []
        for at, one in reversed(list(enumerate(before))):
            value = tree.given(one, container.value)
            if value is not None:
                made = {name.value for name in tree.names_in(value)} - {"self"}
                return not made & {name.value for later in block[at + 1 :] for name in tree.names_in(later)}
        parent = tree.parent_of(around)
        around = tree.statement_of(tree.parent_of(parent)) if parent is not None else None
        if isinstance(around, cst.FunctionDef):
            return False
    return False


def _into_a_clone(changed: Span, tree: Tree) -> Iterator[Candidate]:
    """``x[0] = y`` writes into a clone of ``x``; so does ``self.table.copy_(y)``."""
    call, node = tree.expression(changed), tree.node(changed, cst.AugAssign)
    target = call.value if isinstance(call, cst.Subscript) else None
    if isinstance(call, cst.Call) and isinstance(tree.parent_of(call), cst.Expr) and _is_in_place(call):
        root = _root_of(call, tree)
        if isinstance(root, cst.Attribute) and tree.code(root.value) == "self":
            target = root
    if target is None and isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Subscript):
        target = node.target.value
    if isinstance(target, (cst.Name, cst.Attribute)):
        statement = tree.statement_of(target)
        if statement is not None and tree.block_of(statement):
            name = tree.code(target)
            patch = Edit(tree).insert_before(statement, f"{name} = {name}.clone()").patch()
            yield Candidate(patch, f"write into a clone of `{name}`")


def _is_in_place(call: cst.Call) -> bool:
    """``x.copy_(y)``; a module's ``load_state_dict(state)`` changes tensors in place, and has no ``clone()``."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    return name.endswith("_") and not name.endswith("__")


def _without_inplace(node: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``nn.ReLU(inplace=True)``, ``nn.ReLU(True)`` or ``F.relu(x, inplace=True)`` without the flag."""
    if not isinstance(node, cst.Call):
        return
    name = tree.code(node.func)
    if any(arg.star == "**" for arg in node.args):
        yield from _without_the_setting(tree)
    elif isinstance(node.func, cst.Name) and not node.args and not name[:1].isupper():
        # `make()`, where `make` is a partial that has the flag
        patch = Edit(tree).change(node, lambda call: with_keyword(call, "inplace", "False")).patch()
        yield Candidate(patch, f"let `{name}` return a new tensor")
    plain: cst.CSTNode = node
    if any(arg.keyword is not None and arg.keyword.value == "inplace" for arg in node.args):
        plain = without_keyword(node, "inplace")
    elif node.args and tree.code(node.args[-1].value) == "True" and _has_the_flag_last(node, tree):
        rest = list(node.args[:-1])
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        plain = node.with_changes(args=rest)
    if not isinstance(plain, cst.Call) or plain is node:
        return
    statement = tree.parent_of(node)
    changed = node.args[0].value
    if isinstance(statement, cst.Expr) and isinstance(changed, Place):  # `F.relu(x, inplace=True)`
        given = targets_for(changed, tree)
        if given is not None:
            assigned = cst.Assign([cst.AssignTarget(one) for one in given], plain, semicolon=statement.semicolon)
            yield Candidate(
                Edit(tree).change(statement, lambda _: assigned).patch(),
                f"assign a new tensor to `{tree.code(changed)}`",
            )
        return
    yield Candidate(Edit(tree).change(node, lambda _: plain).patch(), f"let `{name}` return a new tensor")


def _has_the_flag_last(call: cst.Call, tree: Tree) -> bool:
    """Whether the last of a call's arguments is ``inplace``: ``nn.ReLU(True)``, ``F.dropout(x, p, training, True)``."""
    name = tree.called(call)
    return name[:1].isupper() or catalogue.operation(name).at("inplace") == len(call.args) - 1


def _without_the_setting(tree: Tree) -> Iterator[Candidate]:
    """``{"p": 0.1, "inplace": True}``, of which a layer is made: the flag is off."""
    for module in tree.modules():
        for element in tree.every(cst.DictElement, module):
            if tree.code(element.key) in ('"inplace"', "'inplace'") and tree.code(element.value) == "True":
                patch = Edit(tree).change(element.value, lambda _: cst.Name("False")).patch()
                yield Candidate(patch, "let the layers made from these settings return new tensors")


def _with_the_flag_off(node: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``layer.inplace = True`` with ``False``."""
    target = tree.parent_of(node) if node is not None else None
    assign = tree.parent_of(target) if isinstance(target, cst.AssignTarget) else target
    if (
        isinstance(assign, (cst.Assign, cst.AnnAssign))
        and assign.value is not None
        and tree.code(assign.value) == "True"
    ):
        patch = Edit(tree).change(assign.value, lambda _: cst.Name("False")).patch()
        yield Candidate(patch, "let the modules return new tensors")


def spelled_out(node: cst.CSTNode | None, tree: Tree, *, alone: bool = False) -> Iterator[Patch]:
    """The program in which ``x += y`` is ``x = x + y``, where there is such a spelling."""
    operator = _OPERATORS.get(type(node.operator)) if isinstance(node, cst.AugAssign) else None
    if operator is None or not isinstance(node, cst.AugAssign) or not _is_place(node.target):
        return
    given = None
    if isinstance(node.target, Place):
        given = [node.target] if alone else targets_for(node.target, tree)
    if given is None:
        return

    def spell(aug: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(aug, cst.AugAssign)
        loose: tuple[type[cst.BaseExpression], ...] = (cst.IfExp, cst.Comparison, cst.BooleanOperation, cst.Lambda)
        if operator is not cst.Add:
            loose = (*loose, cst.BinaryOperation)
        value = parenthesised(aug.value) if isinstance(aug.value, loose) else aug.value
        whole = cst.BinaryOperation(left=aug.target, operator=operator(), right=value)
        targets = [cst.AssignTarget(one) for one in given]
        return cst.Assign(targets=targets, value=whole, semicolon=aug.semicolon)

    yield Edit(tree).change(node, spell).patch()


def _is_place(node: cst.CSTNode) -> bool:
    """Whether an expression names something that may be read a second time: no call stands in it."""
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, (cst.Call, cst.NamedExpr, cst.Await)):
            return False
        pending.extend(part.children)
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def _detached_anew(call: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``h.detach_()`` becomes ``h = h.detach()``: of a view it fails, so that no other name could see it."""
    root = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    if not isinstance(call, cst.Call) or not isinstance(root, (cst.Name, cst.Attribute)):
        return
    edit, statement = Edit(tree).change(call, _renamed), tree.parent_of(call)
    if isinstance(statement, cst.Expr):
        edit.change(statement, lambda node: _assigned_to([root], node))
    yield Candidate(edit.patch(), f"detach `{tree.code(root)}` into a new tensor")


def _without_underscore(call: cst.Call, tree: Tree) -> Iterator[Candidate]:
    """``x.mul_(2).add_(1)`` becomes ``x = x.mul(2).add(1)``; inside an expression only the underscores go.

    So they do where the tensor has no name: ``conv(x).unsqueeze_(1)``.
    """
    whole: cst.BaseExpression = call
    while isinstance(above := tree.parent_of(whole), cst.Attribute) and isinstance(
        outer := tree.parent_of(above), cst.Call
    ):
        whole = outer
    chain: list[cst.Call] = []
    root: cst.BaseExpression = whole
    of_a_view = False
    while isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
        if root.func.attr.value.endswith("_"):
            chain.append(root)
        else:
            of_a_view = bool(chain)
        root = root.func.value
    made_here = isinstance(root, (cst.Call, cst.BinaryOperation, cst.UnaryOperation))
    if not chain or not (made_here or isinstance(root, (cst.Name, cst.Attribute))):
        return
    if any(isinstance(one.func, cst.Attribute) and _only_in_place(one.func.attr.value) for one in chain):
        return
    of_a_view = of_a_view or (isinstance(root, cst.Attribute) and root.attr.value in catalogue.VIEW_ATTRIBUTES)
    name = tree.code(root)
    edit = Edit(tree)
    for part in chain:
        edit.change(part, _renamed)
    statement = tree.parent_of(whole)
    if isinstance(statement, cst.Expr):
        given = targets_for(root, tree) if isinstance(root, (cst.Name, cst.Attribute)) else None
        if given is None or of_a_view:
            return  # `x.t().mul_(2)` changes `x`, which is no transposed one
        edit.change(statement, lambda node: _assigned_to(given, node))
    elif not made_here and (not isinstance(root, cst.Name) or call is not whole):
        return  # an attribute that is changed on the way keeps what it is changed to
    yield Candidate(edit.patch(), "make a new tensor" if made_here else f"assign a new tensor to `{name}`")


def _function_without_underscore(call: cst.Call, tree: Tree) -> Iterator[Candidate]:
    """``F.relu_(x)`` becomes ``x = F.relu(x)``; inside an expression only the underscore goes."""
    name = tree.called(call)
    known = catalogue.kind(name.rstrip("_"))  # `torch.nn.init.eye_` has no counterpart
    if not (name.endswith("_") and known and call.args) or _only_in_place(name):
        return
    edit = Edit(tree).change(call, _renamed)
    statement, changed = tree.parent_of(call), call.args[0].value
    if isinstance(statement, cst.Expr):
        given = targets_for(changed, tree) if isinstance(changed, Place) else None
        if given is None:
            return
        edit.change(statement, lambda node: _assigned_to(given, node))
    yield Candidate(edit.patch(), f"let `{name.rstrip('_')}` return a new tensor")


def _assigned_to(given: Iterable[Place], node: cst.CSTNode) -> cst.CSTNode:
    """The statement ``f(x)`` as an assignment of its value."""
    assert isinstance(node, cst.Expr)
    targets = [cst.AssignTarget(one) for one in given]
    return cst.Assign(targets=targets, value=node.value, semicolon=node.semicolon)


_OTHERWISE = frozenset("set_ resize_ resize_as_ requires_grad_ fill_diagonal_ detach_ swapaxes_ rename_".split())
"""Methods of which the one without the underscore does something else, or is none."""


def _only_in_place(method: str) -> bool:
    """Whether a method has no counterpart that makes a new tensor of the same value: ``fill_``, ``normal_``."""
    methods = catalogue.of_tensors()
    return method in _OTHERWISE or (method.endswith("_") and method in methods and method[:-1] not in methods)


def _renamed(node: cst.CSTNode) -> cst.CSTNode:
    """A call of a method that ends in an underscore, as one of the method without."""
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return node.with_changes(func=node.func.with_changes(attr=cst.Name(node.func.attr.value[:-1])))


def _cloned_when_kept(fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
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


def _cloned_when_made(fact: Overwritten, tree: Tree) -> Iterator[Candidate]:
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


def _cloned_when_read(fact: Overwritten, change: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``x / self.scale`` becomes ``x / self.scale.clone()``: for a buffer that every call updates.

    So do the parts of a tensor of which other parts are written: ``h[:, 0] = h[:, 1].clone() * h[:, 2].clone()``.
    """
    root = _root_of(change, tree)
    if isinstance(root, cst.Subscript):
        root = root.value
    saved = tree.expression(fact.operation or fact.saved)
    if root is None or not (_is_place(root) or isinstance(root, cst.Call)):
        return
    name = tree.code(root)
    operands = operands_of(saved)
    read = [operand for operand in operands if tree.code(_base_of(operand)) == name]
    if not read and isinstance(root, cst.Name):  # `inner = temp[:, 1:-1]`, and a part of `inner` is changed
        given = _only_given(root, tree)
        whole = tree.code(_base_of(given)) if isinstance(given, cst.Subscript) else ""
        statement = tree.statement_of(saved)
        if whole and statement is not None and any(tree.code(_base_of(operand)) == whole for operand in operands):
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
        yield _with_clones(read, name, tree)
        return
    for operand in operands:  # changed under another name: `for buffer in model.buffers(): buffer.copy_(...)`
        if isinstance(operand, cst.Attribute) and tree.code(operand.value) == "self":
            yield _with_clones([operand], tree.code(operand), tree)


def _is_part_of(name: cst.Name, whole: str, tree: Tree) -> bool:
    given = _only_given(name, tree)
    return isinstance(given, cst.Subscript) and tree.code(_base_of(given)) == whole


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


def _with_clones(read: list[cst.BaseExpression], name: str, tree: Tree) -> Candidate:
    """The program that reads a clone of *name* at these places."""
    edit = Edit(tree)
    for part in read:
        edit.change(part, lambda node: method_call(node, "clone"))
    return Candidate(edit.patch(), f"compute with a clone of `{name}`, which is modified later")


def _cloned_when_handed(change: cst.CSTNode | None, tree: Tree) -> Iterator[Candidate]:
    """``x += p; y = self.block(x)`` becomes ``y = self.block(x.clone())``, where the caller is to see ``x`` changed."""
    root, statement = _root_of(change, tree), tree.statement_of(change)
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
                if same and tree.code(_base_of(value)) == name:
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
            pending.extend(part.children)


def _root_of(change: cst.CSTNode | None, tree: Tree) -> cst.CSTNode | None:
    """``x`` of ``x *= 2``, of ``x.mul_(2).add_(1)`` and of ``F.relu_(x)``."""
    root = change.target if isinstance(change, cst.AugAssign) else change
    while isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
        handed = root.args[0].value if root.args else None
        of_module = _is_function_of_a_module(root, tree)
        if not of_module and not _is_of_tensors(root.func.attr.value):
            return root  # `box.get().mul_(2)` changes what the method of an object gives
        root = handed if of_module else root.func.value
    return root


def _is_of_tensors(name: str) -> bool:
    """Whether tensors have a method of this name."""
    return name in catalogue.of_tensors() or name.startswith("_") or catalogue.is_method(name)


def _is_function_of_a_module(call: cst.Call, tree: Tree) -> bool:
    """``F.relu_(x)`` or ``torch.nn.functional.relu_(x)``, where the name before the first dot is imported."""
    above = call.func.value if isinstance(call.func, cst.Attribute) else None
    while isinstance(above, cst.Attribute):
        above = above.value
    return isinstance(above, cst.Name) and tree.is_imported(above)


def _base_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` for ``x[0]``."""
    return node.value if isinstance(node, cst.Subscript) else node
