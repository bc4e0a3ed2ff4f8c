"""The statements that compute a value: which belong together, and whether they may be run again elsewhere."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.rewriting.nodes import Statement, calls_in, is_item, nodes_in, only_part, pairs_of
from autofix.codemods.rewriting.tree import Tree


def targets_of(statement: Statement, tree: Tree) -> set[str]:
    """Names, attributes and items that a plain assignment binds; empty for any other statement."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign):
        return set()
    found: set[str] = set()
    for target in part.targets:
        if not isinstance(target.target, (cst.Name, cst.Attribute, cst.Tuple)) and not is_item(target.target):
            return set()
        found |= _bound_by(target.target, tree)
    return found


def _bound_by(target: cst.BaseExpression, tree: Tree) -> set[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return set[str]().union(*(_bound_by(one.value, tree) for one in target.elements))
    if isinstance(target, (cst.Name, cst.Attribute)) or is_item(target):
        return {tree.code(target).strip("()")}
    return tree.paths_in(target)


_EMPTY = frozenset("list dict set deque defaultdict Counter OrderedDict".split())


def is_begun(statement: Statement, tree: Tree) -> bool:
    """Whether a statement computes nothing: ``seen = 0.0``, ``losses = []``, ``log = defaultdict(list)``."""
    part = only_part(statement)
    value = part.value if isinstance(part, cst.Assign) else None
    if isinstance(value, cst.Tuple):
        return all(_is_plain(one.value, tree) for one in value.elements)
    return value is not None and _is_plain(value, tree)


def _is_plain(value: cst.BaseExpression, tree: Tree) -> bool:
    return not tree.names_in(value) or (isinstance(value, cst.Call) and tree.called(value) in _EMPTY)


def parted(statement: Statement, tree: Tree) -> tuple[str, str]:
    """The parts of ``bank, steps = design(raw), 120`` as two statements: what computes something, and what does not.

    The second is empty where all of it computes something, or nothing does.
    """
    part = only_part(statement)
    pairs = list(pairs_of(part.targets[0].target, part.value)) if isinstance(part, cst.Assign) else []
    plain = [pair for pair in pairs if _is_plain(pair[1], tree)]
    if len(pairs) < 2 or not 0 < len(plain) < len(pairs):
        return tree.own_code(statement), ""

    def spelled(some: list[tuple[cst.BaseExpression, cst.BaseExpression]]) -> str:
        return " = ".join(", ".join(tree.code(one).strip() for one in side) for side in zip(*some, strict=True))

    return spelled([pair for pair in pairs if pair not in plain]), spelled(plain)


_RANDOM = frozenset("rand randn randint randperm rand_like randn_like randint_like normal bernoulli".split())


def draws_in(run: list[Statement], tree: Tree) -> list[cst.Call]:
    """The calls that draw random numbers in statements that compute something of these: ``net(torch.randn(5, 3))``.

    And that can be made before these, unlike ``torch.randn_like(mean)`` of what they compute.
    """
    own = set().union(*(targets_of(one, tree) for one in run))
    parts = [part for one in run if isinstance(part := only_part(one), cst.Assign)]
    calls = [call for part in parts for call in calls_in(part.value) if call is not part.value]
    drawing = [call for call in calls if draws(call, tree)]
    return [call for call in drawing if not tree.paths_in(call) & own]


def only_draws(statement: Statement, tree: Tree) -> bool:
    """Whether a statement names random numbers that it draws: ``z = torch.randn(5, 3)``."""
    part = only_part(statement)
    return isinstance(part, cst.Assign) and isinstance(part.value, cst.Call) and draws(part.value, tree)


def draws(call: cst.Call, tree: Tree) -> bool:
    """Whether a call draws random numbers."""
    return tree.called(call) in _RANDOM and tree.is_of_torch(call.func)


def computation(kept: Statement, block: list[Statement], tree: Tree) -> list[Statement]:
    """The statements up to *kept* that only serve it: calls whose results nobody reads outside of them."""
    run = [kept]
    needed = tree.paths_in(kept)
    bound = targets_of(kept, tree)
    for statement in reversed(block[: block.index(kept)]):
        targets = targets_of(statement, tree)
        if not targets or not targets & needed or not _calls(statement):
            break
        if not targets <= bound and _read_outside(targets - bound, [statement, *run], tree):
            break
        run.insert(0, statement)
        needed |= tree.paths_in(statement)
        bound |= targets
    return run


def compared_with_new(
    kept: Statement, made: cst.BaseExpression | None, used: cst.BaseExpression | None, loop: Statement, tree: Tree
) -> bool:
    """Whether a loop computes for itself, of the same inputs, what the value *made* before it is computed of.

    And compares the two where the old one is *used*.  Of ``mse_loss(net(x), old)``, with ``old = net(x)``, the old one
    is to stay as it was: computed anew, it would be the very same.
    """
    part = only_part(kept)
    if not isinstance(part, cst.Assign) or made is None or used is None:
        return False
    own = set().union(*(targets_of(one, tree) for one in tree.statements_in(loop)))
    own |= tree.paths_in(loop.target) if isinstance(loop, cst.For) else set()
    around = {made, *tree.enclosing(made)}
    before = [call for call in calls_in(part.value) if call in around or made in set(tree.enclosing(call))]
    old = [call for call in before if _is_of_network(call, tree) and not tree.paths_in(call) & own]
    read = tree.paths_in(used)
    again = (one for one in tree.statements_in(loop) if any(_is_made_again(call, old, tree) for call in calls_in(one)))
    compared = any(_is_made_again(call, old, tree) for call in calls_in(used)) and bool(read & targets_of(kept, tree))
    return compared or any(targets_of(one, tree) & read for one in again)


def gathered_beside_input(
    made: cst.BaseExpression | None, kept: Statement, loop: Statement, tree: Tree
) -> cst.BaseExpression | None:
    """``net(x)`` of ``olds.append(net(x))``, beside ``inputs.append(x)``, in an earlier loop or a function called then.

    *loop* computes ``net(torch.stack(inputs))`` for itself.  None where that is not so.
    """
    statement = tree.statement_of(made) if made is not None else None
    if not isinstance(made, cst.Call) or statement is None or not made.args:
        return None
    value, _ = _appended(statement, tree)
    given = {tree.code(argument.value) for argument in made.args}
    appended = (_appended(one, tree) for one in tree.block_of(statement))
    lists = {store for one, store in appended if one is not None and tree.code(one) in given}
    if value is None or made not in {value, *tree.inside(value)} or not lists:
        return None
    if tree.function_of(statement) is not tree.function_of(loop):
        lists |= targets_of(kept, tree)
    again = any(
        tree.code(call.func) == tree.code(made.func)
        and len(call.args) == len(made.args)
        and all(tree.paths_in(argument.value) & lists for argument in call.args)
        for call in calls_in(loop)
    )
    return value if again else None


def stored_beside_input(
    made: cst.BaseExpression | None, used: cst.BaseExpression | None, loop: Statement, tree: Tree
) -> cst.BaseExpression | None:
    """``net(x)`` of ``data.append((x, net(x)))``, in a loop before, where *loop* compares it with a new ``net(x)``.

    Each item has its input, from which the loop computes for itself what it compares the old one with, where that is
    *used*: so that the old one is to stay as it was.  None where that is not so.
    """
    statement = tree.statement_of(made) if made is not None else None
    home = next(iter(tree.loops_around(used)), None)
    if not isinstance(made, cst.Call) or statement is None or home is None or not made.args:
        return None
    items = [one.target for one in (loop, *tree.statements_in(loop)) if isinstance(one, cst.For)]
    paths = set[str]().union(*(tree.paths_in(target) for target in items))
    again = any(
        tree.code(call.func) == tree.code(made.func)
        and len(call.args) == len(made.args)
        and all(tree.paths_in(argument.value) & paths for argument in call.args)
        for call in calls_in(home)
    )
    return _stored_beside(made, statement, tree) if again else None


def _stored_beside(made: cst.Call, statement: Statement, tree: Tree) -> cst.BaseExpression | None:
    """The element of a display, which a list gets, that is the result of a call beside all that the call is given."""
    given = {tree.code(argument.value) for argument in made.args}
    names = {tree.code(made), *(name for name in targets_of(statement, tree) if tree.given(statement, name) is made)}
    for one in tree.block_of(statement):
        display, _ = _appended(one, tree)
        if isinstance(display, (cst.Tuple, cst.List, cst.Dict)):
            values = {tree.code(element.value): element.value for element in display.elements}
            found = next((value for code, value in values.items() if code in names), None)
            if found is not None and given <= values.keys():
                return found
    return None


def _appended(statement: Statement, tree: Tree) -> tuple[cst.BaseExpression | None, str]:
    """``x`` and ``xs`` of ``xs.append(x)``; None for other statements."""
    part = only_part(statement)
    call = part.value if isinstance(part, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or len(call.args) != 1:
        return None, ""
    appends = call.func.attr.value == "append"
    return (call.args[0].value, tree.code(call.func.value)) if appends else (None, "")


def compared_in_closure(
    kept: Statement, made: cst.BaseExpression | None, used: cst.BaseExpression | None, tree: Tree
) -> bool:
    """As :func:`compared_with_new`, where a closure that stands beside the value compares it with the new one."""
    closure = tree.function_of(used) if used is not None else None
    if not isinstance(closure, cst.FunctionDef) or closure.params.params or tree.function_of(kept) is closure:
        return False
    return compared_with_new(kept, made, used, closure, tree)


def refreshing(kept: Statement, made: Statement | None, loop: Statement, tree: Tree) -> list[Statement]:
    """The places at which a value is computed that each run of a *loop* begins with, if one is behind that loop.

    ``proto = net(x)``, and again behind the inner loop; or the calls of the method that sets ``self.proto``.
    """
    function, inside = tree.function_of(loop), set(tree.statements_in(loop))
    targets = targets_of(kept, tree) if tree.function_of(kept) is function else set()
    code = tree.own_code(made) if made is not None and tree.function_of(made) is function else ""
    places: list[Statement] = [
        one
        for one in tree.statements_in(function)
        if one not in inside and isinstance(one, cst.SimpleStatementLine)
        if (targets & targets_of(one, tree) and _calls(one)) or (code and tree.own_code(one) == code)
    ]
    around = set(tree.loops_around(loop))
    behind = [one for one in places if around & set(tree.loops_around(one)) and tree.line_of(one) > tree.line_of(loop)]
    return places if behind else []


def _is_made_again(call: cst.Call, old: list[cst.Call], tree: Tree) -> bool:
    """Whether a call is one of the *old* ones, be it with something done to the inputs: ``net(x + noise)``."""
    return any(
        tree.code(call.func) == tree.code(one.func)
        and len(call.args) == len(one.args)
        and all(_has_all_of(new.value, was.value, tree) for new, was in zip(call.args, one.args, strict=True))
        for one in old
    )


def _has_all_of(new: cst.BaseExpression, was: cst.BaseExpression, tree: Tree) -> bool:
    """Whether an argument is another one, or is computed of all that the other one is computed of."""
    if tree.code(new) == tree.code(was):
        return True
    return bool(tree.paths_in(was)) and tree.paths_in(was) <= tree.paths_in(new)


def _is_of_network(call: cst.Call, tree: Tree) -> bool:
    """Whether a call may be that of a network, with something for its input."""
    return not tree.is_of_torch(call.func) and any(tree.paths_in(argument) for argument in call.args)


def built_on(run: list[Statement], loop: Statement, tree: Tree) -> list[Statement]:
    """The functions between *run* and the loop that are bound to what it computes: ``step = partial(unroll, A=A)``."""
    block = tree.block_of(run[-1])
    around = {loop, *tree.enclosing(loop)}
    names = set[str]().union(*(targets_of(one, tree) for one in run))
    found: list[Statement] = []
    for statement in block[block.index(run[-1]) + 1 :]:
        if statement in around:
            return found
        part = only_part(statement)
        if tree.paths_in(statement) & names:
            value = part.value if isinstance(part, cst.Assign) and targets_of(statement, tree) else None
            binds = isinstance(value, cst.Call) and tree.called(value) == "partial"
            if not binds and not isinstance(value, cst.Lambda):
                return []
            names |= targets_of(statement, tree)
            found.append(statement)
    return []


def chain(
    run: list[Statement], loop: Statement, kept: Collection[Statement], tree: Tree
) -> tuple[list[Statement], bool]:
    """*run*, those of *kept* that it builds on or that build on it, and what is computed of all these before the loop.

    Empty where one of them does more than to compute and to name values.  Also whether nothing else before the loop
    reads what they compute.
    """
    block = tree.block_of(run[-1])
    before = _but_definitions(block[: _place_of(loop, block, tree) or 0])
    computing = {one for one in before if _only_computes(one, tree)}
    paths = {statement: tree.paths_in(statement) for statement in before}
    targets = {statement: targets_of(statement, tree) for statement in before}
    members = {one for one in run if one in paths}
    grown = bool(members)
    while grown:
        bound = set[str]().union(*(targets[one] for one in members))
        needed = set[str]().union(*(paths[one] for one in members))
        more = {
            statement
            for statement in before
            if statement not in members
            if (statement in kept and targets[statement] & needed)
            or (statement in computing and (paths[statement] - targets[statement]) & bound)
        }
        members |= more
        grown = bool(more)
    if not members or not members <= computing:
        return [], False
    alone = not any(paths[statement] & bound for statement in before if statement not in members)
    return [statement for statement in before if statement in members], alone


def _place_of(loop: Statement, block: list[Statement], tree: Tree) -> int | None:
    """Index of the statement of a block that is, or contains, a loop; None where it stands elsewhere."""
    around = {loop, *tree.enclosing(loop)}
    return next((at for at, one in enumerate(block) if one in around), None)


def _but_definitions(statements: list[Statement]) -> list[Statement]:
    """*statements* without functions and classes, whose names are mostly their own."""
    return [one for one in statements if not isinstance(one, (cst.FunctionDef, cst.ClassDef))]


def _only_computes(statement: Statement, tree: Tree) -> bool:
    """Whether a statement names the values of arithmetic and of calls that make neither an object nor an iterator."""
    part = only_part(statement)
    if not isinstance(part, cst.Assign) or not targets_of(statement, tree):
        return False
    values = [one.value for one in part.value.elements] if isinstance(part.value, cst.Tuple) else [part.value]
    computed = (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Subscript, cst.Attribute)
    return all(isinstance(value, computed) and not _makes(value, tree) for value in values)


def _makes(value: cst.BaseExpression, tree: Tree) -> bool:
    """Whether a value is an object of a class, or an iterator: another one would begin again."""
    if not isinstance(value, cst.Call):
        return False
    called = tree.function_called(value)
    yields = called is not None and bool(nodes_in(called, cst.Yield))
    return yields or tree.called(value)[:1].isupper() or tree.called(value) in _ITERATORS


_ITERATORS = frozenset(("iter", "zip", "enumerate", "map", "filter", "reversed", "range", "cycle", "chain"))


def feeds_itself(run: list[Statement], tree: Tree) -> bool:
    """Whether the statements read what they themselves replace: run twice, they would compute something else."""
    if any(takes_an_item(statement, tree) for statement in run):
        return True
    bound: set[str] = set()
    for statement in run:
        bound |= targets_of(statement, tree)
    assigned: set[str] = set()
    for statement in run:
        part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        value = part.value if isinstance(part, (cst.Assign, cst.AnnAssign)) else statement
        if isinstance(part, cst.AugAssign) or (value is not None and tree.paths_in(value) & (bound - assigned)):
            return True
        assigned |= targets_of(statement, tree)
    return False


_TAKING = frozenset(("next", "pop", "popleft", "popitem"))


def takes_an_item(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether *node* takes an item out of an iterator or a container: run twice, it takes another one."""
    return any(tree.called(call) in _TAKING for call in calls_in(node))


def goes_on(run: list[Statement], loop: Statement, tree: Tree) -> bool:
    """Whether what the statements compute becomes something else before the loop: ``a = a / a.std()``."""
    block = tree.block_of(run[-1])
    between = block[block.index(run[-1]) + 1 :] if run[-1] in block else []
    between = between[: _place_of(loop, between, tree) or 0]
    bound = set[str]().union(*(targets_of(one, tree) for one in run))
    later = [part for statement in between for part in (statement, *tree.statements_in(statement))]
    return any(targets_of(one, tree) & bound or _adds_to(one, bound, tree) for one in later)


def is_carried_on(run: list[Statement], loop: Statement, tree: Tree) -> bool:
    """Whether the loop replaces what the statements compute: computed anew, it would not go from round to round."""
    bound = set[str]().union(*(targets_of(one, tree) for one in run))
    inside = (one for one in tree.statements_in(loop) if one not in run)
    return any(targets_of(one, tree) & bound or _adds_to(one, bound, tree) for one in inside)


def is_needed_before(run: list[Statement], loop: Statement, tree: Tree) -> bool:
    """Whether something else before the loop reads what the statements compute: it would find nothing."""
    block = tree.block_of(run[0])
    behind = block[block.index(run[0]) :] if run[0] in block else []
    behind = behind[: _place_of(loop, behind, tree)]
    names = set[str]().union(*(targets_of(one, tree) for one in run))
    return any(one not in run and tree.paths_in(one) & names for one in _but_definitions(behind))


def _adds_to(statement: Statement, names: set[str], tree: Tree) -> bool:
    part = only_part(statement)
    return isinstance(part, cst.AugAssign) and tree.code(part.target) in names


def is_guardable(run: list[Statement]) -> bool:
    """Whether the statements only compute and name values."""
    return all(
        isinstance(statement, cst.SimpleStatementLine)
        and all(isinstance(part, (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr)) for part in statement.body)
        for statement in run
    )


def without_data(run: list[Statement], tree: Tree) -> list[Statement]:
    """*run* without the data, or the parameters, that its first statements only make."""
    for at, statement in enumerate(run[:-1]):
        part = only_part(statement)
        call = part.value if isinstance(part, cst.Assign) else None
        made = tree.called(call) if isinstance(call, cst.Call) else ""
        if made != "Parameter" and made not in catalogue.makers():
            return run[at:]
    return run[-1:]


def _read_outside(targets: set[str], run: list[Statement], tree: Tree) -> bool:
    """Whether one of *targets* is mentioned in the function but outside of *run*."""
    home = tree.function_of(run[0])
    counted = sum(tree.count_paths(part, targets) for part in run)
    return tree.count_paths(home, targets) > counted


def _calls(statement: Statement) -> bool:
    """Whether a statement's value is a call on something: not a constant, not the making of a module."""
    assert isinstance(statement, cst.SimpleStatementLine)
    part = statement.body[0]
    value = part.value if isinstance(part, cst.Assign) else None
    return isinstance(value, (cst.Call, cst.BinaryOperation, cst.Subscript))
