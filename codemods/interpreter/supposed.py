"""Models of which no pass is known: what each computes is sent backward, as whoever trains it will do.

Which model a program trains may be the choice of a configuration.  A model that overwrites what its own layers have
saved fails whoever trains it, whatever it is given: its inputs are taken to be data without a graph, so that only the
model's own parameters ask for a gradient.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Operand
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.entries import HARMLESS
from autofix.codemods.interpreter.values import Bound, Class, Function, Instance, Value
from autofix.codemods.source.nodes import Nodes
from autofix.codemods.source.sources import Site, Sources, last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_FLAGS = ("mask", "mode", "flag", "return", "is_", "use_", "num_", "idx", "index", "lengths", "train")
"""Parts of the names of parameters that are no data of the kind that layers take."""


def forwards(sources: Sources, trained: Collection[ast.AST], known: Collection[str]) -> Iterator[tuple[str, ast.AST]]:
    """The ``forward`` methods of the main file that may overwrite something and are not among the *trained* ones.

    Those *known* from before a patch are given in any case.

    A class comes before those that it mentions, else the last one first: a model runs its parts as it means to, frozen
    or without a graph.
    """
    models = sources.main.nodes.once(_models)
    for cls in sources.main.nodes.once(_users_first):
        if cls.name in models:
            for part in cls.body:
                is_left = isinstance(part, ast.FunctionDef) and part.name == "forward" and part not in trained
                entry = f"{cls.name}.forward"
                if is_left and (entry in known or cls.name in sources.main.nodes.once(_overwriting)):
                    yield entry, part


def _users_first(nodes: Nodes) -> list[ast.ClassDef]:
    """The classes of a file, the last one first, but each behind all that mention it; these may form a ring."""
    tree = nodes.all[0]
    assert isinstance(tree, ast.Module)
    waiting = [part for part in reversed(tree.body) if isinstance(part, ast.ClassDef)]
    mentioned = nodes.once(_mentioned)
    users = Counter(name for cls in waiting for name in mentioned[cls.name] - {cls.name})
    found: list[ast.ClassDef] = []
    while waiting:
        one = next((cls for cls in waiting if not users[cls.name]), waiting[0])
        waiting.remove(one)
        found.append(one)
        users.subtract(mentioned[one.name] - {one.name})
    return found


def _mentioned(nodes: Nodes) -> dict[str, set[str]]:
    """For each class and function of a file, the names in it."""
    tree = nodes.all[0]
    assert isinstance(tree, ast.Module)
    parts = (part for part in tree.body if isinstance(part, (ast.ClassDef, ast.FunctionDef)))
    return {part.name: {node.id for node in nodes.within(part) if isinstance(node, ast.Name)} for part in parts}


def _models(nodes: Nodes) -> set[str]:
    """The classes of a file that are modules by what they are derived from, also by way of others in the file."""
    tree, found = nodes.all[0], set[str]()
    assert isinstance(tree, ast.Module)
    for cls in tree.body:
        if isinstance(cls, ast.ClassDef):
            bases = [ast.unparse(base) for base in cls.bases]
            if any(base.endswith("Module") or base in found for base in bases):
                found.add(cls.name)
    return found


_MAKES = re.compile(r"__init__|_*init|reset|build|make|load|_load|from_")
"""Names of methods that run before anything is computed with a model."""


def _overwriting(nodes: Nodes) -> set[str]:
    """The classes and functions of a file that change something in place, once they are made, or use one that does."""
    tree = nodes.all[0]
    assert isinstance(tree, ast.Module)
    parts = {part.name: part for part in tree.body if isinstance(part, (ast.ClassDef, ast.FunctionDef))}
    used = nodes.once(_mentioned)
    found = {name for name, part in parts.items() if _changes(nodes, part)}
    while further := {name for name in parts.keys() - found if used[name] & found}:
        found |= further
    return found


def _changes(nodes: Nodes, part: ast.ClassDef | ast.FunctionDef) -> bool:
    """Whether code changes something in place: in no method that only makes an object, but for layers that do so."""
    made = [one for one in part.body if isinstance(one, ast.FunctionDef) and _MAKES.match(one.name)]
    idle = {node for one in made for node in nodes.within(one) if not isinstance(node, ast.keyword)}
    counters = nodes.once(_counters)
    return any(node not in idle and _is_change(node, counters) for node in nodes.within(part))


def _counters(nodes: Nodes) -> set[str]:
    """The names and attributes that are set to a whole number somewhere in a file."""
    return {
        last_name(target)
        for node in nodes.of(ast.Assign)
        if isinstance(node.value, ast.Constant) and type(node.value.value) is int
        for target in node.targets
    }


def _is_change(node: ast.AST, counters: set[str]) -> bool:
    """Whether a node may change a tensor in place: ``x += y``, ``x[i] = y``, ``x.add_(y)``, ``inplace=True``."""
    match node:
        case ast.AugAssign(target=target):
            return last_name(target) not in counters
        case ast.Assign(targets=targets):
            places = [target.slice for target in targets if isinstance(target, ast.Subscript)]
            return any(not (isinstance(one, ast.Constant) and isinstance(one.value, str)) for one in places)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.endswith("_") and not name.endswith("__") and name not in HARMLESS
        case ast.keyword(arg="inplace", value=value):
            return not (isinstance(value, ast.Constant) and not value.value)
    return False


def options(interp: Interpreter, cls: Class) -> dict[str, Value]:
    """Arguments that whoever makes a model may give, or has to.

    A switch of its constructor is on or off by default, as an option is.  A number that is compared with others cannot
    be None, whatever the default says: zero, which switches off what it weighs.
    """
    made = class_lookup.find(Instance(cls), "__init__")
    if not isinstance(made, Function):
        return {}
    found: dict[str, Value] = {}
    numbers = made.source.nodes.once(_numbers).get(made.node, frozenset())
    for name, usual in made.defaults_by_name.items():
        if isinstance(usual, bool):
            found[name] = option = interp.symbol(("attr", ("options of", cls.name), name))
            interp.defaults[option.key] = usual
        elif usual is None and name in numbers:
            found[name] = 0
    return found


def has_options(interp: Interpreter) -> bool:
    """Whether a constructor was given switches that may be on or off."""
    return any(isinstance(key, tuple) and key[1:2] and _is_of_model(key[1]) for key in interp.defaults)


def _is_of_model(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[:1] == ("options of",)


def _numbers(nodes: Nodes) -> dict[ast.AST, frozenset[str]]:
    """By constructor, the names that it compares as numbers, and that it does not ask about before."""
    return {
        function: frozenset(_compared(nodes, function))
        for function in nodes.of(ast.FunctionDef)
        if function.name == "__init__"
    }


def _compared(nodes: Nodes, function: ast.FunctionDef) -> set[str]:
    found, asked = set[str](), set[str]()
    for node in nodes.within(function):
        match node:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.Gt() | ast.LtE() | ast.GtE()], comparators=others):
                found |= {one.id for one in (left, *others) if isinstance(one, ast.Name)}
            case ast.Compare(left=ast.Name(id=name)) | ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                asked.add(name)
            case ast.BoolOp(values=parts):
                asked |= {one.id for one in parts if isinstance(one, ast.Name)}
            case ast.If(test=ast.Name(id=name)) | ast.IfExp(test=ast.Name(id=name)):
                asked.add(name)
    return found - asked


def train(interp: Interpreter, function: Function, receiver: Value, anchor: ast.expr) -> None:
    """Call a model's ``forward`` with data, and send what it returns backward."""
    if not isinstance(receiver, Instance) or not class_lookup.is_module(receiver):
        return
    parameters = function.node.args.args[1:]
    required = parameters[: len(parameters) - len(function.defaults)] if function.defaults else parameters
    args: list[Value] = [
        interp.fresh_symbol("argument") if any(part in one.arg for part in _FLAGS) else _input(interp, one)
        for one in required
    ]
    result = interp.call(Bound(function, receiver), args, {}, anchor)
    roots = [Operand(one.cell.node, one.provenance) for one in interp.tensors(result) if one.cell.node is not None]
    if roots:
        interp.passed()
        site = Site(function.source, _end_of(function.node))
        interp.tape.backward(roots, site, interp.loops, retain=False)


def _input(interp: Interpreter, parameter: ast.arg) -> Value:
    """Data for a model: a tensor as a rule, or a list of several, until it is used as only a tensor can be."""
    if parameter.annotation is not None and not _may_be_tensors(parameter.annotation):
        return interp.fresh_symbol("argument")
    given = interp.data()
    given.cell.unsure = parameter.annotation is None or last_name(parameter.annotation) != "Tensor"
    return given


_IN_TYPES = re.compile(r"Tensor(?:Type)?\b|\bVariable\b|\bAny\b|\bobject\b|\w*(?:Float|Int|Bool|Num|Shaped)\[")
"""What says in an annotation that a parameter may be a tensor, or a container of tensors."""


def _may_be_tensors(annotation: ast.expr) -> bool:
    """Whether an annotation leaves room for a tensor: ``Tensor | None``, ``list[Tensor]``, ``Float[Array, "b c"]``."""
    return _IN_TYPES.search(ast.unparse(annotation)) is not None


def _end_of(node: ast.AST) -> ast.expr | ast.stmt:
    """The last ``return`` of a function."""
    found = [part for part in ast.walk(node) if isinstance(part, ast.Return)]
    assert isinstance(node, ast.stmt)
    return max(found, key=lambda part: part.lineno, default=node)
