"""What a run recorded, as frozen data: passes, optimizer steps, parameters, how it ended.  No I/O, no torch."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    """The script came to its end."""
    RAISED = "raised"
    """It ended with an exception that nothing caught."""
    STOPPED = "stopped"
    """It was stopped because enough had been seen."""
    TIMED_OUT = "timed out"
    DIED = "died"
    """The process ended without saying how: killed by a signal, or by ``os._exit``."""
    NOT_STARTED = "not started"
    """The interpreter or torch is missing, or the script is not there."""


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
    """What was not to be written."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True)
class Live:
    """Graph nodes alive, those that still hold saved tensors, and bytes of tensors."""

    nodes: int
    armed: int
    bytes: int


Sketches = Mapping[int, tuple[float, ...]]
"""Index of a parameter to the sketch of its gradient (see ``child/sketch.py``)."""
Parts = Mapping[int, tuple[tuple[float, ...], ...]]
"""The same for several pieces of the gradient."""


@dataclass(frozen=True)
class Pass:
    """One call of ``backward`` (or of ``torch.autograd.grad``).  Keys of the mappings are indices of parameters."""

    number: int
    kind: str
    step: int
    """Optimizer steps that had been made before it."""
    losses: tuple[float, ...]
    line: int | None
    file: str
    walked: int
    """Graph nodes that it visits."""
    past: int
    """Those of them that an earlier pass had freed, or had visited before an earlier optimizer step."""
    over: Mapping[int, int]
    """Parameters behind nodes that earlier passes had visited, and the first of these passes."""
    repeats: bool
    """Whether it comes to the past only where an earlier iteration's pass came to the very same nodes from."""
    again: bool
    """Whether it comes to freed graphs only at whole losses that another pass had sent back."""
    keeps: bool
    """Whether it keeps the graph: ``retain_graph`` or ``create_graph``."""
    reached: frozenset[int]
    gradients: Mapping[int, float]
    """Norms after the pass of the gradients that it reached."""
    state: Mapping[int, str]
    """Fingerprints of the parameters before it."""
    random: str
    """Fingerprint of the random generator before it."""
    trunk: tuple[str, ...]
    """The types of the nodes from its root to the first that parts into several."""
    types: frozenset[str]
    """The types of all nodes that it visits."""
    low: bool
    """Whether some of them compute in half precision."""
    frozen: frozenset[int]
    """Members of optimizers that do not require grad."""
    values: Sketches
    """Of the first pass: the parameters, in few numbers, to tell whether what differs is rounding."""
    live: Live | None
    sketches: Sketches | None
    sound: Sketches
    ways: Parts
    present: Sketches
    parts: Parts
    error: RunError | None
    asked: bool = False
    """Whether it is a call of ``torch.autograd.grad`` for members of optimizers, or for leaves that are updated."""

    cut: bool = False
    """Whether it found no graph, in a run that goes on past that."""

    @property
    def trains(self) -> bool:
        """Whether its gradients are such as a step is made of."""
        return self.kind == "backward" or self.asked


@dataclass(frozen=True)
class Step:
    """One optimizer step."""

    number: int
    optimizer: int
    passes: int
    """Passes that had been started before its end."""
    closure: int
    """The first of them that it started itself, by calling a closure; 0 where it did not."""
    gradients: Mapping[int, float]
    moved: Mapping[int, float]
    settings: tuple[Mapping[str, float], ...]
    """The learning rate and the like with which it is made, for each group of parameters."""
    elsewhere: frozenset[int]
    """What was changed since the last step by other means; known for the first steps past the failure."""
    state: Mapping[int, str]
    """Fingerprints of all parameters after it."""
    live: Live
    sketches: Sketches | None
    """What each gradient was when the step began; None for steps that are not compared with the reference."""
    sound: Sketches
    """In a reference run, the gradients without what came through faulty nodes, where that differs."""
    ways: Parts
    """What came through each entry into faulty nodes, where the entries are few."""
    present: Sketches
    """The gradients without what came through old nodes alone: what the present iteration means, where that differs."""
    parts: Parts
    """What came through each entry into old nodes, where the entries are few."""
    used: Sketches = field(default_factory=dict)
    """The gradients of which the step was made, where they are not as the passes left them: clipped, averaged."""
    clips: tuple[float, ...] = ()
    """The norms to which gradients were clipped before it."""


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
class Failure:
    """The first error of a run, also one that the script caught itself."""

    error: RunError
    steps: int
    """Optimizer steps made before it."""
    passes: int
    """Passes that succeeded before it."""
    in_pass: bool


