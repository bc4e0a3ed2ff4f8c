"""Out argument: an operation that autograd is to record writes its result into a tensor that is there already."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import OutGiven
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import only_part, without_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.other_names import Place, targets_for


class AssignOut(Codemod):
    """An operation on tensors that require grad is given ``out=``.

    Error:
        RuntimeError: matmul(): functions with out=... arguments don't support automatic differentiation, but one of the
        arguments requires grad. Or: add(): functions with out=... arguments don't support automatic differentiation.

    Cause:
        ``torch.matmul(x, weight, out=buffer)`` saves an allocation by overwriting ``buffer``. Autograd would have to
        record that the buffer was given another history, and refuses.

    Fix:
        The result is assigned instead of written: ``buffer = torch.matmul(x, weight)``. The name, attribute or item
        that was given as ``out`` takes the new tensor.

    When it is not what you want:
        Where other names share the memory of the buffer and are to see the result, write it there under ``no_grad``,
        or copy it: ``buffer.copy_(result.detach())``.

    Source:
        The check for ``out=`` in PyTorch's generated VariableType; "In-place operations with autograd" in its notes.
    """

    code = "AF203"
    name = "out-argument"
    answers = (OutGiven,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, OutGiven)
        yield from result_assigned(fact.changed, tree)


def result_assigned(span: Span, tree: Tree) -> Iterator[Candidate]:
    """``matmul(x, w, out=buffer)`` becomes ``buffer = matmul(x, w)``, where it is a statement, a value or returned."""
    call = tree.expression(span)
    out = _out_of(call)
    statement = tree.statement_of(call)
    part = only_part(statement)
    if not isinstance(call, cst.Call) or out is None or statement is None or part is None:
        return
    plain = without_keyword(call, "out")
    assert isinstance(plain, cst.Call)
    given = targets_for(out, tree)
    if given is None:
        return
    name = tree.code(given[0])
    edit = Edit(tree)
    if isinstance(part, cst.Expr) and part.value is call:
        edit.change(part, lambda _: cst.Assign([cst.AssignTarget(one) for one in given], plain))
    elif isinstance(part, cst.Assign) and part.value is call:
        same = any(tree.code(one.target) == name for one in part.targets)
        targets = [*part.targets, *([] if same else [cst.AssignTarget(one) for one in given])]
        edit.change(part, lambda _: part.with_changes(targets=targets, value=plain))
    elif isinstance(part, cst.Return) and part.value is call and tree.block_of(statement):
        edit.insert_before(statement, " = ".join(map(tree.code, (*given, plain))))
        edit.change(call, lambda _: given[0])
    else:
        return
    yield Candidate(edit.patch(), f"assign the result, a new tensor, to `{name}`")


def _out_of(call: cst.BaseExpression | None) -> Place | None:
    """The argument ``out`` of a call, where it can be assigned to; else None."""
    for arg in call.args if isinstance(call, cst.Call) else ():
        if arg.keyword is not None and arg.keyword.value == "out":
            return arg.value if isinstance(arg.value, (cst.Name, cst.Attribute, cst.Subscript)) else None
    return None
