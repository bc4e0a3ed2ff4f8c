"""Overwritten value: an in-place operation becomes one that makes a new tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import (
    AppliedChanged,
    Overwritten,
    PartChanged,
    UnrecordedChanged,
    UnrecordedRead,
    ViewDetached,
    WatchedChanged,
)
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.changed import is_function_of_a_module, is_place, root_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import (
    Statement,
    calls_in,
    method_call,
    only_part,
    operands_of,
    parenthesised,
)
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.separate_parts import is_separate
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules import clones, inplace_flags
from autofix.codemods.rules.assign_out import result_assigned
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.cause import edited_by
from autofix.codemods.rules.other_names import Place, gives, targets_for
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
        For one of the views that ``chunk``, ``split`` or ``unbind`` make, for what a module with a backward hook is
        given or returns, and for a view that a custom ``autograd.Function`` or a reentrant checkpoint returns: Output
        0 of SplitBackward0 is a view and is being modified inplace. For such a view that is used when its base has been
        changed: Output 0 of Split is a view and its base or another view of its base has been modified inplace. For a
        view that is detached in place: Can't detach views in-place. For one that was made under ``no_grad``: A view was
        created in no_grad mode and is being modified inplace with grad mode enabled.

    Cause:
        An operation saves its input or its result for the backward pass: ``sigmoid``, ``exp``, ``relu`` and ``softmax``
        their result, a product its factors, a linear layer its input. An augmented assignment, a method that ends in
        an underscore, an assignment to an index or a module with ``inplace=True`` then writes over the saved tensor.

    Fix:
        The operation makes a new tensor: ``x += y`` becomes ``x = x + y``, ``x.clamp_(0)`` becomes ``x = x.clamp(0)``,
        ``inplace=True`` goes, and what ``out=`` writes is assigned. What is written by index is written into a clone.
        Several views whose base is changed are taken when it has been changed: so they see the change, as slices do. A
        view that is made under ``no_grad``, and read when a step has changed its base, is taken of the data:
        ``weight[0].detach()``.

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
        if isinstance(fact, (StaleGraph, UnrecordedRead)):
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
        if isinstance(fact, PartChanged):
            yield from _of_a_refused_view(fact, tree)
            return
        if fact.by_step:
            return
        call = tree.expression(fact.changed)
        node = tree.node(fact.changed, cst.AugAssign)
        if fact.part:
            yield from clones.when_made(fact, tree)
            yield from clones.when_read(fact, call or node, tree)
            root = root_of(call or node, tree)
            if isinstance(root, cst.Name) and is_separate(root, tree):
                yield from as_a_new_tensor(fact.changed, tree)
            if isinstance(node, cst.AugAssign) and _is_read_by_items_only(node, tree):
                # The tape takes all parts for one tensor, each with the graph of whatever was written to another.
                for candidate in as_a_new_tensor(fact.changed, tree):
                    yield replace(candidate, keeps=Keeps.PARAMETERS)
            yield from clones.when_beside(call or node, tree)
            return
        alone = call is not None and isinstance(tree.parent_of(call), cst.Expr)
        if fact.constructed is not None and not alone:  # who reads the result does not mean the input to change
            yield from _told_otherwise(fact.constructed, tree)
        if is_collected(root_of(call or node, tree), tree):
            for anew in (
                as_a_new_tensor(fact.changed, tree),
                _whole_assigned(call, tree),
                _into_a_clone(fact.changed, tree),
            ):
                yield from (replace(candidate, keeps=Keeps.APART) for candidate in anew)
            return
        yield from as_a_new_tensor(fact.changed, tree)
        if fact.shared_input and _is_an_input(root_of(call or node, tree), tree):
            for anew in (as_a_new_tensor(fact.changed, tree), _into_a_clone(fact.changed, tree)):
                yield from (replace(candidate, keeps=Keeps.INPUTS) for candidate in anew)
        yield from _whole_assigned(call, tree)
        yield from clones.when_kept(fact, tree)
        yield from clones.when_read(fact, call or node, tree)
        yield from _into_a_clone(fact.changed, tree)
        yield from clones.when_handed(call or node, tree)
        operation = tree.expression(fact.operation or fact.saved)
        for operand in (root_of(operation, tree), *operands_of(operation)):
            # changed by another name: in a function, in a loop over several
            if isinstance(operand, cst.Name) and operand.value != "self" and not _is_no_tensor(operand, tree):
                yield clones.with_clones([operand], operand.value, tree)
        yield from clones.when_made(fact, tree)


def _of_a_refused_view(fact: PartChanged, tree: Tree) -> Iterator[Candidate]:
    """Repairs of a change that autograd refuses because of the view that it is made through."""
    if isinstance(fact, ViewDetached):
        yield from _detached_anew(tree.expression(fact.changed), tree)
    elif isinstance(fact, UnrecordedRead):
        yield from _view_of_data(tree.expression(fact.made), tree.expression(fact.used), tree)
    elif fact.base:  # a new tensor would leave the views as they were, and they were to change with their base
        yield from _rows_of_a_clone(tree.expression(fact.changed), tree)
        yield from taken_again(fact, tree)
    else:
        yield from _told_otherwise(fact.constructed, tree)
        unrecorded = isinstance(fact, UnrecordedChanged)
        if _is_view_of_nothing_else(fact, tree) if unrecorded else not _is_a_row(fact, tree):
            yield from as_a_new_tensor(fact.changed, tree)
            yield from _into_a_clone(fact.changed, tree)


def _is_no_tensor(name: cst.Name, tree: Tree) -> bool:
    """Whether a name is that of a module or a function: it is called, or handed to ``checkpoint``, which calls it."""
    argument = tree.parent_of(name)
    call = tree.parent_of(argument) if isinstance(argument, cst.Arg) else None
    if (
        isinstance(call, cst.Call)
        and call.args[0] is argument
        and tree.called(call) in ("checkpoint", "functional_call")
    ):
        return True
    if tree.is_imported(name):
        return True
    for one in calls_in(tree.function_of(name)):
        owner = one.func.value if isinstance(one.func, cst.Attribute) else one.func
        asked = one.func is owner or tree.called(one) in ("parameters", "named_parameters", "state_dict")
        if asked and isinstance(owner, cst.Name) and owner.value == name.value:
            return True
    return False


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


def _view_of_data(made: cst.BaseExpression | None, used: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``w[:1].detach()`` for ``w[:1]``: made under ``no_grad``, the view passes no gradient on in any case.

    What is compared with the same part of its base, as it is later, is meant to be a copy: ``(w[:1] - first).norm()``.
    """
    several = isinstance(made, cst.Call) and catalogue.kind(tree.called(made)) not in (catalogue.VIEW, catalogue.SHAPED)
    if made is None or several:
        return
    compared = used is not None and any(one.deep_equals(made) for one in tree.inside(used))
    method = "clone" if compared else "detach"
    remedy = f"keep a copy of `{tree.code(made)}`" if compared else f"take the view of the data of `{tree.code(made)}`"
    yield Candidate(Edit(tree).change(made, lambda node: method_call(node, method)).patch(), remedy)


