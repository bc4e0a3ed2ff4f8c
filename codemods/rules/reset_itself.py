"""Lost reset: what is meant to empty a store empties something else, and leaves the store as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit, small_statement
from autofix.codemods.rewriting.nodes import Statement, calls_in, method_call, only_part, pairs_of, without_index
from autofix.codemods.rewriting.stores import ADDING, EMPTY, emptied_by, only_value, store_of
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules import uncalled_resets
from autofix.codemods.rules.base import Candidate, Codemod


class ResetItself(Codemod):
    """Stores are reset by a statement that reaches something else: a name, a copy, or another object.

    Error:
        RuntimeError: Trying to backward through the graph a second time, in the second iteration.

    Cause:
        ``for outs in store.values(): outs = []`` makes a new list and forgets it; ``columns.clear()`` empties the lists
        that were copied from the store; ``terms = []`` in a function is a name of its own beside the module's list, as
        is ``state = None`` in a method beside ``self.state``; ``block.terms = []`` gives the block an attribute of that
        name, while the terms are those of ``block.ffn``; ``cell.hidden = None`` gives the cell an attribute that nobody
        reads, beside its ``state``; ``self.pending = []`` drops another name of the list, and leaves it to the hooks
        that were given it. The list in the store keeps the graphs of all iterations so far, and the next loss is
        computed from them, too. ``state.zero_()`` puts zeros into a state that keeps its graph. Or the reset, ``def
        reset(self): self.state = None``, is never called.

    Fix:
        The list itself is emptied: ``outs.clear()``, ``self.log.clear()``, ``block.ffn.terms = []``; the cell's state
        is forgotten: ``cell.state = None``, ``self.state = None``. A state that is filled in place is cut first:
        ``state.detach_()``. A reset that nothing calls is called at the start of each iteration: ``net.reset()``.

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
        if fact.kept is None:
            return
        yield from uncalled_resets.candidates(fact, tree)
        yield from _of_another_name(tree.statement(fact.kept), tree)
        if not fact.inside:
            return
        if not _are_alternatives(tree.expression(fact.used), tree.statement(fact.kept), tree):
            yield from _in_place(tree.expression(fact.used), tree)
        yield from _names_alone(tree)
        yield from _of_a_function_alone(tree)
        yield from _of_a_method_alone(tree)
        yield from _aliases(tree)
        yield from _held_by_others(tree)
        yield from _made_anew(tree)
        for span in dict.fromkeys((fact.kept, *(carrier.statement for carrier in fact.carriers))):
            kept = tree.statement(span)
            store = store_of(kept, tree)
            if kept is None or store is None:
                continue
            store = without_index(store)
            if isinstance(store, (cst.Name, cst.Attribute)):
                yield from _copies(store, tree)
            if isinstance(store, cst.Attribute):
                yield from _of_another_object(store, kept, tree)


_FILLING = frozenset("zero_ fill_ normal_ uniform_ random_ bernoulli_ exponential_ constant_ zeros_ ones_".split())


def _are_alternatives(used: cst.CSTNode | None, kept: cst.CSTNode | None, tree: Tree) -> bool:
    """Whether one branch of an ``if`` has the one, and another branch the other: neither resets the other."""
    if used is None or kept is None:
        return False
    around = {part: below for below, part in pairwise([used, *tree.enclosing(used)])}
    for below, part in pairwise([kept, *tree.enclosing(kept)]):
        if part in around:
            return isinstance(part, cst.If) and around[part] is not below
    return False


def _in_place(used: cst.BaseExpression | None, tree: Tree) -> Iterator[Candidate]:
    """``state.zero_()`` forgets the values of a state and keeps its graph: ``state.detach_()`` comes before it."""
    called = used.func if isinstance(used, cst.Call) else None
    if not isinstance(used, cst.Call) or not isinstance(called, cst.Attribute) or called.attr.value not in _FILLING:
        return
    of_torch = tree.is_of_torch(called) and bool(used.args)  # nn.init.uniform_(state)
    state = used.args[0].value if of_torch else called.value
    if not isinstance(state, (cst.Name, cst.Attribute, cst.Subscript)):
        return
    name = tree.code(state)
    remedy = f"reset `{name}` together with its graph"
    loop = next((one for one in tree.loops_around(used) if isinstance(one, cst.For)), None)
    if loop is not None and name == tree.code(loop.target) and (body := tree.body_of(loop)):
        patch = Edit(tree).insert_before(body[0], f"{name}.detach_()").patch()
        yield Candidate(patch, remedy, cause=tree.row_of(used))
    patch = Edit(tree).change(state, lambda node: method_call(node, "detach_")).patch()
    yield Candidate(patch, remedy, cause=tree.row_of(used))


