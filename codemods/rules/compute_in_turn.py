"""Computed ahead: a list of outputs is computed before the loop that sends them backward one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import feeds_itself, targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, is_item, only_part
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.roles import keeps_graph
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class ComputeInTurn(Codemod):
    """All outputs are computed first, then backward is called on one after the other with a step after each.

    Error:
        RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation, at
        the second backward; or, where the outputs share a part of the graph: Trying to backward through the graph a
        second time.

    Cause:
        ``values = [net(x) for x in xs]`` saves the parameters of that moment. The step after the first backward changes
        them, and the second output's backward needs the old ones.

    Fix:
        Each output is computed in the loop, when its turn comes: ``for x, goal in zip(xs, goals)``, and then
        ``value = net(x)``.  A dictionary of losses becomes one of functions: ``losses[name](batch)``.

    When it is not what you want:
        Where all outputs are meant to come from the same parameters, add up their losses, call ``backward()`` once and
        step once.

    Source:
        "In-place correctness checks" in PyTorch's autograd mechanics.
    """

    code = "AF111"
    name = "computed-ahead"
    answers = (StaleGraph, Overwritten)
    rank = 1
    recomputes = True

    def objection(self, fact: Fact, left: Iterable[Fact], patch: Patch) -> str:
        """A state that goes from item to item has its graph in one pass: in turn, it could only be cut."""
        assert isinstance(fact, (StaleGraph, Overwritten))
        carried = (one for one in left if isinstance(one, StaleGraph) and one.loop is not None and one.inside)
        same = any(patch.original(one.failed.line) == fact.failed.line for one in carried)
        return "a state goes from one item to the next" if same else ""

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, (StaleGraph, Overwritten))
        failed = tree.expression(fact.failed)
        if failed is None:
            return
        retains = any(keeps_graph(call) for call in calls_in(failed))
        for loop in tree.loops_running(failed):
            if isinstance(loop, cst.For) and tree.block_of(loop) and tree.body_of(loop):
                yield from _in_turn(loop, retains, tree)
                yield from _generated(loop, tree)
                yield from _called_in_turn(fact, loop, tree)


@dataclass(frozen=True)
class _Ahead:
    """A list or a dictionary that is computed ahead, by a comprehension or by a loop that fills it item by item."""

    name: str
    item: cst.BaseExpression
    target: cst.BaseAssignTargetExpression
    source: cst.BaseExpression
    statements: list[Statement]
    """The statements that make the container."""
    inner: list[Statement] = field(default_factory=list)
    """Statements by which a loop computes an item before it keeps it."""
    key: cst.BaseExpression | None = None
    """For a dictionary: the key."""


class _Reading(NamedTuple):
    """A loop that goes through what a container is computed from, and computes an item where it read one."""

    edit: Edit
    name: str
    """The loop's name for an item."""
    places: int
    """Number of reads of the container in the loop."""
    before: tuple[str, ...] = ()
    """Statements that make the names of an item's computation."""
    bound: frozenset[str] = frozenset()
    """Names that mean in the loop what they mean in that computation."""


def _in_turn(loop: cst.For, retains: bool, tree: Tree) -> Iterator[Candidate]:
    """The loop that computes what a comprehension, or another loop, before it computed.

    Who *retains* the graph and reads the outputs again means them to be of the same parameters.
    """
    for made in _computed_ahead(_before(loop, tree), tree):
        read = _read_in_turn(made, loop, tree)
        if read is None:
            continue
        around = {one.value for part in (made.target, *made.inner) for one in tree.names_in(part)}
        bound = {one for part in made.inner for one in targets_of(part, tree)}
        inner = ({one.value for one in tree.names_in(made.target)} | bound) - read.bound
        body = {one.value for one in tree.names_in(loop.body)} | {
            one.value for one in tree.names_in(loop.target) if one.value != read.name
        }
        if inner & body or not bound <= around:
            return  # a name of what is computed ahead means something else in the loop
        if feeds_itself(made.inner, tree):
            return  # a state goes from item to item: in the loop, each step would cut the gradient through it
        alone = _reads(made.name, loop, tree) == read.places
        if retains and not alone:
            return
        codes = [tree.own_code(part) for part in made.inner]
        read.edit.insert_before(tree.body_of(loop)[0], *read.before, *codes, f"{read.name} = {tree.code(made.item)}")
        for statement in made.statements if alone else ():
            read.edit.remove(statement)
        yield Candidate(read.edit.patch(), f"compute `{read.name}` right before its backward", Keeps.PARAMETERS)
        return


