"""Facts: the mistakes on autograd's tape, as plain data.

A fact names its kind and a source span for every role in it.  Both witnesses, the one that reads the source and the one
that watches a run, speak in these terms, and a codemod never learns which of them spoke.

Positions follow LibCST: lines count from 1, columns count code points from 0, and the end is exclusive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import PurePath
from typing import ClassVar, Self

CACHES = frozenset(("cached_property", "lru_cache", "cache"))
"""Decorators of ``functools`` that keep what a function returns."""


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """A piece of source text: ``path``, then start and exclusive end."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def start(self) -> tuple[int, int]:
        return self.line, self.column

    @property
    def end(self) -> tuple[int, int]:
        return self.end_line, self.end_column

    def contains(self, other: Span) -> bool:
        """Whether *other* lies inside this span (or equals it)."""
        return self.path == other.path and self.start <= other.start and other.end <= self.end


class Certainty(StrEnum):
    """Certainty of a witness; a fact that is ``LIKELY`` has a :class:`Doubt`."""

    CERTAIN = "certain"
    LIKELY = "likely"


class Doubt(StrEnum):
    """The reason why a fact is likely only."""

    UNREAD = "it rests on a call that was not read"
    SWITCH = "it depends on an option or a condition whose value is not known"
    RESET = "a function that resets it is handed on to code that was not read"
    HANDED = "code that was not read is taken to call the function for each batch"
    ENTERED = "its caller, which was not read, is taken to call it for each batch"


class Form(StrEnum):
    """The shape of a value that a statement carries on, as far as a rewrite must know it."""

    TENSOR = "tensor"
    TUPLE = "tuple"  # of tensors: an LSTM's state
    LIST = "list"  # of tensors: a state per layer
    DICT = "dict"  # of tensors
    NESTED = "nested"  # a list of such tuples: a state per layer
    RECORD = "record"  # a named tuple of tensors
    UNKNOWN = "unknown"  # a tensor or a tuple of tensors
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Role:
    """One place in the story of a fact: what happened there, in one word and in one phrase."""

    name: str
    span: Span
    phrase: str


@dataclass(frozen=True, slots=True)
class Carrier:
    """A statement through which a value went on its way from where it was made to where it was used."""

    statement: Span
    expression: Span | None
    """The value's own expression, where it has one: the argument of an ``append``."""
    name: str
    """Source text of the place: ``temp``, ``self.hidden``, ``cache[key]``."""
    form: Form
    items: bool = False
    """Whether the name is that of a container, of which only an item was set."""
    whole: str = ""
    """Statements that make a value whose form has no name one without graphs, with ``$x`` for its name."""


