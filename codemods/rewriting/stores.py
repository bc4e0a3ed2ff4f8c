"""Containers that a program fills and empties, as its source shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part, pairs_of, without_index
from autofix.codemods.rewriting.tree import Tree

ADDING = frozenset(("append", "extend", "add", "insert", "appendleft"))
"""The methods of containers that add to them."""
_PICKS = frozenset(("setdefault", "get"))
EMPTY = frozenset(("[]", "list()", "deque()", "{}", "dict()", "set()"))


def emptied_by(line: Statement, tree: Tree) -> cst.BaseExpression | None:
    """The expression ``x`` that ``x.clear()`` or ``del x[:]`` empties; None for other statements."""
    part = only_part(line)
    if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) and not part.value.args:
        function = part.value.func
        return function.value if isinstance(function, cst.Attribute) and function.attr.value == "clear" else None
    if isinstance(part, cst.Del) and isinstance(part.target, cst.Subscript) and deleted(line, tree):
        return part.target.value
    return None


def only_value(name: str, function: cst.CSTNode, tree: Tree) -> cst.BaseExpression | None:
    """The value of a function's only assignment to *name*; None where there are none or several."""
    given = [
        part.value
        for statement in tree.statements_in(function)
        if isinstance(part := only_part(statement), cst.Assign)
        if any(name in {one.value for one in tree.names_in(target.target)} for target in part.targets)
    ]
    return given[0] if len(given) == 1 else None


