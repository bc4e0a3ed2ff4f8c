"""Tensors with a graph that go where none can: into NumPy, a copy, another process."""

from __future__ import annotations

from collections.abc import Iterator

from autofix.codemods.autograd.tape import Tape
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.story import carriers
from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.kept import GraphCopied, GraphEscapes, GraphSent
from autofix.codemods.facts.parts import Form
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import GraphLeak
from autofix.codemods.source.sources import Site


class EscapingGraphCheck(Check):
    """Whether a tensor takes its graph where none can go."""

    kinds = (GraphEscapes, GraphCopied, GraphSent)

    def facts(self, interp: Interpreter, known: Known) -> Iterator[Fact]:
        yield from (_fact(site, escape, interp.tape) for site, escape in interp.incidents.escapes.items())


def _fact(site: Site, escape: GraphLeak, tape: Tape) -> Fact:
    value = escape.value.span if escape.value is not None else None
    text = site.source.text_of(site.node)
    if escape.where in ("process", "workers"):
        trained = {name for _, name in tape.trained}
        # A script that steps the parameters behind the value, and trains them nowhere else, wants it with its graph.
        meant = any(leaf in tape.stepped and leaf.name not in trained for leaf in escape.behind)
        form = Form.OTHER if meant else escape.form
        served = escape.where == "workers"
        return GraphSent(
            call=site.span, value=value, carriers=carriers(escape.kept), form=form, by_loader=served, name=text
        )
    if escape.where == "numpy":
        return GraphEscapes(call=site.span, value=value, form=escape.form, name=text)
    first = escape.kept[0] if escape.kept and escape.value is None else None
    name = first.name if first is not None else site.source.text_of(escape.value.node) if escape.value else text
    return GraphCopied(
        kept=first.statement.span if first is not None else None,
        call=site.span,
        carriers=carriers(escape.kept),
        value=value,
        form=escape.form,
        path=escape.path,
        name=name,
    )
