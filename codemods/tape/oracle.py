"""Which way the program goes where the source does not say.

The interpreter follows one path at a time, so every value on it is definite.  A condition that cannot be computed is
asked of the oracle: the same condition on the same values is answered alike for the whole path, so branches that belong
together stay together.  Paths are enumerated breadth first, the likely one first, up to a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator


class Oracle:
    """Answers for one path: those prescribed, in order, then the likely answer to each new question."""

    def __init__(self, prescribed: tuple[bool, ...] = ()) -> None:
        self.prescribed = prescribed
        self.answers: list[bool] = []
        self._known: dict[Hashable, bool] = {}

    def decide(self, key: Hashable, likely: bool) -> bool:
        known = self._known.get(key)
        if known is not None:
            return known
        position = len(self.answers)
        answer = self.prescribed[position] if position < len(self.prescribed) else likely
        self.answers.append(answer)
        self._known[key] = answer
        return answer


class Paths:
    """Oracles for up to *limit* paths.  Call :meth:`explored` after each run so that its alternatives are tried."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: deque[tuple[bool, ...]] = deque([()])
        self.exhausted = False
        """Whether the program has no other paths than those that were run."""

    def __iter__(self) -> Iterator[Oracle]:
        count = 0
        while self._queue and count < self._limit:
            count += 1
            oracle = Oracle(self._queue.popleft())
            yield oracle
            for position in range(len(oracle.prescribed), len(oracle.answers)):
                self._queue.append((*oracle.answers[:position], not oracle.answers[position]))
        self.exhausted = not self._queue
