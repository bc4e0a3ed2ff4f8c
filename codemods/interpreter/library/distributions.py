"""``torch.distributions``: the constructors, and the functions of two distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter import distributions
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


@model("torch.distributions.*")
def _distribution(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    made = distributions.make(interp, call.last, list(args), keywords, call.node)
    return DECLINED if made is None else made


@model("torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence")
def _divergence(interp: Interpreter, call: Call, first: Value, second: Value, /) -> Value:
    return distributions.compute(interp, call.last, [first, second], call.node)
