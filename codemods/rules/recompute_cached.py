"""Cached graph: a value computed from parameters is cached, and with it the graph of its first computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import CACHES
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, children, detach, only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_MISSING = frozenset(("None", "{}", "dict()", "False", "OrderedDict()", "collections.OrderedDict()"))
"""Sources of an empty cache."""


class RecomputeCached(Codemod):
    """A value that depends on parameters is cached, and every later backward runs through its first graph.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second iteration; with
        ``retain_graph=True``: modified by an inplace operation, since the optimizer has changed the parameters.

    Cause:
        ``functools.cached_property`` or ``lru_cache``, or an ``if self.table is None:`` around the computation, keeps
        a tensor together with its graph. The first backward frees that graph, and the value would be out of date
        anyway once the optimizer has changed the parameters.

    Fix:
        The value is computed anew each time: ``cached_property`` becomes ``property``, ``lru_cache`` goes, and what a
        guard skips is no longer skipped. ``with parametrize.cached():`` around a loop comes into the loop.

    When it is not what you want:
        Where the value is dear and used often between two steps, keep the cache and empty it after each
        ``optimizer.step()``. Where the parameters behind it are not trained, compute it under ``torch.no_grad()``.

    Source:
        functools.cached_property in the Python documentation; torch.nn.utils.parametrize.cached, which caches for one
        forward pass only, in PyTorch's.
    """

    code = "AF109"
    name = "cached-graph"
    answers = (StaleGraph, Overwritten)
    rank = 11
    unguards = True

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        yield from _cached_within(fact, tree)
        seen: set[cst.CSTNode] = set()
        for span in _places(fact):
            for node in _around(span, tree):
                if node in seen:
                    continue
                seen.add(node)
                if isinstance(node, cst.FunctionDef):
                    yield from _undecorated(node, tree)
                    yield from _without_early_return(node, tree)
                elif isinstance(node, cst.If):
                    yield from _unguarded(node, tree)


def _cached_within(fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """``with parametrize.cached():`` around a loop of passes comes into the loop, around each iteration."""
    failed = tree.statement(fact.failed)
    for around in tree.enclosing(failed) if failed is not None else ():
        if not isinstance(around, cst.With) or len(around.items) != 1:
            continue
        call, body = around.items[0].item, tree.body_of(around)
        loop = body[0] if len(body) == 1 else None
        cached = isinstance(call, cst.Call) and tree.called(call) == "cached"
        if cached and isinstance(loop, (cst.For, cst.While)) and isinstance(loop.body, cst.IndentedBlock):
            moved = _turned_inside_out(around, loop)
            patch = Edit(tree).change(around, lambda _, new=moved: new).patch()  # type: ignore[misc]
            remedy = "cache the parametrizations within each iteration of the loop"
            yield Candidate(patch, remedy, cause=tree.row_of(around))


def _turned_inside_out(around: cst.With, loop: cst.For | cst.While) -> cst.CSTNode:
    """The loop, with all of its body within the ``with`` that stood around it."""
    outer, inner = cst.ensure_type(around.body, cst.IndentedBlock), cst.ensure_type(loop.body, cst.IndentedBlock)
    within = around.with_changes(body=inner.with_changes(header=outer.header), leading_lines=[])
    body = inner.with_changes(body=[within], footer=outer.footer)
    return loop.with_changes(body=body, leading_lines=[*around.leading_lines, *loop.leading_lines])


def is_cached(statement: cst.CSTNode | None, tree: Tree) -> bool:
    """Whether a statement only runs where what it computes is missing."""
    branch = next((node for node in tree.enclosing(statement) if isinstance(node, cst.If)), None) if statement else None
    return branch is not None and statement in tree.body_of(branch) and bool(_stores(branch, tree))


def _places(fact: StaleGraph | Overwritten) -> Iterator[Span]:
    """Places at which the value was made and kept."""
    yield fact.made if isinstance(fact, StaleGraph) else fact.saved
    for carrier in fact.carriers:
        yield carrier.statement


def _around(span: Span, tree: Tree) -> Iterator[cst.CSTNode]:
    """The function in which a place is, and the branches in that function around it."""
    statement = tree.statement(span)
    if statement is None:
        return
    if isinstance(statement, cst.FunctionDef):
        yield statement
        return
    for node in tree.enclosing(statement):
        if isinstance(node, (cst.If, cst.FunctionDef)):
            yield node
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            return


def _undecorated(function: cst.FunctionDef, tree: Tree) -> Iterator[Candidate]:
    """The function without the decorator that caches what it returns."""
    for decorator in function.decorators:
        called = decorator.decorator
        code = tree.code(called.func if isinstance(called, cst.Call) else called)
        kind = code.rpartition(".")[2]
        if kind not in CACHES:
            continue
        name = function.name.value
        released = Edit(tree)
        for value in _returned(function, tree):
            released.change(value, detach)
        yield Candidate(released.patch(), f"keep `{name}` detached")
        edit = Edit(tree)
        if kind == "cached_property":
            edit.change(called, lambda _: cst.Name("property"))
        else:
            edit.change(function, _without(decorator))
        yield Candidate(edit.patch(), f"compute `{name}` each time", Keeps.PARAMETERS)


def _without(decorator: cst.Decorator) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """A change that takes a decorator from a function and keeps the comments around it."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.FunctionDef)
        rest = [one for one in node.decorators if not one.deep_equals(decorator)]
        leading = [*node.leading_lines, *decorator.leading_lines]
        if rest:
            return node.with_changes(decorators=rest, leading_lines=leading)
        leading += node.lines_after_decorators
        return node.with_changes(decorators=rest, leading_lines=leading, lines_after_decorators=[])

    return change


