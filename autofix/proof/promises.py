"""What a patch may do beside what every patch may: the points of the proof ask for what concerns each of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from autofix.codemods.facts import Certainty, CutGraph, Fact, LossEscapes
from autofix.codemods.proof import Keeps


@dataclass(frozen=True)
class Promises:
    """The promises of all the repairs that a patch consists of."""

    made: frozenset[Keeps] = frozenset()
    own: frozenset[int] = frozenset()
    """Lines of passes that need no longer train by the way what others are there for."""
    carried: Certainty | None = None
    """How certain it is that what the original hands to NumPy was to keep its graph, as the patch makes it do."""
    by_hand: bool = False
    """Whether nobody knows what the patch does: it was not written by a rule that computes again what stood there."""

    def __contains__(self, promise: Keeps) -> bool:
        return promise in self.made


NOTHING = Promises()
"""A patch that may do what every patch may, and no more."""


def promised(made: Collection[Keeps], facts: Collection[Fact] = (), own: Collection[int] = ()) -> Promises:
    """What repairs of these *facts* that have *made* these promises may do."""
    drops = [drop for one in facts if isinstance(one, CutGraph) for drop in one.drops]
    smooth = {Keeps.SMOOTH} if any(drop.how == "integer" for drop in drops) else set()
    escapes = [one.certainty for one in facts if isinstance(one, LossEscapes)]
    carried = Certainty.CERTAIN if set(escapes) == {Certainty.CERTAIN} else Certainty.LIKELY if escapes else None
    return Promises(frozenset(made) | smooth, frozenset(own), carried)
