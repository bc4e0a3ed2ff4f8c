"""Parameters, inputs and parts that get no gradient, and updates that are lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autofix.codemods.facts.base import Fact, Span


@dataclass(frozen=True, kw_only=True)
class PartBeside(Fact):
    """A gradient is requested for a part of a tensor, but only the whole was used."""

    code = "AF420"
    kind = "unused input"
    error = "appears to not have been used in the graph"
    phrases: ClassVar[dict[str, str]] = {
        "made": "this part is a new tensor, which the loss is not computed from",
        "failed": "the gradient of the part is requested here",
    }

    made: Span
    failed: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.made

    @property
    def message(self) -> str:
        return f"`{self.name}` is a new tensor, and the loss is not computed from it: it has no gradient"


@dataclass(frozen=True, kw_only=True)
class InputUnused(PartBeside):
    """A gradient is requested for a parameter that plays no part in the loss."""

    phrases: ClassVar[dict[str, str]] = {
        "made": "the loss is not computed with this",
        "cut": "detached from the loss here",
        "failed": "its gradient is requested here",
    }

    cut: Span | None = None
    own: bool = False
    """Whether it is a tensor by itself, and no parameter of a module."""

    @property
    def cause(self) -> Span:
        return self.cut or self.failed

    @property
    def message(self) -> str:
        if self.cut is not None:
            return f"`{self.name}` is detached from the loss, of which its gradient is requested"
        return f"a gradient is requested for `{self.name}`, which the loss is not computed with"


@dataclass(frozen=True, kw_only=True)
class InputUnflagged(PartBeside):
    """A gradient is requested for a tensor that does not require grad."""

    kind = "unflagged input"
    error = "One of the differentiated Tensors does not require grad"
    phrases: ClassVar[dict[str, str]] = {
        "made": "this tensor does not require grad",
        "failed": "its gradient is requested here",
    }

    others: tuple[Span, ...] = field(default=(), metadata={"role": False})
    """Further inputs of the call that do not require grad."""

    @property
    def message(self) -> str:
        return f"a gradient is requested for `{self.name}`, which does not require grad"


@dataclass(frozen=True, kw_only=True)
class ComputedParameter(Fact):
    """An optimizer is given the result of an operation, not a leaf."""

    code = "AF430"
    kind = "computed parameter"
    error = "can't optimize a non-leaf Tensor"
    phrases: ClassVar[dict[str, str]] = {
        "made": "the result of an operation on a tensor that requires grad",
        "owner": "this optimizer takes leaves only",
    }

    made: Span
    owner: Span
    on_gpu: bool = False
    """Whether the operation is a move to a GPU, which returns the leaf itself where there is none."""
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.made

    @property
    def message(self) -> str:
        what = f"`{self.name}`" if self.name else "a tensor given to the optimizer"
        if self.on_gpu:
            return f"{what} is not a leaf on a GPU: there it is a copy of the tensor that requires grad"
        return (
            f"{what} is not a leaf: it is computed from the tensor that requires grad, and no optimizer can update it"
        )


@dataclass(frozen=True, kw_only=True)
class NoGradient(Fact):
    """The gradient of a tensor that is no leaf is used: it is None."""

    code = "AF440"
    kind = "no gradient"
    error = "'NoneType'"
    phrases: ClassVar[dict[str, str]] = {
        "made": "the result of this operation is no leaf",
        "used": "the gradient of this tensor is None here",
    }

    made: Span
    used: Span
    kept: Span | None = field(default=None, metadata={"role": False})
    """The expression whose value was assigned last: the call of the function that makes the operation, say."""
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.made

    @property
    def message(self) -> str:
        return f"`{self.name}` is the result of an operation: no backward leaves a gradient in `{self.name}.grad`"


@dataclass(frozen=True, kw_only=True)
class UpdateRefused(NoGradient):
    """The parameter of a module is replaced by the result of an update, which is no parameter."""

    error = "cannot assign"
    phrases: ClassVar[dict[str, str]] = {
        "made": "the new value is computed here",
        "used": "the module takes no other tensor for its parameter",
    }

    @property
    def message(self) -> str:
        return f"`{self.name}` is a parameter of a module, which the result of an update cannot replace"


@dataclass(frozen=True, kw_only=True)
class UpdateLost(NoGradient):
    """An update makes a new tensor, which nobody uses, and leaves the parameter as it is."""

    error = ""
    phrases: ClassVar[dict[str, str]] = {
        "made": "the new value is computed here",
        "used": "the gradient of the parameter is used here",
    }

    @property
    def message(self) -> str:
        return f"the update gives the name `{self.name}` to a new tensor: the parameter is never changed"


@dataclass(frozen=True, kw_only=True)
class FlagRefused(Fact):
    """``requires_grad`` of the result of an operation is set to False.

    Source: ``THPVariable_set_requires_grad`` in torch/csrc/autograd/python_variable.cpp.
    """

    code = "AF450"
    kind = "refused flag"
    error = "you can only change requires_grad flags of leaf variables"
    phrases: ClassVar[dict[str, str]] = {
        "made": "the result of this operation is no leaf",
        "changed": "the flag of a leaf only may be taken away",
    }

    made: Span
    changed: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.changed

    @property
    def message(self) -> str:
        return f"`{self.name}` is the result of an operation with a graph: its `requires_grad` cannot be set to False"


@dataclass(frozen=True, kw_only=True)
class LeafRefused(FlagRefused):
    """``requires_grad`` of the result of an operation is set to True: it has a graph already."""

    kind = "refused leaf"
    phrases: ClassVar[dict[str, str]] = {
        "made": "the result of this operation is no leaf",
        "changed": "the flag of a leaf only may be set",
    }

    data: bool = False
    """Whether nothing is trained of what it was computed from, and it is to be a leaf: an adversarial example."""

    @property
    def message(self) -> str:
        return f"`{self.name}` is the result of an operation with a graph: its `requires_grad` cannot be set"


@dataclass(frozen=True, kw_only=True)
class WholeFlagged(Fact):
    """A tensor of whole numbers or truth values is told to require grad.

    Source: ``set_requires_grad`` in torch/csrc/autograd/variable.h.
    """

    code = "AF460"
    kind = "whole numbers"
    error = "Tensors of floating point"
    phrases: ClassVar[dict[str, str]] = {"flagged": "only floating-point numbers have gradients"}

    flagged: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.flagged

    @property
    def message(self) -> str:
        return f"`{self.name}` holds whole numbers or truth values, which cannot require grad"


@dataclass(frozen=True, kw_only=True)
class HookRefused(Fact):
    """A hook is registered on a tensor that does not require grad, or its gradient is to be retained.

    Source: ``Tensor.register_hook`` in torch/_tensor.py, ``retain_grad`` in torch/csrc/autograd/variable.cpp.
    """

    code = "AF470"
    kind = "refused hook"
    error = "cannot register a hook on a tensor that doesn't require gradient"
    phrases: ClassVar[dict[str, str]] = {
        "guard": "nothing is recorded from here on",
        "hooked": "a tensor without a gradient is given a hook",
    }

    hooked: Span
    guard: Span | None = None
    recorded: bool = field(default=False, metadata={"role": False})
    """Whether other calls of the statement meet a tensor that requires grad."""
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.hooked

    @property
    def message(self) -> str:
        where = " under no_grad" if self.guard is not None else ""
        return f"`{self.name}` does not require grad{where}: it has no gradient that a hook could be called with"