def _returned(function: cst.FunctionDef, tree: Tree) -> Iterator[cst.BaseExpression]:
    """Values that a function returns; those of a tuple or list one by one."""
    for value in tree.returned_by(function):
        several = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
        yield from [one.value for one in several] or [value]


def _unguarded(branch: cst.If, tree: Tree) -> Iterator[Candidate]:
    """Candidate that always computes a value which a branch computes only if it is missing."""
    body, stores = tree.body_of(branch), _stores(branch, tree)
    if branch.orelse is not None or not stores or not tree.block_of(branch):
        return
    first = body[0].with_changes(leading_lines=[*branch.leading_lines, *body[0].leading_lines])
    edit = Edit(tree).change(branch, lambda _: cst.FlattenSentinel([first, *body[1:]]))  # type: ignore[arg-type, return-value]
    yield Candidate(edit.patch(), f"compute `{stores[0]}` each time", Keeps.PARAMETERS)


def _stores(branch: cst.If, tree: Tree) -> list[str]:
    """Targets to which a branch assigns, if it tests that they are missing and nothing else changes them; else none."""
    if not _tests_missing(branch.test):
        return []
    kept = _kept(tree.body_of(branch), tree)
    mentioned = tree.paths_in(branch.test) | _strings(branch.test)
    stores = sorted(path for path in kept if path in mentioned or path.rpartition(".")[2] in mentioned)
    if any(path.isidentifier() for path in stores):  # `out = cache.get(key)`, and then `if out is None:`
        stores = sorted(path for path in kept if not path.isidentifier()) or stores
    return [] if _set_elsewhere(stores, branch, tree) or _remembers(branch, tree) else stores


