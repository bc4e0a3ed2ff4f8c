"""The events that a run records: the child writes them, and its caller reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

from .wire import decode, encode

GRAPHLESS = "does not require grad and does not have a grad_fn"
"""Piece of the message of a pass that finds no graph."""
STEPS = "steps"
"""The entry that counts the steps of a scheduler; its other ones are numbers that it was made with."""
DETOUR = 3
"""Steps of an optimizer at which a detour leads its parameters to other values."""
MOST_KEPT = 256
"""Tensors and arrays beside the parameters that are looked at in a step."""
Sketches = Mapping[int, tuple[float, ...]]
"""Index of a parameter to the sketch of its gradient (see ``child/sketch.py``)."""
Parts = Mapping[int, tuple[tuple[float, ...], ...]]
"""Index of a parameter to the sketches of several pieces of its gradient."""


@dataclass(frozen=True)
class RunError:
    """An exception: its type's name, its message, and the innermost line of the user's that it passed."""

    type: str
    message: str
    line: int | None = None
    file: str = ""
    """Relative to the script's folder."""
    frames: tuple[tuple[str, int, str], ...] = ()
    """The user's frames as (file, line, function), the innermost last."""
    refused: str = ""
    """``write`` or ``network`` where the system did not allow it."""
    path: str = ""
    """The path that was not to be written."""
    column: int | None = None
    """Column of the expression in that line, in characters from 1."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True)
class Live:
    """Number of live graph nodes, of nodes that still hold saved tensors, and of bytes of tensors."""

    nodes: int
    armed: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Gradients that are compared with the reference."""

    sketches: Sketches | None = None
    """The gradients after the pass, or when the step began; None where gradients are not compared."""
    sound: Sketches = field(default_factory=dict)
    """In a reference run, the gradients without the part that came through faulty nodes, where they differ."""
    ways: Parts = field(default_factory=dict)
    """The part of each gradient that came through each entry into faulty nodes, where the entries are few."""
    present: Sketches = field(default_factory=dict)
    """The gradients without the part through old nodes alone: the present iteration's own, where they differ."""
    parts: Parts = field(default_factory=dict)
    """The part of each gradient that came through each entry into old nodes, where the entries are few."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """What a pass uses of faulty graphs: those of earlier iterations, and of parameters that have changed since."""

    faulty: bool = False
    """Whether it comes to any of them."""
    weighed: bool = False
    """Whether the gradients of the present iteration depend on values of theirs; known for the first pass."""
    replaced: bool = False
    """Whether such a value stands in the loss where an earlier pass had one of its own iteration: a prediction."""
    present: int = 0
    """Items of the present iteration in the sum or the stack that has the fewest of them beside items of theirs."""
    items: int = 0
    """All items of that sum or stack."""


@dataclass(frozen=True, kw_only=True)
class Pass(Compared):
    """One call of ``backward`` (or of ``torch.autograd.grad``).  Keys of the mappings are indices of parameters."""

    number: int
    kind: str = "backward"
    step: int = 0
    """Optimizer steps that had been made before it."""
    losses: tuple[float, ...] = ()
    """Values that it begins at, but for those of a pass that is ``handed``."""
    scale: float = 1.0
    """Scale of the losses in mixed precision, without which they and their gradients are told."""
    handed: bool = False
    """Whether it begins within a network, with a gradient that another pass has computed."""
    line: int | None = None
    file: str = ""
    walked: int = 0
    """Graph nodes that it visits."""
    past: int = 0
    """Walked nodes that an earlier pass had freed, or had visited before an earlier optimizer step."""
    own: int = 0
    """Walked nodes of the present iteration from which it comes to leaves without nodes of earlier iterations; counted
    at the first step, or the first pass, that is compared."""
    over: Mapping[int, int] = field(default_factory=dict)
    """Parameters behind nodes that earlier passes had visited, and the first of these passes."""
    repeats: bool = False
    """Whether it enters the past only where an earlier iteration's pass was at the same places of its own graph."""
    again: bool = False
    """Whether it comes to freed graphs only at whole losses that another pass had sent back."""
    keeps: bool = False
    """Whether it keeps the graph: ``retain_graph`` or ``create_graph``."""
    discards: bool = False
    """Whether a gradient that an earlier pass had left was set to zero before it, and no step had used it."""
    reached: frozenset[int] = frozenset()
    gradients: Mapping[int, float] = field(default_factory=dict)
    """Norms after the pass of the gradients that it reached."""
    state: Mapping[int, str] = field(default_factory=dict)
    """Fingerprints of the parameters before it."""
    random: str = ""
    """Fingerprint of the random generator before it."""
    trunk: tuple[str, ...] = ()
    """The types of the nodes from its root to the first that parts into several."""
    types: frozenset[str] = frozenset()
    """The types of all nodes that it visits."""
    open: Mapping[str, int] | None = None
    """The number of operations that have no effect at these values, such as a clamp of a small loss; known for the
    first steps."""
    low: bool = False
    """Whether some of them compute in half precision."""
    frozen: frozenset[int] = frozenset()
    """Members of optimizers that do not require grad."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Lengths of the containers that the user's variables lead to; known for the first steps."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Values of whole numbers that they lead to."""
    values: Sketches = field(default_factory=dict)
    """At the first pass, sketches of the parameters, to tell a difference from rounding."""
    live: Live | None = None
    error: RunError | None = None
    modes: frozenset[str] = frozenset()
    """Settings of modules that forward passes have come to since the last pass."""
    inputs: tuple[tuple[float, ...], ...] | None = None
    """Some sums of what modules that keep statistics were given since the last pass; None where it is not known."""
    asked: bool = False
    """Whether it is a call of ``torch.autograd.grad`` for members of optimizers, or for leaves that are updated."""

    cut: bool = False
    """Whether it found no graph, in a run that goes on past that."""
    repetition: bool = False
    """Whether a reference run left it out, as earlier passes of its step have sent the same back."""
    used: Past | None = None
    """What it uses of faulty graphs, in a reference run; None where that is not known."""

    @property
    def trains(self) -> bool:
        """Whether a step may be made of its gradients."""
        return (self.kind == "backward" or self.asked) and not self.repetition


