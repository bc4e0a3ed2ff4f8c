"""Resets that are written and never called: ``reset_net(net)`` of a spiking network, ``cell.reset()``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import libcst as cst

from autofix.codemods.autograd import catalogue
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, calls_in, only_part
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate

_SEVERAL = re.compile(r"(?P<parts>.*?)\[\*(?P<kind>\w+)\]")
"""The modules of a class below another one, in the name of a state: ``net[*Cell].h``."""
_LOOKING = frozenset("isinstance hasattr callable modules children named_modules values items enumerate super".split())
"""Functions and methods with which a reset finds the parts that have resets of their own."""
_DEPTH = 3
"""Levels of modules in modules whose resets are followed."""


def candidates(fact: StaleGraph | Overwritten, tree: Tree) -> Iterator[Candidate]:
    """The call, at the start of each iteration, of a function that begins the carried state anew."""
    loop = tree.statement(fact.loop)
    body = tree.body_of(loop) if isinstance(loop, (cst.For, cst.While)) else []
    names = [carrier.name for carrier in fact.outside if "." in carrier.name]
    if not body or not names or not fact.inside or not fact.carried_within:
        return
    owner, _, attribute = names[-1].rpartition(".")
    for reset in _never_called(attribute, _called_for_others(owner, body, tree), tree):
        for call in _calls(reset, owner, tree):
            patch = Edit(tree).insert_before(body[0], call).patch()
            remedy = f"call `{reset.name.value}`, which nothing calls, at the start of each iteration"
            yield Candidate(patch, remedy, Keeps.ANEW)


def _called_for_others(owner: str, body: list[Statement], tree: Tree) -> Counter[str]:
    """The methods that a loop calls of objects that *owner* is no part of: ``encoder.reset()`` beside ``decoder``."""
    calls = (part.value for one in body if isinstance(part := only_part(one), cst.Expr))
    methods = (one.func for one in calls if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute))
    return Counter(one.attr.value for one in methods if tree.code(one.value) not in list(_prefixes(owner)))


def _never_called(attribute: str, others: Counter[str], tree: Tree) -> list[cst.FunctionDef]:
    """The functions that begin an attribute anew and that nothing calls but *others*, for objects of their own."""
    functions = [one for module in tree.modules() for one in tree.every(cst.FunctionDef, module)]
    begins = _beginnings(attribute, functions, tree)
    resets = [one for one in functions if one.name.value != "__init__" and _begins_anew(one, attribute, begins, tree)]
    mentioned = Counter(name.value for module in tree.modules() for name in tree.every(cst.Name, module))
    mentioned.subtract(one.name.value for one in functions)
    mentioned.subtract(others)
    texts = [text.value for module in tree.modules() for text in tree.every(cst.SimpleString, module)]

    def is_called(one: cst.FunctionDef, besides: list[cst.FunctionDef]) -> bool:
        inside = sum(tree.called(call) == one.name.value for other in besides for call in calls_in(other.body))
        return mentioned[one.name.value] > inside or any(one.name.value in text for text in texts)

    handing = _handing_on(resets, functions, tree)
    while called := [one for one in handing if is_called(one, handing)]:
        handing = [one for one in handing if one not in called]
    # What resets the whole is the better call, and the only one for a part that has no name.
    unused = [*handing, *(one for one in resets if not is_called(one, handing))]
    return [one for one in unused if _is_plain(one, tree)]


def _handing_on(resets: list[cst.FunctionDef], functions: list[cst.FunctionDef], tree: Tree) -> list[cst.FunctionDef]:
    """The functions that do nothing but call *resets*, or each other: ``for layer in self.layers: layer.reset()``."""
    names = {one.name.value for one in resets}
    found: list[cst.FunctionDef] = []
    for _ in range(_DEPTH):
        more = [one for one in functions if one not in (*found, *resets) and _only_resets(one, names, tree)]
        names |= {one.name.value for one in more}
        found += more
    return found


def _only_resets(function: cst.FunctionDef, names: set[str], tree: Tree) -> bool:
    called = {tree.called(call) for call in calls_in(function.body)}
    return bool(called & names) and called <= names | _LOOKING


def _beginnings(attribute: str, functions: list[cst.FunctionDef], tree: Tree) -> set[str]:
    """What constructors give the attribute."""
    found: set[str] = set()
    for function in functions:
        if function.name.value == "__init__":
            given = (tree.given(statement, f"self.{attribute}") for statement in tree.statements_in(function))
            found.update(tree.code(value) for value in given if value is not None)
            found.update(
                tree.code(call.args[1].value)
                for call in calls_in(function)
                if tree.called(call) == "register_buffer" and len(call.args) > 1
                if tree.code(call.args[0].value).strip("\"'") == attribute
            )
    return found


def _begins_anew(function: cst.FunctionDef, attribute: str, begins: set[str], tree: Tree) -> bool:
    """Whether a function gives the attribute what a constructor gave it: a number, ``None``, or a new tensor."""
    for assignment in tree.every(cst.Assign, tree.module_of(function)):
        target = assignment.targets[0].target
        if not isinstance(target, cst.Attribute) or target.attr.value != attribute:
            continue
        if tree.function_of(assignment) is function and tree.code(assignment.value) in begins:
            return all(tree.called(call) in catalogue.makers() for call in calls_in(assignment.value))
    return False


def _is_plain(function: cst.FunctionDef, tree: Tree) -> bool:
    """Whether a function has no decorators, one argument that it needs, and no class of which others call methods."""
    needed = [one for one in function.params.params if one.default is None]
    owner = tree.class_of(function)
    known = {cls.name.value for module in tree.modules() for cls in tree.every(cst.ClassDef, module)}
    bases = [tree.code(one.value) for one in owner.bases] if owner is not None else []
    own = all(base in known or base.rpartition(".")[2] in ("Module", "object") for base in bases)
    return own and len(needed) == 1 and not function.decorators and not function.name.value.startswith("__")


def _calls(reset: cst.FunctionDef, owner: str, tree: Tree) -> Iterator[str]:
    """Calls of a reset for the object that has the state."""
    several = _SEVERAL.match(owner)
    name, home = reset.name.value, tree.class_of(reset)
    parts = several["parts"] if several else owner
    if home is None:
        if isinstance(tree.parent_of(reset), cst.Module):
            yield from (f"{name}({path})" for path in _prefixes(parts))
        return
    if several and several["kind"] == home.name.value:
        part = tree.fresh_name("module", "layer", "part")
        indent = tree.module_of(reset).default_indent
        test = f"{indent}if isinstance({part}, {several['kind']}):\n{indent}{indent}{part}.{name}()"
        yield f"for {part} in {parts}.modules():\n{test}"
        return
    yield from (f"{path}.{name}()" for path in reversed(list(_prefixes(parts))))


def _prefixes(path: str) -> Iterator[str]:
    """``net``, then ``net.cell``, of ``net.cell``."""
    names = path.split(".")
    yield from (".".join(names[: at + 1]) for at in range(len(names)))
