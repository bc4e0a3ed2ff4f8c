"""What the passes since the last step have left of the gradients, before a script changes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .parameters import Tracked, has_no_gradient
from .recorded import Compared


class Left:
    """The gradients as the passes since the last step have left them, in sketches.

    Between the pass and the step a script may scale them back (mixed precision), clip or average them.
    """

    def __init__(self) -> None:
        self._found: dict[str, dict[int, Any]] = {}
        self._restarted: set[int] = set()

    def before_pass(self, reached: Iterable[Tracked]) -> None:
        """A pass is about to add to the gradients that it has *reached*."""
        known = self._found.get("sketches", {})
        self._restarted |= {one.index for one in reached if one.index in known and has_no_gradient(one.tensor)}

    def after_pass(self, found: Compared) -> None:
        """A pass has left the gradients that it reached like this; nothing, if it was not sent to their ``grad``."""
        if found.sketches is None:
            self._found.clear()
            return
        for name, part in vars(found).items():
            self._found.setdefault(name, {}).update(part)

    def by(self, now: Compared) -> Compared:
        """What the passes left of all that has a gradient *now*; that itself where it was set anew between passes."""
        own = (now.sketches or {}).keys()
        if not own <= self._found.get("sketches", {}).keys() or own & self._restarted:
            return now
        left = {name: {i: part[i] for i in part.keys() & own} for name, part in self._found.items()}
        return Compared(**left)

    def forget(self, stepped: Iterable[int]) -> None:
        """A step has been made of these."""
        self._restarted.difference_update(stepped)
        for part in self._found.values():
            for index in stepped:
                part.pop(index, None)
