"""Which way the program goes where the source does not say.

The interpreter follows one path at a time, so every value on it is definite.  A condition that cannot be computed is
asked of the oracle: the same condition on the same values is answered alike for the whole path, so branches that belong
together stay together.  The likely path is followed first, then the one on which conditions that change from iteration
to iteration are false, then alternatives of the likely path, one answer changed at a time, up to a limit.

A switch that stays as it is for the whole program (``if args.truncate: h = h.detach()``) is never turned off only to
see what happens: whoever wrote it set it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import NamedTuple


class Path(NamedTuple):
    """A way through the program: the first answers, and what is said to all further questions."""

    answers: tuple[bool, ...] = ()
    prefer_false: bool = False
    """Whether conditions that change from iteration to iteration are answered with no."""
    entry: str = ""
    """The function that the path begins in, by its qualified name; the module's own code where it is empty."""


class Decision(NamedTuple):
    answer: bool
    flips: bool
    """Whether the opposite answer is worth a path of its own."""


class BranchPolicy:
    """Answers for one path: those prescribed, in order, then the likely answer to each new question."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[Decision] = []
        self.matters = 0
        """How many answers were given before the last backward pass: what comes after it changes nothing."""
        self._known: dict[Hashable, bool] = {}
        self._switches: dict[str, bool] = {}
        self._positions: dict[Hashable, int] = {}

    def decide(self, key: Hashable, likely: bool, *, optional: bool = False, prefer_false: bool = False) -> bool:
        """Whether the condition *key* holds.

        ``optional`` marks a condition whose block is only skipped where it does not hold (``if`` without ``else``);
        ``prefer_false`` is the answer that skips it.
        """
        switch = _switch(key)
        known = self._known.get(key, self._switches.get(switch))
        if known is not None:
            return known
        likely = likely or switch == _SAME_SHAPE
        position = len(self.asked)
        changes = varies(key)
        if position < len(self.path.answers):
            answer = self.path.answers[position]
        elif self.path.prefer_false and changes and optional:
            answer = prefer_false
        else:
            answer = likely
        flips = (changes or not optional or not likely) and not periodic(key)
        self.asked.append(Decision(answer, flips))
        self._known[key] = answer
        self._positions[key] = position
        if switch:
            self._switches[switch] = answer
        return answer

    def denied(self, key: Hashable) -> bool:
        """Whether the condition *key* was asked on this path and does not hold."""
        return self._known.get(key) is False

    def consequence(self, key: Hashable) -> bool | None:
        """The answer on this path to the condition *key*, by which a pass came since; None where it has none such.

        The opposite answer has a path of its own then.
        """
        return self._known[key] if self._positions.get(key, self.matters) < self.matters else None

    def settle(self, position: int) -> None:
        """The question at *position* turned out to decide nothing: its opposite is not worth a path."""
        self.asked[position] = self.asked[position]._replace(flips=False)


def periodic(key: Hashable) -> bool:
    """Whether a condition holds every k-th iteration.  Iterations in between were not run: turned round for one alone,
    it would no longer agree with its like (a reset at the start of a chunk, a pass at its end).
    """
    if isinstance(key, tuple):
        return key[:1] in (("residue",), ("remainder",)) or any(map(periodic, key))
    return False


_OF_TENSORS = frozenset("requires_grad is_leaf grad grad_fn is_cuda is_sparse training".split())


_SAME_SHAPE = "same shape"


def _switch(key: Hashable) -> str:
    """The name of a switch, ``twin_critic`` of ``self._twin_critic`` and ``config["twin_critic"]``; empty for others.

    The objects of a program that have a switch of one name have it from one configuration.  So have tensors their
    shapes: the states of all layers fit the batch, or none does.
    """
    if isinstance(key, tuple) and len(key) == 3 and key[0] == "Eq" and _is_shape(key[1]) and _is_shape(key[2]):
        return _SAME_SHAPE
    if isinstance(key, tuple) and len(key) == 3 and key[0] in ("attr", "item") and not varies(key):
        return key[2].strip("_") if isinstance(key[2], str) and key[2] not in _OF_TENSORS else ""
    return ""


def _is_shape(key: Hashable) -> bool:
    """Whether a value is the shape of a tensor, or a part of one."""
    match key:
        case ("attr", _, "shape" | "ndim") | ("~", "size" | "numel", *_) | ("len", ("tensor", *_)):
            return True
        case ("item", of, _):
            return _is_shape(of)
    return False


def varies(key: Hashable) -> bool:
    """Whether a condition is computed from something that changes from iteration to iteration."""
    if isinstance(key, tuple):
        return key[:1] in (("~",), ("index",), ("item",), ("count",)) or any(map(varies, key))
    return False


def is_short(key: Hashable, longest: int = 256) -> bool:
    """Whether a key has so few parts, counted as often as they stand in it, that others may be built from it."""
    pending, parts = [key], 0
    while pending and parts <= longest:
        one = pending.pop()
        parts += 1
        if isinstance(one, tuple):
            pending.extend(one)
    return parts <= longest


class Paths:
    """Oracles for up to *limit* paths that begin in *entry*."""

    def __init__(self, limit: int, entry: str = "") -> None:
        self._limit = limit
        self._entry = entry
        self._queue: deque[Path] = deque([Path(entry=entry), Path(prefer_false=True, entry=entry)])

    def __iter__(self) -> Iterator[BranchPolicy]:
        count = 0
        while self._queue and count < self._limit:
            count += 1
            policy = BranchPolicy(self._queue.popleft())
            yield policy
            if count == 1 and not policy.asked:
                return
            if policy.path.prefer_false:
                continue
            given = tuple(asked.answer for asked in policy.asked)
            for position in range(len(policy.path.answers), min(len(given), policy.matters)):
                if policy.asked[position].flips:
                    self._queue.append(Path((*given[:position], not given[position]), entry=self._entry))
