"""Changes in place that autograd refuses: of leaves, of parts of a view, and of what ``out=`` names."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from autofix.codemods.autograd.tape import Tape
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.changed import (
    AppliedChanged,
    LeafChanged,
    OutGiven,
    PartChanged,
    UnrecordedChanged,
    UnrecordedRead,
    ViewDetached,
    WatchedChanged,
)
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import LeafChange, PartChange
from autofix.codemods.source.sources import Site


class RefusedChangeCheck(Check):
    """Whether a change in place is one that autograd refuses."""

    kinds = (
        LeafChanged,
        PartChanged,
        WatchedChanged,
        AppliedChanged,
        ViewDetached,
        UnrecordedChanged,
        UnrecordedRead,
        OutGiven,
    )

    def facts(self, interp: Interpreter, known: Known) -> Iterator[Fact]:
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
                constructed=change.origin.span if change.origin is not None else None,
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
        for site, part in incidents.parts_changed.items():
            yield _of_part(site, part)
        for site, base in incidents.bases_changed.items():
            yield PartChanged(made=base.made.span, changed=site.span, name=site.source.text_of(site.node), base=True)
        for site, (made, changed) in incidents.unrecorded_read.items():
            name = made.source.text_of(made.node)
            yield UnrecordedRead(made=made.span, changed=changed.span, used=site.span, name=name)
        for site in incidents.outs:
            yield OutGiven(changed=site.span, name=site.source.text_of(site.node))


def _of_part(site: Site, part: PartChange) -> PartChanged:
    """The change of a view."""
    told = part.origin.span if part.origin is not None else None
    made, changed, name = part.made.span, site.span, site.source.text_of(site.node)
    if part.guard is not None:
        guard = part.guard.span
        return UnrecordedChanged(
            made=made, changed=changed, constructed=told, name=name, guard=guard, parameter=part.parameter
        )
    kind: type[PartChanged] = PartChanged
    if part.hooked:
        kind = WatchedChanged
    elif part.applied:
        kind = AppliedChanged
    elif part.detached:
        kind = ViewDetached
    return kind(made=made, changed=changed, constructed=told, name=name)


def _flagged(change: LeafChange, tape: Tape) -> Span | None:
    """The call that made a tensor require grad into which only others' results are written, to learn by them."""
    leaf = change.leaf
    made = leaf.node.site if leaf.node is not None else None
    buffer = change.computed and leaf.name.startswith("tensor:") and leaf not in tape.owners and not leaf.asked
    return made.span if made is not None and buffer else None
