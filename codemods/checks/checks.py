"""All checks, in the order in which their facts are told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autofix.codemods.checks import (
    cut_graph,
    escaping_graph,
    held_graph,
    lost_update,
    not_scalar,
    overwritten,
    provoked,
    refused,
    stale_graph,
    unseen_resets,
)
from autofix.codemods.checks.known import Known
from autofix.codemods.facts import (
    Certainty,
    ComputedParameter,
    CutGraph,
    Fact,
    GraphEscapes,
    GraphHeld,
    LegacyApi,
    LossEscapes,
    NoGradient,
    NotScalar,
    StaleGraph,
    UpdateRefused,
)
from autofix.codemods.interpreter.policy import Path
from autofix.codemods.interpreter.protocol import Interpreter


def facts_of(interp: Interpreter, known: Known) -> Iterator[Fact]:
    """All facts that one path shows."""
    yield from stale_graph.facts(interp)
    yield from overwritten.facts(interp)
    yield from refused.changes(interp)
    yield from held_graph.facts(interp, known)
    yield from escaping_graph.facts(interp)
    yield from not_scalar.facts(interp, known)
    yield from cut_graph.facts(interp, known)
    yield from refused.calls(interp)
    yield from lost_update.facts(interp)


def left(known: Known) -> tuple[Fact, ...]:
    """The facts that no other path answers, and that the script does not bring about on purpose."""
    unseen_resets.doubt(known)
    ended = {path for fact, path in known.facts.items() if isinstance(fact, ComputedParameter) and not fact.on_gpu}
    facts = tuple(
        fact
        for fact in _without_echoes(known.facts)
        if not _is_answered(fact, known)
        and not provoked.is_provoked(fact, known.sources)
        and (known.facts[fact] not in ended or isinstance(fact, refused.BEFORE_THE_END))
    )
    facts = tuple(_without_what_follows(facts))
    meant = {drop.span for fact in facts if isinstance(fact, LossEscapes) for drop in fact.drops}
    facts = tuple(fact for fact in facts if not (isinstance(fact, GraphEscapes) and fact.call in meant))
    if all(isinstance(fact, LegacyApi) and "volatile" in fact.name for fact in facts):
        return ()  # the flag is ignored: without another mistake, the script runs as it did
    return facts


def _without_what_follows(facts: tuple[Fact, ...]) -> Iterator[Fact]:
    """Leave out what a parameter that an update replaced leads to behind the first failure."""
    replaced = [fact for fact in facts if isinstance(fact, NoGradient)]
    refused = {fact.name for fact in replaced if isinstance(fact, UpdateRefused)}
    guards = [fact.guard for fact in facts if isinstance(fact, CutGraph) and fact.guard is not None]
    for fact in facts:
        match fact:
            case UpdateRefused():
                later = False
            case NoGradient():
                later = fact.name in refused or any(guard.contains(fact.made) for guard in guards)
            case StaleGraph():
                later = any(one.made.contains(fact.made) for one in replaced)
            case GraphHeld():
                later = fact.name in refused
            case _:
                later = False
        if not later:
            yield fact


def _is_answered(fact: Fact, known: Known) -> bool:
    """Whether another path shows that there is no such mistake."""
    match fact:
        case GraphHeld():
            return held_graph.is_used(fact, known)
        case NotScalar():
            return not_scalar.is_reduced(fact, known)
        case CutGraph():
            return cut_graph.is_answered(fact, known)
    return False


def _without_echoes(facts: dict[Fact, Path]) -> Iterator[Fact]:
    """Facts once each: one gives way to its fuller version from another path."""
    for fact in facts:
        if not any(one in facts for one in _fuller(fact)):
            yield fact


def _fuller(fact: Fact) -> Iterator[Fact]:
    """Fuller versions of a fact: one with more certainty, and one of a dictionary that also holds other things."""
    if fact.certainty is not Certainty.CERTAIN:
        yield replace(fact, certainty=Certainty.CERTAIN)
    if isinstance(fact, GraphHeld) and not fact.mixed:
        yield replace(fact, mixed=True)
