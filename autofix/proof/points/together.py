"""Point 5, fourth part: of stores that are read together, a patch empties all or none.

Features of a student and of its teacher, log-probabilities and rewards, a sum and the number of its terms: where one is
emptied and the other grows on, the losses pair values of this iteration with those of the first one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autofix.codemods.rewriting.stores import ADDING
from autofix.codemods.source.sources import last_name
from autofix.execution.record import RunRecord
from autofix.execution.runner import Script
from autofix.proof.points.base import Point, Verdict

LEFT = "the patch empties `{}`, and not `{}`, which grew along with it and is read beside it"
_FILLING = ADDING | {"clear", "popleft", "pop"}
_PICKING = frozenset(("setdefault", "get"))
_TELLING = frozenset(
    "print write log info debug warning add_scalar add_scalars add_histogram set_postfix set_postfix_str"
    " set_description plot scatter hist save dump savez".split()
)
"""Functions called for what they write alone."""
_SAMPLING = frozenset(("sample", "choice", "choices"))
_SCALING = frozenset(("div", "div_", "divide", "true_divide", "mul", "mul_"))
_PATH = re.compile(r"(?P<name>\w+)(?P<keys>(?:\[[^\]]*\])*)$")
_KEY = re.compile(r"\[([^\]]*)\]")


def of_all_read_together(before: RunRecord, after: RunRecord, patched: Script, gradients: Point) -> Point:
    """*gradients*, open where the patch empties a store and leaves another one full that is read beside it."""
    if gradients.verdict is Verdict.FAILED:
        return gradients
    read = Readings(patched)
    for emptied, other, number in left_full(before, after):
        if read.uses(other, counter=number):
            return replace(gradients, verdict=Verdict.NOT_PROVED, detail=LEFT.format(emptied, other), optional=False)
    return gradients


def left_full(before: RunRecord, after: RunRecord) -> Iterator[tuple[str, str, bool]]:
    """Each store that the patch empties, with each one that grew along with it and does not shrink with it.

    Each pair comes with whether the other one is a number, such as that of the items.
    """
    failure = before.failure
    if failure is None or not failure.passes < min(len(before.passes), len(after.passes)):
        return
    failed, patched = before.passes[failure.passes], after.passes[failure.passes]
    earlier = [one for one in before.passes[: failure.passes] if one.sizes]
    nearest = [one for one in earlier if (one.file, one.line) == (failed.file, failed.line)]
    for first in (nearest or earlier)[:1]:
        stores, numbers = (
            {
                name: (begun[name], size, now[name])
                for name, size in full.items()
                if 0 < begun.get(name, 0) < size and name in now
            }
            for begun, full, now in (
                (first.sizes, failed.sizes, patched.sizes),
                (first.numbers, failed.numbers, patched.numbers),
            )
        )
        for name, (begun, full, now) in stores.items():
            for other, (one, two, left) in (*stores.items(), *numbers.items()) if now < full else ():
                alike = begun * two == one * full or full - begun == two - one
                if alike and (two - left) * (full - begun) < (full - now) * (two - one):
                    yield name, other, other in numbers


class Readings:
    """Reads of names in the sources of a patched script."""

    def __init__(self, script: Script) -> None:
        texts = [script.text, *(text for name, text in script.others if name.endswith(".py"))]
        if script.text is None and script.path.is_file():
            texts.append(script.path.read_text(encoding="utf-8", errors="replace"))
        self._trees: list[ast.Module] = []
        self._parents: dict[ast.AST, ast.AST] = {}
        for text in texts:
            self._add(text or "")

    def _add(self, text: str) -> None:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        self._trees.append(tree)
        self._parents |= {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def uses(self, path: str, *, counter: bool) -> bool:
        """Whether the training may use what a path of variables leads to; so it may where no source names it.

        A number is used as one of items only where something is divided by it or multiplied with it.
        """
        match = _PATH.search(path)
        if match is None:
            return True
        name, keys = match["name"], _KEY.findall(match["keys"])
        places = [one for tree in self._trees for one in ast.walk(tree) if last_name(one) == name]
        if not places:
            return True
        if counter:
            return any(self._scales(one) for one in places)
        return any(self._reads(one, keys) for one in places)

    def _above(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def _scales(self, node: ast.AST) -> bool:
        """Whether something is divided by a number or multiplied with it here."""
        if not isinstance(getattr(node, "ctx", None), ast.Load) or self._is_told(node):
            return False
        scales, below = False, node
        for one in self._above(node):
            if isinstance(one, ast.Subscript) and one.slice is below:
                return False
            scales = scales or _is_scaling(one)
            below = one
        return scales

    def _reads(self, node: ast.AST, keys: Sequence[str]) -> bool:
        """Whether items are read here that are not the last ones."""
        if not isinstance(getattr(node, "ctx", None), ast.Load) or self._is_told(node) or self._is_behind(node):
            return False
        if self._is_sampled(node):
            return False
        keys = list(keys)
        while True:
            parent = self._parents.get(node)
            if isinstance(parent, ast.Subscript) and parent.value is node:
                if not isinstance(parent.ctx, ast.Load) or _is_last(parent.slice):
                    return False
                key = keys.pop(0) if keys else None
                if isinstance(parent.slice, ast.Constant) and key is not None and repr(parent.slice.value) != key:
                    return False  # another list of the same mapping
            elif isinstance(parent, ast.Attribute) and isinstance(call := self._parents.get(parent), ast.Call):
                if parent.attr in _FILLING and isinstance(self._parents.get(call), ast.Expr):
                    return False
                if parent.attr not in _PICKING or call.func is not parent:
                    return True
                parent = call
            else:
                return True
            node = parent

    def _is_sampled(self, node: ast.AST) -> bool:
        """Whether items are drawn at random, or only their number is compared: ``if len(memory) > 8``."""
        call = self._parents.get(node)
        if not isinstance(call, ast.Call) or node not in call.args:
            return False
        counted = last_name(call.func) == "len" and isinstance(self._parents.get(call), ast.Compare)
        return counted or last_name(call.func) in _SAMPLING

    def _is_told(self, node: ast.AST) -> bool:
        """Whether a value goes into a text, or into a call of which nothing comes back: ``print(total / count)``."""
        for one in self._above(node):
            if isinstance(one, ast.JoinedStr):
                return True
            if isinstance(one, ast.Expr):
                return isinstance(one.value, ast.Call) and last_name(one.value.func) in _TELLING
            if isinstance(one, ast.stmt):
                return False
        return False

    def _is_behind(self, node: ast.AST) -> bool:
        """Whether the read comes behind all loops of the module, as a curve is plotted behind the training."""
        around = list(self._above(node))
        if any(isinstance(one, (ast.FunctionDef, ast.Lambda, ast.For, ast.While)) for one in around):
            return False
        loops = [one for one in ast.walk(around[-1]) if isinstance(one, (ast.For, ast.While))]
        return bool(loops) and all((one.end_lineno or 0) < getattr(node, "lineno", 0) for one in loops)


def _is_scaling(node: ast.AST) -> bool:
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return isinstance(node.op, (ast.Div, ast.Mult, ast.Pow))
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SCALING


def _is_last(index: ast.expr) -> bool:
    """Whether an index is one of the last items: ``[-1]``, ``[-8:]``."""
    if isinstance(index, ast.Slice):
        return index.upper is None and index.lower is not None and _is_last(index.lower)
    return isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub)
