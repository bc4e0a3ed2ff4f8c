"""``retain_graph=True`` on the passes of a fact: taken away where it was only there to hush the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import without_keyword
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree


def _retaining_calls(fact: StaleGraph | Overwritten, tree: Tree) -> list[cst.Call]:
    """The passes of a fact with a literal ``retain_graph=True``: a helper's parameter is the choice of its callers."""
    spans = [fact.failed, fact.retained if isinstance(fact, Overwritten) else fact.freed]
    found: list[cst.Call] = []
    for span in spans:
        call = tree.expression(span)
        if isinstance(call, cst.Call) and call not in found:
            if any(
                arg.keyword is not None and arg.keyword.value == "retain_graph" and _is_true(arg) for arg in call.args
            ):
                found.append(call)
    return found


def _is_true(argument: cst.Arg) -> bool:
    return isinstance(argument.value, cst.Name) and argument.value.value == "True"


def variants(
    fact: StaleGraph | Overwritten, tree: Tree, build: Callable[[Edit], object]
) -> Iterator[tuple[Patch, str]]:
    """The patch that *build* makes, first without the passes' ``retain_graph``, then with; each with a remedy's end.

    *build* fills an edit.
    """
    calls = _retaining_calls(fact, tree)
    for drop in (True, False) if calls else (False,):
        edit = Edit(tree)
        build(edit)
        if drop:
            for call in calls:
                edit.change(call, lambda node: without_keyword(node, "retain_graph"))
        yield edit.patch(), "; retain_graph=True is no longer needed" if drop else ""
