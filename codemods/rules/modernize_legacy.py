"""Old API: calls from before PyTorch 0.4 that stand in the way of running."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.legacy import LegacyApi
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import calls_in, method_call, without_keyword
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class ModernizeLegacy(Codemod):
    """A call from before PyTorch 0.4 that fails, or no longer does anything, today.

    Error:
        IndexError: invalid index of a 0-dim tensor. Use ``tensor.item()`` to convert a 0-dim tensor to a number. And
        the warning: volatile was removed and now has no effect. And, before anything runs: SyntaxError: invalid syntax.
        And where a state is repackaged: TypeError: iteration over a 0-d tensor.

    Cause:
        Until PyTorch 0.3 a loss had one element and ``loss.data[0]`` read it; since 0.4 it has no dimensions. The flag
        ``volatile=True`` is ignored, and ``backward(retain_variables=True)`` an unexpected argument. ``async`` became a
        keyword of Python 3.7, so that ``x.cuda(async=True)`` no longer parses. ``Variable`` became another name for
        tensors, but no tensor's class: ``type(h) == Variable`` is never true.

    Fix:
        ``loss.data[0]`` becomes ``loss.item()``, and ``loss.data[0].cpu()`` becomes ``loss.data.cpu()``.
        ``Variable(x, volatile=True)`` loses the flag. ``Variable(x)`` alone still works and is left as it is.
        ``retain_variables`` becomes ``retain_graph``, ``variables`` of ``torch.autograd.backward`` becomes ``tensors``,
        ``x.cuda(async=True)`` becomes ``x.cuda(non_blocking=True)``, and ``type(h) == Variable`` becomes
        ``isinstance(h, torch.Tensor)``.

    When it is not what you want:
        Where ``volatile=True`` was there to save memory, put the forward pass under ``with torch.no_grad():``.

    Source:
        PyTorch 0.4.0 migration guide.
    """

    code = "AF701"
    name = "legacy-api"
    answers = (LegacyApi,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, LegacyApi)
        call = tree.expression(fact.call)
        if isinstance(call, cst.Subscript):
            yield _as_numbers([call], tree)
            together = [call]
            for group in (_read_alike(call, tree), _read_with(call, tree)):
                if any(one not in together for one in group):
                    together = group
                    yield _as_numbers(group, tree)
        elif isinstance(call, cst.Comparison):
            yield from _of_class(call, tree)
        elif isinstance(call, cst.Call) and (old := _old_keyword(call)) is not None:
            new = call.deep_replace(old, cst.Name(_RENAMED[old.value]))
            patch = Edit(tree).change(call, lambda _: new).patch()
            yield Candidate(patch, f"rename the argument to `{_RENAMED[old.value]}`")
        elif isinstance(call, cst.Call):
            edit = Edit(tree)
            for one in _volatile_beside(call, tree):
                edit.change(one, lambda node: without_keyword(node, "volatile"))
            yield Candidate(edit.patch(), "use no_grad: volatile no longer has an effect")


def _volatile_beside(call: cst.Call, tree: Tree) -> list[cst.Call]:
    """A call with the flag ``volatile``, and those like it in its line: ``x, y = Variable(x, volatile=True), ...``."""
    line = tree.statement_of(call)
    beside = calls_in(line) if isinstance(line, cst.SimpleStatementLine) else []
    alike = (one for one in beside if one.func.deep_equals(call.func) and _is_volatile(one))
    return list(dict.fromkeys((call, *alike)))


def _is_volatile(call: cst.Call) -> bool:
    return any(
        argument.keyword is not None
        and argument.keyword.value == "volatile"
        and isinstance(argument.value, cst.Name)
        and argument.value.value == "True"
        for argument in call.args
    )


def _as_numbers(reads: list[cst.Subscript], tree: Tree) -> Candidate:
    """``loss.data[0]`` and ``loss[0]`` as ``loss.item()``; ``loss.data[0].cpu()`` loses its index."""
    edit, calls = Edit(tree), []
    for read in reads:
        if isinstance(tree.parent_of(read), cst.Attribute):
            edit.change(read, _whole)
            calls.append(f"`{tree.code(read.value)}`")
            continue
        kept = _behind_data(read) or read.value
        edit.change(read, _number)
        calls.append(f"`{tree.code(kept)}.item()`")
    if len(calls) == 1:
        return Candidate(edit.patch(), f"read the number with {calls[0]}")
    told = calls if len(calls) < 4 else [*calls[:2], f"{len(calls) - 2} more"]
    return Candidate(edit.patch(), f"read the numbers with {', '.join(told[:-1])} and {told[-1]}")


def _whole(read: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(read, cst.Subscript)
    return read.value


def _number(read: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(read, cst.Subscript)
    return method_call(_behind_data(read) or read.value, "item")


def _behind_data(read: cst.Subscript) -> cst.BaseExpression | None:
    """``loss`` of ``loss.data[0]``; None where the read is another one."""
    value = read.value
    return value.value if isinstance(value, cst.Attribute) and value.attr.value == "data" else None


def _read_alike(call: cst.Subscript, tree: Tree) -> list[cst.Subscript]:
    """The reads of ``.data[0]`` in the same block that are used as *call* is: ``int(x.data[0]), int(y.data[0])``."""
    if _behind_data(call) is None:
        return []

    def use(read: cst.Subscript) -> str:
        around = tree.parent_of(tree.parent_of(read) or read)
        return tree.code(around.func) if isinstance(around, cst.Call) else ""

    statement = tree.statement_of(call)
    plain = [one for one in tree.block_of(statement) if isinstance(one, cst.SimpleStatementLine)] if statement else []
    reads = [one for other in plain for one in tree.inside(other) if isinstance(one, cst.Subscript)]
    return [
        one
        for one in reads
        if _behind_data(one) is not None and use(one) == use(call) and one.slice[0].deep_equals(call.slice[0])
    ]


def _read_with(call: cst.Subscript, tree: Tree) -> list[cst.Subscript]:
    """The reads of ``.data[0]`` in the same statement: ``print(int(x.data[0]), x.data[0].cpu())``."""
    statement = tree.statement_of(call)
    reads = [one for one in tree.inside(statement) if isinstance(one, cst.Subscript)] if statement is not None else []
    return [one for one in reads if _behind_data(one) is not None and one.slice[0].deep_equals(call.slice[0])]


_RENAMED = {"retain_variables": "retain_graph", "variables": "tensors"}
"""Arguments of backward passes that have other names since PyTorch 0.4."""


def _old_keyword(call: cst.Call) -> cst.Name | None:
    """The old name of an argument of a backward pass; None where a call has none."""
    names = (argument.keyword for argument in call.args if argument.keyword is not None)
    return next((name for name in names if name.value in _RENAMED), None)


def _of_class(compared: cst.Comparison, tree: Tree) -> Iterator[Candidate]:
    """``type(h) == Variable`` and ``type(h) is not Variable``, as they were meant."""
    call, target = compared.left, compared.comparisons[0]
    if len(compared.comparisons) != 1 or not isinstance(call, cst.Call) or len(call.args) != 1:
        return
    wanted = f"{tree.torch_name(compared)}.Tensor" if tree.imports_torch(compared) else tree.code(target.comparator)
    test = f"isinstance({tree.code(call.args[0].value)}, {wanted})"
    if isinstance(target.operator, (cst.NotEqual, cst.IsNot)):
        test = f"not {test}"
    patch = Edit(tree).change(compared, lambda _: cst.parse_expression(test)).patch()
    yield Candidate(patch, f"test for a tensor with `isinstance` in `{test}`")
