"""Entries of the reading: the module itself, and functions that it does not call but that may run a backward pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from autofix.codemods.autograd import groups
from autofix.codemods.interpreter.frameworks import CALLED, STARTS, is_step
from autofix.codemods.source.nodes import COMPREHENSIONS, Nodes, walk
from autofix.codemods.source.reach import ImportedPasses, imported_passes
from autofix.codemods.source.sources import Sources, last_name, parse

MODULE = ""
"""The entry that is the module's own code."""

_WORDS = ("backward", "autograd.grad", "import grad", "autograd as", ".data[", "volatile", "numpy()", *CALLED)
_GRADIENT_IMPORTED = re.compile(r"autograd import[^\n]*(?:\(|\bgrad\b)")
"""``grad`` among other names; in parentheses it may stand on a later line."""
_CALLS = frozenset(("backward", "manual_backward", "grad"))
_PASSES = _CALLS | {f".{call}" for call in _CALLS}
"""``_CALLS``, as words of a function."""


_LIKE_TORCH = ("paddle", "jittor", "mindspore", "oneflow")
"""Libraries whose tensors have methods of the same names, and other rules."""


def may_go_wrong(texts: Iterable[str]) -> bool:
    """Whether a program's texts have what every fact needs: torch, and a pass, a leaf or a call that may fail."""
    torch = words = False
    for at, text in enumerate(texts):
        says = _says(text)
        if at == 0 and says.other:
            return False
        torch = torch or says.torch
        words = words or says.words or (at == 0 and is_model_that_overwrites(text))
    return torch and words


class _Says(NamedTuple):
    """Contents of a text: torch, a word that belongs to a mistake, and another tensor library in torch's place."""

    torch: bool
    words: bool
    other: bool


@lru_cache(maxsize=4096)
def _says(text: str) -> _Says:
    return _Says(
        "torch" in text,
        any(word in text for word in _WORDS)
        or _GRADIENT_IMPORTED.search(text) is not None
        or _changes_a_leaf(text)
        or _has_old_function(text),
        "import torch" not in text and any(f"import {other}" in text for other in _LIKE_TORCH),
    )


_MODEL = re.compile(r"^class \w+\(.*Module", re.MULTILINE)
_OVERWRITES = re.compile(
    r"^\s+\w+(?:\[[^\]\n]*\])?\s*(?:[-+*/]|\*\*|//)=(?!=)"  # `x += y`
    r"|^\s+\w+\[[^\]\n]*\]\s*=(?!=)"  # an item is set
    r"|\w\.(?!requires_grad_|detach_|share_memory_|_)\w+[^\W_]_\("
    r"|inplace\s*=\s*True",
    re.MULTILINE,
)


@lru_cache(maxsize=256)
def is_model_that_overwrites(text: str) -> bool:
    """Whether a text has a model that may change a tensor in place: whoever trains it may fail by that."""
    return _MODEL.search(text) is not None and _OVERWRITES.search(text) is not None


_PARAMETER = re.compile(r"\b(\w+)\s*=[^=\n]*(?:requires_grad\s*=\s*True|\bParameter\()")
_VIEWS = sorted(groups.RESHAPES | {"narrow", "select", "diagonal"})
_PART_OF = rf"(?:\[[^\]\n]*\]|\.T\b|\.(?:{'|'.join(_VIEWS)})\([^()\n]*\))*"
"""Pattern of the steps from a tensor to a part of it."""
_CHANGED = _PART_OF + (
    r"(?:\[[^\]\n]*\]\s*=(?!=)"  # an item is set
    r"|\s*(?:[-+*/]|\*\*|//)="
    r"|\.(?!requires_grad_|detach_|share_memory_)\w+[^\W_]_\()"
)
_LAYERS = ("weight", "bias")
_PART = re.compile(rf"\b(\w+)\s*=\s*[\w.\[\]-]+\.(?:weight|bias)(?:\.(?:T|{'|'.join(_VIEWS)})\b|\[)")
"""A part of a layer's parameter: ``b = layer.bias.view(3, -1)``."""


@lru_cache(maxsize=256)
def _leaves_in(text: str) -> frozenset[str]:
    """The names of the parameters that a text makes, and those of a layer's own."""
    found = set(_LAYERS)
    if ".weight" in text or ".bias" in text:
        found.update(_PART.findall(text))
    for word in ("Parameter(", "requires_grad"):
        at = text.find(word)
        while at >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            end = len(text) if end < 0 else end
            found.update(_PARAMETER.findall(text, start, end))
            at = text.find(word, end)
    return frozenset(found)


