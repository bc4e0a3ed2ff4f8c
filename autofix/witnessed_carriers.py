"""Finds the statements that carried a value on, from where a run made it to where the run used it again.

The run says where the value was made and used, and who held it; which statement put it there is for the source to say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autofix.evidence import Holder
from autofix.witnessed_source import (
    FUNCTIONS,
    Function,
    Text,
    Texts,
    names_in,
    passed_on,
    root_of,
)
from codemods.facts import Carrier, Form, Span

DEPTH = 3
"""Calls that a value is followed into."""
ROUNDS = 4
"""Times that a function is read: a value may go through several names, in any order."""

IN_HOLDER, READ, READ_INDIRECTLY, WHOLE = 8, 4, 2, 1
"""What speaks for a statement: a variable holds the value still, the use reads it, it is handed on whole."""


@dataclass(frozen=True)
class Frame:
    """A place in the program that a run came through."""

    span: Span
    function: str


@dataclass(frozen=True)
class Store:
    """A statement that puts a value under a name, into an attribute or into a container."""

    text: Text
    statement: ast.stmt
    name: str
    root: str
    value: ast.expr
    whole: bool
    """Whether the name stands for the whole value: not one of several that a tuple is taken apart into."""
    appends: bool = False

    @property
    def span(self) -> Span:
        return self.text.span(self.statement)


@dataclass
class Carry:
    """A store that may have carried the value, and what speaks for it."""

    store: Store
    weight: int
    expression: ast.expr | None
    made_here: bool = False
    """Whether the value of the expression is what the guilty call gave back."""


@dataclass
class Carriage:
    """The ways of one value through the source."""

    texts: Texts
    holders: Sequence[Holder]
    forms: Forms
    found: dict[tuple[int, str], Carry] = field(default_factory=dict)
    _followed: set[tuple[int, frozenset[str]]] = field(default_factory=set)

    def follow(self, made: Sequence[Frame], used: Sequence[Frame]) -> list[Carry]:
        """The statements that may have carried the value, in their order: from the innermost place to the outermost."""
        whole = True
        for depth, frame in enumerate(reversed(made)):
            text = self.texts.of(frame.span)
            statement = text.statement(frame.span)
            if statement is None:
                continue
            function = text.function_of(statement)
            roots = set()
            for store in stores_in(text, statement):
                part = _part(store, frame.span, text)
                if part is not None:
                    handed_on = whole and any(text.span(one) == frame.span for one in passed_on(part))
                    self._add(store, WHOLE if handed_on else 0, depth == 0 and text.span(part) == frame.span)
                    roots.add(store.root)
            self._follow(text, function, roots, DEPTH)
            whole = whole and _gives_back(text, statement, function, frame.span, roots)
        self._stores_to_holders()
        self._weigh(used)
        return list(self.found.values())

    def _add(self, store: Store, weight: int, made_here: bool = False) -> None:
        expression = store.value if store.whole else None
        carry = Carry(store, weight, expression, made_here)
        self.found.setdefault((id(store.statement), store.name), carry)

    def _follow(self, text: Text, function: Function, roots: set[str], depth: int) -> None:
        """What becomes of the values called *roots* in *function*, and in the functions that it hands them to."""
        key = (id(function), frozenset(roots))
        if not roots or depth < 0 or key in self._followed:
            return
        self._followed.add(key)
        for _ in range(ROUNDS):
            known = len(roots)
            for statement in text.own_statements(function):
                for store in stores_in(text, statement):
                    if any(root_of(one) in roots for one in passed_on(store.value)):
                        self._add(store, WHOLE)
                        roots.add(store.root)
            if len(roots) == known:
                break
        for statement in text.own_statements(function):
            for call in calls_in(statement):
                self._follow_into(call, roots, depth)

    def _follow_into(self, call: ast.Call, roots: set[str], depth: int) -> None:
        given: list[tuple[int | str, ast.expr]] = [*enumerate(call.args)]
        given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
        handed = [which for which, value in given if any(root_of(one) in roots for one in passed_on(value))]
        if not handed:
            return
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for text, function in (*self.texts.functions(name), *self._constructors(name)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
                if parameters[:1] in (["self"], ["cls"]):
                    parameters = parameters[1:]
                inner = {which if isinstance(which, str) else _at(parameters, which) for which in handed} - {""}
                self._follow(text, function, inner, depth - 1)

    def _constructors(self, name: str) -> Iterator[tuple[Text, Function]]:
        for text, function in self.texts.functions("__init__"):
            if getattr(text.parents[function], "name", "") == name:
                yield text, function

    def _stores_to_holders(self) -> None:
        """The statements that put something into what holds the value now."""
        for holder in self.holders:
            root = holder_root(holder)
            home = self.texts.at(holder.path)
            for text in self.texts.all if root.startswith(".") else [home] if home else []:
                for statement in text.parents:
                    if isinstance(statement, ast.stmt):
                        for store in stores_in(text, statement):
                            if store.root == root and _may_be_tensor(store.value) and _sees(text, store, holder):
                                self._add(store, 0)

    def _weigh(self, used: Sequence[Frame]) -> None:
        held = {holder_root(holder) for holder in self.holders}
        direct, indirect = reads(self.texts, used)
        for carry in self.found.values():
            root = carry.store.root
            carry.weight += IN_HOLDER * (root in held)
            carry.weight += READ if root in direct else READ_INDIRECTLY if root in indirect else 0

    def carriers(self, carries: Iterable[Carry]) -> tuple[Carrier, ...]:
        """The same as a fact tells them."""
        found = []
        for carry in carries:
            store = carry.store
            expressions: list[ast.expr | None] = [carry.expression]
            if isinstance(carry.expression, (ast.List, ast.Tuple)) and len(carry.expression.elts) == 1:
                expressions.append(carry.expression.elts[0])  # history += [h]
            for expression in expressions:
                span = store.text.span(expression) if expression is not None else None
                form = self.forms.of(carry, expression)
                found.append(Carrier(store.span, span, store.name, form))
        return tuple(found)


@dataclass(frozen=True)
class Forms:
    """What the variables are that hold tensors, as the run saw them when it failed: by file, function and name."""

    known: dict[tuple[str, str, str], Form]
    held: dict[str, Form]
    """Of the values in containers, by the containers' names."""

    def of(self, carry: Carry, expression: ast.expr | None) -> Form:
        store = carry.store
        if store.appends:
            form = self.held.get(store.root)
            if isinstance(expression, (ast.Name, ast.Attribute)):
                form = form or self._named(store, store.text.code(expression))
            return form or (Form.TUPLE if isinstance(expression, ast.Tuple) else Form.TENSOR)
        if isinstance(expression, (ast.Tuple, ast.List, ast.Dict)):
            display = Form(type(expression).__name__.lower())
            return self._named(store, store.name) or display
        if carry.made_here:
            return self._named(store, store.name) or Form.TENSOR
        if isinstance(store.statement, (ast.Assign, ast.AnnAssign)) and "[" in store.name:
            return self.held.get(store.root) or Form.TENSOR
        return self._named(store, store.name) or Form.TENSOR

    def _named(self, store: Store, name: str) -> Form | None:
        function = store.text.qualified(store.text.function_of(store.statement))
        form = self.known.get((store.text.source.path, function, name))
        if form is None and "." in name:
            last = "." + name.rpartition(".")[2]
            forms = {form for (_, _, known), form in self.known.items() if known.endswith(last)}
            form = forms.pop() if len(forms) == 1 else None
        return form


