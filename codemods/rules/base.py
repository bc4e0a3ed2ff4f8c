"""What a codemod is: a code, a name, the facts it answers, and candidate rewrites for each."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting import unsent
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.cause import place_of
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import parse, parses


@dataclass(frozen=True)
class Candidate:
    """One possible patch, what it does in one sentence, and what it must keep."""

    patch: Patch
    remedy: str
    keeps: Keeps = Keeps.EDGES
    cause: Span | None = None
    """Place of the mistake, where the rule knows it better than by the place that the patch edits."""
    last: bool = False
    """Whether it is tried only where all others, of every fact, have left something to be repaired."""

    @property
    def program(self) -> Program:
        """The patched program."""
        return self.patch.patched


class _Kind(ABCMeta):
    """Makes a codemod a command of LibCST as well, where it is loaded as one.

    What LibCST's commands import takes a quarter of a second, which nobody else is to wait for.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: object) -> type[Codemod]:
        is_documented = namespace["__module__"].rpartition(".")[0] == _DOCUMENTED
        if bases and (is_documented or "libcst.codemod" in sys.modules):
            from autofix.codemods.command import Command

            bases = bases if any(issubclass(one, Command) for one in bases) else (*bases, Command)
        return super().__new__(cls, name, bases, namespace, **options)  # type: ignore[return-value]


_DOCUMENTED = "autofix.codemods"
"""Package from which LibCST's command line is told to take a codemod: ``autofix.codemods.detach_stored``."""


class Codemod(metaclass=_Kind):
    """The base of every codemod.  A subclass's docstring is its user documentation: the first line, then sections.

    Also a command of LibCST, ``python -m libcst.tool codemod``, as ``autofix.codemods.`` with its module and class.
    """

    code: ClassVar[str] = ""
    name: ClassVar[str] = ""
    answers: ClassVar[tuple[type[Fact], ...]] = ()
    rank: ClassVar[int] = 50
    """Rank among the codemods that answer one fact: lower ones are asked first."""
    recomputes: ClassVar[bool] = False
    """Whether it computes values anew.  Mistakes that come to light behind it are then repaired by it alone, and their
    values never detached: the new value would be one of old parameters."""
    unguards: ClassVar[bool] = False
    """Whether it takes away the condition of what it computes anew."""
    corrects_names: ClassVar[bool] = False
    """Whether it corrects a pass over one loss that was meant for another: no other codemod repairs that."""
    renames: ClassVar[bool] = False
    """Whether it computes everything where it was, and only writes it another way."""

    @classmethod
    def title(cls) -> str:
        """The first line of the documentation."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @abstractmethod
    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        """Patches for *fact*, the preferred one first; lazily, since the first that stands is taken."""

    def cause(self, fact: Fact, tree: Tree, candidate: Candidate) -> Span:
        """First place to look for the mistake that *candidate* corrects: the one in the story that it edits."""
        return candidate.cause or place_of(fact, tree, candidate.patch)

    def objection(self, fact: Fact, left: Iterable[Fact], patch: Patch) -> str:
        """Why a patch that loses nothing is no repair, by the facts that it has *left*; empty where it is one."""
        return ""

    def offers(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        """The candidates that are programs, up to the first that cannot even be written down."""
        if not self.corrects_names and unsent.meant(fact, tree) is not None:
            return
        with suppress(cst.ParserSyntaxError):
            yield from filter(_is_python, self.candidates(fact, tree))


def _is_python(candidate: Candidate) -> bool:
    """Whether the files that a candidate changes parse: LibCST writes ``for x.detach() in xs`` without a word.

    A module is no tensor either: ``torch.clone().exp(x)`` parses, and nobody wrote it.
    """
    changed = [theirs.text for _, theirs in candidate.patch.program.changed(candidate.program)]
    return all(parses(text) and not _asks_a_module(text) for text in changed)


_OF_A_TENSOR = frozenset(("clone", "detach", "detach_", "item", "mean", "requires_grad_", "sum"))
_ASKED = re.compile(rf"\b(\w+)\.(?:{'|'.join(sorted(_OF_A_TENSOR))})\(\)")


def _asks_a_module(text: str) -> bool:
    """Whether a method of tensors is called, without an argument, of what ``import`` gives."""
    asked = set(_ASKED.findall(text))
    if not asked:
        return False
    nodes = parse(text).nodes
    modules = {alias.asname or alias.name.partition(".")[0] for node in nodes.of(ast.Import) for alias in node.names}
    return bool(asked & modules) and any(
        not (node.args or node.keywords)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _OF_A_TENSOR
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in modules
        for node in nodes.of(ast.Call)
    )