def _remembers(branch: cst.If, tree: Tree) -> bool:
    """Whether a branch keeps the first of many values that are used by themselves, too: ``first = out.mean(0)``.

    Computed anew each time it would be the value itself, and no longer what that is compared with.
    """
    home = tree.function_of(branch)
    around = next(tree.loops_around(branch), home if isinstance(home, cst.FunctionDef) else None)
    if around is None:
        return False
    inside = set(tree.names_in(branch))
    own = {name.value for name in inside if _is_given(name, tree)}
    outside = [name for name in tree.names_in(around) if name not in inside]
    given = {name.value for name in outside if _is_given(name, tree)}
    read = {name.value for name in outside if not _is_given(name, tree)}
    for statement in tree.body_of(branch):
        part = only_part(statement)
        if isinstance(part, cst.Assign):
            made_of = {name.value for name in tree.names_in(part.value) if not tree.is_imported(name)}
            if made_of and made_of <= given - own and made_of & read:
                return True
    return False


def _is_given(name: cst.Name, tree: Tree) -> bool:
    """Whether a statement gives the name its value there: an assignment, or a loop."""
    above = tree.parent_of(name)
    while isinstance(above, (cst.Element, cst.Tuple)):
        name, above = above, tree.parent_of(above)  # type: ignore[assignment]
    return isinstance(above, cst.AssignTarget) or (isinstance(above, cst.For) and above.target is name)


def _tests_missing(test: cst.BaseExpression) -> bool:
    """Whether a condition asks if something is not there: ``is None``, ``not in``, ``not``."""
    match test:
        case cst.BooleanOperation():
            return _tests_missing(test.left) or _tests_missing(test.right)
        case cst.UnaryOperation(operator=cst.Not()):
            return True
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.NotIn())]):
            return True
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))]):
            return True
    return False


def _without_early_return(function: cst.FunctionDef, tree: Tree) -> Iterator[Candidate]:
    """The function without the ``if`` that returns what it computed before."""
    kept = _kept(tree.statements_in(function), tree)
    for branch in tree.body_of(function):
        if not isinstance(branch, cst.If) or branch.orelse is not None:
            continue
        inner = tree.body_of(branch)
        last = inner[0].body[0] if len(inner) == 1 and isinstance(inner[0], cst.SimpleStatementLine) else None
        if isinstance(last, cst.Return):
            # A bare `return` skips what is there already, as the test says.
            named = sorted(kept & tree.paths_in(branch.test if last.value is None else last.value))
            if named and not _set_elsewhere(named, function, tree):
                yield Candidate(
                    Edit(tree).remove(branch).patch(), f"compute `{named[0]}` anew each time", Keeps.PARAMETERS
                )


def _set_elsewhere(names: list[str], home: cst.CSTNode, tree: Tree) -> bool:
    """Whether something outside of *home* gives one of the names another value: then it is a state, and no cache."""
    own = {name.rpartition(".")[2] for name in names}
    inside = set(tree.statements_in(home))
    for statement in tree.statements_in(tree.module_of(home)):
        if statement in inside or not isinstance(statement, cst.SimpleStatementLine):
            continue
        for part in statement.body:
            targets = [one.target for one in part.targets] if isinstance(part, cst.Assign) else []
            if isinstance(part, (cst.AugAssign, cst.AnnAssign)) and part.value is not None:
                targets = [part.target]
            values = {tree.code(target).rpartition(".")[2] for target in targets}
            if own & values and tree.code(part.value).strip() not in _MISSING:  # type: ignore[attr-defined]
                return True
    return False


def _kept(body: Iterable[Statement], tree: Tree) -> set[str]:
    """The names, attributes and containers that statements assign to."""
    found: set[str] = set()
    for statement in body:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.Assign):
                for target in part.targets:
                    found |= {tree.code(one) for one in _owners(target.target)}
    return found


def _owners(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _owners(element.value)
    else:
        yield target.value if isinstance(target, cst.Subscript) else target


def _strings(node: cst.CSTNode) -> set[str]:
    """The strings in a condition: names of attributes, keys."""
    found: set[str] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, cst.SimpleString) and isinstance(one.evaluated_value, str):
            found.add(one.evaluated_value)
        pending.extend(children(one))
    return found
