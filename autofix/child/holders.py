"""Finds the variables by which a script holds a tensor, and the kind of each of them."""

from __future__ import annotations

import functools
import gc
import os
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .graph import node_of
from .stage import is_user_file

MOST = 50_000
"""Elements of containers that are looked at for one answer."""
DEPTH = 4
"""Attributes of attributes that are looked into."""
CLIMB = 8
"""References that are followed from a tensor to the variable at their end."""
CONTAINERS = (list, tuple, deque, set, frozenset, dict)
OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, torch.Tensor, str, int, float)
LIBRARIES = frozenset({"builtins", "torch", "collections", "abc", "typing"})
"""Packages whose classes hold no objects of the user in class attributes."""
OF_KERNEL = frozenset({"IPython", "ipykernel"})
"""Packages of a notebook's kernel, whose objects lead to all variables: `exit` is one of them."""
OF_MODULE = ("_parameters", "_buffers", "_modules")
"""Dictionaries of a module that hold the attributes of its source."""


def tensors_made_by(nodes: set[Any]) -> list[torch.Tensor]:
    """The live tensors whose graph begins at one of *nodes*."""
    tensors = (thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor))
    return [tensor for tensor in tensors if node_of(tensor) in nodes]


def holders(wanted: Mapping[int, int], root: str) -> list[dict[str, Any]]:
    """The user's variables, attributes and containers that hold one of the *wanted* tensors (keys are their ``id``).

    Each is described by the ``name`` that the source would give it (``temp``, ``self.hidden``), the ``kind`` of holder,
    its ``form`` and the form of its ``item`` (see :func:`form_of`), the file and function whose frame knows the name,
    and the value that *wanted* has for the tensor (``at``).
    """
    found: list[dict[str, Any]] = []
    for space, file, function in namespaces(root):
        budget = [MOST]
        for name, value in list(space.items()):
            for path, kind, holder in paths_to(wanted, name, value, budget):
                found.append(_holder(wanted, path, kind, holder, file, function))
    return found or list(hidden_holders(wanted, root))


def _holder(wanted: Mapping[int, int], path: str, kind: str, holder: Any, file: str, function: str) -> dict[str, Any]:
    item, at = first_of(wanted, holder)
    return {
        "name": path,
        "kind": kind,
        "form": form_of(holder),
        "item": form_of(item),
        "at": at,
        "file": file,
        "function": function,
    }


def namespaces(root: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """The variables of the user's running frames, the innermost first, and of the user's modules; file and function."""
    seen: set[str] = set()
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename, root):
            file = os.path.relpath(code.co_filename, root)
            if code.co_name == "<module>":
                seen.add(code.co_filename)
            yield frame.f_locals, file, getattr(code, "co_qualname", code.co_name)
        frame = frame.f_back
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path not in seen and is_user_file(path, root):
            seen.add(path)
            yield vars(module), os.path.relpath(path, root), "<module>"


def paths_to(
    wanted: Mapping[int, int], name: str, value: Any, budget: list[int], depth: int = DEPTH
) -> Iterator[tuple[str, str, Any]]:
    """The paths from the variable *name* to the objects *wanted*, with the kind of their holder and the holder."""
    if name.startswith("__"):
        return
    if id(value) in wanted:
        yield name, "variable" if "." not in name else "attribute", value
        return
    if contains(wanted, value, budget):
        yield name, type(value).__name__, value
        return
    if depth > 0:
        for key, inner in attributes_of(value, budget):
            yield from paths_to(wanted, f"{name}.{key}", inner, budget, depth - 1)


def attributes_of(value: Any, budget: list[int]) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, a module's parameters, buffers and modules among them; the objects of a list."""
    if isinstance(value, OPAQUE) or type(value).__module__.partition(".")[0] in OF_KERNEL:
        return
    if isinstance(value, (list, tuple)) and len(value) < 64:
        for index, inner in enumerate(value):
            if getattr(inner, "__dict__", None):
                yield str(index), inner
        return
    if isinstance(value, functools.partial):
        yield from value.keywords.items()
        yield from ((str(index), one) for index, one in enumerate(value.args))
        return
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict):
        return
    budget[0] -= len(attributes)
    if budget[0] <= 0:
        return
    for key, inner in list(attributes.items()):
        if key in OF_MODULE and isinstance(inner, dict):
            yield from ((part, one) for part, one in list(inner.items()) if isinstance(part, str))
        elif isinstance(key, str) and not key.startswith("__"):
            yield key, inner
    for kind in type(value).__mro__:
        if kind.__module__.partition(".")[0] not in LIBRARIES:
            shared = {key: one for key, one in vars(kind).items() if isinstance(one, (torch.Tensor, *CONTAINERS))}
            yield from ((key, one) for key, one in shared.items() if not key.startswith("__"))


