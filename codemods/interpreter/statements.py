"""How each kind of statement is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codemods.facts import CACHES
from codemods.interpreter import (
    attributes,
    class_lookup,
    effects,
    elements,
    errors,
    expressions,
    holding,
    lived,
    loops,
    managers,
    mapping_keys,
    matching,
    overwriting,
    unpacking,
)
from codemods.interpreter.generators import Closed
from codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Function,
    GradMode,
    Instance,
    Mapping,
    Method,
    Module,
    Name,
    Partial,
    Scope,
    Sequence,
    Symbol,
    TensorRef,
    Value,
)
from codemods.source.sources import Site, last_name

if TYPE_CHECKING:
    from codemods.interpreter.protocol import Interpreter
    from codemods.interpreter.state.widening import Home


def assign(interp: Interpreter, target: ast.expr, value: Value, expression: ast.expr | None) -> None:
    """Store *value* in *target*; *expression* is what was written for it, where one expression was."""
    if type(value) in (int, float):
        interp.widening.begins(_home(interp, target))
    match target:
        case ast.Name():
            scope = interp.scope.declared.get(target.id, interp.scope)
            former = scope.names.get(target.id)
            if former is not None and former.value is not value:
                holding.given_up(interp, former.value, value if isinstance(expression, _BUILDING) else None)
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

_BUILDING = (ast.BinOp, ast.List, ast.Tuple)
"""How a list is made that may be an old one with something new: ``[*losses, loss]``."""


def _adds(node: ast.expr) -> bool:
    """Whether an expression may put together an old value and something new: a sum, ``torch.lerp(old, new, 0.1)``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING
    return isinstance(node, (ast.BinOp, ast.IfExp))


def _assignment(interp: Interpreter, node: ast.Assign) -> str:
    return _assigned(interp, node.targets, node.value, node)


def _assigned(interp: Interpreter, targets: list[ast.expr], written: ast.expr, node: ast.stmt) -> str:
    value = interp.eval(written)
    for target in targets:
        counter = _raises(written, target)
        home = _home(interp, target) if counter else None
        since = interp.widening.begun(home)
        value = interp.widening.widened(value, node, since) if counter else value
        adds = isinstance(value, TensorRef) and _adds(written)
        builds = isinstance(value, Sequence) and isinstance(written, _BUILDING)
        before = _old_value(interp, target) if adds or builds else None
        assign(interp, target, value, written)
        if before is not None:
            note = holding.summed if adds else holding.rebuilt
            note(interp, before, value, node, interp.source.text_of(target))
        if counter and isinstance(value, (int, float)):
            interp.widening.counts(home, since, node)
    return ""


def _old_value(interp: Interpreter, target: ast.expr) -> Value:
    """What a name, an attribute or an item held before it is assigned to; None for others."""
    if isinstance(target, ast.Name):
        slot = expressions.lookup(interp, target.id)
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
            overwriting.write_into(interp, owner, [current], node)
        if interp.operands(value):
            holding.summed(interp, current, current, node, interp.source.text_of(node.target))
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
    interp.eval(node.value)
    return "raise" if interp.exceptions.exited else ""


def _return(interp: Interpreter, node: ast.Return) -> str:
    interp.frames[-1].result = interp.eval(node.value) if node.value is not None else None
    return "return"


def _if(interp: Interpreter, node: ast.If) -> str:
    leaves = not node.orelse and _only_leaves(node.body)
    optional = not node.orelse and not leaves
    spans = len(interp.unrolling.spans)
    consultations = interp.policy.consultations
    test = interp.eval(node.test)
    if interp.source.remembered(node, _only_tells):
        del interp.unrolling.spans[spans:]  # whether the log is written every k-th time is of no concern
    question = len(interp.policy.asked)
    holds = node in interp.unrolling.ending or interp.truth(test, likely=not leaves, optional=optional)
    interp.unrolling.turns += (
        interp.unrolling.ways.get(node, holds) != holds
    )  # `if step > 2` is known at first, and asked about later
    if question == len(interp.policy.asked):
        interp.unrolling.ways[node] = holds
    quiet = interp.policy.consultations > consultations and effects.is_quiet(interp, node)
    activity = interp.activity
    other = node.orelse if holds else node.body
    open_question = isinstance(test, (Symbol, TensorRef)) and bool(interp.loops)
    with interp.perhaps_retaining(open_question and interp.source.remembered(node, _retains) and bool(other)):
        signal = interp.run(node.body if holds else node.orelse)
    if quiet:
        interp.policy.idle_since(consultations)
        interp.log.executed.update(effects.statements_in(interp, node))
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


