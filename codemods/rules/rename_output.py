"""Output that nobody reads: a forward pass is repeated, and the loss is computed from the first one's output."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class RenameOutput(Codemod):
    """A second forward pass is assigned to another name than the one that the loss reads.

    Error:
        RuntimeError: Trying to backward through the graph a second time; with ``retain_graph=True``: modified by an
        inplace operation.

    Cause:
        The model is called again, with perturbed weights or inputs (SAM, adversarial training), and its output is
        assigned to ``out2``. The second loss is still computed from ``out``, whose graph the first backward has freed.

    Fix:
        The second output is assigned to the name that the loss is computed from.

    When it is not what you want:
        Where the first output is read again later, compute the second loss from the new name instead.

    Source:
        Madry et al., "Towards Deep Learning Models Resistant to Adversarial Attacks": each step takes the gradient at
        the perturbed point.
    """

    code = "AF113"
    name = "unread-output"
    answers = (StaleGraph, Overwritten)
    rank = 3

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        used_at = fact.outer.used if fact.outer is not None else fact.used
        made_at = fact.outer.made if fact.outer is not None else None
        used = tree.statement_of(tree.expression(used_at))
        made = tree.expression(made_at)
        if used is None or not isinstance(made, cst.Call) or not fact.name.isidentifier():
            return
        block = tree.block_of(used)
        if used not in block or fact.name not in tree.paths_in(used) or fact.name in _assigned(used, tree):
            return
        for at in reversed(range(block.index(used))):
            part = only_part(block[at])
            if not isinstance(part, cst.Assign) or len(part.targets) != 1:
                continue
            target = part.targets[0].target
            if not isinstance(target, cst.Name) or tree.code(part.value) != tree.code(made):
                continue
            if target.value == fact.name or not _is_lost(target.value, block[at + 1 :], tree):
                return
            patch = Edit(tree).change(target, lambda _: cst.Name(fact.name)).patch()
            remedy = f"compute the loss from the second output of `{tree.code(made).partition('(')[0]}`"
            yield Candidate(patch, remedy, Keeps.PARAMETERS)
            return


def _is_lost(name: str, later: list[Statement], tree: Tree) -> bool:
    """Whether a name is given another value before anyone reads it, or is never read."""
    for statement in later:
        if name in tree.paths_in(statement):
            part = only_part(statement)
            reads = isinstance(part, cst.Assign) and name in tree.paths_in(part.value)
            return name in _assigned(statement, tree) and not reads
    return True


def _assigned(statement: Statement, tree: Tree) -> set[str]:
    part = only_part(statement)
    targets = part.targets if isinstance(part, cst.Assign) else ()
    return {name.value for target in targets for name in tree.names_in(target.target)}
