"""Backward calls on a value without a graph, or of a form from which none can start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.parts import Drop


@dataclass(frozen=True, kw_only=True)
class CutGraph(Fact):
    """backward is called on a tensor whose graph was dropped on the way."""

    code = "AF400"
    kind = "cut graph"
    error = "does not require grad"
    phrases = {
        "cut": "the graph is dropped here",
        "guard": "nothing is recorded from here on",
        "frozen": "requires_grad is turned off for the parameters here",
        "owner": "this optimizer should train the parameters",
        "failed": "this backward finds no graph",
    }

    cut: Span
    guard: Span | None = None
    frozen: Span | None = None
    owner: Span | None = None
    failed: Span
    drops: tuple[Drop, ...] = ()
    """All the places, in the order in which the value met them."""
    several: bool = False
    """Whether several values that lost their graphs met, so that some of them may be meant to have none."""
    silent: bool = False
    """Whether PyTorch raises nothing: the value is a copy that requires grad, and its gradient trains nothing."""
    beside: bool = False
    """Whether it is a part of the value only, on which nothing of what it was computed from is ever trained."""
    constant: bool = False
    """Whether that part is a term that is a copy of a list of tensors, or a number: it has no share in training,
    whatever else trains what it was computed from, and nobody adds a constant to a loss on purpose."""
    factor: bool = False
    """Whether that part only weighs others: a parameter may stand for a constant that is saved with the model."""
    lasting: bool = False
    """Whether a call switched recording off, for all that comes after it."""
    wanted: tuple[str, ...] = ()
    """The parameters that an optimizer holds and the dropped graph leads to."""
    built: tuple[Span, ...] = ()
    """Places that made the parameters from which ``requires_grad`` was taken."""
    spared: bool = False
    """Whether the optimizer holds only some of the parameters from which ``requires_grad`` was taken."""
    probable: bool = False
    """Whether the values that lost their graphs are probabilities: results of a sigmoid or a softmax."""
    name: str = ""
    operation: str = field(default="", compare=False, metadata={"role": False})
    """The text of an operation without a derivative on the way, for the message: ``argmax``, ``scores > 0.5``."""

    @property
    def doubt(self) -> str:
        if any(drop.how == "integer" for drop in self.drops):
            return "the differentiable substitute is a choice"
        if self.constant or self.factor:
            return f"the {'term' if self.constant else 'factor'} may be meant as a constant"
        return super().doubt

    @property
    def raised(self) -> str:
        return "" if self.silent else self.error

    @property
    def cause(self) -> Span:
        return self.guard or self.frozen or self.cut

    @property
    def message(self) -> str:
        what = f"`{self.name}`" if self.name else "the loss"
        hows = {drop.how for drop in self.drops}
        if self.constant:
            term = "a copy of a list of tensors" if hows == {"tensors"} else "a number"
            if "grad" in hows:
                term = "computed from a gradient that was taken without `create_graph=True`"
            return f"a term of {what} has no graph: it is {term}, and trains nothing"
        if self.beside:
            return f"a part of {what} has no graph, and nothing that it was computed from is trained"
        if self.silent:
            return f"{what} is a copy without the graph of what it was copied from: its backward trains nothing"
        if self.frozen is not None and hows == {"frozen"}:
            return f"{what} has no graph: every parameter that it is computed from is frozen"
        if hows == {"unflagged"}:
            return f"{what} has no graph: the tensor given to the optimizer does not require grad"
        if hows == {"integer"}:
            if self.operation:
                return f"{what} has no graph: `{self.operation}` is not differentiable"
            return f"{what} has no graph: it is computed from comparisons or indices, which are not differentiable"
        return f"{what} has no graph when backward is called on it"


@dataclass(frozen=True, kw_only=True)
class LossEscapes(CutGraph):
    """A tensor with a graph is handed to a function of NumPy, and the loss is computed of its result."""

    code = "AF500"
    kind = "graph escapes"
    error = "Can't call numpy() on Tensor that requires grad"
    phrases = {
        **CutGraph.phrases,
        "cut": "leaves torch here",
        "failed": "this backward needs the graph",
    }

    call: str = ""
    """The user's text of the call of NumPy."""

    @property
    def doubt(self) -> str:
        return "the array may be meant as a constant"

    @property
    def raised(self) -> str:
        return self.error

    @property
    def message(self) -> str:
        return f"`{self.call}` hands a tensor with a graph to NumPy, and `{self.name or 'the loss'}` is computed of it"


@dataclass(frozen=True, kw_only=True)
class InferenceSaved(Fact):
    """A tensor made in inference mode is saved for a backward pass."""

    code = "AF410"
    kind = "inference tensor"
    error = "Inference tensors cannot be saved for backward"
    phrases: ClassVar[dict[str, str]] = {
        "guard": "tensors made here can never take part in a graph",
        "used": "saved for the backward pass here",
    }

    guard: Span
    used: Span

    @property
    def cause(self) -> Span:
        return self.guard

    @property
    def message(self) -> str:
        return "a tensor made in inference mode is used in a recorded computation"


@dataclass(frozen=True, kw_only=True)
class InferenceChanged(InferenceSaved):
    """A tensor made in inference mode is modified in place outside of it."""

    error = "Inplace update to inference tensor outside InferenceMode is not allowed"
    phrases: ClassVar[dict[str, str]] = {
        "guard": "tensors made here can be modified in this mode only",
        "used": "modified in place here",
    }

    name: str = ""

    @property
    def message(self) -> str:
        return f"`{self.name}` modifies a tensor made in inference mode, which PyTorch does not allow outside of it"


@dataclass(frozen=True, kw_only=True)
class NotScalar(Fact):
    """backward is called on a tensor of several elements without a gradient argument."""

    code = "AF800"
    kind = "not a scalar"
    error = "grad can be implicitly created only for scalar outputs"
    phrases: ClassVar[dict[str, str]] = {
        "made": "a tensor of several elements",
        "failed": "this backward needs a scalar",
    }

    made: Span
    failed: Span
    by_row: bool = False
    """Whether the gradient is asked for with respect to data: each row has one of its own."""
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.made

    @property
    def message(self) -> str:
        what = f"`{self.name}`" if self.name else "the loss"
        return f"{what} is not reduced to a scalar before backward"