def outlives(store: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a store is a memory that is meant to live on.

    That is one of limited length, one that is sampled from, or one whose last items are read: ``memory[-8:]``.
    """
    if is_sampled(store, tree):
        return True
    name = tree.code(without_index(store)).rpartition(".")[2]
    module = tree.module_of(store)
    made = (value for one in tree.every(cst.SimpleStatementLine, module) for value in _given_to(name, one, tree))
    if any(_is_bounded(call, tree) for value in made for call in calls_in(value)):
        return True
    return any(_takes_last(one) and _last_name(one.value, tree) == name for one in tree.every(cst.Subscript, module))


def _given_to(name: str, statement: cst.SimpleStatementLine, tree: Tree) -> Iterator[cst.BaseExpression]:
    """The values that a statement sets a variable or an attribute with this name to."""
    for part in statement.body:
        if isinstance(part, cst.AnnAssign) and part.value is not None and _last_name(part.target, tree) == name:
            yield part.value
        if isinstance(part, cst.Assign):
            pairs = [pair for one in part.targets for pair in pairs_of(one.target, part.value)]
            yield from (value for target, value in pairs if _last_name(target, tree) == name)


def _last_name(path: cst.BaseExpression, tree: Tree) -> str:
    return tree.code(without_index(path)).rpartition(".")[2]


def _is_bounded(call: cst.Call, tree: Tree) -> bool:
    """Whether a call makes a ``deque`` of limited length."""
    return tree.called(call) == "deque" and any(one.keyword and one.keyword.value == "maxlen" for one in call.args)


def _takes_last(item: cst.Subscript) -> bool:
    """Whether a subscript is like ``[-8:]``."""
    index = item.slice[0].slice
    lower = index.lower if isinstance(index, cst.Slice) and index.upper is None else None
    return isinstance(lower, cst.UnaryOperation) and isinstance(lower.operator, cst.Minus)


def is_sampled(store: cst.BaseExpression, tree: Tree) -> bool:
    """Whether items of a store are drawn at random: ``random.sample(memory, 8)``, ``randint(len(memory), (8,))``."""
    name = tree.code(without_index(store)).rpartition(".")[2]
    drawn = {name, f"self.{name}"}
    for call in tree.every(cst.Call, tree.module_of(store)):
        called = tree.called(call)
        if called in _SAMPLING and call.args and tree.code(call.args[0].value) in drawn:
            return True
        if called in _DRAWING and any(
            tree.called(one) == "len" and one.args and tree.code(one.args[0].value) in drawn
            for argument in call.args
            for one in calls_in(argument)
        ):
            return True
    return False


_SAMPLING = frozenset(("sample", "choice", "choices"))
_DRAWING = _SAMPLING | {"randint", "randrange", "randperm", "permutation", "integers"}
"""Functions that draw the indices of items."""


def store_of(statement: Statement | None, tree: Tree, names: Collection[str] = ()) -> cst.BaseExpression | None:
    """The list that a statement adds to; one of the *names* where ``;`` parts several."""
    found = _stores_of(statement)
    return next((one for one in found if tree.code(one) in names), found[0] if found else None)


def _stores_of(statement: Statement | None) -> list[cst.BaseExpression]:
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return [one for one in map(_added_to, parts) if one is not None]


def _added_to(part: cst.BaseSmallStatement) -> cst.BaseExpression | None:
    call = part.value if isinstance(part, (cst.Expr, cst.Return)) else None
    if isinstance(call, cst.Lambda):  # `return lambda module, args, out: outs[name].append(out)`
        call = call.body
    elif isinstance(call, cst.Call) and (
        lambdas := [arg.value.body for arg in call.args if isinstance(arg.value, cst.Lambda)]
    ):
        call = lambdas[0]  # `layer.register_forward_hook(lambda module, args, out: outs.append(out))`
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        found = call.func.value if call.func.attr.value in ADDING else None
        if isinstance(found, cst.Call) and isinstance(found.func, cst.Attribute) and found.func.attr.value in _PICKS:
            found = found.func.value  # the whole of the mapping: `maps.setdefault(name, []).append(x)`
    elif isinstance(part, cst.AugAssign) and isinstance(part.value, cst.List):
        found = part.target
    else:
        found = None
    return found if isinstance(found, (cst.Name, cst.Attribute, cst.Subscript)) else None


def holders_of(name: str, tree: Tree) -> Iterator[tuple[Statement, cst.BaseExpression]]:
    """The lists of objects that have a list called *name*, as episodes have, and the statements that add one."""
    for module in tree.modules():
        owners = {
            one.name.value
            for one in tree.every(cst.ClassDef, module)
            if any(path in (name, f"self.{name}") for path in tree.paths_in(one.body))
        }
        for statement in tree.statements_in(module):
            part, holder = only_part(statement), store_of(statement, tree)
            if holder is None or not isinstance(part, cst.Expr) or not isinstance(part.value, cst.Call):
                continue
            added = part.value.args[-1].value if part.value.args else None
            if isinstance(added, cst.Name):  # `episode = Episode()`, and then `episodes.append(episode)`
                added = only_value(added.value, tree.function_of(statement), tree)
            if isinstance(added, cst.Call) and tree.called(added) in owners:
                yield statement, holder


def companions(store: cst.BaseExpression, kept: Statement, failed: Statement, tree: Tree) -> list[str]:
    """Lists that belong together with the store, are filled like it, and are emptied nowhere.

    *failed* is the statement of the pass, before which they are filled each time.  A history, which is filled less
    often than the store or read behind the training, is none of them.
    """
    loops = set(tree.loops_running(kept))
    behind = _behind_the_training(failed, tree)
    statements = list(tree.statements_in(tree.module_of(kept)))
    is_attribute = isinstance(store, cst.Attribute)
    own = _as_self(tree.code(store)) if is_attribute else tree.code(store)
    made = next((one for one in statements if own in _emptied_in(one, tree)), None)
    if made is None and is_attribute:  # given to the object from outside: `policy.log_probs = []`
        places = ((one, place) for one in statements for place in _emptied_in(one, tree))
        made, own = next(((one, place) for one, place in places if _as_self(place) == own), (None, own))
    owner = own.rpartition(".")[0]
    found = []
    for statement in tree.block_of(made) if made is not None else []:
        for other in _emptied_in(statement, tree):
            of, _, name = other.rpartition(".")
            if of != owner:
                continue
            filled = any(
                _named(tree.code(one), name, is_attribute)
                for part in statements
                for one, added in _fillings_of(part)
                if not _fills_once(part, added, failed, tree) and not set(tree.loops_running(part)) < loops
            )
            again = any(clears(part, name, is_attribute, tree) for part in statements if part is not statement)
            read = any(_named(path, name, is_attribute) for path in behind)
            if other != own and filled and not again and not read:
                found.append(name)
    return found


def _behind_the_training(failed: Statement, tree: Tree) -> set[str]:
    """The names that the statements behind the loops around a pass mention."""
    loops = list(tree.loops_around(failed))
    block = tree.block_of(loops[-1]) if loops else []
    return set().union(*map(tree.paths_in, block[block.index(loops[-1]) + 1 :])) if block else set()


def _fillings_of(statement: Statement) -> Iterator[tuple[cst.BaseExpression, list[cst.BaseExpression]]]:
    """The lists that a statement adds to, each with what it adds."""
    for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        store = _added_to(part)
        if store is not None:
            value = part.value if isinstance(part, (cst.Expr, cst.AugAssign)) else None
            added = [argument.value for argument in value.args[-1:]] if isinstance(value, cst.Call) else []
            yield store, [element.value for element in value.elements] if isinstance(value, cst.List) else added


def _fills_once(statement: Statement, added: list[cst.BaseExpression], failed: Statement, tree: Tree) -> bool:
    """Whether what a statement adds to a list is there before the training: layers, the handles of hooks."""
    home = tree.function_of(statement)
    if isinstance(home, cst.FunctionDef) and home.name.value == "__init__":
        return not any(isinstance(one, cst.Lambda) for one in added)
    loops = list(tree.loops_around(failed))
    if loops and home is tree.function_of(failed) and loops[-1] not in list(tree.loops_around(statement)):
        return True
    return any(
        _is_handle(only_value(one.value, home, tree) if isinstance(one, cst.Name) else one, tree) for one in added
    )


def _is_handle(value: cst.BaseExpression | None, tree: Tree) -> bool:
    """Whether a value is the handle by which a hook is removed again."""
    called = tree.called(value) if isinstance(value, cst.Call) else ""
    return called.startswith("register_") and called.endswith("hook")


def _as_self(code: str) -> str:
    return f"self.{code.rpartition('.')[2]}"


def _named(code: str, name: str, is_attribute: bool) -> bool:
    return code.endswith(f".{name}") if is_attribute else code == name


def _emptied_in(statement: Statement, tree: Tree) -> list[str]:
    """Those to which a line assigns empty containers, also where ``;`` parts several statements."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    if len(parts) < 2:
        return emptied(statement, tree)
    return [one for part in parts for one in _emptied_by(part, tree)]


def emptied(statement: Statement, tree: Tree) -> list[str]:
    """Source texts of the targets to which a statement assigns empty containers."""
    return _emptied_by(only_part(statement), tree)


def _emptied_by(part: cst.BaseSmallStatement | None, tree: Tree) -> list[str]:
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return []
    pairs = pairs_of(part.targets[0].target, part.value)
    return [tree.code(one) for one, other in pairs if tree.code(other) in EMPTY]


def clears(statement: Statement, name: str, is_attribute: bool, tree: Tree) -> bool:
    """Whether a statement empties the list, or makes a new one in its place."""
    empty = [*emptied(statement, tree), deleted(statement, tree)]
    if any(_named(one, name, is_attribute) for one in empty):
        return True
    if isinstance(statement, cst.SimpleStatementLine):
        for part in statement.body:
            call = part.value if isinstance(part, cst.Expr) else None
            if isinstance(call, (cst.ListComp, cst.SetComp)):  # `[tap.found.clear() for tap in taps]`
                call = call.elt
            if isinstance(call, cst.Call):
                called = tree.code(call.func)
                if called.endswith(".clear") and _named(called.removesuffix(".clear"), name, is_attribute):
                    return True
            if isinstance(part, cst.Assign):
                targets = [tree.code(target.target) for target in part.targets]
                if any(_named(target.removesuffix("[:]"), name, is_attribute) for target in targets):
                    return True
    return False


def deleted(statement: Statement, tree: Tree) -> str:
    """``x`` for ``del x[:]``."""
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Del):
        code = tree.code(statement.body[0].target)
        return code.removesuffix("[:]") if code.endswith("[:]") else ""
    return ""
