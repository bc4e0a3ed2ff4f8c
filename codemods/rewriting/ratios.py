"""Ratios of new to old values, by which the updates of PPO learn: ``(new - old).exp()``."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.computations import targets_of
from autofix.codemods.rewriting.nodes import Statement, calls_in, nodes_in, only_part, without_index
from autofix.codemods.rewriting.tree import Tree


def has_ratio(tree: Tree) -> bool:
    """Whether a loop of the program computes a ratio of new to old values, as PPO's updates do."""
    return any(relates_to_old(loop, tree) for module in tree.modules() for loop in nodes_in(module, cst.For, cst.While))


def relates_to_old(loop: Statement, tree: Tree) -> bool:
    """Whether a loop, or a function that it calls, computes ``exp(new - old)``, and makes what is new itself."""
    called = (tree.function_called(call) for call in calls_in(loop))
    return any(_has_ratio_of_its_own(part, tree) for part in (loop, *called) if part is not None)


def _has_ratio_of_its_own(loop: Statement, tree: Tree) -> bool:
    own: dict[str, cst.BaseExpression | None] = {}
    for statement in tree.statements_in(loop):
        part = only_part(statement)
        value = part.value if isinstance(part, cst.Assign) else None
        own |= dict.fromkeys(targets_of(statement, tree), value)
    for call in calls_in(loop):
        power = _exponent(call, tree)
        if isinstance(power, cst.Name):
            power = own.get(power.value)
        if isinstance(power, cst.BinaryOperation) and isinstance(power.operator, cst.Subtract):
            old = without_index(power.right)  # the loop may choose which of the old ones it takes
            if tree.paths_in(power.left) & own.keys() and not tree.paths_in(old) & own.keys():
                return True
    return False


def old_operand(fact: StaleGraph, tree: Tree) -> tuple[cst.BinaryOperation | None, cst.BaseExpression | None]:
    """The operation of two values that reads what was made before the loop, and the side on which that stands."""
    used: cst.CSTNode | None = tree.expression(fact.used)
    inner: cst.CSTNode | None = None
    while used is not None and not isinstance(used, cst.BinaryOperation):  # `new - old[batch]`, `new / old.exp()`
        if isinstance(used, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return None, None
        used, inner = tree.parent_of(used), used
    if not isinstance(used, cst.BinaryOperation):
        return None, None
    if inner is not None:
        return used, used.left if inner is used.left else used.right
    named = [side for side in (used.left, used.right) if is_value(side, fact.name, tree)]
    if len(named) == 1:
        return used, named[0]
    loop = tree.statement(fact.loop)
    own = set().union(*(targets_of(one, tree) for one in tree.statements_in(loop))) if loop is not None else set()
    sides = [side for side in (used.left, used.right) if not tree.paths_in(side) & own]
    return used, sides[0] if len(sides) == 1 else None


def is_value(operand: cst.BaseExpression, name: str, tree: Tree) -> bool:
    """Whether an operand is the value called *name*, or an attribute or item of it."""
    code = tree.code(operand).strip()
    plain = isinstance(operand, (cst.Name, cst.Attribute, cst.Subscript))
    return plain and (code == name or code.startswith((f"{name}.", f"{name}[")))


def is_ratio(used: cst.BinaryOperation, old: cst.BaseExpression, tree: Tree) -> bool:
    """Whether an operation relates a new value to the *old* one: ``new / old``, ``exp(new - old)``."""
    if isinstance(used.operator, cst.Divide):
        return used.right is old
    if not isinstance(used.operator, cst.Subtract):
        return False
    code = tree.code(used).strip()
    around = tree.parent_of(used)
    given = [code.strip("()"), code]
    if isinstance(around, cst.Assign) and isinstance(around.targets[0].target, cst.Name):
        given = [around.targets[0].target.value]
    raised = (_exponent(call, tree) for call in calls_in(tree.function_of(used)))
    return any(one is not None and tree.code(one).strip("()") in given for one in raised)


def _exponent(call: cst.Call, tree: Tree) -> cst.BaseExpression | None:
    """``x`` of ``x.exp()`` and ``torch.exp(x)``."""
    if tree.called(call) != "exp":
        return None
    own = call.func.value if isinstance(call.func, cst.Attribute) else None
    return call.args[0].value if call.args else own
