"""``torch.distributions``: objects that hold their parameters, and what is drawn and computed of these."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue
from autofix.codemods.interpreter import cuts, written
from autofix.codemods.interpreter.values import DISTRIBUTION, Binding, Distribution, Method, Value, is_constant

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_SAME = {"mean": "loc", "mode": "loc", "stddev": "scale", "base_dist": "base_distribution"}
"""Properties that are a parameter itself where the distribution has it."""
_KEPT = frozenset("logits probs covariance_matrix precision_matrix scale_tril".split())
"""Properties that are computed once, and are the same tensor from then on."""
_COMPUTED = _KEPT | _SAME.keys() | {"variance"}
_DRAWN = frozenset(("sample", "sample_n", "enumerate_support"))
_FUNCTIONS = frozenset("rsample log_prob entropy cdf icdf perplexity".split())


def make(
    interp: Interpreter, kind: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Distribution | None:
    """The distribution that a constructor makes; None where its parameters are not known by their names."""
    row = catalogue.distribution(kind)
    if row is None or len(args) > len(row.arguments):
        return None
    places = written.arguments(node)
    made = Distribution(DISTRIBUTION, name=kind)
    for at, value in enumerate(args):
        made.items.append(interp.slot(value, "", places[at] if at < len(places) else None))
    given = {name: value for name, value in keywords.items() if name in row.arguments}
    made.items += [interp.slot(value, "", written.keyword(node, name)) for name, value in given.items()]
    made.fields = (*row.arguments[: len(args)], *given)
    return made


def attribute(interp: Interpreter, value: Distribution, name: str, node: ast.expr) -> Value:
    """A parameter of the distribution, a property that is computed of its parameters, or a method."""
    own = name if name in value.fields else _SAME.get(name, "")
    if own in value.fields:
        parameter = interp.item(value, value.fields.index(own), node)
        return interp.data() if is_constant(parameter) else parameter
    if name in value.computed:
        return interp.read(value.computed[name], value)
    if name not in _COMPUTED:
        return Method(value, name, node)
    made = compute(interp, name, [value], node)
    if name in _KEPT:
        value.computed[name] = Binding(made)
    return made


def call_method(
    interp: Interpreter, value: Distribution, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``distribution.name(...)``."""
    if name in _DRAWN:
        drawn = interp.data()
        row = catalogue.distribution(value.name)
        drawn.cell.vague = row is None
        if row is not None:
            how = "sample" if row.has_rsample else "integer"
            drawn.cell.detachment = cuts.dropped(interp, interp.tensors(value), node, how)
        return drawn
    if name in _FUNCTIONS:
        return compute(interp, name, [value, *args, *keywords.values()], node)
    if name == "expand":
        return Distribution(DISTRIBUTION, list(value.items), fields=value.fields, name=value.name)
    return interp.fresh_symbol(name)


def compute(interp: Interpreter, name: str, values: list[Value], node: ast.expr) -> Value:
    """A smooth function of the parameters, and of what else is given; unknown where none of it is known for a graph."""
    if all(tensor.cell.node is None for tensor in interp.tensors(*values)):
        return interp.opaque(name, values, node)
    return interp.operation(name if name in _FUNCTIONS else f"distribution.{name}", values, node)
