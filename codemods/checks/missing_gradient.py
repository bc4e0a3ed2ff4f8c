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
from autofix.codemods.interpreter.written import owner


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
            yield FlagRefused(made=made.span, changed=site.span, name=site.source.text_of(owner(site.node)))
        for site, (made, data) in incidents.leaves_refused.items():
            name = site.source.text_of(owner(site.node))
            yield LeafRefused(made=made.span, changed=site.span, data=data, name=name)
        for site, whole in incidents.whole_flagged.items():
            yield WholeFlagged(flagged=site.span, name=whole)
        for site, off in incidents.hooks_refused.items():
            guard = off.span if off is not None else None
            name = site.source.text_of(owner(site.node))
            yield HookRefused(hooked=site.span, guard=guard, recorded=site in incidents.hooks, name=name)

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
