"""The state of a run after the module's own code: what follows it on several paths is entered from there.

Imports and definitions are most of what a path through a library file executes, and they are the same on all paths that
begin in one of its functions.  So the state is pickled once, and each further path begins with a copy of its own.  What
no run changes (syntax trees, files) is not copied: the copies share it.
"""

from __future__ import annotations

import ast
import io
import pickle
from typing import Any

from autofix.codemods.interpreter.policy import BranchPolicy, Path
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.source.sources import Source, Sources

_WORTH = 1_000
"""Expressions and statements: what takes fewer is executed again."""
_LONG = 10_000
"""Expressions and statements that are copied for the few paths of one function as well, in a sixth of their time."""


class Prelude:
    """State after the module's own code, for the paths that begin in one of its functions."""

    def __init__(self) -> None:
        self.serves_several = False
        """Whether more than one or two paths are to begin there."""
        self._state = b""
        self._shared: list[object] = []
        self._answers: tuple[bool, ...] = ()
        self._failed = False

    def keep(self, interp: Interpreter) -> None:
        """Keep the state of a run that has executed the module's own code, if that can be copied and is worth it."""
        path = interp.policy.path
        if not path.entry or self._state or self._failed or path.answers:
            return
        if interp.steps_taken < (_WORTH if self.serves_several else _LONG):
            return
        if interp.generators or interp.tape.passes or interp.exceptions.exited:
            return
        interp.widening.forget()
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(interp)
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError):  # something that cannot be copied
            self._failed = True
            return
        self._state, self._shared = file.getvalue(), pickler.shared
        self._answers = tuple(asked.answer for asked in interp.policy.asked)

    def begin(self, policy: BranchPolicy) -> Interpreter | None:
        """A run that has executed the module's own code as this path does; None where there is none."""
        if not self._state or not self._leads_to(policy.path):
            return None
        interp = _Unpickler(io.BytesIO(self._state), self._shared).load()
        assert isinstance(interp, Interpreter)
        interp.begin_again(policy)
        return interp

    def _leads_to(self, path: Path) -> bool:
        given = path.answers[: len(self._answers)]
        return given == self._answers[: len(given)]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []
        self._places: dict[int, int] = {}

    def persistent_id(self, value: Any) -> int | None:
        """The place of what all copies share; sentinels are compared by what they are, so they are shared, too."""
        if not isinstance(value, (ast.AST, Source, Sources)) and type(value) is not object:
            return None
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.shared)
            self.shared.append(value)
        return place


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[object]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, place: int) -> object:
        return self._shared[place]
