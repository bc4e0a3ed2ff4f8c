"""Unreduced loss: a loss per element is sent backward as it is."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, is_item, method_call, only_part, pairs_of
from autofix.codemods.rewriting.stores import only_value
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_NUMBERS = frozenset(("item", "detach", "tolist", "data"))
_ROOTS = frozenset(("outputs", "tensors"))


class ReduceLoss(Codemod):
    """backward is called on a loss of several elements.

    Error:
        RuntimeError: grad can be implicitly created only for scalar outputs.

    Cause:
        A criterion with ``reduction="none"`` (or ``reduce=False``), or a formula without a sum, gives one loss for each
        element; ``nn.DataParallel`` makes one number for each GPU of a loss that its model returns. A backward begins
        with the gradient of one number.

    Fix:
        ``.mean()``, which is what a criterion does by default, so that the size of the batch does not change the size
        of the steps; ``.sum()`` of what is divided by the sum of its weights already. Where the gradient of data is
        asked for (a penalty, a force), ``.sum()``: each row has its own.

    When it is not what you want:
        Where the elements have weights, or some are masked, divide the sum by the weights' sum. Where the losses of a
        batch are to be added up, ``.sum()``.

    Source:
        torch.Tensor.backward in the PyTorch documentation, ``gradient``.
    """

    code = "AF801"
    name = "unreduced-loss"
    answers = (NotScalar,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, NotScalar)
        failed = tree.expression(fact.failed)
        root = _root(failed)
        if failed is None or root is None:
            return
        if fact.by_row:
            # The gradient of the sum has a row's own gradient in each row; that of the mean a part of it.
            patch = Edit(tree).change(root, lambda node: method_call(node, "sum")).patch()
            yield Candidate(patch, f"take the gradient of each element of `{tree.code(root)}`")
            return
        readers = list(_readers([*tree.statements_in(_home(root, tree))], root, tree))
        needed = any(_needs_number(one, tree) for one in readers)
        assigned = _assigned(root, failed, tree) if needed or isinstance(root, cst.Name) else None
        made = tree.expression(fact.made)
        returned = only_part(tree.statement_of(made)) if assigned is not None else None
        name = tree.code(root)
        value = assigned or _given_last(root, failed, tree) or root
        dims = {_dim_of(one, tree) for one in _softmaxes_in(value, tree)}
        if dims and dims != {"0"}:
            return  # along which dimension the weights make one is not known
        how = "sum" if dims or _is_weighted_mean(value, tree) else "mean"
        remedy = f"take the {how} of `{name}` over its elements"
        if (
            isinstance(returned, cst.Return)
            and made is not None
            and returned.value is made
            and is_used_once(made, tree)
        ):
            yield Candidate(Edit(tree).change(made, lambda node: method_call(node, how)).patch(), remedy)
        shared = _returned_with_others(root, failed, tree)
        if shared is not None:
            patch = Edit(tree).change(shared, lambda node: method_call(node, how)).patch()
            yield Candidate(patch, remedy, cause=tree.row_of(shared))
        if assigned is not None:
            yield Candidate(Edit(tree).change(assigned, lambda node: method_call(node, how)).patch(), remedy)
        if needed:
            yield from _reduced_before(root, failed, how, tree)
            return  # reduced for the pass alone, the loss would fail where it is made a number
        if any(
            _needs_number(one, tree)
            for other in _other_names(root, tree)
            for one in _readers([*tree.statements_in(_home(other, tree))], other, tree)
        ):
            return
        patch = Edit(tree).change(root, lambda node: method_call(node, how)).patch()
        yield Candidate(patch, f"call backward on the {how} of `{name}`")


def _is_weighted_mean(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether the elements of a loss are shares of its mean: ``loss * w / w.sum()``, ``loss * (w / w.sum())``.

    A factor may be a name that was given such weights.
    """
    if isinstance(value, cst.Name):
        given = only_value(value.value, tree.function_of(value), tree)
        return given is not None and not isinstance(given, cst.Name) and _is_weighted_mean(given, tree)
    if not isinstance(value, cst.BinaryOperation):
        return False
    if _divides_by_sum(value, tree):
        return True
    factors = isinstance(value.operator, cst.Multiply | cst.Divide)
    parts = (value.left, value.right) if isinstance(value.operator, cst.Multiply) else (value.left,)
    return factors and any(_is_weighted_mean(part, tree) for part in parts)


def _softmaxes_in(value: cst.BaseExpression, tree: Tree) -> Iterator[cst.Call]:
    """The calls of ``softmax`` that make factors of a loss: weights, which sum up to one."""
    if isinstance(value, cst.Name):
        given = only_value(value.value, tree.function_of(value), tree)
        if isinstance(given, cst.BinaryOperation):
            yield from _softmaxes_in(given, tree)
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        for part in (value.left, value.right):
            made = only_value(part.value, tree.function_of(part), tree) if isinstance(part, cst.Name) else part
            while isinstance(made, cst.Call) and tree.called(made) == "detach" and isinstance(made.func, cst.Attribute):
                made = made.func.value
            if isinstance(made, cst.Call) and tree.called(made) == "softmax":
                yield made
            else:
                yield from _softmaxes_in(part, tree)


