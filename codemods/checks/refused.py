"""Operations that autograd or an optimizer refuses by itself: changes, parts, parameters, old functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from autofix.codemods.autograd.graph import Tape
from autofix.codemods.facts import (
    Certainty,
    ComputedParameter,
    Doubt,
    Fact,
    InferenceSaved,
    InputUnused,
    LeafChanged,
    LegacyApi,
    LegacyFunction,
    NoGradient,
    OutGiven,
    PartBeside,
    PartChanged,
    Span,
    UpdateRefused,
    ViewDetached,
    WatchedChanged,
)
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import LeafChange


def changes(interp: Interpreter) -> Iterator[Fact]:
    """Changes of leaves, of parts of a view, and of what ``out=`` names."""
    tape, incidents = interp.tape, interp.incidents
    changes_of = Counter(change.leaf for change in incidents.leaf_changes.values())
    for site, change in incidents.leaf_changes.items():
        certainty = Certainty.LIKELY if site in incidents.supposed_changes else Certainty.CERTAIN
        # `total = torch.zeros(1, requires_grad=True)`, then `total += loss`: nobody trains the total.
        is_total = change.leaf.name.startswith("tensor:") and change.leaf not in tape.owned
        yield LeafChanged(
            certainty=certainty,
            changed=site.span,
            name=site.source.text_of(site.node),
            mixed=change.mixed,
            total=change.total,
            flagged=_flagged(change, tape),
            # `mean.mul_(0.9).add_(x, alpha=0.1)` and `mean.lerp_(x, 0.1)` are moving averages.
            computed=change.differentiable
            or (is_total and change.unknown)
            or (
                change.computed
                and change.leaf in (tape.owners if isinstance(site.node, ast.Subscript) else tape.owned)
                and changes_of[change.leaf] == 1
                and not site.source.text_of(site.node).partition("(")[0].endswith("lerp_")
            ),
            result=is_total and change.computed,
        )
    for site, (made, origin, hooked, detached) in incidents.parts_changed.items():
        told = origin.span if origin is not None else None
        kind = WatchedChanged if hooked else ViewDetached if detached else PartChanged
        yield kind(made=made.span, changed=site.span, constructed=told, name=site.source.text_of(site.node))
    for site, base in incidents.bases_changed.items():
        yield PartChanged(made=base.made.span, changed=site.span, name=site.source.text_of(site.node), base=True)
    for site in incidents.outs:
        yield OutGiven(changed=site.span, name=site.source.text_of(site.node))


def _flagged(change: LeafChange, tape: Tape) -> Span | None:
    """The call that made a tensor require grad into which only others' results are written, to learn by them."""
    leaf = change.leaf
    made = leaf.node.site if leaf.node is not None else None
    buffer = change.computed and leaf.name.startswith("tensor:") and leaf not in tape.owners and not leaf.asked
    return made.span if made is not None and buffer else None


def calls(interp: Interpreter) -> Iterator[Fact]:
    """Calls that PyTorch refuses by themselves."""
    incidents = interp.incidents
    for (site, _), (made, name, on_gpu) in incidents.computed.items():
        yield ComputedParameter(made=made.span, owner=site.span, name=name, on_gpu=on_gpu)
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
    for site, missing in incidents.missing.items():
        kept = missing.kept.span if missing.kept is not None else None
        yield NoGradient(made=missing.made.span, used=site.span, kept=kept, name=missing.name)
    for site, refused in incidents.refused.items():
        yield UpdateRefused(made=site.span, used=refused.statement.span, name=refused.name)
    for site, guard in incidents.inference.items():
        yield InferenceSaved(guard=guard.span, used=site.span)
    for (name, _), site in interp.log.legacy.items():
        yield LegacyApi(call=site.span, name=name)
    for site, forward in interp.log.old_functions.items():
        yield LegacyFunction(call=site.span, defined=forward.span, name=site.source.text_of(site.node))


BEFORE_THE_END = (ComputedParameter, LegacyApi, LegacyFunction)
"""Facts that are still told of a path on which an optimizer refuses its parameters."""
