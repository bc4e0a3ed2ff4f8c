"""Reads the source around the places that a run names: statements, functions, loops, and expressions that pass on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autofix.codemods.facts.base import Span
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Source, Sources

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
Loop = ast.For | ast.AsyncFor | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
LOOPS = (ast.For, ast.AsyncFor, ast.While)

SAME_TENSOR = frozenset({"to", "cpu", "cuda", "float", "double", "contiguous", "type_as", "requires_grad_"})
"""Methods that may give back the tensor itself."""
COLLECTS = frozenset({"tuple", "list", "dict", "set", "deque", "reversed", "zip", "enumerate", "replace", "sorted"})
"""Functions whose result holds their arguments."""


class Text:
    """One file of the program, its tree with the way up from every node."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parents: dict[ast.AST, ast.AST] = {}
        self._statements: list[tuple[Span, ast.stmt]] = []
        for node in ast.walk(source.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.stmt):
                self._statements.append((source.span(node), node))

    @property
    def statements(self) -> Iterator[ast.stmt]:
        return (node for _, node in self._statements)

    def span(self, node: ast.AST) -> Span:
        assert isinstance(node, (ast.stmt, ast.expr))
        return self.source.span(node)

    def code(self, node: ast.expr | ast.stmt) -> str:
        return self.source.text_of(node)

    def statement(self, span: Span) -> ast.stmt | None:
        """The innermost statement around *span*."""
        around = [one for one in self._statements if one[0].contains(span)]
        return (
            max(around, key=lambda one: (one[0].start, (-one[0].end_line, -one[0].end_column)))[1] if around else None
        )

    def expression(self, span: Span) -> ast.expr | None:
        """The expression with exactly this span."""
        statement = self.statement(span)
        if statement is None:
            return None
        found = (node for node in ast.walk(statement) if isinstance(node, ast.expr) and self.span(node) == span)
        return next(found, None)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around *node*, the innermost first."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def function_of(self, node: ast.AST) -> Function:
        """The function in whose own code *node* stands, or the module."""
        return next(one for one in (*self.around(node), self.source.tree) if isinstance(one, FUNCTIONS))

    def loops_of(self, node: ast.AST) -> list[Loop]:
        """The loops of the same function in whose bodies *node* stands, the innermost first."""
        found: list[Loop] = []
        inner = node
        for outer in self.around(node):
            if isinstance(outer, FUNCTIONS):
                break
            if isinstance(outer, LOOPS) and (inner in outer.body or inner is getattr(outer, "test", None)):
                found.append(outer)
            inner = outer
        return found

    def qualified(self, function: Function) -> str:
        if isinstance(function, ast.Module):
            return "<module>"
        parts = [getattr(function, "name", "<lambda>")]
        for outer in self.around(function):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                parts += ["<locals>", getattr(outer, "name", "<lambda>")]
            elif isinstance(outer, ast.ClassDef):
                parts.append(outer.name)
        return ".".join(reversed(parts))


class Texts:
    """The files of a program."""

    def __init__(self, program: Program) -> None:
        self.all = [Text(source) for source in Sources(program).all]
        self._by_path = {text.source.path: text for text in self.all}

    def of(self, span: Span) -> Text:
        return self._by_path[span.path]

    def at(self, path: str) -> Text | None:
        return self._by_path.get(path)


def passed_on(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose value is the value of *node*, or is held in it: a name, the elements of a tuple."""
    pending: list[ast.AST] = [node]
    while pending:
        one = pending.pop(0)
        if not isinstance(one, ast.expr):
            continue
        yield one
        match one:
            case ast.Tuple() | ast.List() | ast.Set():
                pending += one.elts
            case ast.Dict():
                pending += one.values
            case ast.Starred() | ast.NamedExpr() | ast.Await() | ast.Subscript() | ast.Attribute():
                pending.append(one.value)
            case ast.IfExp():
                pending += [one.body, one.orelse]
            case ast.BoolOp():
                pending += one.values
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                pending += [one.elt, *(part.iter for part in one.generators)]
            case ast.DictComp():
                pending += [one.value, *(part.iter for part in one.generators)]
            case ast.Call() if holds_arguments(one):
                pending += [*one.args, *(keyword.value for keyword in one.keywords)]
            case ast.Call(func=ast.Attribute(attr=name, value=receiver)) if name in SAME_TENSOR:
                pending.append(receiver)


def holds_arguments(call: ast.Call) -> bool:
    """Whether a call makes an object of its arguments: a container, or a class of the user's."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in COLLECTS or (name[:1].isupper() and bool(call.args or call.keywords))


def names_in(node: ast.AST) -> set[str]:
    """Names, dotted names, and the last names of attributes (with a dot before them) that are read in *node*."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
        elif isinstance(one, ast.Attribute):
            found |= {"." + one.attr}
    return found


def root_of(target: ast.expr) -> str:
    """The name under which *target* is known: ``temp`` for ``temp[0]``, ``.hidden`` for ``self.hidden[k]``."""
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    if isinstance(target, ast.Attribute):
        return "." + target.attr
    return target.id if isinstance(target, ast.Name) else ""
