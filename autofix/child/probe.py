"""Records a run on autograd's tape: passes, losses, optimizer steps, gradients, movement, live graphs.

The probe changes nothing that the script computes: it draws no random number, keeps no graph alive, and runs under
``no_grad``.  It stops the run when it has seen enough.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import random
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import device
from .attached import keep_attached
from .beside import Beside
from .called import Called
from .course import Course
from .events import Events
from .frozen import Frozen, SameCalls, leave_out, stand_in
from .gates import open_gates
from .graph import (
    FIRST,
    PLACE,
    SPENT,
    WALKED,
    Meter,
    Moment,
    Walk,
    count_own,
    count_past,
    first_walked,
    in_transform,
    is_low_precision,
    mark,
    next_number,
    places_in,
    read_once,
    repeats,
    roots_of,
    sends_again,
    trunk_of,
    walk,
)
from .job import Job
from .kept import Kept
from .left import Left
from .modes import Modes
from .parameters import Parameters, Tracked, digest, gradient_norms, norm, settings_of
from .parts import Parts
from .recorded import (
    GRAPHLESS,
    Between,
    Compared,
    End,
    Mistake,
    OptimizerMade,
    Pass,
    RunError,
    Sketches,
    Start,
    Step,
)
from .reference import GRAD, Asked, Reference
from .scaled import scale_of, watch_scaling
from .schedules import Schedules
from .sizes import Sizes, sizes
from .sketch import sketch
from .stage import user_chain, user_place
from .streams import Streams

COMPARED = 6
"""Optimizer steps, for each optimizer, whose gradients are compared with the reference."""
SAMPLED = 50
"""Passes and steps from which on the parameters' fingerprints are taken only at multiples of this number."""
FIRST_COUNT = 8
"""Calls of modules after a step at which live graphs are first counted; then at twice as many, and so on."""
PASSES_PER_STEP = 64
"""Backward passes that count as one optimizer step where none comes (gradient accumulation takes fewer)."""