@dataclass(frozen=True)
class RunRecord:
    """Everything that is known of one run."""

    outcome: Outcome
    error: RunError | None = None
    """The exception that ended the run; for a run that was not started, the reason."""
    passes: tuple[Pass, ...] = ()
    updates: tuple[Step, ...] = ()
    parameters: Mapping[int, Parameter] = field(default_factory=dict)
    optimizers: tuple[str, ...] = ()
    """The types, in the order of their creation."""
    output: str = ""
    """What the script printed, its middle left out where it is long."""
    seconds: float = 0.0
    mistakes: tuple[str, ...] = ()
    """Tracebacks of the probe itself: gaps in the record."""
    device: str = ""
    """``cpu`` if what was written for a GPU ran on the CPU."""
    network: bool = False
    """Whether the network was left open."""
    open_ends: tuple[str, ...] = ()
    """What the sandbox could not close off, in words."""
    facts: tuple[Mapping[str, Any], ...] = ()
    """What the run witness tells, as it tells it (see ``child/trace.py``)."""
    without: tuple[int, Sketches] | None = None
    """In a reference run, the last pass that went through what failed, and its gradients without that."""
    between: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Live graph nodes by the optimizer steps made before, and the calls of modules since."""
    unloaded: Mapping[str, str] = field(default_factory=dict)
    """The changed sources, relative to the root, that the run did not load from its copy, and the file that was loaded
    in their place; empty where there was none."""
    calls: tuple[tuple[int, frozenset[int]], ...] = ()
    """Members of optimizers that a forward pass under autograd came to before the backward pass of this number.

    So do those that belong to no module.  Each is told when it is first come to, before the failure and past it.
    """
    carried: tuple[Mapping[str, Any], ...] = ()
    """Where values that it followed were put, in order (see ``child/follow.py``)."""

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of every backward pass that succeeded, in order."""
        return tuple(sum(p.losses) for p in self.passes if p.error is None and p.trains)

    def called(self, passes: int) -> frozenset[int]:
        """What forward passes came to for backward passes after so many."""
        return frozenset[int]().union(*(these for number, these in self.calls if number > passes))

    @property
    def steps(self) -> int:
        """How many optimizer steps were made."""
        return len(self.updates)

    @property
    def failure(self) -> Failure | None:
        """The first error: of a pass, whether or not the script caught it, or the one that ended the run."""
        for one in self.passes:
            if one.error is not None:
                done = sum(1 for p in self.passes if p.number < one.number)
                return Failure(one.error, one.step, done, in_pass=True)
        if self.error is not None and self.outcome is Outcome.RAISED:
            return Failure(self.error, self.steps, len(self.passes), in_pass=False)
        return None

    @property
    def complete(self) -> bool:
        """Whether the run came to an end of its own or of the probe's, so that what it shows can be judged."""
        return self.outcome in (Outcome.FINISHED, Outcome.RAISED, Outcome.STOPPED)


def not_started(reason: str) -> RunRecord:
    """The record of a run that never came to be."""
    return RunRecord(Outcome.NOT_STARTED, RunError("not started", reason))


def unsealed(data: bytes, seal: str) -> list[str] | None:
    """The lines of a record without their tags (see ``child/events.py``); None if the script has changed them.

    A torn last line, left by a kill, is dropped.
    """
    tags, found = hashlib.blake2b(key=seal.encode(), digest_size=16), []
    *lines, _ = data.split(b"\n")
    for line in lines:
        tag, _, event = line.partition(b" ")
        tags.update(event)
        if not hmac.compare_digest(tag, tags.hexdigest().encode()):
            return None
        found.append(event.decode())
    return found