def _only_leaves(body: list[ast.stmt]) -> bool:
    """Whether a block does nothing but leave: the unlikely branch of an early exit."""
    last = body[-1]
    if isinstance(last, ast.With) and len(body) == 1:  # `with torch.no_grad(): return net(batch)`
        return isinstance(last.body[-1], ast.Return) and len(last.body) == 1
    exits = isinstance(last, (ast.Continue, ast.Break, ast.Return, ast.Raise))
    return exits and all(isinstance(part, (ast.Expr, ast.Pass)) or part is last for part in body)


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
        return interp.run(node.orelse)
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


def _function(interp: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    defaults = [interp.eval(default) for default in node.args.defaults]
    named = {
        argument.arg: interp.eval(default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    function = Function(node, interp.source, interp.scope, defaults, named, node.name)
    function.generator = interp.source.remembered(node, _yields)
    value: Value = function
    for decorator in reversed(node.decorator_list):
        if _caches(interp, function, decorator):
            continue
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter", "getter"):
            known = interp.eval(decorator.value)
            if isinstance(known, Function) and known.flavour == "property":
                known.setter = function if decorator.attr == "setter" else known.setter
                known.deleter = function if decorator.attr == "deleter" else known.deleter
                value = known
                continue
        before = interp.grad, interp.guard
        value = _decorated(interp, value, interp.eval(decorator), decorator)
        interp.grad, interp.guard = before
    interp.scope.names[node.name] = Binding(value)
    return ""


def _caches(interp: Interpreter, function: Function, decorator: ast.expr) -> bool:
    """Whether a decorator keeps what the function returns; then the function knows it: ``@cached_property``."""
    name = interp.eval(decorator.func) if isinstance(decorator, ast.Call) else interp.eval(decorator)
    return isinstance(name, Name) and _keeps(interp, function, name, decorator)


def _keeps(interp: Interpreter, function: Function, name: Name, decorator: ast.expr) -> bool:
    last = name.path.rpartition(".")[2]
    if last not in CACHES:
        return False
    if last == "cached_property":
        function.flavour = "property"
    else:
        function.cache = {}
    function.cached_by = interp.site(decorator)
    return True


_CACHING = re.compile(r"(?i)cache|memo|once")


def _decorated(interp: Interpreter, value: Value, decorator: Value, node: ast.expr) -> Value:
    if isinstance(decorator, Name) and isinstance(value, Function) and _keeps(interp, value, decorator, node):
        return value
    if isinstance(decorator, (Symbol, Method, Name)) and _CACHING.search(last_name(getattr(node, "func", node))):
        return interp.fresh_symbol("decorated")  # something not read may keep what the function returned first
    if isinstance(value, Function):
        if isinstance(decorator, GradMode):
            value.grad_mode = decorator.enabled
            return value
        if isinstance(decorator, Name):
            last = decorator.path.rpartition(".")[2]
            if last in ("singledispatch", "singledispatchmethod"):
                return interp.fresh_symbol("dispatched")  # which body runs is for the arguments to say
            if last in ("no_grad", "inference_mode"):
                value.grad_mode = False
            elif last == "enable_grad":
                value.grad_mode = True
            elif last in ("staticmethod", "classmethod", "property"):
                value.flavour = last
            return value
    called = isinstance(decorator, Instance) and class_lookup.find(decorator, "__call__") is not None
    if called or isinstance(decorator, (Function, Bound, Class)):
        made = interp.call(decorator, [value], {}, node)
        return made if isinstance(made, (Function, Bound, Class, Instance, Partial)) else value
    return value


def _yields(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function itself, not one inside it, yields."""
    stack: list[ast.AST] = list(node.body)
    while stack:
        part = stack.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(part))
    return False


def _class(interp: Interpreter, node: ast.ClassDef) -> str:
    cls = Class(node.name, [interp.eval(base) for base in node.bases], {}, node, interp.source, interp.scope)
    outer = interp.scope
    interp.scope = Scope(cls.names, parent=outer, globals=outer.globals)
    try:
        interp.run(node.body)
    finally:
        interp.scope = outer
    for name, slot in list(cls.names.items()):
        if isinstance(slot.value, Instance):
            named = class_lookup.find(slot.value, "__set_name__")
            if named is not None:
                interp.call(
                    class_lookup.bind(named, slot.value),
                    [cls, name],
                    {},
                    node.bases[0] if node.bases else _anchor(node),
                )
        if isinstance(slot.value, Function):
            slot.value.owner = cls
            slot.value.scope = outer if slot.value.scope.names is cls.names else slot.value.scope
    _made_by_metaclass(interp, cls, node)
    attributes.enumerate_members(interp, cls, _anchor(node))
    value: Value = cls
    for decorator in reversed(node.decorator_list):
        value = _decorated(interp, value, interp.eval(decorator), decorator)
    outer.names[node.name] = Binding(value)
    for base in cls.bases:
        told = class_lookup.find(Instance(base), "__init_subclass__") if isinstance(base, Class) else None
        if isinstance(told, Function):
            keywords = {one.arg: interp.eval(one.value) for one in node.keywords if one.arg not in (None, "metaclass")}
            interp.call(Bound(told, cls), [], keywords, _anchor(node))
            break
    return ""


def _made_by_metaclass(interp: Interpreter, cls: Class, node: ast.ClassDef) -> None:
    """The ``__new__`` of a metaclass of the program may put other methods in the place of those that are written."""
    given = [interp.eval(keyword.value) for keyword in node.keywords if keyword.arg == "metaclass"]
    inherited = [base.metaclass for base in cls.bases if isinstance(base, Class)]
    cls.metaclass = next((one for one in (*given, *inherited) if isinstance(one, Class)), None)
    if cls.metaclass is None:
        return
    members: dict[Any, Binding] = dict(cls.names)
    namespace, bases = Mapping(members), Sequence("tuple", [Binding(base) for base in cls.bases])
    made, begun = (class_lookup.find(Instance(cls.metaclass), name) for name in ("__new__", "__init__"))
    if isinstance(made, Function):
        interp.making.append(cls)
        interp.call(made, [cls.metaclass, node.name, bases, namespace], {}, _anchor(node))
        if interp.making.pop() is cls:  # `type` was asked for the class in a way that is not read
            cls.names.update({str(name): slot for name, slot in namespace.items.items()})
    if isinstance(begun, Function):
        interp.call(begun, [cls, node.name, bases, namespace], {}, _anchor(node))


def _anchor(node: ast.ClassDef) -> ast.expr:
    return ast.copy_location(ast.Name(node.name, ast.Load()), node)


def _import(interp: Interpreter, node: ast.Import) -> str:
    for alias in node.names:
        if alias.asname:
            interp.scope.names[alias.asname] = Binding(_imported(interp, alias.name, 0) or Name(alias.name))
            continue
        top, _, below = alias.name.partition(".")
        module = _imported(interp, top, 0) or _package_of(interp, alias.name)
        interp.scope.names[top] = Binding(module or Name(top))
        name = top
        for part in below.split(".") if module is not None and below else ():
            name = f"{name}.{part}"
            inner = _imported(interp, name, 0) or _package_of(interp, alias.name, name)
            if module is None or inner is None:
                break
            module.scope.names[part] = Binding(inner)
            module = inner
    return ""


def _imported(interp: Interpreter, name: str, level: int) -> Module | None:
    """The program's own module that an import names."""
    source = interp.sources.module(name, level, interp.source)
    return interp.module(source) if source is not None else None


def _package_of(interp: Interpreter, whole: str, name: str = "") -> Module | None:
    """A package without an ``__init__.py`` of the program, on the way to the module *whole* of it."""
    if _imported(interp, whole, 0) is None:
        return None
    key = f"package {name or whole.partition('.')[0]}"
    if key not in interp.modules:
        interp.modules[key] = Module(interp.source, Scope({}))
    return interp.modules[key]


def _import_from(interp: Interpreter, node: ast.ImportFrom) -> str:
    name = node.module or ""
    module = _imported(interp, name, node.level)
    for alias in node.names:
        if alias.name == "*":
            if module is None:
                interp.star_imports = True
            else:
                interp.scope.names.update(_public(module.scope.names))
            continue
        known = module.scope.names.get(alias.name) if module is not None else None
        if known is not None:
            slot = Binding(known.value, known.kept)
        else:
            inner = _imported(interp, f"{name}.{alias.name}" if name else alias.name, node.level)
            slot = Binding(inner or Name(f"{'.' * node.level}{name}.{alias.name}"))
        interp.scope.names[alias.asname or alias.name] = slot
    return ""


def _public(names: dict[str, Binding]) -> dict[str, Binding]:
    """What ``from module import *`` takes: the names in ``__all__``, or those without an underscore before them."""
    listed = names["__all__"].value if "__all__" in names else None
    if isinstance(listed, Sequence) and not listed.more and all(isinstance(one.value, str) for one in listed.items):
        return {one.value: names[one.value] for one in listed.items if one.value in names}
    return {name: slot for name, slot in names.items() if not name.startswith("_")}


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
            container = interp.eval(target.value)
            index = interp.eval(target.slice)
            holding.emptied(interp, container)
            if isinstance(container, Sequence):
                if isinstance(index, slice) and index == slice(None, None, None):
                    container.items.clear()
                    container.more = False
                elif index in (0, slice(None, 1, None)) and container.loses_an_unknown_one():
                    continue
                elif isinstance(index, (int, slice)):
                    try:
                        del container.items[index]
                    except IndexError:
                        container.more = True
            elif isinstance(container, Mapping):
                container.items.pop(mapping_keys.mapping_key(interp, index), None)
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
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
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