@dataclass(frozen=True, slots=True)
class Outer:
    """Roles of a fact as seen by the function in which the failing backward stands: there ``D(fake)`` is one place."""

    made: Span
    used: Span
    walked: Span | None
    walked_by: Span | None = None
    """The place that the freeing pass came through, as seen by the function in which this pass stands."""
    enters: tuple[bool, bool] = (False, False)
    """Whether the value enters a network there: by its use, and by the operation that the freeing pass came through."""
    mixed: bool = False
    """Whether the value is combined, element by element, with another that has a graph of its own."""
    passes: tuple[Span, Span] | None = None
    """Places at which the ways to two passes part, if one function makes both: the innermost calls that differ.

    For an overwritten tensor, the ways to the change and to the pass, if other functions make them.
    """
    wanted: tuple[bool, bool] = (False, False)
    """Whether a step uses the gradients that the freeing and the failing pass send through the value, beside those that
    they send to the same parameters on other ways.
    """
    wanted_behind: tuple[bool, bool] = (False, False)
    """``wanted``, of the parameters behind the call that made the value."""
    incidental: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Names of parameters that the freeing and the failing pass reach through the value, but are not made for."""
    weights: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())
    """The factors by which the freeing and the failing pass weigh log-likelihoods with the value, its only use."""
    weighed: tuple[str, ...] = ()
    """The parameters that such a pass reaches through the value, by their names."""
    crossed: bool = False
    """Whether the failing pass also goes on through the network that made the value, to others that a step trains."""
    wanted_itself: bool = False
    """``wanted``, by the failing pass, of the parameters of the call that made the value: of a critic, by its loss."""


@dataclass(frozen=True, slots=True)
class Severed:
    """Parameters that one of two passes over a shared value misses, because the value was made of a detached one."""

    cut: Span
    """The detached value: ``fake.detach()``."""
    first: bool
    """Whether the first pass misses them, which frees the graph or keeps it for the other; else the pass that fails."""
    wanted: tuple[str, ...]
    """The stepped parameters from which the detached value was computed."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """The base of every fact.  Fields that hold a :class:`Span` are its roles, in the order of the story."""

    code: ClassVar[str]
    kind: ClassVar[str]
    error: ClassVar[str]
    """A piece of the message that PyTorch raises; empty where it raises nothing."""
    phrases: ClassVar[dict[str, str]]

    certainty: Certainty = Certainty.CERTAIN
    reason: Doubt = field(default=Doubt.UNREAD, compare=False, metadata={"role": False})

    def doubted(self, reason: Doubt) -> Self:
        """The same fact, likely for this *reason*."""
        return replace(self, certainty=Certainty.LIKELY, reason=reason)

    @property
    def raised(self) -> str:
        """A piece of the message that this one leads to; empty where nothing is raised."""
        return self.error

    @property
    def doubt(self) -> str:
        """Why it is likely only, where it is."""
        return self.reason.value

    @property
    def cause(self) -> Span:
        """The span that a repair most likely changes: what a report names first."""
        raise NotImplementedError

    @property
    def message(self) -> str:
        """One sentence that says what goes wrong at the cause."""
        raise NotImplementedError

    @property
    def gist(self) -> str:
        """The message without lines, which move when others are inserted above them."""
        return self.message

    def roles(self) -> Iterator[Role]:
        for one in fields(self):
            span = getattr(self, one.name)
            if isinstance(span, Span) and one.metadata.get("role", True):
                calls = _CALLS.get(self.reason) if one.name == "loop" else None
                yield Role(one.name, span, calls or self.phrases[one.name])


_CALLS = {
    Doubt.HANDED: "across calls of the function that is handed over here",
    Doubt.ENTERED: "across calls of this method",
}
"""What stands for a loop that code which was not read runs, by the doubt of that."""


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
    """One of several views that a single call made is modified in place, or their base while they are in use."""

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


TENSORS_AND_NUMBERS = "tensors and numbers"
"""Kind of drop: a copy of a display of both."""


ARRAY_OF_SEVERAL = "array of several"
"""Kind of drop: a call of a function of NumPy with tensors in a list."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One place where a value lost its graph, and how: ``item``, ``tensor``, ``no_grad`` and so on."""

    span: Span
    how: str


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
        return "the term may be meant as a constant" if self.constant else super().doubt

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
            term = "copy of a list of tensors" if hows == {"tensors"} else "number"
            return f"a term of {what} has no graph: it is a {term}, and trains nothing"
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


@dataclass(frozen=True, kw_only=True)
class LegacyApi(Fact):
    """A call that PyTorch 2 no longer knows."""

    code = "AF700"
    kind = "legacy API"
    error = "invalid index of a 0-dim tensor"
    phrases = {"call": "this call is no longer in PyTorch 2"}

    call: Span
    name: str = ""

    @property
    def raised(self) -> str:
        return self.error if self.name.endswith("]") else ""  # what follows from the others depends on the script

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` no longer works in PyTorch 2"


@dataclass(frozen=True, kw_only=True)
class LegacyFunction(Fact):
    """An object of a ``torch.autograd.Function`` is called, as before PyTorch 0.4."""

    code = "AF710"
    kind = "legacy function"
    error = "Legacy autograd function with non-static forward"
    phrases: ClassVar[dict[str, str]] = {
        "call": "an object of a Function is called",
        "defined": "forward is a method of the object here",
    }

    call: Span
    defined: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` calls an object of an autograd Function, whose methods are static since PyTorch 1.5"


@dataclass(frozen=True, kw_only=True)
class OldKeyword(Fact):
    """An argument has a name that became a keyword of Python: the script does not parse."""

    code = "AF720"
    kind = "old keyword"
    error = "invalid syntax"
    phrases: ClassVar[dict[str, str]] = {"call": "a keyword since Python 3.7"}

    call: Span
    name: str = ""

    @property
    def cause(self) -> Span:
        return self.call

    @property
    def message(self) -> str:
        return f"`{self.name}` no longer parses: the name is a keyword of Python"