def _before(loop: cst.For, tree: Tree) -> list[Statement]:
    """The statements before a loop in its block, and in those around it that are run through once."""
    found: list[Statement] = []
    around: Statement | None = loop
    while around is not None and around in (block := tree.block_of(around)):
        found[:0] = block[: block.index(around)]
        outer = tree.parent_of(around)
        around = tree.statement_of(tree.parent_of(outer)) if outer is not None else None
        if not isinstance(around, (cst.Try, cst.With)):
            break
    return found


def _generated(loop: cst.For, tree: Tree) -> Iterator[Candidate]:
    """A function returns the list, and only this loop goes through it: it returns a generator instead."""
    for call in tree.inside(loop.iter):
        function = tree.function_called(call) if isinstance(call, cst.Call) else None
        returned = list(tree.returned_by(function)) if function is not None else []
        if function is None or len(returned) != 1 or not isinstance(returned[0], cst.ListComp):
            continue
        name, made = function.name.value, returned[0]
        calls = [one for module in tree.modules() for one in calls_in(module) if tree.called(one) == name]
        taken = call is loop.iter or (
            isinstance(loop.iter, cst.Call) and tree.called(loop.iter) in ("zip", "enumerate")
        )
        if len(calls) == 1 and taken and not function.decorators:
            late = cst.GeneratorExp(made.elt, made.for_in)
            edit = Edit(tree).change(made, lambda _, late=late: late)  # type: ignore[misc]
            yield Candidate(
                edit.patch(), f"compute each output of `{name}` right before its backward", Keeps.PARAMETERS
            )


def _computed_ahead(before: list[Statement], tree: Tree) -> Iterator[_Ahead]:
    """Item-by-item computations among the statements *before* a loop, the last first."""
    for at in range(len(before) - 1, -1, -1):
        statement = before[at]
        name, value = _assigned(statement, tree)
        if isinstance(value, (cst.ListComp, cst.DictComp)):
            item, key = (value.value, value.key) if isinstance(value, cst.DictComp) else (value.elt, None)
            if not value.for_in.ifs and value.for_in.inner_for_in is None:
                yield _Ahead(name, item, value.for_in.target, value.for_in.iter, [statement], key=key)
        elif isinstance(statement, cst.For) and statement.orelse is None and statement.asynchronous is None:
            *inner, last = tree.body_of(statement) or [statement]
            name, kept, key = _put(last, tree)
            empty = next((one for one in reversed(before[:at]) if _assigned(one, tree)[0] == name), None)
            if kept is None or empty is None or not all(targets_of(one, tree) for one in inner):
                continue
            begins = ("[]", "list()") if key is None else ("{}", "dict()")
            if tree.code(_assigned(empty, tree)[1]) in begins and tree.count_paths(statement, {name}) == 1:
                yield _Ahead(name, kept, statement.target, statement.iter, [empty, statement], inner, key)


