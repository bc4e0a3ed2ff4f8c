"""Optimizers that are given a tensor with a graph for a parameter."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import ComputedParameter
from autofix.codemods.interpreter.protocol import Interpreter


class ComputedParameterCheck(Check):
    """Whether an optimizer refuses one of its parameters."""

    kinds = (ComputedParameter,)
    comes_first = True

    def facts(self, interp: Interpreter, known: Known) -> Iterator[ComputedParameter]:
        for (site, _), (made, name, on_gpu) in interp.incidents.computed.items():
            yield ComputedParameter(made=made.span, owner=site.span, name=name, on_gpu=on_gpu)

    def ends(self, fact: Fact) -> bool:
        return isinstance(fact, ComputedParameter) and not fact.on_gpu
