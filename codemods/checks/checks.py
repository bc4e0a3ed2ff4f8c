"""All checks of one analysis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autofix.codemods.checks import provoked, unseen_resets
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.computed_parameter import ComputedParameterCheck
from autofix.codemods.checks.cut_graph import CutGraphCheck
from autofix.codemods.checks.escaping_graph import EscapingGraphCheck
from autofix.codemods.checks.held_graph import HeldGraphCheck
from autofix.codemods.checks.inference import InferenceCheck
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.legacy import LegacyCheck, is_harmless
from autofix.codemods.checks.lost_update import LostUpdateCheck
from autofix.codemods.checks.missing_gradient import MissingGradientCheck
from autofix.codemods.checks.not_scalar import NotScalarCheck
from autofix.codemods.checks.overwritten import OverwrittenCheck
from autofix.codemods.checks.refused_change import RefusedChangeCheck
from autofix.codemods.checks.stale_graph import StaleGraphCheck
from autofix.codemods.facts.base import Certainty, Doubt, Fact
from autofix.codemods.interpreter.protocol import Interpreter

CHECKS: tuple[type[Check], ...] = (
    StaleGraphCheck,
    OverwrittenCheck,
    RefusedChangeCheck,
    HeldGraphCheck,
    EscapingGraphCheck,
    NotScalarCheck,
    CutGraphCheck,
    ComputedParameterCheck,
    MissingGradientCheck,
    InferenceCheck,
    LegacyCheck,
    LostUpdateCheck,
)
"""In the order in which their facts are told."""


class Checks:
    """The checks of one analysis, and the facts that they have told."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._all = [check() for check in CHECKS]
        self._by_kind = {kind: check for check in self._all for kind in check.kinds}

    def of(self, fact: Fact) -> Check:
        """The check that tells such a fact."""
        return self._by_kind[type(fact)]

    def facts_of(self, interp: Interpreter) -> Iterator[Fact]:
        """All facts that one path shows."""
        for check in self._all:
            yield from check.facts(interp, self.known)

    def extent(self) -> tuple[int, ...]:
        """Sizes of all collections: if a path leaves them unchanged, it showed nothing new."""
        return (*self.known.extent(), *(check.extent() for check in self._all))

    def doubted(self, fact: Fact, reason: Doubt) -> Fact:
        """A fact that one path has shown, likely for this *reason*."""
        doubted = fact.doubted(reason)
        self.of(fact).doubted(fact, doubted)
        return doubted

    def doubt(self, fact: Fact, reason: Doubt) -> None:
        """Make a known fact likely, for this *reason*."""
        facts = self.known.facts
        facts[self.doubted(fact, reason)] = facts.pop(fact)

    def left(self) -> tuple[Fact, ...]:
        """The facts that no other path and no other fact rules out, and that the script does not provoke."""
        known = self.known
        answered, reset = unseen_resets.answered(known)
        for fact in answered:
            known.facts.pop(fact, None)
        for fact in reset:
            self.doubt(fact, Doubt.RESET)
        ended = {path for fact, path in known.facts.items() if self.of(fact).ends(fact)}
        told = [
            fact
            for fact in self._without_echoes()
            if not self.of(fact).is_answered(fact, known)
            and not provoked.is_provoked(fact, known.sources)
            and (known.facts[fact] not in ended or self.of(fact).comes_first)
        ]
        facts = tuple(fact for fact in told if not any(self.of(one).explains(one, fact) for one in told))
        return () if all(map(is_harmless, facts)) else facts

    def completed(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        """All *facts* that are left, with what they say of one another."""
        for check in self._all:
            facts = check.completed(facts)
        return facts

    def _without_echoes(self) -> Iterator[Fact]:
        """Facts once each: one gives way to its fuller version from another path."""
        facts = self.known.facts
        for fact in facts:
            is_certain = fact.certainty is Certainty.CERTAIN
            certain = [] if is_certain else [replace(fact, certainty=Certainty.CERTAIN)]
            if not any(one in facts for one in (*certain, *self.of(fact).fuller(fact))):
                yield fact
