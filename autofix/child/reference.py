"""Lets the broken script run on, and so yields the gradients that its formulas mean.

Every pass keeps its graph, and every tensor that a node saves is cloned when it is saved, so that neither a freed
graph nor a change in place stops a pass: it computes with the values that the forward pass saw.
(``allow_mutation_on_saved_tensors`` is no substitute: in torch 2.13 it gives wrong gradients for some views.)  Errors
of other kinds are forgiven where the author's intention is plain (``leniency.py``).

A *faulty* node belongs to an earlier iteration (``graph.is_of_earlier_iteration``), or an optimizer step has changed a
parameter that it saved.  The part of each gradient that comes through faulty nodes is measured by an extra pass in
which they pass nothing on.  A right patch may change that part (a detach drops it, a second forward pass renews it) and
no other: two losses of one iteration that share a graph want both their gradients.

For a parameter, a faulty node is *old* if it was made before the parameter's last step, or before the last time that
the very pass ran which is running now: then it belongs to the past, and dropping it truncates.  A faulty node that is
not old belongs to the present iteration (a score of the discriminator, taken before the discriminator's own step), and
the part through it may be renewed but not dropped.  So do features from which several passes of one step begin, for the
parameters that nothing else leads to.  All is measured entry by entry, because a patch may keep some of
the ways.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, saved_tensors_hooks

from .graph import (
    PLACE,
    SPENT,
    Moment,
    Place,
    Walk,
    below,
    is_addition,
    is_of_earlier_iteration,
    next_number,
    places_in,
    roots_of,
    walk,
)
from .leniency import be_lenient
from .parameters import Parameters, has_no_gradient
from .recorded import Past, Without
from .scaled import scale_of
from .sketch import sketch
from .stage import is_user_file
from .terms import Terms, replaced_signs, terms_of

REMEMBERED = 4
"""Passes whose graphs are held, so that nodes found faulty later can be left out of their gradients, too."""
MOST_PARTS = 6
"""Entries into faulty nodes that are told apart: each takes a pass of its own."""
WEIGHED = 1e-6
"""Size of a derivative of gradients, relative to these, from which on it is no rounding."""
SENT = "autofix_sent"
"""Key in ``Node.metadata`` of the step in which a pass was last sent back from the node."""
Site = tuple[tuple[str, int], ...]
"""Place at which a pass is called: file and line of each user frame, the outermost first."""
Edge = tuple[Any, int]
"""A node and the position of one of its inputs."""
BACKWARD = inspect.signature(torch.autograd.backward)
GRAD = inspect.signature(torch.autograd.grad)


@dataclass(frozen=True)
class Asked:
    """Tensors from which a pass is sent back, their gradients, and the leaves whose gradients are followed."""

    tensors: Any
    gradients: Any = None
    leaves: list[torch.Tensor] | None = None
    """None for all leaves that it reaches."""

    @classmethod
    def by(cls, bound: inspect.BoundArguments, leaves: list[torch.Tensor] | None = None) -> Asked:
        """Make one of the arguments of ``backward``, or, with *leaves*, of ``grad``."""
        given = bound.arguments
        if leaves is not None:
            return cls(given["outputs"], given.get("grad_outputs"), leaves)
        return cls(given["tensors"], given.get("grad_tensors"), None if given.get("inputs") is None else [])


class Saved:
    """A tensor as a node saved it, and an alias through which a later change in place shows."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.values = tensor.clone()
        self.alias = tensor.detach()  # the tensor itself would close a reference cycle through its node
        self.version = tensor._version


@dataclass
class Part:
    """Gradient that a pass adds when closed off from some nodes, and for each entry to them, when that one is open."""

    closed: torch.Tensor
    opened: list[torch.Tensor] = field(default_factory=list)
    """Empty where there is only one entry."""
    known: bool = True
    """Whether the entries were few enough to be told apart."""