def _changes_a_leaf(text: str) -> bool:
    """Whether a text may change a parameter in place, which fails without any pass: ``layer.weight[0] -= 1``."""
    names = "|".join(map(re.escape, sorted(_leaves_in(text))))
    return re.search(rf"\b(?:{names}){_CHANGED}", text) is not None


_FUNCTION = re.compile(r"^class \w+\(.*\bFunction\b.*\):", re.MULTILINE)
_OF_OBJECT = re.compile(r"^\s+def forward\(self\b", re.MULTILINE)


def _has_old_function(text: str) -> bool:
    """Whether a text may have a Function whose ``forward`` is a method: to call its objects fails without a pass."""
    if "Function" not in text:
        return False
    return _FUNCTION.search(text) is not None and _OF_OBJECT.search(text) is not None


@lru_cache(maxsize=256)
def _old_functions(text: str) -> frozenset[str]:
    """The names of these classes."""
    if not _has_old_function(text):
        return frozenset()
    return frozenset(
        part.name
        for part in parse(text).tree.body
        if isinstance(part, ast.ClassDef) and any(last_name(base) == "Function" for base in part.bases)
        for member in part.body
        if isinstance(member, ast.FunctionDef) and member.name == "forward" and not member.decorator_list
    )


def _users_of(old: frozenset[str], functions: Sequence[_Summary]) -> list[str]:
    """The functions that make objects of *old* Functions, and what a module is called for whose constructor does."""
    mentions = {word for name in old for word in (name, f".{name}")}
    making = [one.name for one in functions if one.words & mentions and one.name.rpartition(".")[0] not in old]
    called = {f"{name.rpartition('.')[0]}.forward" for name in making if name.endswith(".__init__")}
    return [*making, *(one.name for one in functions if one.name in called)]


class _Summary(NamedTuple):
    """Summary of a function, or of a module's own code, with respect to passes: whether it has one, and its words."""

    name: str
    has_pass: bool
    """Whether it has a pass, or another thing that may fail: an old call, a leaf that is changed in place."""
    words: frozenset[str]
    """The names that it loads and does not bind itself, and, after a dot, the attributes: ``train``, ``.step``."""
    sends: bool = False
    """Whether it has a pass, or is one that a framework runs."""
    loops: bool = False


def entries(sources: Sources) -> list[tuple[str, bool]]:
    """Qualified names (``train``, ``Trainer.fit``) of the script's functions worth entering, its own code first.

    With each, whether it leads to a pass: what fails without one fails on an object that was just made, too.

    Worth entering is what contains a backward pass or an old call, or calls by name something that does: reading the
    rest could show nothing.  The script's own code may call what does in another file; its functions, which are entered
    in case somebody else calls them, count by what is in the same file, and by passes anywhere.  What fails without a
    pass fails where it stands, and is found when that file is read; where a method does, an object is made to enter it,
    so that whoever else makes such objects shows no more.
    """
    own, *functions = _summaries(sources.main.text)
    everywhere = [one for source in sources.all for one in _summaries(source.text)[1:]]
    _, names = _worth(everywhere)
    reached = {*_worth(functions, of_objects=False)[0], *_worth(list(map(_by_passes, functions)))[0]}
    worth = [one.name for one in functions if one.name in reached]
    _, sending = _worth(list(map(_by_passes, everywhere)))
    leading = {one.name for one in functions if one.sends or one.words & sending}
    worth += [one.name for one in functions if one.name in leading and one.name not in worth]
    old = frozenset().union(*(_old_functions(source.text) for source in sources.all))
    worth += [name for name in _users_of(old, functions) if name not in worth]
    by_name = {one.name: one for one in functions}
    found = _callers_first([by_name[name] for name in worth])
    found = [name for name in found if not name.rpartition(".")[2].startswith("__")]
    found = [*_inherited(sources, found), *found]
    inherited = set(found) - {one.name for one in functions}
    own_code = [(MODULE, True)] if own.has_pass or own.words & names else []
    return [*own_code, *((name, name in leading or name in inherited) for name in found)]


def _callers_first(functions: Sequence[_Summary]) -> list[str]:
    """The names of functions, in their order, each behind those of its class or its file that call it.

    ``run``, which calls ``step`` and empties what it fills, shows how ``step`` is called; to enter ``step`` alone does
    not.
    """
    ordered: dict[str, None] = {}

    def add(one: _Summary, below: tuple[str, ...]) -> None:
        if one.name in ordered or one.name in below:
            return
        owner, _, last = one.name.rpartition(".")
        for other in functions:
            is_near = not owner or other.name.rpartition(".")[0] == owner
            if is_near and (f".{last}" if owner else last) in other.words:
                add(other, (*below, one.name))
        ordered[one.name] = None

    for one in functions:
        add(one, ())
    return list(ordered)


