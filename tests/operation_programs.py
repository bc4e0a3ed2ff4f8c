"""Small programs about every operation that PyTorch lists: methods of tensors, functions, and layers.

The names come from the installed torch and never from autofix's catalogue, so that an operation which nobody thought of
is found out.  Arguments are tried in turn until a call works; four programs are made of each call, and one more for
each other tensor that it is given.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import nn

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
base = torch.rand({shape}, requires_grad=True)
other = torch.rand({shape})
signs = torch.ones({rows})
classes = torch.zeros({rows}, dtype=torch.long)
places = torch.zeros({shape}, dtype=torch.long)
mask = torch.rand({shape}) > 0.5
"""
SHAPES = ("3, 4", "4, 4", "1, 3, 4", "1, 4, 4, 4", "1, 4, 4, 4, 4", "4")
_ARGUMENTS = """
    |2|0|-1|other|0.5|classes|places|mask|1, 1|0, 1|(1, 1)|-1, 1, 2|0, places|1, classes|mask, 0.5|mask, other
    other, other|other, 0.5|0, places, other|0, places, 0.5|0, classes[:1], 0.5|0, classes[:1], other[:1]|0.1, 0.9
    0, 1, 2|other, other, other|other, signs|classes, other|torch.float|(-1,)|(4,)|1, (1, 3)|2, 2|(2, 2)|1, 2, 1
    classes, classes, signs|"ij,ij->i", other|(4,), other[0]|other[0], other[1]|[classes], signs|mask, signs[:1]
    other[0]|other[:, 0], other[:, 0]|other, other[0]|other[0], 0.5|signs, signs|torch.ones(1)|torch.ones(4)
    other @ other.T, False|other.new_ones(4, 3)|other[:1, :2]|places, (8, 8)|2, classes"""
ARGUMENTS = tuple(given.strip() for given in _ARGUMENTS.strip().replace("\n", "|").split("|"))
LAYER_ARGUMENTS = (
    "", "1", "2", "4", "(4,)", "3", "4, 4", "1, 3", "1, 4", "2, 4", "0.5", "1, 0.5", "(2, 2)", "3, 4, 1", "4, 4, 1",
    "4, 4, 4", "1, (2, 2)", "4, 2", "(4, 4), 2",
)  # fmt: skip
CALLS = tuple(
    f"layer({given})"
    for given in "x|x, other|x, classes|x, signs|x, other, signs|x, other, other|x, places|x, x".split("|")
)
PROGRAMS = {
    "input changed": "y = {call}\nx.mul_(2)\n{total}.backward()\n",
    "result changed": "y = {call}\n{result}.mul_(2)\n{total}.backward()\n",
    "changed through the result": "h = x\nk = h.exp()\nx = k\ny = {call}\n{result}.mul_(2)\nk.sum().backward()\n",
    "detached before": "x = x.detach()\ny = {call}\n{total}.backward()\n",
}
OTHER_TENSORS = {
    "other": "mul_(2)",
    "signs": "mul_(2)",
    "classes": "add_(1)",
    "places": "add_(1)",
    "mask": "logical_not_()",
}
"""For each of the other tensors, the method that changes it."""
# They ask for hardware, change what torch does in later programs, or make a tensor that no program can use.
LEFT_OUT = frozenset(
    """share_memory_ pin_memory cuda xpu hpu ipu mtia module_load set_ resize_ resize_as_ resize resize_as
    requires_grad_ retain_grad register_hook register_post_accumulate_grad_hook sparse_resize_ rename rename_
    refine_names align_to record_stream index""".split()
)
LAYERS_LEFT_OUT = frozenset("DataParallel Parameter Buffer UninitializedParameter UninitializedBuffer".split())


class Call(NamedTuple):
    """A call of one operation that works: ``setup`` is a statement before it, ``shape`` the shape of its tensor."""

    name: str
    setup: str
    call: str
    shape: str
    result: str
    total: str


class Program(NamedTuple):
    """A program about a call: its ``kind`` names the tensor and the event that happens to it."""

    call: Call
    kind: str
    text: str


