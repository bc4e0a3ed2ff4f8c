"""The run witness: runs the script and says, from its own tape, in which places of the source a failure was made.

A :class:`TorchFunctionMode` sees every call of torch.  After a call, each new node of the graph is given the call's
site; the note lies in ``Node.metadata``, which lives exactly as long as the node.  A change of a tensor's version
during a call is a change in place.  Passes are seen by wrapping ``torch.autograd.backward``; after one that frees its
graph, the nodes that it walked are marked with its number.  When a pass fails, its graph is asked: the edges from
fresh nodes to freed ones, the nodes whose saved tensors were changed.  The message of the error only says which
question to ask.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from .events import Events
from .graph import roots_of, walk
from .holders import holders, tensors_made_by
from .job import Job
from .modules import InplaceModules
from .probe import leave, prepare
from .reference import saved_names
from .sites import Chain, Sites

Tensor = torch.Tensor
DATA = vars(torch._C.TensorBase)["data"]
GETTER = type(DATA.__get__)

MADE = "autofix_made"
FREED = "autofix_freed"

STALE = "backward through the graph a second time"
CHANGED = "modified by an inplace operation"
CUT = "does not require grad and does not have a grad_fn"
ERRORS = {
    "a leaf Variable that requires grad": "leaf changed",
    "a view of a leaf Variable that requires grad": "leaf changed",
    "Can't call numpy() on Tensor that requires grad": "graph escapes",
    "Only Tensors created explicitly by the user": "graph escapes",
    "invalid index of a 0-dim tensor": "legacy API",
}
"""Pieces of messages that a call itself raises, and the kind of fact that they tell of."""
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")

MOST_FACTS = 16


class Call:
    """One call of torch that made nodes: where, after how many passes and steps, and on what memory it worked."""

    __slots__ = ("chain", "number", "passes", "pointers", "steps")

    def __init__(self, chain: Chain, number: int, passes: int, steps: int, pointers: tuple[int, ...]) -> None:
        self.chain = chain
        self.number = number
        self.passes = passes
        self.steps = steps
        self.pointers = pointers


class Change:
    """A change in place: of which memory, from which version to which, where, by what."""

    __slots__ = ("begin", "chain", "end", "kind", "made", "name", "number", "version")

    def __init__(self, tensor: Tensor, chain: Chain, number: int, name: str, kind: str, made: Chain | None) -> None:
        storage = tensor.untyped_storage()
        self.begin = storage.data_ptr()
        self.end = self.begin + storage.nbytes()
        self.version = tensor._version
        self.chain = chain
        self.number = number
        self.name = name
        self.kind = kind
        self.made = made


class Witness(TorchFunctionMode):
    """Watches the one run of this process.  ``install`` before the script starts, ``finish`` after it."""

    def __init__(self, job: Job, events: Events) -> None:
        super().__init__()
        self._job = job
        self._events = events
        self._sites = Sites(job.root)
        self._modules = InplaceModules(self._sites)
        self._calls = 0
        self._passes = 0
        self._steps = 0
        self._asleep = False
        self._changes: deque[Change] = deque(maxlen=4096)
        self._step_sites: deque[tuple[int, Optimizer, Chain]] = deque(maxlen=256)
        self._pass_sites: dict[int, Chain] = {}
        self._cuts: deque[tuple[str, Chain, int]] = deque(maxlen=64)
        self._inside = threading.local()
        self._told = 0

    def install(self) -> None:
        """Prepare the run, and begin to watch."""
        prepare(self._job)
        torch.autograd.backward = self._watch_pass(torch.autograd.backward, 2)
        torch.autograd.grad = self._watch_pass(torch.autograd.grad, 3)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        self._modules.install()
        self._watch_functions()
        self.__enter__()  # type: ignore[no-untyped-call]
        self._events.write("start", torch=torch.__version__, python=sys.version.split()[0], device=self._job.device)

    def finish(self, outcome: str, error: dict[str, Any] | None) -> NoReturn:
        """Close the record and end the process."""
        self._asleep = True
        self._events.write("end", outcome=outcome, error=error, steps=self._steps, passes=self._passes)
        leave(self._events, outcome)

    # -- calls

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
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
            self._tell_error(error, func)
            raise
        self._calls += 1
        call = None
        for tensor, version in zip(tensors, versions, strict=True):
            if tensor._version != version:
                chain = self._sites.here()
                name = getattr(func, "__name__", str(func))
                kind, made = self._modules.kind_of(name, kwargs, chain)
                self._changes.append(Change(tensor, chain, self._calls, name, kind, made))
                call = self._note(tensor.grad_fn, tensors, call)  # it lies on the changed tensor's memory, too
        if isinstance(result, Tensor):
            if result.grad_fn is not None:
                self._note(result.grad_fn, [*tensors, result], call)
            elif not result.requires_grad:
                self._note_cut(getattr(func, "__name__", ""), tensors, result)
        elif isinstance(result, (tuple, list)):
            for one in result:
                if isinstance(one, Tensor) and one.grad_fn is not None:
                    call = self._note(one.grad_fn, [*tensors, one], call)
        elif result is not None:
            self._note_cut(getattr(func, "__name__", ""), tensors, None)
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
            call = Call(self._sites.here(2), self._calls, self._passes, self._steps, pointers)
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
            self._calls += 1
            for one in results:
                call = self._note(one.grad_fn, [*tensors, *results], call)
            return result

        torch.autograd.Function.apply = classmethod(watched)  # type: ignore[assignment]

    def _note_cut(self, name: str, tensors: Iterable[Any], result: Tensor | None) -> None:
        """Remember a call that took tensors with a graph and gave back something without."""
        if any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in tensors) and not (
            result is None and name in ("size", "dim", "numel", "__len__", "is_floating_point", "stride", "__repr__")
        ):
            self._cuts.append((name, self._sites.here(2), self._passes))

    # -- optimizers

    def _before_step(self, _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # What an optimizer does within is no business of the script's, except where it calls the script's closure.
        self._asleep = len(args) < 2 and kwargs.get("closure") is None

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self._asleep = False
        self._steps += 1
        self._step_sites.append((self._calls, optimizer, self._sites.here()))
        if self._job.failed_steps is not None and self._steps >= self._job.failed_steps + self._job.more_steps:
            self.finish("stopped", None)

    # -- passes

    def _watch_pass(self, original: Callable[..., Any], retain_at: int) -> Callable[..., Any]:
        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "depth", 0):
                return original(*args, **kwargs)
            tensors = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            retain = args[retain_at] if len(args) > retain_at else kwargs.get("retain_graph")
            create = args[retain_at + 1] if len(args) > retain_at + 1 else kwargs.get("create_graph")
            asleep, self._asleep = self._asleep, False  # a closure's pass runs within a step
            self._passes += 1
            number, chain = self._passes, self._sites.here()
            self._pass_sites[number] = chain
            roots = roots_of(tensors)
            self._inside.depth = 1
            try:
                result = original(*args, **kwargs)
            except RuntimeError as error:
                self._inside.depth = 0
                self._asleep = True
                self._explain(str(error), roots, chain)
                raise
            finally:
                self._inside.depth = 0
                self._asleep = asleep
            if not (create if retain is None else retain):
                for node in walk(roots).nodes:
                    notes = node.metadata
                    if FREED not in notes:
                        notes[FREED] = number
            return result

        return watched

    # -- telling

    def _explain(self, message: str, roots: list[Any], failed: Chain) -> None:
        """Tell the facts behind the failure of a pass."""
        if STALE in message:
            self._tell_stale(roots, failed)
        elif CHANGED in message:
            self._tell_overwritten(roots, failed)
        elif CUT in message:
            self._tell_cut(failed)

    def _tell(self, kind: str, roles: dict[str, Chain | None], **details: Any) -> None:
        if self._told >= MOST_FACTS:
            return
        self._told += 1
        told = {name: self._sites.told(chain) for name, chain in roles.items() if chain}
        self._events.write("fact", kind=kind, roles=told, **details)

    def _tell_stale(self, roots: list[Any], failed: Chain) -> None:
        seen: set[tuple[Any, ...]] = set()
        for fresh, freed in frontier(roots):
            made, used = made_by(freed), fresh.metadata.get(MADE) if fresh is not None else None
            key = (made.chain if made else None, used.chain if used else None)
            if key in seen:
                continue
            seen.add(key)
            number = freed.metadata[FREED]
            self._tell(
                "stale graph",
                {
                    "made": made.chain if made else None,
                    "used": used.chain if used else failed,
                    "freed": self._pass_sites.get(number),
                    "failed": failed,
                },
                node=freed.name(),
                freed_by_pass=number,
                made_after={"passes": made.passes, "steps": made.steps} if made else None,
                used_after={"passes": used.passes, "steps": used.steps} if used else None,
                failed_pass=self._passes,
                holders=holders(tensors_made_by({freed}), self._job.root),
            )

    def _tell_overwritten(self, roots: list[Any], failed: Chain) -> None:
        seen: set[tuple[Any, ...]] = set()
        before = parents(roots)
        for node in before:
            call = node.metadata.get(MADE)
            for name in saved_names(type(node)):
                try:
                    getattr(node, name)
                except RuntimeError as error:
                    if CHANGED not in str(error):
                        continue
                    found = VERSIONS.search(str(error))
                    now, then = (int(found[1]), int(found[2])) if found else (0, 0)
                    changes = list(self._changes_of(call, then, now)) if call else []
                    chain, what = changes[0] if changes else (None, {})
                    made, used = crossing(node, before)
                    key = (call.chain if call else None, chain)
                    if key in seen:
                        continue
                    seen.add(key)
                    self._tell(
                        "overwritten",
                        {
                            "saved": call.chain if call else None,
                            "made": made.chain if made else None,
                            "used": used.chain if used else None,
                            "changed": chain,
                            "failed": failed,
                            **({"constructed": what.pop("constructed")} if what.get("constructed") else {}),
                        },
                        node=node.name(),
                        saved_as=name.removeprefix("_saved_"),
                        versions={"expected": then, "found": now},
                        changes=[self._sites.told(c)[-1:] for c, _ in changes],
                        saved_after={"passes": call.passes, "steps": call.steps} if call else None,
                        freed=FREED in node.metadata or None,
                        **{k: v for k, v in what.items() if k != "constructed"},
                    )

    def _changes_of(self, call: Call, then: int, now: int) -> Iterator[tuple[Chain, dict[str, Any]]]:
        """The changes, in their order, of memory that *call* worked on, made after it."""
        found: list[tuple[int, Chain, dict[str, Any]]] = []
        for change in self._changes:
            if change.number >= call.number and then < change.version <= now:
                if any(change.begin <= pointer < change.end for pointer in call.pointers):
                    how = {"change": change.kind, "by": change.name, "constructed": change.made}
                    found.append((change.number, change.chain, how))
        for number, optimizer, chain in self._step_sites:
            if number >= call.number:
                pointers = {p.data_ptr() for group in optimizer.param_groups for p in group["params"]}
                if pointers.intersection(call.pointers):
                    found.append((number, chain, {"change": "optimizer step", "by": type(optimizer).__name__}))
        found.sort(key=lambda one: one[0])
        for _, chain, how in found:
            yield chain, how

    def _tell_cut(self, failed: Chain) -> None:
        """The last calls that dropped a graph, the latest first: one of them is on the way to the loss."""
        seen: set[Chain] = set()
        for name, chain, passes in reversed(self._cuts):
            if passes == self._passes - 1 and chain and chain not in seen:
                seen.add(chain)
                self._tell("cut graph", {"cut": chain, "failed": failed}, by=name)
        if not seen:
            self._tell("cut graph", {"failed": failed})

    def _tell_error(self, error: BaseException, func: Callable[..., Any]) -> None:
        message = str(error)
        for piece, kind in ERRORS.items():
            if piece in message:
                self._tell(kind, {"failed": self._sites.here(2)}, by=getattr(func, "__name__", str(func)))
                return


def tensors_in(args: Iterable[Any], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors among the arguments, those in lists and tuples included."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value, {})


def frontier(roots: list[Any]) -> list[tuple[Any, Any]]:
    """The edges from fresh nodes to freed ones; a freed root has no fresh node before it."""
    edges: list[tuple[Any, Any]] = []
    seen: set[Any] = set()
    stack = [(None, node) for node in roots if node is not None]
    while stack:
        before, node = stack.pop()
        if FREED in node.metadata and not hasattr(node, "variable"):
            edges.append((before, node))
            continue
        if node not in seen:
            seen.add(node)
            stack.extend((node, following) for following, _ in node.next_functions if following is not None)
    return edges


def parents(roots: list[Any]) -> dict[Any, Any]:
    """Every node of a pass to the node from which the pass first comes to it, None for the roots."""
    before: dict[Any, Any] = {root: None for root in roots if root is not None}
    queue = deque(before)
    while queue:
        node = queue.popleft()
        for following, _ in node.next_functions:
            if following is not None and following not in before:
                before[following] = node
                queue.append(following)
    return before


def crossing(node: Any, before: dict[Any, Any]) -> tuple[Call | None, Call | None]:
    """Where the way from the roots to *node* enters an earlier iteration's graph: the calls that made and used it.

    That is where a node that was made after one more pass uses one that was made before it.  None and None if the way
    stays in one iteration.
    """
    call, later = node.metadata.get(MADE), before[node]
    while later is not None:
        user = later.metadata.get(MADE)
        if call is not None and user is not None and user.passes > call.passes:
            return call, user
        call, later = user or call, before[later]
    return None, None


def made_by(node: Any) -> Call | None:
    """The call that made *node*, or the nearest under it: nodes made by a pass with ``create_graph`` have no site."""
    for one in walk([node]).nodes:
        call = one.metadata.get(MADE)
        if isinstance(call, Call):
            return call
    return None