def _dim_of(call: cst.Call, tree: Tree) -> str:
    """The dimension that a ``softmax`` is told, as it is written."""
    named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == "dim"]
    places = [one.value for one in call.args if one.keyword is None][tree.is_of_torch(call.func) :]
    found = [*named, *places]
    return tree.code(found[0]) if found else ""


def _divides_by_sum(value: cst.BinaryOperation, tree: Tree) -> bool:
    """Whether an operation is a division by the sum of a tensor: ``w / w.sum()``, ``w / torch.sum(w).clamp(min=1)``."""
    divisor: cst.BaseExpression | None = value.right if isinstance(value.operator, cst.Divide) else None
    while isinstance(divisor, cst.Call):
        if tree.called(divisor) == "sum":
            return len(divisor.args) == tree.is_of_torch(divisor.func)  # no dimension
        divisor = divisor.func.value if isinstance(divisor.func, cst.Attribute) else None
    return False


def _reduced_before(root: cst.BaseExpression, failed: cst.BaseExpression, how: str, tree: Tree) -> Iterator[Candidate]:
    """``loss = loss.mean()``, before the pass and all that reads the loss as one number."""
    statement = tree.statement_of(failed)
    block = tree.block_of(statement) if statement is not None else []
    name = tree.code(root)
    if statement is None or statement not in block or not (isinstance(root, cst.Name) or "." in name or is_item(root)):
        return
    home = set(_readers([*tree.statements_in(_home(root, tree))], root, tree))
    if any(_needs_number(one, tree) for one in home - set(_readers(block, root, tree))):
        return
    readers = [list(_readers([part], root, tree)) for part in block]
    needing = [at for at, some in enumerate(readers) if any(_needs_number(one, tree) for one in some)]
    first = min([*needing, block.index(statement)])
    later = [one for one in _readers(block[first:], root, tree) if one is not root]
    if any(isinstance(part, cst.For | cst.While) for part in tree.enclosing(block[first])) and not any(
        tree.given(one, name) is not None or name in tree.paths_in(one) for one in block[:first]
    ):
        return  # in the next iteration it would be reduced again
    if all(_wants_number(one, tree) for one in later):
        patch = Edit(tree).insert_before(block[first], f"{name} = {name}.{how}()").patch()
        yield Candidate(patch, f"take the {how} of `{name}` over its elements")


def _other_names(root: cst.BaseExpression, tree: Tree) -> Iterator[cst.BaseExpression]:
    """Other names of the loss: ``mine`` of ``mine = loss`` and of ``loss = mine = criterion(out, y)``."""
    for statement in tree.statements_in(_home(root, tree)):
        part = only_part(statement)
        if isinstance(part, cst.Assign):
            targets: list[cst.BaseExpression] = [one.target for one in part.targets]
            same = [one for one in (*targets, part.value) if tree.code(one) == tree.code(root)]
            yield from (one for one in targets if same and one not in same)


def _home(node: cst.BaseExpression, tree: Tree) -> cst.CSTNode:
    """Scope in which a name means one thing: its function; the class for an attribute of its object."""
    return (isinstance(node, cst.Attribute) and tree.class_of(node)) or tree.function_of(node)


def _returned_with_others(
    root: cst.BaseExpression, failed: cst.BaseExpression, tree: Tree
) -> cst.BaseExpression | None:
    """Value of *root* in the function that returns it with others: ``loss, parts = f(x)``; None if it may serve others.

    All readers of a name for it must want a single number.
    """
    statement = tree.statement_of(failed)
    if statement is None or not isinstance(root, (cst.Name, cst.Subscript)):
        return None
    block = tree.block_of(statement)
    for earlier in reversed(block[: block.index(statement)] if statement in block else []):
        part = only_part(earlier)
        call = part.value if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
        function = tree.function_called(call) if isinstance(call, cst.Call) else None
        if not isinstance(part, cst.Assign) or function is None:
            continue
        returned = list(tree.returned_by(function))
        value = _taken_out(part.targets[0].target, root, returned[0], tree) if len(returned) == 1 else None
        if value is None:
            continue
        others = [one for one in block if one is not earlier]
        if not is_used_once(value, tree) or not all(_wants_number(name, tree) for name in _readers(others, root, tree)):
            return None
        return _computed_as(value, function, tree)
    return None


