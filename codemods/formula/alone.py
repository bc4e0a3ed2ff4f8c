"""One call of NumPy's, as a call of torch's: its arguments are tensors, plain numbers, or tensors in a list."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.formula.rewrites import called, imports_of, renamed
from autofix.codemods.formula.twins import (
    BIASED,
    BOUNDS,
    FUNCTIONS,
    REDUCTION_WORDS,
    REDUCTIONS,
    Takes,
    Twin,
    reduction,
)
from autofix.codemods.formula.values import Change
from autofix.codemods.rewriting.nodes import with_keyword
from autofix.codemods.rewriting.tree import Tree

_ARRAYS = frozenset(("array", "asarray", "ascontiguousarray"))
_AS_THEY_ARE = {"dot": ("matmul", 2), "where": ("where", 3), "outer": ("outer", 2)}
"""Functions that take only tensors: torch's name and their number; torch's ``dot`` is for vectors only."""
_NUMBERS_TOO = (Takes.OPERAND, Takes.PLAIN, Takes.INTEGERS)


def in_torch(tree: Tree, node: cst.Call, *, several: bool = False) -> Change | None:
    """Rewrite of *node* to a call of torch's; None where the result would not certainly be equal.

    *several*: the first argument is a list of tensors, not one tensor.
    """
    name = _of_numpy(tree, node)
    plain = bool(node.args) and node.args[0].keyword is None and not any(arg.star for arg in node.args)
    if not name or not plain or not tree.imports_torch(node):
        return None
    if several:
        return _of_several(tree, node, name)
    given = [arg.value for arg in node.args if arg.keyword is None]
    if name in BOUNDS:
        return _bounded(tree, node, name, given)
    if name in _AS_THEY_ARE:
        mine, count = _AS_THEY_ARE[name]
        return renamed(tree, node, mine, {}) if len(given) == len(node.args) == count else None
    if name in REDUCTIONS:
        return _reduced(tree, node, f"{tree.torch_name(node)}.", name)
    twin = FUNCTIONS.get(name)
    return renamed(tree, node, twin.name, twin.words) if twin is not None and _fits(twin, node) else None


def _of_numpy(tree: Tree, node: cst.Call) -> str:
    """NumPy's name of a called function: ``linalg.norm`` of ``np.linalg.norm(x)``; empty for others."""
    head, _, rest = tree.code(node.func).partition(".")
    path = dict(imports_of(tree, tree.module_of(node))).get(head, "")
    return f"{path}.{rest}".strip(".").removeprefix("numpy.") if path.partition(".")[0] == "numpy" else ""


def _of_several(tree: Tree, node: cst.Call, name: str) -> Change | None:
    """``np.sum(rows, axis=0)`` as ``torch.stack(rows).sum(dim=0)``, ``np.concatenate(rows)`` as ``torch.cat(rows)``."""
    if isinstance(node.args[0].value, cst.GeneratorExp):
        return None
    if name in _ARRAYS:
        return renamed(tree, node, "stack", {}) if len(node.args) == 1 else None
    twin = FUNCTIONS.get(name)
    if twin is not None and twin.takes[0] is Takes.ARRAYS:
        return renamed(tree, node, twin.name, twin.words) if _fits(twin, node) else None
    stack = f"{tree.torch_name(node)}.stack"
    if twin is not None and len(node.args) == 1 and _fits(twin, node):
        rename = renamed(tree, node, twin.name, {})

        def stacked(found: cst.CSTNode) -> cst.CSTNode:
            found = rename(found)
            assert isinstance(found, cst.Call)
            return found.with_changes(args=[cst.Arg(cst.Call(cst.parse_expression(stack), found.args))])

        return stacked
    reduce = _reduced(tree, node, "x.", name) if name in REDUCTIONS else None
    if reduce is None:
        return None

    def reduced(found: cst.CSTNode) -> cst.CSTNode:
        found = reduce(found)
        assert isinstance(found, cst.Call) and isinstance(found.func, cst.Attribute)
        items = found.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        whole = cst.Call(cst.parse_expression(stack), [items])
        return found.with_changes(func=found.func.with_changes(value=whole), args=found.args[1:])

    return reduced


def _reduced(tree: Tree, node: cst.Call, owner: str, name: str) -> Change | None:
    """Rewrite of a reduction to a function (*owner* is ``torch.``) or a method (``x.``); None for unknown arguments."""
    words = [arg.keyword.value if arg.keyword is not None else "axis" for arg in node.args[1:]]
    known = {"axis", "keepdims"} | ({"ddof"} if name in BIASED else set())
    if not known.issuperset(words) or len(set(words)) < len(words) or (words and "axis" not in words):
        return None
    if any(tree.code(arg.value) == "None" for arg in node.args[1:]):
        return None
    rename = called(cst.parse_expression(f"{owner}{reduction(name, along=bool(words))}"), REDUCTION_WORDS)
    if name in BIASED and "ddof" not in words:
        return lambda found: with_keyword(rename(found), "correction", "0")
    return rename


def _bounded(tree: Tree, node: cst.Call, name: str, given: list[cst.BaseExpression]) -> Change | None:
    """``np.maximum(0, x)`` as ``torch.clamp(x, min=0)``."""
    if len(given) != 2 or len(node.args) != 2:
        return None
    if all(map(is_number, given)):
        return None
    # A bound that has a name may be a tensor or a number: ``clamp`` takes either.
    at = 1 if is_number(given[0]) else 0
    bound = tree.code(given[1 - at])
    clamp = cst.parse_expression(f"{tree.torch_name(node)}.clamp")

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Call)
        return with_keyword(cst.Call(clamp, [cst.Arg(found.args[at].value)]), BOUNDS[name], bound)

    return change


def _fits(twin: Twin, node: cst.Call) -> bool:
    """Whether torch takes numbers where they are written, and knows all keywords."""
    given = [arg.value for arg in node.args if arg.keyword is None]
    named = {arg.keyword.value for arg in node.args if arg.keyword is not None}
    if twin.truth or len(given) > len(twin.takes) or not twin.wanted <= named or not named <= twin.words.keys():
        return False
    if any(is_number(part) and takes not in _NUMBERS_TOO for part, takes in zip(given, twin.takes, strict=False)):
        return False
    return len(given) >= sum(takes in (Takes.ARRAY, Takes.OPERAND, Takes.ARRAYS) for takes in twin.takes)


def is_number(node: cst.BaseExpression) -> bool:
    """Whether a number is written out."""
    while isinstance(node, cst.UnaryOperation):
        node = node.expression
    return isinstance(node, (cst.Integer, cst.Float))
