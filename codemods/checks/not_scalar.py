"""Losses of several elements that are sent backward."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Certainty, Doubt, Fact
from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.interpreter import replicas
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.values import BatchSize


class NotScalarCheck(Check):
    """Whether a pass is sent from several elements, on every path that comes to it."""

    kinds = (NotScalar,)

    def __init__(self) -> None:
        self._reduced: set[int] = set()
        """The lines of passes that were sent from scalars alone on some path."""

    def facts(self, interp: Interpreter, known: Known) -> Iterator[NotScalar]:
        """Facts of passes from tensors of several elements on one path."""
        incidents = interp.incidents
        unreduced_at = {site for _, site, _, _ in incidents.unreduced}
        self._reduced.update(site.span.line for site in incidents.reduced - unreduced_at)
        for root, site, name, by_row in incidents.unreduced:
            certainty = Certainty.LIKELY if root.cell.extent.several is BatchSize.LIKELY else Certainty.CERTAIN
            made = root.cell.node.site.span
            fact = NotScalar(certainty=certainty, made=made, failed=site.span, by_row=by_row, name=name)
            yield fact.doubted(Doubt.GPUS) if replicas.is_of_several(interp, root.cell.node) else fact

    def is_answered(self, fact: Fact, known: Known) -> bool:
        """Whether another path sends a scalar: `if labels is None: return logits` is not the way of a training."""
        return isinstance(fact, NotScalar) and fact.failed.line in self._reduced
