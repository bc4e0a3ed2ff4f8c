"""What a patch computes anew, or elsewhere, must be what stood there on every path: not one of several branches."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.sources import parse

_Branches = tuple[tuple[str, str], ...]
_DETACHED = re.compile(r"\.detach\(\)")


class _Definition(NamedTuple):
    """One assignment to a name, an attribute or an item."""

    function: str
    """The qualified name of the function around it."""
    target: str
    value: str
    """Its source, without any ``.detach()``."""
    branches: _Branches
    """The conditions around it in its function, each with its side."""
    loops: tuple[str, ...]
    line: int

    @property
    def place(self) -> tuple[str, str, str, _Branches, tuple[str, ...]]:
        return self.function, self.target, self.value, self.branches, self.loops


def computes_one_of_several(patch: Patch) -> str:
    """The name that *patch* computes by what only one of several branches of the program gives it; empty for none."""
    program, patched = patch.program, patch.patched
    for mine, theirs in program.changed(patched):
        before, after = _definitions(mine.text), _definitions(theirs.text)
        known = Counter(one.place for one in before)
        start = patched.start_of(theirs.path)
        for new in after:
            if known[new.place]:
                known[new.place] -= 1
                continue
            line = _following(new.line, len(theirs.text.splitlines()), start, patch) - program.start_of(mine.path)
            if len({one.value for one in _reaching(new, line, before)}) > 1:
                return new.target
    return ""


def _following(line: int, last: int, start: int, lines: Patch) -> int:
    """The line of the original before which a line of the patched file stands."""
    moved = lines.original(start + line)
    while moved > 0 and line < last and lines.original(start + line) == moved:  # moved as it is
        line, moved = line + 1, moved + 1
    found = (lines.original(start + at) for at in range(line, last + 1))
    return next((one for one in found if one > 0), 1 << 30)


def _reaching(new: _Definition, line: int, before: tuple[_Definition, ...]) -> list[_Definition]:
    """The assignments by which the name may have its value where the *new* one stands; none where that is no copy."""
    sources = [one for one in before if one.target == new.target and one.value == new.value]
    own = [one for one in sources if one.function == new.function]
    if not own and "." in new.target:
        own = [one for one in sources if one.function.rpartition(".")[0] == new.function.rpartition(".")[0]]
    if not own:
        return []
    source = own[-1]
    elsewhere = source.function != new.function
    sides = {} if elsewhere else _still_decided(source, new, line, before)
    same = [
        one
        for one in before
        if one.function == source.function
        and one.target == new.target
        and not any(sides.get(test, side) != side for test, side in one.branches)
    ]
    at = same.index(source)
    found = [source]
    if not _holds_in(source, new, elsewhere):
        for earlier in reversed(same[:at]):
            found.append(earlier)
            if _holds_in(earlier, new, elsewhere):
                break
    for later in same[at + 1 :]:
        if _holds_in(later, new, elsewhere) or (not elsewhere and later.line >= line):
            break
        found.append(later)
    return found


def _still_decided(source: _Definition, new: _Definition, line: int, before: tuple[_Definition, ...]) -> dict[str, str]:
    """The conditions around *new* that *source* was made under, too, with their side; nothing between changes them."""
    if source.loops != new.loops or source.line >= line:
        return {}
    bound = {one.target for one in before if one.function == new.function and source.line < one.line < line}
    bound |= {f".{one.target.rpartition('.')[2]}" for one in before if _may_come_between(one, new)}
    decided = dict(one for one in new.branches if one in source.branches)
    return {
        test: side
        for test, side in decided.items()
        if _asks_the_same_twice(test) and not any(_reads(test, target) for target in bound)
    }


def _may_come_between(other: _Definition, new: _Definition) -> bool:
    """Whether another function, called between, may change what an object has: no constructor."""
    return "." in other.target and other.function not in ("", new.function) and not other.function.endswith("__init__")


_ALIKE = frozenset("isinstance issubclass len hasattr getattr callable bool".split())


@lru_cache(maxsize=256)
def _asks_the_same_twice(test: str) -> bool:
    """Whether a condition is the same whenever it is computed, its names unchanged: no ``random() < 0.5``."""
    try:
        parts = list(ast.walk(ast.parse(test, mode="eval")))
    except SyntaxError:  # the mark of a `try`
        return True
    calls = [part for part in parts if isinstance(part, ast.Call)]
    return not any(isinstance(part, (ast.NamedExpr, ast.Await)) for part in parts) and all(
        isinstance(call.func, ast.Name) and call.func.id in _ALIKE for call in calls
    )


def _reads(test: str, target: str) -> bool:
    """Whether a condition reads what an assignment to *target* changes: ``opt.flag`` reads ``opt``, and ``.flag``."""
    before = "" if target.startswith(".") else r"(?<![\w.])"
    return re.search(rf"{before}{re.escape(target)}(?!\w)", test) is not None


def _holds_in(one: _Definition, new: _Definition, elsewhere: bool) -> bool:
    """Whether an assignment was run for certain where the *new* one stands."""
    return set(one.branches) <= (set() if elsewhere else set(new.branches))


@lru_cache(maxsize=64)
def _definitions(text: str) -> tuple[_Definition, ...]:
    tree = parse(text).tree
    return tuple(_in_block(tree.body, "", (), (), _tries(tree)))


def _tries(tree: ast.Module) -> dict[ast.stmt, str]:
    """The ``try`` statements of a file by their number, which no change inside of them changes."""
    found = [part for part in ast.walk(tree) if isinstance(part, (ast.Try, ast.TryStar))]
    return {part: f"try {at}" for at, part in enumerate(found)}


def _in_block(
    body: list[ast.stmt],
    function: str,
    branches: _Branches,
    loops: tuple[str, ...],
    tries: dict[ast.stmt, str],
) -> Iterator[_Definition]:
    for node in body:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _of_target(target, _written(value), function, branches, loops)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _of_target(target, _written(value), function, branches, loops)
            case ast.AugAssign(target=target, value=value):
                yield from _of_target(target, f"{type(node.op).__name__} {_written(value)}", function, branches, loops)
            case ast.If(test=test):
                yield from _in_block(node.body, function, (*branches, (ast.unparse(test), "if")), loops, tries)
                yield from _in_block(node.orelse, function, (*branches, (ast.unparse(test), "else")), loops, tries)
            case ast.Try() | ast.TryStar():
                first = tries[node]
                yield from _in_block(node.body, function, (*branches, (first, "try")), loops, tries)
                for handler in node.handlers:
                    yield from _in_block(handler.body, function, (*branches, (first, "except")), loops, tries)
                yield from _in_block([*node.orelse, *node.finalbody], function, branches, loops, tries)
            case ast.Match(subject=subject):
                for at, case in enumerate(node.cases):
                    side = (ast.unparse(subject), f"case {at}")
                    yield from _in_block(case.body, function, (*branches, side), loops, tries)
            case ast.For() | ast.AsyncFor():
                head = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
                yield from _in_block([*node.body, *node.orelse], function, branches, (*loops, head), tries)
            case ast.While(test=test):
                head = f"while {ast.unparse(test)}"
                yield from _in_block([*node.body, *node.orelse], function, branches, (*loops, head), tries)
            case ast.With() | ast.AsyncWith():
                yield from _in_block(node.body, function, branches, loops, tries)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from _in_block(node.body, f"{function}.{name}".strip("."), (), (), tries)


def _of_target(
    target: ast.expr, value: str, function: str, branches: _Branches, loops: tuple[str, ...]
) -> Iterator[_Definition]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for at, part in enumerate(target.elts):
            yield from _of_target(part, f"{value}[{at}]", function, branches, loops)
    elif ast.unparse(target) != value:  # `h = h.detach()` computes nothing
        yield _Definition(function, ast.unparse(target), value, branches, loops, target.lineno)


def _written(value: ast.expr) -> str:
    return _DETACHED.sub("", ast.unparse(value))