@dataclass(frozen=True, kw_only=True)
class Step(Compared):
    """One optimizer step."""

    number: int = 0
    optimizer: int = 0
    passes: int = 0
    """Passes that had been started before its end."""
    closure: int = 0
    """The first pass that it started itself, by calling a closure; 0 where it did not."""
    gradients: Mapping[int, float] = field(default_factory=dict)
    moved: Mapping[int, float] = field(default_factory=dict)
    settings: tuple[Mapping[str, float], ...] = ()
    """The learning rate and the like with which it is made, for each group of parameters."""
    schedules: tuple[Mapping[str, float], ...] = ()
    """The numbers of each scheduler of its learning rate, and its steps so far."""
    elsewhere: frozenset[int] = frozenset()
    """Parameters that were changed since the last step by other means; known for the first steps past the failure."""
    state: Mapping[int, str] = field(default_factory=dict)
    """Fingerprints of all parameters after it."""
    live: Live = Live(0, 0, 0)
    used: Sketches = field(default_factory=dict)
    """The gradients of which the step was made, where they are not as the passes left them: clipped, averaged."""
    clips: tuple[float, ...] = ()
    """The norms to which gradients were clipped before it."""
    clamps: tuple[float, ...] = ()
    """The values to which their elements were clipped."""
    beside: Mapping[str, bool] = field(default_factory=dict)
    """Parameters of modules that no optimizer has, and whether they have moved since the step before: an average of
    the network, a target network."""
    kept: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Some sums of the elements of each tensor, or array of NumPy, that the user's variables lead to and no optimizer
    has; known for the first steps."""
    carried: frozenset[str] = frozenset()
    """The names of those that have no graph, and are those of the step before or were computed from them."""
    arrays: frozenset[str] = frozenset()
    """The names of arrays that are others than at the step before: they, too, may have been computed from these."""
    left_out: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Updates of parameters by hand that were left out since the last step, with their numbers: ``clamp_(0, 1)``."""
    calls: int = 0
    """Calls of modules since the last step."""
    read: frozenset[int] = frozenset()
    """Parameters whose gradients the script itself has read since the last step, in a reference run."""
    remembers: bool = False
    """Whether the optimizer has a state from steps before: momentum, say."""


