"""The run witness: watches what the script does to the tape, so that a failure can be told in places of the source.

A :class:`CallMode` sees every call of torch.  After a call, each new node of the graph is given the call's
site; the note lies in ``Node.metadata``, which lives exactly as long as the node.  A change of a tensor's version
during a call is a change in place.  Passes are seen by wrapping ``torch.autograd.backward``; after one that frees its
graph, the nodes that it walked are marked with its number.  ``explain.py`` derives the cause from these notes when a
pass fails.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .calls import CallMode
from .events import Events
from .explain import Explainer
from .follow import Followed, Follower
from .graph import in_transform, node_of, read_once, roots_of
from .job import Job
from .modules import InplaceModules
from .notes import MADE, Call, Change, Cut, Tape, mark
from .probe import leave, prepare
from .recorded import End, RunError, Start
from .sites import Sites

Tensor = torch.Tensor
DATA = vars(torch._C.TensorBase)["data"]
GETTER = type(DATA.__get__)

SAYS_NOTHING = frozenset({"size", "dim", "numel", "__len__", "is_floating_point", "stride", "__repr__", "type"})
"""Calls that give back something without a graph and yet cut nothing."""
MOST_CUTS = 256
"""Places where graphs were dropped that are remembered."""
LOOK_AT = (8, 16)
"""The optimizer steps after which graphs that are held for nothing are looked for."""


class Witness(CallMode):
    """Watches the one run of this process.  ``install`` before the script starts, ``finish`` after it."""

    def __init__(self, job: Job, events: Events) -> None:
        super().__init__()
        self._job = job
        self._events = events
        self._sites = Sites(job.root)
        self._modules = InplaceModules(self._sites)
        self._asleep = False
        self._tape = Tape()
        self._explainer = Explainer(self._tape, self._sites, events, job.root)
        self._inside = threading.local()
        values = [Followed(index, *value) for index, value in enumerate(job.bounds.follow)]
        self._follower = Follower(values, self._tape, self._sites, events, job.root)
        self._wanted = self._follower.wanted

    def install(self) -> None:
        """Prepare the run, and begin to watch."""
        prepare(self._job)
        torch.autograd.backward = self._watch_pass(torch.autograd.backward, 2)
        torch.autograd.grad = self._watch_pass(torch.autograd.grad, 3)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        self._modules.install()
        self._watch_functions()
        self._watch_sending()
        self.enter()
        self._events.write(Start(torch.__version__, sys.version.split()[0], self._job.device))

    def finish(self, outcome: str, error: RunError | None) -> NoReturn:
        """Close the record and end the process."""
        self._asleep = True
        self._events.write(End(outcome, error, self._tape.steps, self._tape.passes))
        leave(self._events, outcome)

    # -- calls

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._asleep or type(func) is GETTER:
            if type(func) is GETTER and getattr(func, "__self__", None) is DATA:
                self._note_cut("data", args, None)
            return func(*args, **kwargs)
        tensors = [a for a in args if isinstance(a, Tensor)] if not kwargs else list(tensors_in(args, kwargs))
        if len(tensors) < len(args):
            tensors = list(tensors_in(args, kwargs))
        try:
            versions = [tensor._version for tensor in tensors]
        except RuntimeError:  # inference tensors have none
            return func(*args, **kwargs)
        try:
            result = func(*args, **kwargs)
        except (RuntimeError, TypeError, IndexError) as error:
            here = self._sites.here()
            told = self._modules.kind_of(getattr(func, "__name__", ""), kwargs, here)[1]
            self._explainer.tell_error(error, func, here, tensors, told)
            raise
        self._tape.calls += 1
        number = self._tape.calls
        call = None
        for tensor, version in zip(tensors, versions, strict=True):
            if tensor._version != version:
                chain = self._sites.here()
                name = getattr(func, "__name__", str(func))
                kind, made = self._modules.kind_of(name, kwargs, chain)
                self._tape.changes.append(Change(tensor, chain, self._tape.calls, name, kind, made))
                call = self._note(node_of(tensor), tensors, call)  # it lies on the changed tensor's memory, too
        if isinstance(result, Tensor):
            node = node_of(result)
            if node is not None:
                self._note(node, [*tensors, result], call)
            elif not result.requires_grad:
                self._note_cut(getattr(func, "__name__", ""), tensors, result)
        elif isinstance(result, (tuple, list)):
            for one in result:
                if isinstance(one, Tensor):
                    call = self._note(node_of(one), [*tensors, one], call)
        elif result is not None:
            self._note_cut(getattr(func, "__name__", ""), tensors, None)
        if number in self._wanted:
            self._follower.at_call(number, [*tensors_in((result,), {}), *tensors])
        return result

    def _note(self, node: Any, tensors: list[Tensor], call: Call | None) -> Call | None:
        """Give *node*, and the nodes under it that have none yet, the site of this call."""
        if node is None or MADE in node.metadata:
            return call
        if call is None:
            try:
                pointers = tuple([tensor.data_ptr() for tensor in tensors])
            except RuntimeError:
                pointers = ()
            call = Call(self._sites.here(2), self._tape.calls, self._tape.passes, self._tape.steps, pointers)
        stack = [node]
        while stack:
            one = stack.pop()
            notes = one.metadata
            if MADE not in notes:
                notes[MADE] = call
                stack.extend([following for following, _ in one.next_functions if following is not None])
        return call

    def _watch_functions(self) -> None:
        """See calls of functions that the script defines itself: they are no calls of torch."""
        apply = torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]

        def watched(kind: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
            result = apply(kind, *args, **kwargs)
            tensors, results = list(tensors_in(args, kwargs)), list(tensors_in((result,), {}))
            call = None
            self._tape.calls += 1
            for one in results:
                call = self._note(node_of(one), [*tensors, *results], call)
            if call is not None and call.number in self._wanted:
                self._follower.at_call(call.number, results)
            return result

        torch.autograd.Function.apply = classmethod(watched)  # type: ignore[assignment]

    def _watch_sending(self) -> None:
        """Watch tensors that are sent to other processes: pickling a tensor is no call of torch."""
        reducers = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        original = reducers.get(Tensor)
        if original is None:
            return

        def watched(tensor: Tensor) -> Any:
            try:
                return original(tensor)
            except RuntimeError as error:
                self._explainer.tell_error(error, original, self._sites.here(), [tensor])
                raise

        reducers[Tensor] = watched

    def _note_cut(self, name: str, tensors: Iterable[Any], result: Tensor | None) -> None:
        """Remember a call that took tensors with a graph and returned a result without one."""
        if any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in tensors) and not (
            result is None and name in SAYS_NOTHING
        ):
            chain, cuts = self._sites.here(2), self._tape.cuts
            cuts.pop(chain, None)  # the latest comes last
            if len(cuts) >= MOST_CUTS:
                del cuts[next(iter(cuts))]
            cuts[chain] = Cut(name, self._tape.passes, torch.is_grad_enabled())

    # -- optimizers

    def _before_step(self, _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # An optimizer's own calls are no business of the script's, except where it calls the script's closure.
        self._asleep = len(args) < 2 and kwargs.get("closure") is None

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self._asleep = False
        self._tape.steps += 1
        self._tape.step_sites.append((self._tape.calls, optimizer, self._sites.here()))
        if self._tape.steps in LOOK_AT:
            self._asleep = True
            self._explainer.tell_held()
            self._asleep = False
        end = self._job.bounds.failed_steps
        if end is not None and self._tape.steps >= end + self._job.more_steps:
            self.finish("stopped", None)

    # -- passes

    def _end_without_steps(self) -> None:
        """Stop a script that has no optimizer when it has got as far past the failure as one with would in steps."""
        start = self._job.bounds.failed_passes
        if start is not None and not self._tape.steps and self._tape.passes >= start + self._job.more_steps:
            self.finish("stopped", None)

    def _watch_pass(self, original: Callable[..., Any], retain_at: int) -> Callable[..., Any]:
        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "depth", 0) or in_transform():
                return original(*args, **kwargs)
            args, kwargs = read_once(args, kwargs)
            tensors = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            retain = args[retain_at] if len(args) > retain_at else kwargs.get("retain_graph")
            create = args[retain_at + 1] if len(args) > retain_at + 1 else kwargs.get("create_graph")
            asleep, self._asleep = self._asleep, False  # a closure's pass runs within a step
            self._tape.passes += 1
            number, chain = self._tape.passes, self._sites.here()
            self._tape.pass_sites[number] = chain
            self._tape.pass_steps[number] = self._tape.steps
            self._tape.pass_calls[number] = self._tape.calls
            roots = roots_of(tensors)
            self._inside.depth = 1
            try:
                result = original(*args, **kwargs)
            except RuntimeError as error:
                self._inside.depth = 0
                self._asleep = True
                self._follower.end()
                self._explainer.explain(str(error), roots, chain)
                raise
            finally:
                self._inside.depth = 0
                self._asleep = asleep
            mark(roots, number, frees=not (create if retain is None else retain))
            self._end_without_steps()
            return result

        return watched


def tensors_in(args: Iterable[Any], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors among the arguments, tensors in lists and tuples included."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value, {})
