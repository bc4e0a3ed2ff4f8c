"""Calls that PyTorch no longer has."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.legacy import LegacyApi, LegacyFunction
from autofix.codemods.interpreter.protocol import Interpreter


class LegacyCheck(Check):
    """Whether a call is one of an interface that is gone."""

    kinds = (LegacyApi, LegacyFunction)
    is_of_a_call = True
    comes_first = True

    def facts(self, interp: Interpreter, known: Known) -> Iterator[Fact]:
        for (name, _), site in interp.log.legacy.items():
            yield LegacyApi(call=site.span, name=name)
        for site, forward in interp.log.old_functions.items():
            yield LegacyFunction(call=site.span, defined=forward.span, name=site.source.text_of(site.node))


def is_harmless(fact: Fact) -> bool:
    """Whether it is the flag ``volatile``, which is ignored: without another mistake, the script runs as it did."""
    return isinstance(fact, LegacyApi) and "volatile" in fact.name
