"""Callers' names for a state that an object keeps: ``net.memory.state`` for ``self.state``.

Also for a container of states: ``net.memory.states`` for ``self.states[node]``.

A state that several calls within one iteration update can only be cut loose between two iterations, and the function
in which the loop stands knows it under another name than the method that sets it.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

from autofix.codemods.autograd.graph import StoreEvent
from autofix.codemods.facts.parts import Form
from autofix.codemods.interpreter import class_lookup, module_tree
from autofix.codemods.interpreter.forms import form_of
from autofix.codemods.interpreter.values import (
    Instance,
    Mapping,
    Name,
    Scope,
    Sequence,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.environment import Frame

DEPTH = 4
"""Attributes of attributes that are looked into."""


def names(interp: Interpreter, provenance: tuple[StoreEvent, ...]) -> tuple[StoreEvent, ...]:
    """The statements of *via* that set attributes, under the names of the functions that are running."""
    found: dict[str, StoreEvent] = {}
    standing: dict[int, dict[str, Value]] = {}
    for kept in provenance:
        inside = isinstance(kept.owner, (Sequence, Mapping))
        if kept.owner is None or not (inside or "." in kept.name):
            continue
        if inside:
            kept = kept._replace(form=Form.OTHER if _is_fixed(kept.owner) else form_of(kept.owner), items=True)
        last = "" if inside or isinstance(kept.owner, TensorImpl) else "." + kept.name.rpartition(".")[2]
        for frame in reversed(interp.frames):
            if id(frame) not in standing:
                standing[id(frame)] = _standing(interp, frame)
            known = standing[id(frame)]
            path = _path(known, kept.owner) or _among_modules(frame.scope, known, kept.owner)
            if path and (inside or path + last != kept.name):
                found.setdefault(path + last, kept._replace(name=path + last, expression=None))
                break
        else:
            if inside:  # a default argument, or a closure's: only the function itself knows it
                own = kept.name.partition("[")[0]
                found.setdefault(own, kept._replace(name=own, expression=None))
    return tuple(found.values())


def _is_fixed(container: Value) -> bool:
    """Whether all of a container's items cannot be replaced at once."""
    return isinstance(container, Sequence) and container.kind != "list"


def _standing(interp: Interpreter, frame: Frame) -> dict[str, Value]:
    """The names of a call and their values, but for those that a loop which is over has left behind."""
    running = {id(point.statement.node) for point in interp.loops}
    tree = frame.function.node if frame.function is not None else interp.sources.main.tree
    left = {name for loop, names in _targets(tree) if id(loop) not in running for name in names}
    return {name: slot.value for name, slot in frame.scope.names.items() if name not in left}


@lru_cache(maxsize=256)
def _targets(tree: ast.AST) -> list[tuple[ast.AST, list[str]]]:
    """The ``for`` loops of a function or a module, each with the names that it sets."""
    return [
        (loop, [part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)])
        for loop in ast.walk(tree)
        if isinstance(loop, (ast.For, ast.AsyncFor))
    ]


def _path(known: dict[str, Value], wanted: Value) -> str:
    """Path by which a function with the names *known* reaches an object, by the fewest attributes; empty for none."""
    seen: set[int] = set()
    pending = deque((name, value, 0) for name, value in known.items())
    while pending:
        path, value, depth = pending.popleft()
        if value is wanted or (isinstance(value, TensorRef) and value.cell is wanted):
            return path
        if id(value) in seen or depth == DEPTH:
            continue
        seen.add(id(value))
        pending.extend((f"{path}{name}", part, depth + 1) for name, part in _attributes(value))
    return ""


def _among_modules(scope: Scope, names_here: dict[str, Value], wanted: Value) -> str:
    """``net[*Leaky]`` for one of the modules of a class of the program's that stand anywhere below ``net``.

    ``net[*Leaky].states`` for a container that such a module has. It is ``net[*?]`` where *scope* does not know the
    class by its own name.
    """
    owner, rest = (wanted, "") if isinstance(wanted, Instance) else _owner_among(names_here, wanted)
    if owner is None or not class_lookup.is_module(owner):
        return ""
    for name, value in _modules_of(names_here):
        if value is not owner and module_tree.holds(value, owner):
            known: Scope | None = scope
            while known is not None:
                found = known.names.get(owner.cls.name)
                if found is not None and found.value is owner.cls:
                    return f"{name}[*{owner.cls.name}]{rest}"
                known = known.parent or (known.globals if known.globals is not known else None)
            return f"{name}[*?]{rest}"
    return ""


def _owner_among(names_here: dict[str, Value], wanted: Value) -> tuple[Instance | None, str]:
    """The module below one that has a name here, and the suffix, by which a container is one of its attributes."""
    for _, value in _modules_of(names_here):
        for _, module in module_tree.paths(value):
            if isinstance(module, Instance):
                suffix = next((suffix for suffix, part in _attributes(module) if part is wanted), "")
                if suffix:
                    return module, suffix
    return None, ""


def _modules_of(known: dict[str, Value]) -> Iterator[tuple[str, TorchModule | Instance]]:
    """The modules among the names, and those that other objects have as attributes: ``self.policy`` of an agent."""
    for name, value in known.items():
        if _has_modules(value):
            yield name, value
        elif isinstance(value, Instance):
            parts = ((f"{name}{part}", inner) for part, inner in _attributes(value))
            yield from ((path, inner) for path, inner in parts if _has_modules(inner))


def _has_modules(value: Value) -> TypeGuard[TorchModule | Instance]:
    """Whether a value has the method ``modules``: it is a module, or its class has a base that was not read."""
    if class_lookup.is_any_module(value):
        return True
    bases = class_lookup.lineage(value.cls) if isinstance(value, Instance) else ()
    return any(isinstance(base, Name) and not base.path.startswith(("builtins.", "abc.", "typing.")) for base in bases)


def _attributes(value: Value) -> Iterator[tuple[str, Value]]:
    """Parts of an object, each with the suffix that follows the object's own name.

    ``[*]`` stands for each of a list of modules, where all of them are of one class.
    """
    if isinstance(value, Instance):
        slots = value.names
    elif isinstance(value, TorchModule):
        parts = [slot.value for name, slot in value.children.items() if isinstance(name, int)]
        if parts and all(isinstance(part, Instance) and part.cls is parts[0].cls for part in parts):
            yield from (("[*]", part) for part in parts)
        slots = {name: slot for name, slot in value.children.items() if isinstance(name, str)}
    else:
        return
    for name, slot in slots.items():
        if isinstance(name, str) and name.isidentifier():  # `vars(self)[f"layer{i}"] = ...` sets an unknown one
            yield f".{name}", slot.value
