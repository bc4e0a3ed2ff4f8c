"""Tensors that are modified in place while autograd needs them, or where it does not permit it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.parts import Carrier, Outer, Severed


@dataclass(frozen=True, kw_only=True)
class Overwritten(Fact):
    """A tensor that a node saved was modified in place before the node's backward."""

    code = "AF200"
    kind = "overwritten"
    error = "modified by an inplace operation"
    phrases = {
        "saved": "saved for the backward pass here",
        "kept": "kept here",
        "used": "used here",
        "retained": "this backward keeps the graph",
        "changed": "modified in place here",
        "constructed": "the module is made in-place here",
        "failed": "this backward needs the original value",
        "loop": "across iterations of this loop",
    }

    saved: Span
    kept: Span | None = None
    used: Span | None = None
    retained: Span | None = None
    changed: Span
    constructed: Span | None = None
    failed: Span
    loop: Span | None = None
    inside: bool = True
    carried_within: bool = field(default=False, compare=False, metadata={"role": False})
    """As in :class:`StaleGraph`."""
    carriers: tuple[Carrier, ...] = ()
    outside: tuple[Carrier, ...] = ()
    outer: Outer | None = None
    name: str = ""
    text: str = field(default="", compare=False, metadata={"role": False})
    """The expression that makes the tensor, for the message where nothing keeps it: ``conv(x)``."""
    by_step: bool = False
    """Whether an optimizer's step made the change."""
    parameter: bool = False
    """Whether a parameter was changed, by hand."""
    operation: Span | None = field(default=None, metadata={"role": False})
    """The operation that saved it, in the function where it stands; ``saved`` may be a call of that function."""
    part: bool = False
    """Whether it was made through a name for a part of the tensor: ``row = x[0]; row += 1``."""
    severed: Severed | None = None
    shared_input: bool = field(default=False, compare=False, metadata={"role": False})
    """Whether several calls of the function that modifies it, each of them once, were given the same tensor."""
    modified: str = field(default="", compare=False, metadata={"role": False})
    """The name of the tensor in the statement that modifies it: ``queue`` of ``queue[:, :4] = keys``."""

    @property
    def cause(self) -> Span:
        """The overwriting statement, or, if a training step overwrites the value, the one that keeps the graph over it.

        PyTorch names the operation that needs the old value.
        """
        if self.loop is None and not self.by_step and not self.parameter:
            return self.changed
        return self.kept or self._computed_too_early or self.changed

    @property
    def _computed_too_early(self) -> Span | None:
        """Computation before a step that a helper of several callers makes, which is not to blame; None for others."""
        if self.by_step and self.outer is not None and self.outer.passes is not None:
            return self.outer.made
        return None

    @property
    def message(self) -> str:
        what = f"`{self.name or self.text}`" if self.name or self.text else "a tensor"
        if self.by_step:
            return f"the graph of {what} saved parameters that an optimizer step modifies before its backward"
        if self.parameter:
            return f"the graph of {what} saved parameters that are modified in place before its backward"
        if self.modified:
            what = f"`{self.modified}`"
        elif self.text and not self.name:
            what = f"a tensor that `{self.text}` saved"
        return f"{what} is modified in place, but a later backward needs its original value"


@dataclass(frozen=True, kw_only=True)
class PartChanged(Fact):
    """A view is modified in place that autograd does not let be modified, or its base while the view is in use."""

    code = "AF210"
    kind = "part changed"
    error = "is a view and is being modified inplace"
    phrases: ClassVar[dict[str, str]] = {
        "made": "one of the views that are made here",
        "changed": "modified in place here",
        "constructed": "the module is made in-place here",
    }

    made: Span
    changed: Span
    constructed: Span | None = None
    name: str = ""
    base: bool = False
    """Whether it is the tensor of which the views were taken: then they cannot be used any more."""

    @property
    def raised(self) -> str:
        """The error of the next use of a view, where it is the base that is modified."""
        return "its base or another view of its base has been modified inplace" if self.base else self.error

    @property
    def cause(self) -> Span:
        return self.changed

    @property
    def message(self) -> str:
        if self.base:
            return f"`{self.name}` modifies the base of several views in place, and autograd refuses their later use"
        return f"`{self.name}` modifies one of several views in place, which autograd does not allow"


@dataclass(frozen=True, kw_only=True)
class WatchedChanged(PartChanged):
    """The input or the output of a module with a backward hook, of which the module makes a view, is modified in place.

    Source: ``BackwardHook`` in torch/utils/hooks.py.
    """

    phrases: ClassVar[dict[str, str]] = {
        **PartChanged.phrases,
        "made": "a backward hook watches the input and the result of this call",
    }

    @property
    def message(self) -> str:
        return f"`{self.name}` modifies in place what a backward hook watches, which autograd does not allow"


