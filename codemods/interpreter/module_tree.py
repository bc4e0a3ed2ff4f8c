"""Modules inside modules: children, paths with dots, parameters and buffers by their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)
from autofix.codemods.source.flags import flag_given
from autofix.codemods.source.sources import Parsed

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def named_children(module: TorchModule | Instance) -> list[tuple[Hashable, TorchModule | Instance]]:
    """The modules that a module has as attributes; the base of its class, as ``nn.GRU``, is the module itself."""
    slots: dict[Any, Binding] = dict(module.children if isinstance(module, TorchModule) else module.names)
    return [
        (key, slot.value)
        for key, slot in slots.items()
        if isinstance(slot.value, (TorchModule, Instance)) and key != class_lookup.BASE
    ]


def children(module: TorchModule | Instance) -> list[Binding]:
    return [Binding(value) for _, value in named_children(module)]


def pair(first: Value, second: Value) -> Binding:
    return Binding(Sequence("tuple", [Binding(first), Binding(second)]))


def modules(module: TorchModule | Instance) -> list[Binding]:
    """The module and all modules under it."""
    return [Binding(one) for _, one in paths(module)]


def paths(module: TorchModule | Instance) -> list[tuple[str, TorchModule | Instance]]:
    """The module and all modules under it, by their names with dots."""
    found: list[tuple[str, TorchModule | Instance]] = []
    seen: set[int] = set()

    def add(path: str, one: TorchModule | Instance) -> None:
        if id(one) not in seen:
            seen.add(id(one))
            found.append((path, one))
            for name, child in named_children(one):
                add(f"{path}.{name}" if path else str(name), child)

    add("", module)
    return found


def _with_bases(named: list[tuple[str, TorchModule | Instance]]) -> Iterator[tuple[str, TorchModule | Instance]]:
    """Each module by its name, and behind it the torch module that its class is derived from, by the same name."""
    for path, one in named:
        yield path, one
        base = class_lookup.base_module(one) if isinstance(one, Instance) else None
        if base is not None:
            yield path, base


def parameter_called(interp: Interpreter, module: Value, name: str, node: ast.expr) -> TensorRef | None:
    """The parameter that has this name, with dots, in a module; None where there is none to be seen."""
    path, _, last = name.rpartition(".")
    owner = next((one for place, one in paths(module) if place == path), None)
    found = interp.attribute(owner, last, node) if owner is not None else None
    return found if isinstance(found, TensorRef) and found.cell.leaf is not None else None


class Parameter(NamedTuple):
    """A parameter of a module: its name with dots, if it is known, and its tensor."""

    name: str | None
    tensor: TensorRef


def parameters(interp: Interpreter, module: TorchModule | Instance, node: ast.expr) -> list[Parameter]:
    """The parameters one by one, in their order; a nameless one for all those of a layer that are not known by name."""
    found: dict[tuple[Leaf, str], Parameter] = {}
    known: set[Leaf] = set()
    for path, one in _with_bases(paths(module)):
        prefix = f"{path}." if path else ""
        if isinstance(one, TorchModule) and one.leaf is not None and one.leaf.parts:
            for name in one.leaf.parts:
                tensor = interp.attribute(one, name, node)
                if isinstance(tensor, TensorRef):
                    found.setdefault((one.leaf, name), Parameter(f"{prefix}{name}", tensor))
            known.add(one.leaf)
            continue
        held: dict[Any, Binding] = dict(one.children if isinstance(one, TorchModule) else one.names)
        for key, slot in held.items():
            leaf = slot.value.cell.leaf if isinstance(slot.value, TensorRef) else None
            if leaf is not None and not leaf.plain and leaf not in known:
                known.add(leaf)
                found[leaf, ""] = Parameter(f"{prefix}{key}", slot.value)
    for leaf in dict.fromkeys(interp.own_parameters(module)):
        if leaf not in known:
            found[leaf, ""] = one_of(leaf)
    return list(found.values())


def names_in_state(interp: Interpreter, state: Symbol, node: ast.expr) -> list[str]:
    """The names of parameters in what a module's ``state_dict()`` gave, if they are known; else none."""
    module = interp.states.get(state.key)
    known = [one.name for one in parameters(interp, module, node)] if module is not None else []
    names = [name for name in known if name is not None]
    return names if len(names) == len(known) else []


def one_of(leaf: Leaf) -> Parameter:
    """One of the parameters that a leaf stands for, whichever: who freezes it leaves the others as they are."""
    return Parameter(None, TensorRef(TensorImpl(leaf.node, leaf.storage, leaf=leaf, part=True)))


_NAMED = re.compile(r"""\b(weight|bias)(_\w*)?["']\s*[\]),]""")


@cache
def may_ask_by_name(text: str) -> bool:
    """Whether a file may look something up by the name of a parameter, as far as its text tells without parsing it."""
    return _NAMED.search(text) is not None