def _names_alone(tree: Tree) -> Iterator[Candidate]:
    """``for outs in store.values(): outs = []`` becomes ``outs.clear()``."""
    for module in tree.modules():
        for loop in tree.statements_in(module):
            inner = tree.body_of(loop) if isinstance(loop, cst.For) else []
            part = only_part(inner[0]) if len(inner) == 1 else None
            if not isinstance(loop, cst.For) or not isinstance(part, cst.Assign) or len(part.targets) != 1:
                continue
            name = tree.code(part.targets[0].target)
            if name in {one.value for one in tree.names_in(loop.target)} and tree.code(part.value) in EMPTY:
                yield _cleared(part, name, tree)


def _of_a_function_alone(tree: Tree) -> Iterator[Candidate]:
    """``terms = []`` in a function binds a name of its own, beside the list ``terms`` of the module or an import."""
    for module in tree.modules():
        outside = _bound_in(module, tree)
        for function in tree.every(cst.FunctionDef, module):
            outer: list[cst.Global | cst.Nonlocal] = [*tree.every(cst.Global, module)]
            outer += tree.every(cst.Nonlocal, module)
            declared = {item.name.value for one in outer if tree.function_of(one) is function for item in one.names}
            for statement in tree.statements_in(function):
                part = only_part(statement)
                if not isinstance(part, cst.Assign) or len(part.targets) != 1 or tree.code(part.value) not in EMPTY:
                    continue
                name = tree.code(part.targets[0].target)
                if name in outside - declared and sum(one.value == name for one in tree.names_in(function)) == 1:
                    yield _cleared(part, name, tree)


def _of_a_method_alone(tree: Tree) -> Iterator[Candidate]:
    """``state = None`` in a method binds a name that nobody reads, beside the object's ``self.state``."""
    for module in tree.modules():
        declared = {tree.function_of(one) for kind in (cst.Global, cst.Nonlocal) for one in tree.every(kind, module)}
        for home in tree.every(cst.ClassDef, module):
            for method in tree.body_of(home):
                if isinstance(method, cst.FunctionDef) and not method.decorators and method not in declared:
                    yield from _names_for_attributes(method, home, tree)


def _names_for_attributes(method: cst.FunctionDef, home: cst.ClassDef, tree: Tree) -> Iterator[Candidate]:
    """Candidates for assignments of a method to names that it never reads, and that the object's attributes have."""
    parameters = [one.name for one in method.params.params]
    for statement in tree.statements_in(method) if parameters else ():
        lost = _names_given(statement) if tree.function_of(statement) is method else []
        owner = parameters[0]
        paths = [f"{owner.value}.{one.value}" for one in lost]
        used = {one.value for one in tree.names_in(method) if one not in lost}
        if lost and used.isdisjoint(one.value for one in lost) and all(_is_constructed(p, home, tree) for p in paths):
            edit = Edit(tree)
            for one in lost:
                edit = edit.change(one, lambda node, owner=owner: cst.Attribute(owner, node))  # type: ignore[misc]
            remedy = f"reset `{paths[0]}`, not a name of the method's own"
            yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS, cause=tree.row_of(lost[0]))


def _names_given(statement: Statement) -> list[cst.Name]:
    """The names that are all of an assignment's targets, as in ``h = c = None`` and ``h, c = ...``; else none."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign):
        return []
    targets = _targets(part)
    names = [one for one in targets if isinstance(one, cst.Name)]
    return names if len(names) == len(targets) else []


def _targets(part: cst.Assign) -> list[cst.BaseExpression]:
    """The targets of an assignment, those in a tuple one by one."""
    found: list[cst.BaseExpression] = []
    for target in part.targets:
        several = isinstance(target.target, (cst.Tuple, cst.List))
        found += [one.value for one in target.target.elements] if several else [target.target]  # type: ignore[attr-defined]
    return found


def _bound_in(module: cst.Module, tree: Tree) -> set[str]:
    """The names that a file's own statements bind."""
    found: set[str] = set()
    for statement in module.body:
        part = only_part(statement)
        if isinstance(part, cst.Assign):
            found |= {tree.code(target.target) for target in part.targets}
        elif isinstance(part, cst.AnnAssign):
            found.add(tree.code(part.target))
        elif isinstance(part, cst.ImportFrom) and not isinstance(part.names, cst.ImportStar):
            found |= {alias.evaluated_alias or alias.evaluated_name for alias in part.names}
    return found