def _inherited(sources: Sources, worth: Collection[str]) -> list[str]:
    """The loops that classes of the script inherit from another file, and that call what is *worth* entering of theirs.

    ``Trainer.train`` of a base class calls the ``train_step`` of each class that is derived from it.
    """
    elsewhere = {
        node.name: (source.text, node)
        for source in sources.all[1:]
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }
    found: list[str] = []
    for cls in sources.main.tree.body:
        if not isinstance(cls, ast.ClassDef) or not elsewhere:
            continue
        own = {f".{name.rpartition('.')[2]}" for name in worth if name.startswith(f"{cls.name}.")}
        defined = {part.name for part in cls.body if isinstance(part, ast.FunctionDef)}
        bases = [last_name(base) for base in cls.bases]
        for _ in range(_BASES):
            base = next((name for name in bases if name in elsewhere), None)
            if base is None or not own:
                break
            text, node = elsewhere.pop(base)
            for summary in _summaries(text)[1:]:
                owner, _, name = summary.name.rpartition(".")
                if owner == base and summary.loops and name not in defined and summary.words & own:
                    found.append(f"{cls.name}.{name}")
            bases = [last_name(one) for one in node.bases]
    return found


_BASES = 4
"""Classes behind a class of the script that are looked through."""


CONTAINS, LEADS = 2, 1
"""Nearness of a function to a pass: it contains one, or leads to one by name."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The functions and words of a program that lead to a backward pass."""

    functions: Mapping[Hashable, int] = field(default_factory=dict)
    """By node of a function, how near it is to a pass."""
    words: Collection[str] = frozenset()
    """The words by which code calls these functions."""
    _begun: dict[ast.stmt, frozenset[str]] = field(default_factory=dict)
    """Answers for single statements: paths ask for the sides of the same conditions again and again."""

    def begin_in(self, statements: Iterable[ast.stmt]) -> set[str]:
        """The words by which statements run a pass, or call a function that leads to one."""
        return set().union(*map(self._begin_in, statements))

    def _begin_in(self, statement: ast.stmt) -> frozenset[str]:
        known = self._begun.get(statement)
        if known is None:
            known = self._begun[statement] = frozenset(filter(None, map(self._word_of, walk(statement))))
        return known

    def _word_of(self, part: ast.AST) -> str:
        """The word by which a node leads to a pass; empty for others."""
        if isinstance(part, ast.Name):
            return part.id if part.id in self.words else ""
        if isinstance(part, ast.Attribute) and (part.attr in _CALLS or f".{part.attr}" in self.words):
            return part.attr
        return ""


def ways(sources: Sources) -> Ways:
    """The functions and words that lead to a pass in the files of a program."""
    found: dict[Hashable, int] = {}
    worth, words = _worth([one for source in sources.all for one in _summaries(source.text)[1:]])
    names = set(worth)
    for source in sources.all:
        for (name, node), one in zip(_functions(source.tree), _summaries(source.text)[1:], strict=True):
            if name in names:
                found[node] = CONTAINS if one.words & _PASSES else LEADS
    return Ways(found, words.union(*(source.nodes.once(imported_passes).functions for source in sources.all)))


def _by_passes(one: _Summary) -> _Summary:
    """The summary of a function in which only a pass counts, nothing else that may fail."""
    return one._replace(has_pass=one.sends)


def _worth(functions: Sequence[_Summary], *, of_objects: bool = True) -> tuple[list[str], set[str]]:
    """The functions that contain a pass or lead to one, in their order, and the words by which code calls them.

    Unless ways *of_objects* count, to make an object whose constructor leads to one is not to lead to one.
    """
    worth = [one.has_pass for one in functions]
    names: set[str] = set()
    while True:
        called = {
            word
            for one, is_worth in zip(functions, worth, strict=True)
            if is_worth and (of_objects or not one.name.endswith(".__init__"))
            for word in _called(one.name)
        }
        if called == names:
            return [one.name for one, is_worth in zip(functions, worth, strict=True) if is_worth], names
        names = called
        worth = [is_worth or bool(one.words & names) for one, is_worth in zip(functions, worth, strict=True)]