def _assigned(statement: Statement, tree: Tree) -> tuple[str, cst.BaseExpression]:
    """The name or attribute that a statement sets, and to what; an empty name where it is no such statement."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return "", cst.Name("None")
    target, value = part.targets[0].target, part.value
    named = isinstance(target, (cst.Name, cst.Attribute)) or is_item(target)
    return (tree.code(target) if named else "", value)


def _put(statement: Statement, tree: Tree) -> tuple[str, cst.BaseExpression | None, cst.BaseExpression | None]:
    """The container, the item and the key of ``values.append(x)``, ``values += [x]`` and ``values[key] = x``."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
        if len(call.args) == 1 and not call.args[0].star:
            return tree.code(call.func.value), call.args[0].value, None
    if (
        isinstance(part, cst.AugAssign)
        and isinstance(part.operator, cst.AddAssign)
        and isinstance(part.value, cst.List)
    ):
        items = part.value.elements
        if len(items) == 1 and isinstance(items[0], cst.Element):
            return tree.code(part.target), items[0].value, None
    if isinstance(part, cst.Assign) and len(part.targets) == 1 and isinstance(part.targets[0].target, cst.Subscript):
        place = part.targets[0].target
        if len(place.slice) == 1 and isinstance(place.slice[0].slice, cst.Index):
            return tree.code(place.value), part.value, place.slice[0].slice.value
    return "", None, None


def _reads(name: str, loop: cst.For, tree: Tree) -> int:
    """Number of reads of a list: a name in its function, an attribute anywhere in the program."""
    if name.endswith("]"):
        every = [one for module in tree.modules() for one in tree.every(cst.Subscript, module)]
        return sum(tree.code(one) == name and not _is_made_here(one, tree) for one in every)
    owner, _, last = name.rpartition(".")
    places: list[cst.Name] | list[cst.Attribute] = tree.names_in(tree.function_of(loop))
    if owner:
        places = [one for module in tree.modules() for one in tree.every(cst.Attribute, module)]
    return sum(_last(one) == last and not _is_made_here(one, tree) for one in places)


def _last(place: cst.Name | cst.Attribute) -> str:
    return place.attr.value if isinstance(place, cst.Attribute) else place.value


def _is_made_here(place: cst.Name | cst.Attribute | cst.Subscript, tree: Tree) -> bool:
    """Whether a container is set or filled, and not read."""
    parent = tree.parent_of(place)
    if isinstance(parent, cst.Attribute):
        return parent.attr.value == "append"
    if isinstance(parent, cst.Subscript) and parent.value is place:
        return isinstance(tree.parent_of(parent), cst.AssignTarget)
    set_by = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign)
    return isinstance(parent, set_by) and getattr(parent, "value", None) is not place


def _read_in_turn(made: _Ahead, loop: cst.For, tree: Tree) -> _Reading | None:
    place = _place_of(made.name, loop.iter, loop.target, tree)
    if made.key is not None:
        return _read_by_key(made, made.key, loop, tree)
    return _read_by_item(made, *place, loop, tree) if place is not None else _read_by_index(made, loop, tree)