def _is_view_of_nothing_else(fact: PartChanged, tree: Tree) -> bool:
    """Whether nobody can see a change of a view in its base: ``start(x)[:, 0]``, or a name that is read only here."""
    base = tree.expression(fact.made)
    while True:
        match base:
            case cst.Subscript(value=whole) | cst.Attribute(value=whole):
                base = whole
            case cst.Call(func=cst.Attribute(value=whole, attr=cst.Name(name))) if catalogue.kind(name) in _SHARING:
                base = whole
            case _:
                break
    if isinstance(base, (cst.BinaryOperation, cst.UnaryOperation)):
        return True
    if isinstance(base, cst.Call):
        return bool(base.args)  # `memory.get()` may give what it keeps
    if not isinstance(base, cst.Name):
        return False
    function = tree.function_of(base)
    made = [tree.given(one, base.value) for one in tree.statements_in(function)]
    return sum(one.value == base.value for one in tree.names_in(function)) == 2 and any(
        isinstance(one, cst.Call) and one.args for one in made
    )


_SHARING = (catalogue.VIEW, catalogue.VIEWS, catalogue.SHAPED)
"""Kinds of operations whose results may share the memory of their argument."""

_REARRANGING = frozenset(("rearrange", "transpose", "permute", "view", "reshape", "flatten"))
"""Calls that give all of a piece in another form."""


