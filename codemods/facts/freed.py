"""A graph that a backward call freed is needed by a later one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.parts import Carrier, Outer, Severed


@dataclass(frozen=True, kw_only=True)
class StaleGraph(Fact):
    """A tensor whose graph an earlier backward freed is reached by a later backward."""

    code = "AF100"
    kind = "stale graph"
    error = "Trying to backward through the graph a second time"
    phrases = {
        "made": "the graph is made here",
        "kept": "kept here",
        "used": "used here",
        "walked": "the backward that frees the graph passes through here",
        "freed": "this backward frees the graph",
        "failed": "this backward reaches the freed graph",
        "loop": "across iterations of this loop",
    }

    made: Span
    kept: Span | None = None
    used: Span
    walked: Span | None = None
    freed: Span
    failed: Span
    loop: Span | None = None
    inside: bool = True
    """Whether an earlier iteration of the loop made the tensor; false for a tensor made before the loop."""
    carried_within: bool = field(default=False, compare=False, metadata={"role": False})
    """Whether a loop inside carries it on, too, within one iteration: a state of a sequence, or of time steps."""
    fed: bool = field(default=True, compare=False, metadata={"role": False})
    """Whether the call that made the tensor was given something with a graph: noise, and most data, have none."""
    carriers: tuple[Carrier, ...] = ()
    """All the statements that carried the tensor, in order."""
    outside: tuple[Carrier, ...] = ()
    """The carriers that set attributes or items, under the callers' names for the attribute or the container."""
    outer: Outer | None = None
    together: bool = field(default=False, metadata={"role": False})
    """Whether one step, and no other, uses the gradients of both passes."""
    stepped: bool = field(default=True, metadata={"role": False})
    """Whether an optimizer steps between the two passes, or they are in different iterations."""
    repeats: bool = field(default=False, metadata={"role": False})
    """Whether the loss of the failing pass has a term of the other one's loss, as the sum of all losses so far has."""
    total: bool = field(default=False, metadata={"role": False})
    """Whether the failing pass is of a sum of losses, each taken once, that were sent backward where this one was."""
    thawed: bool = field(default=False, metadata={"role": False})
    """Whether it is a frozen parameter, which a change in place has given a graph."""
    target: bool = field(default=False, metadata={"role": False})
    """For a tensor made before the loop: whether each iteration compares it with what the same parameters give then."""
    served: bool = field(default=False, metadata={"role": False})
    """Whether the loop goes through items of unknown number and origin, such as the batches of a loader."""
    name: str = ""
    """The source text of the kept value, for messages: ``temp``, ``self.hidden``, ``hidden``."""
    text: str = field(default="", compare=False, metadata={"role": False})
    """The expression that makes the tensor, for the message where nothing keeps it: ``self.net(...)``."""
    sources: tuple[Carrier, ...] = field(default=(), compare=False, metadata={"role": False})
    """For a tensor made before the loop: the statements by which every part of it with a graph came, in order."""
    computed_by: tuple[Span, ...] = field(default=(), compare=False, metadata={"role": False})
    """For such a tensor: the statements that keep a graph, among all values that cross the loop to the same pass."""
    severed: Severed | None = None
    replaces: bool = field(default=False, compare=False, metadata={"role": False})
    """Whether it is computed, element by element, of a parameter of its name that an optimizer was given."""
    differentiated: bool = field(default=False, metadata={"role": False})
    """Whether the freeing call of ``autograd.grad`` returned a gradient that a later pass takes for a constant."""

    @property
    def cause(self) -> Span:
        return self.made if self.thawed else self.kept or self.used

    @property
    def message(self) -> str:
        what = f"`{self.name or self.text}`" if self.name or self.text else "a tensor"
        if self.thawed:
            return f"{what} gives a frozen parameter a graph, which later backwards run through"
        if self.loop is not None and self.inside:
            return f"{what} carries the graph of an earlier iteration into a later backward"
        if self.loop is not None:
            return f"the graph of {what} is built once before the loop, and every iteration's backward runs through it"
        return f"{what}'s graph was already freed by the backward at {self._where(self.freed)}"

    @property
    def gist(self) -> str:
        if self.loop is not None:
            return self.message
        what = f"`{self.name or self.text}`" if self.name or self.text else "a tensor"
        return f"the graph of {what} was already freed by an earlier backward"

    def _where(self, span: Span) -> str:
        """A line as the reader of the cause finds it: with the file where that is another one, or with its cell."""
        _, of_cell, cell = span.path.rpartition(":cell ")
        if of_cell:
            return f"cell {cell}, line {span.line}"
        return f"line {span.line}" if span.path == self.cause.path else f"{PurePath(span.path).name}:{span.line}"
