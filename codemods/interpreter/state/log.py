"""Log of a run: code that was executed, and calls and errors that are reported as they stand."""

from __future__ import annotations

import ast
from collections.abc import Collection

from autofix.codemods.facts.base import Span
from autofix.codemods.source.sources import Site


class Log:
    """Statements, functions and mistakes that a run has met."""

    def __init__(self) -> None:
        self.executed: set[ast.stmt] = set()
        self.left_off: set[Span] = set()
        """Loops of which the first iterations were run, and nothing ended them."""
        self.ended: set[Span] = set()
        """Loops that a ``break``, a ``return`` or an error ended."""
        self.once: set[Span] = set()
        """Loops that run once at most, if the options that say how often have their defaults."""
        self.driven: dict[Span, Collection[ast.AST] | None] = {}
        """Loops that code which was not read is taken to run: each calls a function that was handed over there.

        With each, the functions that it called, where nothing is known of its surroundings.
        """
        self.called: set[ast.AST] = set()
        self.unresolved: set[str] = set()
        """Names of functions that are called, or may be, in a way that was not followed."""
        self.unentered: set[ast.AST] = set()
        """Functions that call themselves more often than they were followed."""
        self.handed: set[ast.ClassDef] = set()
        """Classes of objects that were handed to code which was not read, and may have called any of their methods."""
        self.crashes: set[tuple[int, str]] = set()
        """Errors that the program certainly meets, with their lines: a method of None, an undefined name."""
        self.legacy: dict[tuple[str, int], Site] = {}
        self.old_functions: dict[Site, Site] = {}
        """Calls of objects of autograd's ``Function``, and the ``forward`` that is a method there."""