def _read_by_item(
    made: _Ahead, read: cst.BaseExpression, target: cst.BaseExpression, loop: cst.For, tree: Tree
) -> _Reading | None:
    """``for value in values``, or in a ``zip`` with others, also with what the values are computed from."""
    if not isinstance(target, cst.Name):
        return None
    edit = Edit(tree)
    if isinstance(loop.iter, cst.Call) and isinstance(loop.target, cst.Tuple) and tree.called(loop.iter) == "zip":
        args, parts = [arg.value for arg in loop.iter.args], [part.value for part in loop.target.elements]
        pairs = [(tree.code(arg), _bare(part, tree)) for arg, part in zip(args, parts, strict=True)]
        if (tree.code(made.source), _bare(made.target, tree)) in pairs:
            pairs.remove((tree.code(read), target.value))
            sources = ", ".join(source for source, _ in pairs)
            own = made.target
            if len(pairs) > 1:
                sources = f"{tree.code(loop.iter.func)}({sources})"
                others = [one for one in loop.target.elements if one.value is not target]
                own = loop.target.with_changes(
                    elements=[*others[:-1], others[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
                )
            edit.change(loop.iter, lambda _: cst.parse_expression(sources)).change(loop.target, lambda _: own)
            same = frozenset(one.value for one in tree.names_in(made.target))
            return _Reading(edit, target.value, 1, bound=same)
    edit.change(read, lambda _: made.source).change(target, lambda _: made.target)
    return _Reading(edit, target.value, 1)


def _bare(node: cst.BaseExpression, tree: Tree) -> str:
    """The code of a target without the parentheses around it."""
    return tree.code(node.with_changes(lpar=[], rpar=[]) if isinstance(node, cst.Tuple) else node)


def _read_by_index(made: _Ahead, loop: cst.For, tree: Tree) -> _Reading | None:
    """``for i in range(n)``, and then ``values[i]``, once or more often."""
    index = loop.target
    if not isinstance(index, cst.Name) or not isinstance(made.source, (cst.Name, cst.Attribute)):
        return None
    edit, name = Edit(tree), tree.fresh_name("value", "item", "output", "computed")
    items = _items(made.name, index.value, loop, tree)
    if not items or len(items) != tree.count_paths(loop.body, {made.name}):
        return None
    for one in items:
        edit.change(one, lambda _: cst.Name(name))
    calls = [one for one in tree.inside(loop.iter) if isinstance(one, cst.Call)]
    sizes = [one for one in calls if tree.code(one) == f"len({made.name})"]
    for call in sizes:
        edit.change(call.args[0].value, lambda _: made.source)
    before = f"{tree.code(made.target)} = {tree.code(made.source)}[{index.value}]"
    return _Reading(edit, name, len(items) + len(sizes), (before,))


def _items(name: str, key: str, loop: cst.For, tree: Tree) -> list[cst.Subscript]:
    """Subscripts by which the body of a loop reads the item *key* of the container *name*."""
    inside = (one for one in tree.inside(loop.body) if isinstance(one, cst.Subscript))
    return [one for one in inside if tree.code(one) == f"{name}[{key}]"]


def _read_by_key(made: _Ahead, key: cst.BaseExpression, loop: cst.For, tree: Tree) -> _Reading | None:
    """``for key, value in values.items()``, ``for value in values.values()``, and ``for key in values``."""
    edit, own, source = Edit(tree), loop.target, tree.code(loop.iter)
    name, places = "", 1
    if source == f"{made.name}.items()" and isinstance(own, cst.Tuple) and len(own.elements) == 2:
        own, value = own.elements[0].value, own.elements[1].value  # type: ignore[assignment]
        name = value.value if isinstance(value, cst.Name) else ""
    elif source == f"{made.name}.values()":
        name = own.value if isinstance(own, cst.Name) else ""
    elif source in (made.name, f"{made.name}.keys()"):
        name = tree.fresh_name("value", "item", "output", "computed")
        items = _items(made.name, tree.code(own), loop, tree)
        places += len(items)
        for one in items:
            edit.change(one, lambda _: cst.Name(name))
    if not name or places != 1 + tree.count_paths(loop.body, {made.name}):
        return None
    edit.change(loop.iter, lambda _: made.source).change(loop.target, lambda _: made.target)
    code = tree.code(key)
    if tree.code(own) == name:
        return _Reading(edit, name, places)
    if tree.code(own) == code:
        return _Reading(edit, name, places, bound=frozenset({code}))
    return _Reading(edit, name, places, (f"{tree.code(own)} = {code}",))


def _called_in_turn(fact: StaleGraph | Overwritten, loop: cst.For, tree: Tree) -> Iterator[Candidate]:
    """``losses = {"d": f(x), "g": g(x)}`` keeps the functions, and the loop calls each: ``losses[name](x)``."""
    block = tree.block_of(loop)
    for statement in reversed(block[: block.index(loop)]):
        part = only_part(statement)
        if (
            not isinstance(part, cst.Assign)
            or len(part.targets) != 1
            or not isinstance(part.targets[0].target, cst.Name)
        ):
            continue
        name, display = part.targets[0].target.value, part.value
        if not isinstance(display, (cst.Dict, cst.List, cst.Tuple)) or len(display.elements) < 2:
            continue
        values = [getattr(element, "value", None) for element in display.elements]
        plain = all(isinstance(element, (cst.DictElement, cst.Element)) for element in display.elements)
        if not plain or not all(isinstance(value, cst.Call) for value in values):
            continue
        if tree.count_paths(tree.function_of(loop), {name}) != 2:  # where it is made, and where the loop reads it
            continue
        calls = [cst.ensure_type(value, cst.Call) for value in values]
        given = {", ".join(tree.code(arg).strip().rstrip(",") for arg in call.args) for call in calls}
        same = len(given) == 1 and all(isinstance(call.func, (cst.Name, cst.Attribute)) for call in calls)
        arguments = given.pop() if same else ""
        edit = Edit(tree)
        for call in calls:
            late = (
                call.func
                if same
                else cst.ensure_type(cst.parse_expression("lambda: x"), cst.Lambda).with_changes(body=call)
            )
            edit.change(call, lambda _, late=late: late)  # type: ignore[misc]
        if not _call_where_read(name, arguments, loop, edit, tree):
            continue
        made = tree.expression(fact.outer.made) if fact.outer is not None else None
        spoiled = [call for call in calls if made is call or (made is not None and call in tree.enclosing(made))]
        yield Candidate(
            edit.patch(),
            f"compute each of `{name}` right before its backward",
            Keeps.LATER,
            cause=tree.row_of(spoiled[-1] if spoiled else calls[-1]),
        )
        return


def _call_where_read(name: str, arguments: str, loop: cst.For, edit: Edit, tree: Tree) -> bool:
    """Call what a loop takes out of the display *name*; False where it does not take one item in each iteration."""
    for statement in tree.body_of(loop):
        part = only_part(statement)
        value = part.value if isinstance(part, cst.Assign) else None
        if isinstance(value, cst.Subscript) and tree.code(value.value) == name:
            edit.change(value, lambda node: cst.parse_expression(f"{tree.code(node)}({arguments})"))
            return True
    source, target = loop.iter, loop.target
    taken: cst.BaseExpression | None = None
    if isinstance(source, cst.Call) and tree.code(source) == f"{name}.items()" and isinstance(target, cst.Tuple):
        taken = target.elements[-1].value if len(target.elements) == 2 else None
    elif tree.code(source) == f"{name}.values()":
        taken = target
    else:
        place = _place_of(name, source, target, tree)
        taken = place[1] if place is not None else None
    if not isinstance(taken, cst.Name):
        return False
    late = tree.fresh_name("compute", "make")
    edit.change(taken, lambda _: cst.Name(late))
    edit.insert_before(tree.body_of(loop)[0], f"{taken.value} = {late}({arguments})")
    return True


def _place_of(
    name: str, source: cst.BaseExpression, target: cst.BaseExpression, tree: Tree
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The expression by which a loop reads the list *name*, and the part of its target for the items; else None."""
    if isinstance(source, (cst.Name, cst.Attribute)) or is_item(source):
        return (source, target) if tree.code(source) == name else None
    if not isinstance(source, cst.Call) or not isinstance(source.func, cst.Name) or not isinstance(target, cst.Tuple):
        return None
    args = [arg.value for arg in source.args if arg.keyword is None and not arg.star]
    parts = [part.value for part in target.elements]
    if source.func.value == "enumerate" and len(parts) == 2 and args:
        return _place_of(name, args[0], parts[1], tree)
    if source.func.value == "zip" and len(parts) == len(args) == len(source.args):
        for arg, part in zip(args, parts, strict=True):
            found = _place_of(name, arg, part, tree)
            if found is not None:
                return found
    return None
