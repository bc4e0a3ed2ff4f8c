"""Counters and containers in loops of which only some iterations are run: from a later one on, bounds are known."""

from __future__ import annotations

import ast
from collections.abc import Callable

from autofix.codemods.interpreter.state.environment import Environment
from autofix.codemods.interpreter.state.numbers import Numbers
from autofix.codemods.interpreter.values import Binding, Sequence, Symbol, Value

Home = tuple[dict[str, Binding], str]
"""The table of names in which a number stands, and its name."""


class Widening:
    """Values that become uncertain where a loop's second iteration stands for any later one."""

    def __init__(self, environment: Environment, numbers: Numbers) -> None:
        self._environment = environment
        self._fresh = numbers
        self.cut_short: dict[int, int] = {}
        """Instances of running loops that are past the first iteration and of which not all iterations will be run.

        Each with the time at which its present iteration began, as ``begun`` counts it.
        """
        self.incomplete: set[int] = set()
        """Instances of all loops of which not all iterations were run."""
        self.growing: list[Callable[[], None]] = []
        """Functions that make counters and growing lists uncertain."""
        self._begun: dict[tuple[int, str], int] = {}

    def begins(self, home: Home | None) -> None:
        """A number is set anew under a name."""
        if home is not None:
            self._begun[id(home[0]), home[1]] = next(self._fresh)

    def begun(self, home: Home | None) -> int:
        """Time at which the number under a name was last set, and not only raised; 0 where it is not known."""
        return self._begun.get((id(home[0]), home[1]), 0) if home is not None else 0

    def widened(self, value: Value, node: ast.AST, since: int) -> Value:
        """A counter that is raised in a loop of which only some iterations run: from here on only a lower bound.

        One that was set *since* the present iteration began counts within this iteration.
        """
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if any(since < began for began in self.cut_short.values()):
                return Symbol(("count", id(node), next(self._fresh)), low=value)
        return value

    def counts(self, home: Home | None, since: int, node: ast.AST) -> None:
        """The number under a name was just raised: in later iterations only its lower bound will be known."""
        if home is None:
            return
        names, name = home
        self._begun[id(names), name] = since

        def blur() -> None:
            slot = names.get(name)
            if slot is not None and isinstance(slot.value, (int, float)) and not isinstance(slot.value, bool):
                names[name] = Binding(Symbol(("count", id(node), next(self._fresh)), low=slot.value))

        if self._environment.loops:
            self.growing.append(blur)

    def grows(self, container: Sequence) -> None:
        """An item was just added: in later iterations the container may hold more."""

        def blur() -> None:
            container.more = container.more or bool(container.items)

        if self._environment.loops:
            self.growing.append(blur)

    def stand_for_later(self, since: int) -> None:
        """From here on the state stands for that of any later iteration of a loop in which ``growing[since:]`` grew."""
        for blur in self.growing[since:]:
            blur()

    def forget(self) -> None:
        """Forget all counters; no loop is running, so the present ones were set before any loop that will run."""
        self.growing.clear()
        self._begun.clear()
