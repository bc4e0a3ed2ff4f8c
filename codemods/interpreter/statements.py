"""The execution of each kind of statement."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    cuts,
    definitions,
    devices,
    effects,
    elements,
    errors,
    expressions,
    holding,
    importing,
    lived,
    loops,
    managers,
    mapping_keys,
    matching,
    module_lists,
    optional_imports,
    overwriting,
    rebuilt_states,
    unpacking,
)
from autofix.codemods.interpreter.generators import Closed
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    GradMode,
    Instance,
    Mapping,
    Name,
    Scope,
    Sequence,
    Symbol,
    TensorRef,
    Value,
)
from autofix.codemods.source.flags import flag_given, is_false
from autofix.codemods.source.nodes import statements_by_level
from autofix.codemods.source.sources import Parsed, Site, last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.widening import Home


def assign(interp: Interpreter, target: ast.expr, value: Value, expression: ast.expr | None) -> None:
    """Store *value* in *target*; *expression* is what was written for it, where one expression was."""
    if type(value) in (int, float):
        interp.widening.begins(_home(interp, target))
    match target:
        case ast.Name():
            scope = interp.scope.declared.get(target.id, interp.scope)
            former = scope.names.get(target.id)
            if former is not None and former.value is not value:
                holding.given_up(interp, former.value, value, builds=isinstance(expression, _BUILDING))
                cuts.put_in_place(former.value, value)
            scope.names[target.id] = interp.slot(value, target.id, expression)
        case ast.Tuple() | ast.List():
            _assign_several(interp, target, value, expression)
        case ast.Attribute():
            receiver = interp.eval(target.value)
            attributes.set_attribute(interp, receiver, target.attr, value, target, expression)
        case ast.Subscript():
            receiver = interp.eval(target.value)
            index = interp.eval(target.slice)
            elements.set_item(interp, receiver, index, value, target, expression)
        case ast.Starred():
            assign(interp, target.value, value, expression)


def _assign_several(
    interp: Interpreter, target: ast.Tuple | ast.List, value: Value, expression: ast.expr | None
) -> None:
    parts = target.elts
    written: list[ast.expr | None] = [None] * len(parts)
    if isinstance(expression, (ast.Tuple, ast.List)) and len(expression.elts) == len(parts):
        written = list(expression.elts)
    star = next((at for at, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
    values = unpacking.unpacked(interp, value, len(parts), expression or target)
    if star is not None:
        after = len(parts) - star - 1
        middle = values[star : len(values) - after]
        values = [*values[:star], Sequence("list", [Binding(item) for item in middle]), *values[len(values) - after :]]
    while len(values) < len(parts):
        values.append(interp.fresh_symbol("item"))
    for part, item, source in zip(parts, values, written, strict=False):
        assign(interp, part, item, source)


_ADDING = frozenset(
    """add sub mul lerp addcmul addcdiv maximum minimum fmax fmin cat concat concatenate vstack hstack
    column_stack""".split()
)

_JOINING = _ADDING | {"stack", "max", "min", "where", "logaddexp", "sum"}
"""As the operations that put tensors together are recorded."""

_BUILDING = (ast.BinOp, ast.List, ast.Tuple)
"""Expressions that may make a list of an old one and new items: ``[*losses, loss]``."""


def _adds(node: ast.expr) -> bool:
    """Whether an expression may put together an old value and something new: a sum, ``torch.lerp(old, new, 0.1)``.

    A part of it may be taken, or a method be called on it: ``torch.cat([queue, keys])[-size:]``.
    """
    match node:
        case ast.Call(ast.Attribute(inner, name)):
            return name in _ADDING or _adds(inner)
        case ast.Subscript(inner):
            return _adds(inner)
    return isinstance(node, (ast.BinOp, ast.IfExp))


def _joins(value: TensorRef) -> bool:
    """Whether a tensor puts others together, or is computed of one that does: an own function may give a sum."""
    node = value.cell.node
    for _ in range(holding.DEPTH):
        if node is None or len(node.operands) != 1:
            break
        node = node.operands[0].node
    return node is not None and node.operation in _JOINING


def _may_gather(value: Value) -> bool:
    """Whether a new value may hold the old one of its name and more: a sum, or a list that is put together."""
    if isinstance(value, TensorRef):
        return value.cell.node is not None
    return rebuilt_states.is_state(value)


def _comprehension(written: ast.expr) -> ast.expr | None:
    """The comprehension that makes a container, also of ``tuple(f(x) for x in xs)``."""
    match written:
        case ast.ListComp() | ast.DictComp() | ast.SetComp():
            return written
        case ast.Call(ast.Name("list" | "tuple" | "dict"), [inner], []):
            return inner if isinstance(inner, ast.GeneratorExp) else _comprehension(inner)
    return None


def _pairs(target: ast.expr, value: Value, written: ast.expr) -> list[tuple[ast.expr, Value, ast.expr]]:
    """The targets of an assignment with their values, one by one where both sides are written out: ``a, b = x, y``."""
    match target, written, value:
        case ast.Tuple(parts), ast.Tuple(texts), Sequence(items=items) if len(parts) == len(texts) == len(items):
            return [(part, slot.value, text) for part, slot, text in zip(parts, items, texts, strict=True)]
    return [(target, value, written)]


def _given(interp: Interpreter, target: ast.expr, value: Value, written: ast.expr) -> list[tuple[ast.expr, Binding]]:
    """The targets of an assignment in a loop to which a call gives a value each: ``state, out = step(state, x)``."""
    match target, written, value:
        case ast.Tuple(parts), ast.Call(), Sequence(items=items) if interp.loops and len(parts) == len(items):
            return list(zip(parts, items, strict=True))
    return []


def _assignment(interp: Interpreter, node: ast.Assign) -> str:
    return _assigned(interp, node.targets, node.value, node)


def _assigned(interp: Interpreter, targets: list[ast.expr], written: ast.expr, node: ast.stmt) -> str:
    value = interp.eval(written)
    for target in targets:
        counter = _raises(written, target)
        home = _home(interp, target) if counter else None
        since = interp.widening.begun(home)
        value = interp.widening.widened(value, node, since) if counter else value
        olds = [
            (part, item, text, _old_value(interp, part))
            for part, item, text in _pairs(target, value, written)
            if interp.loops and _may_gather(item)
        ]
        given = [(part, slot, _old_value(interp, part)) for part, slot in _given(interp, target, value, written)]
        assign(interp, target, value, written)
        for part, slot, before in given:
            holding.state_rebuilt(interp, Binding(before), slot, node, interp.source.text_of(part))
        for part, item, text, before in olds:
            if before is None:
                continue
            name = interp.source.text_of(part)
            if rebuilt_states.extends(item, before):
                holding.rebuilt(interp, before, item, node, name)
            if isinstance(item, TensorRef) or _comprehension(text) is not None:
                adds = not isinstance(item, TensorRef) or _adds(text)
                joins = isinstance(item, TensorRef) and _joins(item)
                holding.summed(interp, before, item, node, name, adds=adds, joins=joins)
            else:
                holding.state_rebuilt(interp, Binding(before), Binding(item), node, name)
        if counter and isinstance(value, (int, float)):
            interp.widening.counts(home, since, node)
    return "raise" if interp.exceptions.exited else ""


def _old_value(interp: Interpreter, target: ast.expr) -> Value:
    """The value of a name, an attribute or an item before it is assigned to; None for others."""
    if isinstance(target, ast.Name):
        slot = interp.scope.lookup(target.id)
        return interp.read(slot) if slot is not None else None
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        receiver = interp.eval(target.value)
        known = not isinstance(receiver, Instance) or target.attr in receiver.names
        return interp.eval(_as_load(target)) if known else None
    if isinstance(target, ast.Subscript) and isinstance(target.value, (ast.Name, ast.Attribute)):
        if isinstance(target.slice, (ast.Name, ast.Constant)):
            container = interp.eval(target.value)
            if isinstance(container, Mapping):
                slot = container.items.get(mapping_keys.mapping_key(interp, interp.eval(target.slice)))
                return interp.read(slot, container) if slot is not None else None
            if isinstance(container, Sequence):
                at = interp.eval(target.slice)
                if isinstance(at, int) and -len(container.items) <= at < len(container.items):
                    return interp.read(container.items[at], container)
    return None


def _raises(written: ast.expr, target: ast.expr) -> bool:
    """Whether an assignment counts: ``i = i + 1``, ``self.size = min(self.size + 1, self.most)``."""
    if isinstance(target, ast.Name):
        return _mentions(written, target.id)
    most = isinstance(written, ast.Call) and isinstance(written.func, ast.Name) and written.func.id == "min"
    return isinstance(target, ast.Attribute) and most and lived.is_raised(written, ast.unparse(target))


def _mentions(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.BinOp) and any(
        isinstance(part, ast.Name) and part.id == name for part in (node.left, node.right)
    )


def _annotated(interp: Interpreter, node: ast.AnnAssign) -> str:
    return _assigned(interp, [node.target], node.value, node) if node.value is not None else ""


def _augmented(interp: Interpreter, node: ast.AugAssign) -> str:
    target = _as_load(node.target)
    current = interp.eval(target)
    value = interp.eval(node.value)
    if isinstance(current, TensorRef):
        overwriting.change_in_place(interp, current, type(node.op), value, node)
        owner = interp.eval(target.value) if isinstance(target, ast.Subscript) else None
        if not isinstance(owner, TensorRef):
            assign(interp, node.target, TensorRef(current.cell), None)
        elif current.cell.base is None:  # what is picked by an index of tensors is a copy, which is written back
            overwriting.write_into(interp, owner, [current], node, added=value)
        if interp.operands(value):
            holding.summed(interp, current, current, node, interp.source.text_of(node.target))
            if isinstance(node.target, ast.Name):  # which a loop may give to what a list holds: `for s in sums: s += x`
                kept = interp.scope.declared.get(node.target.id, interp.scope).names[node.target.id].kept
                overwriting.note_written(current.cell, kept)
        return ""
    if isinstance(current, Sequence) and isinstance(node.op, ast.Add) and current.kind in ("list", "deque"):
        items = unpacking.unpacked(interp, value, None, node.value)
        for at, item in enumerate(items):
            written = node.value.elts[at] if _same_length(node.value, items) else node.value  # type: ignore[attr-defined]
            elements.append(interp, current, item, interp.source.text_of(node.target), written)
        return ""
    if isinstance(current, Instance):
        own = class_lookup.find(current, _IN_PLACE.get(type(node.op), ""))
        if own is not None:
            result = interp.call(class_lookup.bind(own, current), [value], {}, node.value)
            assign(interp, node.target, result, None)
            return ""
    if isinstance(current, Symbol) and isinstance(value, Mapping) and isinstance(node.op, ast.BitOr):
        elements.put_all_into_opaque(interp, current, value, interp.source.text_of(node.target), node.value)
        return ""
    modules = module_lists.holder(current)
    if modules is not None and isinstance(node.op, ast.Add):
        added = unpacking.copy_of(interp, value, "list", node.value)
        module_lists.extend(interp, modules, [slot.value for slot in added.items], node.value)
        return ""
    fake = ast.BinOp(target, node.op, node.value)
    ast.copy_location(fake, node)
    home = _home(interp, node.target)
    since = interp.widening.begun(home)
    result = interp.widening.widened(expressions.binary(interp, type(node.op), current, value, fake), node, since)
    if isinstance(current, Symbol) and isinstance(result, Symbol) and current.key in interp.loop_items.handed_out:
        interp.loop_items.handed_out[result.key] = interp.loop_items.handed_out[
            current.key
        ]  # `i -= 1` is another for each
    assign(interp, node.target, result, None)
    if isinstance(result, (int, float)):
        interp.widening.counts(home, since, node)
    elif rebuilt_states.extends(result, current):
        holding.rebuilt(interp, current, result, node, interp.source.text_of(node.target))
    return ""


_IN_PLACE: dict[type[ast.operator], str] = {
    ast.Add: "__iadd__",
    ast.Sub: "__isub__",
    ast.Mult: "__imul__",
    ast.Div: "__itruediv__",
    ast.LShift: "__ilshift__",
    ast.BitOr: "__ior__",
}


def _home(interp: Interpreter, target: ast.expr) -> Home | None:
    """The names among which a name, or an attribute of an object of the program's, stands, and what it is there."""
    if isinstance(target, ast.Name):
        return interp.scope.declared.get(target.id, interp.scope).names, target.id
    if isinstance(target, ast.Attribute) and isinstance(target.value, (ast.Name, ast.Attribute)):
        receiver = interp.eval(target.value)
        if isinstance(receiver, Instance):
            return receiver.names, target.attr
    return None