def parse(lines: Iterable[str], *, output: str = "", seconds: float = 0.0, timed_out: bool = False) -> RunRecord:
    """Build the record from the child's events.  A torn last line, left by a kill, is dropped."""
    passes: list[Pass] = []
    updates: list[Step] = []
    parameters: dict[int, Parameter] = {}
    optimizers: list[str] = []
    mistakes: list[str] = []
    facts: list[Mapping[str, Any]] = []
    carried: list[Mapping[str, Any]] = []
    device, network, open_ends = "", False, tuple[str, ...]()
    calls: list[tuple[int, frozenset[int]]] = []
    without: tuple[int, Sketches] | None = None
    between: dict[tuple[int, int], int] = {}
    unloaded: Mapping[str, str] = {}
    outcome = Outcome.TIMED_OUT if timed_out else Outcome.DIED
    error: RunError | None = None
    for line in lines:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        match event["event"]:
            case "pass" if "number" in event:
                passes.append(_pass(event))
            case "step":
                updates.append(_step(event))
            case "parameter":
                one = Parameter(event["index"], event["key"], event["name"], tuple(event["shape"]), event["optimizer"])
                parameters[one.index] = one
            case "optimizer":
                optimizers.append(event["type"])
            case "mistake":
                mistakes.append(event["traceback"])
            case "between":
                between[event["steps"], event["calls"]] = event["nodes"]
            case "called":
                calls.append((event["number"], frozenset(event["parameters"])))
            case "without":
                without = event["number"], _sketches(event["sketches"])
            case "start":
                device = event["device"]
            case "sandbox":
                open_ends, network = tuple(event["open"]), event.get("network", False)
            case "fact":
                facts.append(event)
            case "unloaded":
                unloaded = event["places"]
            case "carried":
                carried.append(event)
            case "unable":
                outcome, error = Outcome.NOT_STARTED, RunError("not started", event["reason"])
            case "end":
                outcome = Outcome(event["outcome"])
                error = _error(event["error"]) if event["error"] else None
    if error is not None and outcome is Outcome.RAISED and passes and passes[-1].error is not None:
        # The pass knows its own line; the exception that ended the run knows the frames.
        passes[-1] = _with_error(passes[-1], error)
    return RunRecord(
        outcome=outcome,
        error=error,
        passes=tuple(passes),
        updates=tuple(updates),
        parameters=parameters,
        optimizers=tuple(optimizers),
        output=output,
        seconds=seconds,
        mistakes=tuple(mistakes),
        device=device,
        network=network,
        open_ends=open_ends,
        facts=tuple(facts),
        without=without,
        between=between,
        unloaded=unloaded,
        calls=tuple(calls),
        carried=tuple(carried),
    )


def _with_error(one: Pass, error: RunError) -> Pass:
    if one.error is None or one.error.message != error.message:
        return one
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return Pass(**{**values, "error": error})


def _error(values: Mapping[str, Any]) -> RunError:
    frames = tuple((f["file"], f["line"], f["function"]) for f in values.get("frames", ()))
    return RunError(
        values["type"],
        values["message"],
        values.get("line"),
        values.get("file", ""),
        frames,
        values.get("refused", ""),
        values.get("path", ""),
    )


def _numbers(values: Mapping[str, Any] | None) -> dict[int, Any]:
    return {int(index): value for index, value in (values or {}).items()}


def _sketches(values: Mapping[str, Sequence[float]] | None) -> Sketches:
    return {int(index): tuple(sketch) for index, sketch in (values or {}).items()}


def _parts(values: Mapping[str, Sequence[Sequence[float]]] | None) -> Parts:
    return {int(index): tuple(map(tuple, parts)) for index, parts in (values or {}).items()}


def _live(values: Mapping[str, int] | None) -> Live | None:
    return Live(**values) if values else None


def _pass(event: Mapping[str, Any]) -> Pass:
    error = event["error"]
    return Pass(
        number=event["number"],
        kind=event["kind"],
        step=event["step"],
        losses=tuple(event["losses"]),
        line=event["line"],
        file=event["file"],
        walked=event["walked"],
        past=event["past"],
        over=_numbers(event.get("over")),
        repeats=event.get("repeats", False),
        again=event.get("again", False),
        keeps=event["keeps"],
        reached=frozenset(event["reached"]),
        gradients=_numbers(event["gradients"]),
        state=_numbers(event["state"]),
        random=event["random"],
        trunk=tuple(event.get("trunk", ())),
        types=frozenset(event.get("types", ())),
        low=event.get("low", False),
        frozen=frozenset(event.get("frozen", ())),
        values=_sketches(event.get("values")),
        live=_live(event["live"]),
        sketches=_sketches(event["sketches"]) if "sketches" in event else None,
        sound=_sketches(event.get("sound")),
        ways=_parts(event.get("ways")),
        present=_sketches(event.get("present")),
        parts=_parts(event.get("parts")),
        error=RunError(error["type"], error["message"], event["line"], event["file"]) if error else None,
        asked=event.get("asked", False),
        cut=event.get("cut", False),
    )


def _step(event: Mapping[str, Any]) -> Step:
    return Step(
        number=event["number"],
        optimizer=event["optimizer"],
        passes=event["passes"],
        closure=event.get("closure", 0),
        gradients=_numbers(event["gradients"]),
        moved=_numbers(event["moved"]),
        settings=tuple(event.get("settings", ())),
        elsewhere=frozenset(event.get("elsewhere", ())),
        state=_numbers(event["state"]),
        live=Live(**event["live"]),
        sketches=_sketches(event["sketches"]) if "sketches" in event else None,
        sound=_sketches(event.get("sound")),
        ways=_parts(event.get("ways")),
        present=_sketches(event.get("present")),
        parts=_parts(event.get("parts")),
        used=_sketches(event.get("used")),
        clips=tuple(event.get("clips", ())),
    )