def _cleared(part: cst.Assign, name: str, tree: Tree) -> Candidate:
    """``name.clear()`` in the place of an assignment."""
    patch = Edit(tree).change(part, lambda _: small_statement(f"{name}.clear()")).patch()
    return Candidate(patch, f"empty `{name}` itself instead of rebinding the name", Keeps.PARAMETERS)


def _aliases(tree: Tree) -> Iterator[Candidate]:
    """``self.pending = []`` becomes ``self.pending.clear()``, where ``self.pending`` was given ``model.ledger``."""
    for module in tree.modules():
        given: dict[tuple[cst.CSTNode, str], list[cst.Assign]] = {}
        for statement in tree.statements_in(module):
            part = only_part(statement)
            target = part.targets[0].target if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
            if isinstance(part, cst.Assign) and isinstance(target, (cst.Name, cst.Attribute)):
                path = tree.code(target)
                scope = tree.class_of(statement) if path.startswith("self.") else tree.function_of(statement)
                given.setdefault((scope or module, path), []).append(part)
        for (_, path), parts in given.items():
            if not any(isinstance(part.value, (cst.Name, cst.Attribute)) for part in parts):
                continue
            for part in parts:
                if tree.code(part.value) in EMPTY and not _is_constructing(part, tree):
                    yield _cleared(part, path, tree)


_ADDING = ADDING - {"extend"} | {"put", "put_nowait", "push", "setdefault"}
"""Methods that put what they are given into a container as it is."""


def _held_by_others(tree: Tree) -> Iterator[Candidate]:
    """``self.records = {}`` becomes ``self.records.clear()``, where hooks and others were given the first of them.

    Not where each is put away before the next one is made: ``self.memory.append(self.records)``.
    """
    handed, put_away = set[str](), set[str]()
    for module in tree.modules():
        for call in tree.every(cst.Call, module):
            names = {one.value.attr.value for one in call.args if isinstance(one.value, cst.Attribute)}
            handed |= names
            put_away |= names if tree.called(call) in _ADDING else set()
    handed -= put_away
    for module in tree.modules():
        for statement in tree.statements_in(module):
            part = only_part(statement)
            target = part.targets[0].target if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
            if not isinstance(part, cst.Assign) or not isinstance(target, cst.Attribute):
                continue
            again = (
                target.attr.value in handed and _is_empty(part.value, tree) and not _is_constructing(statement, tree)
            )
            if again and _is_constructed(tree.code(target), tree.class_of(statement), tree):
                yield _cleared(part, tree.code(target), tree)


def _made_anew(tree: Tree) -> Iterator[Candidate]:
    """``tape = Tape()`` in the loop becomes ``tape = agent.tape = Tape()``, where ``agent`` was given the first one."""
    for module in tree.modules():
        made: dict[tuple[cst.CSTNode, str, str], list[cst.Assign]] = {}
        for statement in tree.statements_in(module):
            part = only_part(statement)
            if isinstance(part, cst.Assign) and len(part.targets) == 1 and isinstance(part.value, cst.Call):
                path, code = tree.code(part.targets[0].target), tree.code(part.value)
                if tree.called(part.value)[:1].isupper():
                    made.setdefault((_scope_of(statement, path, tree), path, code), []).append(part)
        for (scope, path, _), parts in made.items():
            holders = list(dict.fromkeys(_holders_of(path, scope, tree))) if len(parts) > 1 else []
            for part in parts if len(holders) == 1 else ():
                if not any(tree.loops_around(part)) and not path.startswith("self."):
                    continue
                also = cst.AssignTarget(cst.parse_expression(holders[0]))  # type: ignore[arg-type]
                change = Edit(tree).change(part, lambda node, also=also: _with_target(node, also))  # type: ignore[misc]
                yield Candidate(change.patch(), f"rebuild `{holders[0]}` as well", Keeps.PARAMETERS)


def _scope_of(statement: Statement, path: str, tree: Tree) -> cst.CSTNode:
    """Scope in which a name means one thing: a function or a module; for an attribute of ``self``, the class."""
    home = tree.class_of(statement) if path.startswith("self.") else None
    return home or tree.function_of(statement)