def _same_length(node: ast.expr, items: list[Value]) -> bool:
    return isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == len(items)


def _as_load(node: ast.expr) -> Any:
    match node:
        case ast.Name():
            found: ast.expr = ast.Name(node.id, ast.Load())
        case ast.Attribute():
            found = ast.Attribute(node.value, node.attr, ast.Load())
        case ast.Subscript():
            found = ast.Subscript(node.value, node.slice, ast.Load())
        case _:
            return node
    return ast.copy_location(found, node)


def _expression(interp: Interpreter, node: ast.Expr) -> str:
    consultations = interp.policy.consultations
    interp.eval(node.value)
    if interp.policy.may_idle_since(consultations) and effects.only_tells(interp, node):
        interp.policy.idle_since(consultations)
    return "raise" if interp.exceptions.exited else ""


def _return(interp: Interpreter, node: ast.Return) -> str:
    interp.frames[-1].result = interp.eval(node.value) if node.value is not None else None
    return "return"


def _if(interp: Interpreter, node: ast.If) -> str:
    behind = interp.source.once(_behind_leaving).get(node, [])
    leaves = interp.source.remembered(node, _is_early_exit) and not _fails_otherwise(node, behind)
    optional = not node.orelse and not leaves
    spans = len(interp.unrolling.spans)
    consultations, asked = interp.policy.consultations, len(interp.policy.asked)
    if leaves:
        interp.unrolling.doubted.update(interp.source.remembered(node, _alternatives))
    test = interp.eval(node.test)
    if interp.source.remembered(node, _only_tells):
        del interp.unrolling.spans[spans:]  # whether the log is written every k-th time is of no concern
    question = len(interp.policy.asked)
    likely = not leaves and not interp.source.remembered(node, _only_freezes)
    holds = node in interp.unrolling.ending or interp.truth(test, likely=likely, optional=optional)
    interp.unrolling.turns += (
        interp.unrolling.ways.get(node, holds) != holds
    )  # `if step > 2` is known at first, and asked about later
    if question == len(interp.policy.asked):
        interp.unrolling.ways[node] = holds
    asks = interp.policy.may_idle_since(consultations)
    quiet = effects.quiet(interp, node) if asks else None
    activity = interp.activity
    taken, other = (node.body, node.orelse) if holds else (node.orelse, node.body)
    otherwise = node.orelse or behind
    # The question may have been asked in what the condition calls: `if is_valid(loss.item()):`.
    interp.policy.goes(consultations, asked, *((node.body, otherwise) if holds else (otherwise, node.body)))
    goes_to_gpu = asks and devices.sets_gpu(taken, other)
    open_question = isinstance(test, (Symbol, TensorRef)) and bool(interp.loops)
    with interp.perhaps_retaining(open_question and interp.source.remembered(node, _retains) and bool(other)):
        if quiet is not None and quiet.fresh is not None:
            taken = quiet.fresh  # weights and counters keep what is known of them
        skipped = quiet is not None and quiet.leaves_nothing  # nobody would see the difference
        signal = "" if skipped else interp.run(taken)
    if quiet is not None or goes_to_gpu:
        interp.policy.idle_since(consultations)
        interp.log.executed.update(effects.statements_in(interp, node))
    if quiet is not None:
        interp.log.executed.update(quiet.statements)
        interp.log.called.update(quiet.functions)
    decides = signal or interp.activity != activity or not holds or node.orelse
    if not decides and question < len(interp.policy.asked):
        interp.policy.settle(question)
    return signal