def holder_root(holder: Holder) -> str:
    return "." + holder.name.rpartition(".")[2] if "." in holder.name else holder.name


def stores_in(text: Text, statement: ast.stmt) -> list[Store]:
    """What a statement puts where, the names of ``:=`` within it included; not what its body does."""
    found: list[Store] = []

    def put(target: ast.expr, value: ast.expr, whole: bool = True) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for number, one in enumerate(target.elts):
                put(one, value.elts[number] if same and isinstance(value, (ast.Tuple, ast.List)) else value, same)
        elif root_of(target):
            found.append(Store(text, statement, text.code(target), root_of(target), value, whole))

    match statement:
        case ast.Assign():
            for target in statement.targets:
                put(target, statement.value)
        case ast.AnnAssign() if statement.value is not None:
            put(statement.target, statement.value)
        case ast.AugAssign():
            put(statement.target, statement.value, isinstance(statement.value, (ast.List, ast.Tuple)))
        case ast.For() | ast.AsyncFor():
            put(statement.target, statement.iter, False)
        case ast.With() | ast.AsyncWith():
            for item in statement.items:
                if item.optional_vars is not None:
                    put(item.optional_vars, item.context_expr, False)
        case ast.Expr(value=ast.Call() as call):
            found += _stored_by_call(text, statement, call)
    for part in expressions_of(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.NamedExpr):
                put(node.target, node.value)
    return found


