"""Gradients that are asked for and that no pass gives."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Doubt, Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.untrained import (
    FlagRefused,
    HookRefused,
    InputUnflagged,
    InputUnused,
    LeafRefused,
    NoGradient,
    PartBeside,
    UpdateRefused,
    WholeFlagged,
)
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import Incidents, Refused
from autofix.codemods.interpreter.written import owner
from autofix.codemods.source.sources import Site


class MissingGradientCheck(Check):
    """Whether a gradient is asked of what has none: a non-leaf, an unused input, a part taken beside the loss."""

    kinds = (
        PartBeside,
        InputUnused,
        InputUnflagged,
        NoGradient,
        UpdateRefused,
        FlagRefused,
        LeafRefused,
        WholeFlagged,
        HookRefused,
    )

    def facts(self, interp: Interpreter, known: Known) -> Iterator[Fact]:
        incidents = interp.incidents
        for site, made in incidents.beside.items():
            yield PartBeside(made=made.span, failed=site.span, name=made.source.text_of(made.node))
        for (site, made), unused in incidents.unused.items():
            found = InputUnused(
                made=made.span,
                failed=site.span,
                cut=unused.cut.span if unused.cut is not None else None,
                own=unused.own,
                name=unused.name or made.source.text_of(made.node),
            )
            yield found.doubted(Doubt.SWITCH) if unused.chosen else found
        for call, given in incidents.unflagged.items():
            first, *others = given.inputs
            name = first.source.text_of(first.node)
            spans = tuple(one.span for one in others)
            asked = InputUnflagged(made=first.span, failed=call.span, name=name, others=spans)
            yield asked.doubted(Doubt.SWITCH) if given.chosen else asked
        for site, missing in incidents.missing.items():
            kept = missing.kept.span if missing.kept is not None else None
            yield NoGradient(made=missing.made.span, used=site.span, kept=kept, name=missing.name)
        for site, refused in incidents.refused.items():
            yield UpdateRefused(made=site.span, used=refused.statement.span, name=refused.name)
        for site, made in incidents.flags_refused.items():
            yield FlagRefused(made=made.span, changed=site.span, name=_owner(site))
        yield from _refused(incidents)

    def explains(self, fact: Fact, other: Fact) -> bool:
        """Whether the *other* one comes of the parameter that an update replaced."""
        match fact, other:
            case _, UpdateRefused():
                return False
            case UpdateRefused(), NoGradient() | GraphHeld():
                return fact.name == other.name
            case NoGradient(), StaleGraph():
                return fact.made.contains(other.made)
        return False


def _refused(incidents: Incidents) -> Iterator[Fact]:
    """Flags and hooks that a tensor does not take."""
    for site, leaf in incidents.leaves_refused.items():
        made = leaf.place or site
        yield _doubted(LeafRefused(made=made.span, changed=site.span, data=leaf.data, name=_owner(site)), leaf)
    for site, whole in incidents.whole_flagged.items():
        yield _doubted(WholeFlagged(flagged=site.span, name=whole.name), whole)
    for site, hook in incidents.hooks_refused.items():
        guard = hook.place.span if hook.place is not None else None
        hooked = HookRefused(hooked=site.span, guard=guard, recorded=site in incidents.hooks, name=_owner(site))
        yield _doubted(hooked, hook)


def _doubted(fact: Fact, refused: Refused) -> Fact:
    return fact.doubted(Doubt.SWITCH) if refused.chosen else fact


def _owner(site: Site) -> str:
    """The text of the tensor whose flag is set, or which is given a hook."""
    return site.source.text_of(owner(site.node))