def header(shape: str) -> str:
    return HEADER.format(shape=shape, rows=shape.partition(",")[0])


@cache
def _compiled(text: str, mode: str) -> CodeType:
    return compile(text, "program.py", mode)


def _namespace(shape: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(_compiled(header(shape) + "x = base * 1.0 + 0.1\n", "exec"), names)
    return names


def _result(value: object) -> tuple[str, str] | None:
    """The expressions for a call's first tensor and for a number made of it."""
    name = "y"
    for _ in range(3):
        if isinstance(value, torch.Tensor):
            if value.is_complex():
                return name, f"{name}.real.sum()"
            return (name, f"{name}.sum()") if value.layout is torch.strided and not value.is_quantized else None
        if not isinstance(value, (tuple, list)) or not value:
            return None
        value, name = value[0], f"{name}[0]"
    return None


def _works(
    names: Callable[[str], dict[str, Any]], name: str, setups: tuple[str, ...], calls: tuple[str, ...]
) -> Call | None:
    """The first of the calls that gives a tensor with a graph, or else one without."""
    without: Call | None = None
    for setup in setups:
        for shape in SHAPES:
            known = names(shape)
            try:
                exec(_compiled(setup, "exec"), known)
            except Exception:
                break
            for call in calls:
                known["x"] = known["base"] * 1.0 + 0.1
                try:
                    value = eval(_compiled(call, "eval"), known)
                except Exception:
                    continue
                found = _result(value)
                if found is None:
                    continue
                made = Call(name, setup, call, shape, *found)
                if eval(_compiled(found[0], "eval"), known, {"y": value}).requires_grad:
                    return made
                without = without or made
    return without


def _listed(owner: object, left_out: frozenset[str] = frozenset()) -> list[str]:
    return [
        name
        for name in sorted(dir(owner))
        if name[0] != "_" and name not in left_out and callable(getattr(owner, name))
    ]


def calls() -> Iterator[Call]:
    """A call of every operation for which one is found."""
    spaces = {shape: _namespace(shape) for shape in SHAPES}

    def names(shape: str) -> dict[str, Any]:
        return dict(spaces[shape])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _listed(torch.Tensor, LEFT_OUT):
            found = _works(names, f"x.{name}", ("",), tuple(f"x.{name}({given})" for given in ARGUMENTS))
            if found is not None:
                yield found
        for name in filter(str.islower, _listed(nn.functional)):
            given = tuple(f"F.{name}(x, {given})" if given else f"F.{name}(x)" for given in ARGUMENTS)
            given = (f"F.{name}(places, x)", *given) if name.startswith("embedding") else given
            found = _works(names, f"F.{name}", ("",), given)
            if found is not None:
                yield found
        for name in _listed(nn, LAYERS_LEFT_OUT):
            kind = getattr(nn, name)
            if isinstance(kind, type) and issubclass(kind, nn.Module):
                setups = tuple(f"layer = nn.{name}({given})" for given in LAYER_ARGUMENTS)
                found = _works(names, f"nn.{name}", setups, CALLS)
                if found is not None:
                    yield found


def programs(call: Call) -> Iterator[Program]:
    """The programs about a call."""
    start = f"{header(call.shape)}{call.setup}\nx = base * 1.0 + 0.1\n"
    changes = {
        f"{name} changed": f"y = {{call}}\n{name}.{method}\n{{total}}.backward()\n"
        for name, method in OTHER_TENSORS.items()
        if re.search(rf"\b{name}\b", call.call)
    }
    for kind, text in {**PROGRAMS, **changes}.items():
        yield Program(call, kind, start + text.format(call=call.call, result=call.result, total=call.total))


def verdict(text: str) -> str | None:
    """PyTorch's verdict on a program: one of three mistakes, empty for no error, or None for any other failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "program.py", "exec"), {})
    except Exception as error:
        said = str(error)
        if "modified by an inplace" in said:
            return "overwritten"
        if "does not require grad and does not have a grad_fn" in said:
            return "no graph"
        if "a view and is being modified inplace" in said or "is a view and its base" in said:
            return "part changed"
        return None
    return ""