def _retains(node: ast.If) -> bool:
    """Whether one of two branches keeps the graph that the other frees: all passes but the last."""
    return any(
        isinstance(part, ast.keyword) and part.arg == "retain_graph"
        for statement in (*node.body, *node.orelse)
        for part in ast.walk(statement)
    )


_TELLING = frozenset(
    """print debug info warning log write flush set_postfix set_description set_postfix_str add_scalar add_scalars save
    load_state_dict eval train""".split()
)


def _only_tells(node: ast.If) -> bool:
    """Whether a branch only reports, saves, or copies weights: nothing that the tape remembers."""
    return not node.orelse and all(
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Call)
        and (part.value.func.attr if isinstance(part.value.func, ast.Attribute) else getattr(part.value.func, "id", ""))
        in _TELLING
        for part in node.body
    )


def _only_freezes(node: ast.If) -> bool:
    """Whether a branch does nothing but freeze parameters: more is trained, and more may fail, where it is not taken.

    To take it for every parameter of whose name nothing is known would leave nothing to train at all.
    """
    freezing = list(_freezing(node.body))
    return bool(freezing) and all(freezing) and not node.orelse


def _freezing(body: Iterable[ast.stmt]) -> Iterator[bool]:
    """For each statement that has an effect, whether it freezes a parameter."""
    for statement in body:
        match statement:
            case ast.If(body=inner, orelse=[]) | ast.For(body=inner, orelse=[]):
                yield from _freezing(inner)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"))) | ast.Break() | ast.Continue():
                pass
            case _:
                yield is_false(flag_given(statement))


