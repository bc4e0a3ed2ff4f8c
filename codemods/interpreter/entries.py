"""Where reading begins: the module itself, and functions that nobody in it calls but that may run a backward pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from codemods.interpreter.frameworks import CALLED, STARTS
from codemods.source.sources import Sources, last_name, parse

MODULE = ""
"""The entry that is the module's own code."""

_WORDS = ("backward", "autograd.grad", "import grad", ".data[", "volatile", "numpy()", *CALLED)
_CALLS = frozenset(("backward", "manual_backward", "grad"))


_LIKE_TORCH = ("paddle", "jittor", "mindspore", "oneflow")
"""Libraries whose tensors have methods of the same names, and other rules."""


def may_go_wrong(texts: Iterable[str]) -> bool:
    """Whether a program's texts have what every fact needs: torch, and a pass, a leaf or a call that may fail."""
    torch = words = False
    for at, text in enumerate(texts):
        if at == 0 and "import torch" not in text and any(f"import {other}" in text for other in _LIKE_TORCH):
            return False
        torch = torch or "torch" in text
        words = words or any(word in text for word in _WORDS) or _changes_a_leaf(text)
    return torch and words


_PARAMETER = re.compile(r"(\w+)\s*=[^=\n]*(?:requires_grad\s*=\s*True|\bParameter\()")
_CHANGED = (
    r"(?:\[[^\]\n]*\]\s*=(?!=)"  # an item is set
    r"|(?:\[[^\]\n]*\])?\s*(?:[-+*/]|\*\*|//)="
    r"|\.(?!requires_grad_|detach_|share_memory_)\w+[^\W_]_\()"
)
_LAYERS = ("weight", "bias")


def _changes_a_leaf(text: str) -> bool:
    """Whether a text may change a parameter in place, which fails without any pass: ``layer.weight[0] -= 1``."""
    names = {*_LAYERS, *_PARAMETER.findall(text)}
    return re.search(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))}){_CHANGED}", text) is not None


class _Summary(NamedTuple):
    """What a function, or a module's own code, has to do with passes: whether it has one, and what it mentions."""

    name: str
    has_pass: bool
    words: frozenset[str]


def entries(sources: Sources) -> list[str]:
    """Qualified names (``train``, ``Trainer.fit``) of the script's functions worth entering, its own code first.

    Worth entering is what contains a backward pass or an old call, or calls by name something that does: reading the
    rest could show nothing.  The script's own code may call what does in another file; its functions, which are entered
    in case somebody else calls them, count only by what is in the same file.
    """
    own, *functions = _summaries(sources.main.text)
    worth, names = _worth(functions)
    if len(sources.all) > 1:
        _, names = _worth([one for source in sources.all for one in _summaries(source.text)[1:]])
    found = [name for name in worth if not name.rpartition(".")[2].startswith("__")]
    return [MODULE, *found] if own.has_pass or own.words & names else found


def _worth(functions: Sequence[_Summary]) -> tuple[list[str], set[str]]:
    """The functions that contain a pass or lead to one, in their order, and the names by which code calls them."""
    worth = [one.has_pass for one in functions]
    names: set[str] = set()
    while True:
        called = {
            name for one, is_worth in zip(functions, worth, strict=True) if is_worth for name in _called(one.name)
        }
        if called == names:
            return [one.name for one, is_worth in zip(functions, worth, strict=True) if is_worth], names
        names = called
        worth = [is_worth or bool(one.words & names) for one, is_worth in zip(functions, worth, strict=True)]


def _called(name: str) -> Iterator[str]:
    """The names by which code calls a function; for a constructor and what a module is called for, its class's too."""
    owner, _, last = name.rpartition(".")
    yield last
    if owner and last in ("__init__", "__call__", "forward"):
        yield owner
    if owner and last in CALLED:
        yield from STARTS


@lru_cache(maxsize=256)
def _summaries(text: str) -> tuple[_Summary, ...]:
    """The module's own code, then its functions and its classes' methods."""
    tree = parse(text).tree
    attributes_of_opaque = [part for part in tree.body if not isinstance(part, (ast.FunctionDef, ast.ClassDef))]
    leaves = frozenset((*_LAYERS, *_PARAMETER.findall(text)))
    own_pass = any(_has_pass(part) or _changes_one_of(part, leaves) for part in attributes_of_opaque)
    own = _Summary(MODULE, own_pass, frozenset[str]().union(*map(_mentions, attributes_of_opaque)))
    functions = (
        _Summary(
            name,
            name.rpartition(".")[2] in CALLED or _has_pass(node) or _changes_one_of(node, leaves),
            frozenset(_mentions(node)),
        )
        for name, node in _functions(tree)
    )
    return (own, *functions)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{node.name}.{member.name}", member


def _has_pass(node: ast.AST) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in _CALLS:
            return True
        if isinstance(part, ast.Name) and part.id == "grad":
            return True
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Attribute) and part.value.attr == "data":
            return True
        if isinstance(part, ast.keyword) and part.arg == "volatile":
            return True
    return False


def _changes_one_of(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether a piece of code changes in place what has one of these names, as a variable or an attribute."""
    for part in ast.walk(node):
        changed: list[ast.expr] = []
        if isinstance(part, ast.AugAssign):
            changed = [part.target]
        elif isinstance(part, ast.Assign):
            changed = [target for target in part.targets if isinstance(target, ast.Subscript)]
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            method = part.func.attr
            changed = [part.func.value] if method.endswith("_") and method not in _HARMLESS else []
        for target in changed:
            while isinstance(target, ast.Subscript):
                target = target.value
            if last_name(target) in names:
                return True
    return False


_HARMLESS = frozenset(("requires_grad_", "detach_", "share_memory_"))


def _mentions(node: ast.AST) -> set[str]:
    """Every name and attribute in a piece of code."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found
