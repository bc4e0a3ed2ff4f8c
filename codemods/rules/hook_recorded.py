"""Refused hooks: a tensor that does not require grad is given a hook."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.untrained import HookRefused
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.no_grad import under
from autofix.codemods.rewriting.nodes import only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.other_names import Place


class HookRecorded(Codemod):
    """A hook is registered on a tensor that does not require grad.

    Error:
        RuntimeError: cannot register a hook on a tensor that doesn't require gradient. Or: can't retain_grad on Tensor
        that has requires_grad=False.

    Cause:
        A hook is called with the gradient of its tensor. Data have none, and nothing that is computed under ``no_grad``
        has one: a ``forward`` that registers hooks works in training and fails in the evaluation.

    Fix:
        The hook is registered where there will be a gradient: ``if h.requires_grad:``. Data are made to require grad
        before.

    When it is not what you want:
        Where the gradient is wanted in the evaluation, as for a saliency map, evaluate without ``no_grad``.

    Source:
        torch.Tensor.register_hook in the PyTorch documentation.
    """

    code = "AF471"
    name = "refused-hook"
    answers = (HookRefused,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, HookRefused)
        call = tree.expression(fact.hooked)
        statement = tree.statement_of(call)
        owner = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
        if statement is None or not isinstance(owner, Place):
            return
        name, part = tree.code(owner), only_part(statement)
        if fact.guard is not None or fact.recorded:
            if isinstance(part, cst.Expr) and part.value is call:
                edit = Edit(tree)
                under(edit, f"if {name}.requires_grad:", [statement], tree)
                yield Candidate(edit.patch(), f"give `{name}` the hook where it requires grad")
        elif isinstance(part, (cst.Expr, cst.Assign)):
            edit = Edit(tree).insert_before(statement, f"{name}.requires_grad_()")
            yield Candidate(edit.patch(), f"let `{name}` require grad", Keeps.HELD)
