"""Rewrite a training script so that it does the same in another shape: what repairs the one is to repair the other.

``python -m tests.rewriting [FOLDER] [--shapes NAME ...]`` rewrites all cases of a folder, checks them, and prints what
is found and repaired in the folder's own shape alone.
"""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

FIXTURES = Path(__file__).parents[1] / "fixtures"
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_DECLARED = (ast.Global, ast.Nonlocal)

Shape = Callable[[ast.Module], bool]
"""Changes a tree; False where it has nothing of the kind, or nothing that can be changed so."""


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's, or a module's, own code, itself included."""
    pending = [node]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(one for one in ast.iter_child_nodes(part) if not isinstance(one, _OWN_SCOPE))


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _set_in(node: ast.AST) -> set[str]:
    return {part.id for part in _own(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}


def _sends_back(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "backward" for part in ast.walk(node))


def _is_training(node: ast.AST) -> bool:
    return isinstance(node, (ast.For, ast.While)) and _sends_back(node)


def _bound_by_blocks(node: ast.AST) -> set[str]:
    """The names that loops, comprehensions, ``with``, ``except``, ``:=`` and definitions bind."""
    found: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.For(target=target) | ast.comprehension(target=target) | ast.NamedExpr(target=target):
                found |= _names(target)
            case ast.withitem(optional_vars=ast.expr() as target):
                found |= _names(target)
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


class _Replaced(ast.NodeTransformer):
    def __init__(self, names: set[str], spell: Callable[[ast.Name], ast.expr]) -> None:
        self._names, self._spell = names, spell

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._spell(node) if node.id in self._names else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.simple = int(isinstance(node.target, ast.Name))
        return node


def _training_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(map(_is_training, _own(node)))
        and not any(isinstance(part, (*_DECLARED, ast.Yield)) for part in _own(node))
    ]


def _locals_of(function: ast.FunctionDef) -> set[str]:
    parameters = {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}
    return _set_in(function) - _bound_by_blocks(function) - parameters


def attributes(tree: ast.Module) -> bool:
    """The training function becomes a method, and its locals attributes of the object."""
    functions = _training_functions(tree)
    for function in functions:
        name, function.name = function.name, "go"
        spell = _Replaced(_locals_of(function), lambda node: ast.Attribute(ast.Name("self"), node.id, node.ctx))
        function.body = [spell.visit(part) for part in function.body]
        function.args.args.insert(0, ast.arg("self"))
        owner = name.title().replace("_", "") + "Job"
        tree.body[tree.body.index(function)] = ast.ClassDef(owner, [], [], [function], [])
        begin = ast.parse(f"{owner}().go", mode="eval").body
        others = _Replaced({name}, lambda node, begin=begin: begin)  # type: ignore[misc]
        for part in tree.body:
            if not (isinstance(part, ast.ClassDef) and part.name == owner):
                others.visit(part)
    return bool(functions)


def items(tree: ast.Module) -> bool:
    """The locals of the training function become items of a dictionary."""
    functions = _training_functions(tree)
    for function in functions:
        spell = _Replaced(
            _locals_of(function), lambda node: ast.Subscript(ast.Name("state"), ast.Constant(node.id), node.ctx)
        )
        documented = ast.get_docstring(function) is not None
        function.body = [spell.visit(part) for part in function.body]
        function.body.insert(documented, ast.parse("state = {}").body[0])
    return bool(functions)


def _change_blocks(tree: ast.AST, change: Callable[[list[ast.stmt], ast.AST], list[ast.stmt]]) -> None:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                setattr(node, field, change(block, node))


def pairs(tree: ast.Module) -> bool:
    """Two assignments to names, one after the other, become one of tuples where the second does not read the first."""
    changed = False

    def joined(block: list[ast.stmt], around: ast.AST) -> list[ast.stmt]:
        nonlocal changed
        found: list[ast.stmt] = []
        for statement in block:
            match (found[-1:], statement):
                case (
                    [ast.Assign([ast.Name(id=first) as left], one)],
                    ast.Assign([ast.Name() as right], other),
                ) if first not in _names(statement) and not isinstance(around, ast.ClassDef):
                    if not any(isinstance(value, (ast.Tuple, ast.Lambda, ast.Yield)) for value in (one, other)):
                        both = ast.Tuple([left, right], ast.Store()), ast.Tuple([one, other], ast.Load())
                        found[-1] = ast.Assign([both[0]], both[1])
                        changed = True
                        continue
            found.append(statement)
        return found

    _change_blocks(tree, joined)
    return changed


def _change_statements(tree: ast.AST, spelled: Callable[[ast.stmt, ast.AST], list[ast.stmt]]) -> bool:
    """Replace each statement by the result of *spelled* for it and the node around it; an empty one leaves it."""
    changed = False

    def change(block: list[ast.stmt], around: ast.AST) -> list[ast.stmt]:
        nonlocal changed
        found: list[ast.stmt] = []
        for statement in block:
            others = spelled(statement, around)
            changed = changed or bool(others)
            found += others or [statement]
        return found

    _change_blocks(tree, change)
    return changed


def counted(tree: ast.Module) -> bool:
    """``for i in range(n)`` becomes a ``while`` that counts."""

    def spelled(statement: ast.stmt, around: ast.AST) -> list[ast.stmt]:
        match statement:
            case ast.For(ast.Name(id=name), ast.Call(ast.Name("range"), [stop], []), body, []) if not any(
                isinstance(part, ast.Continue) or (isinstance(part, ast.Name) and part.id == name and _is_set(part))
                for one in body
                for part in ast.walk(one)
            ):
                name = "turn" if name == "_" else name
                begin, *_ = ast.parse(f"{name} = 0").body
                again = ast.parse(f"while {name} < 0:\n    {name} += 1").body[0]
                assert isinstance(again, ast.While) and isinstance(again.test, ast.Compare)
                again.test.comparators = [stop]
                again.body = [*body, *again.body]
                return [begin, again]
        return []

    return _change_statements(tree, spelled)


def annotated(tree: ast.Module) -> bool:
    """``x = y`` becomes ``x: object = y``."""
    declared = {name for node in ast.walk(tree) if isinstance(node, _DECLARED) for name in node.names}

    def spelled(statement: ast.stmt, around: ast.AST) -> list[ast.stmt]:
        match statement:
            case ast.Assign([ast.Name() | ast.Attribute() as target], value) if not (
                isinstance(around, ast.ClassDef) or (isinstance(target, ast.Name) and target.id in declared)
            ):
                simple = int(isinstance(target, ast.Name))
                return [ast.AnnAssign(target, ast.Name("object", ast.Load()), value, simple)]
        return []

    return _change_statements(tree, spelled)


def _is_set(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def steps(tree: ast.Module) -> bool:
    """Move the body of the innermost training loop into a function inside of the one that has the loop."""
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))):
        loops = [node for node in _own(scope) if isinstance(node, ast.For) and _sends_back(node)]
        loop = next(
            (one for one in loops if not any(_is_training(part) for part in _own(one) if part is not one)), None
        )
        if loop is None or any(isinstance(part, _DECLARED) for part in ast.walk(scope)):
            continue
        leaves = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.Import, ast.ImportFrom)
        body = set[str]().union(*map(_set_in, loop.body))
        given = sorted(_names(loop.target) - {"_"})
        compared = {
            part.id for one in loop.body for part in ast.walk(one) if isinstance(part, ast.Name) and _is_set(part)
        }
        if any(isinstance(part, leaves) for one in loop.body for part in ast.walk(one)) or body & set(given):
            continue
        if compared != body or any(isinstance(part, _OWN_SCOPE) for one in loop.body for part in ast.walk(one)):
            continue
        before = set(body)
        if isinstance(scope, ast.FunctionDef):
            inside = set(ast.walk(loop))
            outside = [one for one in ast.walk(scope) if one not in inside]
            known = {one.arg for one in outside if isinstance(one, ast.arg)}
            known |= {one.id for one in outside if isinstance(one, ast.Name) and _is_set(one)}
            before = body & known
            if {one.id for one in outside if isinstance(one, ast.Name)} & body - known:
                continue  # a name that the loop sets first is read behind it
        kind = "global" if scope is tree else "nonlocal"
        lines = [f"def one_turn({', '.join(given)}):", *([f"    {kind} {', '.join(sorted(before))}"] if before else [])]
        made = ast.parse("\n".join([*lines, "    pass"])).body[0]
        assert isinstance(made, ast.FunctionDef)
        made.body[-1:] = loop.body
        loop.body = ast.parse(f"one_turn({', '.join(given)})").body

        def placed(
            block: list[ast.stmt], around: ast.AST, loop: ast.For = loop, made: ast.stmt = made
        ) -> list[ast.stmt]:
            at = block.index(loop) if loop in block else len(block)
            return [*block[:at], *([made] if loop in block else []), *block[at:]]

        _change_blocks(scope, placed)
        return True
    return False


SHAPES: dict[str, Shape] = {one.__name__: one for one in (attributes, items, pairs, counted, annotated, steps)}


def rewritten(text: str, shape: str) -> str:
    """The script in another shape; empty where it has nothing that could be written so, or is of an older Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n" if SHAPES[shape](tree) else ""