def taken_one_by_one(parsed: Parsed) -> frozenset[ast.Call]:
    """Calls of ``parameters()`` and ``named_parameters()`` of which the program freezes some, by a name or a number.

    Where a loop goes over what was chosen before (``for p in groups["frozen"]:``), or asks for names, these are all
    that give names, and all in comprehensions; where a value is looked up by the name of a parameter
    (``average["head.weight"]``), all that give names.  Where they are counted, all that are; and where a loop goes over
    them beside a list with an item for each (``zip(net.parameters(), flags)``), all that lists are made of.
    """
    found: set[ast.Call] = set()
    chooses_before = replaces = beside_others = False
    statements = (*parsed.nodes.of(ast.Assign), *parsed.nodes.of(ast.Expr))
    freezing = {one for one in statements if flag_given(one) or _is_replaced_by_name(one)}
    loops: list[ast.For | ast.While] = [*parsed.nodes.of(ast.For), *parsed.nodes.of(ast.While)]
    emptied = [one for one in parsed.nodes.of(ast.Expr) if _detaches_itself(one)]
    for loop in loops if freezing or emptied else ():
        source = loop.iter if isinstance(loop, ast.For) else loop.test
        calls = [one for one in ast.walk(source) if _gives_parameters(one)]
        inside = [one for part in loop.body for one in parsed.nodes.within(part)]
        replacing = bool(calls) and any(one in emptied or _is_replaced_by_name(one) for one in inside)
        replaces |= replacing
        if not (replacing or any(one in freezing for one in inside)):
            continue
        chooses_before = chooses_before or not calls
        if calls != [source] or not all(isinstance(flag_given(one), _FIXED) for one in loop.body):
            found.update(calls)
            beside_others |= bool(calls) and _is_of_pairs(source)
    for comprehension in parsed.nodes.of(ast.ListComp):
        if flag_given(comprehension.elt):
            found.update(one for one in ast.walk(comprehension) if _gives_parameters(one))
    if chooses_before or any(map(_is_named, found)):
        found.update(_chosen_from(parsed))
    if beside_others:
        found.update(_listed(parsed))
    if replaces:  # by others that go with them: `zip(net.named_parameters(), grads)`
        found.update(one for one in parsed.nodes.of(ast.Call) if _gives_parameters(one))
    if asks_by_name(parsed):
        found.update(one for one in parsed.nodes.of(ast.Call) if _gives_parameters(one) and _is_named(one))
    for call in parsed.nodes.of(ast.Call):
        if _counts(call):
            found.update(one for one in ast.walk(call) if _gives_parameters(one))
    return frozenset(found)


def _is_of_pairs(source: ast.expr) -> bool:
    match source:
        case ast.Call(ast.Name("zip"), [_, _, *_]):
            return True
    return False


def _listed(parsed: Parsed) -> Iterator[ast.Call]:
    """Calls of which a list with an item for each parameter is made: ``[p.requires_grad for p in parameters()]``."""
    comprehensions: list[ast.ListComp | ast.GeneratorExp]
    comprehensions = [*parsed.nodes.of(ast.ListComp), *parsed.nodes.of(ast.GeneratorExp)]
    for loop in (one for comprehension in comprehensions for one in comprehension.generators):
        if _gives_parameters(loop.iter):
            yield loop.iter
    for call in parsed.nodes.of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "map":
            yield from filter(_gives_parameters, call.args[1:])


def _counts(call: ast.Call) -> bool:
    """Whether a call tells how many items there are: ``len(list(net.parameters()))``, ``sum(1 for p in ...)``."""
    match call:
        case ast.Call(ast.Name("len")) | ast.Call(ast.Name("sum"), [ast.GeneratorExp(ast.Constant())]):
            return True
    return False


def asks_by_name(parsed: Parsed) -> bool:
    """Whether something is looked up by the name of a parameter: ``weights["head.bias"]``, ``weights.get(...)``."""
    looked_up = [one.slice for one in parsed.nodes.of(ast.Subscript)]
    for call in parsed.nodes.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get":
            looked_up += call.args[:1]
    return any(map(_names_parameter, looked_up))


def _names_parameter(node: ast.expr) -> bool:
    """Whether a text ends as torch's own modules call their parameters: ``"out.bias"``, ``f"conv{i}.weight"``."""
    match node:
        case ast.Constant(str(name)) | ast.JoinedStr([*_, ast.Constant(str(name))]):
            last = name.rpartition(".")[2]
            return last in ("weight", "bias") or last.startswith(("weight_", "bias_"))
    return False


def _chosen_from(parsed: Parsed) -> Iterator[ast.Call]:
    """The calls of which a program may choose some parameters for later: by names, or in a comprehension."""
    yield from (one for one in parsed.nodes.of(ast.Call) if _gives_parameters(one) and _is_named(one))
    for assignment in parsed.nodes.of(ast.Assign):  # `weights = list(net.parameters())`
        match assignment.value:
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[call]) if _gives_parameters(call):
                yield call
            case ast.List(elts=[ast.Starred(value=call)]) if _gives_parameters(call):
                yield call
    comprehensions: list[ast.ListComp | ast.DictComp] = [*parsed.nodes.of(ast.ListComp), *parsed.nodes.of(ast.DictComp)]
    for comprehension in comprehensions:
        if any(generator.ifs for generator in comprehension.generators):
            yield from (one for one in ast.walk(comprehension) if _gives_parameters(one))


def _is_replaced_by_name(statement: ast.AST) -> bool:
    """Whether a statement puts something in the place of a parameter: ``setattr(layer, name, nn.Parameter(...))``."""
    match statement:
        case ast.Expr(ast.Call(ast.Name("setattr"), [_, ast.Name(), _])):
            return True
    return False


def _detaches_itself(statement: ast.AST) -> bool:
    """Whether a statement is ``p.detach_()``, before something is put in the place of a parameter."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(), "detach_"))):
            return True
    return False


def _is_named(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "named_parameters"


_FIXED = (ast.Constant, ast.Name)


def _gives_parameters(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("parameters", "named_parameters")
    )


def buffers(module: TorchModule | Instance) -> Iterator[tuple[Hashable, Binding]]:
    """The tensors that a module and those under it hold and that are no parameters, by their names there."""
    for one in modules(module):
        held = one.value.names if isinstance(one.value, Instance) else one.value.children
        for name, slot in held.items():
            if isinstance(slot.value, TensorRef) and slot.value.cell.leaf is None:
                yield name, slot


def holds(module: TorchModule | Instance, wanted: Instance) -> bool:
    """Whether *wanted* is one of the modules under *module*."""
    return any(slot.value is wanted for slot in modules(module))