@dataclass(frozen=True, kw_only=True)
class AppliedChanged(PartChanged):
    """A view that an autograd Function of the program returns, or a reentrant checkpoint, is modified in place.

    Its input, returned as it is, is such a view too.  Source: ``_process_backward_mode_ad`` in
    torch/csrc/autograd/custom_function.cpp.
    """

    phrases: ClassVar[dict[str, str]] = {
        **PartChanged.phrases,
        "made": "a custom backward belongs to the view that this call returns",
    }

    @property
    def message(self) -> str:
        return f"`{self.name}` modifies in place a view that a custom Function returned, which autograd does not allow"


@dataclass(frozen=True, kw_only=True)
class ViewDetached(PartChanged):
    """A view of another tensor is detached in place.

    Source: ``detach_`` in torch/csrc/autograd/VariableTypeManual.cpp.
    """

    error = "Can't detach views in-place"
    phrases: ClassVar[dict[str, str]] = {
        **PartChanged.phrases,
        "made": "the view is made here",
        "changed": "detached in place here",
    }

    @property
    def message(self) -> str:
        return f"`{self.name}` detaches a view in place, which autograd does not allow"


@dataclass(frozen=True, kw_only=True)
class UnrecordedChanged(PartChanged):
    """A view that was made under ``no_grad`` is modified in place under grad mode.

    Source: ``handle_view_on_rebase`` in torch/csrc/autograd/variable.cpp.
    """

    kind = "unrecorded view changed"
    error = "A view was created in no_grad mode and is being modified inplace"
    phrases: ClassVar[dict[str, str]] = {
        **PartChanged.phrases,
        "made": "the view is made here",
        "guard": "grad mode is turned off here",
    }

    guard: Span
    parameter: bool = False
    """Whether it is a view of a leaf."""

    @property
    def message(self) -> str:
        return f"`{self.name}` modifies in place a view that was made under no_grad, which autograd does not allow"


@dataclass(frozen=True, kw_only=True)
class UnrecordedRead(PartChanged):
    """A view that was made under ``no_grad`` is read under grad mode after its base was modified in place.

    Source: ``VariableHooks::grad_fn`` in torch/csrc/autograd/variable.cpp.
    """

    kind = "unrecorded view read"
    error = "A view was created in no_grad mode and its base or another view of its base has been modified inplace"
    phrases: ClassVar[dict[str, str]] = {
        "made": "the view is made here, under no_grad",
        "changed": "its base is modified in place here",
        "used": "the view is read here",
    }

    used: Span

    @property
    def cause(self) -> Span:
        return self.made

    @property
    def message(self) -> str:
        return f"`{self.name}` is a view made under no_grad, which autograd refuses once its base has been modified"


@dataclass(frozen=True, kw_only=True)
class OutGiven(Fact):
    """An operation that autograd would record writes its result into an existing tensor (`out=`)."""

    code = "AF220"
    kind = "out argument"
    error = "functions with out=... arguments don't support automatic differentiation"
    phrases: ClassVar[dict[str, str]] = {"changed": "the result is written here"}

    changed: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.changed

    @property
    def message(self) -> str:
        return f"`{self.name}` writes its result into an existing tensor, which autograd cannot record"


@dataclass(frozen=True, kw_only=True)
class LeafChanged(Fact):
    """A leaf that requires grad is modified in place under grad mode."""

    code = "AF300"
    kind = "leaf changed"
    error = "a leaf Variable that requires grad"
    phrases: ClassVar[dict[str, str]] = {"changed": "modified in place here"}

    changed: Span
    name: str = ""
    mixed: bool = False
    """Whether a tensor is added to it, or multiplied with it: a computation, perhaps, rather than an update."""
    computed: bool = False
    """Whether others learn by that tensor: it was computed from other parameters, or it is a gradient with a graph."""
    result: bool = False
    """Whether the leaf is no parameter, and what is added to it was computed from some: a total that begins as zero."""
    total: bool = field(default=False, metadata={"role": False})
    """Whether losses are added up in it."""
    flagged: Span | None = field(default=None, metadata={"role": False})
    """The call that made it require grad; no optimizer has it, and others are to learn by what is written into it."""
    constructed: Span | None = field(default=None, metadata={"role": False})
    """The call that made the module which changes it."""

    @property
    def cause(self) -> Span:
        return self.changed

    @property
    def message(self) -> str:
        what = "a tensor that requires grad" if self.result else "a parameter"
        return f"`{self.name}` modifies {what} in place while autograd records"
