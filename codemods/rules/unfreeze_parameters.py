"""Frozen parameters: ``requires_grad`` was taken from what the optimizer is to train, too."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class UnfreezeParameters(Codemod):
    """All parameters are frozen, those that the optimizer should train among them.

    Error:
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn.

    Cause:
        For fine-tuning, the loop that turns ``requires_grad`` off for the pretrained parameters runs after the new head
        was put in. It freezes the head as well, and nothing is left to train.

    Fix:
        The new head is put in after the rest was frozen. Where the network that is frozen is another name of
        the one that is trained, ``teacher = student``, it becomes a copy, ``copy.deepcopy(student)``. Where no
        head is new, what the optimizer was given, and that alone, gets ``requires_grad`` back before the
        optimizer is made.

    When it is not what you want:
        Where other parameters should be trained than those that the optimizer was given, unfreeze these, and give them
        to the optimizer.

    Source:
        "Transfer Learning for Computer Vision Tutorial" in the PyTorch tutorials: ConvNet as fixed feature extractor.
    """

    code = "AF403"
    name = "frozen-parameters"
    answers = (CutGraph,)
    rank = 20

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, CutGraph)
        if fact.frozen is None or fact.several or any(drop.how != "frozen" for drop in fact.drops):
            return
        yield from _of_a_copy(fact, tree)
        yield from _after_freezing(fact, tree)
        owner = tree.expression(fact.owner) if fact.owner is not None and fact.spared else None
        if isinstance(owner, cst.Call) and owner.args:
            yield from _unfrozen(owner, tree)


def _of_a_copy(fact: CutGraph, tree: Tree) -> Iterator[Candidate]:
    """``teacher = student`` before ``teacher`` is frozen becomes ``teacher = copy.deepcopy(student)``."""
    assert fact.frozen is not None
    freezing = tree.statement(fact.frozen)
    if freezing is None:
        return
    frozen = {path for one in (freezing, *tree.loops_around(freezing)) for path in _frozen_in(one, tree)}
    home = tree.class_of(freezing) or tree.function_of(freezing)
    for statement in tree.statements_in(home):
        part = only_part(statement)
        if not isinstance(part, cst.Assign) or len(part.targets) != 1:
            continue
        target, value = tree.code(part.targets[0].target), part.value
        if target in frozen and isinstance(value, (cst.Name, cst.Attribute)) and tree.code(value) not in frozen:
            remedy = f"make `{target}` a copy of `{tree.code(value)}`"
            yield Candidate(_copied(value, tree), remedy, Keeps.PARAMETERS, cause=tree.row_of(statement))


def _copied(value: cst.BaseExpression, tree: Tree) -> Patch:
    """*value* copied deeply, by the name that its module has for that; ``import copy`` where it has none."""
    imports = [
        (statement, part)
        for statement in tree.module_of(value).body
        if isinstance(statement, cst.SimpleStatementLine)
        for part in statement.body
        if isinstance(part, (cst.Import, cst.ImportFrom))
    ]
    names = {tree.code(part).replace(" ", "") for _, part in imports}
    edit = Edit(tree)
    called = "deepcopy" if "fromcopyimportdeepcopy" in names else "copy.deepcopy"
    if called == "copy.deepcopy" and "importcopy" not in names:
        later = [one for one, part in imports if not tree.code(part).startswith("from __future__")]
        plain = [one for one, part in imports if isinstance(part, cst.Import) and tree.code(part) > "import copy"]
        edit.insert_before((plain or later)[0], "import copy")
    return edit.change(value, lambda _: cst.parse_expression(f"{called}({tree.code(value)})")).patch()


def _frozen_in(statement: Statement, tree: Tree) -> Iterator[str]:
    """Source ``net`` of the owner that ``net.requires_grad_(False)`` or ``for p in net.parameters():`` freezes."""
    parts = [statement.iter] if isinstance(statement, cst.For) else calls_in(statement)
    for call in parts:
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            if call.func.attr.value in ("requires_grad_", "parameters", "named_parameters"):
                yield tree.code(call.func.value)


def _after_freezing(fact: CutGraph, tree: Tree) -> Iterator[Candidate]:
    """Candidate that moves statements which add new modules to a model behind the one that freezes the model."""
    assert fact.frozen is not None
    freezing = tree.statement(fact.frozen)
    chain = [freezing, *(one for one in tree.enclosing(freezing) if tree.statement_of(one) is one)] if freezing else []
    for around in chain:
        assert around is not None
        block = tree.block_of(around)
        if around not in block:
            continue
        earlier = block[: block.index(around)]
        made = [one for one in earlier if _puts_in(one, tree) and _makes(one, fact, tree)]
        if made:
            # Any use of the new module in between would have to move as well.
            start = earlier.index(made[0])
            if len(earlier[start:]) > len(made):
                return
            edit = Edit(tree).insert_after(around, *(tree.own_code(one) for one in made))
            for one in made:
                edit.remove(one)
            names = ", ".join(f"`{_target(one, tree)}`" for one in made)
            yield Candidate(edit.patch(), f"add {names} after the rest is frozen", Keeps.PARAMETERS)
            return
        if isinstance(around, cst.FunctionDef):
            return


def _puts_in(statement: Statement, tree: Tree) -> bool:
    """``model.fc = nn.Linear(...)``, ``model.classifier[6] = ...``."""
    return _target(statement, tree) != ""


def _target(statement: Statement, tree: Tree) -> str:
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return ""
    target = part.targets[0].target
    return tree.code(target) if isinstance(target, (cst.Attribute, cst.Subscript)) else ""


def _makes(statement: Statement, fact: CutGraph, tree: Tree) -> bool:
    """Whether a parameter that the optimizer is to train is made in *statement*."""
    return any(tree.statement(span) is statement for span in fact.built)


def _unfrozen(owner: cst.Call, tree: Tree) -> Iterator[Candidate]:
    """Candidate that lets the optimizer's parameters require grad again, by statements before it."""
    given = owner.args[0].value
    parts = [given]
    if isinstance(given, (cst.List, cst.Tuple)):
        parts = [element.value for element in given.elements]
    names = []
    for part in parts:
        if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and not part.args:
            if part.func.attr.value != "parameters":
                return
            part = part.func.value
        if not isinstance(part, (cst.Name, cst.Attribute)) or (part is given):
            return
        names.append(tree.code(part))
    statement = tree.statement_of(owner)
    if statement is None or statement not in tree.block_of(statement) or not names:
        return
    edit = Edit(tree).insert_before(statement, *(f"{name}.requires_grad_(True)" for name in names))
    remedy = f"let {', '.join(f'`{name}`' for name in names)} require grad again"
    yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS)
