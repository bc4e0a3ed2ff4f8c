"""The statements that carried a value on, from where a run made it to where the run used it again.

The run tells the line after which a variable or container came to hold the value; the source tells the statement there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autofix.codemods.facts.base import Span
from autofix.codemods.facts.parts import Carrier, Form
from autofix.codemods.source.program import Program
from autofix.evidence.source import Text, Texts, passed_on, root_of
from autofix.evidence.witness import Evidence, Put


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


@dataclass(frozen=True)
class Carry:
    """A store that carried the value."""

    store: Store
    put: Put
    past: bool
    """Whether that was in an earlier iteration than the failing pass's."""
    carriers: tuple[Carrier, ...]

    @property
    def only_names(self) -> bool:
        """Whether the statement only gives a container that is kept elsewhere another name."""
        whole = self.carriers[0]
        is_part = isinstance(self.store.value, (ast.Subscript, ast.Attribute))
        return whole.form is not Form.TENSOR and is_part and not self.store.appends


def carries_of(told: Evidence, program: Program, texts: Texts, paths: Mapping[str, str]) -> list[Carry]:
    """The statements that carried the value, in the order in which the run came to them."""
    found: list[Carry] = []
    forms: dict[tuple[str, str], Form] = {}
    for put in told.carried:
        path = paths.get(put.site.span.path)
        text = texts.at(path) if path is not None else None
        if text is None or path is None:
            continue
        store = _store_of(put, text, program.start_of(path) + put.line)
        if store is None:
            continue
        at = text.span(store.statement)
        start = program.start_of(path)
        own = Span(put.site.span.path, at.line - start, at.column, at.end_line - start, at.end_column)
        past = told.is_past((*put.site.spans[:-1], own), put.passes)
        found.append(Carry(store, put, past, tuple(_carriers(store, put, forms))))
        forms[put.function, store.name] = Form(put.form)
    return found


def _store_of(put: Put, text: Text, line: int) -> Store | None:
    """Store on this line under the name that the run found for the value, an attribute before its owner; or None."""
    names = put.name.split(".")
    roots = ["." + name for name in reversed(names[1:])] + [names[0]]
    stores = [
        store
        for statement in text.statements
        if statement.lineno + text.source.start <= line <= (statement.end_lineno or 0) + text.source.start
        and text.qualified(text.function_of(statement)) == put.function
        for store in stores_in(text, statement)
    ]
    for root in roots:
        for store in reversed(stores):
            if store.root == root:
                return store
    return None


def _carriers(store: Store, put: Put, forms: Mapping[tuple[str, str], Form]) -> Iterator[Carrier]:
    """The statement as carriers of a fact: the whole value first, then the parts of it that hold tensors by name."""
    expression = store.value if store.whole else None
    into_container = store.appends or "[" in store.name
    form = _item_form(store, put) if into_container else Form(put.form)
    if isinstance(expression, ast.Name):
        form = forms.get((put.function, expression.id), form)
    known = {name for _, name in forms}
    parts: list[ast.expr] = []
    if not isinstance(store.value, (ast.Subscript, ast.Attribute)):
        parts = [part for part in passed_on(store.value) if store.text.code(part) in known and part is not store.value]
    if isinstance(store.value, (ast.List, ast.Tuple)) and len(store.value.elts) == 1:
        parts = [*store.value.elts]  # history += [h]
    if store.root != _root(put) and not into_container:
        form = Form.OTHER  # an object whose attribute holds the value
    span = store.text.span(expression) if expression is not None else None
    yield Carrier(store.span, span, store.name, form)
    for part in parts if expression is not None else ():
        its = forms.get((put.function, store.text.code(part)), Form.TENSOR)
        yield Carrier(store.span, store.text.span(part), store.name, its)


def _root(put: Put) -> str:
    return "." + put.name.rpartition(".")[2] if "." in put.name else put.name


def _item_form(store: Store, put: Put) -> Form:
    return Form.TENSOR if store.name.count("[") > 1 and put.item in ("dict", "list", "tuple") else Form(put.item)


def stores_in(text: Text, statement: ast.stmt) -> list[Store]:
    """Stores of a statement: its targets with their values, ``:=`` included, but not the stores in its body."""
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
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(value=mapping, attr="setdefault" | "get")))):
            for value in call.args:  # `maps.setdefault(name, []).append(h)`
                yield Store(text, statement, text.code(mapping), root_of(mapping), value, True, True)
        case ast.Call(func=ast.Attribute(value=receiver)) if root_of(receiver):
            for value in (*call.args, *(keyword.value for keyword in call.keywords)):
                yield Store(text, statement, text.code(receiver), root_of(receiver), value, True, True)


def expressions_of(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, not of the statements in it."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr
