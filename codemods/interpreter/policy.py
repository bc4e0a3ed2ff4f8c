"""Which way the program goes where the source does not say.

The interpreter follows one path at a time, so every value on it is definite.  A condition that cannot be computed is
asked of the policy: the same condition on the same values is answered alike for the whole path, so branches that belong
together stay together.  The likely path is followed first, then the one on which conditions that change from iteration
to iteration are false, then alternatives of the likely path, one answer changed at a time, up to a limit.

An answer is changed where that may matter.  A condition that was turned round once, and showed nothing that was not
known, is not turned round again in another iteration, or for another object, at the same place; and what follows such
a path is turned round only where it is new: the rest of the path was the one that it was changed from.

A switch that stays as it is for the whole program (``if args.truncate: h = h.detach()``) is never turned off only to
see what happens: whoever wrote it set it.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from autofix.codemods.interpreter.bounds import Bounds, Comparison, comparison
from autofix.codemods.interpreter.entries import Ways

KEYS = 4096
"""Keys of which it is remembered what they say: a long one has others in it that were asked before."""
TOWARDS_A_PASS = 4
"""Paths that are tried to find a way to a pass, where the likely one comes to none."""


BY_NAME = 2
"""Paths for the other way of options that choose by name, where the likely one comes to no pass."""

BY_SIDE = 2
"""Paths for the other side of conditions, where that side alone leads to a pass."""


class Path(NamedTuple):
    """A way through the program: the first answers, and what is said to all further questions."""

    answers: tuple[bool, ...] = ()
    prefer_false: bool = False
    """Whether conditions that change from iteration to iteration are answered with no."""
    entry: str = ""
    """The function that the path begins in, by its qualified name; the module's own code where it is empty.

    Of models that are supposed to be trained, several, with blanks between them."""
    lived: bool = False
    """Whether the object whose method is entered was used before: its counters and containers have grown."""
    supposed: bool = False
    """Whether what the method returns is sent backward, as whoever trains the model will do."""
    turned: tuple[tuple[Hashable, bool], ...] = ()
    """The places, as those of :class:`Decision`, with the answer that leads to a pass, in whatever iteration."""
    passless: bool = False
    """Whether the function leads to no pass: what is wrong in it is wrong as soon as it is called once."""
    by_default: bool = False
    """Whether all options are left as they are by default, also those that switch something on."""


class Decision(NamedTuple):
    answer: bool
    flips: bool
    """Whether the opposite answer is worth a path of its own."""
    place: Hashable = None
    """Place in the program at which it was asked, for any object and any iteration."""
    steers: bool = True
    """Whether it was asked by an ``if`` where a graph is recorded, and not for a value or without a graph."""


class BranchPolicy:
    """Answers for one path: those prescribed, in order, then the likely answer to each new question."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turned = dict(path.turned)
        self.asked: list[Decision] = []
        self._asked_for: list[int] = []
        """The position of the question, each time that one was asked, or asked again."""
        self._times: Counter[int] = Counter()
        """Number of times that each question was asked."""
        self._idle: Counter[int] = Counter()
        """Number of times that each question was asked for a branch that changes nothing that the tape sees."""
        self.place: Callable[[], tuple[Hashable, bool]] = lambda: (None, True)
        """The place of execution, and whether a branch that is taken here may make or use a graph."""
        self.shows_more = True
        """Whether the path showed anything that those before it had not; said by whoever followed it."""
        self.gives_options = False
        """Whether the path sets a flag of the command line otherwise than it usually is."""
        self.is_unusual = False
        """Whether an option of the path has another value than by default; said by whoever followed it."""
        self._preferred: list[int] = []
        """Questions to which a path that prefers to answer with no would have answered differently."""
        self.entered = not path.entry
        """Whether the path has come to its beginning, and no longer imports what it begins in."""
        self.begun = 0
        """Number of answers that were given before the path came to its beginning."""
        self.matters = 0
        """Number of answers that were given before the last backward pass: later ones change nothing."""
        self.graphless = 0
        """As ``matters``, for passes that found no graph: another way there may have one."""
        self.function: Hashable = None
        """The node of the function being run; None for the code of a module."""
        self.ways: Callable[[], Ways] = Ways
        """The functions and words that lead to a backward pass."""
        self._sides: dict[int, dict[int, tuple[Sequence[ast.stmt], Sequence[ast.stmt]]]] = {}
        """For questions of an ``if``, by their positions: for each such ``if`` the side taken, and the other one."""
        self._asked_in: list[Hashable] = []
        self._known: dict[Hashable, bool] = {}
        self._switches: dict[str, Hashable] = {}
        """For each switch, the key of the condition that was the first to ask for it."""
        self._positions: dict[Hashable, int] = {}
        self._bounds: dict[Hashable, Bounds] = {}
        """Bounds of the values that are compared with constants."""

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("place", "ways")}

    def adopt(self, other: BranchPolicy) -> None:
        """Take over the questions and answers of *other*, which has come as far on the same way."""
        taken = {name: value for name, value in vars(other).items() if name not in ("path", "_turned", "place", "ways")}
        vars(self).update(taken)

    def decide(self, key: Hashable, likely: bool, *, optional: bool = False, prefer_false: bool = False) -> bool:
        """Whether the condition *key* holds.

        ``optional`` marks a condition whose block is only skipped where it does not hold (``if`` without ``else``);
        ``prefer_false`` is the answer that skips it.
        """
        switch = _switch(key)
        known = key if key in self._known else self._switches.get(switch) if switch else None
        if known is not None:
            self._consulted(self._positions[known])
            return self._known[known]
        compared = comparison(key)
        implied = self._implied(compared)
        if implied is not None:
            answer, positions = implied
            for position in positions:
                self._consulted(position)
            return answer
        likely = likely or switch == _SAME_SHAPE
        position = len(self.asked)
        changes = varies(key)
        flips = (changes or not optional or likely is prefer_false) and not periodic(key)
        place, steers = self.place() if flips or optional else (None, False)
        flips = flips and (steers or not compares_dimensions(key))
        asked_at = place, _form(key)
        if position < len(self.path.answers):
            answer = self.path.answers[position]
        elif self.path.prefer_false and self.entered and changes and optional:
            answer = prefer_false
        elif self.path.prefer_false and self.entered and is_emptiness(key):
            answer = False
        elif asked_at in self._turned:
            answer = self._turned[asked_at]
        else:
            answer = likely
            if self.entered and changes and optional and answer != prefer_false:
                self._preferred.append(position)
        self.asked.append(Decision(answer, flips, asked_at, steers))
        self._asked_in.append(self.function)
        self._known[key] = answer
        self._positions[key] = position
        if compared is not None:
            self._bounds.setdefault(compared.of, Bounds()).add(compared, answer, position)
        self._consulted(position)
        if switch:
            self._switches[switch] = key
        return answer

    @property
    def answers(self) -> Mapping[Hashable, bool]:
        """The answers given on this path, by what was asked."""
        return self._known

    def _implied(self, compared: Comparison | None) -> tuple[bool, list[int]] | None:
        if compared is None or compared.of not in self._bounds:
            return None
        return self._bounds[compared.of].implied(compared)

    def _consulted(self, position: int) -> None:
        self._asked_for.append(position)
        self._times[position] += 1

    @property
    def consultations(self) -> int:
        """Number of questions asked so far, repeated ones included."""
        return len(self._asked_for)

    def may_idle_since(self, consultations: int) -> bool:
        """Whether it is of use to know that questions asked since then decide about nothing that the tape sees.

        Not where every such question has decided something before, or has no path of its own.
        """
        if len(self._asked_for) == consultations:
            return False
        if len(self._asked_for) == consultations + 1:
            return self._may_idle(self._asked_for[-1], 1)
        times = Counter(self._asked_for[consultations:])
        return any(self._may_idle(position, count) for position, count in times.items())

    def _may_idle(self, position: int, count: int) -> bool:
        """Whether a question has decided nothing so far, but the last *count* times that it was asked."""
        if not self.asked[position].flips and position not in self._preferred:
            return False
        return self._idle[position] == self._times[position] - count

    def idle_since(self, consultations: int) -> None:
        """Record that the questions asked since then decided about nothing that the tape sees."""
        self._idle.update(self._asked_for[consultations:])

    def forks(self, position: int) -> bool:
        """Whether the question at *position* is worth a path with the opposite answer."""
        return (self.asked[position].flips or self.keeps_from_a_pass(position)) and self._decides(position)

    def keeps_from_a_pass(self, position: int) -> bool:
        """Whether an ``if`` that the answer decides goes around a pass: ``if mode == "both"`` behind ``== "plain"``."""
        ways = self.ways()
        sides = self._sides.get(position, {}).values()
        return any(ways.begin_in(other) and not ways.begin_in(taken) for taken, other in sides)

    def gathers_again(self, position: int) -> list[Hashable]:
        """The places in later iterations of the question at *position*, where it decides what a sum or a list takes in.

        ``if label: right += loss else: wrong += loss``: a graph that is kept for nothing shows once it is kept twice.
        """
        asked = _without_loops(self.asked[position].place)
        again = dict.fromkeys(one.place for one in self.asked[position + 1 :] if _without_loops(one.place) == asked)
        return list(again) if any(_gathers(taken) for taken, _ in self._sides.get(position, {}).values()) else []

    def _decides(self, position: int) -> bool:
        """Whether the answer to the question at *position* was ever of use."""
        return self._idle[position] < self._times[position]

    @property
    def would_differ(self) -> bool:
        """Whether a path that prefers to answer with no would go another way, where it is not only imported."""
        return any(map(self._decides, self._preferred))

    def denied(self, key: Hashable) -> bool:
        """Whether the condition *key* was asked on this path, or one that decides it, and does not hold."""
        known = self._known.get(key)
        if known is None:
            implied = self._implied(comparison(key))
            known = implied[0] if implied is not None else None
        return known is False

    def consequence(self, key: Hashable) -> bool | None:
        """The answer on this path to the condition *key*, by which a pass came since; None where it has none such.

        The opposite answer has a path of its own then.
        """
        return self._known[key] if self._positions.get(key, self.matters) < self.matters else None

    def towards_a_pass(self) -> list[int]:
        """The positions of the last questions of whose two sides only the other one leads to a pass.

        For a path that has come to none: ``if args.test: test() else: train()``.
        """
        sides = ((at, *self._words_of_sides(at)) for at in self._sides)
        return [at for at, taken, other in sides if taken < other][-BY_SIDE:]

    def turns_to_other_passes(self, position: int) -> bool:
        """Whether the other side of the ``if`` that asked leads to passes to which the side taken does not.

        ``if epoch < 20: pretrain() else: train()``.
        """
        taken, other = self._words_of_sides(position)
        return bool(other - taken)

    def _words_of_sides(self, position: int) -> tuple[set[str], set[str]]:
        """The words by which the side taken of the ``if`` that asked, and the other, lead to passes."""
        ways = self.ways()
        found: tuple[set[str], set[str]] = set(), set()
        for sides in self._sides.get(position, {}).values():
            for words, side in zip(found, sides, strict=True):
                words |= ways.begin_in(side)
        return found

    def nearest(self) -> list[int]:
        """The positions of the questions whose opposite may lead to a pass, the nearest to one first, later ones first.

        For a path that has come to none: what waits for a memory to fill, or for a first evaluation.  Before them come
        the options that choose by name what is trained (``if opt.kind == "both"``), as few as there are as a rule.
        """
        chosen = [at for at, asked in enumerate(self.asked) if asked.flips and _names_at(asked.place)][:BY_NAME]
        functions = self.ways().functions
        near = [functions.get(function, 0) if function is not None else 1 for function in self._asked_in]
        others = [at for at in range(len(self.asked)) if near[at] and at not in chosen]
        return [*chosen, *sorted(others, key=lambda at: (-near[at], -at))][: TOWARDS_A_PASS + len(chosen)]

    def goes(self, since: int, asked: int, taken: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        """An ``if`` goes the side *taken*, by what was consulted *since*.

        That is a question that is new to the first *asked* ones, or else an earlier one: ``if args.test:`` may stand in
        several functions.
        """
        if len(self._asked_for) > since and (taken or other):
            position = len(self.asked) - 1 if len(self.asked) > asked else self._asked_for[-1]
            self._sides.setdefault(position, {})[id(taken or other)] = taken, other

    def settle(self, position: int) -> None:
        """The question at *position* turned out to decide nothing: its opposite is not worth a path."""
        self.asked[position] = self.asked[position]._replace(flips=False)


def _without_loops(place: Hashable) -> Hashable:
    """A place of :class:`Decision` in whatever iteration."""
    match place:
        case ((statement, stack, _), form):
            return statement, stack, form
    return place


def _gathers(body: Sequence[ast.stmt]) -> bool:
    """Whether statements add to what a name or a container has: ``total = total + loss``, ``losses.append(loss)``."""
    for part in (part for statement in body for part in ast.walk(statement)):
        match part:
            case ast.AugAssign() | ast.Call(ast.Attribute(attr="append" | "extend")):
                return True
            case ast.Assign([ast.Name() | ast.Attribute() | ast.Subscript() as target]):
                written = ast.unparse(target)
                if any(ast.unparse(one) == written for one in ast.walk(part.value) if isinstance(one, type(target))):
                    return True
    return False


@lru_cache(maxsize=KEYS)
def periodic(key: Hashable) -> bool:
    """Whether a condition holds every k-th iteration.  Iterations in between were not run: turned round for one alone,
    it would no longer agree with its like (a reset at the start of a chunk, a pass at its end).
    """
    if isinstance(key, tuple):
        return key[:1] in (("residue",), ("remainder",)) or any(map(periodic, key))
    return False


def compares_dimensions(key: Hashable) -> bool:
    """Whether a tensor is asked for the number of its dimensions, which is the same in every run."""
    match key:
        case (_, ("~", "dim" | "ndimension", _) | ("attr", _, "ndim"), ("int", _)):
            return True
    return False


def _names_at(place: Hashable) -> bool:
    """Whether a question, at a place of :class:`Decision`, chooses by name."""
    match place:
        case (_, form):
            return chooses_by_name(form)
    return False


def chooses_by_name(key: Hashable) -> bool:
    """Whether a condition compares an option with a text: ``options.kind == "both"``."""
    match key:
        case ("Eq", ("attr" | "item", *_), ("str", str())):
            return True
    return False


@lru_cache(maxsize=KEYS)
def _form(key: Hashable) -> Hashable:
    """A key without the numbers that tell objects and iterations apart: what is asked, and not of whom."""
    if isinstance(key, tuple):
        return tuple(map(_form, key))
    return key if isinstance(key, str) else None


_OF_TENSORS = frozenset("requires_grad is_leaf grad grad_fn is_cuda is_sparse training".split())


_SAME_SHAPE = "same shape"


def _switch(key: Hashable) -> str:
    """The name of a switch, ``twin_critic`` of ``self._twin_critic`` and ``config["twin_critic"]``; empty for others.

    The objects of a program that have a switch of one name have it from one configuration.  So have tensors their
    shapes: the states of all layers fit the batch, or none does.
    """
    if isinstance(key, tuple) and len(key) == 3 and key[0] == "Eq" and is_shape(key[1]) and is_shape(key[2]):
        return _SAME_SHAPE
    if isinstance(key, tuple) and len(key) == 3 and key[0] in ("attr", "item") and not varies(key):
        return key[2].strip("_") if isinstance(key[2], str) and key[2] not in _OF_TENSORS else ""
    return ""


def is_shape(key: Hashable) -> bool:
    """Whether a value is the shape of a tensor, or a part of one."""
    match key:
        case ("attr", _, "shape" | "ndim") | ("~", "size" | "numel", *_) | ("len", ("tensor", *_)):
            return True
        case ("item", of, _):
            return is_shape(of)
    return False


def is_size(key: Hashable) -> bool:
    """Whether a value is a size of a tensor, also of what may be one: ``batch.size(0)``."""
    match key:
        case ("~", "call", ("method", _, "size" | "numel"), _):
            return True
    return is_shape(key)


def is_emptiness(key: Hashable) -> bool:
    """Whether a tensor's size is compared with 0: ``if labels.shape[0] == 0``, which is true of hardly any batch."""
    match key:
        case ("Eq", size, ("int", 0)) | ("Eq", ("int", 0), size) | ("Lt", size, ("int", 1)) | ("Gt", ("int", 1), size):
            return is_size(size)
    return False


def has_elements(key: Hashable) -> bool:
    """Whether it is the opposite of :func:`is_emptiness`: ``if memory.numel() > 0``."""
    match key:
        case ("Gt", size, ("int", 0)) | ("Lt", ("int", 0), size):
            return is_size(size)
    return is_size(key)


_CHANGING = (("~",), ("index",), ("item",), ("count",))
_SUBSCRIPT = 3
"""Length of the key of ``value[index]``."""


def varies(key: Hashable, fixed: Container[Hashable] = ()) -> bool:
    """Whether a condition is computed from something that changes from iteration to iteration, and is not *fixed*.

    The item of a loop does, which is told apart by the loop and the iteration; ``shape[0]`` changes if ``shape`` does.
    """
    if isinstance(key, tuple):
        is_subscript = key[:1] == ("item",) and len(key) == _SUBSCRIPT
        if key[:1] in _CHANGING and not is_subscript:
            return key not in fixed
        return any(varies(part, fixed) for part in key)
    return False


@lru_cache(maxsize=KEYS)
def is_short(key: Hashable, longest: int = 256) -> bool:
    """Whether a key has so few parts, counted as often as they stand in it, that others may be built from it."""
    pending, parts = [key], 0
    while pending and parts <= longest:
        one = pending.pop()
        parts += 1
        if isinstance(one, tuple):
            pending.extend(one)
    return parts <= longest


class _Alternative(NamedTuple):
    """A path that is still to be followed: where it leaves an earlier one, and which earlier one showed something."""

    path: Path
    place: Hashable
    origin: int
    is_nearer: bool = False
    """Whether it leaves the earlier one, which came to no pass, for a side that leads to one by name."""
    always: bool = False
    """Whether it answers the question otherwise in each iteration."""


class Paths:
    """Policies for up to *limit* paths: the *first*, and those that answer otherwise somewhere on it."""

    def __init__(self, limit: int, first: Path, imported: set[Hashable] | None = None) -> None:
        self._limit = limit
        self._imported = imported if imported is not None else set()
        """The places that were turned round while the program was only imported, for whatever function is entered."""
        self._first = first
        self._queue: tuple[deque[_Alternative], deque[_Alternative], deque[_Alternative]] = deque(), deque(), deque()
        """Paths still to be followed: first those whose branch may make or use a graph.

        The last ones answer otherwise in each iteration, and not in one alone.
        """
        self._known: dict[int, set[Hashable]] = {}
        """For each path that showed something, the places that were turned round on it for nothing."""
        self._always: set[Hashable] = set()
        """The places, in whatever iteration, with a path that answers otherwise each time."""
        self._reached: set[Hashable] = set()
        """The places at which something was asked on any path."""

    def __iter__(self) -> Iterator[BranchPolicy]:
        first = BranchPolicy(self._first)
        yield first
        self._turn_round(first, 0, lost=True)
        count = 1
        if first.would_differ and count < self._limit:
            yield BranchPolicy(self._first._replace(prefer_false=True))
            count += 1
        if first.is_unusual and not (first.matters or self._first.entry) and count < self._limit:
            usual = BranchPolicy(self._first._replace(by_default=True))
            yield usual
            count += 1
            self._turn_round(usual, count, lost=True)
        while any(self._queue) and count < self._limit:
            path, place, origin, is_nearer, always = next(queue for queue in self._queue if queue).popleft()
            if place in self._known[origin] and not always:
                continue
            count += 1
            policy = BranchPolicy(path)
            yield policy
            if len(policy.asked) < len(path.answers):
                continue  # what other paths have shown of unread calls led it another way: it never came to *place*
            if len(path.answers) <= policy.begun:
                self._imported.add(place)
            if policy.shows_more:
                self._turn_round(policy, count, lost=is_nearer)
            else:
                self._known[origin].add(place)
                self._turn_round(policy, origin, lost=is_nearer)
                again = policy.gathers_again(len(path.answers) - 1) if not always else []
                if again and _without_loops(place) not in self._always:
                    self._always.add(_without_loops(place))
                    turned = path._replace(turned=(*path.turned, *((one, path.answers[-1]) for one in again)))
                    self._queue[2].append(_Alternative(turned, place, origin, always=True))

    def _turn_round(self, policy: BranchPolicy, origin: int, *, lost: bool) -> None:
        """Queue the alternatives of a path; of one that showed nothing, only those at places that are new.

        *origin* is the path that showed something last, on the way to this one.  A path that came to no pass may be
        *lost*, which only the first path and one that was begun as a way there may be.  What leads to passes that no
        path may have come to goes first.
        """
        all_of_them = origin not in self._known
        known = self._known.setdefault(origin, set())
        given = tuple(asked.answer for asked in policy.asked)
        new = range(len(policy.path.answers), len(given))
        lost = lost and not policy.matters
        towards = [at for at in policy.towards_a_pass() if at in new] if lost else []
        nearest = [at for at in policy.nearest() if at in new and at not in towards] if lost else []
        ahead = new[: max((policy.graphless if lost else policy.matters) - new.start, 0)]
        others = [at for at in ahead if policy.forks(at)] if lost else ahead
        positions = dict.fromkeys([*towards, *nearest, *others])
        queued: list[_Alternative] = []
        for position in positions:
            asked = policy.asked[position]
            if (
                (lost or policy.forks(position))
                and (all_of_them or lost or asked.place not in self._reached)
                and asked.place not in known
                and not (position < policy.begun and asked.place in self._imported)
            ):
                turned = policy.path._replace(answers=(*given[:position], not given[position]))
                if position in towards:
                    turned = turned._replace(turned=(*turned.turned, (asked.place, not asked.answer)))
                alternative = _Alternative(turned, asked.place, origin, is_nearer=position in towards)
                if lost:
                    goes_first = policy.path != self._first
                else:
                    goes_first = policy.turns_to_other_passes(position) or policy.keeps_from_a_pass(position)
                if goes_first:
                    queued.append(alternative)
                else:
                    self._queue[not asked.steers].append(alternative)
        self._queue[0].extendleft(reversed(queued))
        self._reached.update(asked.place for asked in policy.asked)
