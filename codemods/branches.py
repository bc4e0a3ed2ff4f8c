"""Values that a patch computes anew or elsewhere: on every path the value from before, not that of one branch."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.nodes import own_parts
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
    """The name that *patch* computes as only one of several branches of the program does; empty for none."""
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


def detaches_a_number(patch: Patch) -> str:
    """The name that *patch* detaches where it is a tensor in some branches and else a number; empty for none.

    ``penalty = 0`` above ``if opt.penalised: penalty = ...`` is still a number below, where that is not asked again.
    """
    for mine, theirs in patch.program.changed(patch.patched):
        known = Counter((one.function, one.target) for one in _detached(mine.text))
        made = _definitions(theirs.text)
        for one in _detached(theirs.text):
            if known[one.function, one.target]:
                known[one.function, one.target] -= 1
            elif _may_be_number(one, made):
                return one.target
    return ""


def _may_be_number(use: _Definition, made: tuple[_Definition, ...]) -> bool:
    """Whether the last value that a name was given for certain is a number, and another in a branch since."""
    before = [one for one in made if (one.function, one.target) == (use.function, use.target) and one.line < use.line]
    certain = max((at for at, one in enumerate(before) if _holds_in(one, use, False)), default=None)
    if certain is None or _NUMBER.fullmatch(before[certain].value) is None:
        return False
    since = before[certain + 1 :]
    tests = [test for one in (use, *since) for test, _ in one.branches]
    return bool(since) and not any(_reads(test, use.target) for test in tests)  # `if first is None: first = ...`


_NUMBER = re.compile(r"-?\d+(\.\d*)?(e-?\d+)?|None")


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
    """Whether a condition reads the *target* of an assignment: ``opt.flag`` reads ``opt``, and ``.flag``."""
    before = "" if target.startswith(".") else r"(?<![\w.])"
    return re.search(rf"{before}{re.escape(target)}(?!\w)", test) is not None


def _holds_in(one: _Definition, new: _Definition, elsewhere: bool) -> bool:
    """Whether an assignment was run for certain where the *new* one stands."""
    return set(one.branches) <= (set() if elsewhere else set(new.branches))


@lru_cache(maxsize=64)
def _definitions(text: str) -> tuple[_Definition, ...]:
    tree = parse(text).tree
    return tuple(chain.from_iterable(map(_made_by, _statements(tree.body, _Place(), _tries(tree)))))


@lru_cache(maxsize=64)
def _detached(text: str) -> tuple[_Definition, ...]:
    """The names that are detached by their name, ``loss.detach()``, where they are."""
    tree = parse(text).tree
    return tuple(
        _Definition(place.function, part.func.value.id, "detach", place.branches, place.loops, part.lineno)
        for statement, place in _statements(tree.body, _Place(), _tries(tree))
        for _, part in own_parts(statement)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "detach"
        if isinstance(part.func.value, ast.Name) and not _is_asked(part, part.func.value.id, statement)
    )


def _is_asked(part: ast.expr, name: str, statement: ast.stmt) -> bool:
    """Whether an expression asks first what *name* is: ``loss.detach() if isinstance(loss, Tensor) else loss``."""
    choices = (one for _, one in own_parts(statement) if isinstance(one, ast.IfExp))
    return any(_reads(ast.unparse(one.test), name) and part in ast.walk(one.body) for one in choices)


def _tries(tree: ast.Module) -> dict[ast.stmt, str]:
    """The ``try`` statements of a file by their number, which no change inside of them changes."""
    found = [part for part in ast.walk(tree) if isinstance(part, (ast.Try, ast.TryStar))]
    return {part: f"try {at}" for at, part in enumerate(found)}


class _Place(NamedTuple):
    """Surroundings of a statement: its function, the branches and the loops that it stands in."""

    function: str = ""
    """The qualified name of the function."""
    branches: _Branches = ()
    """The conditions in that function, each with its side."""
    loops: tuple[str, ...] = ()

    def side(self, test: str, side: str) -> _Place:
        return self._replace(branches=(*self.branches, (test, side)))

    def loop(self, head: str) -> _Place:
        return self._replace(loops=(*self.loops, head))


def _statements(
    body: Iterable[ast.stmt], place: _Place, tries: Mapping[ast.stmt, str]
) -> Iterator[tuple[ast.stmt, _Place]]:
    """All statements below a block, each where it stands."""
    for node in body:
        yield node, place
        for inner, around in _blocks(node, place, tries):
            yield from _statements(inner, around, tries)


def _blocks(
    node: ast.stmt, place: _Place, tries: Mapping[ast.stmt, str]
) -> Iterator[tuple[Sequence[ast.stmt], _Place]]:
    """The blocks of a statement, each with its surroundings."""
    match node:
        case ast.If(test=test):
            yield node.body, place.side(ast.unparse(test), "if")
            yield node.orelse, place.side(ast.unparse(test), "else")
        case ast.Try() | ast.TryStar():
            yield node.body, place.side(tries[node], "try")
            for handler in node.handlers:
                yield handler.body, place.side(tries[node], "except")
            yield [*node.orelse, *node.finalbody], place
        case ast.Match(subject=subject):
            for at, case in enumerate(node.cases):
                yield case.body, place.side(ast.unparse(subject), f"case {at}")
        case ast.For() | ast.AsyncFor():
            head = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
            yield [*node.body, *node.orelse], place.loop(head)
        case ast.While(test=test):
            yield [*node.body, *node.orelse], place.loop(f"while {ast.unparse(test)}")
        case ast.With() | ast.AsyncWith():
            yield node.body, place
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield node.body, _Place(f"{place.function}.{name}".strip("."))


def _made_by(placed: tuple[ast.stmt, _Place]) -> Iterator[_Definition]:
    """The assignments of a statement."""
    node, place = placed
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _of_target(target, _written(value), place)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _of_target(target, _written(value), place)
        case ast.AugAssign(target=target, value=value):
            yield from _of_target(target, f"{type(node.op).__name__} {_written(value)}", place)


def _of_target(target: ast.expr, value: str, place: _Place) -> Iterator[_Definition]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for at, part in enumerate(target.elts):
            yield from _of_target(part, f"{value}[{at}]", place)
    elif ast.unparse(target) != value:  # `h = h.detach()` computes nothing
        yield _Definition(place.function, ast.unparse(target), value, place.branches, place.loops, target.lineno)


def _written(value: ast.expr) -> str:
    return _DETACHED.sub("", ast.unparse(value))