@dataclass(frozen=True)
class Parameter:
    """A tensor that may be trained.  ``key`` names it alike in two runs of one script."""

    index: int
    key: str
    name: str
    shape: tuple[int, ...]
    optimizer: int | None
    """The number of its optimizer; None for a leaf outside of all."""


@dataclass(frozen=True)
class OptimizerMade:
    """An optimizer was made; they are numbered in this order."""

    number: int
    type: str


@dataclass(frozen=True)
class Start:
    """The script is about to start."""

    torch: str = ""
    python: str = ""
    device: str = ""
    """``cpu`` if a script that was written for a GPU runs on the CPU."""


@dataclass(frozen=True)
class Sandbox:
    """The sandbox is closed but for these ends, in words."""

    open: tuple[str, ...]
    network: bool = False


@dataclass(frozen=True)
class Between:
    """Live graph nodes between two optimizer steps."""

    steps: int
    calls: int
    """Calls of modules since the last step."""
    nodes: int


@dataclass(frozen=True)
class CalledBefore:
    """Members of optimizers that a forward pass came to before the backward pass of this number."""

    number: int
    parameters: frozenset[int]


@dataclass(frozen=True)
class Without:
    """The last pass through nodes that were faulty later, and its gradients without the part through them."""

    number: int
    sketches: Sketches


@dataclass(frozen=True)
class Fact:
    """A mistake that the run showed, as the run witness tells it.  See ``trace.py``."""

    told: Mapping[str, Any]


@dataclass(frozen=True)
class Carried:
    """A place at which a followed value was stored.  See ``follow.py``."""

    told: Mapping[str, Any]


@dataclass(frozen=True)
class Unloaded:
    """The changed sources that the run did not load from its copy, and the file that was loaded in their place."""

    places: Mapping[str, str]


@dataclass(frozen=True)
class Missed:
    """Lines of watched sources that the run has not executed, and first lines of loops that were running at its end."""

    lines: Mapping[str, tuple[int, ...]]
    loops: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    turns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Lines of expressions of numbers that had other numbers each time, and always the same value."""


@dataclass(frozen=True)
class Mistake:
    """A traceback of the probe itself: a gap in the record."""

    traceback: str


@dataclass(frozen=True)
class Unable:
    """The run cannot begin."""

    reason: str


@dataclass(frozen=True)
class End:
    """The end of the run."""

    outcome: str
    error: RunError | None = None
    steps: int = 0
    passes: int = 0


Event: TypeAlias = (
    Pass
    | Step
    | Parameter
    | OptimizerMade
    | Start
    | Sandbox
    | Between
    | CalledBefore
    | Without
    | Fact
    | Carried
    | Unloaded
    | Missed
    | Mistake
    | Unable
    | End
)
_BY_NAME: dict[str, Any] = {kind.__name__.lower(): kind for kind in get_args(Event)}


def written(event: Event, seconds: float) -> str:
    """The line of a record for an event, *seconds* after the record was opened."""
    return encode(event, event=type(event).__name__.lower(), at=round(seconds, 4))


def read(line: str) -> Event:
    """The event of a line.  Raises :class:`json.JSONDecodeError` where the line is torn."""
    values = json.loads(line)
    name, _ = values.pop("event"), values.pop("at", 0)
    event: Event = decode(_BY_NAME[name], values)
    return event