def _called(name: str) -> Iterator[str]:
    """The words by which code calls a function; for a constructor and what a module is called for, its class's too.

    A method is called as an attribute; a function by its name, or as an attribute of its module.
    """
    owner, _, last = name.rpartition(".")
    if last != "__init__":  # `super().__init__()` stands in any constructor
        yield f".{last}"
    if not owner:
        yield last
    elif last in ("__init__", "__call__", "forward"):
        yield from (owner, f".{owner}")
    if owner and last in CALLED:
        # `model.train()` of a module that a framework trains sets its mode.
        yield from (f".{start}" for start in STARTS if start != "train" or last != "training_step")


@lru_cache(maxsize=256)
def _summaries(text: str) -> tuple[_Summary, ...]:
    """The module's own code, then its functions and its classes' methods."""
    parsed = parse(text)
    tree, nodes = parsed.tree, parsed.nodes
    of_function = _OfFunction(_leaves_in(text), nodes.once(imported_passes), nodes)
    functions = (parsed.remembered(node, of_function)._replace(name=name) for name, node in _functions(tree))
    own = [part for part in tree.body if not isinstance(part, (ast.FunctionDef, ast.ClassDef))]
    of_own = _summary(MODULE, chain.from_iterable(map(nodes.within, own)), of_function.leaves, of_function.imported)
    return (of_own, *functions)


@dataclass(frozen=True)
class _OfFunction:
    """Summarizes a function of a file, but for its qualified name."""

    leaves: frozenset[str]
    imported: ImportedPasses
    nodes: Nodes = field(compare=False)

    def __call__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Summary:
        return _summary(node.name, self.nodes.within(node), self.leaves, self.imported, sends=is_step(node))


def _summary(
    name: str, nodes: Iterable[ast.AST], leaves: frozenset[str], imported: ImportedPasses, *, sends: bool = False
) -> _Summary:
    """Summary of a piece of code, given by all of its nodes; *sends*: whether a framework runs a pass for it."""
    words: set[str] = set()
    bound: set[str] = set()
    fails = loops = False
    scopes = 0
    for node in nodes:
        kind = type(node)  # there are no classes derived from those of nodes, and there are very many nodes
        if isinstance(node, ast.Name):
            (words if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            if node.id in imported.functions:
                words.add("grad")
                sends = True
        elif isinstance(node, ast.Attribute):
            words.add(f".{node.attr}")
            sends = sends or (node.attr in _CALLS and _is_pass(node, imported))
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif kind in _SCOPES:
            scopes += 1
        elif kind in _LOOPS:
            loops = True
        elif kind in _MAY_FAIL:
            sends = sends or (isinstance(node, ast.Call) and last_name(node.func) == "grad")
            fails = fails or _is_old(node) or _changes_one_of(node, leaves)
    if scopes > 1 or not name:  # a name that is bound in one of them may be a function of the module in another
        bound = set()
    return _Summary(name, sends or fails, frozenset(words - bound), sends, loops)


def _is_pass(node: ast.Attribute, imported: ImportedPasses) -> bool:
    """Whether an attribute of one of these names is a pass: not ``parameter.grad``, which is what a pass leaves."""
    return node.attr != "grad" or last_name(node.value) in imported.modules


_SCOPES = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Global, *COMPREHENSIONS))
"""Nodes that bind names of their own, the function itself included."""
_LOOPS = frozenset((ast.For, ast.While))
_MAY_FAIL = frozenset((ast.Call, ast.Subscript, ast.keyword, ast.Assign, ast.AugAssign))


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{node.name}.{member.name}", member


def _is_old(node: ast.AST) -> bool:
    """Whether a node is a use of torch that has gone: ``loss.data[0]``, ``volatile=True``."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "data"
    return isinstance(node, ast.keyword) and node.arg == "volatile"


def _changes_one_of(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether a node changes in place what has one of these names, as a variable or an attribute."""
    changed: list[ast.expr] = []
    if isinstance(node, ast.AugAssign):
        changed = [node.target]
    elif isinstance(node, ast.Assign):
        changed = [target for target in node.targets if isinstance(target, ast.Subscript)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method = node.func.attr
        changed = [node.func.value] if method.endswith("_") and method not in HARMLESS else []
    for target in changed:
        while (part := _whole_of(target)) is not None:
            target = part
        if last_name(target) in names:
            return True
    return False


def _whole_of(node: ast.expr) -> ast.expr | None:
    """The tensor of which a node is a part; None where it is none."""
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "T"):
        return node.value
    function = node.func if isinstance(node, ast.Call) else None
    return function.value if isinstance(function, ast.Attribute) and function.attr in _VIEWS else None


HARMLESS = frozenset(("requires_grad_", "detach_", "share_memory_"))
