"""Parts of the sources that a patch by hand changes, for the runs to say whether they executed them.

The statements of both texts are compared one by one, in order, each with its depth and without its body: comments and
layout are no change.  A changed statement must be executed, and so must each of its expressions that may be skipped.
A changed loop must be seen to its end, unless its iterable is unchanged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from autofix.child.job import Watched
from autofix.execution.runner import Script
from autofix.project import files

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
TRANSPARENT = frozenset(("enumerate", "iter", "list", "tqdm", "trange", "tuple"))
"""Functions that go over their argument in its order."""
TELL = frozenset("print info debug warning log write set_description set_postfix add_scalar".split())
"""Functions that tell a user something, and change nothing of a training."""
NUMBERS = frozenset("item round len float int str format join mean sum max min abs".split())
"""Functions that may be called in the arguments of these."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


TYPES = frozenset(("isinstance", "is_tensor", "issubclass"))
"""Functions that ask for the type of a value."""


class Statement(NamedTuple):
    """A statement, or a part of one with a body of its own: its text without bodies, its place, and its node."""

    text: str
    depth: int
    block: str
    node: ast.AST
    contexts: tuple[Statement, ...] = ()
    """The ``with`` statements around it in its function."""
    rest: tuple[ast.stmt, ...] = ()
    """The statements behind it in its block."""

    @property
    def key(self) -> tuple[str, int, str]:
        return self.text, self.depth, self.block


def watched(original: Script, patched: Script) -> tuple[Script, Script]:
    """Both scripts, to be watched in the parts that the patch takes out of the first and puts into the second."""
    pairs = {original.key: patched.key} | {
        name: name for name in (*original.texts, *patched.texts) if name not in (original.key, patched.key)
    }
    taken, put = [], []
    for name, other in pairs.items():
        after = _text(patched, other)
        if after is None:
            continue
        out, into = changes(_text(original, name) or "", after)  # a file may be new
        taken.append(replace(out, file=name))
        put.append(replace(into, file=other))
    return replace(original, watched=_some(taken)), replace(patched, watched=_some(put))


def _some(found: list[Watched]) -> tuple[Watched, ...]:
    return tuple(one for one in found if one.spans or one.loops or one.rewritten)


def _text(script: Script, name: str) -> str | None:
    """The source *name* of *script*, if it is one of Python's."""
    if not name.endswith(".py"):
        return None
    if name in script.texts:
        return script.texts[name]
    try:
        return files.read(script.folder / name).text
    except files.FileError:
        return None


