"""Losses of several elements that are sent backward."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.checks.known import Known
from autofix.codemods.facts import Certainty, NotScalar
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.values import BatchSize


def facts(interp: Interpreter, known: Known) -> Iterator[NotScalar]:
    """Facts of passes from tensors of several elements on one path; record the passes from scalars in *known*."""
    incidents = interp.incidents
    unreduced_at = {site for _, site, _, _ in incidents.unreduced}
    known.reduced.update(site.span.line for site in incidents.reduced - unreduced_at)
    for root, site, name, by_row in incidents.unreduced:
        certainty = Certainty.LIKELY if root.cell.extent.several is BatchSize.LIKELY else Certainty.CERTAIN
        made = root.cell.node.site.span
        yield NotScalar(certainty=certainty, made=made, failed=site.span, by_row=by_row, name=name)


def is_reduced(fact: NotScalar, known: Known) -> bool:
    """Whether another path sends a scalar: `if labels is None: return logits` is not the way of a training."""
    return fact.failed.line in known.reduced