@dataclass
class Share:
    """Share of a gradient that came through certain nodes: in total, and by each entry."""

    total: torch.Tensor | None = None
    ways: list[torch.Tensor] = field(default_factory=list)
    known: bool = True

    def add(self, added: torch.Tensor, part: Part) -> None:
        """Add the share of a pass that adds *added* to the gradient, and *part* when closed off from the nodes."""
        self.total = added - part.closed if self.total is None else self.total + added - part.closed
        self.ways += [opened - part.closed for opened in part.opened] or [added - part.closed]
        self.known = self.known and part.known and len(self.ways) <= MOST_PARTS


@dataclass
class Faulty:
    """Shares of a gradient that came through faulty nodes, and through the old ones among them."""

    all: Share = field(default_factory=Share)
    old: Share = field(default_factory=Share)


class Reference:
    """The machinery of a reference run.  Only one at a time."""

    def __init__(self, parameters: Parameters, root: str, *, reduction: str = "") -> None:
        self._parameters = parameters
        self._root = root
        self._read: set[int] = set()
        """The parameters whose gradients the script has read."""
        self._reduction = reduction
        self._grad = torch.autograd.grad
        self._changed: list[int] = []
        self._faulty: dict[int, Faulty] = {}
        self._stepped: dict[int, int] = {}
        """Parameter to the sequence number that the next node had when it was last stepped."""
        self._ran: dict[Site, int] = {}
        """Place of a pass to the sequence number that the next node had when it last ran."""
        self._terms: dict[Site, tuple[Asked, Terms]] = {}
        """Place of a pass to the last one there, and the places of its loss at which it used what networks computed."""
        self._latest: deque[tuple[int, Asked]] = deque(maxlen=REMEMBERED)
        self._last: Asked | None = None
        """The last backward pass."""
        self._failed = False
        """Whether a pass has gone through faulty nodes."""
        self._past: Past | None = None
        """What the last pass uses of faulty graphs; None where that was not looked at."""

    def install(self) -> None:
        """Clone all tensors that nodes save from now on, and forgive errors that a kept graph does not avoid."""
        hooks = saved_tensors_hooks(Saved, self._unpack)
        hooks.__enter__()
        leave_out_in_transforms(hooks)
        be_lenient(self._gradient_of, self._note_read)

    def _unpack(self, saved: Saved) -> torch.Tensor:
        if saved.alias._version != saved.version:
            self._changed.append(saved.alias.untyped_storage().data_ptr())
        return saved.values

    def keeping(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments of a pass, changed so that it keeps its graph."""
        bound = (BACKWARD if kind == "backward" else GRAD).bind(*args, **kwargs)
        bound.arguments["retain_graph"] = True
        outputs = bound.arguments.get("outputs")
        if outputs is not None and bound.arguments.get("grad_outputs") is None:
            # For a vector, the gradient of the sum of its elements, as a gradient penalty or a derivative wants it.
            each = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
            bound.arguments["grad_outputs"] = [torch.ones_like(one) for one in each]
        if kind == "backward" and self._reduction and bound.arguments.get("grad_tensors") is None:
            bound.arguments["grad_tensors"] = reduced(bound.arguments["tensors"], self._reduction)
        return bound

    def before_pass(
        self, number: int, asked: Asked, walked: Walk, moment: Moment, site: Site, by_hand: bool
    ) -> Without | None:
        """Measure the parts that pass *number*, about to run at *site*, will add to each gradient, by their ways.

        It is measured before the pass, because an optimizer may take its step within it.  At the first pass through
        faulty nodes, returns the gradients that the last earlier pass through them would have added without them.
        """
        self._past = Past()
        if asked.leaves is None:
            self._last = asked
        leaves = walked.leaves if asked.leaves is None else asked.leaves
        bad = {node for node in walked.nodes if self._is_faulty(node, moment, by_hand)}
        now, last = next_number(), self._ran.get(site, 0)
        self._ran[site] = now
        for leaf in leaves:
            tracked = self._parameters.find(leaf)
            if tracked is not None and has_no_gradient(leaf):
                self._faulty.pop(tracked.index, None)  # it begins anew
        if not bad:
            if not self._failed:
                self._latest.append((number, asked))
                self._terms[site] = asked, terms_of(roots_of(asked.tensors))
            return None
        without = None if self._failed else self._without(bad)
        self._past = self._uses(asked, walked, leaves, bad, site)
        self._failed = True
        added = self._closed(asked, leaves, [])
        sound = self._parts(asked, walked, leaves, bad)
        ages = {leaf: now if by_hand else max(last, self._age(leaf)) for leaf in leaves}
        shared = set[Any]() if by_hand or not last else self._shared(asked, walked, bad)
        spared = {leaf: self._age(leaf) if shared and not sound[leaf].closed.any() else now for leaf in leaves}
        for age, since in set(zip(ages.values(), spared.values(), strict=True)):
            old = {node for node in bad if node._sequence_nr() < age}
            old -= {node for node in shared if node._sequence_nr() >= since}
            present = sound if old == bad else self._parts(asked, walked, leaves, old) if old else {}
            for leaf in leaves:
                tracked = self._parameters.find(leaf)
                if tracked is None or (ages[leaf], spared[leaf]) != (age, since):
                    continue
                faulty = self._faulty.setdefault(tracked.index, Faulty())
                faulty.all.add(added[leaf], sound[leaf])
                if leaf in present:
                    faulty.old.add(added[leaf], present[leaf])
        return without

    def _shared(self, asked: Asked, walked: Walk, bad: set[Any]) -> set[Any]:
        """The nodes among *bad* that come before several passes: they are entered where an earlier pass was, too.

        Features that each head uses, for a loss of its own.  A state that is carried on is used by the next one.  The
        losses of a running sum, too, are used again in their places, and should not be.
        """
        places = places_in(roots_of(asked.tensors))
        begun = [
            following
            for node, position in entries_of(walked, bad)
            for following in (node.next_functions[position][0],)
            if is_again_at(following, node, places) and holds_many(following)
        ]
        return bad.intersection(walk(begun).nodes)

    def _uses(self, asked: Asked, walked: Walk, leaves: list[torch.Tensor], bad: set[Any], site: Site) -> Past:
        """What a pass uses of the graphs of earlier iterations, to which the nodes *bad* belong."""
        roots = roots_of(asked.tensors)
        beside, items = items_beside(roots, walked, bad)
        weighed = set[Any]() if self._failed else self._weighed(asked, walked, leaves, bad)
        replaced = bool(weighed) and self._replaces(site, roots, bad, weighed)
        return Past(faulty=True, weighed=bool(weighed), replaced=replaced, present=beside, items=items)

    def _replaces(self, site: Site, roots: list[Any], bad: set[Any], weighed: set[Any]) -> bool:
        """Whether some of *weighed* stand in an error where the last pass at *site* trained what it computed itself."""
        if site not in self._terms:
            return False
        asked, earlier = self._terms[site]
        signs = replaced_signs(terms_of(roots), earlier, bad, weighed)
        nodes = {node for sign in signs for node in earlier[sign]}
        if not nodes or begins_in(asked, nodes):
            return False
        walked = walk(roots_of(asked.tensors))
        whole, closed = (self._closed(asked, walked.leaves, edges) for edges in ([], entries_of(walked, nodes)))
        return any(float((whole[leaf] - closed[leaf]).norm()) > WEIGHED * float(whole[leaf].norm()) for leaf in whole)

    def _weighed(self, asked: Asked, walked: Walk, leaves: list[torch.Tensor], bad: set[Any]) -> set[Any]:
        """The first of the nodes *bad* on whose values the gradients without them depend.

        The terms of a sum do not depend on each other; the features of a memory, the mean of which a network reads, do.
        """
        entries = entries_of(walked, bad)
        edges = list({node.next_functions[at]: None for node, at in entries})
        if not edges or begins_in(asked, bad):
            return set()
        with torch.enable_grad(), contextlib.suppress(RuntimeError):
            gradients = self._gradients(asked, leaves, entries, create_graph=True)
            known = [one for one in gradients if one is not None and one.requires_grad]
            if not known:
                return set()
            weights = [torch.sin(torch.arange(1.0, one.numel() + 1, device=one.device)).to(one.dtype) for one in known]
            found = self._grad(
                known,
                [GradientEdge(*edge) for edge in edges],
                grad_outputs=[weight.view_as(one) for one, weight in zip(known, weights, strict=True)],
                retain_graph=True,
                allow_unused=True,
            )
            least = WEIGHED * math.hypot(*(float(one.detach().norm()) for one in known))
            pairs = zip(edges, found, strict=True)
            return {node for (node, _), one in pairs if one is not None and float(one.norm()) > least}
        return set()

    def _without(self, bad: set[Any]) -> Without | None:
        """Gradients, without the nodes *bad*, of the last pass that went through them before they were faulty."""
        latest = list(self._latest)
        self._latest.clear()
        for number, asked in reversed(latest):
            earlier = walk(roots_of(asked.tensors))
            shared = bad.intersection(earlier.nodes)
            if shared and not begins_in(asked, shared) and asked.leaves is None:
                closed = self._closed(asked, earlier.leaves, entries_of(earlier, shared))
                scale = scale_of(roots_of(asked.tensors))
                found = {self._parameters.find(leaf): sketch(gradient / scale) for leaf, gradient in closed.items()}
                return Without(number, {one.index: v for one, v in found.items() if one is not None})
        return None

    def _note_read(self, leaf: torch.Tensor, file: str) -> None:
        tracked = self._parameters.find(leaf)
        if tracked is not None and is_user_file(file, self._root):
            self._read.add(tracked.index)

    def take_read(self) -> frozenset[int]:
        """The parameters whose gradients the script has read since the last call."""
        read = frozenset(self._read)
        self._read.clear()
        return read

    def take_past(self) -> Past | None:
        """What the last pass uses of faulty graphs, for once."""
        past, self._past = self._past, None
        return past

    def after_step(self, tensors: list[torch.Tensor]) -> None:
        """Note that these parameters were stepped."""
        now = next_number()
        for tensor in tensors:
            if (tracked := self._parameters.find(tensor)) is not None:
                self._stepped[tracked.index] = now

    def is_repetition(self, bound: inspect.BoundArguments, walked: Walk, moment: Moment) -> bool:
        """Whether the pass sends back once more what earlier passes in the same step have sent back.

        So does one from the same roots, or from a sum of such roots alone.  No author means such a pass: the
        gradients, which nothing has set to zero meanwhile, would count twice.
        """
        roots = [root for root in roots_of(bound.arguments["tensors"]) if root is not None]
        terms = [terms_sent(root, moment.step) for root in roots]
        if not bound.arguments.get("inputs"):
            for root in roots:
                root.metadata[SENT] = moment.step
        again = bool(terms) and all(terms)
        freed = all(SPENT in term.metadata for found in terms for term in found)
        kept = not any(map(has_no_gradient, walked.leaves))
        return again and freed and kept

    def _gradient_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The gradient that the last pass would have left at a *tensor* that is no leaf; None where it left none."""
        if self._last is None:
            return None
        asked = self._last
        found = None
        with torch.enable_grad(), contextlib.suppress(RuntimeError):
            (found,) = self._grad(
                asked.tensors, [tensor], grad_outputs=asked.gradients, retain_graph=True, allow_unused=True
            )
        return None if found is None else found.detach()

    def faulty(self, index: int) -> Faulty | None:
        """Shares of the present gradient of parameter *index* through faulty nodes; None where there is none."""
        return self._faulty.get(index)

    def _is_faulty(self, node: Any, moment: Moment, by_hand: bool) -> bool:
        if hasattr(node, "variable"):
            return False
        if is_of_earlier_iteration(node.metadata, moment, by_hand=by_hand):
            return True
        self._changed.clear()
        for name in saved_names(type(node)):
            getattr(node, name, None)  # unpacking tells whether it was changed
        return any(storage in self._parameters.storages() for storage in self._changed)

    def _age(self, leaf: torch.Tensor) -> int:
        """The sequence number that the next node had when *leaf* was last stepped."""
        tracked = self._parameters.find(leaf)
        return self._stepped.get(tracked.index, 0) if tracked is not None else 0

    def _parts(
        self, asked: Asked, walked: Walk, leaves: list[torch.Tensor], nodes: set[Any]
    ) -> dict[torch.Tensor, Part]:
        """For each leaf, its gradient when the pass enters none of *nodes*, and when it enters them by one edge."""
        if begins_in(asked, nodes):
            return {leaf: Part(torch.zeros_like(leaf)) for leaf in leaves}
        entries = entries_of(walked, nodes)
        closed = self._closed(asked, leaves, entries)
        opened = []
        if 1 < len(entries) <= MOST_PARTS:
            opened = [self._closed(asked, leaves, [e for e in entries if e is not entry]) for entry in entries]
        known = len(entries) <= MOST_PARTS
        return {leaf: Part(closed[leaf], [part[leaf] for part in opened], known) for leaf in leaves}

    def _closed(self, asked: Asked, leaves: list[torch.Tensor], edges: list[Edge]) -> dict[torch.Tensor, torch.Tensor]:
        """Gradient of each leaf when the pass sends zeros through *edges*."""
        pairs = zip(leaves, self._gradients(asked, leaves, edges), strict=True)
        return {leaf: torch.zeros_like(leaf) if g is None else g.detach() for leaf, g in pairs}

    def _gradients(
        self, asked: Asked, leaves: list[torch.Tensor], edges: list[Edge], *, create_graph: bool = False
    ) -> tuple[torch.Tensor | None, ...]:
        positions: dict[Any, set[int]] = {}
        for node, position in edges:
            positions.setdefault(node, set()).add(position)
        handles = [node.register_hook(closing(at)) for node, at in positions.items()]
        try:
            with torch.enable_grad():
                return self._grad(
                    asked.tensors,
                    leaves,
                    grad_outputs=asked.gradients,
                    retain_graph=True,
                    create_graph=create_graph,
                    allow_unused=True,
                )
        finally:
            for handle in handles:
                handle.remove()


def terms_sent(root: Any, step: int) -> list[Any]:
    """The roots of earlier passes of a step whose sum a node is; empty where it has another term besides."""
    found: list[Any] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if node.metadata.get(SENT) == step:
            found.append(node)
        elif type(node).__name__ == "AddBackward0" and node._saved_alpha == 1:
            pending += below(node)
        elif stack := _stacked(node):
            pending += below(stack)
        else:
            return []
    return found


def _stacked(node: Any) -> Any:
    """The stack of single numbers whose total a node is, ``torch.stack(losses).sum()``; None where it is none."""
    under = below(node) if type(node).__name__ in ("SumBackward0", "SumBackward1") else []
    if not under or type(under[0]).__name__ != "StackBackward0":
        return None
    return under[0] if tuple(node._saved_self_sym_sizes) == (len(under[0].next_functions),) else None


def reduced(tensors: Any, reduction: str) -> list[torch.Tensor]:
    """The gradients with which a pass begins at the mean or the sum of each of *tensors* (one, or a sequence)."""
    each = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    return [torch.full_like(one, 1 / one.numel() if reduction == "mean" and one.numel() else 1.0) for one in each]


def leave_out_in_transforms(hooks: saved_tensors_hooks) -> None:
    """Take *hooks* away where a transform of ``torch.func`` refuses them.  Its graphs are gone when it ends."""
    torch.autograd.graph.disable_saved_tensors_hooks = without_hooks(
        hooks, torch.autograd.graph.disable_saved_tensors_hooks
    )


def without_hooks(hooks: saved_tensors_hooks, manager: Callable[..., Any]) -> Callable[..., Any]:
    """The context *manager* that forbids hooks, without *hooks* inside the outermost one."""
    depth = 0

    @contextlib.contextmanager
    def entered(*args: Any, **kwargs: Any) -> Iterator[None]:
        nonlocal depth
        if not depth:
            hooks.__exit__()
        depth += 1
        try:
            with manager(*args, **kwargs):
                yield
        finally:
            depth -= 1
            if not depth:
                hooks.__enter__()

    return entered


def entries_of(walked: Walk, nodes: set[Any]) -> list[Edge]:
    """The edges by which a pass enters *nodes*."""
    return [
        (node, position)
        for node in walked.nodes
        if node not in nodes
        for position, (following, _) in enumerate(node.next_functions)
        if following in nodes
    ]


def items_beside(roots: Iterable[Any], walked: Walk, nodes: set[Any]) -> tuple[int, int]:
    """The sizes of the smallest sum, stack or concatenation that has one of *nodes* as an item: without these, in all.

    So many items of a store are of the present iteration, and so many are read.
    """
    found = [
        (sum(one not in nodes for one in group), len(group))
        for group in (
            _terms(list(roots)),
            *(group for node in walked.nodes if node not in nodes for group in _groups(node)),
        )
        if not nodes.isdisjoint(group)
    ]
    return min(found, default=(0, 0))


def _groups(node: Any) -> list[list[Any]]:
    """The items that a node joins, or the terms of each sum that it is given."""
    if is_addition(node):
        return []
    under = below(node)
    if type(node).__name__ in ("StackBackward0", "CatBackward0"):
        return [_terms(under)]
    return [_terms([one]) for one in under]


def _terms(nodes: list[Any]) -> list[Any]:
    """*nodes*, and the terms in place of a sum; no leaves."""
    found: dict[Any, None] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node is None or hasattr(node, "variable") or node in found:
            continue
        if is_addition(node):
            pending += below(node)
        else:
            found[node] = None
    return list(found)


def begins_in(asked: Asked, nodes: set[Any]) -> bool:
    return any(root in nodes for root in roots_of(asked.tensors))


def closing(positions: set[int]) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """A hook of a node that passes zeros on to the inputs at *positions*."""

    def close(inputs: tuple[torch.Tensor | None, ...], _: Any) -> tuple[torch.Tensor | None, ...]:
        return tuple(
            torch.zeros_like(gradient) if at in positions and gradient is not None else gradient
            for at, gradient in enumerate(inputs)
        )

    return close


def is_again_at(node: Any, above: Any, places: Mapping[Any, set[Place]]) -> bool:
    """Whether *node* stands below a node *above* as in the graph of the first pass that it was in."""
    own = places.get(above, set())
    if not is_addition(above):
        own = {(min(depth for depth, _ in own) + 1, type(above).__name__)} if own else set()
    return not own.isdisjoint(node.metadata.get(PLACE, ()))


def holds_many(node: Any) -> bool:
    """Whether the tensor that a node stands for has several elements."""
    return any(math.prod(one.shape) > 1 for one in node._input_metadata)


_names: dict[type, tuple[str, ...]] = {}


def saved_names(kind: type) -> tuple[str, ...]:
    """The attributes under which nodes of this type show the tensors that they saved."""
    if kind not in _names:
        raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        _names[kind] = tuple(name.removeprefix("_raw") for name in raw if name != "_raw_saved_tensors")
        if "_raw_saved_tensors" in raw:  # a function written in Python
            _names[kind] += ("saved_tensors",)
    return _names[kind]