def _stored_by_call(text: Text, statement: ast.stmt, call: ast.Call) -> Iterator[Store]:
    """``temp.append(h)``, ``cache.setdefault(k, h)``, ``setattr(net, "state", h)``."""
    match call:
        case ast.Call(func=ast.Name("setattr"), args=[owner, ast.Constant(value=str(name)), value]):
            yield Store(text, statement, f"{text.code(owner)}.{name}", f".{name}", value, True)
        case ast.Call(func=ast.Attribute(value=receiver)) if root_of(receiver):
            for value in (*call.args, *(keyword.value for keyword in call.keywords)):
                yield Store(text, statement, text.code(receiver), root_of(receiver), value, True, True)


def expressions_of(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, not those of the statements in it."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr


def calls_in(statement: ast.stmt) -> Iterator[ast.Call]:
    for part in expressions_of(statement):
        yield from (node for node in ast.walk(part) if isinstance(node, ast.Call))


def reads(texts: Texts, used: Sequence[Frame]) -> tuple[set[str], set[str]]:
    """What the use reads, in each function on its way: directly, and through other names."""
    direct: set[str] = set()
    indirect: set[str] = set()
    for frame in used:
        text = texts.of(frame.span)
        statement = text.statement(frame.span)
        if statement is None:
            continue
        node: ast.AST = text.expression(frame.span) or statement
        names = names_in(node)
        more = set(names)
        for _ in range(ROUNDS):
            before = len(more)
            for one in text.own_statements(text.function_of(statement)):
                for store in stores_in(text, one):
                    if store.root in more and not store.appends:
                        passed = {root_of(part) for part in passed_on(store.value)}
                        more |= names_in(store.value) if isinstance(one, ast.For) else passed - {""}
            if len(more) == before:
                break
        direct |= names
        indirect |= more
    return direct, indirect


def _part(store: Store, span: Span, text: Text) -> ast.expr | None:
    """The value of *store*, if the call at *span* stands in it; or its whole statement is that call."""
    if text.span(store.value).contains(span):
        return store.value
    if isinstance(store.statement, ast.AugAssign) and span.contains(text.span(store.value)):
        return store.value
    return None


def _gives_back(text: Text, statement: ast.stmt, function: Function, span: Span, roots: set[str]) -> bool:
    """Whether the function hands its caller the value of the call at *span*, or what *roots* name."""
    if isinstance(function, ast.Lambda):
        return True
    for one in text.own_statements(function):
        values = [one.value] if isinstance(one, ast.Return) else [e.value for e in _yields(one)]
        for value in values:
            if value is None:
                continue
            for part in passed_on(value):
                if root_of(part) in roots or (one is statement and text.span(part) == span):
                    return True
    return False


def _yields(statement: ast.stmt) -> Iterator[ast.Yield]:
    for part in expressions_of(statement):
        yield from (node for node in ast.walk(part) if isinstance(node, ast.Yield))


def _at(parameters: list[str], index: int) -> str:
    return parameters[index] if index < len(parameters) else ""


def _may_be_tensor(value: ast.expr) -> bool:
    """Whether an expression may hold a tensor: not an empty list, a number or a string."""
    return any(isinstance(node, (ast.Name, ast.Call, ast.Attribute)) for node in ast.walk(value))


def _sees(text: Text, store: Store, holder: Holder) -> bool:
    """Whether the plain name in *store* is the variable that the holder is: of its function, or of one within it."""
    if store.root.startswith("."):
        return True
    function = text.function_of(store.statement)
    while True:
        if text.qualified(function) == holder.function:
            return True
        own = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
        if isinstance(function, ast.Module) or store.root in own:
            return False
        function = next((one for one in text.around(function) if isinstance(one, FUNCTIONS)), text.source.tree)
