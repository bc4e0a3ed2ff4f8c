"""Lost reset: a loop over stores gives its own name another list, and leaves the stores as they are."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from codemods.base import Candidate, Codemod
from codemods.facts import Fact, Overwritten, StaleGraph
from codemods.proof import Keeps
from codemods.rewrite import Edit, Tree, only_part

_EMPTY = frozenset(("[]", "{}", "list()", "dict()", "set()"))


class ResetItself(Codemod):
    """Stores are reset by an assignment to the name that a loop has for them.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second iteration.

    Cause:
        ``for outs in store.values(): outs = []`` makes a new list and forgets it. The lists in the store keep the
        graphs of all iterations so far, and the next loss is computed from them, too.

    Fix:
        The list itself is emptied: ``outs.clear()``.

    When it is not what you want:
        Where somebody else holds the lists and is to keep what is in them, put new ones into the store:
        ``store[name] = []``.

    Source:
        "Assignment statements" in the Python reference: an assignment to a name binds the name.
    """

    code = "AF115"
    name = "lost-reset"
    answers = (StaleGraph, Overwritten)
    rank = 2

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        if fact.kept is None or not fact.inside:
            return
        for module in tree.modules():
            for loop in tree.statements_in(module):
                inner = tree.body_of(loop) if isinstance(loop, cst.For) else []
                part = only_part(inner[0]) if len(inner) == 1 else None
                if not isinstance(loop, cst.For) or not isinstance(part, cst.Assign) or len(part.targets) != 1:
                    continue
                name = tree.code(part.targets[0].target)
                if name in {one.value for one in tree.names_in(loop.target)} and tree.code(part.value) in _EMPTY:
                    cleared = cst.Expr(cst.parse_expression(f"{name}.clear()"))
                    program = Edit(tree).change(part, lambda _, new=cleared: new).program()  # type: ignore[misc]
                    yield Candidate(program, f"`{name}` itself is emptied, not the name alone", Keeps.PARAMETERS)