def _taken_out(
    target: cst.BaseAssignTargetExpression, root: cst.BaseExpression, returned: cst.BaseExpression, tree: Tree
) -> cst.BaseExpression | None:
    """Part of *returned* that becomes *root* by its assignment to *target*: an item of a tuple or dict; else None."""
    if isinstance(target, cst.Tuple) and isinstance(returned, cst.Tuple):
        pairs = pairs_of(target, returned)
        return next((value for one, value in pairs if tree.code(one) == tree.code(root)), None)
    if isinstance(root, cst.Subscript) and isinstance(returned, cst.Dict) and len(root.slice) == 1:
        index = root.slice[0].slice
        key = tree.code(index.value) if isinstance(index, cst.Index) else ""
        items = [one for one in returned.elements if isinstance(one, cst.DictElement) and tree.code(one.key) == key]
        return items[0].value if items and tree.code(root.value) == tree.code(target) else None
    return None


def _computed_as(value: cst.BaseExpression, function: cst.FunctionDef, tree: Tree) -> cst.BaseExpression | None:
    """The expression that *function* computes what it returns with; None where others there read it as it is."""
    if not isinstance(value, cst.Name):
        return value
    given = [
        (one, made)
        for one in tree.statements_in(function)
        if not isinstance(one, cst.BaseCompoundStatement) and (made := _value_given(one, value.value, tree)) is not None
    ]
    if len(given) != 1:
        return None
    rest = [one for one in tree.statements_in(function) if isinstance(one, cst.SimpleStatementLine)]
    readers = _readers([one for one in rest if one is not given[0][0]], value, tree)
    return given[0][1] if all(_wants_number(name, tree) for name in readers) else None


def is_used_once(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether the function around is called in one place of the program: nobody else takes its result for a metric."""
    function = tree.function_of(node)
    if not isinstance(function, cst.FunctionDef):
        return True
    name = function.name.value
    owner = tree.class_of(function)
    if owner is not None and name in ("forward", "__call__"):
        name = owner.name.value
    mentions = sum(one.value == name for module in tree.modules() for one in tree.every(cst.Name, module))
    return mentions <= 2


def _root(call: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The root of the pass that a call runs: ``loss`` in ``loss.backward()``, and in ``scaler.backward(loss)``."""
    if not isinstance(call, cst.Call):
        return None
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value in _ROOTS]
    if named:
        return named[0]
    if call.args and call.args[0].keyword is None:
        return call.args[0].value
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def _assigned(root: cst.BaseExpression, failed: cst.BaseExpression, tree: Tree) -> cst.BaseExpression | None:
    """The expression that the root's name was given last, where all else that reads the name wants one number."""
    statement = tree.statement_of(failed)
    if statement is None or not (isinstance(root, (cst.Name, cst.Attribute)) or is_item(root)):
        return None
    block = tree.block_of(statement)
    for earlier in reversed(block[: block.index(statement)] if statement in block else []):
        value = _value_given(earlier, tree.code(root), tree)
        if value is not None:
            rest = block if isinstance(root, cst.Name) else list(tree.statements_in(_home(root, tree)))
            readers = _readers([part for part in rest if part is not earlier], root, tree)
            return value if all(_wants_number(name, tree) for name in readers) else None
        if tree.code(root) in tree.paths_in(earlier):
            return None
    return None


def _given_last(root: cst.BaseExpression, failed: cst.BaseExpression, tree: Tree) -> cst.BaseExpression | None:
    """The expression that the root was given last in the block of the pass."""
    statement = tree.statement_of(failed)
    block = tree.block_of(statement) if statement is not None else []
    earlier = reversed(block[: block.index(statement)] if statement in block else [])
    return next((value for one in earlier if (value := _value_given(one, tree.code(root), tree)) is not None), None)


def _value_given(statement: Statement, name: str, tree: Tree) -> cst.BaseExpression | None:
    """The value that a statement assigns to *name*, also beside others: ``loss, count = criterion(out, y), 1``."""
    value = tree.given(statement, name)
    return None if isinstance(value, cst.Name) and value.value == name else value


def _readers(statements: list[Statement], root: cst.BaseExpression, tree: Tree) -> Iterator[cst.BaseExpression]:
    code = tree.code(root)
    for statement in statements:
        for one in tree.names_in(statement) if isinstance(root, cst.Name) else tree.inside(statement):
            if one is not root and isinstance(one, type(root)) and tree.code(one) == code:
                yield one


def _wants_number(name: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a mention of the loss is of the kind that only a number allows, or does not mind."""
    around = tree.parent_of(name)
    if isinstance(around, cst.Attribute):
        return around.attr.value in _NUMBERS
    if isinstance(around, (cst.FormattedStringExpression, cst.AssignTarget)):
        return True
    call = tree.parent_of(around) if isinstance(around, cst.Arg) else None
    return isinstance(call, cst.Call) and tree.code(call.func) in ("float", "print", "round")


def _needs_number(name: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a mention of the loss fails where it has several elements: ``loss.item()``, ``float(loss)``."""
    around = tree.parent_of(name)
    if isinstance(around, cst.Attribute):
        return around.attr.value == "item"
    call = tree.parent_of(around) if isinstance(around, cst.Arg) else None
    return isinstance(call, cst.Call) and tree.code(call.func) in ("float", "round")