def _with_target(node: cst.CSTNode, target: cst.AssignTarget) -> cst.CSTNode:
    assert isinstance(node, cst.Assign)
    return node.with_changes(targets=[*node.targets, target])


def _holders_of(path: str, scope: cst.CSTNode, tree: Tree) -> Iterator[str]:
    """The attributes in which others hold what is called *path*: ``agent.tape``, by assignment or by a constructor."""
    for statement in tree.statements_in(scope):
        part = only_part(statement)
        if not isinstance(part, cst.Assign) or len(part.targets) != 1:
            continue
        target = tree.code(part.targets[0].target)
        if tree.code(part.value) == path and "." in target:
            yield target
        for at, argument in enumerate(part.value.args) if isinstance(part.value, cst.Call) else ():
            if tree.code(argument.value) == path and not argument.star:
                yield from (f"{target}.{name}" for name in _stored_as(part.value, at, tree))  # type: ignore[arg-type]


def _stored_as(call: cst.Call, at: int, tree: Tree) -> Iterator[str]:
    """The attributes as which a constructor of the program stores its argument number *at*."""
    keyword = call.args[at].keyword
    for module in tree.modules():
        for home in tree.every(cst.ClassDef, module):
            if home.name.value != tree.called(call):
                continue
            for method in tree.body_of(home):
                if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                    names = [one.name.value for one in method.params.params][1:]
                    given = keyword.value if keyword is not None else names[at] if at < len(names) else ""
                    for statement in tree.body_of(method):
                        yield from _attribute_given(only_part(statement), given, tree)


def _attribute_given(part: cst.CSTNode | None, name: str, tree: Tree) -> Iterator[str]:
    """``x`` of ``self.x = name``, also as one of several: ``self.x, self.y = name, other``."""
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return
    for one, two in pairs_of(part.targets[0].target, part.value):
        if isinstance(one, cst.Attribute) and tree.code(one.value) == "self" and tree.code(two) == name:
            yield one.attr.value


def _is_constructed(path: str, home: cst.ClassDef | None, tree: Tree) -> bool:
    """Whether the constructor of a class makes the first ``self.records``: a method that is to empty it finds one."""
    parts = (only_part(one) for one in tree.statements_in(home) if _is_constructing(one, tree)) if home else ()
    return any(
        any(tree.code(target) == path for target in _targets(part))
        if isinstance(part, cst.Assign)
        else isinstance(part, cst.AnnAssign) and tree.code(part.target) == path
        for part in parts
    )