_ENDS = frozenset(("exit", "quit", "sys.exit", "os._exit", "os.abort"))


def _ends_the_program(statement: ast.stmt) -> bool:
    """Whether a statement is ``exit(1)``: what a script says that was not given what it asks for."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in _ENDS


def _is_early_exit(node: ast.If) -> bool:
    """Whether the one branch of an ``if``, an unlikely one, does nothing but leave, or fails whatever else it does."""
    body, last = node.body, node.body[-1]
    if isinstance(last, ast.Raise):
        return not node.orelse or not isinstance(node.orelse[-1], ast.Raise)
    if node.orelse:
        return False
    if isinstance(last, ast.With) and len(body) == 1:  # `with torch.no_grad(): return net(batch)`
        return isinstance(last.body[-1], ast.Return) and len(last.body) == 1
    return _leaves(last) and all(isinstance(part, (ast.Expr, ast.Pass)) or part is last for part in body)


def _behind_leaving(parsed: Parsed) -> dict[ast.AST, list[ast.stmt]]:
    """For each ``if`` without ``else`` whose branch leaves in the end: the statements behind it, its other side.

    ``if args.test: score = evaluate(net); exit()`` stands for ``if args.test: ... else: train()``.
    """
    found: dict[ast.AST, list[ast.stmt]] = {}
    behind: dict[ast.AST, list[ast.stmt]] = {}
    for parent in (parsed.tree, *statements_by_level(parsed.tree)):
        goes_on = behind.get(parent, []) if isinstance(parent, ast.If) else []
        blocks = [getattr(parent, name, ()) for name in ("body", "orelse", "finalbody")]
        for block in (one for one in blocks if isinstance(one, list)):
            for at, one in enumerate(block):
                if isinstance(one, ast.If):
                    behind[one] = block[at + 1 :] or goes_on
                    if not one.orelse and _leaves(one.body[-1]):
                        found[one] = behind[one]
    return found


def _fails_otherwise(node: ast.If, behind: list[ast.stmt]) -> bool:
    """Whether what is *behind* a branch that leaves fails: ``elif kind == "tanh": return tanh(x)``, and ``raise``."""
    return bool(behind) and _fails(behind[0]) and not _fails(node.body[-1])


def _fails(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Raise) or _ends_the_program(statement)


def _leaves(statement: ast.stmt) -> bool:
    """Whether nothing behind a statement in its block is executed."""
    return isinstance(statement, (ast.Continue, ast.Break, ast.Return)) or _fails(statement)


def _alternatives(node: ast.If) -> tuple[ast.expr, ...]:
    """The parts of a condition each of which is enough for it to hold: ``a or b``, ``any([a, b])``, ``all([a, b])``.

    Where it is unlikely that the condition holds, so is each of what they ask for.
    """
    pending: list[ast.expr] = [node.test]
    found: list[ast.expr] = []
    while pending:
        match part := pending.pop():
            case ast.BoolOp(ast.Or(), values):
                found.append(part)
                pending += values
            case ast.BoolOp(ast.And(), values):
                pending.append(values[-1])
            case ast.Call(func=ast.Name("any" | "all")):
                found.append(part)
    return tuple(found)


def _with(interp: Interpreter, node: ast.With | ast.AsyncWith) -> str:
    if any(_expects_an_error(item.context_expr) for item in node.items):
        return ""  # a test of the very mistake
    before = interp.grad, interp.guard
    entered: bool | None = None
    inside: list[tuple[Value, ast.expr]] = []
    for item in node.items:
        earlier = interp.grad, interp.guard
        value = interp.eval(item.context_expr)
        if isinstance(value, GradMode):
            interp.grad, interp.guard = earlier  # `set_grad_enabled` acts when it is called
            entered = value.enabled if value.enabled is not None else entered
        inside.append((value, item.context_expr))
        given = managers.enter(interp, value, item.context_expr)
        if item.optional_vars is not None:
            assign(interp, item.optional_vars, given, None)
    suppressed = errors.kinds_of(kind for item in node.items for kind in _suppressed(interp, item.context_expr))
    try:
        with errors.awaiting(interp, suppressed), interp.grad_mode(entered, interp.site(node)):
            signal = interp.run(node.body)
    except Closed:
        _leave(interp, inside, before)
        raise
    except errors.Raised as raised:
        ended = _leave(interp, inside, before, raised.error)
        if not ended and not errors.handles(suppressed, raised.error):
            raise
        return ""
    error = interp.exceptions.error if signal == "raise" else None
    ended = _leave(interp, inside, before, error)
    return "" if error is not None and (ended or errors.handles(suppressed, error)) else signal


def _suppressed(interp: Interpreter, manager: ast.expr) -> list[Value]:
    """The types of errors that ``suppress`` is given."""
    if not isinstance(manager, ast.Call) or last_name(manager.func) != "suppress":
        return []
    return [interp.eval(argument) for argument in manager.args if not isinstance(argument, ast.Starred)]


_RAISES = frozenset(("raises", "assertRaises", "assertRaisesRegex"))


def _expects_an_error(manager: ast.expr) -> bool:
    """Whether a test says by this manager that the block fails: ``with pytest.raises(RuntimeError):``."""
    return isinstance(manager, ast.Call) and last_name(manager.func) in _RAISES


def _leave(
    interp: Interpreter, inside: list[tuple[Value, ast.expr]], before: tuple[bool, Site | None], error: Value = None
) -> bool:
    """Leave the managers of a ``with``, the last first; *before* is the grad mode around it.

    Returns whether one of them ended the *error* by which the block was left.
    """
    ended = False
    for value, expression in reversed(inside):
        ended = managers.leave(interp, value, expression, None if ended else error) or ended
        if class_lookup.exits_of(value) is not None:
            interp.grad, interp.guard = before
    return ended


def _raise(interp: Interpreter, node: ast.Raise) -> str:
    if node.exc is not None:
        made = interp.eval(node.exc)
        if isinstance(node.exc, ast.Call) and not isinstance(made, Instance):
            made = interp.eval(node.exc.func)  # a type of Python's own: what it was given does not matter
        interp.exceptions.error = made if isinstance(made, (Name, Class, Instance)) else None
    return "raise"


def _try(interp: Interpreter, node: ast.Try | ast.TryStar) -> str:
    try:
        signal = _handled(interp, node)
    except (Closed, errors.Raised):
        interp.run(node.finalbody)
        raise
    return interp.run(node.finalbody) or signal


def _handled(interp: Interpreter, node: ast.Try | ast.TryStar) -> str:
    """The body of a ``try``, and what follows it but for ``finally``."""
    wanted = [errors.wanted_by(interp, handler) for handler in node.handlers]
    try:
        with errors.awaiting(interp, tuple(kind for kinds in wanted for kind in kinds)):
            signal = interp.run(node.body)
    except errors.Raised as raised:
        if not any(errors.handles(kinds, raised.error) for kinds in wanted):
            raise
        interp.exceptions.error, signal = raised.error, "raise"
    if not signal:
        signal = interp.run(node.orelse)
        optional_imports.leave(interp, node)
        return signal
    if signal != "raise" or not node.handlers:
        return signal
    known = [at for at, kinds in enumerate(wanted) if errors.handles(kinds, interp.exceptions.error)]
    handler = node.handlers[known[0] if known else 0]
    if handler.name:
        error = (
            interp.exceptions.error if isinstance(interp.exceptions.error, Instance) else interp.fresh_symbol("error")
        )
        interp.scope.names[handler.name] = Binding(error)
    return interp.run(handler.body)


def _declare(interp: Interpreter, node: ast.Global | ast.Nonlocal) -> str:
    for name in node.names:
        home = interp.scope.globals or interp.scope
        scope: Scope | None = home
        if isinstance(node, ast.Nonlocal):
            scope = interp.scope.parent
            while scope is not None and name not in scope.names:
                scope = scope.parent
        interp.scope.declared[name] = scope or home
    return ""


def _delete(interp: Interpreter, node: ast.Delete) -> str:
    interp.activity += 1
    for target in node.targets:
        if isinstance(target, ast.Name):
            interp.scope.declared.get(target.id, interp.scope).names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            container = class_lookup.opened(interp.eval(target.value))
            index = interp.eval(target.slice)
            holding.emptied(interp, container)
            kind_of(container).delete_item(interp, container, index)
        elif isinstance(target, ast.Attribute):
            receiver = interp.eval(target.value)
            known = class_lookup.find(receiver, target.attr) if isinstance(receiver, Instance) else None
            if isinstance(known, Function) and known.deleter is not None:
                interp.call(Bound(known.deleter, receiver), [], {}, target)
            elif isinstance(receiver, Instance):
                receiver.names.pop(target.attr, None)
    return ""


def _match(interp: Interpreter, node: ast.Match) -> str:
    subject = interp.eval(node.subject)
    for case in node.cases:
        bound: dict[str, Value] = {}
        answer = matching.matches(interp, subject, case.pattern, bound)
        if answer is None and (case is not node.cases[-1] or case.guard is not None):
            answer = interp.truth(interp.symbol(("case", interp.key(subject), id(case))))
        if answer is False:
            continue
        for name, value in bound.items():
            assign(interp, ast.Name(name, ast.Store()), value, None)
        if case.guard is None or interp.truth(interp.eval(case.guard)):
            return interp.run(case.body)
    return ""


def _assert(interp: Interpreter, node: ast.Assert) -> str:
    if interp.eval(node.test) is False:
        errors.happen(interp, "AssertionError")
    return ""


def _nothing(signal: str) -> Callable[[Interpreter, Any], str]:
    return lambda interp, node: signal


EXECUTE: dict[type[ast.stmt], Callable[[Interpreter, Any], str]] = {
    ast.Assign: _assignment,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.If: _if,
    ast.For: loops.run_for,
    ast.AsyncFor: loops.run_for,
    ast.While: loops.run_while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.FunctionDef: definitions.define,
    ast.AsyncFunctionDef: definitions.define,
    ast.ClassDef: definitions.define_class,
    ast.Import: importing.import_module,
    ast.ImportFrom: importing.import_from,
    ast.Global: _declare,
    ast.Nonlocal: _declare,
    ast.Delete: _delete,
    ast.Match: _match,
    ast.Assert: _assert,
    ast.Pass: _nothing(""),
    ast.Break: _nothing("break"),
    ast.Continue: _nothing("continue"),
    ast.Raise: _raise,
}

if hasattr(ast, "TypeAlias"):
    EXECUTE[ast.TypeAlias] = _nothing("")
