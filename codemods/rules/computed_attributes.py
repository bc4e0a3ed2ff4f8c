"""Attributes that a constructor computes from parameters, and that another method reads in every iteration."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.computations import feeds_itself, targets_of
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.moving import spelled
from autofix.codemods.rewriting.no_grad import guarded
from autofix.codemods.rewriting.nodes import Statement, only_part
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate


def computed_again(
    fact: StaleGraph, kept: Statement, tree: Tree, name: str, *, instead: bool = False
) -> Iterator[Candidate]:
    """An attribute that a method computes from parameters is computed anew where another reads it.

    *instead*: and no longer where it was.
    """
    home = tree.class_of(kept)
    if not name.startswith("self.") or home is None or feeds_itself([kept], tree):
        return
    readers = [
        method
        for method in tree.body_of(home)
        if isinstance(method, cst.FunctionDef) and tree.function_of(kept) is not method
        if any(name in tree.paths_in(one) and not _only_assigns(one, name, tree) for one in tree.body_of(method))
    ]
    reader = tree.statement_of(tree.expression(fact.used))
    if reader is None or not tree.block_of(reader):
        return
    if tree.class_of(reader) is not home:  # it is handed on to another class
        if not instead or len(readers) != 1:
            return
        reader = tree.body_of(readers[0])[0]
    if len(readers) > 1:
        if not instead:
            yield from _as_property(kept, name, tree)
        return
    code = _of_attributes(_registered(kept, name, tree) or tree.own_code(kept), kept, tree)
    # Before the first statement of the method that reads it, so that all of them read the same.
    body = tree.body_of(tree.function_of(reader))
    first = next((statement for statement in body if name in tree.paths_in(statement)), reader)
    if (method := _computing(kept, tree)) and not instead and tree.function_of(first) is not tree.function_of(kept):
        patch = Edit(tree).insert_before(first, f"self.{method}()").patch()
        yield Candidate(
            patch, f"call `self.{method}()` where `{name}` is used", Keeps.PARAMETERS, cause=tree.row_of(kept)
        )
    edit = Edit(tree).insert_before(first, code)
    if instead:
        edit.remove(kept)
    remedy = f"compute `{name}` again where it is used"
    yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS, cause=tree.row_of(kept))


def _computing(kept: Statement, tree: Tree) -> str:
    """Name of the method of *kept* where it takes nothing, and does nothing but compute; empty for other functions."""
    method = tree.function_of(kept)
    if not isinstance(method, cst.FunctionDef) or method.decorators or method.name.value.startswith("__"):
        return ""
    if tree.code(method.params).strip(", ") != "self" or kept not in tree.body_of(method):
        return ""
    computes = all(isinstance(only_part(one), cst.Assign) for one in tree.body_of(method))
    return method.name.value if computes else ""


def undone_as_well(kept: Statement, tree: Tree) -> Iterator[Candidate]:
    """``self.weight -= delta`` and ``self.weight += delta`` of one class: an adapter merged and unmerged as values.

    One of them alone would leave the other's graph in the weight.
    """
    part, home = only_part(kept), tree.class_of(kept)
    if (
        not isinstance(part, cst.AugAssign)
        or not isinstance(part.target, cst.Attribute)
        or home is None
        or not tree.imports_torch(kept)
    ):
        return
    name, added = tree.code(part.target), (cst.AddAssign, cst.SubtractAssign)
    alike = [
        one
        for one in tree.statements_in(home)
        if isinstance(own := only_part(one), cst.AugAssign)
        and isinstance(own.operator, added)
        and tree.code(own.target) == name
        and tree.code(own.value) == tree.code(part.value)
    ]
    if len({type(own.operator) for one in alike if isinstance(own := only_part(one), cst.AugAssign)}) == 2:
        edits = [edit for one in alike for edit in guarded(tree, [one]).edits]
        patch = Patch(tree.program, tuple(sorted(edits, key=lambda edit: (edit.path, edit.start))))
        yield Candidate(patch, f"modify `{name}`, and modify it back, under no_grad")


def buffer_of(kept: Statement, tree: Tree) -> str:
    """``self.kernel`` for ``self.registerbuffer_of("kernel", design())``; empty for other statements."""
    part = only_part(kept)
    call = part.value if isinstance(part, cst.Expr) else None
    if not isinstance(call, cst.Call) or tree.code(call.func) != "self.register_buffer" or len(call.args) < 2:
        return ""
    called = call.args[0].value
    return f"self.{called.raw_value}" if isinstance(called, cst.SimpleString) else ""


def _registered(kept: Statement, name: str, tree: Tree) -> str:
    """``self.kernel = design()`` for ``self.registerbuffer_of("kernel", design())``; empty for other statements."""
    part = only_part(kept)
    call = part.value if isinstance(part, cst.Expr) else None
    if not isinstance(call, cst.Call) or buffer_of(kept, tree) != name:
        return ""
    return f"{name} = {tree.code(call.args[1].value)}"


def _of_attributes(code: str, kept: Statement, tree: Tree) -> str:
    """``self.gram = self.cov(self.x)`` for ``self.gram = self.cov(x)``, where the constructor stores ``x`` so."""
    constructor = tree.function_of(kept)
    if not isinstance(constructor, cst.FunctionDef):
        return code
    parameters = {one.name.value for one in constructor.params.params} - {"self"}
    stored: dict[str, str] = {}
    for statement in tree.body_of(constructor):
        part = only_part(statement)
        call = part.value if isinstance(part, cst.Expr) else None
        value = call.args[1].value if isinstance(call, cst.Call) and len(call.args) > 1 else None
        if value is not None and (attribute := buffer_of(statement, tree)):
            stored[tree.code(value)] = attribute
        for path in targets_of(statement, tree):
            if path.startswith("self.") and (given := tree.given(statement, path)) is not None:
                stored[tree.code(given)] = path
    again = parameters - set().union(*(targets_of(one, tree) for one in tree.body_of(constructor)))
    parsed = cst.parse_module(code)
    while found := [one for one in tree.names_in(parsed) if one.value in again & stored.keys()]:
        itself = cst.parse_expression(stored[found[0].value])
        parsed = cst.ensure_type(parsed.deep_replace(found[0], itself), cst.Module)
    return parsed.code


def _only_assigns(statement: Statement, name: str, tree: Tree) -> bool:
    """Whether a statement mentions *name* as what it assigns to, and nowhere else."""
    return name in targets_of(statement, tree) and tree.count_paths(statement, {name}) == 1


def _as_property(kept: Statement, name: str, tree: Tree) -> Iterator[Candidate]:
    """Candidate that turns a value which the constructor computes for several methods into one or more properties."""
    constructor, home = tree.function_of(kept), tree.class_of(kept)
    part = only_part(kept)
    if not isinstance(part, cst.Assign) or not isinstance(constructor, cst.FunctionDef) or home is None:
        return
    body = tree.body_of(constructor)
    own = {one.value for one in tree.names_in(constructor.params)} | set().union(
        *(targets_of(one, tree) for one in body)
    )
    read, rest = _attributes_given(part, name, tree)
    computed = {path: _of_attributes(code, kept, tree) for path, code in read.items()}
    needed = {one.value for code in computed.values() for one in tree.names_in(cst.parse_expression(code))} - {"self"}
    again = [one for one in tree.statements_in(home) if one is not kept and computed.keys() & targets_of(one, tree)]
    if kept not in body or len(body) < 2 or not computed or needed & own or again:
        return
    indent = tree.module_of(kept).default_indent
    edit = Edit(tree)
    edit.change(kept, lambda node: spelled(node, rest)) if rest else edit.remove(kept)
    for path, code in computed.items():
        attribute = path.removeprefix("self.")
        edit.insert_after(constructor, f"\n@property\ndef {attribute}(self):\n{indent}return {code}")
    remedy = f"make `{name}` a property, computed wherever it is read"
    if len(computed) > 1:
        remedy = f"make `{', '.join(computed)}` properties, computed wherever they are read"
    yield Candidate(edit.patch(), remedy, Keeps.PARAMETERS)


def _attributes_given(part: cst.Assign, name: str, tree: Tree) -> tuple[dict[str, str], str]:
    """The attributes that have to become properties with *name*, the code of each, and what is left to assign.

    None where no expression is known for each of them: a star, a call that may return an iterator.
    """
    target = part.targets[0].target if len(part.targets) == 1 else None
    if isinstance(target, cst.Attribute):
        return ({name: tree.code(part.value)} if tree.code(target) == name else {}), ""
    if not isinstance(target, (cst.Tuple, cst.List)) or any(
        isinstance(one, cst.StarredElement) for one in target.elements
    ):
        return {}, ""
    paths = [tree.code(one.value) for one in target.elements]
    if isinstance(part.value, (cst.Tuple, cst.List)):
        values = [tree.code(one.value) for one in part.value.elements if isinstance(one, cst.Element)]
        if len(values) != len(part.value.elements) or len(values) != len(paths) or paths.count(name) != 1:
            return {}, ""
        others = [pair for pair in zip(paths, values, strict=True) if pair[0] != name]
        rest = " = ".join(", ".join(side) for side in zip(*others, strict=True))
        return {name: values[paths.index(name)]}, rest
    call = part.value
    method = call.func.attr.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else ""
    pieces = catalogue.gives_pieces(method)
    own = all(re.fullmatch(r"self\.\w+", path) for path in paths) and len(set(paths)) == len(paths)
    if not pieces or not own or name not in paths:
        return {}, ""
    return {path: f"{tree.code(call)}[{at}]" for at, path in enumerate(paths)}, ""
