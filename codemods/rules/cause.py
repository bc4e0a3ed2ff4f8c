"""Where to look first for a mistake: the place of its story that the repair edits."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.nodes import only_part
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree

# If a repair edits several places of a story, the first of these is the cause.
_ORDER = tuple("call constructed guard frozen cut kept walked used changed made saved freed failed".split())


@dataclass(frozen=True)
class Edited:
    """Lines of a program that a patch edits."""

    changed: frozenset[int]
    """The lines that it removes or rewrites, blank ones left out."""
    beside: frozenset[int]
    """The lines on both sides of its insertions."""
    behind: frozenset[int]
    """The lines before which it inserts others."""
    released: frozenset[int]
    """The changed lines that only lose their ``retain_graph=True``."""


def edited_by(patch: Patch) -> Edited:
    """The lines of its program that *patch* edits."""
    lines = patch.program.lines
    inserted = frozenset(patch.program.start_of(edit.path) + edit.start for edit in patch.edits if edit.inserts)
    released = {
        number
        for edit in patch.edits
        for line in edit.lines
        for number in [patch.program.start_of(edit.path) + line.origin]
        if line.origin and number in patch.changed and _lets_go(lines[number - 1], line.text)
    }
    return Edited(
        changed=frozenset(number for number in patch.changed if lines[number - 1].strip()),
        beside=inserted | {line - 1 for line in inserted},
        behind=inserted,
        released=frozenset(released),
    )


def _lets_go(before: str, after: str) -> bool:
    """Whether a line says what it said *before*, less the ``retain_graph=True`` of a call."""
    try:
        old, new = ast.parse(before.strip()), ast.parse(after.strip())
    except SyntaxError:
        return False
    for node in ast.walk(old):
        if isinstance(node, ast.Call):
            node.keywords = [one for one in node.keywords if one.arg != "retain_graph"]
    return before.strip() != after.strip() and ast.dump(old) == ast.dump(new)


def place_of(fact: Fact, tree: Tree, patch: Patch) -> Span:
    """The first place of the story that *patch* edits; where it edits none, the nearest line that it does.

    A pass is not to blame for lines inserted behind it, nor, where a value crosses a loop, for keeping the graph.  Of
    a display over several lines, it is the line on which its value is computed.
    """
    place = _edited_place(fact, tree, patch)
    made = next((role.span for role in fact.roles() if role.name == "made"), None)
    opens = tree.program.lines[place.line - 1].rstrip().endswith(("{", "[", "("))
    if made is not None and opens and made.path == place.path and place.line < made.line <= place.end_line:
        return replace(place, line=made.line, column=made.column)
    return place


def _edited_place(fact: Fact, tree: Tree, patch: Patch) -> Span:
    roles = {role.name: role.span for role in fact.roles()}
    edited = edited_by(patch)
    by_step = isinstance(fact, Overwritten) and fact.by_step
    changed = edited.changed - edited.released if "loop" in roles else edited.changed
    for name in _ORDER:
        if name not in roles or (name == "changed" and by_step):
            continue  # that an optimizer steps is no mistake
        if roles[name].line in changed | _beside(name, fact, edited):
            return roles["kept"] if name == "used" and _hands_out(fact, tree, changed) else roles[name]
    return _nearest(fact, tree, edited.changed - edited.released)


def _beside(name: str, fact: Fact, edited: Edited) -> frozenset[int]:
    """The lines beside an insertion that count as edited for a place of the story."""
    if name in ("made", "saved", "walked") or (name == "call" and getattr(fact, "kept", None) is not None):
        return frozenset()  # a graph that a module keeps is in the way of copying it; the copy is not to blame
    if name in ("freed", "failed"):
        by_hand = isinstance(fact, Overwritten) and fact.parameter  # SAM's second pass wants a forward of its own
        twice = isinstance(fact, StaleGraph) and fact.loop is None
        return edited.behind if by_hand or twice else frozenset()
    return edited.beside


def _hands_out(fact: Fact, tree: Tree, changed: frozenset[int]) -> bool:
    """Whether the used value was kept by a cache, or computed once for an object: then the keeping is to blame."""
    if not isinstance(fact, (StaleGraph, Overwritten)) or fact.kept is None or fact.used is None:
        return False
    if isinstance(_part(tree.statement(fact.used)), cst.Return):
        return True
    once = isinstance(fact, StaleGraph) and fact.loop is None and fact.freed == fact.failed
    kept = only_part(tree.statement(fact.kept))
    target = kept.targets[0].target if isinstance(kept, cst.Assign) else None
    own = isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and target.value.value == "self"
    return once and own and fact.used.line not in changed


def _part(statement: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None


def _nearest(fact: Fact, tree: Tree, changed: frozenset[int]) -> Span:
    """The edited line nearest to the cause in the story, or the first of the run of edited lines that ends with it."""
    program = tree.program
    near = {line for line in changed if program.index_at(line) == program.index_at(fact.cause.line)}
    if not near:  # a single line, of a helper in another file
        return tree.row(next(iter(changed))) if len(changed) == 1 else fact.cause
    return first_of_run(tree.row(min(near, key=lambda line: abs(line - fact.cause.line))), tree, changed)


def first_of_run(last: Span, tree: Tree, changed: frozenset[int]) -> Span:
    """First line of the run of edited lines that ends with *last*: the graph of a feature begins there."""
    first = line = last.line
    while line - 1 in changed and tree.program.index_at(line - 1) == tree.program.index_at(line):
        line -= 1
        statement = tree.statement_at(line)
        if statement is not None and not only_draws(statement, tree):
            first = line
    return tree.row(first) if first < last.line else last


def only_draws(statement: cst.CSTNode, tree: Tree) -> bool:
    """Whether a line makes data and calls nothing that could have parameters: ``noise = torch.randn(len(x), 8)``."""
    calls = [one for one in tree.inside(statement) if isinstance(one, cst.Call)]
    return bool(calls) and all(_makes_data(call, tree) for call in calls)


def _makes_data(call: cst.Call, tree: Tree) -> bool:
    name = tree.called(call)
    if isinstance(call.func, cst.Name):
        return name == "len"
    sources = tree.imported_from(call.func)
    return name == "size" or bool(sources & {"numpy", "random"}) or ("torch" in sources and name in catalogue.makers())
