"""Promises of a patch, and the changes that they allow it: each point of the proof asks for its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.cut import CutGraph, LossEscapes
from autofix.codemods.promises import Keeps


@dataclass(frozen=True)
class Promises:
    """The promises of all the repairs that a patch consists of."""

    made: frozenset[Keeps] = frozenset()
    own: frozenset[int] = frozenset()
    """Lines of passes that need no longer train parameters by the way for which there are other passes."""
    carried: Certainty | None = None
    """Certainty that values which the original hands to NumPy were to keep their graph; None if there are none."""
    by_hand: bool = False
    """Whether nobody knows the effect of the patch: it was not written by a rule that computes old values again."""

    def __contains__(self, promise: Keeps) -> bool:
        return promise in self.made


NOTHING = Promises()
"""Promises of a patch that may do no more than every patch."""


def promised(made: Collection[Keeps], facts: Collection[Fact] = (), own: Collection[int] = ()) -> Promises:
    """Promises of repairs of these *facts* that have *made* these promises."""
    drops = [drop for one in facts if isinstance(one, CutGraph) for drop in one.drops]
    smooth = {Keeps.SMOOTH} if any(drop.how == "integer" for drop in drops) else set()
    escapes = [one.certainty for one in facts if isinstance(one, LossEscapes)]
    carried = Certainty.CERTAIN if set(escapes) == {Certainty.CERTAIN} else Certainty.LIKELY if escapes else None
    return Promises(frozenset(made) | smooth, frozenset(own), carried)
