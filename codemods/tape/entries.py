"""Where reading begins: the module itself, and functions that nobody in it calls but that may run a backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from codemods.tape.source import Source

MODULE = ""
"""The entry that is the module's own code."""

_WORDS = ("backward", "autograd.grad", "import grad", ".data[", "volatile", "numpy()")
_CALLS = frozenset(("backward", "manual_backward", "grad"))


def may_go_wrong(text: str) -> bool:
    """Whether a text has what every fact needs: torch, and a pass that can fail or a call that is gone."""
    return "torch" in text and any(word in text for word in _WORDS)


def entries(source: Source) -> list[str]:
    """Qualified names (``train``, ``Trainer.fit``) of the functions worth entering, the module's own code first.

    Worth entering is what contains a backward pass or an old call, or calls by name something that does: reading the
    rest could show nothing.
    """
    functions = dict(_functions(source.tree))
    mentioned = {name: _mentions(node) for name, node in functions.items()}
    worth = {name for name, node in functions.items() if _has_pass(node)}
    while True:
        names = {name.rpartition(".")[2] for name in worth} | {
            name.partition(".")[0] for name in worth if name.endswith((".__init__", ".__call__", ".forward"))
        }
        more = {name for name, words in mentioned.items() if name not in worth and words & names}
        if not more:
            break
        worth |= more
    own = [part for part in source.tree.body if not isinstance(part, (ast.FunctionDef, ast.ClassDef))]
    loose = any(_has_pass(part) or _mentions(part) & names for part in own)
    found = [name for name in functions if name in worth and not name.rpartition(".")[2].startswith("__")]
    return [MODULE, *found] if loose else found


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


def _mentions(node: ast.AST) -> set[str]:
    """Every name and attribute in a piece of code."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found