def changes(before: str, after: str) -> tuple[Watched, Watched]:
    """Parts that are taken out of *before*, and parts that are put into *after*; none where either is no Python."""
    try:
        old, new = list(statements(ast.parse(before))), list(statements(ast.parse(after)))
    except (SyntaxError, ValueError, RecursionError):
        return Watched(""), Watched("")
    taken, put, left = list[Statement](), list[Statement](), list[Statement]()
    matcher = SequenceMatcher(None, [one.key for one in old], [one.key for one in new], autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind != "equal":
            taken += old[first:last]
            put += new[begin:end]
            left += _left(old[first:last], new[begin:end])
    gone = {_goes_over(one.node) for one in taken if isinstance(one.node, LOOPS)}
    loops = [node for one in put if isinstance(node := one.node, LOOPS) and _goes_over(node) not in gone]
    return (
        Watched(
            "",
            tuple(_spans(taken)),
            rewritten=tuple(_rewritten(taken, put, left)),
            by_type=_by_type(taken),
            turns=tuple(_turns(taken, put)),
        ),
        Watched(
            "",
            tuple(_spans(put)),
            tuple((one.lineno, one.end_lineno or one.lineno) for one in loops),
            by_type=_by_type(put),
            turns=tuple(_turns(put, taken)),
        ),
    )


def statements(tree: ast.AST, depth: int = 0, contexts: tuple[Statement, ...] = ()) -> Iterator[Statement]:
    """All statements below *tree*, which is *depth* blocks deep and within *contexts*, in order."""
    for name in BLOCKS:
        nodes = getattr(tree, name, None) or ()
        for number, node in enumerate(nodes, 1):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            yield (statement := Statement(_header(node), depth, name, node, contexts, tuple(nodes[number:])))
            within = contexts
            if isinstance(node, ast.With):
                within = (*contexts, statement)
            elif isinstance(node, SCOPES):
                within = ()
            yield from statements(node, depth + 1, within)


def _left(taken: list[Statement], put: list[Statement]) -> list[Statement]:
    """The contexts of *taken* that some statement is not in which is *put* in their place."""
    kept = [{one.text for one in statement.contexts} for statement in put]
    return [one for old in taken for one in old.contexts if not all(one.text in texts for texts in kept)]


def _rewritten(taken: list[Statement], put: list[Statement], left: list[Statement]) -> Iterator[tuple[int, int]]:
    """First and last line of all that a patch rewrites of *taken*; of a statement with a body, of its header."""
    moved = {one.text for one in put}
    for node in dict.fromkeys(one.node for one in (*(one for one in taken if one.text not in moved), *left)):
        own: list[ast.AST] = [node]
        if isinstance(node, SCOPES):
            own = [*node.decorator_list]
        elif any(hasattr(node, name) for name in BLOCKS):
            own = [getattr(one, "context_expr", one) for one in ast.iter_child_nodes(node)]
            own = [one for one in own if isinstance(one, ast.expr)]
        yield from ((one.lineno, one.end_lineno or one.lineno) for one in own if isinstance(one, (ast.stmt, ast.expr)))


def _header(node: ast.AST) -> str:
    """The text of *node* without its bodies."""
    parts = [
        f"{name}={ast.dump(one) if isinstance(one, ast.AST) else one!r}"
        for name, value in ast.iter_fields(node)
        if name not in BLOCKS
        for one in (value if isinstance(value, list) else [value])
    ]
    return f"{type(node).__name__}({', '.join(parts)})"


def _spans(found: list[Statement]) -> Iterator[tuple[int, int, int, int]]:
    """Spans of the parts of statements that must be executed."""
    for one in found:
        for node in () if _only_tells(one.node) else _parts(one.node):
            if isinstance(node, (ast.stmt, ast.expr)):
                yield (node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0)


def _only_tells(node: ast.AST) -> bool:
    """Whether a statement prints or logs some numbers: it is often the only one behind a loop that is changed, too."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    tells, *others = [_name(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
    return tells in TELL and NUMBERS.issuperset(others)


def _name(function: ast.expr) -> str:
    """The last part of the called name."""
    return ast.unparse(function).rpartition(".")[2]


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The statement itself, or the expressions before its body, with the first of each block that it may skip."""
    if isinstance(node, SCOPES):
        return  # their inner statements count
    own: list[ast.AST] = [node]
    if isinstance(node, (ast.If, ast.While)):
        own = [node.test, node.body[0], *node.orelse[:1]]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        own = [node.iter, node.body[0]]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        own = [item.context_expr for item in node.items]
    elif any(hasattr(node, name) for name in BLOCKS):
        own = [one for name in BLOCKS for one in (getattr(node, name, None) or ())[:1]]
    for one in own:
        yield one
        if one is node or isinstance(one, ast.expr):
            yield from _skipped(one)


def _skipped(tree: ast.AST) -> Iterator[ast.AST]:
    """The expressions in *tree* that need not be executed when it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, ast.BoolOp):
            yield from node.values[1:]
        elif isinstance(node, ast.DictComp):
            yield from (node.key, node.value)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            yield node.elt
        elif isinstance(node, ast.Lambda):
            yield node.body


def _turns(some: list[Statement], others: list[Statement]) -> Iterator[tuple[int, int, int, int, str]]:
    """The expressions in *some* statements, but not in *others*, that a number decides on, and their texts.

    The tests of two branches and of loops are none: their bodies are watched.
    """
    known = {ast.dump(node) for one in others for node in ast.walk(one.node) if isinstance(node, ast.expr)}
    for one in some:
        tree: ast.AST = one.node
        if isinstance(tree, ast.If) and not tree.orelse:
            tree = tree.test  # nothing shows that the branch is left out
        elif isinstance(tree, (ast.For, ast.AsyncFor)):
            tree = tree.iter
        elif isinstance(tree, (ast.Assert, *SCOPES)) or any(hasattr(tree, name) for name in BLOCKS):
            continue
        tests = {id(node) for choice in ast.walk(tree) for test in _tests(choice) for node in ast.walk(test)}
        for node in () if _only_tells(tree) else ast.walk(tree):
            text = _turn(node)
            if text and isinstance(node, ast.expr) and id(node) not in tests and ast.dump(node) not in known:
                yield node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0, text


def _tests(tree: ast.AST) -> list[ast.expr]:
    return [tree.test] if isinstance(tree, ast.IfExp) else []


def _turn(node: ast.AST) -> str:
    """The text of an expression that has another value once *node* turns; empty for any other node."""
    match node:
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq()]):
            return ast.unparse(node)
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod(), right=right):
            return f"({ast.unparse(left)}) // ({ast.unparse(right)})"
        case ast.Call(func=ast.Name(id="min" | "max"), args=[one, other], keywords=[]):
            return f"({ast.unparse(one)}) < ({ast.unparse(other)})"
    return ""


def _by_type(found: list[Statement]) -> tuple[tuple[int, int, int, int], ...]:
    """The branches in *found* that the type of a value alone decides on, and operands that need not be evaluated.

    Training does not change the types of its values: the other branch is for other programs.
    """
    branches: list[Sequence[ast.stmt | ast.expr]] = []
    for one in found:
        if isinstance(one.node, ast.If) and _asks_for_type(one.node.test):
            branches += [one.node.body, one.node.orelse]
            if isinstance(one.node.body[-1], (ast.Return, ast.Raise, ast.Continue)) and not one.node.orelse:
                branches.append(one.rest)
        for part in _parts(one.node):
            for node in ast.walk(part) if part is one.node or isinstance(part, ast.expr) else ():
                if isinstance(node, ast.IfExp) and _asks_for_type(node.test):
                    branches += [[node.body], [node.orelse]]
                elif isinstance(node, ast.BoolOp) and _asks_for_type(node):
                    branches += [[value] for value in node.values[1:]]
    return tuple(
        (some[0].lineno, some[-1].end_lineno or 0, some[0].col_offset, some[-1].end_col_offset or 0)
        for some in branches
        if some
    )


def _asks_for_type(test: ast.expr) -> bool:
    """Whether a condition asks for nothing but the types of values."""
    if isinstance(test, ast.BoolOp):
        return all(map(_asks_for_type, test.values))
    if isinstance(test, ast.UnaryOp):
        return _asks_for_type(test.operand)
    return isinstance(test, ast.Call) and _name(test.func) in TYPES


def _goes_over(node: ast.AST) -> str:
    """The iterable of a loop, without functions that hand it on in its order; the test of a ``while``."""
    if isinstance(node, ast.While):
        return ast.dump(node.test)
    over = getattr(node, "iter", node)
    while isinstance(over, ast.Call) and over.args and _name(over.func) in TRANSPARENT:
        over = over.args[0]
    return ast.dump(over)