def _is_a_row(fact: PartChanged, tree: Tree) -> bool:
    """Whether a part is one that a loop goes to: changed for the whole's sake, which a copy of the part would miss."""
    made = tree.expression(fact.made)
    if isinstance(fact, (WatchedChanged, AppliedChanged)):
        return False
    called = tree.called(made) if isinstance(made, cst.Call) else ""
    if not (catalogue.gives_pieces(called) or called in _REARRANGING):
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
        for off in (inplace_flags.without_inplace, inplace_flags.with_the_flag_off):
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
        yield from inplace_flags.without_inplace(call, tree)
        if is_function_of_a_module(call, tree):
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
        root = root_of(call, tree)
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


def spelled_out(node: cst.CSTNode | None, tree: Tree, *, alone: bool = False) -> Iterator[Patch]:
    """The program in which ``x += y`` is ``x = x + y``, where there is such a spelling."""
    operator = _OPERATORS.get(type(node.operator)) if isinstance(node, cst.AugAssign) else None
    if operator is None or not isinstance(node, cst.AugAssign) or not is_place(node.target):
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
    of_a_view = below = False
    while isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
        below = below or root is call
        if root.func.attr.value.endswith("_"):
            chain.append(root)
        elif below and _makes_a_tensor(root.func.attr.value):
            break  # `x.sub_(y).norm().div_(2)`: what is changed is the norm, and `x` is changed as before
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
    elif not made_here and not (isinstance(root, cst.Name) and (call is whole or _is_read_last(root, tree))):
        return  # an attribute that is changed on the way keeps what it is changed to
    yield Candidate(edit.patch(), "make a new tensor" if made_here else f"assign a new tensor to `{name}`")


def _is_read_last(name: cst.Name, tree: Tree) -> bool:
    """Whether a name that an operation in the same block has set is read nowhere behind its statement.

    The operation makes a tensor of its own, or pieces of one, which autograd lets nobody change.
    """
    statement, function = tree.statement_of(name), tree.function_of(name)
    block = tree.block_of(statement) if statement is not None else []
    if statement not in block:
        return False
    before = block[: block.index(statement)]
    set_by = next((one for one in reversed(before) if gives(one, name, tree)), None)
    part = only_part(set_by)
    if set_by is None or not isinstance(part, cst.Assign) or not isinstance(part.value, cst.Call):
        return False
    operation = tree.called(part.value)
    if not (catalogue.gives_pieces(operation) or _makes_a_tensor(operation)):
        return False
    first, last = tree.line_of(set_by), tree.line_of(statement)
    others = [one for one in tree.names_in(function) if one.value == name.value and one is not name]
    return all(
        tree.function_of(one) is function
        and (first <= tree.line_of(one) < last or isinstance(tree.parent_of(one), cst.AssignTarget))
        for one in others
    )


def _makes_a_tensor(method: str) -> bool:
    """Whether a tensor's method returns a tensor with storage of its own."""
    return catalogue.is_method(method) and catalogue.kind(method) in ("pointwise", "reduction", "shaped", "index")


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


_OTHERWISE = frozenset(
    "set_ resize_ resize_as_ requires_grad_ fill_diagonal_ detach_ swapaxes_ rename_ bernoulli_".split()
)
"""Methods of which the one without the underscore does something else, is none, or has no derivative."""


def _only_in_place(method: str) -> bool:
    """Whether a method has no counterpart that makes a new tensor of the same value: ``fill_``, ``normal_``."""
    methods = catalogue.of_tensors()
    return method in _OTHERWISE or (method.endswith("_") and method in methods and method[:-1] not in methods)


def _renamed(node: cst.CSTNode) -> cst.CSTNode:
    """A call of a method that ends in an underscore, as one of the method without."""
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return node.with_changes(func=node.func.with_changes(attr=cst.Name(node.func.attr.value[:-1])))
