"""Settings of learning rate schedulers, and how far they have come, when an optimizer makes a step.

A patch that leaves ``scheduler.step()`` out, or halves the rate at another epoch, trains alike until the first change.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any

from torch.optim import Optimizer, lr_scheduler

from .recorded import STEPS


class Schedules:
    """Knows the schedulers of each optimizer, in the order in which they were made."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Optimizer, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        # The scheduler of plateaus does not call the constructor of its base.
        for kind in (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau):
            if "__init__" in vars(kind):
                self._wrap(kind)

    def _wrap(self, kind: Any) -> None:
        original = kind.__init__

        @functools.wraps(original)
        def made(scheduler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(scheduler, optimizer, *args, **kwargs)
            if isinstance(optimizer, Optimizer):
                known = self._made.setdefault(optimizer, [])
                if not any(one() is scheduler for one in known):
                    known.append(weakref.ref(scheduler))

        kind.__init__ = made

    def of(self, optimizer: Optimizer) -> tuple[dict[str, float], ...]:
        """The numbers of each scheduler of *optimizer*: the arguments that it was made with, and its steps."""
        schedulers = [one() for one in self._made.get(optimizer, ())]
        return tuple(_numbers(one) for one in schedulers if one is not None)


def _numbers(scheduler: Any) -> dict[str, float]:
    """Attributes that are called as arguments of the constructor, where they are numbers, and the count of steps."""
    found = {}
    for name in inspect.signature(type(scheduler)).parameters:
        value = getattr(scheduler, name, None)
        if name != "last_epoch" and isinstance(value, (int, float)) and not isinstance(value, bool):
            found[name] = float(value)
    steps = getattr(scheduler, "last_epoch", None)
    return {**found, STEPS: float(steps)} if isinstance(steps, (int, float)) else found