def contains(wanted: Mapping[int, int], value: Any, budget: list[int], depth: int = 3) -> bool:
    """Whether the container *value* holds one of *wanted*, perhaps in containers within it."""
    if not isinstance(value, CONTAINERS):
        return False
    inner = elements_of(value)
    budget[0] -= len(inner)
    if budget[0] < 0:
        return False
    return any(id(one) in wanted or (depth > 0 and contains(wanted, one, budget, depth - 1)) for one in inner)


def elements_of(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def first_of(wanted: Mapping[int, int], holder: Any) -> tuple[Any, int]:
    """The element of *holder* that is, or contains, the first *wanted* object, and the value of *wanted* for it."""
    if id(holder) in wanted:
        return holder, wanted[id(holder)]
    for one in elements_of(holder) if isinstance(holder, CONTAINERS) else ():
        if id(one) in wanted:
            return one, wanted[id(one)]
        if contains(wanted, one, [MOST]):
            return one, first_of(wanted, one)[1]
    return None, 0


def form_of(value: Any, depth: int = 2) -> str:
    """Form of a value, as far as a rewrite must know it: ``tensor``, ``tuple`` (of tensors), ``list``, ``dict``,
    ``record`` (a named tuple), ``nested`` (containers of containers) or ``other``."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if type(value) not in (tuple, list, dict) and not (isinstance(value, tuple) and hasattr(value, "_fields")):
        return "other"
    inner = {form_of(one, depth - 1) for one in elements_of(value)[:8]} if depth else {"other"}
    if inner == {"tensor"}:
        return "record" if hasattr(value, "_fields") else type(value).__name__
    return "nested" if inner and inner <= {"tuple", "list"} and isinstance(value, (list, tuple)) else "other"


def forms_in_frames(root: str) -> list[dict[str, Any]]:
    """Forms of the user's variables that hold tensors, for every running frame: file, function, and form by name."""
    found = []
    for space, file, function in namespaces(root):
        names: dict[str, str] = {}
        for name, value in list(space.items())[:400]:
            if name.startswith("__"):
                continue
            budget = [400]
            for path, inner in ((name, value), *((f"{name}.{k}", v) for k, v in attributes_of(value, budget))):
                if isinstance(inner, (torch.Tensor, *CONTAINERS)):
                    names[path] = form_of(inner)
        if names:
            found.append({"file": file, "function": function, "names": names})
    return found


def hidden_holders(wanted: Mapping[int, int], root: str) -> Iterator[dict[str, Any]]:
    """Holders that no running frame leads to: closures, waiting generators, and objects in libraries."""
    level: list[tuple[Any, Any]] = [(thing, thing) for thing in gc.get_objects() if id(thing) in wanted]
    seen = {id(sys._getframe()), id(level)}
    for _ in range(CLIMB):
        above: list[tuple[Any, Any]] = []
        seen.add(id(above))
        for child, below in level:
            for one in gc.get_referrers(child):
                if id(one) in seen or isinstance(one, types.ModuleType) or any(one is pair for pair in level):
                    continue
                seen.add(id(one))
                # An object may hold its attributes itself, or in a dictionary of its own.
                held = below if getattr(one, "__dict__", None) is child else child
                end = _end_of(one, held, root)
                if end is not None:
                    kind = type(held).__name__ if isinstance(held, CONTAINERS) else "attribute"
                    yield _holder(wanted, end[0], kind, held, *end[1:])
                elif isinstance(one, (*CONTAINERS, types.CellType)) and len(above) < 200:
                    above.append((one, below if isinstance(child, types.CellType) else child))
        level = above


def _end_of(one: Any, child: Any, root: str) -> tuple[str, str, str] | None:
    """The name, file and function of a variable or attribute, where *one* holds *child* under a name."""
    if isinstance(one, types.FunctionType):
        code = one.__code__
        cells = zip(code.co_freevars, one.__closure__ or (), strict=False)
        held = ((name, cell) for name, cell in cells if cell is child or _content(cell) is child)
        function = one.__qualname__.rpartition(".<locals>")[0] or "<module>"
        return _named(next(held, ("", None))[0], code.co_filename, function, root)
    frame = one if isinstance(one, types.FrameType) else getattr(one, "gi_frame", None)
    if isinstance(frame, types.FrameType):
        code = frame.f_code
        name = next((name for name, value in frame.f_locals.items() if value is child), "")
        return _named(name, code.co_filename, getattr(code, "co_qualname", code.co_name), root)
    attributes = getattr(one, "__dict__", None)
    if isinstance(one, OPAQUE) or not isinstance(attributes, dict):
        return None
    name = next((name for name, value in attributes.items() if value is child), "")
    file = getattr(sys.modules.get(type(one).__module__), "__file__", None)
    return _named(name and f"self.{name}", str(file), type(one).__qualname__, root)


def _named(name: str, path: str, function: str, root: str) -> tuple[str, str, str] | None:
    if not name or not is_user_file(path, root):
        return None
    return name, os.path.relpath(path, root), function


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