class Probe:
    """Watches the one run of this process.  ``install`` before the script starts, ``finish`` after it."""

    def __init__(self, job: Job, events: Events) -> None:
        self._job = job
        self._events = events
        self._parameters = Parameters(events, job.root)
        self._optimizers: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._meter = Meter()
        self._made = 0
        self._steps = 0
        self._passes = 0
        self._stop_at: int | None = None
        self._began = time.monotonic()
        self._stop_at_pass: int | None = None
        self._inside = threading.local()
        self._reference = (
            Reference(self._parameters, job.root, reduction=job.bounds.reduction) if job.bounds.reference else None
        )
        self._before: dict[int, tuple[dict[int, torch.Tensor], Step]] = {}
        """Members as they were before, and the record of the step so far, by optimizer, while it makes a step."""
        if job.bounds.failed_steps is not None:
            self._allow_more(job.bounds.failed_steps, job.bounds.failed_passes or 0)
        self._last: dict[int, str] = {}
        """The parameters' fingerprints after the last step."""
        self._stepping: list[int] = []
        """The optimizers within whose steps the run is: a closure starts passes there."""
        self._left = Left()
        self._calls = 0
        """Calls of modules since the last optimizer step."""
        self._kept = Kept(self._parameters, job.root)
        self._frozen = Frozen(self._parameters, self._kept) if job.bounds.frozen else None
        self._course = Course(detour=job.bounds.detour)
        self._turns: Counter[int] = Counter()
        """Number of times that each optimizer has moved its parameters in the prescribed way."""
        self._cut = False
        """Whether the pass that runs has found no graph, and was left out."""
        self._repetition = False
        """Whether the pass that runs was left out, as earlier passes of its step have sent the same back."""
        self._modes = Modes()
        self._schedules = Schedules()
        self._called = Called(self._parameters, events, job.bounds.failed_passes or 0)
        self._beside = Beside(self._parameters, job.root)
        self._used: dict[int, tuple[float, ...]] = {}
        """The gradients of which a step is about to be made."""
        self._clips: list[float] = []
        """The norms to which gradients were clipped since the last step."""
        self._clamps: list[float] = []
        """The values to which their elements were clipped."""
        self._ran: dict[tuple[str, int | None], int] = {}
        """Place of a pass to the sequence number that the next node had when it last ran."""

    def install(self) -> None:
        """Prepare the run, and hook the passes and the optimizers."""
        prepare(self._job)
        torch.autograd.backward = self._watch_pass(torch.autograd.backward, "backward")
        torch.autograd.grad = self._watch_pass(torch.autograd.grad, "grad")
        self._watch_optimizers()
        register_optimizer_step_pre_hook(self._quietly(self._before_step))
        register_optimizer_step_post_hook(self._quietly(self._after_step))
        self._watch_clipping()
        watch_scaling()
        self._called.install()
        self._modes.install()
        self._schedules.install()
        if self._frozen is not None:
            self._frozen.enter()
        if self._job.bounds.same_calls:
            SameCalls(self._job.seed).install()
        if self._reference is not None:
            self._reference.install()
        if self._job.bounds.apart:
            register_module_forward_pre_hook(leave_input)
        if self._job.bounds.parts:
            Parts(self._job.bounds.parts).enter()
        if self._job.bounds.attached:
            keep_attached(self._job.root, self._job.watched)
        if self._job.streams:
            Streams(self._job.seed).install()
        if self._job.bounds.between:
            register_module_forward_pre_hook(self._quietly(self._before_call))
        self._events.write(Start(torch.__version__, sys.version.split()[0], self._job.device))

    def finish(self, outcome: str, error: RunError | None) -> NoReturn:
        """Close the record and end the process."""
        self._events.write(End(outcome, error, self._steps, self._passes))
        leave(self._events, outcome)

    def _before_call(self, *_: Any) -> None:
        """Count live graphs, ever more seldom between two steps: graphs that are held there grow with the calls."""
        self._calls += 1
        if self._calls >= FIRST_COUNT and not self._calls & (self._calls - 1):
            nodes = self._meter.measure().nodes
            self._events.write(Between(self._steps, self._calls, nodes))

    # -- passes

    def _watch_pass(self, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            # Checkpointing runs passes within a pass, and transforms of torch.func within themselves.
            if getattr(self._inside, "depth", 0) or in_transform():
                return original(*args, **kwargs)
            args, kwargs = read_once(args, kwargs)
            tensors = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            at = 2 if kind == "backward" else 3  # grad() takes its inputs second
            retain = args[at] if len(args) > at else kwargs.get("retain_graph")
            create = args[at + 1] if len(args) > at + 1 else kwargs.get("create_graph")
            keeps = bool(create if retain is None else retain)
            walked = walk(roots_of(tensors))
            file, line = self._quietly(user_place)(self._job.root) or ("", None)
            moment = Moment(self._steps, file, line)
            handed = self._quietly(hands_on)(args[1] if len(args) > 1 else kwargs.get("grad_tensors"), kind)
            seen = self._quietly(self._before_pass)(tensors, walked, moment, kind, keeps, handed)
            leaves = self._quietly(self._leaves_asked)(args, kwargs) if kind == "grad" else None
            if leaves is not None and self._made:
                known = [self._parameters.find(leaf) for leaf in leaves]
                asked = any(one is not None and one.in_optimizer for one in known)
                leaves = None  # how they are updated, the steps show
            else:
                asked = leaves is not None
            given: dict[int, torch.Tensor] = {}
            failure: BaseException | None = None
            self._inside.depth = 1
            try:
                if self._reference is not None:
                    result = self._run_reference_pass(original, kind, args, kwargs, walked, moment, leaves)
                else:
                    result = original(*args, **kwargs)
                if leaves is not None:
                    pairs = zip(leaves, result, strict=True)
                    given = {self._track(leaf).index: gradient for leaf, gradient in pairs if gradient is not None}
                return result
            except BaseException as error:
                failure = error
                raise
            finally:
                self._inside.depth = 0
                if seen is not None:
                    self._quietly(self._after_pass)(replace(seen, asked=asked), walked, moment, failure, given)

        return watched

    def _run_reference_pass(
        self,
        original: Callable[..., Any],
        kind: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        walked: Walk,
        moment: Moment,
        leaves: list[torch.Tensor] | None,
    ) -> Any:
        assert self._reference is not None
        bound = self._reference.keeping(kind, args, kwargs)
        measured = self._frozen is None or self._within_comparison()
        if measured and (kind == "backward" or leaves is not None):
            site = user_chain(self._job.root)
            before = self._quietly(self._reference.before_pass)
            without = before(self._passes, Asked.by(bound, leaves), walked, moment, site, not self._made)
            if without:
                self._events.write(without)
        if kind == "backward" and self._quietly(self._reference.is_repetition)(bound, walked, moment):
            self._repetition = True
            return None
        try:
            return original(*bound.args, **bound.kwargs)
        except RuntimeError as error:
            if self._frozen is None or GRAPHLESS not in str(error):
                raise
            self._cut = True
            return stand_in(bound, list(self._optimizers))

    def _leaves_asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor] | None:
        """Leaves whose gradients ``torch.autograd.grad`` is asked for; None if no update by hand can use them."""
        bound = GRAD.bind(*args, **kwargs)
        inputs = bound.arguments["inputs"]
        leaves = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
        plain = all(isinstance(leaf, torch.Tensor) and leaf.is_leaf and leaf.requires_grad for leaf in leaves)
        return leaves if plain and not bound.arguments.get("create_graph") else None

    def _before_pass(
        self, tensors: Any, walked: Walk, moment: Moment, kind: str, keeps: bool, handed: bool | None
    ) -> Pass:
        for optimizer in list(self._optimizers):
            self._members(optimizer)
        self._beside.before_pass()
        reached = [tracked for leaf in walked.leaves if (tracked := self._track(leaf)) is not None]
        self._passes += 1
        discards = self._left.before_pass(reached, kind)
        members = [tracked for tracked in self._parameters if tracked.in_optimizer]
        self._called.tell(members, self._passes)
        roots = roots_of(tensors)
        scale = scale_of(roots)
        over = first_walked(walked.nodes)
        places = places_in(roots)
        found = self._sizes()
        again = repeats(places, moment, by_hand=not self._made)
        for node, place in places.items():
            node.metadata.setdefault(PLACE, place)
        since, self._ran[moment.file, moment.line] = self._ran.get((moment.file, moment.line), 0), next_number()
        return Pass(
            number=self._passes,
            kind=kind,
            step=self._steps,
            losses=() if handed else tuple(one / scale for one in loss_values(tensors, self._job.bounds.reduction)),
            scale=scale,
            handed=bool(handed),
            file=moment.file,
            line=moment.line,
            walked=len(walked.nodes),
            past=count_past(walked.nodes, self._steps),
            own=count_own(walked.nodes, self._steps, since) if self._is_compared_first() else 0,
            over={one.index: number for leaf, number in over.items() if (one := self._track(leaf)) is not None},
            repeats=again,
            again=sends_again(places),
            keeps=keeps,
            discards=discards,
            reached=frozenset(tracked.index for tracked in reached),
            state=self._state(self._passes),
            random=random_state(),
            modes=frozenset(self._modes.since()),
            inputs=self._modes.inputs(),
            trunk=tuple(trunk_of(roots)),
            types=frozenset(type(node).__name__ for node in walked.nodes),
            open=open_gates(walked.nodes) if self._is_one_of_the_first() else None,
            low=is_low_precision(walked.nodes),
            frozen=frozenset(m.index for m in members if m.tensor is not None and not m.tensor.requires_grad),
            sizes=found.containers,
            numbers=found.numbers,
            values=self._values(members),
        )

    def _sizes(self) -> Sizes:
        plain = self._frozen is None and self._reference is None
        found = self._quietly(sizes)(self._job.root) if plain and self._is_one_of_the_first() else None
        return found or Sizes({}, {})

    def _is_compared_first(self) -> bool:
        """Whether the pass is one of the first step, or is the first pass, from which gradients are compared."""
        return self._job.bounds.compare_from in (self._steps, self._passes - 1)

    def _after_pass(
        self,
        seen: Pass,
        walked: Walk,
        moment: Moment,
        failure: BaseException | None,
        given: dict[int, torch.Tensor],
    ) -> None:
        mark(walked.nodes, WALKED, moment)
        for node in walked.nodes:
            node.metadata.setdefault(FIRST, seen.number)
        if failure is None and not seen.keeps:
            mark(walked.nodes, SPENT, moment)
        walked.nodes.clear()  # the caller still holds the walk while the graphs are counted
        repetition, self._repetition = self._repetition, False
        past = self._reference.take_past() if self._reference is not None else None
        reached, cut = seen.reached, self._cut
        if cut:
            self._cut = False
            reached = frozenset(tracked.index for tracked in self._parameters if tracked.in_optimizer)
        gradients = {
            tracked.index: norm(tensor.grad)
            for tracked in self._parameters
            if tracked.index in reached and (tensor := tracked.tensor) is not None and tensor.grad is not None
        }
        gradients |= {index: norm(gradient) for index, gradient in given.items()}
        sent = seen.kind == "backward"
        if self._stepping and sent:
            self._after_pass_within(self._stepping[-1], seen.number)
        members = [tracked.index for tracked in self._parameters if tracked.index in reached]
        found = self._compared(members, given, seen.scale)
        self._left.after_pass(found if sent else Compared())
        if self._frozen is not None:
            self._frozen.hold()
        told = replace(
            seen,
            cut=cut,
            repetition=repetition,
            used=past,
            gradients=gradients,
            live=self._meter.measure() if not self._made else None,
            error=RunError(type(failure).__name__, str(failure), seen.line, seen.file) if failure else None,
        )
        # Weights that are updated by hand are compared pass by pass.
        self._events.write(told if self._made else replace(told, **vars(found)))
        if failure is not None and self._stop_at is None:
            self._allow_more(self._steps, self._passes)
        if self._stop_at_pass is not None and self._passes >= self._stop_at_pass:
            self.finish("stopped", None)

    def _after_pass_within(self, optimizer: int, number: int) -> None:
        """The first pass of a closure shows the gradients that others have before the step."""
        values, step = self._before.get(optimizer, ({}, None))
        if step is not None and not step.closure:
            self._before[optimizer] = values, replace(step, closure=number, **vars(self._compared(list(values))))

    def _state(self, ordinal: int) -> dict[int, str]:
        """Fingerprints of the parameters, at the pass or step *ordinal*.

        Well past the original's failure, and at most of the events of a long run, only of those whose movement no step
        records: leaves of no optimizer, and members of one that moves them by other means than its ``step``.
        """
        comparable = self._job.bounds.failed_passes is None or self._passes <= self._job.bounds.failed_passes + COMPARED
        comparable = comparable and (ordinal <= SAMPLED or ordinal % SAMPLED == 0)
        return {
            tracked.index: digest(tensor)
            for tracked in self._parameters
            if (comparable or not tracked.stepped) and (tensor := tracked.tensor) is not None
        }

    def _compared(
        self, indices: list[int], given: Mapping[int, torch.Tensor] = MappingProxyType({}), scale: float = 1.0
    ) -> Compared:
        """Sketches of the gradients as they are, or were *given*, while they are compared; where it differs, of their
        sound part, of their part without the past, and of the ways into both.  All are told without their *scale*.
        """
        if not self._within_comparison():
            return Compared()
        found: dict[str, dict[int, Any]] = {kind: {} for kind in ("sketches", "sound", "ways", "present", "parts")}
        for tracked in self._parameters:
            tensor = tracked.tensor
            gradient = given.get(tracked.index, tensor.grad if tensor is not None else None)
            if tracked.index not in indices or gradient is None:
                continue
            found["sketches"][tracked.index] = sketch(gradient / scale)
            faulty = self._reference.faulty(tracked.index) if self._reference is not None else None
            for rest, ways, share in (("sound", "ways", "all"), ("present", "parts", "old")):
                part = getattr(faulty, share, None)
                if part is not None and part.total is not None:
                    found[rest][tracked.index] = sketch((gradient - part.total) / scale)
                    if part.known:
                        found[ways][tracked.index] = tuple(sketch(way / scale) for way in part.ways)
        return Compared(**found)

    def _values(self, members: list[Tracked]) -> Sketches:
        """Values of the parameters: at the first pass, and during the comparison where they are updated by hand."""
        if not self._made and (self._passes == 1 or self._within_comparison()):
            return values_of([one for one in self._parameters if one.needs_grad])
        return values_of(members) if self._passes == 1 else {}

    def _within_comparison(self) -> bool:
        """Whether the gradients of this step (of this pass, without an optimizer) are compared with the reference."""
        start = self._job.bounds.compare_from
        done = self._steps if self._made else self._passes
        # The step before the first compared one shows how a patch changed the last pass that succeeded.
        end = math.inf if self._job.bounds.throughout else (start or 0) + COMPARED * max(1, self._made)
        return start is not None and start - 1 <= done <= end

    def _track(self, leaf: torch.Tensor) -> Any:
        return self._parameters.find(leaf) or self._parameters.add_leaf(leaf)

    # -- optimizers

    def _watch_optimizers(self) -> None:
        original = Optimizer.__init__

        @functools.wraps(original)
        def watched(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            self._watch_steps_of(type(optimizer))
            original(optimizer, *args, **kwargs)
            self._quietly(self._register)(optimizer)

        Optimizer.__init__ = watched  # type: ignore[method-assign, assignment]

    def _watch_steps_of(self, kind: type[Optimizer]) -> None:
        """See each step behind all hooks of an optimizer, which may change the gradients, and leave it out if asked."""
        step = kind.step
        if hasattr(step, "hooked"):
            return

        @functools.wraps(step)
        def watched(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if self._events.ours:
                self._quietly(self._note_used)(optimizer)
                if self._frozen is not None:
                    loss = leave_out(step, args, kwargs)
                    if self._job.bounds.driven:
                        self._quietly(self._drive)(optimizer)
                    return loss
            return step(optimizer, *args, **kwargs)

        kind.step = watched  # type: ignore[method-assign, assignment]

    def _drive(self, optimizer: Optimizer) -> None:
        number = self._register(optimizer)
        self._turns[number] += 1
        for _, tensor in self._members(optimizer):
            if (member := self._parameters.find(tensor)) is not None:
                self._course.drive(tensor, member.key, self._turns[number])

    def _note_used(self, optimizer: Optimizer) -> None:
        if self._within_comparison():
            members = self._members(optimizer)
            self._used = {i: sketch(tensor.grad) for i, tensor in members if tensor.grad is not None}

    def _watch_clipping(self) -> None:
        """See to which norms and values gradients are clipped: a patch that cuts some short is clipped otherwise."""
        clip, clamp = torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_

        @functools.wraps(clip)
        def clipped(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
            self._clips.append(float(max_norm))
            return clip(parameters, max_norm, *args, **kwargs)

        @functools.wraps(clamp)
        def clamped(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> Any:
            self._clamps.append(float(clip_value))
            return clamp(parameters, clip_value, *args, **kwargs)

        torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clipped
        torch.nn.utils.clip_grad_value_ = torch.nn.utils.clip_grad.clip_grad_value_ = clamped

    def _register(self, optimizer: Optimizer) -> int:
        number = self._optimizers.get(optimizer)
        if number is None:
            number = self._optimizers[optimizer] = self._made
            self._made += 1
            self._events.write(OptimizerMade(number, type(optimizer).__name__))
        return number

    def _members(self, optimizer: Optimizer) -> list[tuple[int, torch.Tensor]]:
        number = self._register(optimizer)
        return [
            (self._parameters.add_group_member(tensor, number, g, p).index, tensor)
            for g, group in enumerate(optimizer.param_groups)
            for p, tensor in enumerate(group["params"])
        ]

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        members = self._members(optimizer)
        values = {index: tensor.detach().clone() for index, tensor in members}
        # Scaled or clipped gradients depend on all of them: they are compared as the backward pass left them.
        left = self._left.by(self._compared([index for index, _ in members]))
        elsewhere = [i for i, tensor in members if i in self._last and digest(tensor) != self._last[i]]
        number = self._register(optimizer)
        self._stepping.append(number)
        step = Step(
            optimizer=number,
            gradients=gradient_norms(members),
            elsewhere=frozenset(elsewhere),
            settings=tuple(settings_of(group) for group in optimizer.param_groups),
            schedules=self._schedules.of(optimizer),
            beside=self._beside.moved(),
            remembers=any(map(bool, optimizer.state.values())),
            **vars(left),
        )
        if self._is_one_of_the_first():
            kept = self._kept.values()
            step = replace(step, kept=kept.values, carried=kept.carried, arrays=kept.arrays, calls=self._modes.called())
        if self._frozen is not None:
            step = replace(step, left_out=self._frozen.left_out())
        self._before[number] = values, step

    def _is_one_of_the_first(self) -> bool:
        """Whether what is no gradient is compared at this step: tensors that are kept, operations without effect."""
        if self._job.bounds.compare_from is None and not self._job.bounds.frozen:
            return self._steps <= COMPARED * max(1, self._made)
        return self._job.bounds.frozen or self._within_comparison()

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self._steps += 1
        self._calls = 0
        members = self._members(optimizer)
        number = self._register(optimizer)
        values, step = self._before.pop(number, ({}, Step(optimizer=number)))
        self._stepping = [one for one in self._stepping if one != number]
        for one in members:
            if (tracked := self._parameters.find(one[1])) is not None:
                tracked.stepped = True
        self._last = state = self._state(self._steps)
        told = replace(
            step,
            number=self._steps,
            passes=self._passes,
            # A closure (LBFGS) computes them only within the step.
            gradients=step.gradients or gradient_norms(members),
            moved={index: norm(tensor.detach() - values[index]) for index, tensor in members if index in values},
            state=state,
            live=self._meter.measure(),
            used=self._otherwise(step),
            clips=tuple(self._clips),
            clamps=tuple(self._clamps),
            read=self._reference.take_read() if self._reference is not None else frozenset(),
        )
        self._events.write(told)
        self._used, self._clips, self._clamps = {}, [], []
        self._left.forget(values)
        if self._reference is not None:
            self._reference.after_step([tensor for _, tensor in members])
        if self._stop_at is None and self._is_healthy():
            self.finish("stopped", None)
        if self._stop_at is not None and self._steps >= self._stop_at + self._job.more_steps * max(1, self._made):
            self.finish("stopped", None)

    def _otherwise(self, step: Step) -> Sketches:
        """The gradients of which a step was made, where they are not as the passes left them."""
        left = (not step.closure and step.sketches) or {}
        return {i: values for i, values in self._used.items() if i in left and values != left[i]}

    # -- bounds and safety

    def _is_healthy(self) -> bool:
        """Whether the run of a script that has not failed has made enough steps and lasted long enough."""
        patience = self._job.bounds.healthy
        enough = self._steps >= self._job.more_steps * max(1, self._made)
        return patience is not None and enough and time.monotonic() - self._began > patience

    def _allow_more(self, steps: int, passes: int) -> None:
        self._stop_at = steps
        per_step = 2 * passes // max(1, steps)
        self._stop_at_pass = passes + self._job.more_steps * max(PASSES_PER_STEP, per_step)

    def _quietly(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """*method* under ``no_grad``, with its own errors recorded and kept from the script."""

        def guarded(*args: Any) -> Any:
            if not self._events.ours:
                return None
            try:
                with torch.no_grad():
                    return method(*args)
            except Exception:
                self._events.write(Mistake(traceback.format_exc()))
                return None

        return guarded


def leave(events: Events, outcome: str) -> NoReturn:
    """End the process at once: threads that the script left running must not run on."""
    if not events.ours:  # a forked copy of the script: let it end as its author meant
        sys.exit(0 if outcome == "finished" else 1)
    events.at_end()
    unlink_semaphores()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def unlink_semaphores() -> None:
    """Remove the named semaphores of multiprocessing: they would outlive a process that runs no exit hooks."""
    registry = getattr(sys.modules.get("multiprocessing.util"), "_finalizer_registry", {})
    for finalizer in list(registry.values()):
        if getattr(getattr(finalizer, "_callback", None), "__qualname__", "") == "SemLock._cleanup":
            with contextlib.suppress(Exception):
                finalizer()


def prepare(job: Job) -> None:
    """Seed, and fix the arithmetic, so that two runs can be compared."""
    seed_everything(job.seed)
    torch.set_num_threads(1)
    # What use_deterministic_algorithms() does, without the second that it takes to import the compiler.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    if job.device == "cpu":
        device.install(job.root)


def seed_everything(seed: int) -> None:
    """Seed every generator that a script is likely to draw from."""
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    numpy.random.seed(seed % 2**32)
    unseeded = numpy.random.default_rng

    @functools.wraps(unseeded)
    def default_rng(source: Any = None) -> Any:
        return unseeded(seed if source is None else source)

    numpy.random.default_rng = default_rng


def values_of(members: list[Tracked]) -> Sketches:
    """Sketches of parameters."""
    return {one.index: sketch(tensor) for one in members if (tensor := one.tensor) is not None}


def leave_input(module: torch.nn.Module, _: Any) -> None:
    """Hook before every call: let a module that would write over its input make a new tensor."""
    if getattr(module, "inplace", False) is True:
        vars(module)["inplace"] = False


def loss_values(tensors: Any, reduction: str = "") -> list[float]:
    """The value of each root of a pass; of a root with more than one element, the sum, or the *reduction*."""
    if isinstance(tensors, torch.Tensor):
        total = tensors.detach().sum()
        if reduction == "mean":
            total = total / max(1, tensors.numel())
        return [float(total.real if total.is_complex() else total)]
    if isinstance(tensors, (list, tuple)):
        return [value for tensor in tensors for value in loss_values(tensor, reduction)]
    return []


def hands_on(gradients: Any, kind: str) -> bool:
    """Whether a pass begins with *gradients* that are no weights of losses: their elements differ."""
    if kind != "backward":
        return False
    each = gradients if isinstance(gradients, (list, tuple)) else (gradients,)
    return any(
        isinstance(one, torch.Tensor) and one.numel() > 1 and bool((one != one.flatten()[0]).any()) for one in each
    )


def random_state() -> str:
    """A fingerprint of torch's random generator, to tell whether two runs have drawn alike."""
    return digest(torch.get_rng_state())
