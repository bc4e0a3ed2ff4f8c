"""Graphs that outlive their use: held in memory, handed out, copied, sent to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import OutGiven
from autofix.codemods.facts.parts import Carrier, Form


@dataclass(frozen=True, kw_only=True)
class GraphHeld(Fact):
    """Graphs are kept alive that no backward will use: memory grows with every iteration."""

    code = "AF600"
    kind = "graph held"
    error = ""
    phrases: ClassVar[dict[str, str]] = {
        "handed": "handed over with the graph here",
        "kept": "kept with the graph here",
        "loop": "in every iteration of this loop",
    }

    handed: Span | None = None
    """The argument of the call that led to what keeps it."""
    kept: Span
    loop: Span
    expression: Span | None = field(default=None, metadata={"role": False})
    """The value's own expression, where it has one."""
    form: Form = Form.TENSOR
    parts: tuple[Span, ...] = ()
    """Expressions of the values with a graph that are put into a container or an object first."""
    evaluates: bool = False
    """Whether the loop evaluates: nothing in it needs a graph at all."""
    mixed: bool = field(default=False, metadata={"role": False})
    """Whether the kept value is a dictionary of tensors and other things."""
    begun: bool = field(default=False, compare=False, metadata={"role": False})
    """Whether what it is put into in place had a graph before the loop: each change adds to that graph, as it is."""
    updates: bool = False
    """Whether it is a frozen parameter that takes in the graph of what it is updated with."""
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.handed or self.kept

    @property
    def message(self) -> str:
        if self.updates:
            return f"the frozen parameter `{self.name}` takes in the graph of every update, and memory grows"
        return f"`{self.name}` keeps the graph of every iteration alive, and no backward uses it"


@dataclass(frozen=True, kw_only=True)
class GraphEscapes(Fact):
    """A tensor with a graph is converted to NumPy."""

    code = "AF500"
    kind = "graph escapes"
    error = "Can't call numpy() on Tensor that requires grad"
    phrases: ClassVar[dict[str, str]] = {"call": "leaves torch here"}

    call: Span
    value: Span | None = field(default=None, metadata={"role": False})
    """The argument that has the graph, where it is one; else it is what the method is called on."""
    form: Form = Form.TENSOR
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` hands a tensor with a graph to NumPy"


@dataclass(frozen=True, kw_only=True)
class GraphCopied(Fact):
    """A deep copy is made of something that holds a tensor with a graph."""

    code = "AF510"
    kind = "graph copied"
    error = "Only Tensors created explicitly by the user"
    phrases: ClassVar[dict[str, str]] = {"kept": "a tensor with a graph is kept here", "call": "copied here"}

    kept: Span | None = None
    """The statement that put the tensor into the object that is copied."""
    call: Span
    carriers: tuple[Carrier, ...] = ()
    """The statements that put tensors with graphs into the copied object."""
    value: Span | None = field(default=None, metadata={"role": False})
    """The copied expression, where it is the tensor itself or a container of tensors."""
    form: Form = Form.TENSOR
    path: str = ""
    """Path of the tensor in the copied object: ``.encoder.features``."""
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.kept or self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` has a graph, which a deep copy cannot copy"


@dataclass(frozen=True, kw_only=True)
class GraphSent(Fact):
    """A tensor with a graph is sent to another process."""

    code = "AF520"
    kind = "graph sent"
    error = "Cowardly refusing to serialize non-leaf tensor which requires_grad"
    phrases: ClassVar[dict[str, str]] = {"call": "sent here"}

    call: Span
    value: Span | None = field(default=None, metadata={"role": False})
    carriers: tuple[Carrier, ...] = ()
    """The statements that put tensors with graphs into the container that is sent."""
    form: Form = Form.TENSOR
    by_loader: bool = False
    """Whether a ``DataLoader`` has workers that collect it: they stack what they read in memory that is shared."""
    name: str = ""

    @property
    def raised(self) -> str:
        return OutGiven.error if self.by_loader else self.error

    @property
    def cause(self) -> Span:
        return self.value if self.by_loader and self.value is not None else self.call

    @property
    def message(self) -> str:
        if self.by_loader:
            return "a DataLoader worker would have to send a tensor with a graph to the main process"
        return f"`{self.name}` sends a tensor with a graph to another process"
