"""The record of a run as frozen data: passes, optimizer steps, parameters, its end.  No I/O, no torch."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from autofix.child import recorded
from autofix.child.recorded import Missed, Parameter, Pass, RunError, Sketches, Step

T = TypeVar("T")
U = TypeVar("U")


class Outcome(StrEnum):
    """End of a run."""

    FINISHED = "finished"
    """The script came to its end."""
    RAISED = "raised"
    """The script ended with an exception that nothing caught."""
    STOPPED = "stopped"
    """The run was stopped because enough had been seen."""
    TIMED_OUT = "timed out"
    DIED = "died"
    """The process ended without saying how: killed by a signal, or by ``os._exit``."""
    NOT_STARTED = "not started"
    """The interpreter or torch is missing, or the script is not there."""


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
    """Output of the script, its middle left out where it is long."""
    seconds: float = 0.0
    mistakes: tuple[str, ...] = ()
    """Tracebacks of the probe itself: gaps in the record."""
    device: str = ""
    """``cpu`` if a script that was written for a GPU ran on the CPU."""
    network: bool = False
    """Whether the network was left open."""
    open_ends: tuple[str, ...] = ()
    """Parts that the sandbox could not close off, in words."""
    facts: tuple[Mapping[str, Any], ...] = ()
    """Facts of the run witness, in its own form (see ``child/trace.py``)."""
    without: tuple[int, Sketches] | None = None
    """In a reference run, the last pass through nodes that failed later, and its gradients without them."""
    between: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Live graph nodes by the optimizer steps made before, and the calls of modules since."""
    unloaded: Mapping[str, str] = field(default_factory=dict)
    """The changed sources, relative to the root, that the run did not load from its copy, and the file that was loaded
    in their place; empty where there was none."""
    missed: Missed | None = None
    """Watched parts of the sources that the run has not executed; None where no part was watched."""
    calls: tuple[tuple[int, frozenset[int]], ...] = ()
    """Members of optimizers that a forward pass under autograd came to before the backward pass of this number.

    Members that belong to no module count, too.  Each is listed at its first pass, before the failure and past it.
    """
    carried: tuple[Mapping[str, Any], ...] = ()
    """Places at which followed values were stored, in order (see ``child/follow.py``)."""

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of every backward pass that succeeded, in order."""
        return tuple(sum(p.losses) for p in self.passes if p.error is None and p.trains)

    def called(self, passes: int) -> frozenset[int]:
        """Members of optimizers that forward passes came to, for the backward passes after the first *passes*."""
        return frozenset[int]().union(*(these for number, these in self.calls if number > passes))

    @property
    def steps(self) -> int:
        """Number of optimizer steps."""
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
        """Whether the run came to an end of its own or of the probe's, so that its record can be judged."""
        return self.outcome in (Outcome.FINISHED, Outcome.RAISED, Outcome.STOPPED)


def without_cut_passes(run: RunRecord) -> RunRecord:
    """*run* without the passes that found no graph, and without the steps that were made of no other pass."""
    passes = [one for one in run.passes if not one.cut]
    if len(passes) == len(run.passes):
        return run
    numbers = [one.number for one in passes]

    def counted(number: int) -> int:
        """The number of kept passes up to the pass of this *number*."""
        return bisect_right(numbers, number)

    steps: list[Step] = []
    used: dict[int, int] = {}
    for step in run.updates:
        before = used.get(step.optimizer, 0)
        if counted(step.passes) > counted(before) or step.passes == before:
            steps.append(step)
        used[step.optimizer] = step.passes
    made = [one.number for one in steps]
    return replace(
        run,
        passes=tuple(replace(one, number=counted(one.number), step=bisect_right(made, one.step)) for one in passes),
        updates=tuple(
            replace(one, number=at, passes=counted(one.passes), closure=counted(one.closure))
            for at, one in enumerate(steps, 1)
        ),
        calls=tuple((counted(number), members) for number, members in run.calls),
    )


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
    events = list(_events(lines))

    def of(kind: type[T]) -> list[T]:
        return [event for event in events if isinstance(event, kind)]

    passes = of(Pass)
    outcome, error = Outcome.TIMED_OUT if timed_out else Outcome.DIED, None
    for event in events:
        if isinstance(event, recorded.Unable):
            outcome, error = Outcome.NOT_STARTED, RunError("not started", event.reason)
        elif isinstance(event, recorded.End):
            outcome, error = Outcome(event.outcome), event.error
    last = passes[-1].error if passes else None
    if error is not None and outcome is Outcome.RAISED and last is not None and last.message == error.message:
        # The pass knows its own line; the exception that ended the run knows the frames.
        passes[-1] = replace(passes[-1], error=error)
    sandbox = _last(of(recorded.Sandbox), recorded.Sandbox(()))
    without = _last(of(recorded.Without), None)
    return RunRecord(
        outcome=outcome,
        error=error,
        passes=tuple(passes),
        updates=tuple(of(Step)),
        parameters={one.index: one for one in of(Parameter)},
        optimizers=tuple(one.type for one in of(recorded.OptimizerMade)),
        output=output,
        seconds=seconds,
        mistakes=tuple(one.traceback for one in of(recorded.Mistake)),
        device=_last(of(recorded.Start), recorded.Start()).device,
        network=sandbox.network,
        open_ends=sandbox.open,
        facts=tuple(one.told for one in of(recorded.Fact)),
        without=(without.number, without.sketches) if without is not None else None,
        between={(one.steps, one.calls): one.nodes for one in of(recorded.Between)},
        unloaded=_last(of(recorded.Unloaded), recorded.Unloaded({})).places,
        missed=_last(of(Missed), None),
        calls=tuple((one.number, one.parameters) for one in of(recorded.CalledBefore)),
        carried=tuple(one.told for one in of(recorded.Carried)),
    )


def _events(lines: Iterable[str]) -> Iterator[recorded.Event]:
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            yield recorded.read(line)


def _last(events: Sequence[T], default: U) -> T | U:
    return events[-1] if events else default
