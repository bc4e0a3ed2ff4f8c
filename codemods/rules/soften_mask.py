"""Thresholded loss: a loss is computed of a mask that a comparison made, which has no gradient."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.parts import Drop
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part, pairs_of, parenthesised
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.reduce_loss import is_used_once

_CONVERSIONS = frozenset("float double half int long to type type_as".split())


class SoftenMask(Codemod):
    """The loss is computed from thresholded probabilities, which have no gradient.

    Error:
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn.

    Cause:
        ``(torch.sigmoid(logits) > 0.5).float()`` is a step: its gradient is zero or does not exist, so PyTorch gives it
        none. A Dice or IoU loss of such a mask has no gradient.

    Fix:
        The loss takes the probabilities themselves. Metrics beside it keep the mask. Where logits were compared with 0,
        their sigmoid takes the place of the comparison.

    When it is not what you want:
        Where the forward pass must be hard, use a straight-through estimator: ``hard + prob - prob.detach()``.

    Source:
        Milletari et al., "V-Net", which defines the Dice loss on probabilities; Bengio et al., "Estimating or
        Propagating Gradients Through Stochastic Neurons".
    """

    code = "AF405"
    name = "thresholded-loss"
    answers = (CutGraph,)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, CutGraph)
        if len(fact.drops) != 1 or fact.several or fact.silent:
            return
        drop = fact.drops[0]
        compared = tree.expression(drop.span)
        soft = _soft(compared, drop, fact, tree)
        if soft is None or compared is None:
            return
        mask = _mask(compared, tree)
        statement = tree.statement_of(mask)
        part = only_part(statement)
        if statement is None or part is None:
            return
        if isinstance(part, cst.Assign) and part.value is mask:
            yield from _where_read(part, statement, soft, tree)
        elif not isinstance(part, cst.Return) or part.value is not mask:
            if is_used_once(statement, tree):
                yield Candidate(Edit(tree).change(mask, lambda _: parenthesised(soft)).patch(), _remedy(soft, tree))


def _remedy(soft: cst.BaseExpression, tree: Tree) -> str:
    return f"compute the loss from `{tree.code(soft)}`, without a threshold"


def _soft(node: cst.BaseExpression | None, drop: Drop, fact: CutGraph, tree: Tree) -> cst.BaseExpression | None:
    """The smooth expression of which a comparison is the hard form: a probability or a sigmoid; None for others."""
    if drop.how != "integer" or not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    target = node.comparisons[0]
    if not isinstance(target.operator, (cst.GreaterThan, cst.GreaterThanEqual)):
        return None
    value = node.left.with_changes(lpar=[], rpar=[])
    if fact.probable:
        return value
    threshold = target.comparator
    if isinstance(threshold, (cst.Integer, cst.Float)) and float(threshold.evaluated_value) == 0:
        return cst.Call(cst.Attribute(cst.Name(tree.torch_name(node)), cst.Name("sigmoid")), [cst.Arg(value)])
    return None


def _mask(node: cst.BaseExpression, tree: Tree) -> cst.BaseExpression:
    """The comparison with what makes numbers of it: ``(p > 0.5).float()``."""
    while True:
        attribute = tree.parent_of(node)
        call = tree.parent_of(attribute) if attribute is not None else None
        if not isinstance(attribute, cst.Attribute) or attribute.attr.value not in _CONVERSIONS:
            return node
        if not isinstance(call, cst.Call) or call.func is not attribute:
            return node
        node = call


def _where_read(part: cst.Assign, statement: Statement, soft: cst.BaseExpression, tree: Tree) -> Iterator[Candidate]:
    """``hard = (prob > 0.5).float()``: where it serves only the loss it is soft; else the loss reads what is soft."""
    if len(part.targets) != 1 or not isinstance(part.targets[0].target, cst.Name):
        return
    name = part.targets[0].target.value
    function = tree.function_of(statement)
    block = tree.block_of(statement)
    if statement not in block or isinstance(function, cst.Lambda):
        return
    again = tree.code(soft) == name  # the mask takes the name of what it was made of
    others = _writes(function, statement, tree, statement if again else None)
    if any(name in written and not _is_made_of_itself(one, name, tree) for one, written in others):
        return
    readers = [one for one in tree.statements_in(function) if _reads(one, name, tree) and one is not statement]
    if again:
        readers = [one for one in readers if _is_behind(one, statement, tree)]
    if (len(readers) == 1 or _all_for_result(readers, function, tree)) and is_used_once(statement, tree):
        edit = Edit(tree)
        if again:
            edit.remove(statement)
        else:
            edit.change(part.value, lambda _: soft)
        yield Candidate(edit.patch(), _remedy(soft, tree))
    if len(readers) > 1 and isinstance(soft, cst.Name) and not again:
        if any(soft.value in written for _, written in _writes(function, None, tree, statement)):
            return
        for reader in readers:
            edit = Edit(tree)
            for found in tree.names_in(reader):
                if found.value == name:
                    edit.change(found, lambda _: soft)
            yield Candidate(edit.patch(), _remedy(soft, tree))


def _all_for_result(readers: list[Statement], function: cst.CSTNode, tree: Tree) -> bool:
    """Whether all that *readers* compute goes into the one value that the function sends back."""
    body = tree.body_of(function) if isinstance(function, cst.FunctionDef) else []
    last = only_part(body[-1]) if body else None
    returns = [one for one in tree.statements_in(function) if isinstance(only_part(one), cst.Return)]
    if not isinstance(last, cst.Return) or isinstance(last.value, cst.Tuple) or last.value is None or len(returns) > 1:
        return False
    needed = {name.value for name in tree.names_in(last.value)}
    serving: list[Statement] = [body[-1]]
    for one in reversed(body[:-1]):
        part = only_part(one)
        targets = [target.target for target in part.targets] if isinstance(part, cst.Assign) else []
        if isinstance(part, cst.Assign) and {name.value for one in targets for name in tree.names_in(one)} & needed:
            needed |= {name.value for name in tree.names_in(part.value)}
            serving.append(one)
    return all(reader in serving for reader in readers)


def _reads(statement: Statement, name: str, tree: Tree) -> bool:
    """Whether a simple statement reads *name*, or the head of a compound one does."""
    body = getattr(statement, "body", None) if not isinstance(statement, cst.SimpleStatementLine) else None
    inside = {id(one) for one in tree.names_in(body)} if body is not None else set()
    return any(one.value == name and id(one) not in inside for one in tree.names_in(statement))


def _is_made_of_itself(statement: Statement, name: str, tree: Tree) -> bool:
    """``pred, target = pred.flatten(1), target.flatten(1)``: the name stands for the same mask as before."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return False
    given = [value for target, value in pairs_of(part.targets[0].target, part.value) if tree.code(target) == name]
    return len(given) == 1 and any(one.value == name for one in tree.names_in(given[0]))


def _writes(
    function: cst.CSTNode, but: Statement | None, tree: Tree, behind: Statement | None = None
) -> Iterator[tuple[Statement, set[str]]]:
    """The assignments in *function* and the names that they set, without *but*; only those *behind* a statement."""
    for one in tree.statements_in(function):
        if one is but or not isinstance(one, cst.SimpleStatementLine):
            continue
        if behind is not None and not _is_behind(one, behind, tree):
            continue
        for part in one.body:
            targets = [target.target for target in part.targets] if isinstance(part, cst.Assign) else []
            targets += [part.target] if isinstance(part, (cst.AugAssign, cst.AnnAssign)) else []
            yield one, {name.value for target in targets for name in tree.names_in(target)}


def _is_behind(statement: Statement, earlier: Statement, tree: Tree) -> bool:
    """Whether a statement comes after *earlier* in its block, or in a block that comes after it there."""
    block = tree.block_of(earlier)
    later = block[block.index(earlier) + 1 :]
    return any(one in later for one in (statement, *tree.enclosing(statement)))
