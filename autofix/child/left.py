"""The gradients as the passes since the last step have left them, before a script changes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        self._given: set[int] = set()
        """The members of optimizers that passes have reached since their last step."""

    def before_pass(self, reached: Sequence[Tracked], kind: str) -> bool:
        """Note that a pass is about to add to the gradients of the parameters that it has *reached*.

        Returns whether the gradient that an earlier pass has left one of them is gone, without a step.
        """
        known = self._found.get("sketches", {})
        empty = {one.index for one in reached if has_no_gradient(one.tensor)}
        self._restarted |= empty & known.keys()
        if kind != "backward":
            return False
        discards = not empty.isdisjoint(self._given)
        self._given |= {one.index for one in reached if one.in_optimizer}
        return discards

    def after_pass(self, found: Compared) -> None:
        """Note the gradients that a pass has left; forget all, if it was not sent to ``grad`` of the parameters."""
        if found.sketches is None:
            self._found.clear()
            return
        for name, part in vars(found).items():
            self._found.setdefault(name, {}).update(part)

    def by(self, now: Compared) -> Compared:
        """Gradients of the parameters in *now* as the passes left them; *now* itself if one was set anew in between."""
        own = (now.sketches or {}).keys()
        if not own <= self._found.get("sketches", {}).keys() or own & self._restarted:
            return now
        left = {name: {i: part[i] for i in part.keys() & own} for name, part in self._found.items()}
        return Compared(**left)

    def forget(self, stepped: Iterable[int]) -> None:
        """Forget the gradients of these parameters, of which a step has been made."""
        stepped = list(stepped)
        self._restarted.difference_update(stepped)
        self._given.difference_update(stepped)
        for part in self._found.values():
            for index in stepped:
                part.pop(index, None)