def _is_empty(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether an expression makes an empty container."""
    if not isinstance(value, cst.Call) or tree.code(value) in EMPTY:
        return tree.code(value) in EMPTY
    first = [one for one in value.args if one.keyword is None]
    return len(first) <= {"defaultdict": 1, "deque": 0}.get(tree.called(value), -1)


def _is_constructing(statement: cst.CSTNode, tree: Tree) -> bool:
    function = tree.function_of(statement)
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"


def _copies(store: cst.Name | cst.Attribute, tree: Tree) -> Iterator[Candidate]:
    """``columns.clear()`` becomes ``self.log.clear()``, where ``columns`` was made of ``self.log``.

    So does the loop that empties each of the columns.
    """
    wanted = tree.code(store).rpartition(".")[2]
    for module in tree.modules():
        for statement in tree.statements_in(module):
            emptied = _emptied(statement, tree)
            name = next((one for one in tree.names_in(emptied) if one.value != wanted), None) if emptied else None
            made = only_value(name.value, tree.function_of(name), tree) if name is not None else None
            if name is None or made is None:
                continue
            path = next((one for one in sorted(tree.paths_in(made)) if one.rpartition(".")[2] == wanted), "")
            if not path or ("." in path) is not isinstance(store, cst.Attribute):
                continue
            edit = Edit(tree).change(name, lambda _, path=path: cst.parse_expression(path))  # type: ignore[misc]
            yield Candidate(edit.patch(), f"empty `{path}` itself, not a copy of it", Keeps.PARAMETERS)


def _emptied(statement: Statement, tree: Tree) -> cst.BaseExpression | None:
    """The container that a statement empties in place, or that it goes through to empty each list in it; else None."""
    if isinstance(statement, cst.For):
        inner = tree.body_of(statement)
        own = _emptied(inner[0], tree) if len(inner) == 1 and statement.orelse is None else None
        targets = {one.value for one in tree.names_in(statement.target)}
        return statement.iter if isinstance(own, cst.Name) and own.value in targets else None
    return emptied_by(statement, tree)


def _of_another_object(store: cst.Attribute, kept: Statement, tree: Tree) -> Iterator[Candidate]:
    """``block.terms = []`` becomes ``block.ffn.terms = []``, where the object in that attribute has the terms."""
    home, name = tree.class_of(kept), store.attr.value
    if home is None or tree.code(store.value) != "self":
        return
    within = set(tree.statements_in(home))
    for module in tree.modules():
        for statement in tree.statements_in(module):
            if statement in within or _is_constructing(statement, tree):
                continue
            target = _reset_attribute(statement, name, tree)
            for attribute, several in _attributes_with(home.name.value, tree) if target is not None else ():
                assert target is not None
                owner = tree.code(target.value)
                if several:
                    item = tree.fresh_name("layer", "part", "item")
                    inner = tree.own_code(statement).replace(f"{owner}.{name}", f"{item}.{name}", 1)
                    indent = tree.module_of(statement).default_indent
                    loop = cst.parse_statement(f"for {item} in {owner}.{attribute}:\n{indent}{inner}")
                    edit = Edit(tree).change(statement, lambda _, loop=loop: loop)  # type: ignore[misc]
                else:
                    inside = cst.parse_expression(f"{owner}.{attribute}")
                    edit = Edit(tree).change(target.value, lambda _, inside=inside: inside)  # type: ignore[misc]
                remedy = f"empty `{name}` of `{owner}.{attribute}`, not one of `{owner}`"
                yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS)


def _of_another_name(kept: Statement | None, tree: Tree) -> Iterator[Candidate]:
    """``cell.hidden = None``, which nobody reads, becomes ``cell.state = None``: the cells keep ``self.state``."""
    part = only_part(kept)
    target = part.targets[0].target if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
    if not isinstance(target, cst.Attribute) or tree.code(target.value) != "self" or kept is None:
        return
    name = target.attr.value
    if not any(
        isinstance(found := only_part(statement), cst.Assign)
        and tree.code(found.value) == "None"
        and any(tree.code(one.target) == f"self.{name}" for one in found.targets)
        for statement in tree.statements_in(tree.class_of(kept) or tree.module_of(kept))
    ):
        return  # nobody expects it to be empty
    for module in tree.modules():
        for statement in tree.statements_in(module):
            found = only_part(statement)
            reset = found.targets[0].target if isinstance(found, cst.Assign) and len(found.targets) == 1 else None
            if not isinstance(found, cst.Assign) or not isinstance(reset, cst.Attribute) or reset.attr.value == name:
                continue
            if tree.code(found.value) != "None" or not _is_read_nowhere(reset.attr.value, tree):
                continue
            patch = Edit(tree).change(reset.attr, lambda _: cst.Name(name)).patch()
            yield Candidate(patch, f"empty `{name}` instead of `{reset.attr.value}`, which nothing reads", Keeps.ANEW)


def _is_read_nowhere(attribute: str, tree: Tree) -> bool:
    """Whether an attribute of this name is only ever assigned to."""
    return all(
        isinstance(tree.parent_of(node), cst.AssignTarget)
        for module in tree.modules()
        for node in tree.every(cst.Attribute, module)
        if node.attr.value == attribute
    )


def _reset_attribute(statement: Statement, name: str, tree: Tree) -> cst.Attribute | None:
    """The attribute called *name* that a statement empties or makes anew."""
    part = only_part(statement)
    found = emptied_by(statement, tree)
    if isinstance(part, cst.Assign) and len(part.targets) == 1 and tree.code(part.value) in EMPTY:
        found = part.targets[0].target
    return found if isinstance(found, cst.Attribute) and found.attr.value == name else None


def _attributes_with(kind: str, tree: Tree) -> Iterator[tuple[str, bool]]:
    """The attributes that constructors give objects of a class, each with whether it holds several of them."""
    found: dict[tuple[str, bool], None] = {}
    for module in tree.modules():
        for statement in tree.statements_in(module):
            part = only_part(statement)
            if not isinstance(part, cst.Assign) or len(part.targets) != 1:
                continue
            target = part.targets[0].target
            made = [call for call in calls_in(part.value) if tree.called(call) == kind]
            if made and isinstance(target, cst.Attribute) and tree.code(target.value) == "self":
                found[target.attr.value, made[0] is not part.value] = None
    yield from found