class Outcome(NamedTuple):
    found: bool
    repaired: bool


def checked(text: str) -> Outcome:
    """Whether `check` finds a mistake in a script, and a patch that leaves none."""
    mended = mend(Program.of(text, "train.py"), all_codemods())
    return Outcome(bool(mended.observation.facts), bool(mended.repairs) and not mended.left)


def differs(case: Path, shape: str) -> str:
    """Line to print on a case that is found or repaired in only one of its shapes; empty where both are alike."""
    clean = case / "clean.py"
    silent = rewritten(clean.read_text(encoding="utf-8"), shape) if clean.is_file() else ""
    if silent and checked(silent).found:
        return f"{case.name}: something is found in its clean script"
    broken = (case / "broken.py").read_text(encoding="utf-8")
    other = rewritten(broken, shape)
    if not other:
        return ""
    before, after = checked(broken), checked(other)
    for what in ("found", "repaired"):
        if getattr(before, what) and not getattr(after, what):
            return f"{case.name}: not {what}"
    return ""


def cases_in(folder: Path) -> list[Path]:
    """The cases of one file each."""
    return sorted(case for case in folder.iterdir() if (case / "broken.py").is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path, default=FIXTURES)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    arguments = parser.parse_args()
    cases = cases_in(arguments.folder)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for shape in arguments.shapes:
            told = [line for line in pool.map(differs, cases, [shape] * len(cases), chunksize=4) if line]
            print("\n".join([f"{shape}: {len(told)} of {len(cases)} cases differ", *(f"  {line}" for line in told)]))


if __name__ == "__main__":
    main()
