"""Operations that save a tensor which was made in inference mode, or modify it."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.cut import InferenceChanged, InferenceSaved
from autofix.codemods.interpreter.protocol import Interpreter


class InferenceCheck(Check):
    """Whether autograd needs a tensor that has no version counter."""

    kinds = (InferenceSaved, InferenceChanged)

    def facts(self, interp: Interpreter, known: Known) -> Iterator[InferenceSaved]:
        for site, guard in interp.incidents.inference.items():
            yield InferenceSaved(guard=guard.span, used=site.span)
        for site, guard in interp.incidents.inference_changed.items():
            yield InferenceChanged(guard=guard.span, used=site.span, name=site.source.text_of(site.node))
