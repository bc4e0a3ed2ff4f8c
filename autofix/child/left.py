"""What the passes since the last step have left of the gradients, before a script changes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .parameters import Tracked, has_no_gradient


class Left:
    """The gradients as the passes since the last step have left them, in sketches.

    Between the pass and the step a script may scale them back (mixed precision), clip or average them.
    """

    def __init__(self) -> None:
        self._sketches: dict[str, dict[int, Any]] = {}
        self._restarted: set[int] = set()

    def before_pass(self, reached: Iterable[Tracked]) -> None:
        """A pass is about to add to the gradients that it has *reached*."""
        known = self._sketches.get("sketches", {})
        self._restarted |= {one.index for one in reached if one.index in known and has_no_gradient(one.tensor)}

    def after_pass(self, sketches: dict[str, dict[int, Any]]) -> None:
        """A pass has left the gradients that it reached like this; nothing, if it was not sent to their ``grad``."""
        if not sketches:
            self._sketches.clear()
        for key, part in sketches.items():
            self._sketches.setdefault(key, {}).update(part)

    def by(self, now: dict[str, dict[int, Any]]) -> dict[str, dict[int, Any]]:
        """What the passes left of all that has a gradient *now*; that itself where it was set anew between passes."""
        own = now.get("sketches", {}).keys()
        if not own <= self._sketches.get("sketches", {}).keys() or own & self._restarted:
            return now
        return {key: {i: value for i, value in part.items() if i in own} for key, part in self._sketches.items()}

    def forget(self, stepped: Iterable[int]) -> None:
        """A step has been made of these."""
        self._restarted.difference_update(stepped)
        for part in self._sketches.values():
            for index in stepped:
                part.pop(index, None)
