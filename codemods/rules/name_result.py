"""Overwritten inputs: a result is written over the data that the next iteration computes it from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement
from autofix.codemods.rewriting.overwritten_data import Place, key_of, overwritten_data
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class NameResult(Codemod):
    """A result is written over the data that it is computed from, and the next epoch computes it from the result.

    Error:
        RuntimeError: Trying to backward through the graph a second time.

    Cause:
        ``data.x = conv(data.x, data.edge_index)``, or ``batch["x"] = encoder(batch["x"])`` for batches in a list: the
        example itself is changed. In the next epoch the layer is given its own result of the epoch before, with the
        graph of it. Detached, it would still not be the data.

    Fix:
        The result gets a name of its own: ``x = conv(data.x, data.edge_index)``.

    When it is not what you want:
        Where each iteration is to go on from the result of the one before, it is a state: detach it.

    Source:
        "Creating Message Passing Networks" and the examples of PyTorch Geometric, which begin with ``x = data.x``.
    """

    code = "AF117"
    name = "overwritten-input"
    answers = (StaleGraph,)
    rank = 9

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, StaleGraph)
        found = overwritten_data(fact, tree)
        if found is None:
            return
        kept, target = found
        key, used = key_of(target, tree), {one.value for one in tree.names_in(tree.function_of(kept))}
        name = next((one for one in (key, f"new_{key}", "result") if one.isidentifier() and one not in used), "")
        if not name or kept not in tree.block_of(kept):
            return
        places = _places(kept, target, tree)
        if places is None:
            return
        edit = Edit(tree)
        for place in places:
            edit.change(place, lambda _: cst.Name(name))
        yield Candidate(edit.patch(), f"give the result a name of its own, `{name}`", Keeps.PARAMETERS)


def _places(kept: Statement, target: Place, tree: Tree) -> list[cst.BaseExpression] | None:
    """The places of the result from its statement on; None where something is given the whole example after it."""
    block = tree.block_of(kept)
    assert isinstance(target.value, cst.Name)
    base, code = target.value.value, tree.code(target)
    found: list[cst.BaseExpression] = [target]
    for later in block[block.index(kept) + 1 :]:
        for one in tree.inside(later):
            if tree.code(one) == code:
                found.append(one)
            elif isinstance(one, cst.Name) and one.value == base:
                around = tree.parent_of(one)
                if not isinstance(around, (cst.Attribute, cst.Subscript)) or around.value is not one:
                    return None
    return found
